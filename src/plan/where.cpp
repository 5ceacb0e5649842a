// Where a node goes: along the axis that lets it go on in the strips of its operands, to the earliest phase in which it
// can be computed like that.
#include <algorithm>
#include <limits>

#include "plan/cost.h"
#include "plan/draft.h"

namespace wr::plan {

using ir::Node;
using ir::Op;

namespace {

// A value of at most this many elements is worth computing on every lane rather than meeting at a barrier for it.
constexpr std::int64_t kSharedElements = 2048;

/// Some operand brings the axis, or the op can make any part of it.
bool can_cut(const Node& n, const ir::AxisMap& map, int axis) {
  if (ir::definition(n.op).traits.any_part) return true;
  for (const ir::Axes& axes : map.operand)
    if (axes.contains(axis)) return true;
  return map.free.contains(axis);
}

template <class Offer>
void offer_axes(const Node& n, const ir::AxisMap& map, Offer offer) {
  for (int a = 0; a < n.spec.shape.rank(); ++a)
    if (n.spec.shape[a] > 1 && can_cut(n, map, a)) {
      offer(Cut::along(a));
      return;
    }
}

template <class F>
void for_reduced(const Node& n, const ir::AxisMap& map, F f) {
  for (std::size_t k = 0; k < n.inputs.size() && k < map.operand.size(); ++k)
    for (int a = 0; a < map.operand[k].rank(); ++a)
      if (map.operand[k][a].is_reduced()) f(k, a, Cut::total(map.operand[k][a].group()));
}

}  // namespace

void Where::settle(int old, int id) {
  const Op op = draft_.node(id).op;
  if (ir::is_leaf(op)) {
    draft_.place(id).home = Home::leaf;
    draft_.info(id).can_share = false;
    return;
  }
  if (op == Op::result) return settle_result(id);
  set_shareable(id);
  if (ir::is_view(op) && !draft_.inside_region(draft_.node(id).inputs[0])) {
    draft_.place(id).home = Home::view;
    draft_.info(id).ready = draft_.info(draft_.node(id).inputs[0]).ready;
    return;
  }
  Cut best;
  int best_phase = std::numeric_limits<int>::max();
  for (Cut cut : candidates(old, id)) {
    const int phase = earliest(id, cut);
    if (phase < best_phase) {
      best_phase = phase;
      best = cut;
    }
  }
  if (ir::is_view(op) && best.is_once()) {  // the strips end here: a view of the whole value
    draft_.place(id).home = Home::view;
    draft_.info(id).ready = draft_.info(draft_.node(id).inputs[0]).ready;
    return;
  }
  draft_.place(id).cut = best;
  draft_.place(id).phase = best_phase;
  draft_.info(id).ready = best_phase + 1;
}

/// A further result is made by the call that makes the first.
void Where::settle_result(int id) {
  const int maker = draft_.node(id).inputs[0];
  draft_.place(id).cut =
      *cut_of_result(*draft_.graph, maker, static_cast<int>(draft_.node(id).attrs.ints[0]), draft_.place(maker).cut);
  draft_.place(id).phase = draft_.place(maker).phase;
  draft_.info(id).ready = draft_.info(maker).ready;
}

/// Can strips cut like this make all results of the node?
bool Where::makes_all_results(int id, Cut cut) {
  const ir::FurtherResults* further = ir::definition(draft_.node(id).op).further;
  for (int number = 1; further && number <= further->of(draft_.node(id).attrs); ++number)
    if (!cut_of_result(*draft_.graph, id, number, cut)) return false;
  return true;
}

void Where::set_shareable(int id) {
  const Node& n = draft_.node(id);
  const ir::OpDef& def = ir::definition(n.op);
  const bool cheap = !def.further && (def.traits.sweep || ir::is_view(n.op) || n.op == Op::lane_sum) &&
                     n.spec.shape.count() <= kSharedElements;
  bool ok = cheap;
  int ready = 0;
  for (int in : n.inputs) {
    const bool leaf = draft_.place(in).home == Home::leaf;
    if (n.op == Op::lane_sum)
      ready = std::max(ready, draft_.place(in).phase + 1);
    else if (draft_.info(in).can_share)
      ready = std::max(ready, draft_.info(in).share_ready);
    else if (!leaf)
      ok = false;
    if (draft_.node(in).spec.shape.count() > kSharedElements && !ir::is_view(n.op)) ok = false;
  }
  draft_.info(id).can_share = ok;
  draft_.info(id).share_ready = ready;
}

/// Ways to cut the node, the preferred first.
std::vector<Cut> Where::candidates(int old, int id) {
  const Node& n = draft_.node(id);
  const auto& map = ir::axes_of(*draft_.graph, id);
  std::vector<Cut> list;
  auto offer = [&](Cut cut) {
    if (std::find(list.begin(), list.end(), cut) == list.end() && makes_all_results(id, cut)) list.push_back(cut);
  };
  if (n.op == Op::einsum && form_.fusion != Fusion::strips)
    for (Cut cut : product_cuts(id, map)) offer(cut);
  const bool defer = better_later(n);
  if (form_.primary >= 0 && old >= 0) {
    for (int a = 0; a < n.spec.shape.rank(); ++a)
      if (classes_.of(old, a) == form_.primary && can_cut(n, map, a)) offer(Cut::along(a));
    for_reduced(n, map, [&](std::size_t k, int a, Cut cut) {
      if (!defer && classes_.of(given_[old].inputs[k], a) == form_.primary) offer(cut);
    });
    if (!list.empty()) {
      offer(Cut::once());
      return list;
    }
  }
  for (std::size_t k = 0; k < n.inputs.size(); ++k)
    inherit(n, map, k, [&](Cut cut) {
      if (!(defer && cut.is_total())) offer(cut);
    });
  // Rows go with whatever reads a sum of lanes, be it activations or parameters; few rows are better cut as elements.
  if (n.op == Op::lane_sum && n.spec.shape.rank() > 1 && n.spec.shape[0] >= 16) offer(Cut::along(0));
  if (fits_flat(n)) offer(Cut::flat());
  if (n.op == Op::reduce_sum && n.spec.shape.count() == 1) offer(Cut::flat_total());
  const auto totals_first = n.spec.shape.rank() > 0 && n.spec.shape[0] == 1;
  if (!totals_first) offer_axes(n, map, offer);
  for_reduced(n, map, [&](std::size_t k, int a, Cut cut) {
    if (!defer && draft_.node(n.inputs[k]).spec.shape[a] > 1) offer(cut);
  });
  if (totals_first) offer_axes(n, map, offer);
  offer(Cut::once());
  return list;
}

/// Along the axes of a product's result, that first by which a lane has least to fetch and to write.
std::vector<Cut> Where::product_cuts(int id, const ir::AxisMap& map) {
  const Node& n = draft_.node(id);
  const ir::Graph& graph = *draft_.graph;
  std::vector<std::pair<double, Cut>> costs;
  for (int axis = 0; axis < n.spec.shape.rank(); ++axis) {
    if (n.spec.shape[axis] < 2 || !can_cut(n, map, axis)) continue;
    const Cut cut = Cut::along(axis);
    const double parts = static_cast<double>(std::min<std::int64_t>(form_.lanes, n.spec.shape[axis]));
    auto part = [&](int of, Cut along) {
      const double run = static_cast<double>(n.spec.shape[axis]) / parts * inner_bytes(graph, of, along);
      return bytes_of(graph, of) / parts * (along == Cut::along(0) ? 1 : strided(machine_, run));
    };
    double bytes = part(id, cut);
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const auto along = cut_of_operand(graph, id, static_cast<int>(k), cut);
      bytes += along ? part(n.inputs[k], *along) : bytes_of(graph, n.inputs[k]);
    }
    costs.emplace_back(bytes, cut);
  }
  std::stable_sort(costs.begin(), costs.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<Cut> cuts;
  for (auto& [bytes, cut] : costs) cuts.push_back(cut);
  return cuts;
}

/// A contraction whose result outweighs its operands, such as the gradient of a wide layer's weights or of a table: let
/// the operands cross to the next phase, where each lane computes its rows of the result, instead of every lane's part
/// of all of it.
bool Where::better_later(const Node& n) {
  if (n.op != Op::einsum && n.op != Op::embedding_grad) return false;
  std::int64_t operands = 0;
  for (int in : n.inputs) {
    while (ir::is_view(draft_.node(in).op)) in = draft_.node(in).inputs[0];
    if (draft_.place(in).home != Home::leaf) operands += draft_.node(in).spec.shape.count();
  }
  return operands > 0 && operands < 2 * n.spec.shape.count();
}

/// Goes on along the axis by which an operand was cut.
template <class Offer>
void Where::inherit(const Node& n, const ir::AxisMap& map, std::size_t k, Offer offer) {
  const int in = n.inputs[k];
  if (!draft_.inside_region(in)) return;
  const Cut cut = draft_.place(in).cut;
  if (cut.is_flat()) {
    if (fits_flat(n)) offer(cut);
    if (n.op == Op::reduce_sum && n.spec.shape.count() == 1) offer(Cut::flat_total());
  } else if (cut.is_along() && k < map.operand.size()) {
    if (const auto on = cut_of(map.operand[k][cut.axis()])) offer(*on);
  }
}

bool Where::fits_flat(const Node& n) {
  const auto long_axes = std::count_if(n.spec.shape.begin(), n.spec.shape.end(), [](auto size) { return size > 1; });
  if (long_axes < 2) return false;  // one axis: rows are elements anyway
  if (n.op == Op::reshape || n.op == Op::lane_sum) return true;
  if (!is_by_element(n.op)) return false;
  for (int in : n.inputs)
    if (!(draft_.node(in).spec.shape == n.spec.shape) && draft_.node(in).spec.shape.count() != 1) return false;
  return true;
}

/// The first phase in which the node can be computed in such strips.
int Where::earliest(int id, Cut cut) {
  const Node& n = draft_.node(id);
  int phase = 0;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const int in = n.inputs[k];
    if (draft_.place(in).home == Home::leaf) continue;
    if (n.op == Op::lane_sum) {
      phase = std::max(phase, draft_.place(in).phase + 1);
    } else if (draft_.joins(id, static_cast<int>(k), cut)) {
      phase = std::max(phase, draft_.place(in).phase);
    } else if (draft_.info(in).can_share) {
      phase = std::max(phase, draft_.info(in).share_ready);
    } else {
      phase = std::max(phase, draft_.info(in).ready);
    }
  }
  return phase;
}

}  // namespace wr::plan
