// Convolutions and pools.
#include <fmt/format.h>

#include "nn/sizes.h"

namespace wr::nn {
namespace {

struct Made {
  Array w, b;
};

Made make(const std::string& layer, const Shape& shape, std::int64_t in, std::int64_t out, std::int64_t taps,
          const ConvLayerOptions& o, const Where& where) {
  expect_positive(layer, "in", in, where);
  expect_positive(layer, "out", out, where);
  expect_positive(layer, "size", taps, where);
  expect_positive(layer, "stride", o.stride, where);
  expect_positive(layer, "dilation", o.dilation, where);
  const Fans fans{taps * in / o.groups, taps * out / o.groups};
  return {initial(o.weights, shape, fans, o.dtype), o.bias ? initial(o.biases, {out}, fans, o.dtype) : Array()};
}

void expect_groups(const std::string& layer, std::int64_t in, std::int64_t out, std::int64_t groups,
                   const Where& where) {
  expect_positive(layer, "groups", groups, where);
  if (in % groups || out % groups)
    fail(where, fmt::format("{}: {} inputs and {} outputs do not divide into {} groups", layer, in, out, groups));
}

std::string describe(const char* name, std::int64_t in, std::int64_t out, const std::string& size,
                     const ConvLayerOptions& o) {
  std::string text = fmt::format("{}({}, {}, {}", name, in, out, size);
  if (o.stride != 1) text += fmt::format(", stride {}", o.stride);
  if (o.dilation != 1) text += fmt::format(", dilation {}", o.dilation);
  if (o.groups != 1) text += fmt::format(", groups {}", o.groups);
  return text + (o.padding == Padding::same ? ", same)" : ")");
}

/// Half of what is missing on each side, the odd one after: as conv2d pads.
void pad_same(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation, std::int64_t& before,
              std::int64_t& after) {
  const auto outputs = (size + stride - 1) / stride;
  const auto missing = std::max<std::int64_t>(0, (outputs - 1) * stride + (kernel - 1) * dilation + 1 - size);
  before = missing / 2;
  after = missing - before;
}

Window window_on(std::int64_t height, std::int64_t width, std::int64_t kernel_h, std::int64_t kernel_w,
                 const ConvLayerOptions& o) {
  Window w{kernel_h, kernel_w, o.stride, o.stride, o.dilation, o.dilation, 0, 0, 0, 0};
  if (o.padding == Padding::same) {
    pad_same(height, kernel_h, o.stride, o.dilation, w.pad_top, w.pad_bottom);
    pad_same(width, kernel_w, o.stride, o.dilation, w.pad_left, w.pad_right);
  }
  return w;
}

/// x [b,h,w,c] with weights [kh,kw,c/groups,o]: the patches' channels and the outputs are split into groups.
Tensor grouped(const Tensor& x, const Tensor& weights, const ConvLayerOptions& o, const Where& where) {
  const auto in = weights.size(2), out = weights.size(3) / o.groups;
  const Tensor patches = unfold(x, window_on(x.size(1), x.size(2), weights.size(0), weights.size(1), o), where);
  const auto taps = weights.size(0) * weights.size(1);
  const Shape& p = patches.shape();
  const Tensor y = einsum("bhwkgc,kcgo->bhwgo",
                          {reshape(patches, {p[0], p[1], p[2], taps, o.groups, in}, where),
                           reshape(weights, {taps, in, o.groups, out}, where)},
                          where);
  return reshape(y, {p[0], p[1], p[2], o.groups * out}, where);
}

Tensor convolve(const Tensor& x, const State& w, const State& b, const ConvLayerOptions& o, const Where& where) {
  const ConvOptions plain{o.padding, o.stride, o.dilation};
  const Tensor y = o.groups == 1 ? conv2d(x, w, plain, where) : grouped(x, w, o, where);
  return b ? Operand(y, where) + b : y;
}

}  // namespace

Conv2D::Conv2D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options, Where where)
    : options_(options), in_(in) {
  expect_groups("Conv2D", in, out, options.groups, where);
  const Made made = make("Conv2D", {size, size, in / options.groups, out}, in, out, size * size, options, where);
  w = parameter("w", made.w);
  if (options.bias) b = parameter("b", made.b);
}

std::string Conv2D::kind() const {
  return describe("Conv2D", in_, w.shape()[3], fmt::format("{}x{}", w.shape()[0], w.shape()[1]), options_);
}

