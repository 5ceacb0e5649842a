// Running a trained automaton's circuit on bits: starts, damage, what is right, frames.
#pragma once

#include <optional>

#include "apps/automaton/automaton.h"
#include "windrow/random.h"

namespace wr::apps {

class AutomatonShow {
 public:
  AutomatonShow(const TrainedAutomaton& trained, std::int64_t height, std::int64_t width, std::uint64_t seed);
  void step();
  /// Random states in a square in the middle, a quarter of the grid's sides.
  void damage();
  /// The share of cells that are as the task wants them; nothing where it says nothing about this size.
  std::optional<double> right() const;
  /// A frame for Gif: one of eight colours a cell.
  std::vector<std::uint8_t> colours() const;
  const logic::BitGrid& grid() const { return now_; }
  const logic::Circuit& circuit() const { return circuit_; }

 private:
  void begin();
  std::uint64_t firing();
  void step_life();

  AutomatonSettings settings_;
  logic::Circuit circuit_;
  logic::BitAutomaton automaton_;
  logic::BitGrid now_, next_;
  std::vector<std::uint8_t> life_;  // the same board by plain loops
  Rng random_;
};

/// The circuit of a trained automaton, without what nobody sees.
logic::Circuit visible_circuit(const TrainedAutomaton& trained);
/// Soft and hard loss over the updates, as SVG.
std::string loss_curve(const std::vector<LossPoint>& history);
/// "c0 NW", ...: the automaton's inputs.
std::vector<std::string> input_names(std::int64_t channels);

}  // namespace wr::apps
