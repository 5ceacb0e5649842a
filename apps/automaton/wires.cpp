#include "apps/automaton/wires.h"

#include <fmt/format.h>

#include <algorithm>

namespace wr::apps {

std::vector<State> wire_states(const logic::Automaton& automaton) {
  std::vector<State> states;
  for (const logic::Layer& layer : automaton.update()) {
    std::vector<std::int32_t> ends;
    for (const Wire& wire : layer.wiring) ends.insert(ends.end(), {wire.a, wire.b});
    states.emplace_back(Array::from(ends, {std::ssize(layer.wiring), 2}), layer.logits.name());
  }
  return states;
}

bool take_wires(const Safetensors& file, const std::string& path, logic::Automaton& automaton) {
  const std::string group = fmt::format("{}.", kWires);
  if (std::none_of(file.tensors.begin(), file.tensors.end(), [&](const auto& t) { return t.first.starts_with(group); }))
    return false;
  for (std::size_t layer = 0; layer < automaton.update().size(); ++layer) {
    const logic::Layer& of = automaton.update()[layer];
    const std::string name = group + of.logits.name();
    const Spec needed{DType::i32, {std::ssize(of.wiring), 2}};
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end()) throw Error(fmt::format("{}: has no {} {}", path, name, to_string(needed)));
    const Spec spec{found->second.dtype(), found->second.shape()};
    if (!(spec == needed))
      throw Error(fmt::format("{}: {} is {}, its settings need {}", path, name, to_string(spec), to_string(needed)));
    const auto ends = found->second.to_vector<std::int32_t>();
    const std::int64_t most = automaton.wires_before(layer) - 1;
    for (const std::int32_t end : ends)
      if (end < 0 || end > most)
        throw Error(fmt::format("{}: {} has a wire {}; expected 0 to {}", path, name, end, most));
    Wiring wiring;
    for (std::size_t i = 0; i < ends.size(); i += 2) wiring.push_back({ends[i], ends[i + 1]});
    automaton.rewire(layer, std::move(wiring));
  }
  return true;
}

}  // namespace wr::apps
