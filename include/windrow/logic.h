// Differentiable logic: networks of two-input gates whose kinds are learned, and cellular automata whose rule is such a
// network. While training, a gate is a mixture of the sixteen Boolean functions of its wires (soft); afterwards it is
// the likeliest of them (hard) and the network is a circuit: see circuit.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "windrow/nn.h"
#include "windrow/tensor.h"

namespace wr::logic {

// ---- wiring ----
/// Each pair of neighbours in turn, (0,1), (2,3), ..., (1,2), (3,4), ..., then pairs at distance 2, 3, ...; the first
/// `out` of them, in an order drawn by the seed. Every wire is read by some gate, so it needs in <= 2 * out; no two
/// gates read the same pair.
Wiring unique_wiring(std::int64_t in, std::int64_t out, std::uint64_t seed, WINDROW_WHERE);
/// Every wire is read about equally often, in an order drawn by the seed; a gate's two wires differ where they can.
Wiring random_wiring(std::int64_t in, std::int64_t out, std::uint64_t seed, WINDROW_WHERE);
/// The first layer on a 3x3 neighbourhood: each of the eight neighbours with the centre, in an order drawn by the seed.
Wiring first_kernel_wiring(std::uint64_t seed);

// ---- gates ----
constexpr std::int64_t kFunctions = 16, kPassA = 3, kPassB = 5;
/// What function number `function` makes of two bits.
bool apply(int function, bool a, bool b);
/// "0", "a & b", ...: the sixteen functions in order.
const char* function_name(int function);

enum class Mode : bool { soft = false, hard = true };

/// Logits before training.
struct Start {
  double pass = 10;  // of "a": gates begin by passing their first wire through
  double noise = 0;  // deviation of normal noise on all logits
};
Array initial_logits(std::int64_t gates, const Start& start, std::uint64_t seed, DType dtype = DType::f32);

/// Layers of gates, each reading the one before.
struct Layer {
  Wiring wiring;  // over one group of wires
  State logits;   // [gates, 16]
};

/// The coefficients of every layer, in a trace: soft ones for training, hard ones (no gradient) to see what the circuit
/// does.
std::vector<Tensor> coefficients(const std::vector<Layer>& layers, Mode mode, WINDROW_WHERE);
/// x [wires, cells] through the layers.
Tensor run_layers(const std::vector<Layer>& layers, const std::vector<Tensor>& coefficients, Tensor x, WINDROW_WHERE);
std::vector<State> parameters(const std::vector<Layer>& layers);
/// Of sizes[1], sizes[2], ... gates on sizes[0] wires. `unique` wiring where it is possible, else `random`.
enum class Connect { unique, random };
std::vector<Layer> make_layers(const std::vector<std::int64_t>& sizes, Connect connect, const Start& start,
                               std::uint64_t seed, const std::string& name, DType dtype = DType::f32, WINDROW_WHERE);

// ---- classification: modules for nn::Sequential ----
/// [batch, ...] to [features * thresholds, batch]: 1 where a feature is above a threshold, else 0.
class Thresholds : public nn::Module {
 public:
  explicit Thresholds(std::vector<double> thresholds);
  std::string kind() const override;

 private:
  Tensor forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const override;
  std::vector<double> thresholds_;
};

/// Layers of gates on [wires, batch]: soft while training, hard when used. The wiring depends on the seed alone.
class GateLayers : public nn::Module {
 public:
  GateLayers(const std::vector<std::int64_t>& sizes, Connect connect, const Start& start, std::uint64_t seed,
             WINDROW_WHERE);
  std::string kind() const override;
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  Tensor forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const override;
  std::vector<Layer> layers_;
};

/// [wires, batch] to [batch, classes]: how many wires of each class are on, divided by a temperature.
class GroupSum : public nn::Module {
 public:
  GroupSum(std::int64_t classes, double temperature) : classes_(classes), temperature_(temperature) {}
  std::string kind() const override;

 private:
  Tensor forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const override;
  std::int64_t classes_;
  double temperature_;
};

// ---- cellular automata ----
/// What kernels see before training. `alike`: all of them pass on the same neighbour, and nothing is known of what lies
/// the other way before training has turned some round. Else each looks at the three cells on another side and says
/// whether an odd (`odd`) or an even number of them is on (`even`: so an empty grid does not stay empty). From a single
/// cell, or from the borders of an empty grid, that soon makes states by which cells can be told apart.
enum class Look { alike, odd, even };

/// What a rule looks like; the defaults are the checkerboard's.
struct AutomatonOptions {
  std::int64_t channels = 8;
  std::int64_t kernels = 16;                        // small trees of gates that look at every channel's neighbourhood
  std::vector<std::int64_t> kernel_gates{8, 4, 2};  // their layers
  std::vector<std::int64_t> update_gates{256, 256, 256, 256, 256, 256, 256, 256, 256, 256, 128, 64, 32, 16, 8, 8};
  Start start;
  Look look = Look::alike;
  std::uint64_t seed = 1;
  DType dtype = DType::f32;
};

/// A cellular automaton on states [channels, cells]: see neighbours() for how grids lie in memory.
class Automaton {
 public:
  explicit Automaton(const AutomatonOptions& options, WINDROW_WHERE);

  /// A rule's coefficients, in a trace. Make it once, outside of checkpoints: all steps share it.
  struct Rule {
    std::vector<Tensor> perception, update;
  };
  Rule rule(Mode mode = Mode::soft, WINDROW_WHERE) const;
  /// All cells at once: [channels, cells] of the next step.
  Tensor step(const Rule& rule, const Tensor& state, std::int64_t height, std::int64_t width, Border border,
              WINDROW_WHERE) const;

  const AutomatonOptions& options() const { return options_; }
  std::vector<State> parameters() const;
  const std::vector<Layer>& perception() const { return perception_; }  // of one kernel; logits [gates * kernels, 16]
  const std::vector<Layer>& update() const { return update_; }
  /// Perception's wiring over all channels and kernels: values by channel, then wire, then kernel.
  const std::vector<Wiring>& spread() const { return spread_; }
  /// Other wires for the gates of a layer of the update. Steps that were compiled before keep the old ones.
  void rewire(std::size_t layer, Wiring wiring, WINDROW_WHERE);
  /// How many wires a layer of the update can read: what the layer before it drives.
  std::int64_t wires_before(std::size_t layer) const;
  /// All gates there are: those of each kernel and of the update.
  std::int64_t gate_count() const;

 private:
  AutomatonOptions options_;
  std::vector<Layer> perception_, update_;
  std::vector<Wiring> spread_;
};

}  // namespace wr::logic
