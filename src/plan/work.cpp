// How much work a node is: what the planner's choices rest on.
#include <algorithm>

#include "ir/attributes.h"
#include "plan/schedule.h"

namespace wr::plan {

using ir::Op;

double flops(const ir::Graph& graph, int id) { return ir::flops_of(graph, graph[id]); }

double bytes_of(const ir::Graph& g, int id) {
  return static_cast<double>(g[id].spec.shape.count()) * static_cast<double>(size_of(g[id].spec.dtype));
}

double work_ns(const ir::Graph& graph, int id, const Machine& machine) {
  const ir::Node& node = graph[id];
  if (ir::is_leaf(node.op) || ir::is_view(node.op) || node.op == Op::result) return 0;
  if (node.attrs.body) {
    double ns = 0;
    for (int inside = 0; inside < node.attrs.body->size(); ++inside) ns += work_ns(*node.attrs.body, inside, machine);
    return ns * static_cast<double>(ir::ScanForm::of(node.attrs).steps);
  }
  double bytes = bytes_of(graph, id), elements = static_cast<double>(node.spec.shape.count());
  for (int in : node.inputs) {
    bytes += bytes_of(graph, in);
    elements = std::max(elements, static_cast<double>(graph[in].spec.shape.count()));
  }
  const bool wide = node.spec.dtype == DType::f64;
  if (ir::definition(node.op).traits.arithmetic) {
    // With few rows, what does not stay near the core takes as long as it takes to come.
    const double arithmetic = flops(graph, id) / (wide ? machine.gflops_f64 : machine.gflops_f32);
    return machine.call_ns + std::max(arithmetic, bytes * machine.ns_byte(bytes));
  }
  const double heavy = ir::definition(node.op).traits.heavy ? machine.exp_ns * elements * (wide ? 2 : 1) : 0;
  return machine.call_ns + heavy + bytes / machine.gbs_l1;
}

double arithmetic_ns(const ir::Graph& graph, const Machine& machine) {
  double ns = 0;
  for (int id = 0; id < graph.size(); ++id)
    if (ir::definition(graph[id].op).traits.arithmetic)
      ns += flops(graph, id) / (graph[id].spec.dtype == DType::f64 ? machine.gflops_f64 : machine.gflops_f32);
  return ns;
}

}  // namespace wr::plan
