// Convolutions of images [batch, height, width, channels] with weights [height, width, channels / groups, channels
// out]. An op for the result and one for each gradient; the gradients of all three are among the three.
#include <algorithm>

#include "ir/attributes.h"
#include "ops/define.h"

namespace wr {

using ir::Attrs;
using ir::Convolution;
using ir::Op;

namespace {

void expect_image(const Tensor& x, const char* op, Location where) {
  if (x.rank() != 4)
    fail(where, std::string(op) + ": the image must be [batch, height, width, channels], is " + to_string(x.shape()));
}

void expect_weights(const Tensor& weights, int rank, const char* axes, const char* op, Location where) {
  if (weights.rank() != rank)
    fail(where, std::string(op) + ": the weights must be " + axes + ", are " + to_string(weights.shape()));
}

void expect_options(const ConvOptions& o, const char* op, Location where) {
  if (o.stride < 1 || o.dilation < 1)
    fail(where, std::string(op) + ": stride and dilation must be positive, are " + std::to_string(o.stride) + " and " +
                    std::to_string(o.dilation));
}

void expect_groups(const Tensor& x, const Tensor& weights, std::int64_t groups, const char* op, Location where) {
  const auto channels = x.size(-1), taken = weights.size(-2), out = weights.size(-1);
  if (groups < 1 || channels % groups || out % groups)
    fail(where, std::string(op) + ": " + std::to_string(channels) + " inputs and " + std::to_string(out) +
                    " outputs do not divide into " + std::to_string(groups) + " groups");
  if (taken * groups != channels)
    fail(where, std::string(op) + ": the input " + to_string(x.shape()) + " has " + std::to_string(channels) +
                    " channels, the weights " + to_string(weights.shape()) + " take " +
                    (groups == 1 ? "" : std::to_string(groups) + " times ") + std::to_string(taken));
}

struct Sides {
  std::int64_t before, after;
};

/// Padding::same: half of what is missing on each side, the odd one after, as TensorFlow and JAX pad.
Sides sides(std::int64_t size, std::int64_t kernel, const ConvOptions& o) {
  if (!(o.padding == Padding::same)) return {o.padding.each_side, o.padding.each_side};
  const auto out = (size + o.stride - 1) / o.stride;
  const auto missing = std::max<std::int64_t>(0, (out - 1) * o.stride + (kernel - 1) * o.dilation + 1 - size);
  return {missing / 2, missing - missing / 2};
}

Convolution on_image(const Tensor& x, const Window& window, std::int64_t groups) {
  return {window, {x.size(1), x.size(2)}, groups};
}

/// x [b,h,w,c] with weights [kh,kw,c / groups,o].
Tensor convolve(const Tensor& x, const Tensor& weights, const Window& w, std::int64_t groups, Location where) {
  const auto in = weights.size(2), out = weights.size(3);
  const bool pointwise = w == Window{};
  if (pointwise && groups == 1) return einsum("bhwc,co->bhwo", {x, reshape(weights, {in, out}, where)}, where);
  return ir::apply(Op::conv, {x, weights}, on_image(x, w, groups).attrs(), where);
}

}  // namespace

Window window_on(std::int64_t height, std::int64_t width, std::int64_t kernel_height, std::int64_t kernel_width,
                 const ConvOptions& o) {
  const Sides rows = sides(height, kernel_height, o), columns = sides(width, kernel_width, o);
  return {kernel_height, kernel_width, o.stride,   o.stride,       o.dilation,
          o.dilation,    rows.before,  rows.after, columns.before, columns.after};
}

Tensor conv2d(const Tensor& x, const Tensor& weights, const ConvOptions& options, Location where) try {
  expect_image(x, "conv2d", where);
  expect_weights(weights, 4, "[height, width, channels in, channels out]", "conv2d", where);
  expect_options(options, "conv2d", where);
  expect_groups(x, weights, options.groups, "conv2d", where);
  return convolve(x, weights, window_on(x.size(1), x.size(2), weights.size(0), weights.size(1), options),
                  options.groups, where);
} catch (const Error& error) {
  ops::refuse_as("conv2d", where, error);
}

// A sequence is an image of height 1.
Tensor conv1d(const Tensor& x, const Tensor& weights, const ConvOptions& options, Location where) try {
  if (x.rank() != 3) fail(where, "conv1d: the input must be [batch, time, channels], is " + to_string(x.shape()));
  expect_weights(weights, 3, "[time, channels in, channels out]", "conv1d", where);
  expect_options(options, "conv1d", where);
  expect_groups(x, weights, options.groups, "conv1d", where);
  Window w = window_on(1, x.size(1), 1, weights.size(0), options);
  w.stride_h = w.dilation_h = 1;
  w.pad_top = w.pad_bottom = 0;
  const Tensor y = convolve(expand_dims(x, 1, where), expand_dims(weights, 0, where), w, options.groups, where);
  return squeeze(y, 1, where);
} catch (const Error& error) {
  ops::refuse_as("conv1d", where, error);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weights, const ConvOptions& options, Location where) try {
  expect_image(x, "conv_transpose2d", where);
  expect_weights(weights, 4, "[channels in, height, width, channels out]", "conv_transpose2d", where);
  expect_options(options, "conv_transpose2d", where);
  if (options.groups != 1) fail(where, "conv_transpose2d: groups are not supported");
  const Shape& w = weights.shape();
  if (w[0] != x.size(3))
    fail(where, "conv_transpose2d: the image " + to_string(x.shape()) + " has " + std::to_string(x.size(3)) +
                    " channels, the weights " + to_string(w) + " take " + std::to_string(w[0]));
  const auto grown = [&](std::int64_t size, std::int64_t kernel) {
    if (options.padding == Padding::same) return size * options.stride;
    const auto n = (size - 1) * options.stride + (kernel - 1) * options.dilation + 1 - 2 * options.padding.each_side;
    if (n < 1)
      fail(where, "conv_transpose2d: nothing is left of an image of size " + std::to_string(size) + " with padding " +
                      std::to_string(options.padding.each_side));
    return n;
  };
  const std::int64_t height = grown(x.size(1), w[1]), width = grown(x.size(2), w[2]);
  const Convolution adjoint{window_on(height, width, w[1], w[2], options), {height, width}, 1};
  return ir::apply(Op::conv_grad_x, {x, permute(weights, {1, 2, 3, 0}, where)}, adjoint.attrs(), where);
} catch (const Error& error) {
  ops::refuse_as("conv_transpose2d", where, error);
}

namespace ops {
namespace {

/// What the three ops agree on: x [b,h,w,c], w [kh,kw,c / groups,o] and y [b,h',w',o].
struct Sizes {
  Convolution conv;
  Grid grid;
};

Sizes sizes_of(const Attrs& attrs) {
  const Convolution conv = Convolution::of(attrs);
  if (conv.groups < 1) refuse("the number of groups must be positive, is " + std::to_string(conv.groups));
  return {conv, grid_of(conv.image.height, conv.image.width, conv.window)};
}

void expect_shape(const Spec& spec, const char* what, const Shape& want) {
  if (!(spec.shape == want)) refuse(std::string(what) + " must be " + to_string(want) + ", is " + to_string(spec));
}

void expect_same_type(const Spec& a, const Spec& b) {
  expect_floating(a, "the first operand");
  if (a.dtype != b.dtype) refuse("operands differ in type: " + to_string(a) + " and " + to_string(b));
}

/// `channels` of the image and `out` channels are shared out among the groups.
void expect_divided(std::int64_t channels, std::int64_t out, std::int64_t groups) {
  if (channels % groups || out % groups)
    refuse(std::to_string(channels) + " inputs and " + std::to_string(out) + " outputs do not divide into " +
           std::to_string(groups) + " groups");
}

Spec infer_conv(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_same_type(in[0], in[1]);
  expect_image(in[0]);
  if (in[1].shape.rank() != 4)
    refuse("the weights must be [height, width, channels in, channels out], are " + to_string(in[1]));
  const Shape &x = in[0].shape, &w = in[1].shape;
  const auto [conv, grid] = sizes_of(attrs);
  expect_divided(x[3], w[3], conv.groups);
  expect_shape(in[0], "the image", {x[0], conv.image.height, conv.image.width, w[2] * conv.groups});
  expect_shape(in[1], "the weights", {conv.window.height, conv.window.width, x[3] / conv.groups, w[3]});
  return {in[0].dtype, {x[0], grid.height, grid.width, w[3]}};
}

Spec infer_grad_x(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_same_type(in[0], in[1]);
  if (in[0].shape.rank() != 4 || in[1].shape.rank() != 4)
    refuse("operands must have four axes, are " + to_string(in[0]) + " and " + to_string(in[1]));
  const Shape &g = in[0].shape, &w = in[1].shape;
  const auto [conv, grid] = sizes_of(attrs);
  expect_divided(w[2] * conv.groups, w[3], conv.groups);
  expect_shape(in[0], "the gradient", {g[0], grid.height, grid.width, w[3]});
  expect_shape(in[1], "the weights", {conv.window.height, conv.window.width, w[2], w[3]});
  return {in[0].dtype, {g[0], conv.image.height, conv.image.width, w[2] * conv.groups}};
}

Spec infer_grad_w(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_same_type(in[0], in[1]);
  expect_image(in[0]);
  if (in[1].shape.rank() != 4) refuse("the gradient must have four axes, is " + to_string(in[1]));
  const Shape &x = in[0].shape, &g = in[1].shape;
  const auto [conv, grid] = sizes_of(attrs);
  expect_divided(x[3], g[3], conv.groups);
  expect_shape(in[0], "the image", {x[0], conv.image.height, conv.image.width, x[3]});
  expect_shape(in[1], "the gradient", {x[0], grid.height, grid.width, g[3]});
  return {in[0].dtype, {conv.window.height, conv.window.width, x[3] / conv.groups, g[3]}};
}

/// Channels can be cut as well, unless they are in groups.
AxisTo channel(const Attrs& attrs, int axis) { return Convolution::of(attrs).groups == 1 ? AxisTo(axis) : kWhole; }

AxisMap conv_axes(const Spec&, std::span<const Spec>, const Attrs& attrs) {
  return {{{0, kWhole, kWhole, kWhole}, {kWhole, kWhole, kWhole, channel(attrs, 3)}}};
}
AxisMap grad_x_axes(const Spec&, std::span<const Spec>, const Attrs& attrs) {
  return {{{0, kWhole, kWhole, kWhole}, {kWhole, kWhole, channel(attrs, 3), kWhole}}};
}
AxisMap grad_w_axes(const Spec&, std::span<const Spec>, const Attrs& attrs) {
  return {
      {{AxisTo::reduced(), kWhole, kWhole, channel(attrs, 2)}, {AxisTo::reduced(), kWhole, kWhole, channel(attrs, 3)}}};
}

std::vector<Tensor> gradient_of_conv(const Gradient& of) {
  const Location where = Location::current();
  return {ir::apply(Op::conv_grad_x, {of.g, of.in[1]}, of.attrs, where),
          ir::apply(Op::conv_grad_w, {of.in[0], of.g}, of.attrs, where)};
}
std::vector<Tensor> gradient_of_grad_x(const Gradient& of) {
  const Location where = Location::current();
  return {ir::apply(Op::conv, {of.g, of.in[1]}, of.attrs, where),
          ir::apply(Op::conv_grad_w, {of.g, of.in[0]}, of.attrs, where)};
}
std::vector<Tensor> gradient_of_grad_w(const Gradient& of) {
  const Location where = Location::current();
  return {ir::apply(Op::conv_grad_x, {of.in[1], of.g}, of.attrs, where),
          ir::apply(Op::conv, {of.in[0], of.g}, of.attrs, where)};
}

/// A multiplication and an addition for every output, tap and channel of its group.
double flops(std::int64_t positions, std::int64_t out, std::int64_t channels, const Window& w) {
  return 2.0 * static_cast<double>(positions) * static_cast<double>(out) *
         static_cast<double>(w.height * w.width * channels);
}
double conv_flops(const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  const Shape& y = out.shape;
  return flops(y[0] * y[1] * y[2], y[3], in[1].shape[2], ir::window_of(attrs));
}
double grad_x_flops(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  const Shape& y = in[0].shape;
  return flops(y[0] * y[1] * y[2], y[3], in[1].shape[2], ir::window_of(attrs));
}
double grad_w_flops(const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  const Shape& y = in[1].shape;
  return flops(y[0] * y[1] * y[2], y[3], out.shape[2], ir::window_of(attrs));
}

const OpDef kOpDefs[] = {
    {Op::conv,
     "conv",
     infer_conv,
     conv_axes,
     gradient_of_conv,
     "convolution of images with weights",
     nullptr,
     {.arithmetic = true, .flops = conv_flops}},
    {Op::conv_grad_x,
     "conv_grad_x",
     infer_grad_x,
     grad_x_axes,
     gradient_of_grad_x,
     "the gradient of conv by the images; transposed convolution",
     nullptr,
     {.arithmetic = true, .flops = grad_x_flops}},
    {Op::conv_grad_w,
     "conv_grad_w",
     infer_grad_w,
     grad_w_axes,
     gradient_of_grad_w,
     "the gradient of conv by the weights",
     nullptr,
     {.arithmetic = true, .flops = grad_w_flops}},
};

}  // namespace

std::span<const OpDef> conv_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
