// Windows over images [batch, height, width, channels]: patches and their adjoint, pooling; convolution is made of
// them.
#include <algorithm>

#include "ir/attributes.h"
#include "ops/define.h"

namespace wr {

using ir::Attrs;
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

}  // namespace

Window window_on(std::int64_t height, std::int64_t width, std::int64_t kernel_height, std::int64_t kernel_width,
                 const ConvOptions& o) {
  const Sides rows = sides(height, kernel_height, o), columns = sides(width, kernel_width, o);
  return {kernel_height, kernel_width, o.stride,   o.stride,       o.dilation,
          o.dilation,    rows.before,  rows.after, columns.before, columns.after};
}

Tensor unfold(const Tensor& x, const Window& window, Location where) {
  return ir::apply(Op::unfold, {x}, ir::attrs_of(window), where);
}

Tensor fold(const Tensor& patches, const Shape& image, const Window& window, Location where) {
  if (image.rank() != 4)
    fail(where, "fold: the image must be [batch, height, width, channels], is " + to_string(image));
  return ir::apply(Op::fold, {patches}, ir::attrs_of(window, image[1], image[2]), where);
}

namespace {

/// x [b,h,w,c] with weights [kh,kw,c / groups,o]: a product with the patches.
Tensor convolve(const Tensor& x, const Tensor& weights, const Window& w, std::int64_t groups, Location where) {
  const auto in = weights.size(2), out = weights.size(3);
  const bool pointwise = w == Window{};
  if (pointwise && groups == 1) return einsum("bhwc,co->bhwo", {x, reshape(weights, {in, out}, where)}, where);
  const Tensor patches = unfold(x, w, where);
  const Shape& p = patches.shape();
  const auto taps = p[3] * p[4];
  if (groups == 1)
    return einsum("bhwk,ko->bhwo",
                  {reshape(patches, {p[0], p[1], p[2], taps * in}, where), reshape(weights, {taps * in, out}, where)},
                  where);
  const Tensor y = einsum("bhwkgc,kcgo->bhwgo",
                          {reshape(patches, {p[0], p[1], p[2], taps, groups, in}, where),
                           reshape(weights, {taps, in, groups, out / groups}, where)},
                          where);
  return reshape(y, {p[0], p[1], p[2], out}, where);
}

}  // namespace

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
  const Shape image{x.size(0), grown(x.size(1), w[1]), grown(x.size(2), w[2]), w[3]};
  const Tensor flat = reshape(weights, {w[0], w[1] * w[2] * w[3]}, where);
  const Tensor patches =
      reshape(einsum("bhwc,ck->bhwk", {x, flat}, where), {x.size(0), x.size(1), x.size(2), w[1], w[2], w[3]}, where);
  return fold(patches, image, window_on(image[1], image[2], w[1], w[2], options), where);
} catch (const Error& error) {
  ops::refuse_as("conv_transpose2d", where, error);
}

Tensor max_pool(const Tensor& x, const Window& window, Location where) try {
  return ir::apply(Op::max_pool_pick, {x, x}, ir::attrs_of(window), where);
} catch (const Error& error) {
  ops::refuse_as("max_pool", where, error);
}

Tensor max_pool(const Tensor& x, std::int64_t size, std::int64_t stride, Location where) {
  const auto step = stride ? stride : size;
  return max_pool(x, Window{size, size, step, step}, where);
}

Tensor avg_pool(const Tensor& x, const Window& window, Location where) try {
  return mean(unfold(x, window, where), {3, 4}, Keep::no, where);
} catch (const Error& error) {
  ops::refuse_as("avg_pool", where, error);
}

Tensor avg_pool(const Tensor& x, std::int64_t size, std::int64_t stride, Location where) {
  const auto step = stride ? stride : size;
  return avg_pool(x, Window{size, size, step, step}, where);
}

