// Cellular automata whose rule is a network of gates.
#include <array>
#include <map>
#include <utility>

#include "windrow/logic.h"
#include "windrow/random.h"

namespace wr::logic {
namespace {

/// A kernel's wiring over all channels and kernels. Values stand by channel, then wire, then kernel; before the first
/// layer there is one value for all kernels.
Wiring spread_over(const Wiring& wiring, std::int64_t channels, std::int64_t wires, std::int64_t kernels, bool first) {
  Wiring all;
  all.reserve(static_cast<std::size_t>(channels * kernels) * wiring.size());
  for (std::int64_t c = 0; c < channels; ++c)
    for (const Wire& w : wiring)
      for (std::int64_t k = 0; k < kernels; ++k) {
        auto place = [&](std::int32_t wire) {
          const auto at = c * wires + wire;
          return static_cast<std::int32_t>(first ? at : at * kernels + k);
        };
        all.push_back({place(w.a), place(w.b)});
      }
  return all;
}

std::vector<Layer> make_perception(const AutomatonOptions& o, std::uint64_t seed, Location where) {
  std::vector<Layer> layers;
  Rng seeds = Rng::stream(seed, 3);
  std::int64_t in = 9;
  for (std::size_t i = 0; i < o.kernel_gates.size(); ++i) {
    const auto out = o.kernel_gates[i];
    const auto of_wiring = seeds.bits(), of_logits = seeds.bits();
    if (i == 0 && out != 8)
      fail(where, "Automaton: the first layer of a kernel has 8 gates, one a neighbour; got " + std::to_string(out));
    layers.push_back(
        {i == 0 ? first_kernel_wiring(of_wiring) : unique_wiring(in, out, of_wiring, where),
         State(initial_logits(out * o.kernels, o.start, of_logits, o.dtype), "perception." + std::to_string(i))});
    in = out;
  }
  return layers;
}

/// The beginning of one kernel's gates: each makes the exclusive or of what it sees of some neighbours.
class Parity {
 public:
  using Neighbours = std::uint32_t;  // a bit each

  Parity(const std::vector<Layer>& layers, std::vector<Array>& logits, std::int64_t kernels, std::int64_t kernel)
      : layers_(layers), logits_(logits), kernels_(kernels), kernel_(kernel) {}

  /// Of a gate, and of what it reads; returns the neighbours whose parity it is. `even`: it turns that over.
  Neighbours begin(std::size_t layer, std::int32_t gate, Neighbours wanted, bool even) {
    if (const auto known = known_.find({layer, gate}); known != known_.end()) return known->second;
    const Wire& wire = layers_[layer].wiring[gate];
    const Neighbours of_a = seen(layer, wire.a, wanted), of_b = seen(layer, wire.b, wanted);
    const bool by_a = of_a != 0 || of_b == 0, by_b = of_b != 0 && of_b != of_a;
    const std::int64_t function = by_a && by_b ? kDiffer : by_a ? kPassA : kPassB;
    double* row = logits_[layer].mutable_data<double>() + (gate * kernels_ + kernel_) * kFunctions;
    std::swap(row[kPassA], row[even ? kFunctions - 1 - function : function]);
    return known_[{layer, gate}] = (by_a ? of_a : 0) ^ (by_b ? of_b : 0);
  }

 private:
  static constexpr std::int64_t kDiffer = 6;

  Neighbours seen(std::size_t layer, std::int32_t wire, Neighbours wanted) {
    if (layer > 0) return begin(layer - 1, wire, wanted, false);
    return wanted & Neighbours{1} << wire;
  }

