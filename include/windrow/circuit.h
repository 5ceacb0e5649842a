// Circuits: what a trained logic network is. Simplified, counted, drawn, exported as C and Verilog, and run on bits, 64
// cells a word.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "windrow/logic.h"
#include "windrow/step.h"

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
/// Of an automaton's circuit: for each wire, whether the first `visible` channels depend on it, if only after many
/// steps.
std::vector<bool> seen_wires(const Circuit& circuit, std::int64_t visible);
/// Of an automaton's circuit: channels that the first `visible` do not depend on, not even over many steps, become 0.
Circuit without_unseen_channels(const Circuit& circuit, std::int64_t visible);
/// How many gates there are of each kind ("and", "xor", "not", ...).
std::map<std::string, std::int64_t> count_by_kind(const Circuit& circuit);

/// A function `void name(const uint64_t* in, uint64_t* out)` that works on 64 cells at once.
std::string to_c(const Circuit& circuit, const std::string& name);
/// A whole program round it: `program HEIGHT WIDTH STEPS SEED zero|wrap print|time|plain` runs a grid from a random
/// start and prints the states as lines of 0 and 1, channel by channel; or the cells a second; or those of a plain loop
/// that does one cell after the other (zero border), having checked that it gives the same.
std::string to_c_program(const Circuit& circuit);
/// A module `name` with ports in and out.
std::string to_verilog(const Circuit& circuit, const std::string& name);
/// A drawing: inputs on the left, gates in columns by depth.
std::string to_svg(const Circuit& circuit, const std::vector<std::string>& input_names);

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

/// What hard gates make of one grid in some steps. Asked again with a few other gates, it computes what changes and
/// nothing else: for searches that try one change after the other.
class BitRollout {
 public:
  BitRollout(const Automaton& automaton, const BitGrid& start, const BitGrid& target, std::int64_t steps,
             Border border);
  ~BitRollout();
  BitRollout(BitRollout&&) noexcept;
  BitRollout& operator=(BitRollout&&) noexcept;
  /// Wrong cells of the target's channels after the last step.
  std::int64_t wrong(const Functions& functions);
  /// What it takes of memory.
  static std::int64_t bytes(const Automaton& automaton, std::int64_t height, std::int64_t width, std::int64_t steps);

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

// ---- after training
// ---------------------------------------------------------------------------------------------------------------------
struct PolishOptions {
  double likely = 0.005;      // functions of at least this probability are tried
  double any = 0.4;           // share of tries that give a gate which does not just pass a wire any function at all
  double idle = 0.2;          // share of tries that give any gate any function
  double more = 0.3;          // share of tries that change one gate more, and of these yet another, ...
  std::int64_t tries = 2000;  // at most
  std::uint64_t seed = 1;
};
/// What polish() asks about a task.
struct PolishExam {
  /// How much is wrong with these functions.
  std::function<std::int64_t(const Functions&)> errors;
  /// At the automaton's hard gates as they are, the derivatives of the sum of all outputs that should be 0 less those
  /// that should be 1: for each of automaton.parameters(), [gates, 4] by its coefficients.
  struct Slopes {
    std::vector<Array> of_all, of_wrong;  // of all outputs, and of those that are wrong
    std::int64_t wrong = 0;               // how many that are

    /// In a trace, what a step is to return: a hard rule, what it made of some start, and what it should have.
    static std::vector<Tensor> trace(const Automaton::Rule& rule, const Tensor& shown, const Tensor& target);
    /// From that step's results.
    explicit Slopes(const Step::Results& results);
  };
  std::function<Slopes()> slopes;  // may be empty
  std::int64_t visible = 1;        // the first channels, which are looked at
};
/// Gates that are still mixtures do something else once they are hard. A search among hard circuits: a gate or a few at
/// a time get other functions, which are kept where no more is wrong than before; a gate's new function and its old one
/// exchange logits. Slopes tell which changes of one gate promise most, and these are tried first; then likely
/// functions and some others at random. Where nothing helps, something that mends one cell and breaks a few others is
/// taken as a new beginning. Ends at 0 errors. Returns how many are left.
std::int64_t polish(const Automaton& automaton, const PolishExam& exam, const PolishOptions& options = {});

}  // namespace wr::logic
