// Logic networks as modules of nn::Sequential.
#include "windrow/logic.h"

namespace wr::logic {

Thresholds::Thresholds(std::vector<double> thresholds) : thresholds_(std::move(thresholds)) {
  if (thresholds_.empty()) throw Error("Thresholds: there are none");
}

std::string Thresholds::kind() const { return "Thresholds(" + std::to_string(thresholds_.size()) + ")"; }

Tensor Thresholds::forward(const Tensor& x, nn::Mode, const nn::Where& where) const {
  const Tensor features = transpose(flatten(x, 1, where), where);
  std::vector<Tensor> parts;
  parts.reserve(thresholds_.size());
  for (double t : thresholds_) parts.push_back(cast(gt(Operand(features, where), t), x.dtype(), where));
  return concat(parts, 0, where);
}

GateLayers::GateLayers(const std::vector<std::int64_t>& sizes, Connect connect, const Start& start, std::uint64_t seed,
                       Location where)
    : layers_(make_layers(sizes, connect, start, seed, "", DType::f32, where)) {
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers_[i].logits = parameter(std::to_string(i), layers_[i].logits.value());
}

std::string GateLayers::kind() const {
  std::int64_t gates = 0;
  for (const Layer& l : layers_) gates += l.logits.shape()[0];
  return "GateLayers(" + std::to_string(layers_.size()) + " layers, " + std::to_string(gates) + " gates)";
}

Tensor GateLayers::forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const {
  const Mode kind = mode == nn::Mode::eval ? Mode::hard : Mode::soft;
  return run_layers(layers_, coefficients(layers_, kind, where), x, where);
}

std::string GroupSum::kind() const { return "GroupSum(" + std::to_string(classes_) + ")"; }

Tensor GroupSum::forward(const Tensor& x, nn::Mode, const nn::Where& where) const {
  if (x.rank() != 2 || x.size(0) % classes_ != 0)
    fail(where, "GroupSum: " + to_string(x.spec()) + " does not split into " + std::to_string(classes_) + " classes");
  const Tensor groups = reshape(x, {classes_, x.size(0) / classes_, x.size(1)}, where);
  return transpose(mul(Operand(sum(groups, 1, Keep::no, where), where), 1 / temperature_), where);
}

}  // namespace wr::logic