  const std::vector<Layer>& layers_;
  std::vector<Array>& logits_;
  std::int64_t kernels_, kernel_;
  std::map<std::pair<std::size_t, std::int32_t>, Neighbours> known_;
};

/// Each kernel looks at the three cells on another side.
void look_around(const std::vector<Layer>& layers, std::int64_t kernels, bool even) {
  constexpr std::array<Parity::Neighbours, 4> kSides{0b000000111, 0b100100100, 0b111000000, 0b001001001};
  std::vector<Array> logits;
  for (const Layer& layer : layers) logits.push_back(layer.logits.value().astype(DType::f64));
  for (std::int64_t kernel = 0; kernel < kernels; ++kernel) {
    Parity parity(layers, logits, kernels, kernel);
    for (std::int32_t last = 0; last < std::ssize(layers.back().wiring); ++last)
      parity.begin(layers.size() - 1, last, kSides[static_cast<std::size_t>(kernel) % kSides.size()], even);
  }
  for (std::size_t i = 0; i < layers.size(); ++i)
    State(layers[i].logits).set(logits[i].astype(layers[i].logits.spec().dtype));
}

}  // namespace

Automaton::Automaton(const AutomatonOptions& options, Location where) : options_(options) {
  const AutomatonOptions& o = options_;
  if (o.channels < 1 || o.kernels < 1 || o.kernel_gates.empty() || o.update_gates.empty())
    fail(where, "Automaton: needs channels, kernels and layers of both");
  if (o.update_gates.back() != o.channels)
    fail(where, "Automaton: the last update layer has " + std::to_string(o.update_gates.back()) + " gates, there are " +
                    std::to_string(o.channels) + " channels");
  Rng seeds = Rng::stream(o.seed, 4);
  perception_ = make_perception(o, seeds.bits(), where);
  if (o.look != Look::alike) look_around(perception_, o.kernels, o.look == Look::even);
  std::int64_t wires = 9;
  for (const Layer& layer : perception_) {
    spread_.push_back(spread_over(layer.wiring, o.channels, wires, o.kernels, spread_.empty()));
    wires = static_cast<std::int64_t>(layer.wiring.size());
  }
  std::vector<std::int64_t> sizes{o.channels + o.channels * wires * o.kernels};
  sizes.insert(sizes.end(), o.update_gates.begin(), o.update_gates.end());
  update_ = make_layers(sizes, Connect::unique, o.start, seeds.bits(), "update", o.dtype, where);
}

Automaton::Rule Automaton::rule(Mode mode, Location where) const {
  return {coefficients(perception_, mode, where), coefficients(update_, mode, where)};
}

Tensor Automaton::step(const Rule& rule, const Tensor& state, std::int64_t height, std::int64_t width, Border border,
                       Location where) const {
  if (state.rank() != 2 || state.size(0) != options_.channels)
    fail(where, "Automaton: the state must be [" + std::to_string(options_.channels) + ", cells], is " +
                    to_string(state.spec()));
  Tensor x = neighbours(state, height, width, border, where);
  for (std::size_t i = 0; i < spread_.size(); ++i) x = gates(x, rule.perception[i], spread_[i], where);
  return run_layers(update_, rule.update, concat({state, x}, 0, where), where);
}

std::int64_t Automaton::wires_before(std::size_t layer) const {
  if (layer > 0) return std::ssize(update_[layer - 1].wiring);
  return options_.channels + std::ssize(spread_.back());
}

void Automaton::rewire(std::size_t layer, Wiring wiring, Location where) {
  if (layer >= update_.size())
    fail(where, "Automaton: there is no update layer " + std::to_string(layer) + ", there are " +
                    std::to_string(update_.size()));
  if (wiring.size() != update_[layer].wiring.size())
    fail(where, "Automaton: wires for " + std::to_string(wiring.size()) + " gates, update layer " +
                    std::to_string(layer) + " has " + std::to_string(update_[layer].wiring.size()));
  const std::int64_t wires = wires_before(layer);
  for (const Wire& wire : wiring)
    for (const std::int32_t end : {wire.a, wire.b})
      if (end < 0 || end >= wires)
        fail(where, "Automaton: update layer " + std::to_string(layer) + " cannot read wire " + std::to_string(end) +
                        ", it has " + std::to_string(wires));
  update_[layer].wiring = std::move(wiring);
}

std::vector<State> Automaton::parameters() const {
  std::vector<State> all = logic::parameters(perception_);
  for (const State& s : logic::parameters(update_)) all.push_back(s);
  return all;
}

std::int64_t Automaton::gate_count() const {
  std::int64_t n = 0;
  for (const State& s : parameters()) n += s.shape()[0];
  return n;
}

}  // namespace wr::logic
