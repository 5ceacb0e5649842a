#include "backend/backend.h"

namespace wr::backend {

namespace {

void expect(const Backend& backend, const ir::Graph& graph, int id) {
  const ir::Node& node = graph[id];
  if (ir::is_view(node.op) || node.op == ir::Op::result) return;
  if (!backend.can_run(graph, id))
    fail(node.where, "the device has no kernel for " + std::string(ir::definition(node.op).name) + " that gives " +
                         to_string(node.spec));
  if (!node.attrs.body) return;
  for (int inside = 0; inside < node.attrs.body->size(); ++inside)
    if (!ir::is_leaf((*node.attrs.body)[inside].op)) expect(backend, *node.attrs.body, inside);
}

}  // namespace

void expect_runnable(const Backend& backend, const plan::Schedule& schedule) {
  const ir::Graph& graph = *schedule.graph;
  const auto check = [&](int id) { expect(backend, graph, id); };
  for (const plan::Phase& phase : schedule.phases) {
    for (int id : phase.shared) check(id);
    for (const plan::Region& region : phase.regions)
      for (const plan::Member& member : region.members) check(member.node);
  }
}

}  // namespace wr::backend
