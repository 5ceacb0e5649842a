// Elementwise ops, generated from elementwise.def, with where and cast. Operands have the result's rank; along an axis
// of size 1 an operand is repeated.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/define.h"
#include "ops/formula.h"

namespace wr {

using ir::Op;

namespace {

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape out;
  const int rank = std::max(a.rank(), b.rank());
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const auto na = ia < 0 ? 1 : a[ia], nb = ib < 0 ? 1 : b[ib];
    if (na != nb && na != 1 && nb != 1)
      throw Error("shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast: " + std::to_string(na) +
                  " and " + std::to_string(nb) + " at axis " + std::to_string(i));
    out.push_back(na == 1 ? nb : na);
  }
  return out;
}

/// The operands as tensors of one rank; numbers become constants of the type of the first tensor among them.
std::vector<Tensor> align(const char* name, std::vector<Operand> operands, std::size_t typed_from = 0) {
  const auto& where = operands[0].where;
  const Tensor* typed = nullptr;
  int rank = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Tensor& t = operands[i].tensor;
    if (operands[i].is_number) continue;
    if (t.empty()) fail(where, std::string(name) + ": operand " + std::to_string(i) + " is an empty Tensor");
    if (i >= typed_from && !typed) typed = &t;
    rank = std::max(rank, t.rank());
  }
  const DType dtype = typed ? typed->dtype() : DType::f32;
  std::vector<Tensor> out;
  for (const Operand& operand : operands) {
    Tensor t = operand.tensor;
    if (operand.is_number) t = full(Shape(rank, 1), operand.number, dtype, where);
    if (t.rank() < rank) {
      Shape padded(rank - t.rank(), 1);
      for (auto n : t.shape()) padded.push_back(n);
      t = reshape(t, padded, where);
    }
    out.push_back(t);
  }
  for (std::size_t i = typed_from; i < out.size(); ++i)
    if (out[i].dtype() != out[typed_from].dtype())
      fail(where, std::string(name) + ": operand types differ: " + to_string(out[typed_from].spec()) + " and " +
                      to_string(out[i].spec()) + "; cast one of them");
  return out;
}

Tensor formula(Op op, std::vector<Operand> operands) {
  const auto where = operands[0].where;
  return ir::apply(op, align(ir::definition(op).name.data(), std::move(operands)), {}, where);
}

}  // namespace

#define WINDROW_UNARY(name, ...) \
  Tensor name(const Tensor& x, Location where) { return ir::apply(Op::name, {x}, {}, where); }
#define WINDROW_BINARY(name, ...) \
  Tensor name(const Operand& a, const Operand& b) { return formula(Op::name, {a, b}); }
#define WINDROW_TERNARY(name, ...) \
  Tensor name(const Operand& a, const Operand& b, const Operand& c) { return formula(Op::name, {a, b, c}); }
#define WINDROW_QUINARY(name, ...)                                                                        \
  Tensor name(const Operand& a, const Operand& b, const Operand& c, const Operand& d, const Operand& e) { \
    return formula(Op::name, {a, b, c, d, e});                                                            \
  }
#define WINDROW_COMPARE(name, ...) \
  Tensor name(const Operand& a, const Operand& b) { return formula(Op::name, {a, b}); }
#define WINDROW_LOGIC(name, ...) \
  Tensor name(const Operand& a, const Operand& b) { return formula(Op::name, {a, b}); }
#include "windrow/elementwise.def"

Tensor where(const Tensor& condition, const Operand& yes, const Operand& no) {
  return ir::apply(Op::where, align("where", {Operand(condition, yes.where), yes, no}, 1), {}, yes.where);
}

