// Ops on rows, generated from rows.def, and what each of them is made of. Rows lie along the last axis; every other
// axis runs along, so that a strip may be cut along any of them.
#include "ops/rows.h"

#include "ops/define.h"
#include "ops/spelled.h"

namespace wr::ops {

// clang-format off
#define OPERANDS(...) #__VA_ARGS__
std::span<const RowFacts> row_ops_facts() {
  static constexpr RowFacts kFacts[] = {
#define WINDROW_ROW(name, doc, operands, parts, results, flops, exponential) \
    {#name, doc, operands, parts, results, flops, exponential},
#include "ir/rows.def"
  };
  return kFacts;
}
#undef OPERANDS
// clang-format on

namespace {

// ---- types and axes ----

Shape shape_of(RowPart part, const Shape& value) {
  if (part == RowPart::column || part == RowPart::total) return {value.back()};
  Shape shape = value;
  if (part != RowPart::value) shape[shape.rank() - 1] = 1;
  return shape;
}

template <RowOp op>
Spec infer_row(std::span<const Spec> in, const Attrs& attrs) {
  const RowFacts& facts = facts_of(op);
  expect_operands(in, facts.parts.size());
  expect_floating(in[0], "the operand");
  if (in[0].shape.rank() == 0) refuse("the operand has no axis: " + to_string(in[0]));
  if (attrs.reals.size() > 1 || !(epsilon_of(attrs) >= 0)) refuse("epsilon must not be negative");
  for (std::size_t k = 1; k < in.size(); ++k) {
    const RowPart part = facts.part(k);
    const Spec want{part == RowPart::label ? DType::i32 : in[0].dtype, shape_of(part, in[0].shape)};
    if (!(in[k] == want))
      refuse("operand " + std::to_string(k) + " must be " + to_string(want) + ", is " + to_string(in[k]));
  }
  return {in[0].dtype, shape_of(facts.result(0), in[0].shape)};
}

template <RowOp op>
Spec infer_further(int number, std::span<const Spec> in, const Attrs&) {
  return {in[0].dtype, shape_of(facts_of(op).result(static_cast<std::size_t>(number)), in[0].shape)};
}

/// Every axis but the last goes along, or away where the result is summed over the rows.
AxisMap axes_of_rows(const RowFacts& facts, bool total, std::span<const Spec> in) {
  AxisMap map;
  for (std::size_t k = 0; k < in.size(); ++k) {
    Axes axes(in[k].shape.rank(), kWhole);
    if (facts.part(k) != RowPart::column)
      for (int i = 0; i + 1 < axes.rank(); ++i) axes[i] = total ? AxisTo::reduced(i) : AxisTo(i);
    map.operand.push_back(axes);
  }
  return map;
}

template <RowOp op>
AxisMap row_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  return axes_of_rows(facts_of(op), false, in);
}

template <RowOp op>
AxisMap further_axes(int number, const Spec&, std::span<const Spec> in, const Attrs&) {
  const RowFacts& facts = facts_of(op);
  return axes_of_rows(facts, facts.result(static_cast<std::size_t>(number)) == RowPart::total, in);
}

template <RowOp op>
double row_flops(const Spec&, std::span<const Spec> in, const Attrs&) {
  return static_cast<double>(in[0].shape.count()) * facts_of(op).flops;
}

// ---- gradients ----

Tensor apply_row(Op op, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  return ir::apply(op, in, attrs, Location::current());
}

constexpr Op op_of(RowOp op) { return static_cast<Op>(static_cast<int>(ir::kFirstRowOp) + static_cast<int>(op)); }

Tensor further(const Tensor& first, int number) {
  return ir::apply(Op::result, {first}, {{number}, {}, {}}, Location::current());
}

template <RowOp op>
std::vector<Tensor> gradient_of_first(const Gradient& of) {
  const auto& in = of.in;
  if constexpr (op == RowOp::softmax) return {apply_row(Op::softmax_grad, {of.out, of.g})};
  if constexpr (op == RowOp::log_softmax) return {apply_row(Op::log_softmax_grad, {of.out, of.g})};
  if constexpr (op == RowOp::logsumexp) return {apply_row(Op::logsumexp_grad, {in[0], of.out, of.g})};
  if constexpr (op == RowOp::cross_entropy)
    return {apply_row(Op::cross_entropy_grad, {in[0], in[1], further(of.out, 1), of.g}), Tensor()};
  if constexpr (op == RowOp::layer_norm) {
    const Tensor dx =
        apply_row(Op::layer_norm_grad, {in[0], in[1], further(of.out, 1), further(of.out, 2), of.g}, of.attrs);
    return {dx, further(dx, 1), further(dx, 2)};
  }
  if constexpr (op == RowOp::rms_norm) {
    const Tensor dx = apply_row(Op::rms_norm_grad, {in[0], in[1], further(of.out, 1), of.g}, of.attrs);
    return {dx, further(dx, 1)};
  }
  return gradient_of_parts(op_of(op), 0, of.g, of);
}

template <RowOp op>
std::vector<Tensor> gradient_of(const Gradient& of) {
  return with_further(op_of(op), of, gradient_of_first<op>(of));
}

template <RowOp op>
OpDef define(Op as, std::string_view name, std::string_view doc) {
  static const ir::FurtherResults more{static_cast<int>(facts_of(op).results.size()) - 1, infer_further<op>,
                                       further_axes<op>};
  return {as,
          name,
          infer_row<op>,
          row_axes<op>,
          gradient_of<op>,
          doc,
          more.count > 0 ? &more : nullptr,
          {.sweep = true, .by_row = true, .heavy = facts_of(op).exponential, .flops = row_flops<op>}};
}

// ---- what they are made of ----

Tensor row_sum(const Tensor& x) { return sum(x, -1, Keep::yes); }

Tensor lse_of(const Tensor& x) {
  const Tensor top = stop_gradient(max(x, -1, Keep::yes));
  return log(row_sum(exp(x - top))) + top;
}

Tensor softmax_of(const Tensor& x) {
  const Tensor e = exp(x - stop_gradient(max(x, -1, Keep::yes)));
  return e * reciprocal(row_sum(e));
}

/// The sum over all rows, [n].
Tensor over_rows(const Tensor& x) {
  std::vector<int> axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  return axes.empty() ? x : sum(x, axes);
}

Tensor layer_norm_part(int number, const std::vector<Tensor>& in, double epsilon) {
  const Tensor middle = mean(in[0], -1, Keep::yes);
  if (number == 1) return middle;
  const Tensor centred = in[0] - middle;
  const Tensor deviation = rsqrt(mean(square(centred), -1, Keep::yes) + epsilon);
  return number == 2 ? deviation : centred * deviation * in[1] + in[2];
}

Tensor layer_norm_grad_part(int number, const Tensor& x, const Tensor& scale, const Tensor& middle,
                            const Tensor& deviation, const Tensor& g) {
  if (number == 2) return over_rows(g);
  const Tensor normal = (x - middle) * deviation;
  if (number == 1) return over_rows(g * normal);
  const Tensor h = g * scale;
  return deviation * (h - mean(h, -1, Keep::yes) - normal * mean(h * normal, -1, Keep::yes));
}

Tensor rms_norm_grad_part(int number, const Tensor& x, const Tensor& scale, const Tensor& deviation, const Tensor& g) {
  const Tensor normal = x * deviation;
  if (number == 1) return over_rows(g * normal);
  const Tensor h = g * scale;
  return deviation * (h - normal * mean(h * normal, -1, Keep::yes));
}

}  // namespace

Tensor row_spelled_out(Op op, int number, const std::vector<Tensor>& in, const Attrs& attrs) {
  const Tensor& x = in[0];
  switch (row_op(op)) {
    case RowOp::softmax:
      return softmax_of(x);
    case RowOp::softmax_grad:
      return x * (in[1] - row_sum(x * in[1]));
    case RowOp::log_softmax:
      return x - lse_of(x);
    case RowOp::log_softmax_grad:
      return in[1] - exp(x) * row_sum(in[1]);
    case RowOp::logsumexp:
      return lse_of(x);
    case RowOp::logsumexp_grad:
      return in[2] * exp(x - in[1]);
    case RowOp::cross_entropy:
      return number == 1 ? lse_of(x) : lse_of(x) - take_along(x, in[1], -1);
    case RowOp::cross_entropy_grad: {
      // The gradient of take_along by what it takes from, which put_along alone makes.
      const Tensor hit =
          ir::apply(Op::put_along, {in[1], in[3]}, {{x.rank() - 1, x.size(-1)}, {}, {}}, Location::current());
      return in[3] * exp(x - in[2]) - hit;
    }
    case RowOp::layer_norm:
      return layer_norm_part(number, in, epsilon_of(attrs));
    case RowOp::layer_norm_grad:
      return layer_norm_grad_part(number, x, in[1], in[2], in[3], in[4]);
    case RowOp::rms_norm: {
      const Tensor deviation = rsqrt(mean(square(x), -1, Keep::yes) + epsilon_of(attrs));
      return number == 1 ? deviation : x * deviation * in[1];
    }
    case RowOp::rms_norm_grad:
      return rms_norm_grad_part(number, x, in[1], in[2], in[3]);
  }
  refuse("is no op on rows");
}

std::span<const OpDef> row_ops() {
  static const OpDef ops[] = {
#define WINDROW_ROW(name, doc, ...) define<RowOp::name>(Op::name, #name, doc),
#include "ir/rows.def"
  };
  return ops;
}

}  // namespace wr::ops
