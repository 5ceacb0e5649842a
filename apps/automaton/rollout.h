// What a circuit does to one grid over some steps, for searches that ask it thousands of times.
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

/// What a search makes of a gate of the update: another function, other wires of the layer before.
struct GateChange {
  std::size_t layer, gate;  // of Automaton::update()
  int function;
  Wire wire;
};

/// What hard gates make of one grid in some steps. Asked again with a few other gates, it computes what changes and
/// nothing else: for searches that try one change after the other.
class BitRollout {
 public:
  BitRollout(const logic::Automaton& automaton, const logic::BitGrid& start, const logic::BitGrid& target,
             std::int64_t steps, Border border);
  /// Wrong cells of the target's channels after the last step.
  std::int64_t wrong(const logic::Functions& functions);
  /// What it takes of memory.
  static std::int64_t bytes(const logic::Automaton& automaton, std::int64_t height, std::int64_t width,
                            std::int64_t steps);

  // ---- for searches that change wires too
  /// Wrong cells as it stands.
  std::int64_t wrong() const;
  /// Changes gates; keep() or take_back() is to follow. Wrong cells then.
  std::int64_t attempt(const std::vector<GateChange>& changes);
  void keep() { log_.clear(), gates_before_.clear(); }
  void take_back();

  /// Wires are the nine neighbours of each channel and then gates, layer by layer, perception's first.
  struct Gate {
    std::int32_t a, b;
    std::int32_t function, layer;
  };
  std::size_t inputs() const { return inputs_; }
  const std::vector<Gate>& gates() const { return gates_; }
  /// The first gate of each layer.
  const std::vector<std::size_t>& layers() const { return first_of_layer_; }
  std::int64_t steps() const { return steps_; }
  std::size_t words() const { return words_; }  // of a plane
  Frame& frame() { return frame_; }
  const std::vector<Plane>& wanted() const { return wanted_; }
  /// The gates of the target's channels and of all others.
  std::size_t output(std::size_t channel) const { return first_of_layer_.back() + channel; }
  const Word* value(std::int64_t step, std::size_t wire) const {
    return values_.data() + (static_cast<std::size_t>(step) * (inputs_ + gates_.size()) + wire) * words_;
  }
  /// The wires that the first layer of the update reads, and those of any other layer of it.
  std::int32_t wire_before(std::size_t update_layer, std::int32_t wire) const;
  std::size_t wires_before(std::size_t update_layer) const;
  std::size_t update_layers() const { return first_of_layer_.size() - perception_layers_; }
  /// The gate of a layer of the update.
  std::size_t gate_of(std::size_t update_layer, std::size_t gate) const {
    return first_of_layer_[perception_layers_ + update_layer] + gate;
  }

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
    Gate was;
  };
  void add_layer(const logic::Circuit& circuit, std::size_t count);
  Word* at(std::int64_t step, std::size_t wire) { return const_cast<Word*>(value(step, wire)); }
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
  std::size_t inputs_ = 0, words_ = 0, perception_layers_ = 0;
  std::int64_t channels_ = 0;
  std::vector<Gate> gates_;
  std::vector<std::size_t> first_of_layer_;
  std::vector<std::vector<Reader>> readers_;  // of each wire
  std::vector<Plane> wanted_;
  std::vector<Word> values_, made_;
  std::vector<Before> log_;
  std::vector<GateBefore> gates_before_;
  std::vector<std::vector<std::int32_t>> waiting_;  // by layer
  std::vector<std::uint64_t> seen_;
  std::uint64_t look_ = 1;
};

}  // namespace wr::apps