Tensor cast(const Tensor& x, DType dtype, Location where) try {
  if (x.dtype() == dtype) return x;
  return ir::apply(Op::cast, {x}, {{static_cast<std::int64_t>(dtype)}, {}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("cast", where, error);
}

Tensor logical_not(const Tensor& x, Location where) {
  if (x.empty()) fail(where, "logical_not: the operand is an empty Tensor");
  if (x.dtype() != DType::boolean) fail(where, "logical_not: works on bool, the operand is " + to_string(x.spec()));
  return logical_xor(Operand(x, where), Operand(Array::full(Shape(x.rank(), 1), 1, DType::boolean), where));
}

namespace ops {

Tensor sum_to_shape(const Tensor& g, const Shape& shape, Location where) {
  if (g.shape() == shape) return g;
  std::vector<int> axes;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] == 1 && g.shape()[i] != 1) axes.push_back(i);
  return axes.empty() ? g : sum(g, axes, Keep::yes, where);
}

namespace {

constexpr Types FLOATS = Types::floats, NUMBERS = Types::numbers, BOOLS = Types::booleans;

Shape common_shape(std::span<const Spec> in) {
  Shape shape = in[0].shape;
  for (const Spec& s : in) {
    if (s.shape.rank() != shape.rank())
      refuse("operand ranks differ: " + to_string(in[0].shape) + " and " + to_string(s.shape));
    shape = broadcast_shapes(shape, s.shape);
  }
  return shape;
}

template <Types types, int arity, bool compares>
Spec infer_formula(std::span<const Spec> in, const Attrs&) {
  expect_operands(in, arity);
  for (const Spec& s : in) {
    if (s.dtype != in[0].dtype)
      refuse("operand types differ: " + to_string(in[0]) + " and " + to_string(s) + "; cast one of them");
    if (!accepts(types, s.dtype))
      refuse(std::string("works on ") +
             (types == FLOATS    ? "f32 and f64"
              : types == NUMBERS ? "f32, f64 and i32"
                                 : "bool") +
             ", the operand is " + to_string(s) + "; cast it");
  }
  return {compares ? DType::boolean : in[0].dtype, common_shape(in)};
}

AxisMap elementwise_axes(const Spec& out, std::span<const Spec> in, const Attrs&) {
  AxisMap map;
  for (const Spec& s : in) {
    Axes axes(s.shape.rank(), kWhole);
    for (int i = 0; i < axes.rank(); ++i)
      if (s.shape[i] == out.shape[i]) axes[i] = i;
    map.operand.push_back(axes);
  }
  return map;
}

std::vector<Tensor> summed(const Gradient& of, std::vector<Tensor> gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].empty()) {
      Tensor& d = gradients[i];
      // A gradient that does not depend on g's full shape (a product of small operands) is first spread out.
      if (!(d.shape() == of.out.shape())) d = broadcast_to(d, of.out.shape());
      d = sum_to_shape(d, of.in[i].shape(), Location::current());
    }
  return gradients;
}

// The gradients are expressions of the row over its operands, y and g.
#define NO_GRADIENT Tensor()
#define DOMAIN(low, high)
#define WINDROW_UNARY(name, types, doc, formula, dx, ...)                \
  std::vector<Tensor> gradient_of_##name(const Gradient& of) {           \
    [[maybe_unused]] const Tensor &x = of.in[0], &y = of.out, &g = of.g; \
    return summed(of, {dx});                                             \
  }
#define WINDROW_BINARY(name, types, doc, formula, da, db, ...)                          \
  std::vector<Tensor> gradient_of_##name(const Gradient& of) {                          \
    [[maybe_unused]] const Tensor &a = of.in[0], &b = of.in[1], &y = of.out, &g = of.g; \
    return summed(of, {da, db});                                                        \
  }
#define WINDROW_TERNARY(name, types, doc, formula, da, db, dc, ...)                                    \
  std::vector<Tensor> gradient_of_##name(const Gradient& of) {                                         \
    [[maybe_unused]] const Tensor &a = of.in[0], &b = of.in[1], &c = of.in[2], &y = of.out, &g = of.g; \
    return summed(of, {da, db, dc});                                                                   \
  }
#define WINDROW_QUINARY(name, types, doc, formula, da, db, dc, dd, de, ...)                                  \
  std::vector<Tensor> gradient_of_##name(const Gradient& of) {                                               \
    [[maybe_unused]] const Tensor &a = of.in[0], &b = of.in[1], &c = of.in[2], &d = of.in[3], &e = of.in[4], \
                                  &y = of.out, &g = of.g;                                                    \
    return summed(of, {da, db, dc, dd, de});                                                                 \
  }
#include "windrow/elementwise.def"
#undef NO_GRADIENT
#undef DOMAIN

