// Forming regions: nodes are taken in the order of the graph and each is given its place (where.cpp); totals get the
// sums of their lanes. Then results.cpp says what is needed, and what is left becomes phases and regions.
#include "plan/form.h"

#include <algorithm>
#include <map>

#include "passes/rewrite.h"
#include "plan/draft.h"

namespace wr::plan {
namespace {

using ir::Node;
using ir::Op;

class Former {
 public:
  Former(const ir::Graph& graph, const AxisClasses& classes, const Form& form, const Machine& machine)
      : given_(graph),
        uses_(passes::count_uses(graph)),
        machine_(machine),
        lanes_(form.lanes),
        draft_(form.fusion),
        where_(draft_, graph, classes, form, machine) {}

  Schedule form() {
    for (int old = 0; old < given_.size(); ++old) take(old);
    ir::Graph& graph = *draft_.graph;
    for (int output : given_.outputs) graph.outputs.push_back(renamed(output));
    for (auto u : given_.updates) graph.updates.push_back({renamed(u.state), renamed(u.value)});
    Schedule s;
    s.graph = draft_.graph;
    s.lanes = lanes_;
    delay_copies(draft_);
    sink_updates(draft_);
    mark_needed(draft_);
    place_results(draft_, s);
    s.phases = collect();
    s.place = draft_.placements;
    return s;
  }

 private:
  int renamed(int old) const { return rename_[old]; }
  const Node& node(int id) const { return draft_.node(id); }
  Placement& place(int id) { return draft_.place(id); }

  int append(Node n, int old) {
    bool fresh = false;
    const int id = draft_.append(std::move(n), fresh);
    if (fresh) where_.settle(old, id);
    return id;
  }

  void take(int old) {
    Node n = given_[old];
    for (int& in : n.inputs) in = renamed(in);
    unfold_again(old, n);
    if (const int sum = added_totals(old, n); sum >= 0) {
      rename_.push_back(sum);
      return;
    }
    int id = append(std::move(n), old);
    if (place(id).cut.is_total()) id = add_lane_sum(id);
    rename_.push_back(id);
  }

  /// Patches are many times what they are made of. What reads them in a later phase than theirs, such as the gradient
  /// of a convolution's weights, makes them again in its strips instead of fetching them from memory.
  void unfold_again(int old, Node& n) {
    int phase = -1;
    for (int in : n.inputs) phase = std::max(phase, place(in).phase);
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      int source = n.inputs[k];
      while (ir::is_view(node(source).op)) source = node(source).inputs[0];
      if (node(source).op == Op::unfold && place(source).phase < phase)
        n.inputs[k] = again(given_[old].inputs[k], n.inputs[k], phase);
    }
  }

  int again(int old, int id, int phase) {
    Node n = node(id);
    n.copy = -1 - phase;
    if (ir::is_view(n.op)) n.inputs[0] = again(given_[old].inputs[0], n.inputs[0], phase);
    return append(std::move(n), old);
  }

  /// The sum of two totals of one region, such as a weight's gradients at two places: both go into one accumulator.
  /// Returns the lane_sum that stands for it, or -1.
  int added_totals(int old, const Node& n) {
    if (n.op != Op::add || node(n.inputs[0]).op != Op::lane_sum || node(n.inputs[1]).op != Op::lane_sum) return -1;
    if (!(node(n.inputs[0]).spec == node(n.inputs[1]).spec)) return -1;
    for (int in : given_[old].inputs)
      if (uses_[in] != 1) return -1;
    const int a = draft_.accumulator(node(n.inputs[0]).inputs[0]), b = draft_.accumulator(node(n.inputs[1]).inputs[0]);
    if (draft_.made_at(a) == draft_.made_at(b)) return -1;  // one call cannot add to what it has not begun
    if (place(a).phase != place(b).phase || draft_.extent(a) != draft_.extent(b)) return -1;
    if (place(a).cut.has_flat_strips() != place(b).cut.has_flat_strips()) return -1;
    const auto [first, second] = std::minmax(a, b, [&](int x, int y) { return draft_.made_at(x) < draft_.made_at(y); });
    place(second).into = first;
    return a == first ? n.inputs[0] : n.inputs[1];
  }

  /// Readers of a total read the sum of the lanes' parts.
  int add_lane_sum(int total) {
    Node sum;
    sum.op = Op::lane_sum;
    sum.spec = node(total).spec;
    sum.inputs = {total};
    sum.where = node(total).where;
    sum.gradient = node(total).gradient;
    return append(std::move(sum), -1);
  }

  std::vector<Phase> collect() {
    std::vector<Phase> phases;
    auto phase_at = [&](int p) -> Phase& {
      if (static_cast<int>(phases.size()) <= p) phases.resize(static_cast<std::size_t>(p) + 1);
      return phases[p];
    };
    std::map<std::tuple<int, std::int64_t, bool>, int> regions;
    for (int id = 0; id < draft_.size(); ++id) {
      for (int p : draft_.info(id).shared_in) phase_at(p).shared.push_back(id);
      Placement& p = place(id);
      if (p.phase < 0) continue;
      const bool flat = p.cut.has_flat_strips();
      Phase& phase = phase_at(p.phase);
      const auto [it, fresh] =
          regions.emplace(std::tuple(p.phase, draft_.extent(id), flat), static_cast<int>(phase.regions.size()));
      if (fresh) {
        phase.regions.emplace_back();
        phase.regions.back().extent = draft_.extent(id);
        phase.regions.back().flat = flat;
      }
      p.region = it->second;
      Region& region = phase.regions[static_cast<std::size_t>(it->second)];
      region.members.push_back({id, p.cut});
      region.work_ns += work_ns(*draft_.graph, id, machine_);
    }
    return phases;
  }

  const ir::Graph& given_;
  const std::vector<int> uses_;  // of the given nodes
  const Machine& machine_;
  int lanes_;
  Draft draft_;
  Where where_;
  std::vector<int> rename_;  // given node -> new node
};

}  // namespace

Schedule form(const ir::Graph& graph, const AxisClasses& classes, const Form& form, const Machine& machine) {
  return Former(graph, classes, form, machine).form();
}

}  // namespace wr::plan
