// Contractions of two operands in semirings other than sum and product. In the graph the operands are a [b,m,k] and
// b [b,k,n]. Three ops: the result, how winners share its gradient, and the gradient by a; that by b is the same with
// the operands exchanged, since every "and" here commutes. noisy_or's op makes the product of 1 - ab, whose small
// values 1 minus it would lose; lukasiewicz' the sum that is clipped afterwards.
#include "windrow/contract.h"

#include <algorithm>
#include <array>

#include "ir/attributes.h"
#include "ops/define.h"
#include "ops/spelled.h"

namespace wr {

using ir::Op;

namespace {

constexpr std::array<std::string_view, 7> kNames{"sum_product", "max_product", "max_plus", "min_plus",
                                                 "max_min",     "lukasiewicz", "noisy_or"};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// ---- what the semirings are, as compositions ----

/// "And" of two elements: what is reduced.
Tensor met(Semiring semiring, const Tensor& a, const Tensor& b) {
  switch (semiring) {
    case Semiring::max_plus:
    case Semiring::min_plus:
      return a + b;
    case Semiring::max_min:
      return minimum(a, b);
    case Semiring::lukasiewicz:
      return relu(a + (b - 1));
    case Semiring::noisy_or:
      return 1 - a * b;
    default:
      return a * b;
  }
}

Tensor reduced(Semiring semiring, const Tensor& x, int axis, Keep keep = Keep::no) {
  switch (semiring) {
    case Semiring::min_plus:
      return min(x, axis, keep);
    case Semiring::lukasiewicz:
    case Semiring::sum_product:
      return sum(x, axis, keep);
    case Semiring::noisy_or:
      return prod(x, axis, keep);
    default:
      return max(x, axis, keep);
  }
}

/// From what the op makes to what the user asked for.
Tensor finished(Semiring semiring, const Tensor& made) {
  if (semiring == Semiring::lukasiewicz) return 1 - relu(1 - made);
  if (semiring == Semiring::noisy_or) return 1 - made;
  return made;
}

/// Whether a label that one operand has alone may be reduced before the other operand is met.
bool distributes(Semiring semiring) {
  return semiring == Semiring::max_plus || semiring == Semiring::min_plus || semiring == Semiring::max_min;
}

// ---- labels ----

struct Named {
  Tensor tensor;
  std::string labels;
  std::int64_t size(char label) const { return tensor.size(static_cast<int>(labels.find(label))); }
};

/// An operand with every label once: the diagonal of labels that stand twice.
Named without_repeats(const Tensor& t, const std::string& labels) {
  std::string once;
  for (const char c : labels)
    if (!has(once, c)) once += c;
  return {once.size() == labels.size() ? t : einsum(labels + "->" + once, {t}), once};
}

void reduce_alone(Named& t, const std::string& alone, Semiring semiring) {
  for (const char c : alone) {
    const auto at = t.labels.find(c);
    t.tensor = reduced(semiring, t.tensor, static_cast<int>(at));
    t.labels.erase(at, 1);
  }
}

/// The labels of two operands by what they are to the contraction.
struct Roles {
  std::string batch, rows, columns, inner, alone_a, alone_b;

