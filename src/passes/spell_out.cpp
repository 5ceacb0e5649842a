// Ops on rows, and attention, as the compositions that they stand for.
#include "ops/spelled.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace wr::passes {
namespace {

/// The composition's tensors are added to the new graph, behind the operands.
int spelled(Rewriter& rewriter, const Node& op, int number) {
  std::vector<Tensor> in;
  for (int input : op.inputs) in.emplace_back(rewriter.to, rewriter.mapped(input));
  return ops::spelled_out(op.op, number, in, op.attrs).node();
}

}  // namespace

std::shared_ptr<Graph> spell_out(const Graph& graph) {
  Rewriter rewriter(graph);
  const ir::TraceScope numbers_too(rewriter.to);
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op == Op::input) continue;
    rewriter.enter(id);
    const bool further = node.op == Op::result;
    const Node& maker = further ? graph[node.inputs[0]] : node;
    if (ops::is_spelled(maker.op))
      rewriter.map(id, spelled(rewriter, maker, further ? static_cast<int>(node.attrs.ints[0]) : 0));
    else
      rewriter.map(id, rewriter.copy(id));
  }
  return rewriter.finish();
}

}  // namespace wr::passes
