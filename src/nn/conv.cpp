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
  if (o.padding.each_side < 0 && !(o.padding == Padding::same))
    fail(where, fmt::format("{}: padding must not be negative, is {}", layer, o.padding.each_side));
  const Fans fans{taps * in / o.groups, taps * out / o.groups};
  return {initial(o.weights, shape, fans, o.dtype, where),
          o.bias ? initial(o.biases, {out}, fans, o.dtype, where) : Array()};
}

void expect_groups(const std::string& layer, std::int64_t in, std::int64_t out, std::int64_t groups,
                   const Where& where) {
  expect_positive(layer, "groups", groups, where);
  if (in % groups || out % groups)
    fail(where, fmt::format("{}: {} inputs and {} outputs do not divide into {} groups", layer, in, out, groups));
}

std::string padding_text(Padding padding) {
  if (padding == Padding::valid) return "";
  return padding == Padding::same ? ", same" : fmt::format(", padding {}", padding.each_side);
}

std::string describe(const char* name, std::int64_t in, std::int64_t out, const std::string& size,
                     const ConvLayerOptions& o) {
  std::string text = fmt::format("{}({}, {}, {}", name, in, out, size);
  if (o.stride != 1) text += fmt::format(", stride {}", o.stride);
  if (o.dilation != 1) text += fmt::format(", dilation {}", o.dilation);
  if (o.groups != 1) text += fmt::format(", groups {}", o.groups);
  return text + padding_text(o.padding) + ")";
}

ConvOptions plain(const ConvLayerOptions& o) { return {o.padding, o.stride, o.dilation, o.groups}; }

Tensor with_bias(const Tensor& y, const State& b, const Where& where) { return b ? Operand(y, where) + b : y; }

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
  return with_bias(conv2d(x, w, plain(options_), where), b, where);
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options, Where where)
    : options_(options), in_(in) {
  expect_groups("Conv1D", in, out, options.groups, where);
  const Made made = make("Conv1D", {size, in / options.groups, out}, in, out, size, options, where);
  w = parameter("w", made.w);
  if (options.bias) b = parameter("b", made.b);
}

std::string Conv1D::kind() const {
  return describe("Conv1D", in_, w.shape()[2], std::to_string(w.shape()[0]), options_);
}

Tensor Conv1D::forward(const Tensor& x, Mode, const Where& where) const {
  expect_rank("Conv1D", x, 3, "[batch, time, channels]", where);
  expect_features("Conv1D", x, 3, in_, w.spec().dtype, where);
  return with_bias(conv1d(x, w, plain(options_), where), b, where);
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
  return with_bias(conv_transpose2d(x, w, plain(options_), where), b, where);
}

namespace {

enum class Pool { max, mean };

Lambda pool(const char* name, Pool kind, std::int64_t size, std::int64_t stride, Padding padding) {
  const ConvOptions options{padding, stride ? stride : size};
  const std::string layer = name;
  const std::string stride_text = options.stride == size ? "" : fmt::format(", stride {}", options.stride);
  return {fmt::format("{}({}{}{})", name, size, stride_text, padding_text(padding)),
          [=](const Tensor& x, const Where& where) {
            if (x.rank() != 3 && x.rank() != 4)
              fail(where, layer +
                              ": the input must be [batch, height, width, channels] or [batch, time, channels], is " +
                              to_string(x.shape()));
            expect_positive(layer, "size", size, where);
            expect_positive(layer, "stride", options.stride, where);
            const bool image = x.rank() == 4;
            const Tensor y = image ? x : expand_dims(x, 2, where);
            Window window = window_on(y.size(1), y.size(2), size, size, options);
            if (!image) window.width = window.stride_w = 1, window.pad_left = window.pad_right = 0;
            const Tensor pooled = kind == Pool::max ? max_pool(y, window, where) : avg_pool(y, window, where);
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

Lambda MaxPool(std::int64_t size, std::int64_t stride, Padding padding) {
  return pool("MaxPool", Pool::max, size, stride, padding);
}
Lambda AvgPool(std::int64_t size, std::int64_t stride, Padding padding) {
  return pool("AvgPool", Pool::mean, size, stride, padding);
}
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
