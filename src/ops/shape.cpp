// Ops that rearrange elements: reshape, permute, broadcast, slice, concat, pad.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ir/attributes.h"
#include "ops/define.h"

namespace wr {

using ir::Attrs;
using ir::Op;

namespace {}  // namespace

Tensor reshape(const Tensor& x, const Shape& given, Location where) try {
  Shape shape = given;
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1 && unknown < 0)
      unknown = i;
    else if (shape[i] < 0)
      fail(where, "reshape: " + to_string(given) + " has more than one unknown or a negative size");
    else
      known *= shape[i];
  }
  if (unknown >= 0) {
    if (known == 0 || x.shape().count() % known != 0)
      fail(where, "reshape: cannot view " + to_string(x.shape()) + " (" + std::to_string(x.shape().count()) +
                      " elements) as " + to_string(given));
    shape[unknown] = x.shape().count() / known;
  }
  if (shape == x.shape()) return x;
  return ir::apply(Op::reshape, {x}, ir::attrs_of(shape), where);
} catch (const Error& error) {
  ops::refuse_as("reshape", where, error);
}

Tensor flatten(const Tensor& x, int from_axis, Location where) try {
  if (x.rank() == 0) return reshape(x, {1}, where);
  const int from = ops::normalise_axis(from_axis, x.rank(), "flatten", where);
  Shape shape;
  for (int i = 0; i < from; ++i) shape.push_back(x.shape()[i]);
  std::int64_t rest = 1;
  for (int i = from; i < x.rank(); ++i) rest *= x.shape()[i];
  shape.push_back(rest);
  return reshape(x, shape, where);
} catch (const Error& error) {
  ops::refuse_as("flatten", where, error);
}

Tensor permute(const Tensor& x, const Dims& order, Location where) try {
  Dims axes;
  for (auto axis : order) axes.push_back(ops::normalise_axis(static_cast<int>(axis), x.rank(), "permute", where));
  return ir::apply(Op::permute, {x}, ir::attrs_of(axes), where);
} catch (const Error& error) {
  ops::refuse_as("permute", where, error);
}

Tensor transpose(const Tensor& x, Location where) try {
  if (x.rank() < 2) fail(where, "transpose: needs rank 2 or more, got " + to_string(x.shape()));
  Dims order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return permute(x, order, where);
} catch (const Error& error) {
  ops::refuse_as("transpose", where, error);
}

Tensor expand_dims(const Tensor& x, int axis, Location where) try {
  Shape shape = x.shape();
  shape.insert(ops::normalise_axis(axis, x.rank() + 1, "expand_dims", where), 1);
  return reshape(x, shape, where);
} catch (const Error& error) {
  ops::refuse_as("expand_dims", where, error);
}

Tensor squeeze(const Tensor& x, int axis, Location where) try {
  const int at = ops::normalise_axis(axis, x.rank(), "squeeze", where);
  if (x.shape()[at] != 1)
    fail(where, "squeeze: axis " + std::to_string(at) + " of " + to_string(x.shape()) + " has size " +
                    std::to_string(x.shape()[at]) + ", not 1");
  Shape shape = x.shape();
  shape.erase(at);
  return reshape(x, shape, where);
} catch (const Error& error) {
  ops::refuse_as("squeeze", where, error);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, Location where) try {
  if (x.rank() > shape.rank())
    fail(where, "broadcast_to: " + to_string(x.shape()) + " has more axes than " + to_string(shape));
  Shape padded(shape.rank() - x.rank(), 1);
  for (auto n : x.shape()) padded.push_back(n);
  const Tensor y = reshape(x, padded, where);
  if (y.shape() == shape) return y;
  return ir::apply(Op::broadcast, {y}, ir::attrs_of(shape), where);
} catch (const Error& error) {
  ops::refuse_as("broadcast_to", where, error);
}

Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step, Location where) try {
  const int at = ops::normalise_axis(axis, x.rank(), "slice", where);
  const auto n = x.shape()[at];
  if (step == 0) fail(where, "slice: the step is 0");
  const auto longest = std::max<std::int64_t>(n, 1);  // a longer step takes the first element too
  step = std::clamp(step, -longest, longest);
  const auto lowest = step > 0 ? std::int64_t{0} : std::int64_t{-1}, highest = step > 0 ? n : n - 1;
  // INT64_MIN/MAX stand for "from the end" and "to the end", as a missing bound does in Python.
  auto bound = [&](std::int64_t v) { return std::clamp(v < 0 && v > -n - 1 ? v + n : v, lowest, highest); };
  const auto first = bound(start), last = bound(stop);
  const auto count = step > 0 ? std::max<std::int64_t>(0, (last - first + step - 1) / step)
                              : std::max<std::int64_t>(0, (first - last - step - 1) / -step);
  Dims starts(x.rank(), 0), counts = x.shape(), steps(x.rank(), 1);
  starts[at] = count ? first : 0;
  counts[at] = count;
  steps[at] = step;
  if (counts == x.shape() && step == 1) return x;
  return ir::apply(Op::slice, {x}, ir::Slice{starts, counts, steps}.attrs(), where);
} catch (const Error& error) {
  ops::refuse_as("slice", where, error);
}

