// Reductions over axes. In the graph the result keeps the rank, with size 1 along the reduced axes (attrs.ints,
// ascending).
#include <algorithm>

#include "ir/attributes.h"
#include "ops/define.h"

namespace wr {

using ir::Op;

namespace {

std::vector<std::int64_t> normalise(const Axes& axes, int rank, const char* op, Location where) {
  std::vector<std::int64_t> list;
  if (axes.all)
    for (int i = 0; i < rank; ++i) list.push_back(i);
  for (int axis : axes.list) list.push_back(ops::normalise_axis(axis, rank, op, where));
  std::sort(list.begin(), list.end());
  if (auto twice = std::adjacent_find(list.begin(), list.end()); twice != list.end())
    fail(where, std::string(op) + ": axis " + std::to_string(*twice) + " is given twice");
  return list;
}

Tensor drop_axes(const Tensor& x, const std::vector<std::int64_t>& axes, Location where) {
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) shape.push_back(x.shape()[i]);
  return reshape(x, shape, where);
}

Tensor reduce(Op op, const char* name, const Tensor& x, const Axes& axes, Keep keep, Location where) try {
  const auto list = normalise(axes, x.rank(), name, where);
  Tensor y = list.empty() && op != Op::reduce_argmax && op != Op::reduce_argmin
                 ? x
                 : ir::apply(op, {x}, {list, {}, {}}, where);
  return keep == Keep::yes ? y : drop_axes(y, list, where);
} catch (const Error& error) {
  ops::refuse_as(name, where, error);
}

}  // namespace

