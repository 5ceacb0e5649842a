// What a circuit does to some grids over some steps, for searches that ask it thousands of times.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "apps/automaton/frame.h"
#include "windrow/circuit.h"

namespace wr::apps {

/// A function as a polynomial modulo 2, each term there (all ones) or not.
struct Polynomial {
  Word one = 0, a = 0, b = 0, ab = 0;
};
const Polynomial& polynomial_of(int function);

/// What becomes of a gate of the update: another function, other wires of the layer before.
struct GateChange {
  std::size_t layer, gate;  // of Automaton::update()
  int function;
  Wire wire;
};

/// What hard gates make of some grids in some steps. Asked again with a few other gates, it computes what changes and
/// nothing else: for searches that try one change after the other.
class BitRollout {
 public:
  /// Starts and targets: a grid each, of one size.
  BitRollout(const logic::Automaton& automaton, const std::vector<logic::BitGrid>& starts,
             const std::vector<logic::BitGrid>& targets, std::int64_t steps, Border border);
  /// What it takes of memory.
  static std::int64_t bytes(const logic::Automaton& automaton, std::int64_t grids, std::int64_t height,
                            std::int64_t width, std::int64_t steps);

  /// Wrong cells of the targets' channels after the last step.
  std::int64_t wrong() const;
  /// The same with these functions, as they stay until it is asked again.
  std::int64_t wrong(const logic::Functions& functions);
  /// The same with changes that keep() or take_back() is to follow.
  std::int64_t wrong_with(const std::vector<GateChange>& changes);
  void keep();
  void take_back();

  /// As it stands: gates are by layer, perception's first.
  const logic::Circuit& circuit() const { return circuit_; }
  std::int64_t steps() const { return steps_; }
  const Frame& frame() const { return frame_; }
  std::size_t words() const { return words_; }  // of a plane
  const std::vector<CellBits>& targets() const { return targets_; }
  /// A plane: what a wire of the circuit is in a step.
  const Word* value(std::int64_t step, std::size_t wire) const {
    return values_.data() + (static_cast<std::size_t>(step) * wires_ + wire) * words_;
  }
  std::size_t update_layers() const { return first_of_layer_.size() - perception_layers_; }
  std::size_t gates_of(std::size_t update_layer) const;
  /// The circuit's wire that a gate of the update drives.
  std::size_t wire_of(std::size_t update_layer, std::size_t gate) const {
    return inputs_ + first_of_layer_[perception_layers_ + update_layer] + gate;
  }
  /// Wires that a layer of the update can read, and which of the circuit's a number of them is.
  std::size_t wires_before(std::size_t update_layer) const;
  std::size_t wire_before(std::size_t update_layer, std::size_t number) const;

 private:
  struct Reader {
    std::int32_t gate;
    bool by_a;
    friend bool operator==(const Reader&, const Reader&) = default;
  };
  struct Before {
    std::size_t at;
    std::array<Word, Frame::kBlock> bits;
  };
  struct GateBefore {
    std::size_t gate;
    logic::Gate was;
  };
  void connect(std::size_t gate);
  void disconnect(std::size_t gate);
  bool store(std::int64_t step, std::size_t wire, const Word* bits);
  void wait(std::int32_t gate);
  void take_in(std::int64_t step, std::int64_t channel, const Word* state);
  void follow(const std::vector<std::int32_t>& changed);
  bool run_gate(std::int64_t step, std::size_t gate);
  std::vector<std::int32_t> give(const logic::Functions& functions);

  Frame frame_;
  std::int64_t steps_;
  logic::Functions base_, tried_;  // before the last change, and after it
  logic::Circuit circuit_;
  std::size_t inputs_, channels_, wires_, words_, perception_layers_;
  std::vector<std::size_t> first_of_layer_;
  std::vector<std::int32_t> layer_;           // of each gate
  std::vector<std::vector<Reader>> readers_;  // of each wire
  std::vector<CellBits> targets_;
  std::vector<Word> values_, made_;
  std::vector<Before> log_;
  std::vector<GateBefore> gates_before_;
  std::vector<std::vector<std::int32_t>> waiting_;  // by layer
  std::vector<std::uint64_t> seen_;
  std::uint64_t look_ = 1;
};

}  // namespace wr::apps
