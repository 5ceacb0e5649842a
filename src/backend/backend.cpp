#include "backend/backend.h"

namespace wr::backend {

void expect_runnable(const Backend& backend, const plan::Schedule& schedule) {
  const ir::Graph& graph = *schedule.graph;
  const auto check = [&](int id) {
    const ir::Node& node = graph[id];
    if (!ir::is_view(node.op) && node.op != ir::Op::result && !backend.can_run(graph, id))
      fail(node.where, "the device has no kernel for " + std::string(ir::definition(node.op).name) + " that gives " +
                           to_string(node.spec));
  };
  for (const plan::Phase& phase : schedule.phases) {
    for (int id : phase.shared) check(id);
    for (const plan::Region& region : phase.regions)
      for (const plan::Member& member : region.members) check(member.node);
  }
}

}  // namespace wr::backend
