// Windows over images [batch, height, width, channels]: patches and their adjoint, pooling.
#include <algorithm>

#include "ir/attributes.h"
#include "ops/define.h"

namespace wr {

using ir::Attrs;
using ir::Op;

Tensor unfold(const Tensor& x, const Window& window, Location where) {
  return ir::apply(Op::unfold, {x}, ir::attrs_of(window), where);
}

Tensor fold(const Tensor& patches, const Shape& image, const Window& window, Location where) {
  if (image.rank() != 4)
    fail(where, "fold: the image must be [batch, height, width, channels], is " + to_string(image));
  return ir::apply(Op::fold, {patches}, ir::attrs_of(window, image[1], image[2]), where);
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

}  // namespace

Grid grid_of(std::int64_t image_h, std::int64_t image_w, const Window& w) {
  if (std::min({w.pad_top, w.pad_bottom, w.pad_left, w.pad_right}) < 0) refuse("negative padding");
  return {positions(image_h, w.height, w.stride_h, w.dilation_h, w.pad_top + w.pad_bottom, "rows"),
          positions(image_w, w.width, w.stride_w, w.dilation_w, w.pad_left + w.pad_right, "columns")};
}

void expect_image(const Spec& x) {
  expect_floating(x, "the image");
  if (x.shape.rank() != 4) refuse("the image must be [batch, height, width, channels], is " + to_string(x));
}

namespace {

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
