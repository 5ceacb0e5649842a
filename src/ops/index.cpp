// Ops with integer indices (i32). An index out of range reads NaN (0 for integers) and writes nothing.
#include "ops/define.h"

namespace wr {

using ir::Op;

Tensor gather(const Tensor& x, const Tensor& indices, int axis, Location where) try {
  return ir::apply(Op::gather, {x, indices}, {{ops::normalise_axis(axis, x.rank(), "gather", where)}, {}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("gather", where, error);
}
Tensor scatter_add(const Tensor& base, const Tensor& indices, const Tensor& updates, int axis, Location where) try {
  return ir::apply(Op::scatter_add, {base, indices, updates},
                   {{ops::normalise_axis(axis, base.rank(), "scatter_add", where)}, {}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("scatter_add", where, error);
}
Tensor take_along(const Tensor& x, const Tensor& indices, int axis, Location where) try {
  return ir::apply(Op::take_along, {x, indices}, {{ops::normalise_axis(axis, x.rank(), "take_along", where)}, {}, {}},
                   where);
} catch (const Error& error) {
  ops::refuse_as("take_along", where, error);
}
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype, Location where) {
  return ir::apply(Op::one_hot, {indices}, {{classes, static_cast<std::int64_t>(dtype)}, {}, {}}, where);
}
Tensor embedding_sum(const Tensor& table, const Tensor& indices, Location where) {
  return ir::apply(Op::embedding_sum, {table, indices}, {}, where);
}

namespace ops {
namespace {

// ---- gather: ints[0] is the axis, which is replaced by the indices' axes
Spec infer_gather(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_ints(attrs, 1);
  expect_indices(in[1]);
  expect_axis(attrs.ints[0], in[0].shape.rank());
  Spec out{in[0].dtype, {}};
  for (int i = 0; i < in[0].shape.rank(); ++i) {
    if (i == attrs.ints[0])
      for (auto n : in[1].shape) out.shape.push_back(n);
    else
      out.shape.push_back(in[0].shape[i]);
  }
  return out;
}

AxisMap gather_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  const int axis = static_cast<int>(attrs.ints[0]), more = in[1].shape.rank() - 1;
  Axes x, idx;
  for (int i = 0; i < in[0].shape.rank(); ++i) x.push_back(i == axis ? kWhole : i < axis ? i : i + more);
  for (int i = 0; i < in[1].shape.rank(); ++i) idx.push_back(axis + i);
  return {{x, idx}};
}

std::vector<Tensor> gradient_of_gather(const Gradient& of) {
  const Tensor &x = of.in[0], &indices = of.in[1];
  const int axis = static_cast<int>(of.attrs.ints[0]);
  const auto count = indices.shape().count();
  if (axis == 0) {  // rows: the adjoint that can be summed strip by strip
    const Tensor rows = reshape(of.g, {count, count ? of.g.shape().count() / count : 0});
    const Tensor d = ir::apply(Op::embedding_grad, {reshape(indices, {count, 1}), rows}, {{x.shape()[0]}, {}, {}},
                               Location::current());
    return {reshape(d, x.shape()), {}};
  }
  Shape flat;
  for (int i = 0; i < x.rank(); ++i) flat.push_back(i == axis ? count : x.shape()[i]);
  return {scatter_add(full(x.shape(), 0, x.dtype()), reshape(indices, {count}), reshape(of.g, flat), axis), {}};
}

// ---- scatter_add(base, indices [count], updates): ints[0] is the axis
Spec infer_scatter_add(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 3);
  expect_ints(attrs, 1);
  expect_indices(in[1]);
  expect_axis(attrs.ints[0], in[0].shape.rank());
  Shape want = in[0].shape;
  if (in[1].shape.rank() != 1) refuse("the indices must have one axis, are " + to_string(in[1]));
  want[static_cast<int>(attrs.ints[0])] = in[1].shape[0];
  if (!(in[2].shape == want) || in[2].dtype != in[0].dtype)
    refuse("the updates must be " + to_string(Spec{in[0].dtype, want}) + " for base " + to_string(in[0]) + ", are " +
           to_string(in[2]));
  return in[0];
}

AxisMap scatter_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  Axes same;
  for (int i = 0; i < in[0].shape.rank(); ++i) same.push_back(i == attrs.ints[0] ? kWhole : i);
  return {{same, Axes{kWhole}, same}};
}

// An update at an index out of range was not written: its gradient is 0, where gather would read NaN.
std::vector<Tensor> gradient_of_scatter_add(const Gradient& of) {
  const int axis = static_cast<int>(of.attrs.ints[0]);
  const Tensor& indices = of.in[1];
  Shape along(of.g.rank(), 1);
  along[axis] = indices.shape()[0];
  const Tensor written = logical_and(indices >= 0, indices < of.g.size(axis));
  return {of.g, {}, where(reshape(written, along), gather(of.g, indices, axis), 0)};
}

// ---- take_along(x, indices): ints[0] is the axis; the other sizes agree
void expect_along(const Spec& x, const Spec& indices, const Attrs& attrs) {
  expect_ints(attrs, 1);
  expect_indices(indices);
  expect_axis(attrs.ints[0], x.shape.rank());
  Shape want = x.shape;
  if (indices.shape.rank() == want.rank())
    want[static_cast<int>(attrs.ints[0])] = indices.shape[static_cast<int>(attrs.ints[0])];
  if (!(want == indices.shape))
    refuse("the indices " + to_string(indices.shape) + " must have the sizes of " + to_string(x.shape) +
           " but along axis " + std::to_string(attrs.ints[0]));
}

Spec infer_take_along(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_along(in[0], in[1], attrs);
  return {in[0].dtype, in[1].shape};
}

AxisMap along_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  AxisMap map;
  for (const Spec& s : in) {
    Axes axes;
    for (int i = 0; i < s.shape.rank(); ++i) axes.push_back(i == attrs.ints[0] ? kWhole : i);
    map.operand.push_back(axes);
  }
  return map;
}

std::vector<Tensor> gradient_of_take_along(const Gradient& of) {
  const Tensor& x = of.in[0];
  return {ir::apply(Op::put_along, {of.in[1], of.g},
                    {{of.attrs.ints[0], x.shape()[static_cast<int>(of.attrs.ints[0])]}, {}, {}}, Location::current()),
          {}};
}

// ---- put_along(indices, updates): zeros with the updates added; ints are the axis and its size in the result
Spec infer_put_along(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_ints(attrs, 2);
  expect_indices(in[0]);
  expect_axis(attrs.ints[0], in[0].shape.rank());
  if (!(in[0].shape == in[1].shape))
    refuse("indices " + to_string(in[0].shape) + " and updates " + to_string(in[1].shape) + " differ in shape");
  Spec out = in[1];
  out.shape[static_cast<int>(attrs.ints[0])] = attrs.ints[1];
  expect_sizes(out.shape);
  return out;
}

std::vector<Tensor> gradient_of_put_along(const Gradient& of) {
  return {{}, take_along(of.g, of.in[0], static_cast<int>(of.attrs.ints[0]))};
}

// ---- one_hot(indices): ints are classes, type; a last axis is added
Spec infer_one_hot(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_ints(attrs, 2);
  expect_indices(in[0]);
  if (attrs.ints[0] < 1) refuse("needs at least one class");
  Spec out{expect_dtype(attrs.ints[1]), in[0].shape};
  out.shape.push_back(attrs.ints[0]);
  expect_sizes(out.shape);
  return out;
}

AxisMap leading_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  Axes axes;
  for (int i = 0; i < in[0].shape.rank(); ++i) axes.push_back(i);
  return {{axes}};
}

// ---- embedding_sum(table [n,width], indices [...,k]) -> [...,width]
Spec infer_embedding_sum(std::span<const Spec> in, const Attrs&) {
  expect_operands(in, 2);
  expect_indices(in[1]);
  expect_floating(in[0], "the table");
  if (in[0].shape.rank() != 2) refuse("the table must have two axes, is " + to_string(in[0]));
  if (in[1].shape.rank() < 1) refuse("the indices need an axis to sum over, are " + to_string(in[1]));
  Spec out{in[0].dtype, in[1].shape};
  out.shape[out.shape.rank() - 1] = in[0].shape[1];
  return out;
}

AxisMap embedding_axes(const Spec& out, std::span<const Spec> in, const Attrs&) {
  Axes idx;
  for (int i = 0; i < in[1].shape.rank(); ++i) idx.push_back(i + 1 < in[1].shape.rank() ? i : kWhole);
  return {{Axes{kWhole, out.shape.rank() - 1}, idx}};
}

std::vector<Tensor> gradient_of_embedding_sum(const Gradient& of) {
  const auto k = of.in[1].shape().back(), width = of.g.shape().back();
  const auto rows = k ? of.in[1].shape().count() / k : 0;
  return {ir::apply(Op::embedding_grad, {reshape(of.in[1], {rows, k}), reshape(of.g, {rows, width})},
                    {{of.in[0].shape()[0]}, {}, {}}, Location::current()),
          {}};
}

// ---- embedding_grad(indices [rows,k], g [rows,width]) -> [n,width]: row g[r] added at each of indices[r]; ints[0] is
// n
Spec infer_embedding_grad(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_ints(attrs, 1);
  expect_indices(in[0]);
  if (in[0].shape.rank() != 2 || in[1].shape.rank() != 2 || in[0].shape[0] != in[1].shape[0])
    refuse("needs indices [rows,k] and rows [rows,width], got " + to_string(in[0]) + " and " + to_string(in[1]));
  return {in[1].dtype, expect_sizes({attrs.ints[0], in[1].shape[1]})};
}

/// Summed over the rows of g, or any entries of the table made of all of them.
AxisMap embedding_grad_axes(const Spec&, std::span<const Spec>, const Attrs&) {
  return {{Axes{AxisTo::reduced(), kWhole}, Axes{AxisTo::reduced(), 1}}, {0}};
}

std::vector<Tensor> gradient_of_embedding_grad(const Gradient& of) { return {{}, embedding_sum(of.g, of.in[0])}; }

// ---- index_order(indices) -> [2, count]: the indices in ascending order, and where each stood; equal ones in the
// order they stood in
Spec infer_index_order(std::span<const Spec> in, const Attrs&) {
  expect_operands(in, 1);
  expect_indices(in[0]);
  return {DType::i32, {2, in[0].shape.count()}};
}

AxisMap index_order_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  return {{Axes(in[0].shape.rank(), kWhole)}};
}

const OpDef kOpDefs[] = {
    {Op::gather, "gather", infer_gather, gather_axes, gradient_of_gather, "rows chosen by index along an axis"},
    {Op::scatter_add, "scatter_add", infer_scatter_add, scatter_axes, gradient_of_scatter_add,
     "rows added at indices along an axis"},
    {Op::take_along, "take_along", infer_take_along, along_axes, gradient_of_take_along,
     "one pick an element along an axis"},
    {Op::put_along, "put_along", infer_put_along, along_axes, gradient_of_put_along, "the adjoint of take_along"},
    {Op::one_hot, "one_hot", infer_one_hot, leading_axes, no_gradient, "1 at the index, 0 elsewhere"},
    {Op::embedding_sum, "embedding_sum", infer_embedding_sum, embedding_axes, gradient_of_embedding_sum,
     "sum of table rows"},
    {Op::embedding_grad, "embedding_grad", infer_embedding_grad, embedding_grad_axes, gradient_of_embedding_grad,
     "the adjoint of embedding_sum in its table"},
    {Op::index_order, "index_order", infer_index_order, index_order_axes, no_gradient,
     "indices in ascending order, and where they stood"},
};

}  // namespace

std::span<const OpDef> index_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