namespace ops {
namespace {

std::int64_t positions(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                       std::int64_t padding, const char* what) {
  const auto reach = (kernel - 1) * dilation + 1;
  if (kernel < 1 || stride < 1 || dilation < 1) refuse("window, stride and dilation must be positive");
  if (size + padding < reach)
    refuse(std::string("the window spans ") + std::to_string(reach) + " " + what + ", the padded image has " +
           std::to_string(size + padding));
  return (size + padding - reach) / stride + 1;
}

struct Grid {
  std::int64_t height, width;
};

Grid grid_of(std::int64_t image_h, std::int64_t image_w, const Window& w) {
  if (std::min({w.pad_top, w.pad_bottom, w.pad_left, w.pad_right}) < 0) refuse("negative padding");
  return {positions(image_h, w.height, w.stride_h, w.dilation_h, w.pad_top + w.pad_bottom, "rows"),
          positions(image_w, w.width, w.stride_w, w.dilation_w, w.pad_left + w.pad_right, "columns")};
}

void expect_image(const Spec& x) {
  expect_floating(x, "the image");
  if (x.shape.rank() != 4) refuse("the image must be [batch, height, width, channels], is " + to_string(x));
}

// Images go row by row of the batch.
AxisMap batch_axis(const Spec&, std::span<const Spec> in, const Attrs&) {
  AxisMap map;
  for (const Spec& s : in) {
    Axes axes(s.shape.rank(), kWhole);
    axes[0] = 0;
    map.operand.push_back(axes);
  }
  return map;
}

Spec infer_unfold(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_ints(attrs, ir::kWindowNumbers);
  expect_image(in[0]);
  const Shape& x = in[0].shape;
  const Window w = ir::window_of(attrs);
  const Grid grid = grid_of(x[1], x[2], w);
  return {in[0].dtype, {x[0], grid.height, grid.width, w.height, w.width, x[3]}};
}

std::vector<Tensor> gradient_of_unfold(const Gradient& of) {
  return {fold(of.g, of.in[0].shape(), ir::window_of(of.attrs))};
}

// fold: the attributes have the image's size as well
Spec infer_fold(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_ints(attrs, ir::kWindowNumbers + 2);
  expect_floating(in[0], "the patches");
  const Shape& p = in[0].shape;
  const Window w = ir::window_of(attrs);
  const auto [height, width] = ir::image_of(attrs);
  const Grid grid = grid_of(height, width, w);
  if (p.rank() != 6 || p[1] != grid.height || p[2] != grid.width || p[3] != w.height || p[4] != w.width)
    refuse("the patches are " + to_string(p) + ", expected [batch," + std::to_string(grid.height) + "," +
           std::to_string(grid.width) + "," + std::to_string(w.height) + "," + std::to_string(w.width) + ",channels]");
  return {in[0].dtype, {p[0], height, width, p[5]}};
}

std::vector<Tensor> gradient_of_fold(const Gradient& of) { return {unfold(of.g, ir::window_of(of.attrs))}; }

// max_pool_pick(x, u): u where x is largest (first of equals) in each window; max_pool(x) is max_pool_pick(x, x)
Spec infer_pick(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_ints(attrs, ir::kWindowNumbers);
  expect_image(in[0]);
  if (!(in[0] == in[1])) refuse("operands differ: " + to_string(in[0]) + " and " + to_string(in[1]));
  const Shape& x = in[0].shape;
  const Window w = ir::window_of(attrs);
  const Grid grid = grid_of(x[1], x[2], w);
  if (std::max(w.pad_top, w.pad_bottom) >= w.height || std::max(w.pad_left, w.pad_right) >= w.width)
    refuse("padding must be smaller than the window");
  return {in[0].dtype, {x[0], grid.height, grid.width, x[3]}};
}

std::vector<Tensor> gradient_of_pick(const Gradient& of) {
  return {{}, ir::apply(Op::max_pool_scatter, {of.in[0], of.g}, of.attrs, Location::current())};
}

// max_pool_scatter(x, g): each window's g put where x is largest; the adjoint of max_pool_pick in its second operand
Spec infer_scatter(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  const Spec want = infer_pick(std::vector<Spec>{in[0], in[0]}, attrs);
  if (!(in[1] == want)) refuse("the gradient must be " + to_string(want) + ", is " + to_string(in[1]));
  return in[0];
}

std::vector<Tensor> gradient_of_scatter(const Gradient& of) {
  return {{}, ir::apply(Op::max_pool_pick, {of.in[0], of.g}, of.attrs, Location::current())};
}

const OpDef kOpDefs[] = {
    {Op::unfold, "unfold", infer_unfold, batch_axis, gradient_of_unfold, "patches of an image, zeros outside"},
    {Op::fold, "fold", infer_fold, batch_axis, gradient_of_fold, "patches added up to an image"},
    {Op::max_pool_pick, "max_pool_pick", infer_pick, batch_axis, gradient_of_pick,
     "the second operand where the first is largest in each window"},
    {Op::max_pool_scatter, "max_pool_scatter", infer_scatter, batch_axis, gradient_of_scatter,
     "the adjoint of max_pool_pick"},
};

}  // namespace

std::span<const OpDef> window_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