  Roles(const std::string& a, const std::string& b, const std::string& result) {
    for (const char c : a) (has(b, c) ? (has(result, c) ? batch : inner) : (has(result, c) ? rows : alone_a)) += c;
    for (const char c : b)
      if (!has(a, c)) (has(result, c) ? columns : alone_b) += c;
  }
};

/// With the labels in that order, those it lacks repeated, as an array of the given shape.
Tensor arranged(const Named& t, const std::string& order, const Named& other, const Shape& shape) {
  Dims axes;
  Shape present, whole;
  for (const char c : order) {
    const auto at = t.labels.find(c);
    if (at != std::string::npos) axes.push_back(static_cast<std::int64_t>(at));
    whole.push_back(at != std::string::npos ? t.size(c) : other.size(c));
    present.push_back(at != std::string::npos ? whole.back() : 1);
  }
  const Tensor spread = reshape(permute(t.tensor, axes), present);
  return reshape(present == whole ? spread : broadcast_to(spread, whole), shape);
}

// Fewer rows and columns than that leave most lanes of a vector empty: then vectors go along what is reduced.
constexpr std::int64_t kFew = 8;

Tensor contracted(const Named& a, const Named& b, const std::string& result, Semiring semiring, Location where) {
  const Roles role(a.labels, b.labels, result);
  const auto size = [&](char c) { return has(a.labels, c) ? a.size(c) : b.size(c); };
  const auto count = [&](const std::string& labels) {
    std::int64_t n = 1;
    for (const char c : labels) n *= size(c);
    return n;
  };
  const std::string inner = role.inner + role.alone_a + role.alone_b, made = role.batch + role.rows + role.columns;
  const std::int64_t batch = count(role.batch), m = count(role.rows), n = count(role.columns), k = count(inner);
  Tensor c;
  if (std::max(m, n) < kFew) {
    const Tensor x = arranged(a, role.batch + role.rows + inner, b, {batch, m, 1, k}),
                 y = arranged(b, role.batch + role.columns + inner, a, {batch, 1, n, k});
    c = reduced(semiring, met(semiring, x, y), 3);
  } else {
    c = ir::apply(Op::contract,
                  {arranged(a, role.batch + role.rows + inner, b, {batch, m, k}),
                   arranged(b, role.batch + inner + role.columns, a, {batch, k, n})},
                  ir::attrs_of(semiring), where);
  }
  Shape shape;
  Dims order;
  for (const char label : made) shape.push_back(size(label));
  for (const char label : result) order.push_back(static_cast<std::int64_t>(made.find(label)));
  return permute(reshape(finished(semiring, c), shape), order);
}

/// The result's type; einsum knows what labels and sizes must agree on.
Spec spec_of(const std::string& text, const Tensor& a, const Tensor& b, Location where) try {
  const std::array<Spec, 2> specs{a.spec(), b.spec()};
  return ir::definition(Op::einsum).infer(specs, {{}, {}, text});
} catch (const Error& error) {
  fail(where, std::string("contract: ") + error.what());
}

}  // namespace

std::string_view to_string(Semiring semiring) { return kNames[static_cast<std::size_t>(semiring)]; }

std::optional<Semiring> semiring_called(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Semiring>(found - kNames.begin());
}

Tensor contract(std::string_view spec, const Tensor& a, const Tensor& b, Semiring semiring, Location where) try {
  if (a.empty() || b.empty()) fail(where, "contract: an operand is an empty Tensor");
  const std::string text = ops::explicit_labels(spec, "contract", where);
  const Spec whole = spec_of(text, a, b, where);
  if (semiring == Semiring::sum_product) return einsum(text, {a, b}, where);
  const ir::Labels labels = ir::Labels::of(text);
  Named x = without_repeats(a, labels.operands[0]), y = without_repeats(b, labels.operands[1]);
  if (distributes(semiring)) {
    const Roles role(x.labels, y.labels, labels.result);
    reduce_alone(x, role.alone_a, semiring);
    reduce_alone(y, role.alone_b, semiring);
  }
  const Roles role(x.labels, y.labels, labels.result);
  if (role.inner.empty() && role.alone_a.empty() && role.alone_b.empty() && distributes(semiring)) {
    return met(semiring, arranged(x, labels.result, y, whole.shape), arranged(y, labels.result, x, whole.shape));
  }
  return contracted(x, y, labels.result, semiring, where);
} catch (const Error& error) {
  ops::refuse_as("contract", where, error);
}

namespace ops {
namespace {

// ---- types and axes ----

Spec expect_factors(std::span<const Spec> in) {
  const Spec &a = in[0], &b = in[1];
  expect_floating(a, "the first operand");
  if (a.dtype != b.dtype || a.shape.rank() != 3 || b.shape.rank() != 3 || a.shape[0] != b.shape[0] ||
      a.shape[2] != b.shape[1])
    refuse("needs a [b,m,k] and b [b,k,n] of one type, got " + to_string(a) + " and " + to_string(b));
  return {a.dtype, {a.shape[0], a.shape[1], b.shape[2]}};
}

void expect_result(const Spec& spec, const Spec& result, const char* what) {
  if (!(spec == result)) refuse(std::string(what) + " must be " + to_string(result) + ", is " + to_string(spec));
}

void expect_semiring(const Attrs& attrs) {
  if (ir::semiring_of(attrs) == Semiring::sum_product) refuse("sums of products are einsum's");
}

Spec infer_contract(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_semiring(attrs);
  return expect_factors(in);
}

Spec infer_share(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 3);
  expect_semiring(attrs);
  const Spec c = expect_factors(in);
  expect_result(in[2], c, "the result");
  return c;
}

Spec infer_grad(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 4);
  expect_semiring(attrs);
  const Spec c = expect_factors(in);
  expect_result(in[2], c, "the third operand");
  expect_result(in[3], c, "the fourth operand");
  return in[0];
}

AxisMap contract_axes(const Spec&, std::span<const Spec>, const Attrs&) { return {{{0, 1, kWhole}, {0, kWhole, 2}}}; }
AxisMap share_axes(const Spec&, std::span<const Spec>, const Attrs&) {
  return {{{0, 1, kWhole}, {0, kWhole, 2}, {0, 1, 2}}};
}
AxisMap grad_axes(const Spec&, std::span<const Spec>, const Attrs&) {
  const AxisTo summed = AxisTo::reduced(0);
  return {{{0, 1, 2}, {0, 2, summed}, {0, 1, summed}, {0, 1, summed}}};
}

/// "And" and "or" for every combination of indices.
double contract_flops(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  const double each = ir::semiring_of(attrs) == Semiring::lukasiewicz ? 3 : 2;
  return each * static_cast<double>(in[0].shape.count()) * static_cast<double>(in[1].shape[2]);
}
double grad_flops(const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  return 2 * contract_flops(out, in, attrs);
}

// ---- gradients ----

Tensor turned(const Tensor& x) { return permute(x, {0, 2, 1}); }

/// What contract_grad is given beside a and b: for winners the result and what each of them gets; for noisy_or what is
/// to be divided by a factor, and what goes to a factor that is 0; for lukasiewicz the gradient itself, and what nobody
/// reads.
std::pair<Tensor, Tensor> given_to_grad(const Gradient& of) {
  const Semiring semiring = ir::semiring_of(of.attrs);
  if (semiring == Semiring::lukasiewicz) return {of.g, of.out};
  const Tensor share = ir::apply(Op::contract_share, {of.in[0], of.in[1], of.out}, of.attrs, Location::current());
  if (semiring == Semiring::noisy_or) return {-(of.g * of.out), -(of.g * share)};
  return {of.out, of.g * share};
}

std::vector<Tensor> gradient_of_contract(const Gradient& of) {
  const Location where = Location::current();
  const Tensor &a = of.in[0], &b = of.in[1];
  const auto [x, y] = given_to_grad(of);
  return {ir::apply(Op::contract_grad, {a, b, x, y}, of.attrs, where),
          turned(ir::apply(Op::contract_grad, {turned(b), turned(a), turned(x), turned(y)}, of.attrs, where))};
}

std::vector<Tensor> gradient_of_share(const Gradient& of) {
  if (ir::semiring_of(of.attrs) != Semiring::noisy_or) return no_gradient(of);
  return gradient_of_parts(Op::contract_share, 0, of.g, of);
}
std::vector<Tensor> gradient_of_grad(const Gradient& of) { return gradient_of_parts(Op::contract_grad, 0, of.g, of); }

// ---- compositions ----

/// 1 divided by how many win; of noisy_or the product of the other factors where one is 0, else 0.
Tensor spelled_share(Semiring semiring, const Tensor& all, const Tensor& result) {
  if (semiring != Semiring::noisy_or) return 1 / sum(cast(eq(all, expand_dims(result, 2)), result.dtype()), 2);
  const Tensor zero = eq(all, 0);
  const Tensor zeros = sum(cast(zero, result.dtype()), 2);
  return where(eq(zeros, 1), prod(where(zero, 1, all), 2), 0);
}

/// The parts of the gradient by a, not yet summed over n.
Tensor spelled_grad(Semiring semiring, const Tensor& a, const Tensor& b, const Tensor& x, const Tensor& y) {
  const Tensor all = met(semiring, a, b);
  switch (semiring) {
    case Semiring::lukasiewicz:
      return where(all > 0, broadcast_to(x, all.shape()), 0);
    case Semiring::noisy_or: {
      const Tensor zero = eq(all, 0);
      return b * where(zero, y, x / where(zero, 1, all));
    }
    case Semiring::max_product:
      return where(eq(all, x), y * b, 0);
    case Semiring::max_min:
      return where(eq(all, x), max_grad(b, a, y), 0);
    default:
      return where(eq(all, x), broadcast_to(y, all.shape()), 0);
  }
}

const OpDef kOpDefs[] = {
    {Op::contract,
     "contract",
     infer_contract,
     contract_axes,
     gradient_of_contract,
     "a [b,m,k] with b [b,k,n], reduced over k in a semiring; noisy_or gives the product of 1 - ab",
     nullptr,
     {.arithmetic = true, .flops = contract_flops}},
    {Op::contract_share,
     "contract_share",
     infer_share,
     share_axes,
     gradient_of_share,
     "1 / how many win in contract; of noisy_or the product of all other factors where one is 0, else 0",
     nullptr,
     {.arithmetic = true, .flops = contract_flops}},
    {Op::contract_grad,
     "contract_grad",
     infer_grad,
     grad_axes,
     gradient_of_grad,
     "the gradient of contract by its first operand",
     nullptr,
     {.arithmetic = true, .flops = grad_flops}},
};

}  // namespace

Tensor contract_spelled_out(Op op, const std::vector<Tensor>& in, const Attrs& attrs) {
  const Semiring semiring = ir::semiring_of(attrs);
  const Tensor a = expand_dims(in[0], 3), b = expand_dims(in[1], 1);  // [b,m,k,1] and [b,1,k,n]
  if (op == Op::contract) return reduced(semiring, met(semiring, a, b), 2);
  if (op == Op::contract_share) return spelled_share(semiring, met(semiring, a, b), in[2]);
  return sum(spelled_grad(semiring, a, b, expand_dims(in[2], 2), expand_dims(in[3], 2)), 3);
}

std::span<const OpDef> contract_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