Tensor Conv2D::forward(const Tensor& x, Mode, const Where& where) const {
  expect_rank("Conv2D", x, 4, "[batch, height, width, channels]", where);
  expect_features("Conv2D", x, 4, in_, w.spec().dtype, where);
  return convolve(x, w, b, options_, where);
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options, Where where)
    : options_(options), in_(in) {
  expect_groups("Conv1D", in, out, options.groups, where);
  const Made made = make("Conv1D", {1, size, in / options.groups, out}, in, out, size, options, where);
  w = parameter("w", made.w);
  if (options.bias) b = parameter("b", made.b);
}

std::string Conv1D::kind() const {
  return describe("Conv1D", in_, w.shape()[3], std::to_string(w.shape()[1]), options_);
}

Tensor Conv1D::forward(const Tensor& x, Mode, const Where& where) const {
  expect_rank("Conv1D", x, 3, "[batch, time, channels]", where);
  expect_features("Conv1D", x, 3, in_, w.spec().dtype, where);
  const Tensor y = convolve(expand_dims(x, 1, where), w, b, options_, where);
  return squeeze(y, 1, where);
}

ConvTranspose2D::ConvTranspose2D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options,
                                 Where where)
    : options_(options) {
  if (options.groups != 1) fail(where, "ConvTranspose2D: groups are not supported");
  const Made made = make("ConvTranspose2D", {in, size, size, out}, in, out, size * size, options, where);
  w = parameter("w", made.w);
  if (options.bias) b = parameter("b", made.b);
}

std::string ConvTranspose2D::kind() const {
  const Shape& s = w.shape();
  return describe("ConvTranspose2D", s[0], s[3], fmt::format("{}x{}", s[1], s[2]), options_);
}

Tensor ConvTranspose2D::forward(const Tensor& x, Mode, const Where& where) const {
  expect_rank("ConvTranspose2D", x, 4, "[batch, height, width, channels]", where);
  expect_features("ConvTranspose2D", x, 4, w.shape()[0], w.spec().dtype, where);
  const auto size = w.shape()[1], out = w.shape()[3];
  const auto reach = (size - 1) * options_.dilation + 1;
  const auto grown = [&](std::int64_t n) {
    return options_.padding == Padding::same ? n * options_.stride : (n - 1) * options_.stride + reach;
  };
  const Shape image{x.size(0), grown(x.size(1)), grown(x.size(2)), out};
  const Tensor flat = reshape(w, {x.size(3), size * size * out}, where);
  const Tensor patches =
      reshape(einsum("bhwc,ck->bhwk", {x, flat}, where), {x.size(0), x.size(1), x.size(2), size, size, out}, where);
  const Tensor y = fold(patches, image, window_on(image[1], image[2], size, size, options_), where);
  return b ? Operand(y, where) + b : y;
}

namespace {

enum class Pool { max, mean };

Lambda pool(const char* name, Pool kind, std::int64_t size, std::int64_t stride) {
  const auto step = stride ? stride : size;
  const std::string layer = name;
  return {fmt::format("{}({}{})", name, size, step == size ? "" : fmt::format(", stride {}", step)),
          [=](const Tensor& x, const Where& where) {
            if (x.rank() != 3 && x.rank() != 4)
              fail(where, layer +
                              ": the input must be [batch, height, width, channels] or [batch, time, channels], is " +
                              to_string(x.shape()));
            const bool image = x.rank() == 4;
            const Tensor y = image ? x : expand_dims(x, 2, where);
            const Window window{size, image ? size : 1, step, image ? step : 1, 1, 1, 0, 0, 0, 0};
            const Tensor pooled = kind == Pool::max ? max_pool(y, window, where)
                                                    : mean(unfold(y, window, where), {3, 4}, Keep::no, where);
            return image ? pooled : squeeze(pooled, 2, where);
          }};
}

std::vector<int> positions(const char* layer, const Tensor& x, const Where& where) {
  if (x.rank() < 3)
    fail(where, std::string(layer) + ": the input must be [batch, ..., channels], is " + to_string(x.shape()));
  std::vector<int> axes;
  for (int i = 1; i + 1 < x.rank(); ++i) axes.push_back(i);
  return axes;
}

}  // namespace

Lambda MaxPool(std::int64_t size, std::int64_t stride) { return pool("MaxPool", Pool::max, size, stride); }
Lambda AvgPool(std::int64_t size, std::int64_t stride) { return pool("AvgPool", Pool::mean, size, stride); }
Lambda GlobalMaxPool() {
  return {"GlobalMaxPool", [](const Tensor& x, const Where& where) {
            return max(x, positions("GlobalMaxPool", x, where), Keep::no, where);
          }};
}
Lambda GlobalAvgPool() {
  return {"GlobalAvgPool", [](const Tensor& x, const Where& where) {
            return mean(x, positions("GlobalAvgPool", x, where), Keep::no, where);
          }};
}

}  // namespace wr::nn
