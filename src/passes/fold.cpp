// Constant folding: an op on constants is evaluated now, by the reference interpreter.
#include "ops/interpret.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace wr::passes {
namespace {

constexpr std::int64_t kMostElements = 4096;  // of a result: a constant is read from memory, an expression may not be
constexpr std::int64_t kMostOperands = 1 << 20;  // elements of the operands: the interpreter is slow

bool is_known(const Node& node) { return node.op == Op::constant || node.op == Op::iota; }

}  // namespace

std::optional<Array> folded(const Graph& graph, const Node& node) {
  // A broadcast stays: it costs nothing, and what it repeats is the simpler constant.
  if (node.inputs.empty() || node.op == Op::broadcast || node.op == Op::random || node.op == Op::lane_sum) return {};
  if (ir::definition(node.op).further) return {};  // its further results refer to it
  if (node.spec.shape.count() > kMostElements) return {};
  std::int64_t elements = 0;
  for (int input : node.inputs) {
    if (!is_known(graph[input])) return {};
    elements += graph[input].spec.shape.count();
  }
  if (elements > kMostOperands) return {};
  return ir::evaluate(graph, node);
}

std::shared_ptr<Graph> fold(const Graph& graph) {
  Rewriter rewriter(graph);
  for (int id = 0; id < graph.size(); ++id) {
    if (graph[id].op == Op::input) continue;
    int made = rewriter.copy(id);
    if (const auto value = folded(*rewriter.to, (*rewriter.to)[made])) made = rewriter.add_constant(*value);
    rewriter.map(id, made);
  }
  return rewriter.finish();
}

}  // namespace wr::passes
