// Normalising layers.
#include <fmt/format.h>

#include "nn/sizes.h"

namespace wr::nn {
namespace {

Tensor optional(const State& state, const Where& where) { return state ? Tensor(state, where) : Tensor(); }

}  // namespace

Norm::Norm(std::string name, std::int64_t width, const NormOptions& options, bool shifted, const Where& where)
    : name_(std::move(name)), width_(width), options_(options) {
  expect_positive(name_, "width", width, where);
  if (!(options.epsilon >= 0)) fail(where, name_ + ": epsilon is " + std::to_string(options.epsilon));
  if (!options.affine) return;
  scale = parameter("scale", Array::ones({width}, options.dtype));
  if (shifted) shift = parameter("shift", Array::zeros({width}, options.dtype));
}

std::string Norm::kind() const { return fmt::format("{}({})", name_, width_); }

void Norm::expect_width(const Tensor& x, int least_rank, const Where& where) const {
  expect_features(name_, x, least_rank, width_, options_.dtype, where);
}

BatchNorm::BatchNorm(std::int64_t width, const NormOptions& options, Where where)
    : Norm("BatchNorm", width, options, true, where),
      mean(buffer("mean", State(Array::zeros({width}, options.dtype)))),
      variance(buffer("variance", State(Array::ones({width}, options.dtype)))) {
  if (!(options.momentum >= 0 && options.momentum <= 1))
    fail(where, "BatchNorm: the momentum must be in 0..1, is " + std::to_string(options.momentum));
}

Tensor BatchNorm::forward(const Tensor& x, Mode mode, const Where& where) const {
  expect_width(x, 2, where);
  if (mode == Mode::eval) return by_running_statistics(x, where);
  const auto count = static_cast<double>(x.shape().count()) / static_cast<double>(width_);
  if (count < 2) fail(where, "BatchNorm: one value a feature has no variance; the input is " + to_string(x.shape()));
  std::vector<int> axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  // The mean comes first, so that the variance loses nothing to cancellation however far from zero the batch is. Its
  // value then counts as given, and gradients flow through `first`, which is zero: they too are sums of offsets, and
  // wait for no sum but those of the batch.
  const Tensor middle = wr::mean(x, axes, Keep::yes, where);
  const Tensor about = stop_gradient(middle, where);
  const Tensor offset = Operand(x, where) - about;
  const Tensor first = Operand(middle, where) - about;
  const Tensor second = wr::mean(square(offset, where), axes, Keep::yes, where);
  const Tensor spread = Operand(second, where) - square(first, where);
  const auto move = [&](const State& running, const Tensor& batch) {
    const Tensor flat = reshape(batch, {width_}, where);
    running.assign(lerp(Operand(Tensor(running, where), where), flat, options_.momentum), where);
  };
  move(mean, middle);
  move(variance, Operand(spread, where) * (count / (count - 1)));
  Tensor factor = rsqrt(Operand(spread, where) + options_.epsilon, where);
  if (scale) factor = Operand(factor, where) * scale;
  Tensor constant = -(Operand(first, where) * factor);
  if (shift) constant = Operand(constant, where) + shift;
  return muladd(Operand(offset, where), factor, constant);
}

Tensor BatchNorm::by_running_statistics(const Tensor& x, const Where& where) const {
  const Tensor deviation = rsqrt(Operand(variance, where) + options_.epsilon, where);
  Tensor y = Operand(Operand(x, where) - mean, where) * deviation;
  if (scale) y = Operand(y, where) * scale;
  return shift ? Operand(y, where) + shift : y;
}

LayerNorm::LayerNorm(std::int64_t width, const NormOptions& options, Where where)
    : Norm("LayerNorm", width, options, true, where) {}

Tensor LayerNorm::forward(const Tensor& x, Mode, const Where& where) const {
  expect_width(x, 1, where);
  return layer_norm(x, optional(scale, where), optional(shift, where), options_.epsilon, where);
}

RmsNorm::RmsNorm(std::int64_t width, const NormOptions& options, Where where)
    : Norm("RmsNorm", width, options, false, where) {}

Tensor RmsNorm::forward(const Tensor& x, Mode, const Where& where) const {
  expect_width(x, 1, where);
  return rms_norm(x, optional(scale, where), options_.epsilon, where);
}

GroupNorm::GroupNorm(const std::string& name, std::int64_t groups, std::int64_t width, const NormOptions& options,
                     const Where& where)
    : Norm(name, width, options, true, where), groups_(groups) {
  expect_positive(name_, "groups", groups, where);
  if (width % groups) fail(where, fmt::format("{}: {} channels do not divide into {} groups", name_, width, groups));
}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t width, const NormOptions& options, Where where)
    : GroupNorm("GroupNorm", groups, width, options, where) {}

InstanceNorm::InstanceNorm(std::int64_t width, const NormOptions& options, Where where)
    : GroupNorm("InstanceNorm", width, width, options, where) {}

Tensor GroupNorm::forward(const Tensor& x, Mode, const Where& where) const {
  expect_width(x, 2, where);
  return group_norm(x, groups_, optional(scale, where), optional(shift, where), options_.epsilon, where);
}

}  // namespace wr::nn
