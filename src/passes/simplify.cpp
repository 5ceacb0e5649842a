// Simplification: the rules that text expresses, and the machine that applies rules.
#include "passes/simplify.h"

#include <algorithm>
#include <cmath>

#include "passes/passes.h"

namespace wr::passes {
namespace {

// Every rule makes the graph smaller or moves numbers outwards and together, so that no two undo each other. Of floats
// a rule may change the last bits or the sign of a zero, no more: so x * 0 stays, as x may be NaN, and so does (x +
// 1e9) - 1e9.
constexpr RuleText kAlgebra[] = {
    // sums
    {"add(x, 0)", "x"},
    {"sub(x, 0)", "x"},
    {"sub(0, x)", "neg(x)"},
    {"neg(neg(x))", "x"},
    {"add(a, neg(b))", "sub(a, b)"},
    {"sub(a, neg(b))", "add(a, b)"},
    {"neg(sub(a, b))", "sub(b, a)"},
    {"add(x, x)", "mul(x, 2)"},
    // products
    {"mul(x, 1)", "x"},
    {"div(x, 1)", "x"},
    {"mul(x, -1)", "neg(x)"},
    {"div(x, -1)", "neg(x)"},
    {"mul(neg(a), neg(b))", "mul(a, b)"},
    {"div(neg(a), neg(b))", "div(a, b)"},
    {"neg(mul(x, k))", "mul(x, neg(k))"},
    {"neg(div(x, k))", "div(x, neg(k))"},
    {"mul(neg(x), k)", "mul(x, neg(k))"},
    {"div(neg(x), k)", "div(x, neg(k))"},
    {"mul(mul(x, k1), k2)", "mul(x, mul(k1, k2))"},
    {"mul(div(x, k1), k2)", "mul(x, div(k2, k1))"},
    {"div(mul(x, k1), k2)", "mul(x, div(k1, k2))"},
    {"div(div(x, k1), k2)", "div(x, mul(k1, k2))"},
    {"mul(x, x)", "square(x)"},
    {"square(neg(x))", "square(x)"},
    {"square(abs(x))", "square(x)"},
    {"abs(neg(x))", "abs(x)"},
    {"abs(abs(x))", "abs(x)"},
    {"abs(square(x))", "square(x)"},
    // powers
    {"pow(x, 1)", "x"},
    {"pow(x, 2)", "square(x)"},
    {"pow(x, 0.5)", "sqrt(x)"},
    {"pow(x, -1)", "reciprocal(x)"},
    {"pow(x, -0.5)", "rsqrt(x)"},
    {"reciprocal(reciprocal(x))", "x"},
    {"reciprocal(sqrt(x))", "rsqrt(x)"},
    // choices
    {"maximum(x, 0)", "relu(x)"},
    {"maximum(x, x)", "x"},
    {"minimum(x, x)", "x"},
    {"relu(relu(x))", "relu(x)"},
    {"relu(square(x))", "square(x)"},
    {"relu(abs(x))", "abs(x)"},
    {"where(c, x, x)", "x"},
    {"where(1, a, b)", "a"},
    {"where(0, a, b)", "b"},
    {"where(logical_xor(c, 1), a, b)", "where(c, b, a)"},
    {"logical_xor(logical_xor(x, 1), 1)", "x"},
    {"logical_xor(x, 0)", "x"},
    {"logical_and(x, 1)", "x"},
    {"logical_or(x, 0)", "x"},
    {"logical_and(x, x)", "x"},
    {"logical_or(x, x)", "x"},
};

// Several ops as one: a slope is one loop, a * b + c has one rounding fewer.
constexpr RuleText kContractions[] = {
    {"mul(sub'(1, square'(y)), g)", "tanh_grad(y, g)"},
    {"mul(mul'(sub'(1, y), y), g)", "sigmoid_grad(y, g)"},
    {"mul(sub'(1, y), mul'(y, g))", "sigmoid_grad(y, g)"},
    {"add(mul'(a, b), c)", "muladd(a, b, c)"},
    {"add(square'(a), c)", "muladd(a, a, c)"},
    {"sub(c, mul'(a, k))", "muladd(a, neg(k), c)"},
    {"sub(mul'(a, b), k)", "muladd(a, b, neg(k))"},
    {"relu(add'(a, b))", "add_relu(a, b)"},
    {"tanh(add'(a, b))", "add_tanh(a, b)"},
    {"sigmoid(add'(a, b))", "add_sigmoid(a, b)"},
};

constexpr int kMostTurns = 32;  // of rules on one node: the rules terminate, this only makes sure of it
constexpr int kMostDepth = 16;

// ---- rules on all elementwise ops ----

/// An operand that is repeated need not be: ops repeat along axes of size 1. If then nothing is as large as the result
/// any more, the result itself is repeated instead, after the op.
int absorb_broadcast(Simplifier& s, int id) {
  const std::vector<int> inputs = s[id].inputs;
  if (std::none_of(inputs.begin(), inputs.end(), [&](int i) { return s[i].op == Op::broadcast; })) return -1;
  const Shape whole = s[id].spec.shape;
  std::vector<int> sources;
  for (int i : inputs) sources.push_back(s[i].op == Op::broadcast ? s[i].inputs[0] : i);
  return s.broadcast(s.make(s[id].op, sources, s[id].attrs), whole);
}

/// Numbers stand last, and a * b is b * a.
int order_operands(Simplifier& s, int id) {
  const Node& node = s[id];
  if (s.number_node(node.inputs[0]) >= 0 && s.number_node(node.inputs[1]) < 0)
    return s.make(node.op, {node.inputs[1], node.inputs[0]});
  const int first = s.first_of_commuted(id);
  return first == id ? -1 : first;
}

/// Division by a power of two is a product, exactly.
int divide_by_power_of_two(Simplifier& s, int id) {
  const int divisor = s.number_node(s[id].inputs[1]);
  if (divisor < 0) return -1;
  const double value = *number_of(s[divisor]), inverse = 1 / value;
  int exponent = 0;
  if (std::abs(std::frexp(value, &exponent)) != 0.5 || std::abs(exponent) > 100) return -1;
  return s.make(Op::mul, {s[id].inputs[0], s.rewriter.number(inverse, s[id].spec.dtype, s[id].spec.shape.rank())});
}

/// The gradient may look at relu's result instead of its operand, which then need not be kept.
int use_relu_result(Simplifier& s, int id) {
  const std::vector<int> inputs = s[id].inputs;
  const int relu = s.relu_of(inputs[0]);
  return relu < 0 || s[relu].copy != s[id].copy ? -1 : s.make(Op::relu_grad, {relu, inputs[1]});
}

int drop_cast(Simplifier& s, int id) {
  const int x = s[id].inputs[0];
  if (s[x].spec.dtype == s[id].spec.dtype) return x;
  if (s[x].op != Op::cast) return -1;
  const int source = s[x].inputs[0];
  const DType first = s[source].spec.dtype, middle = s[x].spec.dtype;
  // Exact: every number of the first type is one of the middle type.
  const bool exact = first == DType::boolean || middle == DType::f64 ||
                     (first == DType::u8 && (middle == DType::i32 || middle == DType::f32));
  return exact ? s.make(Op::cast, {source}, s[id].attrs) : -1;
}

Simplifier::Rules make_algebra() {
  Simplifier::Rules rules{{}, RuleTable(kAlgebra), false};
  auto on = [&](Op op, Simplifier::Function f) { rules.functions[static_cast<std::size_t>(op)].push_back(f); };
  on(Op::cast, drop_cast);
  for (int op = 0; op <= static_cast<int>(Op::cast); ++op) {
    on(static_cast<Op>(op), absorb_broadcast);
    if (is_commutative(static_cast<Op>(op))) on(static_cast<Op>(op), order_operands);
  }
  on(Op::div, divide_by_power_of_two);
  on(Op::relu_grad, use_relu_result);
  add_view_rules(rules.functions);
  add_einsum_rules(rules.functions);
  return rules;
}

}  // namespace

Simplifier::Simplifier(const Graph& from, const Rules& rules) : rewriter(from), rules_(rules) {}

std::shared_ptr<Graph> Simplifier::run() {
  const std::vector<int> uses = count_uses(rewriter.from);
  for (int old_id = 0; old_id < rewriter.from.size(); ++old_id) {
    int id = rewriter.mapped(old_id);
    if (id < 0) {
      id = settle(copy_of(old_id));
      rewriter.map(old_id, id);
    }
    if (id >= static_cast<int>(uses_.size())) uses_.resize(static_cast<std::size_t>(id) + 1);
    uses_[id] += uses[old_id];
    if ((*this)[id].op == Op::relu) relus_.emplace((*this)[id].inputs[0], id);
  }
  return rewriter.finish();
}

int Simplifier::copy_of(int old_id) {
  const Node& node = rewriter.from[old_id];
  const int first = node.op == Op::result ? rewriter.mapped(node.inputs[0]) : -1;
  // A further result stands behind the op that makes it, which a reshape may have moved behind.
  if (first < 0 || (*this)[first].op != Op::reshape) return rewriter.copy(old_id);
  rewriter.enter(old_id);
  const int made = rewriter.add(Op::result, {(*this)[first].inputs[0]}, node.attrs);
  return rewriter.reshape(made, node.spec.shape);
}

int Simplifier::make(Op op, std::vector<int> inputs, Attrs attrs) {
  return settle(rewriter.add(op, std::move(inputs), std::move(attrs)));
}

int Simplifier::settle(int id) {
  if (depth_ == kMostDepth) return id;
  ++depth_;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const int next = apply_once(id);
    if (next < 0 || next == id) break;
    id = next;
    ++applied_;
  }
  --depth_;
  return id;
}

