// stop_gradient, custom_gradient, checkpoint, repeat, and the planner's own lane_sum.
#include "ops/define.h"

namespace wr {

using ir::Op;

Tensor stop_gradient(const Tensor& x, Location where) { return ir::apply(Op::stop_gradient, {x}, {}, where); }

Tensor custom_gradient(const Tensor& value, const std::vector<Tensor>& arguments, GradientRule rule, Location where) {
  if (value.empty()) fail(where, "custom_gradient: the value is an empty Tensor");
  if (!rule) fail(where, "custom_gradient: the rule is empty");
  std::vector<Tensor> operands{value};
  operands.insert(operands.end(), arguments.begin(), arguments.end());
  auto& rules = value.graph()->root().gradient_rules;
  rules.push_back(std::move(rule));
  return ir::apply(Op::custom_gradient, operands, {{std::ssize(rules) - 1}, {}, {}}, where);
}

Tensor custom_gradient(const Tensor& value, const Tensor& x,
                       const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& rule, Location where) {
  if (!rule) fail(where, "custom_gradient: the rule is empty");
  return custom_gradient(
      value, std::vector<Tensor>{x},
      [rule](const std::vector<Tensor>& in, const Tensor& y, const Tensor& g) {
        return std::vector<Tensor>{rule(in[0], y, g)};
      },
      where);
}

Tensors checkpoint(const std::function<std::vector<Tensor>(const Tensors&)>& fn, const std::vector<Tensor>& arguments,
                   Location where) {
  auto graph = arguments.empty() ? ir::current_graph() : arguments[0].graph();
  if (!graph) fail(where, "checkpoint: an argument is an empty Tensor");
  struct Restore {
    ir::Graph& graph;
    int outer;
    ~Restore() { graph.scope = outer; }
  } restore{*graph, graph->scope};
  if (graph->scope == 0) graph->scope = ++graph->scopes;  // an inner checkpoint is part of the outer one
  return {fn({arguments, "checkpoint: argument", where}), "checkpoint: result", where};
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& fn, const Tensor& argument, Location where) {
  return checkpoint([&](const std::vector<Tensor>& a) { return std::vector<Tensor>{fn(a[0])}; }, {argument}, where)[0];
}

Tensors repeat(int n, const std::function<std::vector<Tensor>(int, const Tensors&)>& body, std::vector<Tensor> carry,
               Recompute recompute, Location where) {
  if (n < 0) fail(where, "repeat: " + std::to_string(n) + " turns");
  for (int i = 0; i < n; ++i) {
    auto turn = [&](const std::vector<Tensor>& c) { return body(i, {c, "repeat: carried tensor", where}); };
    std::vector<Tensor> next = recompute == Recompute::yes ? checkpoint(turn, carry, where) : turn(carry);
    if (next.size() != carry.size())
      fail(where, "repeat: the body takes " + std::to_string(carry.size()) + " tensors and returns " +
                      std::to_string(next.size()));
    for (std::size_t k = 0; k < next.size(); ++k)
      if (!(next[k].spec() == carry[k].spec()))
        fail(where, "repeat: carried tensor " + std::to_string(k) + " is " + to_string(carry[k].spec()) +
                        " before a turn and " + to_string(next[k].spec()) + " after it");
    carry = std::move(next);
  }
  return {std::move(carry), "repeat: carried tensor", where};
}

namespace ops {
namespace {

Spec infer_same(std::span<const Spec> in, const Attrs&) {
  expect_operands(in, 1);
  return in[0];
}

AxisMap same_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  Axes axes;
  for (int i = 0; i < in[0].shape.rank(); ++i) axes.push_back(i);
  return {{axes}};
}

Spec infer_result(std::span<const Spec>, const Attrs&) { refuse("its type is known to the op that makes it"); }

AxisMap result_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  return {{Axes(in[0].shape.rank(), kWhole)}, {}};
}

Spec infer_custom(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() < 2) refuse("expected a value and its arguments");
  expect_ints(attrs, 1);
  return in[0];
}

AxisMap custom_axes(const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  AxisMap map = same_axes(out, in, attrs);
  for (std::size_t i = 1; i < in.size(); ++i) map.operand.emplace_back(in[i].shape.rank(), kWhole);
  return map;
}

std::vector<Tensor> gradient_of_custom(const Gradient& of) {
  const auto& rules = of.g.graph()->root().gradient_rules;
  const auto number = static_cast<std::size_t>(of.attrs.ints[0]);
  if (number >= rules.size()) refuse("custom_gradient: the rule is not part of this graph");
  const GradientRule rule = rules[number];  // a copy: it may add rules
  const Location where = (*of.out.graph())[of.out.node()].where;
  const Tensors arguments({of.in.begin() + 1, of.in.end()}, "custom_gradient: argument", where);
  std::vector<Tensor> gradients = rule(arguments, of.out, of.g);
  if (gradients.size() != arguments.size())
    fail(where, "custom_gradient: there are " + std::to_string(arguments.size()) + " arguments, the rule gives " +
                    std::to_string(gradients.size()) + " gradients");
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].empty() && !(gradients[i].spec() == arguments[i].spec()))
      fail(where, "custom_gradient: argument " + std::to_string(i) + " is " + to_string(arguments[i].spec()) +
                      ", the rule's gradient " + to_string(gradients[i].spec()));
  gradients.insert(gradients.begin(), Tensor());  // none flows into the value itself
  return gradients;
}

const OpDef kOpDefs[] = {
    {Op::stop_gradient, "stop_gradient", infer_same, same_axes, no_gradient, "the operand, but no gradient flows"},
    {Op::custom_gradient, "custom_gradient", infer_custom, custom_axes, gradient_of_custom,
     "the first operand, with a gradient of the user's for the others"},
    {Op::result, "result", infer_result, result_axes, never_differentiated, "a further result of its operand"},
    {Op::lane_sum, "lane_sum", infer_same, same_axes, no_gradient, "the sum of what each lane has accumulated"},
};

}  // namespace

std::span<const OpDef> control_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