#define WINDROW_REDUCE(name, op)                                              \
  Tensor name(const Tensor& x, const Axes& axes, Keep keep, Location where) { \
    return reduce(Op::op, #name, x, axes, keep, where);                       \
  }
WINDROW_REDUCE(sum, reduce_sum)
WINDROW_REDUCE(max, reduce_max)
WINDROW_REDUCE(min, reduce_min)
WINDROW_REDUCE(prod, reduce_prod)
WINDROW_REDUCE(argmax, reduce_argmax)
WINDROW_REDUCE(argmin, reduce_argmin)
#undef WINDROW_REDUCE

Tensor mean(const Tensor& x, const Axes& axes, Keep keep, Location where) try {
  if (!is_floating(x.dtype()))
    fail(where, "mean: works on f32 and f64, the operand is " + to_string(x.spec()) + "; cast it");
  const Tensor total = reduce(Op::reduce_sum, "mean", x, axes, Keep::yes, where);
  const double n =
      static_cast<double>(x.shape().count()) / static_cast<double>(std::max<std::int64_t>(total.shape().count(), 1));
  // The mean of nothing is 0: a step on no rows has loss 0 and gradients 0.
  const Tensor y = mul(Operand(total, where), Operand(n > 0 ? 1.0 / n : 0.0, where));
  return keep == Keep::yes ? y : drop_axes(y, normalise(axes, x.rank(), "mean", where), where);
} catch (const Error& error) {
  ops::refuse_as("mean", where, error);
}

Tensor variance(const Tensor& x, const Axes& axes, Keep keep, Location where) try {
  const Tensor centred = sub(Operand(x, where), mean(x, axes, Keep::yes, where));
  return mean(square(centred, where), axes, keep, where);
} catch (const Error& error) {
  ops::refuse_as("variance", where, error);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, Keep keep, Location where) try {
  if (const auto list = normalise(axes, x.rank(), "logsumexp", where);
      list.size() == 1 && list[0] == x.rank() - 1 && is_floating(x.dtype())) {
    const Tensor y = ir::apply(Op::logsumexp, {x}, {}, where);
    return keep == Keep::yes ? y : drop_axes(y, list, where);
  }
  const Tensor top = stop_gradient(max(x, axes, Keep::yes, where), where);
  const Tensor total = sum(exp(sub(Operand(x, where), top), where), axes, Keep::yes, where);
  const Tensor y = add(Operand(log(total, where), where), top);
  return keep == Keep::yes ? y : drop_axes(y, normalise(axes, x.rank(), "logsumexp", where), where);
} catch (const Error& error) {
  ops::refuse_as("logsumexp", where, error);
}

namespace ops {
namespace {

Shape reduced_shape(const Spec& x, const Attrs& attrs) {
  Shape shape = x.shape;
  std::int64_t previous = -1;
  for (auto axis : attrs.ints) {
    expect_axis(axis, shape.rank());
    if (axis <= previous) refuse("axes must be ascending");
    shape[static_cast<int>(axis)] = 1;
    previous = axis;
  }
  return shape;
}

Spec infer_reduce(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  if (!is_floating(in[0].dtype) && in[0].dtype != DType::i32)
    refuse("works on f32, f64 and i32, the operand is " + to_string(in[0]));
  return {in[0].dtype, reduced_shape(in[0], attrs)};
}

Spec infer_arg(std::span<const Spec> in, const Attrs& attrs) {
  const Spec spec = infer_reduce(in, attrs);
  for (auto axis : attrs.ints)
    if (in[0].shape[static_cast<int>(axis)] == 0)
      refuse("no element to choose from along axis " + std::to_string(axis) + " of " + to_string(in[0]));
  return {DType::i32, spec.shape};
}

template <bool combinable>
AxisMap reduce_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  Axes axes;
  for (int i = 0, group = 0; i < in[0].shape.rank(); ++i) {
    const bool reduced = ir::list_of(attrs).contains(i);
    axes.push_back(!reduced ? i : combinable ? AxisTo::reduced(group++) : kWhole);
  }
  return {{axes}};
}

std::vector<Tensor> gradient_of_sum(const Gradient& of) { return {broadcast_to(of.g, of.in[0].shape())}; }

// The largest elements share the gradient equally.
std::vector<Tensor> gradient_of_max(const Gradient& of) {
  const Tensor& x = of.in[0];
  const Tensor hit = cast(eq(x, of.out), x.dtype());
  std::vector<int> axes(of.attrs.ints.begin(), of.attrs.ints.end());
  return {hit * (of.g / sum(hit, axes, Keep::yes))};
}

// Exact where no element is zero; where one is, x / x would lose it, so the product of the others is formed by
// position.
std::vector<Tensor> gradient_of_prod(const Gradient& of) {
  const Tensor& x = of.in[0];
  std::vector<int> axes(of.attrs.ints.begin(), of.attrs.ints.end());
  const Tensor zero = eq(x, 0);
  const Tensor zeros = sum(cast(zero, x.dtype()), axes, Keep::yes);
  const Tensor rest = prod(where(zero, 1, x), axes, Keep::yes);
  const Tensor others = where(zero, where(eq(zeros, 1), rest, 0), where(eq(zeros, 0), rest, 0) / where(zero, 1, x));
  return {of.g * others};
}

double one_an_operand(const Spec&, std::span<const Spec> in, const Attrs&) {
  return static_cast<double>(in[0].shape.count());
}

constexpr ir::Traits kTraits{.reduction = true, .sweep = true, .flops = one_an_operand};

const OpDef kOpDefs[] = {
    {Op::reduce_sum, "reduce_sum", infer_reduce, reduce_axes<true>, gradient_of_sum, "sum over axes", nullptr, kTraits},
    {Op::reduce_max, "reduce_max", infer_reduce, reduce_axes<false>, gradient_of_max,
     "largest over axes; equal ones share the gradient", nullptr, kTraits},
    {Op::reduce_min, "reduce_min", infer_reduce, reduce_axes<false>, gradient_of_max,
     "smallest over axes; equal ones share the gradient", nullptr, kTraits},
    {Op::reduce_prod, "reduce_prod", infer_reduce, reduce_axes<false>, gradient_of_prod, "product over axes", nullptr,
     kTraits},
    {Op::reduce_argmax, "reduce_argmax", infer_arg, reduce_axes<false>, no_gradient,
     "index of the first largest over axes", nullptr, kTraits},
    {Op::reduce_argmin, "reduce_argmin", infer_arg, reduce_axes<false>, no_gradient,
     "index of the first smallest over axes", nullptr, kTraits},
};

}  // namespace

std::span<const OpDef> reduce_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
