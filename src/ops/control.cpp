// stop_gradient, checkpoint, repeat, and the planner's own lane_sum.
#include "ops/define.h"

namespace wr {

using ir::Op;

Tensor stop_gradient(const Tensor& x, std::source_location where) {
  return ir::apply(Op::stop_gradient, {x}, {}, where);
}

std::vector<Tensor> checkpoint(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
                               const std::vector<Tensor>& arguments, std::source_location where) {
  auto graph = arguments.empty() ? ir::current_graph() : arguments[0].graph();
  if (!graph) fail(where, "checkpoint: an argument is an empty Tensor");
  struct Restore {
    ir::Graph& graph;
    int outer;
    ~Restore() { graph.scope = outer; }
  } restore{*graph, graph->scope};
  if (graph->scope == 0) graph->scope = ++graph->scopes;  // an inner checkpoint is part of the outer one
  return fn(arguments);
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& fn, const Tensor& argument, std::source_location where) {
  return checkpoint([&](const std::vector<Tensor>& a) { return std::vector<Tensor>{fn(a[0])}; }, {argument}, where)[0];
}

std::vector<Tensor> repeat(int n, const std::function<std::vector<Tensor>(int, const std::vector<Tensor>&)>& body,
                           std::vector<Tensor> carry, Recompute recompute, std::source_location where) {
  if (n < 0) fail(where, "repeat: " + std::to_string(n) + " turns");
  for (int i = 0; i < n; ++i) {
    auto turn = [&](const std::vector<Tensor>& c) { return body(i, c); };
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
  return carry;
}

namespace ops {
namespace {

Spec infer_same(std::span<const Spec> in, const Attrs&) {
  expect_operands(in, 1);
  return in[0];
}

AxisMap same_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  Dims axes;
  for (int i = 0; i < in[0].shape.rank(); ++i) axes.push_back(i);
  return {{axes}};
}

const OpDef kOpDefs[] = {
    {Op::stop_gradient, "stop_gradient", infer_same, same_axes, no_gradient, "the operand, but no gradient flows"},
    {Op::lane_sum, "lane_sum", infer_same, same_axes, no_gradient, "the sum of what each lane has accumulated"},
};

}  // namespace

std::span<const OpDef> control_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