Tensor concat(const std::vector<Tensor>& parts, int axis, Location where) try {
  if (parts.empty()) fail(where, "concat: nothing to put together");
  if (parts.size() == 1) return parts[0];
  const int at = ops::normalise_axis(axis, parts[0].rank(), "concat", where);
  return ir::apply(Op::concat, parts, {{at}, {}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("concat", where, error);
}

Tensor stack(const std::vector<Tensor>& parts, int axis, Location where) try {
  std::vector<Tensor> expanded;
  for (const Tensor& t : parts) expanded.push_back(expand_dims(t, axis, where));
  return concat(expanded, axis, where);
} catch (const Error& error) {
  ops::refuse_as("stack", where, error);
}

Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value, Location where) {
  return ir::apply(Op::pad, {x}, ir::Pad{before, after, value}.attrs(), where);
}

namespace ops {
namespace {

// ---- reshape: ints are the new sizes
Spec infer_reshape(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  const Shape shape = expect_sizes(ir::list_of(attrs));
  if (shape.count() != in[0].shape.count())
    refuse("cannot view " + to_string(in[0].shape) + " (" + std::to_string(in[0].shape.count()) + " elements) as " +
           to_string(shape) + " (" + std::to_string(shape.count()) + " elements)");
  return {in[0].dtype, shape};
}

// An axis goes through a reshape if the same size stands after the same number of elements.
AxisMap reshape_axes(const Spec& out, std::span<const Spec> in, const Attrs&) {
  const Shape& x = in[0].shape;
  Axes axes(x.rank(), kWhole);
  std::int64_t before = 1;
  for (int i = 0; i < x.rank(); before *= x[i++]) {
    std::int64_t before_out = 1;
    for (int j = 0; j < out.shape.rank() && before_out <= before; before_out *= out.shape[j++])
      if (before_out == before && out.shape[j] == x[i] && x[i] != 1) axes[i] = j;
  }
  return {{axes}};
}

std::vector<Tensor> gradient_of_reshape(const Gradient& of) { return {reshape(of.g, of.in[0].shape())}; }

// ---- permute: ints[j] is the operand's axis that becomes axis j
Spec infer_permute(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  const Shape& x = in[0].shape;
  if (static_cast<int>(attrs.ints.size()) != x.rank())
    refuse("the order has " + std::to_string(attrs.ints.size()) + " axes, the operand is " + to_string(x));
  Shape shape;
  std::vector<bool> seen(attrs.ints.size());
  for (auto axis : attrs.ints) {
    expect_axis(axis, x.rank());
    if (seen[axis]) refuse("axis " + std::to_string(axis) + " is named twice");
    seen[axis] = true;
    shape.push_back(x[static_cast<int>(axis)]);
  }
  return {in[0].dtype, shape};
}

AxisMap permute_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  Axes axes(in[0].shape.rank(), kWhole);
  for (int j = 0; j < axes.rank(); ++j) axes[static_cast<int>(attrs.ints[j])] = j;
  return {{axes}};
}

std::vector<Tensor> gradient_of_permute(const Gradient& of) {
  Dims inverse(of.g.rank(), 0);
  for (int j = 0; j < of.g.rank(); ++j) inverse[static_cast<int>(of.attrs.ints[j])] = j;
  return {permute(of.g, inverse)};
}

// ---- broadcast: ints are the new sizes; the operand has the same rank and size 1 where it is repeated
Spec infer_broadcast(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  const Shape shape = expect_sizes(ir::list_of(attrs));
  const Shape& x = in[0].shape;
  bool fits = x.rank() == shape.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = x[i] == shape[i] || (x[i] == 1 && shape[i] >= 0);
  if (!fits) refuse("cannot repeat " + to_string(x) + " to " + to_string(shape));
  return {in[0].dtype, shape};
}

AxisMap same_size_axes(const Spec& out, std::span<const Spec> in, const Attrs&) {
  Axes axes(in[0].shape.rank(), kWhole);
  for (int i = 0; i < axes.rank(); ++i)
    if (in[0].shape[i] == out.shape[i]) axes[i] = i;
  return {{axes}};
}

std::vector<Tensor> gradient_of_broadcast(const Gradient& of) {
  return {sum_to_shape(of.g, of.in[0].shape(), Location::current())};
}

// ---- slice: ints are starts, counts, steps
Spec infer_slice(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  const int rank = in[0].shape.rank();
  const auto [starts, counts, steps] = ir::Slice::of(attrs, rank);
  for (int i = 0; i < rank; ++i) {
    const auto n = in[0].shape[i];
    if (counts[i] < 0 || counts[i] > n || starts[i] < 0 ||
        std::abs(steps[i]) > (counts[i] > 1 ? n : std::int64_t{1} << 40))
      refuse("start " + std::to_string(starts[i]) + ", count " + std::to_string(counts[i]) + ", step " +
             std::to_string(steps[i]) + " do not fit axis " + std::to_string(i) + " of " + to_string(in[0].shape));
    const auto last = starts[i] + (counts[i] - 1) * steps[i];
    if (counts[i] < 0 || steps[i] == 0 || (counts[i] > 0 && (starts[i] < 0 || starts[i] >= n || last < 0 || last >= n)))
      refuse("elements " + std::to_string(starts[i]) + " to " + std::to_string(last) + " are outside axis " +
             std::to_string(i) + " of " + to_string(in[0].shape));
  }
  return {in[0].dtype, counts};
}

AxisMap slice_axes(const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  const int rank = in[0].shape.rank();
  const Dims steps = ir::Slice::of(attrs, rank).steps;
  Axes axes(rank, kWhole);
  for (int i = 0; i < rank; ++i)
    if (out.shape[i] == in[0].shape[i] && steps[i] == 1) axes[i] = i;
  return {{axes}};
}

std::vector<Tensor> gradient_of_slice(const Gradient& of) {
  const Shape& x = of.in[0].shape();
  const int rank = x.rank();
  const auto [starts, counts, steps] = ir::Slice::of(of.attrs, rank);
  Tensor g = of.g;
  Dims before(rank, 0), after(rank, 0);
  for (int i = 0; i < rank; ++i) {
    auto start = starts[i], step = steps[i];
    if (step < 0) {
      g = slice(g, i, counts[i] - 1, -counts[i] - 1, -1);
      start += (counts[i] - 1) * step;
      step = -step;
    }
    if (step > 1) {  // zeros between the elements: a new axis of size step, padded, merged
      Shape split = g.shape();
      split.insert(i + 1, 1);
      Dims none(split.rank(), 0), fill(split.rank(), 0);
      fill[i + 1] = step - 1;
      g = pad(reshape(g, split), none, fill);
      Shape merged = g.shape();
      merged.erase(i + 1);
      merged[i] = counts[i] * step;
      g = slice(reshape(g, merged), i, 0, std::min(counts[i] * step, x[i] - start));
    }
    before[i] = start;
    after[i] = x[i] - start - g.shape()[i];
  }
  return {pad(g, before, after)};
}

// ---- concat: ints[0] is the axis
Spec infer_concat(std::span<const Spec> in, const Attrs& attrs) {
  if (in.empty()) refuse("nothing to put together");
  expect_ints(attrs, 1);
  Spec out = in[0];
  expect_axis(attrs.ints[0], out.shape.rank());
  const int axis = static_cast<int>(attrs.ints[0]);
  for (std::size_t i = 1; i < in.size(); ++i) {
    Shape rest = in[i].shape;
    if (rest.rank() == out.shape.rank()) rest[axis] = out.shape[axis];
    if (!(rest == out.shape) || in[i].dtype != out.dtype)
      refuse("part " + std::to_string(i) + " is " + to_string(in[i]) + ", the first is " + to_string(in[0]) +
             "; they may differ along axis " + std::to_string(axis) + " only");
    out.shape[axis] += in[i].shape[axis];
  }
  return out;
}

AxisMap concat_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  AxisMap map;
  for (const Spec& s : in) {
    Axes axes;
    for (int i = 0; i < s.shape.rank(); ++i) axes.push_back(i == attrs.ints[0] ? kWhole : i);
    map.operand.push_back(axes);
  }
  return map;
}

std::vector<Tensor> gradient_of_concat(const Gradient& of) {
  const int axis = static_cast<int>(of.attrs.ints[0]);
  std::vector<Tensor> gradients;
  std::int64_t at = 0;
  for (const Tensor& t : of.in) {
    const auto n = t.shape()[axis];
    gradients.push_back(slice(of.g, axis, at, at + n));
    at += n;
  }
  return gradients;
}

// ---- pad: ints are sizes before, sizes after; reals[0] the value
Spec infer_pad(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  const int rank = in[0].shape.rank();
  if (static_cast<int>(attrs.ints.size()) != 2 * rank || attrs.reals.size() != 1)
    refuse("needs " + std::to_string(rank) + " sizes before and after for " + to_string(in[0].shape) + ", got " +
           std::to_string(attrs.ints.size()) + " numbers");
  Spec out = in[0];
  const ir::Pad pad = ir::Pad::of(attrs, rank);
  for (int i = 0; i < rank; ++i) {
    const auto before = pad.before[i], after = pad.after[i];
    constexpr std::int64_t kMost = std::int64_t{1} << 46;
    if (before < 0 || after < 0) refuse("negative size at axis " + std::to_string(i));
    if (before > kMost || after > kMost) refuse("too many elements at axis " + std::to_string(i));
    out.shape[i] += before + after;
  }
  expect_sizes(out.shape);
  return out;
}

std::vector<Tensor> gradient_of_pad(const Gradient& of) {
  const int rank = of.g.rank();
  Tensor g = of.g;
  for (int i = 0; i < rank; ++i) {
    const auto before = ir::Pad::of(of.attrs, rank).before[i];
    g = slice(g, i, before, before + of.in[0].shape()[i]);
  }
  return {g};
}

const OpDef kOpDefs[] = {
    {Op::reshape, "reshape", infer_reshape, reshape_axes, gradient_of_reshape, "the same elements in another shape"},
    {Op::permute, "permute", infer_permute, permute_axes, gradient_of_permute, "axes in another order"},
    {Op::broadcast,
     "broadcast",
     infer_broadcast,
     same_size_axes,
     gradient_of_broadcast,
     "repeated along axes of size 1",
     nullptr,
     {.any_part = true}},
    {Op::slice, "slice", infer_slice, slice_axes, gradient_of_slice, "some elements along each axis"},
    {Op::concat, "concat", infer_concat, concat_axes, gradient_of_concat, "one after the other along an axis"},
    {Op::pad, "pad", infer_pad, same_size_axes, gradient_of_pad, "a value put round the elements"},
};

}  // namespace

std::span<const OpDef> shape_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