Spec infer_where(std::span<const Spec> in, const Attrs&) {
  expect_operands(in, 3);
  if (in[0].dtype != DType::boolean) refuse("the condition must be bool, is " + to_string(in[0]));
  if (in[1].dtype != in[2].dtype)
    refuse("the choices differ in type: " + to_string(in[1]) + " and " + to_string(in[2]));
  return {in[1].dtype, common_shape(in)};
}

std::vector<Tensor> gradient_of_where(const Gradient& of) {
  return summed(of, {Tensor(), where(of.in[0], of.g, 0), where(of.in[0], 0, of.g)});
}

Spec infer_cast(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_ints(attrs, 1);
  return {expect_dtype(attrs.ints[0]), in[0].shape};
}

std::vector<Tensor> gradient_of_cast(const Gradient& of) {
  const DType from = of.in[0].dtype();
  return {is_floating(from) ? cast(of.g, from) : Tensor()};
}

double one_each(const Spec& out, std::span<const Spec>, const Attrs&) { return static_cast<double>(out.shape.count()); }

/// A formula of two operands commutes if it gives the same whichever way round it is asked, at many points.
bool commutes(Elementwise op) {
  if (row_of(op).arity != 2) return false;
  constexpr double kPoints[] = {-3.5, -2, -0.75, 0, 0.25, 1, 1.5, 3};
  const bool truth = row_of(op).types == Types::booleans;
  for (double a : kPoints)
    for (double b : kPoints) {
      const double there[] = {truth ? a > 0 : a, truth ? b > 0 : b}, back[] = {there[1], there[0]};
      const double x = evaluate(op, there), y = evaluate(op, back);
      if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
    }
  return true;
}

ir::Traits traits_of(Elementwise op) {
  return {.commutative = commutes(op), .sweep = true, .heavy = row_of(op).cost >= kHeavyCost, .flops = one_each};
}

#define WINDROW_TRAITS(name) nullptr, traits_of(Elementwise::name)
#define WINDROW_UNARY(name, types, doc, ...) \
  OpDef{Op::name,                            \
        #name,                               \
        infer_formula<types, 1, false>,      \
        elementwise_axes,                    \
        gradient_of_##name,                  \
        doc,                                 \
        WINDROW_TRAITS(name)},
#define WINDROW_BINARY(name, types, doc, ...) \
  OpDef{Op::name,                             \
        #name,                                \
        infer_formula<types, 2, false>,       \
        elementwise_axes,                     \
        gradient_of_##name,                   \
        doc,                                  \
        WINDROW_TRAITS(name)},
#define WINDROW_TERNARY(name, types, doc, ...) \
  OpDef{Op::name,                              \
        #name,                                 \
        infer_formula<types, 3, false>,        \
        elementwise_axes,                      \
        gradient_of_##name,                    \
        doc,                                   \
        WINDROW_TRAITS(name)},
#define WINDROW_QUINARY(name, types, doc, ...) \
  OpDef{Op::name,                              \
        #name,                                 \
        infer_formula<types, 5, false>,        \
        elementwise_axes,                      \
        gradient_of_##name,                    \
        doc,                                   \
        WINDROW_TRAITS(name)},
#define WINDROW_COMPARE(name, doc, ...) \
  OpDef{Op::name, #name, infer_formula<NUMBERS, 2, true>, elementwise_axes, no_gradient, doc, WINDROW_TRAITS(name)},
#define WINDROW_LOGIC(name, doc, ...) \
  OpDef{Op::name, #name, infer_formula<BOOLS, 2, false>, elementwise_axes, no_gradient, doc, WINDROW_TRAITS(name)},

}  // namespace

std::span<const OpDef> elementwise_ops() {
  static const OpDef ops[] = {
#include "windrow/elementwise.def"
      {Op::where,
       "where",
       infer_where,
       elementwise_axes,
       gradient_of_where,
       "the second where the first holds, else the third",
       nullptr,
       {.sweep = true, .flops = one_each}},
      {Op::cast,
       "cast",
       infer_cast,
       elementwise_axes,
       gradient_of_cast,
       "the same number in another type",
       nullptr,
       {.sweep = true, .flops = one_each}},
  };
  return ops;
}
#undef WINDROW_TRAITS

}  // namespace ops
}  // namespace wr