int Simplifier::apply_once(int id) {
  const auto op = static_cast<std::size_t>((*this)[id].op);
  if (const auto value = folded(*rewriter.to, (*this)[id])) return rewriter.add_constant(*value);
  for (const Function f : rules_.functions[static_cast<std::size_t>(op)])
    if (const int made = f(*this, id); made >= 0) return made;
  for (const Rule& rule : rules_.table.of(static_cast<Op>(op)))
    if (const int made = apply(rule, id); made >= 0) return made;
  return -1;
}

int Simplifier::apply(const Rule& rule, int id) {
  Bindings bound;
  bound.fill(-1);
  const Spec whole = (*this)[id].spec;
  if (rules_.floats_only && !is_floating(whole.dtype)) return -1;
  const auto may_go = [&](const Pattern& pattern, int inside) {
    return !pattern.consumed || (used_once(inside) && (*this)[inside].spec.shape == whole.shape);
  };
  if (!match(*rewriter.to, rule.pattern, id, bound, may_go)) return -1;
  const int made = build(rule.replacement, bound, whole);
  if (made < 0) return -1;
  // What is left may be smaller than what it was combined with.
  return (*this)[made].spec.shape == whole.shape ? made : broadcast(made, whole.shape);
}

int Simplifier::build(const Pattern& pattern, const Bindings& bound, const Spec& whole) {
  if (pattern.kind == Pattern::Kind::literal) return rewriter.number(pattern.literal, whole.dtype, whole.shape.rank());
  if (pattern.kind != Pattern::Kind::op) return bound[pattern.variable];
  std::vector<int> operands;
  for (const Pattern& operand : pattern.operands) {
    operands.push_back(build(operand, bound, whole));
    if (operands.back() < 0) return -1;
  }
  const int made = make(pattern.op, std::move(operands));
  // Numbers that were multiplied one by one may overflow or vanish when they are multiplied with each other.
  const auto number = pattern.op == Op::mul || pattern.op == Op::div ? number_of((*this)[made]) : std::nullopt;
  return number && !std::isnormal(static_cast<float>(*number)) ? -1 : made;
}

