// Dead code: what no output and no update needs is not copied.
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace wr::passes {

std::shared_ptr<Graph> dce(const Graph& graph) {
  std::vector<char> live(static_cast<std::size_t>(graph.size()));
  auto mark = [&](int id) { live[id] = 1; };
  for (int id : graph.outputs) mark(id);
  for (const ir::Update& update : graph.updates) {
    mark(update.state);
    mark(update.value);
  }
  for (int id = graph.size() - 1; id >= 0; --id)
    if (live[id])
      for (int input : graph[id].inputs) mark(input);

  Rewriter rewriter(graph);
  for (int id = 0; id < graph.size(); ++id)
    if (live[id] && graph[id].op != Op::input) rewriter.map(id, rewriter.copy(id));
  return rewriter.finish();
}

}  // namespace wr::passes
