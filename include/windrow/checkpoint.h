// Checkpoints: all that training needs to go on exactly where it stopped, in one safetensors file that other tools read
// too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "windrow/array.h"
#include "windrow/error.h"
#include "windrow/spec.h"
#include "windrow/tensor.h"

namespace wr {

/// Values by name. One that is not there is refused by name, with the caller's line.
template <class Value>
struct ByName : std::map<std::string, Value> {
  using std::map<std::string, Value>::map;
  // NOLINTNEXTLINE(google-explicit-constructor): a plain map stands wherever one of these is wanted
  ByName(std::map<std::string, Value> plain) : std::map<std::string, Value>(std::move(plain)) {}
  const Value& at(const std::string& name, Location where = Location::current()) const {
    const auto found = this->find(name);
    return found != this->end() ? found->second : none(name, where);
  }
  Value& at(const std::string& name, Location where = Location::current()) {
    const auto found = this->find(name);
    return found != this->end() ? found->second : none(name, where);
  }

 private:
  [[noreturn]] Value& none(const std::string& name, Location where) const {
    std::string names;
    for (const auto& [other, value] : *this) names += (names.empty() ? "" : ", ") + other;
    fail(where, "there is nothing called '" + name + "'; there is " + (names.empty() ? "nothing at all" : names));
  }
};

using Metadata = ByName<std::string>;

// ---- safetensors ----
struct Safetensors {
  ByName<Array> tensors;
  Metadata metadata;
};
/// Reads F32, F64, I32, U8 and BOOL. Refuses everything the format's own library refuses, and duplicate names.
Safetensors read_safetensors(const std::string& path);
/// What a file holds, without reading the tensors.
struct SafetensorsHeader {
  ByName<Spec> tensors;
  Metadata metadata;
};
SafetensorsHeader read_safetensors_header(const std::string& path);
/// The file appears complete or not at all; one that was there before stays until then.
void write_safetensors(const std::string& path, const std::map<std::string, Array>& tensors,
                       const Metadata& metadata = {});

// ---- checkpoints ----
/// The states of a run under names that stay the same from one program start to the next:
///
///     CheckpointStates all;
///     all.add_group("model", net.parameters());
///     all.add_group("optimiser", adam.states());
///     all.add("dropout", random.counter());
///     save_checkpoint("run.safetensors", all, {{"loader", to_string(loader.state())}, {"lr", "0.001"}});
///     const Metadata settings = load_checkpoint("run.safetensors", all);
///
/// Optimisers have their moments once the step is traced: compile first (with open sizes: prepare() too), then add.
class CheckpointStates {
 public:
  /// Under the name itself.
  void add(const std::string& name, const State& state);
  /// Each under "group.name", where a state that has no name is called by its position. Equal names within a group get
  /// a number: "model.weight", "model.weight#2".
  void add_group(const std::string& group, const std::vector<State>& states);
  const std::map<std::string, State>& all() const { return states_; }

 private:
  std::map<std::string, State> states_;
};

/// Writes all states and the metadata to a new file that takes the old one's place when it is complete and on the disk.
void save_checkpoint(const std::string& path, const CheckpointStates& states, const Metadata& metadata = {});
/// Sets all states to what the file holds and gives its metadata. If a name is missing or unexpected, or a shape or
/// type differs, it throws one Error that lists every such case, and no state has changed.
Metadata load_checkpoint(const std::string& path, const CheckpointStates& states);

}  // namespace wr