int Simplifier::relu_of(int x) const {
  const auto found = relus_.find(x);
  return found == relus_.end() ? -1 : found->second;
}

int Simplifier::first_of_commuted(int id) {
  const Node& node = (*this)[id];
  const auto [low, high] = std::minmax(node.inputs[0], node.inputs[1]);
  const std::uint64_t key = (static_cast<std::uint64_t>(low) << 36) | (static_cast<std::uint64_t>(high) << 8) |
                            static_cast<std::uint64_t>(node.op);
  const int first = commuted_.emplace(key, id).first->second;
  return (*this)[first].copy == node.copy ? first : id;
}

std::shared_ptr<Graph> simplify_and_count(const Graph& graph, int& applied) {
  static const Simplifier::Rules rules = make_algebra();
  Simplifier simplifier(graph, rules);
  auto result = simplifier.run();
  applied = simplifier.applied();
  return result;
}

std::shared_ptr<Graph> simplify(const Graph& graph) {
  int applied = 0;
  return simplify_and_count(graph, applied);
}

const RuleTable& contractions() {
  static const RuleTable table(kContractions);
  return table;
}

std::shared_ptr<Graph> contract(const Graph& graph) {
  static const Simplifier::Rules rules{{}, contractions(), true};
  return Simplifier(graph, rules).run();
}

}  // namespace wr::passes
