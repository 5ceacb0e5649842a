// Circuits: what a trained logic network is. Simplified, counted, and run on bits, 64 cells a word.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "windrow/logic.h"

namespace wr::logic {

/// Instead of a wire: a value that never changes.
inline constexpr std::int32_t kZero = -1, kOne = -2;

struct Gate {
  int function = 0;  // one of the sixteen, see function_name()
  std::int32_t a = 0, b = 0;
  friend bool operator==(const Gate&, const Gate&) = default;
};

/// Wires 0 to inputs - 1 are given; gate i drives wire inputs + i and reads earlier ones (or kZero, kOne).
struct Circuit {
  std::int64_t inputs = 0;
  std::vector<Gate> gates;
  std::vector<std::int32_t> outputs;

  /// What it makes of one assignment.
  std::vector<bool> operator()(const std::vector<bool>& in) const;
};

/// The likeliest function of every gate. Of an automaton: inputs are channel * 9 + neighbour, outputs the channels.
Circuit circuit_of(const std::vector<Layer>& layers, std::int64_t inputs);
Circuit circuit_of(const Automaton& automaton);
/// The same with functions that are given: for each of automaton.parameters(), one a gate.
using Functions = std::vector<std::vector<int>>;
Functions functions_of(const Automaton& automaton);
Circuit circuit_of(const Automaton& automaton, const Functions& functions);
/// How many gates that circuit has of each of automaton.parameters(): perception's once for every channel.
std::vector<std::size_t> gates_by_layer(const Automaton& automaton);

/// An equal circuit without pass-throughs, constants, double negations, equal gates and gates that nothing reads.
Circuit simplified(const Circuit& circuit);
/// Of an automaton's circuit: for each wire, whether the first `visible` channels, or one of the wires `also`, depend
/// on it, if only after many steps.
std::vector<bool> seen_wires(const Circuit& circuit, std::int64_t visible, const std::vector<std::int32_t>& also = {});
/// Of an automaton's circuit: channels that the first `visible` do not depend on, not even over many steps, become 0.
Circuit without_unseen_channels(const Circuit& circuit, std::int64_t visible);
/// How many gates there are of each kind ("and", "xor", "not", ...).
std::map<std::string, std::int64_t> count_by_kind(const Circuit& circuit);

/// States of an automaton of bits, channel by channel, 64 cells a word.
class BitGrid {
 public:
  BitGrid(std::int64_t channels, std::int64_t height, std::int64_t width);
  std::int64_t channels() const { return channels_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::int64_t words() const { return words_; }  // a row
  bool get(std::int64_t channel, std::int64_t y, std::int64_t x) const;
  void set(std::int64_t channel, std::int64_t y, std::int64_t x, bool value);
  std::uint64_t* row(std::int64_t channel, std::int64_t y) { return bits_.data() + (channel * height_ + y) * words_; }
  const std::uint64_t* row(std::int64_t channel, std::int64_t y) const {
    return bits_.data() + (channel * height_ + y) * words_;
  }
  friend bool operator==(const BitGrid&, const BitGrid&) = default;

 private:
  std::int64_t channels_, height_, width_, words_;
  std::vector<std::uint64_t> bits_;
};

/// States of 64 small grids at once: a word a cell, a bit a grid.
class BitGrids {
 public:
  BitGrids(std::int64_t channels, std::int64_t height, std::int64_t width)
      : channels_(channels),
        height_(height),
        width_(width),
        words_(static_cast<std::size_t>(channels * height * width), 0) {}
  std::int64_t channels() const { return channels_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::uint64_t* row(std::int64_t channel, std::int64_t y) { return words_.data() + (channel * height_ + y) * width_; }
  const std::uint64_t* row(std::int64_t channel, std::int64_t y) const {
    return words_.data() + (channel * height_ + y) * width_;
  }

 private:
  std::int64_t channels_, height_, width_;
  std::vector<std::uint64_t> words_;
};

/// Runs an automaton's circuit on grids of bits.
class BitAutomaton {
 public:
  explicit BitAutomaton(const Circuit& circuit, WINDROW_WHERE);
  void step(const BitGrid& from, BitGrid& to, Border border);
  void step(const BitGrids& from, BitGrids& to, Border border);

 private:
  std::uint64_t* at(std::int32_t wire);
  void run_gates();
  Circuit circuit_;
  std::vector<std::int32_t> used_;     // inputs that some gate or output reads
  std::vector<std::uint64_t> values_;  // of all wires, for some words
};

}  // namespace wr::logic
