// Checkpoints: states by name in a safetensors file.
#include "windrow/checkpoint.h"

#include "windrow/error.h"

namespace wr {

namespace {

Spec spec_of(const Array& array) { return {array.dtype(), array.shape()}; }

}  // namespace

void CheckpointStates::add(const std::string& name, const State& state) {
  if (!state) throw Error("checkpoint: '" + name + "' is an empty State");
  if (name.empty() || name == "__metadata__") throw Error("checkpoint: no state can be called '" + name + "'");
  if (!states_.emplace(name, state).second) throw Error("checkpoint: there are two states called '" + name + "'");
}

void CheckpointStates::add_group(const std::string& group, const std::vector<State>& states) {
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::string own = states[i] ? states[i].name() : "";
    const std::string name = group + "." + (own.empty() ? std::to_string(i) : own);
    std::string free = name;
    for (int number = 2; states_.contains(free); ++number) free = name + "#" + std::to_string(number);
    add(free, states[i]);
  }
}

void save_checkpoint(const std::string& path, const CheckpointStates& states, const Metadata& metadata) {
  std::map<std::string, Array> tensors;
  for (const auto& [name, state] : states.all()) tensors.emplace(name, state.value());
  write_safetensors(path, tensors, metadata);
}

Metadata load_checkpoint(const std::string& path, const CheckpointStates& states) {
  Safetensors file = read_safetensors(path);
  std::string wrong;
  for (const auto& [name, state] : states.all()) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) {
      wrong += "\n  missing: " + name + " " + to_string(state.spec());
    } else if (spec_of(found->second) != state.spec()) {
      wrong += "\n  differs: " + name + " is " + to_string(spec_of(found->second)) + " in the file, " +
               to_string(state.spec()) + " in the program";
    }
  }
  for (const auto& [name, array] : file.tensors)
    if (!states.all().contains(name)) wrong += "\n  unexpected: " + name + " " + to_string(spec_of(array));
  if (!wrong.empty()) throw Error(path + ": the checkpoint does not fit:" + wrong);
  // Nothing below can fail: what is set has been read and has the right type.
  for (const auto& [name, state] : states.all()) State(state).set(file.tensors.at(name));
  return std::move(file.metadata);
}

}  // namespace wr
