// Wires that a search has changed, in checkpoints: those of the seed are not kept.
#pragma once

#include <string>
#include <vector>

#include "windrow/checkpoint.h"
#include "windrow/logic.h"

namespace wr::apps {

/// The group of a checkpoint's states that wires are in.
inline constexpr const char* kWires = "wires";
/// For each layer of the update, [gates, 2]: which wires of the layer before its gates read.
std::vector<State> wire_states(const logic::Automaton& automaton);
/// If a file has wires, the automaton gets them; whether it has. An Error says what is wrong with them.
bool take_wires(const Safetensors& file, const std::string& path, logic::Automaton& automaton);

}  // namespace wr::apps
