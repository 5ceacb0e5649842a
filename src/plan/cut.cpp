// Cuts through axis maps.
#include "plan/cut.h"

namespace wr::plan {

std::optional<Cut> cut_of(ir::AxisTo to) {
  if (to.is_along()) return Cut::along(to.axis());
  if (to.is_reduced()) return Cut::total(to.group());
  return {};
}

std::int64_t rows_of(const Shape& shape, Cut cut) {
  return cut.is_along() ? shape[cut.axis()] : cut.is_flat() ? shape.count() : 1;
}

std::optional<Cut> cut_of_operand(const ir::Graph& graph, int id, int operand, Cut cut) {
  const ir::Node& node = graph[id];
  const Shape& in = graph[node.inputs[operand]].spec.shape;
  if (cut.is_once()) return {};
  if (cut == Cut::flat_total()) return Cut::flat();
  if (cut.is_flat()) return in.count() == node.spec.shape.count() ? std::optional(cut) : std::nullopt;
  const ir::AxisMap& map = ir::axes_of(graph, id);
  if (static_cast<std::size_t>(operand) >= map.operand.size()) return {};
  const ir::Axes& axes = map.operand[operand];
  for (int k = 0; k < axes.rank(); ++k)
    if (cut_of(axes[k]) == cut && (cut.is_total() || in[k] == node.spec.shape[cut.axis()])) return Cut::along(k);
  return {};
}

std::optional<Cut> cut_of_result(const ir::Graph& graph, int id, int number, Cut cut) {
  if (cut.is_once()) return cut;
  if (cut.is_flat())
    return ir::spec_of_result(graph, id, number).shape.count() == graph[id].spec.shape.count() ? std::optional(cut)
                                                                                               : std::nullopt;
  if (!cut.is_along()) return {};
  return cut_of(ir::axes_of_result(graph, id, number)[cut.axis()]);
}

}  // namespace wr::plan
