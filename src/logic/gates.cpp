// Layers of gates, soft and hard.
#include <array>

#include "windrow/logic.h"
#include "windrow/random.h"

namespace wr::logic {

// Function f is true for (a, b) where bit 3 - (2a + b) of f is set: 0001 is and, 0011 is a, 0110 is xor.
bool apply(int function, bool a, bool b) { return (function >> (3 - (2 * a + b)) & 1) != 0; }

const char* function_name(int function) {
  static constexpr std::array<const char*, 16> kNames = {"0",     "a & b",  "a & ~b",   "a",        "~a & b", "b",
                                                         "a ^ b", "a | b",  "~(a | b)", "~(a ^ b)", "~b",     "a | ~b",
                                                         "~a",    "~a | b", "~(a & b)", "1"};
  return kNames.at(static_cast<std::size_t>(function));
}

Array initial_logits(std::int64_t gates, const Start& start, std::uint64_t seed, DType dtype) {
  std::vector<double> z(static_cast<std::size_t>(gates * kFunctions), 0);
  Rng draw = Rng::stream(seed, 1);
  for (std::int64_t i = 0; i < gates; ++i) {
    double* of_gate = z.data() + i * kFunctions;
    for (int f = 0; f < kFunctions; ++f) of_gate[f] = start.noise > 0 ? start.noise * draw.normal() : 0;
    of_gate[kPassA] += start.pass;
  }
  return Array::from(z, {gates, kFunctions}).astype(dtype);
}

namespace {

/// The coefficients of the likeliest functions.
Tensor hard_coefficients(const Tensor& logits, Location where) {
  // One-hot logits this far apart are a softmax of exactly 0 and 1.
  const Tensor sure = one_hot(argmax(logits, -1, Keep::no, where), kFunctions, logits.dtype(), where);
  return gate_coefficients(mul(Operand(sure, where), 1000), where);
}

}  // namespace

std::vector<Tensor> coefficients(const std::vector<Layer>& layers, Mode mode, Location where) {
  std::vector<Tensor> all;
  all.reserve(layers.size());
  for (const Layer& layer : layers) {
    const Tensor logits(layer.logits, where);
    all.push_back(mode == Mode::hard ? hard_coefficients(logits, where) : gate_coefficients(logits, where));
  }
  return all;
}

Tensor run_layers(const std::vector<Layer>& layers, const std::vector<Tensor>& coefficients, Tensor x, Location where) {
  if (layers.size() != coefficients.size())
    fail(where, "run_layers: " + std::to_string(layers.size()) + " layers, coefficients of " +
                    std::to_string(coefficients.size()));
  for (std::size_t i = 0; i < layers.size(); ++i) x = gates(x, coefficients[i], layers[i].wiring, where);
  return x;
}

std::vector<State> parameters(const std::vector<Layer>& layers) {
  std::vector<State> all;
  all.reserve(layers.size());
  for (const Layer& layer : layers) all.push_back(layer.logits);
  return all;
}

std::vector<Layer> make_layers(const std::vector<std::int64_t>& sizes, Connect connect, const Start& start,
                               std::uint64_t seed, const std::string& name, DType dtype, Location where) {
  if (sizes.size() < 2) fail(where, "make_layers: needs the number of wires and of each layer's gates");
  std::vector<Layer> layers;
  Rng seeds = Rng::stream(seed, 2);
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const auto in = sizes[i], out = sizes[i + 1];
    const bool unique = connect == Connect::unique && in <= 2 * out && out <= in * (in - 1) / 2;
    const auto of_wiring = seeds.bits(), of_logits = seeds.bits();
    layers.push_back({unique ? unique_wiring(in, out, of_wiring, where) : random_wiring(in, out, of_wiring, where),
                      State(initial_logits(out, start, of_logits, dtype), name + "." + std::to_string(i))});
  }
  return layers;
}

}  // namespace wr::logic
