// Attention: softmax(scale q k') v, of [b,t,heads,d], as one op whose products q k' nobody sees. Going back it makes
// them again from the logarithms of their sums, one a query.
#include <cmath>

#include "ops/define.h"
#include "ops/spelled.h"
#include "windrow/attention.h"

namespace wr {

using ir::Op;

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionForm& form, Location where) try {
  const double scale = form.scale != 0 ? form.scale : q.rank() == 4 && q.size(3) > 0 ? 1 / std::sqrt(q.size(3)) : 1;
  std::vector<Tensor> in{q, k, v};
  if (!form.mask.empty()) in.push_back(form.mask);
  return ir::apply(Op::attention, in, {{form.causal, form.first}, {scale}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("attention", where, error);
}

namespace ops {
namespace {

/// Of the gradient's operands: q, k, v, the result, its lse, the result's gradient, perhaps a mask.
constexpr std::size_t kForward = 3, kBackward = 6;

// ---- types and axes ----

void expect_mask(const Spec& mask, const Spec& q, const Spec& k) {
  const std::int64_t most[] = {q.shape[0], q.shape[2], q.shape[1]};
  bool fits = mask.dtype == DType::boolean && mask.shape.rank() == 4 && mask.shape[3] == k.shape[1];
  for (int i = 0; fits && i < 3; ++i) fits = mask.shape[i] == 1 || mask.shape[i] == most[i];
  if (!fits)
    refuse("the mask must be bool[b|1, heads|1, t|1, s] for q " + to_string(q) + " and k " + to_string(k) + ", is " +
           to_string(mask));
}

Spec infer_attention(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() != kForward && in.size() != kForward + 1)
    refuse("expected q, k, v and perhaps a mask, got " + std::to_string(in.size()) + " operands");
  expect_ints(attrs, 2);
  if (attrs.reals.size() != 1) refuse("expected a scale");
  const Spec &q = in[0], &k = in[1], &v = in[2];
  expect_floating(q, "q");
  if (q.shape.rank() != 4 || !(k == v) || k.shape.rank() != 4 || k.dtype != q.dtype || q.shape[0] != k.shape[0] ||
      q.shape[2] != k.shape[2] || q.shape[3] != k.shape[3])
    refuse("needs q [b,t,heads,d], k and v [b,s,heads,d], got " + to_string(q) + ", " + to_string(k) + " and " +
           to_string(v));
  if (in.size() > kForward) expect_mask(in[kForward], q, k);
  return q;
}

/// The logarithm of the sum of what a query's softmax divides by.
Spec lse_spec(const Spec& q) { return {q.dtype, {q.shape[0], q.shape[1], q.shape[2], 1}}; }

Spec infer_grad(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() != kBackward && in.size() != kBackward + 1)
    refuse("expected 6 operands and perhaps a mask, got " + std::to_string(in.size()));
  std::vector<Spec> forward(in.begin(), in.begin() + kForward);
  if (in.size() > kBackward) forward.push_back(in[kBackward]);
  const Spec q = infer_attention(forward, attrs);
  if (!(in[3] == q) || !(in[4] == lse_spec(q)) || !(in[5] == q))
    refuse("the result, its lse and its gradient must be " + to_string(q) + ", " + to_string(lse_spec(q)) + " and " +
           to_string(q) + ", are " + to_string(in[3]) + ", " + to_string(in[4]) + " and " + to_string(in[5]));
  return q;
}

/// Batch and heads go along everywhere, queries along those operands that have them; a gradient by keys or values is
/// summed over the queries.
AxisMap map_of(std::span<const Spec> in, std::size_t operands, AxisTo queries) {
  AxisMap map;
  for (std::size_t i = 0; i < operands; ++i)
    map.operand.push_back(i == 1 || i == 2 ? Axes{0, kWhole, 2, kWhole} : Axes{0, queries, 2, kWhole});
  if (in.size() > operands) {
    const Shape& mask = in[operands].shape;
    const auto along = [&](int axis, int of_query, AxisTo to) {
      return mask[axis] == in[0].shape[of_query] ? to : kWhole;
    };
    map.operand.push_back({along(0, 0, 0), along(1, 2, 2), along(2, 1, queries), kWhole});
  }
  return map;
}

AxisMap attention_axes(const Spec&, std::span<const Spec> in, const Attrs&) { return map_of(in, kForward, 1); }
AxisMap grad_axes(const Spec&, std::span<const Spec> in, const Attrs&) { return map_of(in, kBackward, 1); }

Spec infer_lse(int, std::span<const Spec> in, const Attrs&) { return lse_spec(in[0]); }
AxisMap lse_axes(int, const Spec&, std::span<const Spec> in, const Attrs&) { return map_of(in, kForward, 1); }

Spec infer_further(int, std::span<const Spec> in, const Attrs&) { return in[1]; }
AxisMap further_axes(int, const Spec&, std::span<const Spec> in, const Attrs&) {
  return map_of(in, kBackward, AxisTo::reduced(0));
}

/// Of so many products of [t,d] with [s,d].
template <int products>
double attention_flops(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  const double all = 2.0 * products * static_cast<double>(in[0].shape.count()) * static_cast<double>(in[1].shape[1]);
  return attrs.ints[0] ? all / 2 : all;
}

// ---- gradients and composition ----

Tensor further(const Tensor& first, int number) {
  return ir::apply(Op::result, {first}, {{number}, {}, {}}, Location::current());
}

std::vector<Tensor> gradient_of_attention(const Gradient& of) {
  std::vector<Tensor> in(of.in.begin(), of.in.begin() + kForward);
  in.insert(in.end(), {of.out, further(of.out, 1), of.g});
  if (of.in.size() > kForward) in.push_back(of.in[kForward]);
  const Tensor dq = ir::apply(Op::attention_grad, in, of.attrs, Location::current());
  std::vector<Tensor> gradients{dq, further(dq, 1), further(dq, 2)};
  gradients.resize(of.in.size());
  return with_further(Op::attention, of, std::move(gradients));
}

std::vector<Tensor> gradient_of_grad(const Gradient& of) {
  return with_further(Op::attention_grad, of, gradient_of_parts(Op::attention_grad, 0, of.g, of));
}

/// Which keys a query sees, bool[b|1, heads|1, t, s]; an empty Tensor for all.
Tensor seen_by(const Tensor& q, const Tensor& k, const Tensor& mask, const Attrs& attrs) {
  if (!attrs.ints[0]) return mask;
  const Shape square{1, 1, q.size(1), k.size(1)};
  const Tensor causal = iota(square, 3, DType::i32) <= iota(square, 2, DType::i32) + attrs.ints[1];
  return mask.empty() ? causal : logical_and(causal, mask);
}

/// The scores [b, heads, t, s], very low where nothing is to be seen.
constexpr double kUnseen = -1e30;
Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& seen, double scale) {
  const Tensor scores = einsum("bthd,bshd->bhts", {q * scale, k});
  return seen.empty() ? scores : where(seen, scores, kUnseen);
}

Tensor with_heads_last(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

/// What is seen, as 0 or 1, and 1 where it is all.
Tensor only_seen(const Tensor& p, const Tensor& seen) { return seen.empty() ? p : where(seen, p, 0); }

Tensor lse_of(const Tensor& scores) {
  const Tensor top = stop_gradient(max(scores, -1, Keep::yes));
  return log(sum(exp(scores - top), -1, Keep::yes)) + top;
}

const ir::FurtherResults kLse{1, infer_lse, lse_axes};
const ir::FurtherResults kFurther{2, infer_further, further_axes};

const OpDef kOpDefs[] = {
    {Op::attention,
     "attention",
     infer_attention,
     attention_axes,
     gradient_of_attention,
     "softmax(scale q k') v; result 1: the logarithms of the softmax's sums",
     &kLse,
     {.arithmetic = true, .flops = attention_flops<2>}},
    {Op::attention_grad,
     "attention_grad",
     infer_grad,
     grad_axes,
     gradient_of_grad,
     "the gradients of attention by q and, results 1, 2, by k and v",
     &kFurther,
     {.arithmetic = true, .flops = attention_flops<5>}},
};

}  // namespace

Tensor attention_spelled_out(Op op, int number, const std::vector<Tensor>& in, const Attrs& attrs) {
  const std::size_t operands = op == Op::attention ? kForward : kBackward;
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  const double scale = attrs.reals[0];
  const Tensor seen = seen_by(q, k, in.size() > operands ? in[operands] : Tensor(), attrs);
  const Tensor scores = scores_of(q, k, seen, scale);
  if (op == Op::attention) {
    const Tensor lse = lse_of(scores);
    if (number == 1) return with_heads_last(lse);
    return einsum("bhts,bshd->bthd", {only_seen(exp(scores - lse), seen), v});
  }
  const Tensor &out = in[3], &g = in[5];
  const Tensor p = only_seen(exp(scores - with_heads_last(in[4])), seen);
  if (number == 2) return einsum("bhts,bthd->bshd", {p, g});
  const Tensor along = with_heads_last(sum(g * out, -1, Keep::yes));
  const Tensor ds = p * (einsum("bthd,bshd->bhts", {g, v}) - along) * scale;
  return number == 1 ? einsum("bhts,bthd->bshd", {ds, q}) : einsum("bhts,bshd->bthd", {ds, k});
}

std::span<const OpDef> attention_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
