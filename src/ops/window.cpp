// Windows over images [batch, height, width, channels]: patches and their adjoint, pooling; convolution is made of
// them. attrs.ints: height, width, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_bottom, pad_left,
// pad_right.
#include "ops/define.h"

namespace wr {

using ir::Attrs;
using ir::Op;

namespace {

std::vector<std::int64_t> to_ints(const Window& w) {
  return {w.height,     w.width,   w.stride_h,   w.stride_w, w.dilation_h,
          w.dilation_w, w.pad_top, w.pad_bottom, w.pad_left, w.pad_right};
}

void expect_image(const Tensor& x, const char* op, const std::source_location& where) {
  if (x.rank() != 4)
    fail(where, std::string(op) + ": the image must be [batch, height, width, channels], is " + to_string(x.shape()));
}

/// Half of what is missing on each side, the odd one after, as TensorFlow and JAX pad.
void pad_same(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation, std::int64_t& before,
              std::int64_t& after) {
  const auto out = (size + stride - 1) / stride;
  const auto missing = std::max<std::int64_t>(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size);
  before = missing / 2;
  after = missing - before;
}

}  // namespace

Tensor unfold(const Tensor& x, const Window& window, std::source_location where) {
  return ir::apply(Op::unfold, {x}, {to_ints(window), {}, {}}, where);
}

Tensor fold(const Tensor& patches, const Shape& image, const Window& window, std::source_location where) {
  if (image.rank() != 4)
    fail(where, "fold: the image must be [batch, height, width, channels], is " + to_string(image));
  auto ints = to_ints(window);
  ints.push_back(image[1]);
  ints.push_back(image[2]);
  return ir::apply(Op::fold, {patches}, {std::move(ints), {}, {}}, where);
}

Tensor conv2d(const Tensor& x, const Tensor& weights, const ConvOptions& options, std::source_location where) try {
  expect_image(x, "conv2d", where);
  if (weights.rank() != 4)
    fail(where,
         "conv2d: the weights must be [height, width, channels in, channels out], are " + to_string(weights.shape()));
  if (weights.size(2) != x.size(3))
    fail(where, "conv2d: the image " + to_string(x.shape()) + " has " + std::to_string(x.size(3)) +
                    " channels, the weights " + to_string(weights.shape()) + " take " +
                    std::to_string(weights.size(2)));
  if (options.stride < 1 || options.dilation < 1)
    fail(where, "conv2d: stride and dilation must be positive, are " + std::to_string(options.stride) + " and " +
                    std::to_string(options.dilation));
  Window w{
      weights.size(0), weights.size(1), options.stride, options.stride, options.dilation, options.dilation, 0, 0, 0, 0};
  if (options.padding == Padding::same) {
    pad_same(x.size(1), w.height, w.stride_h, w.dilation_h, w.pad_top, w.pad_bottom);
    pad_same(x.size(2), w.width, w.stride_w, w.dilation_w, w.pad_left, w.pad_right);
  }
  const bool pointwise = w.height == 1 && w.width == 1 && w.stride_h == 1;
  if (pointwise)
    return einsum("bhwc,co->bhwo", {x, reshape(weights, {weights.size(2), weights.size(3)}, where)}, where);
  const Tensor patches = unfold(x, w, where);
  const Shape& p = patches.shape();
  const auto taps = p[3] * p[4] * p[5];
  return einsum("bhwk,ko->bhwo",
                {reshape(patches, {p[0], p[1], p[2], taps}, where), reshape(weights, {taps, weights.size(3)}, where)},
                where);
} catch (const Error& error) {
  ops::refuse_as("conv2d", where, error);
}

Tensor max_pool(const Tensor& x, const Window& window, std::source_location where) try {
  return ir::apply(Op::max_pool_pick, {x, x}, {to_ints(window), {}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("max_pool", where, error);
}

Tensor max_pool(const Tensor& x, std::int64_t size, std::int64_t stride, std::source_location where) {
  const auto step = stride ? stride : size;
  return max_pool(x, Window{size, size, step, step, 1, 1, 0, 0, 0, 0}, where);
}

Tensor avg_pool(const Tensor& x, std::int64_t size, std::int64_t stride, std::source_location where) try {
  const auto step = stride ? stride : size;
  const Tensor patches = unfold(x, Window{size, size, step, step, 1, 1, 0, 0, 0, 0}, where);
  return mean(patches, {3, 4}, Keep::no, where);
} catch (const Error& error) {
  ops::refuse_as("avg_pool", where, error);
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

Grid grid_of(std::int64_t image_h, std::int64_t image_w, const Attrs& attrs) {
  const auto& i = attrs.ints;
  for (int p = 6; p < 10; ++p)
    if (i[static_cast<std::size_t>(p)] < 0) refuse("negative padding");
  return {positions(image_h, i[0], i[2], i[4], i[6] + i[7], "rows"),
          positions(image_w, i[1], i[3], i[5], i[8] + i[9], "columns")};
}

void expect_image(const Spec& x) {
  expect_floating(x, "the image");
  if (x.shape.rank() != 4) refuse("the image must be [batch, height, width, channels], is " + to_string(x));
}

// Images go row by row of the batch.
AxisMap batch_axis(const Spec&, std::span<const Spec> in, const Attrs&) {
  AxisMap map;
  for (const Spec& s : in) {
    Dims axes(s.shape.rank(), kWhole);
    axes[0] = 0;
    map.operand.push_back(axes);
  }
  return map;
}

Window window_of(const Attrs& attrs) {
  const auto& i = attrs.ints;
  return {i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9]};
}

Spec infer_unfold(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_ints(attrs, 10);
  expect_image(in[0]);
  const Shape& x = in[0].shape;
  const Grid grid = grid_of(x[1], x[2], attrs);
  return {in[0].dtype, {x[0], grid.height, grid.width, attrs.ints[0], attrs.ints[1], x[3]}};
}

std::vector<Tensor> gradient_of_unfold(const Gradient& of) {
  return {fold(of.g, of.in[0].shape(), window_of(of.attrs))};
}

// fold: two more ints, the image's height and width
Spec infer_fold(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_ints(attrs, 12);
  expect_floating(in[0], "the patches");
  const Shape& p = in[0].shape;
  const Grid grid = grid_of(attrs.ints[10], attrs.ints[11], attrs);
  if (p.rank() != 6 || p[1] != grid.height || p[2] != grid.width || p[3] != attrs.ints[0] || p[4] != attrs.ints[1])
    refuse("the patches are " + to_string(p) + ", expected [batch," + std::to_string(grid.height) + "," +
           std::to_string(grid.width) + "," + std::to_string(attrs.ints[0]) + "," + std::to_string(attrs.ints[1]) +
           ",channels]");
  return {in[0].dtype, {p[0], attrs.ints[10], attrs.ints[11], p[5]}};
}

std::vector<Tensor> gradient_of_fold(const Gradient& of) { return {unfold(of.g, window_of(of.attrs))}; }

// max_pool_pick(x, u): u where x is largest (first of equals) in each window; max_pool(x) is max_pool_pick(x, x)
Spec infer_pick(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_ints(attrs, 10);
  expect_image(in[0]);
  if (!(in[0] == in[1])) refuse("operands differ: " + to_string(in[0]) + " and " + to_string(in[1]));
  const Shape& x = in[0].shape;
  const Grid grid = grid_of(x[1], x[2], attrs);
  if (attrs.ints[6] >= attrs.ints[0] || attrs.ints[7] >= attrs.ints[0] || attrs.ints[8] >= attrs.ints[1] ||
      attrs.ints[9] >= attrs.ints[1])
    refuse("padding must be smaller than the window");
  return {in[0].dtype, {x[0], grid.height, grid.width, x[3]}};
}

std::vector<Tensor> gradient_of_pick(const Gradient& of) {
  return {{}, ir::apply(Op::max_pool_scatter, {of.in[0], of.g}, of.attrs, std::source_location::current())};
}

// max_pool_scatter(x, g): each window's g put where x is largest; the adjoint of max_pool_pick in its second operand
Spec infer_scatter(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  const Spec want = infer_pick(std::vector<Spec>{in[0], in[0]}, attrs);
  if (!(in[1] == want)) refuse("the gradient must be " + to_string(want) + ", is " + to_string(in[1]));
  return in[0];
}

std::vector<Tensor> gradient_of_scatter(const Gradient& of) {
  return {{}, ir::apply(Op::max_pool_pick, {of.in[0], of.g}, of.attrs, std::source_location::current())};
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
