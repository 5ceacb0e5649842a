// Normalising layers.
#include <fmt/format.h>

#include "nn/sizes.h"

namespace wr::nn {
namespace {

struct Moments {
  Tensor centred, mean, variance;
};

Moments moments(const Tensor& x, const std::vector<int>& axes, const Where& where) {
  const Tensor middle = mean(x, axes, Keep::yes, where);
  const Tensor centred = Operand(x, where) - middle;
  return {centred, middle, mean(square(centred, where), axes, Keep::yes, where)};
}

Tensor normalised(const Tensor& centred, const Tensor& variance, double epsilon, const Where& where) {
  return Operand(centred, where) * rsqrt(Operand(variance, where) + epsilon, where);
}

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

Tensor Norm::scaled(const Tensor& normal, const Where& where) const {
  Tensor y = normal;
  if (scale) y = Operand(y, where) * scale;
  if (shift) y = Operand(y, where) + shift;
  return y;
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
  if (mode == Mode::eval) return scaled(normalised(Operand(x, where) - mean, variance, options_.epsilon, where), where);
  const auto count = static_cast<double>(x.shape().count()) / static_cast<double>(width_);
  if (count < 2) fail(where, "BatchNorm: one value a feature has no variance; the input is " + to_string(x.shape()));
  std::vector<int> axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  const Moments m = moments(x, axes, where);
  const Shape flat{width_};
  const Tensor unbiased = Operand(reshape(m.variance, flat, where), where) * (count / (count - 1));
  mean.assign(lerp(Operand(Tensor(mean, where), where), reshape(m.mean, flat, where), options_.momentum), where);
  variance.assign(lerp(Operand(Tensor(variance, where), where), unbiased, options_.momentum), where);
  return scaled(normalised(m.centred, m.variance, options_.epsilon, where), where);
}

LayerNorm::LayerNorm(std::int64_t width, const NormOptions& options, Where where)
    : Norm("LayerNorm", width, options, true, where) {}

Tensor LayerNorm::forward(const Tensor& x, Mode, const Where& where) const {
  expect_width(x, 1, where);
  const Moments m = moments(x, {x.rank() - 1}, where);
  return scaled(normalised(m.centred, m.variance, options_.epsilon, where), where);
}

RmsNorm::RmsNorm(std::int64_t width, const NormOptions& options, Where where)
    : Norm("RmsNorm", width, options, false, where) {}

Tensor RmsNorm::forward(const Tensor& x, Mode, const Where& where) const {
  expect_width(x, 1, where);
  return scaled(normalised(x, mean(square(x, where), -1, Keep::yes, where), options_.epsilon, where), where);
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
  const auto batch = x.size(0), places = batch ? x.shape().count() / batch / width_ : 0;
  const Tensor split = reshape(x, {batch, places, groups_, width_ / groups_}, where);
  const Moments m = moments(split, {1, 3}, where);
  const Tensor normal = normalised(m.centred, m.variance, options_.epsilon, where);
  return scaled(reshape(normal, x.shape(), where), where);
}

}  // namespace wr::nn
