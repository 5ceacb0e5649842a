// Cellular automata whose rule is a network of gates.
#include <array>
#include <optional>

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

/// A gate of a kernel that passes on one of its wires.
struct Pass {
  std::size_t layer;
  std::int32_t gate;
  std::int64_t function;  // kPassA or kPassB
};

/// The gates by which this one passes on a neighbour; nothing if it cannot.
std::optional<std::vector<Pass>> way_to(const std::vector<Layer>& layers, std::size_t layer, std::int32_t gate,
                                        std::int32_t neighbour) {
  const Wire& wire = layers[layer].wiring[gate];
  if (layer == 0) {
    if (wire.a != neighbour) return std::nullopt;
    return std::vector<Pass>{{layer, gate, kPassA}};
  }
  for (const std::int64_t function : {kPassA, kPassB})
    if (auto found = way_to(layers, layer - 1, function == kPassA ? wire.a : wire.b, neighbour)) {
      found->push_back({layer, gate, function});
      return found;
    }
  return std::nullopt;
}

/// Each kernel's gates pass on other neighbours than the kernel before.
void look_around(const std::vector<Layer>& layers, std::int64_t kernels) {
  constexpr std::array<std::int32_t, 8> kNeighbours{1, 3, 5, 7, 0, 2, 6, 8};
  std::vector<Array> logits;
  for (const Layer& layer : layers) logits.push_back(layer.logits.value().astype(DType::f64));
  std::size_t first = 0;
  for (std::int64_t kernel = 0; kernel < kernels; ++kernel)
    for (std::int32_t last = 0; last < std::ssize(layers.back().wiring); ++last, ++first)
      for (std::size_t i = 0; i < kNeighbours.size(); ++i) {
        const auto way = way_to(layers, layers.size() - 1, last, kNeighbours[(first + i) % kNeighbours.size()]);
        if (!way) continue;
        for (const Pass& pass : *way) {
          double* row = logits[pass.layer].mutable_data<double>() + (pass.gate * kernels + kernel) * kFunctions;
          std::swap(row[kPassA], row[pass.function]);
        }
        break;
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
  if (o.look_around) look_around(perception_, o.kernels);
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
