// What is asked of a draft again and again.
#include "plan/draft.h"

namespace wr::plan {

int Draft::append(ir::Node node, bool& fresh) {
  const int id = graph->add_node(std::move(node));
  fresh = id == static_cast<int>(placements.size());
  if (fresh) {
    placements.emplace_back();
    infos_.emplace_back();
  }
  return id;
}

bool Draft::inside_region(int id) {
  return place(id).phase >= 0 && place(id).home != Home::view && place(id).home != Home::leaf;
}

int Draft::made_at(int id) const { return node(id).op == ir::Op::result ? node(id).inputs[0] : id; }

bool Draft::joins(int id, int operand, Cut cut) {
  const int in = node(id).inputs[operand];
  if (!inside_region(in) || !goes_on(id)) return false;
  return cut_of_operand(*graph, id, operand, cut) == place(in).cut;
}

/// May the node be computed in the strips of its operands? Views and what follows them are no work of their own.
bool Draft::goes_on(int id) const {
  const ir::Op op = node(id).op;
  if (fusion_ == Fusion::strips || ir::is_view(op) || op == ir::Op::result) return true;
  return fusion_ == Fusion::layers && op != ir::Op::einsum;
}

std::int64_t Draft::extent(int id) {
  id = made_at(id);
  const ir::Node& n = node(id);
  const Cut cut = place(id).cut;
  if (!cut.is_total()) return rows_of(n.spec.shape, cut);
  for (std::size_t k = 0; k < n.inputs.size(); ++k)
    if (const auto of = cut_of_operand(*graph, id, static_cast<int>(k), cut))
      return rows_of(node(n.inputs[k]).spec.shape, *of);
  return 1;
}

int Draft::accumulator(int total) {
  while (place(total).into >= 0) total = place(total).into;
  return total;
}

}  // namespace wr::plan
