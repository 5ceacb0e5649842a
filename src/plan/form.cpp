// Forming regions: nodes are taken in the order of the graph; each goes to the earliest phase in which it can be
// computed, along the axis that lets it go on in the strips of its operands.
#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "plan/cost.h"
#include "plan/form.h"

namespace wr::plan {
namespace {

using ir::Node;
using ir::Op;

// A value of at most this many elements is worth computing on every lane rather than meeting at a barrier for it.
constexpr std::int64_t kSharedElements = 2048;

class Former {
 public:
  Former(const ir::Graph& graph, const AxisClasses& classes, const Form& form, const Machine& machine)
      : given_(graph),
        uses_(count_uses(graph)),
        classes_(classes),
        machine_(machine),
        primary_(form.primary),
        lanes_(form.lanes),
        fusion_(form.fusion),
        out_(std::make_shared<ir::Graph>()) {}

  Schedule form() {
    for (int old = 0; old < given_.size(); ++old) take(old);
    for (int output : given_.outputs) out_->outputs.push_back(renamed(output));
    for (auto u : given_.updates) out_->updates.push_back({renamed(u.state), renamed(u.value)});
    Schedule s;
    s.graph = out_;
    s.lanes = lanes_;
    delay_copies();
    sink_updates();
    mark_needed();
    place_results(s);
    s.phases = collect();
    s.place = place_;
    return s;
  }

 private:
  // What is known of a node of the new graph beside its placement.
  struct Info {
    int ready = 0;               // first phase in which the whole value can be read
    bool can_share = false;      // each lane may compute it for itself,
    int share_ready = 0;         // from this phase on
    std::vector<int> shared_in;  // phases whose lanes do
  };

  int renamed(int old) const { return rename_[static_cast<std::size_t>(old)]; }
  const Node& node(int id) const { return (*out_)[id]; }
  Placement& place(int id) { return place_[static_cast<std::size_t>(id)]; }
  Info& info(int id) { return info_[static_cast<std::size_t>(id)]; }

  int append(Node n) {
    const int id = out_->add_node(std::move(n));
    if (id == static_cast<int>(place_.size())) {
      place_.emplace_back();
      info_.emplace_back();
    }
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
    const int known = static_cast<int>(place_.size());
    int id = append(std::move(n));
    if (id == known) settle(old, id);
    if (is_total(place(id).axis)) id = add_lane_sum(id);
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
    const int known = static_cast<int>(place_.size());
    const int copy = append(std::move(n));
    if (copy == known) settle(old, copy);
    return copy;
  }

  /// The sum of two totals of one region, such as a weight's gradients at two places: both go into one accumulator.
  /// Returns the lane_sum that stands for it, or -1.
  int added_totals(int old, const Node& n) {
    if (n.op != Op::add || node(n.inputs[0]).op != Op::lane_sum || node(n.inputs[1]).op != Op::lane_sum) return -1;
    if (!(node(n.inputs[0]).spec == node(n.inputs[1]).spec)) return -1;
    for (int in : given_[old].inputs)
      if (uses_[static_cast<std::size_t>(in)] != 1) return -1;
    const int a = accumulator(node(n.inputs[0]).inputs[0]), b = accumulator(node(n.inputs[1]).inputs[0]);
    if (a == b || place(a).phase != place(b).phase || extent(a) != extent(b)) return -1;
    if ((place(a).axis == kFlatTotal) != (place(b).axis == kFlatTotal)) return -1;
    const int first = std::min(a, b), second = std::max(a, b);  // in order of execution
    place(second).into = first;
    return a == first ? n.inputs[0] : n.inputs[1];
  }

  int accumulator(int total) {
    while (place(total).into >= 0) total = place(total).into;
    return total;
  }

  /// Readers of a total read the sum of the lanes' parts.
  int add_lane_sum(int total) {
    Node sum;
    sum.op = Op::lane_sum;
    sum.spec = node(total).spec;
    sum.inputs = {total};
    sum.where = node(total).where;
    sum.gradient = node(total).gradient;
    const int known = static_cast<int>(place_.size());
    const int id = append(std::move(sum));
    if (id == known) settle(-1, id);
    return id;
  }

  // ---- where a node goes
  // ------------------------------------------------------------------------------------------------

  void settle(int old, int id) {
    const Op op = node(id).op;
    if (ir::is_leaf(op)) {
      place(id).home = Home::leaf;
      info(id).can_share = false;
      return;
    }
    set_shareable(id);
    if (ir::is_view(op) && !inside_region(node(id).inputs[0])) {
      place(id).home = Home::view;
      info(id).ready = info(node(id).inputs[0]).ready;
      return;
    }
    int best_axis = kOnce, best_phase = std::numeric_limits<int>::max();
    for (int axis : candidates(old, id)) {
      const int phase = earliest(id, axis);
      if (phase < best_phase) {
        best_phase = phase;
        best_axis = axis;
      }
    }
    if (ir::is_view(op) && best_axis == kOnce) {  // the strips end here: a view of the whole value
      place(id).home = Home::view;
      info(id).ready = info(node(id).inputs[0]).ready;
      return;
    }
    place(id).axis = best_axis;
    place(id).phase = best_phase;
    info(id).ready = best_phase + 1;
  }

  bool inside_region(int id) {
    return place(id).phase >= 0 && place(id).home != Home::view && place(id).home != Home::leaf;
  }

  void set_shareable(int id) {
    const Node& n = node(id);
    const bool cheap = (ir::is_elementwise(n.op) || ir::is_view(n.op) || n.op == Op::lane_sum ||
                        (n.op >= Op::reduce_sum && n.op <= Op::reduce_argmin)) &&
                       n.spec.shape.count() <= kSharedElements;
    bool ok = cheap;
    int ready = 0;
    for (int in : n.inputs) {
      const bool leaf = place(in).home == Home::leaf;
      if (n.op == Op::lane_sum)
        ready = std::max(ready, place(in).phase + 1);
      else if (info(in).can_share)
        ready = std::max(ready, info(in).share_ready);
      else if (!leaf)
        ok = false;
      if (node(in).spec.shape.count() > kSharedElements && !ir::is_view(n.op)) ok = false;
    }
    info(id).can_share = ok;
    info(id).share_ready = ready;
  }

  /// Ways to cut the node, the preferred first.
  std::vector<int> candidates(int old, int id) {
    const Node& n = node(id);
    std::vector<Spec> specs;
    for (int in : n.inputs) specs.push_back(node(in).spec);
    const auto map = ir::definition(n.op).axes(n.spec, specs, n.attrs);
    std::vector<int> list;
    auto offer = [&](int axis) {
      if (std::find(list.begin(), list.end(), axis) == list.end()) list.push_back(axis);
    };
    if (n.op == Op::einsum && fusion_ != Fusion::strips) {
      for (int axis : product_axes(id, map)) offer(axis);
    }
    const bool defer = better_later(n);
    if (primary_ >= 0 && old >= 0) {
      for (int a = 0; a < n.spec.shape.rank(); ++a)
        if (classes_.of(old, a) == primary_ && can_cut(n, map, a)) offer(a);
      for_reduced(n, map, [&](std::size_t k, int a, int axis) {
        if (!defer && classes_.of(given_[old].inputs[k], a) == primary_) offer(axis);
      });
      if (!list.empty()) {
        offer(kOnce);
        return list;
      }
    }
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      inherit(n, map, k, [&](int axis) {
        if (!(defer && is_total(axis))) offer(axis);
      });
    // Rows go with whatever reads a sum of lanes, be it activations or parameters; few rows are better cut as elements.
    if (n.op == Op::lane_sum && n.spec.shape.rank() > 1 && n.spec.shape[0] >= 16) offer(0);
    if (fits_flat(id)) offer(kFlat);
    if (n.op == Op::reduce_sum && n.spec.shape.count() == 1) offer(kFlatTotal);
    const auto totals_first = n.spec.shape.rank() > 0 && n.spec.shape[0] == 1;
    if (!totals_first) offer_axes(n, map, offer);
    for_reduced(n, map, [&](std::size_t k, int a, int axis) {
      if (!defer && specs[k].shape[a] > 1) offer(axis);
    });
    if (totals_first) offer_axes(n, map, offer);
    offer(kOnce);
    return list;
  }

  /// The axes of a product's result, that first by which a lane has least to fetch and to write.
  std::vector<int> product_axes(int id, const ir::AxisMap& map) {
    const Node& n = node(id);
    std::vector<std::pair<double, int>> costs;
    for (int axis = 0; axis < n.spec.shape.rank(); ++axis) {
      if (n.spec.shape[axis] < 2 || !can_cut(n, map, axis)) continue;
      const double parts = static_cast<double>(std::min<std::int64_t>(lanes_, n.spec.shape[axis]));
      auto part = [&](int of, int along) {
        const double run = static_cast<double>(n.spec.shape[axis]) / parts * inner_bytes(*out_, of, along);
        return bytes_of(*out_, of) / parts * (along == 0 ? 1 : strided(machine_, run));
      };
      double bytes = part(id, axis);
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        const int along = aligned_axis(*out_, id, static_cast<int>(k), axis);
        bytes += along == kNotAligned ? bytes_of(*out_, n.inputs[k]) : part(n.inputs[k], along);
      }
      costs.emplace_back(bytes, axis);
    }
    std::stable_sort(costs.begin(), costs.end(), [](auto& a, auto& b) { return a.first < b.first; });
    std::vector<int> axes;
    for (auto [bytes, axis] : costs) axes.push_back(axis);
    return axes;
  }

  /// A contraction whose result outweighs its operands, such as the gradient of a wide layer's weights: let the
  /// operands cross to the next phase, where each lane computes its rows of the result, instead of every lane's part of
  /// all of it.
  bool better_later(const Node& n) {
    if (n.op != Op::einsum) return false;
    std::int64_t operands = 0;
    for (int in : n.inputs) {
      while (ir::is_view(node(in).op)) in = node(in).inputs[0];
      if (place(in).home != Home::leaf) operands += node(in).spec.shape.count();
    }
    return operands > 0 && operands < 2 * n.spec.shape.count();
  }

  template <class Offer>
  void offer_axes(const Node& n, const ir::AxisMap& map, Offer offer) {
    for (int a = 0; a < n.spec.shape.rank(); ++a)
      if (n.spec.shape[a] > 1 && can_cut(n, map, a)) {
        offer(a);
        return;
      }
  }

  /// Goes on along the axis by which an operand was cut.
  template <class Offer>
  void inherit(const Node& n, const ir::AxisMap& map, std::size_t k, Offer offer) {
    const int in = n.inputs[k];
    if (!inside_region(in)) return;
    const int axis = place(in).axis;
    if (axis == kFlat) {
      if (fits_flat_node(n)) offer(kFlat);
      if (n.op == Op::reduce_sum && n.spec.shape.count() == 1) offer(kFlatTotal);
    } else if (axis >= 0 && k < map.operand.size()) {
      const auto to = map.operand[k][axis];
      if (to >= 0) offer(static_cast<int>(to));
      if (to <= ir::kReduced) offer(kTotal - static_cast<int>(ir::kReduced - to));
    }
  }

  template <class F>
  static void for_reduced(const Node& n, const ir::AxisMap& map, F f) {
    for (std::size_t k = 0; k < n.inputs.size() && k < map.operand.size(); ++k)
      for (int a = 0; a < map.operand[k].rank(); ++a)
        if (map.operand[k][a] <= ir::kReduced) f(k, a, kTotal - static_cast<int>(ir::kReduced - map.operand[k][a]));
  }

  /// Some operand brings the axis, or the op can make any part of it.
  static bool can_cut(const Node& n, const ir::AxisMap& map, int axis) {
    if (n.op == Op::random || n.op == Op::iota || n.op == Op::broadcast) return true;
    for (const Dims& axes : map.operand)
      if (axes.contains(axis)) return true;
    return map.free.contains(axis);
  }

  bool fits_flat(int id) { return fits_flat_node(node(id)); }
  bool fits_flat_node(const Node& n) {
    const auto long_axes = std::count_if(n.spec.shape.begin(), n.spec.shape.end(), [](auto size) { return size > 1; });
    if (long_axes < 2) return false;  // one axis: rows are elements anyway
    if (n.op == Op::reshape || n.op == Op::lane_sum) return true;
    if (!ir::is_elementwise(n.op)) return false;
    for (int in : n.inputs)
      if (!(node(in).spec.shape == n.spec.shape) && node(in).spec.shape.count() != 1) return false;
    return true;
  }

  // ---- when
  // ---------------------------------------------------------------------------------------------------------------

  /// The first phase in which the node can be computed in strips along the axis.
  int earliest(int id, int axis) {
    const Node& n = node(id);
    int phase = 0;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const int in = n.inputs[k];
      if (place(in).home == Home::leaf) continue;
      if (n.op == Op::lane_sum) {
        phase = std::max(phase, place(in).phase + 1);
      } else if (joins(id, static_cast<int>(k), axis)) {
        phase = std::max(phase, place(in).phase);
      } else if (info(in).can_share) {
        phase = std::max(phase, info(in).share_ready);
      } else {
        phase = std::max(phase, info(in).ready);
      }
    }
    return phase;
  }

  bool joins(int id, int operand, int axis) {
    const int in = node(id).inputs[static_cast<std::size_t>(operand)];
    if (!inside_region(in) || !goes_on(id)) return false;
    return place(in).axis == aligned_axis(*out_, id, operand, axis);
  }

  /// May the node be computed in the strips of its operands? Views and what follows them are no work of their own.
  bool goes_on(int id) const {
    const Op op = node(id).op;
    if (fusion_ == Fusion::strips || ir::is_view(op)) return true;
    return fusion_ == Fusion::layers && op != Op::einsum;
  }

  // ---- results
  /// What a checkpoint computes again could be computed early and kept, but that is what the checkpoint is to avoid: it
  /// goes to the phase of its first reader.
  void delay_copies() {
    constexpr int kNever = std::numeric_limits<int>::max();
    std::vector<int> latest(place_.size(), kNever);
    for (int id = out_->size() - 1; id >= 0; --id) {
      const bool placed = inside_region(id);
      const int bound = latest[static_cast<std::size_t>(id)];
      if (placed && node(id).copy != 0 && !is_total(place(id).axis) && bound != kNever) {
        place(id).phase = std::max(place(id).phase, bound);
        info(id).ready = place(id).phase + 1;
      }
      for (std::size_t k = 0; k < node(id).inputs.size(); ++k) {
        const bool together = placed && joins(id, static_cast<int>(k), place(id).axis);
        const int phase = placed ? place(id).phase - (together ? 0 : 1) : bound;
        int& of_input = latest[static_cast<std::size_t>(node(id).inputs[k])];
        of_input = std::min(of_input, phase);
      }
    }
  }

  // --------------------------------------------------------------------------------------------------------------

  /// A state's new value that is ready while others still read the old one would have to be copied at the end. It is
  /// made after them instead, with what is made for it alone, if less crosses to that phase than is copied.
  void sink_updates() {
    std::vector<std::vector<int>> users(place_.size());
    for (int id = 0; id < out_->size(); ++id)
      for (int in : node(id).inputs) users[static_cast<std::size_t>(in)].push_back(id);
    std::vector<bool> is_result(place_.size(), false);
    for (int id : out_->outputs) is_result[static_cast<std::size_t>(id)] = true;
    for (auto u : out_->updates) {
      if (!inside_region(u.value) || is_total(place(u.value).axis)) continue;
      if (!users[static_cast<std::size_t>(u.value)].empty()) continue;
      const int phase = place(u.value).phase;
      const std::vector<int> alone = made_for(u.value, users, is_result);
      int last = -1;  // phase in which somebody else reads the old value
      auto visit = [&](auto&& self, int id) -> void {
        for (int user : users[static_cast<std::size_t>(id)]) {
          if (ir::is_view(node(user).op)) self(self, user);
          if (std::find(alone.begin(), alone.end(), user) == alone.end()) last = std::max(last, place(user).phase);
        }
      };
      visit(visit, u.state);
      if (last < phase) continue;
      double crosses = 0, copied = bytes_of(*out_, u.state);
      for (int id : alone)
        for (int in : node(id).inputs)
          if (inside_region(in) && place(in).phase == phase && place(in).home == Home::strip &&
              std::find(alone.begin(), alone.end(), in) == alone.end())
            crosses += bytes_of(*out_, in);
      if (crosses >= copied) continue;
      for (int id : alone) {
        place(id).phase = last + 1;
        info(id).ready = last + 2;
      }
    }
  }

  /// The node, and the nodes of its phase that nobody else needs.
  std::vector<int> made_for(int value, const std::vector<std::vector<int>>& users, const std::vector<bool>& is_result) {
    std::vector<int> alone{value};
    for (std::size_t i = 0; i < alone.size(); ++i)
      for (int in : node(alone[i]).inputs) {
        if (!inside_region(in) || is_total(place(in).axis) || place(in).phase != place(value).phase) continue;
        if (is_result[static_cast<std::size_t>(in)] || std::find(alone.begin(), alone.end(), in) != alone.end())
          continue;
        const auto& readers = users[static_cast<std::size_t>(in)];
        if (std::all_of(readers.begin(), readers.end(),
                        [&](int reader) { return std::find(alone.begin(), alone.end(), reader) != alone.end(); }))
          alone.push_back(in);
      }
    return alone;
  }

  /// Gives states and outputs their values: in place where nobody still needs the old one, else by a copy at the end.
  void place_results(Schedule& s) {
    for (int id = 0; id < out_->size(); ++id)
      if (node(id).op == Op::state) s.states.push_back(id);
    std::vector<bool> has_home(place_.size(), false);
    auto settle_result = [&](int id, Home home, int index) {
      if (home == Home::state && node(id).op == Op::state && s.states[static_cast<std::size_t>(index)] == id) return;
      const bool direct = inside_region(id) && !is_total(place(id).axis) && !ir::is_view(node(id).op) &&
                          !has_home[static_cast<std::size_t>(id)] &&
                          (home == Home::output || can_overwrite(s.states[static_cast<std::size_t>(index)], id));
      if (direct) {
        has_home[static_cast<std::size_t>(id)] = true;
        place(id).home = home;
        place(id).index = index;
        place(id).whole = true;
      } else {
        need_whole(id);
        s.commits.push_back({id, home, index});
      }
    };
    // States first: an output that is also a state's new value is copied.
    for (auto u : out_->updates) {
      const auto at = std::find(s.states.begin(), s.states.end(), u.state);
      settle_result(u.value, Home::state, static_cast<int>(at - s.states.begin()));
    }
    for (std::size_t i = 0; i < out_->outputs.size(); ++i)
      settle_result(out_->outputs[i], Home::output, static_cast<int>(i));
  }

  /// May the node's strips be written over the state's old value? Only if every other reader is done by then.
  bool can_overwrite(int state, int id) {
    for (int user = 0; user < out_->size(); ++user) {
      const Node& n = node(user);
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        if (n.inputs[k] != state) continue;
        if (ir::is_view(n.op)) {
          if (!view_is_read_before(user, place(id).phase)) return false;
          continue;
        }
        const Placement& p = place(user);
        for (int shared : info(user).shared_in)
          if (shared >= place(id).phase) return false;
        if (p.phase < 0) continue;
        if (p.phase > place(id).phase) return false;
        if (p.phase < place(id).phase) continue;
        const bool same_rows =
            p.axis == place(id).axis && aligned_axis(*out_, user, static_cast<int>(k), p.axis) == p.axis;
        if (!same_rows || user > id || !same_extent(user, id)) return false;
      }
    }
    return !read_by_others(state);
  }

  /// Every reader of a view of a state, and of views of it, is in an earlier phase.
  bool view_is_read_before(int view, int phase) {
    for (int user = view + 1; user < out_->size(); ++user) {
      const Node& n = node(user);
      if (std::find(n.inputs.begin(), n.inputs.end(), view) == n.inputs.end()) continue;
      if (place(user).phase >= phase && !ir::is_view(n.op)) return false;
      for (int shared : info(user).shared_in)
        if (shared >= phase) return false;
      if (ir::is_view(n.op) && !view_is_read_before(user, phase)) return false;
    }
    return !read_by_others(view);
  }

  bool read_by_others(int state) {
    for (int o : out_->outputs)
      if (o == state) return true;
    for (auto u : out_->updates)
      if (u.value == state) return true;
    return false;
  }

  bool same_extent(int a, int b) {
    return extent(a) == extent(b) && (place(a).axis == kFlat) == (place(b).axis == kFlat);
  }

  std::int64_t extent(int id) {
    const Node& n = node(id);
    const int axis = place(id).axis;
    if (axis >= 0) return n.spec.shape[axis];
    if (axis == kFlat) return n.spec.shape.count();
    if (axis == kOnce) return 1;
    if (axis == kFlatTotal) return node(n.inputs[0]).spec.shape.count();
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const int a = aligned_axis(*out_, id, static_cast<int>(k), axis);
      if (a >= 0) return node(n.inputs[k]).spec.shape[a];
    }
    return 1;
  }

  /// The whole value must be readable after the node's phase.
  void need_whole(int id) {
    Placement& p = place(id);
    if (p.home == Home::view || (inside_region(id) && ir::is_view(node(id).op))) return need_whole(node(id).inputs[0]);
    if (p.home == Home::leaf || p.whole) return;
    p.whole = true;
    if (p.home == Home::strip && !is_total(p.axis)) p.home = Home::arena;
  }

  /// Walks back from the results: which nodes are computed in strips, which on each lane, whose whole values are read.
  void mark_needed() {
    std::unordered_map<int, std::vector<int>> totals;  // by accumulator
    for (int id = 0; id < out_->size(); ++id)
      if (is_total(place(id).axis)) totals[accumulator(id)].push_back(id);
    std::vector<bool> computed(place_.size(), false);
    std::vector<int> work;
    auto need_result = [&](int id) {  // a view is copied from the whole value behind it
      while (ir::is_view(node(id).op)) id = node(id).inputs[0];
      need_whole(id);
      work.push_back(id);
    };
    for (int id : out_->outputs) need_result(id);
    for (auto u : out_->updates) need_result(u.value);
    auto share = [&](auto&& self, int id, int phase) -> void {
      auto& phases = info(id).shared_in;
      if (place(id).home == Home::leaf || std::find(phases.begin(), phases.end(), phase) != phases.end()) return;
      phases.push_back(phase);
      for (int in : node(id).inputs) {
        if (node(id).op == Op::lane_sum)
          work.push_back(in);
        else
          self(self, in, phase);
      }
    };
    while (!work.empty()) {
      const int id = work.back();
      work.pop_back();
      if (computed[static_cast<std::size_t>(id)] || place(id).home == Home::leaf) continue;
      computed[static_cast<std::size_t>(id)] = true;
      if (is_total(place(id).axis))  // with everything that goes into the same accumulator
        for (int other : totals[accumulator(id)]) work.push_back(other);
      if (place(id).home == Home::view) {
        need_whole(id);
        work.push_back(node(id).inputs[0]);
        continue;
      }
      const int phase = place(id).phase, axis = place(id).axis;
      for (std::size_t k = 0; k < node(id).inputs.size(); ++k) {
        const int in = node(id).inputs[k];
        if (place(in).home == Home::leaf) continue;
        if (node(id).op == Op::lane_sum) {
          work.push_back(in);
        } else if (place(in).phase == phase && joins(id, static_cast<int>(k), axis)) {
          work.push_back(in);
        } else if (info(in).can_share && info(in).share_ready <= phase &&
                   !(place(in).phase >= 0 && info(in).ready <= phase && place(in).whole)) {
          share(share, in, phase);
        } else {
          need_whole(in);
          work.push_back(in);
        }
      }
    }
    for (std::size_t i = 0; i < place_.size(); ++i)
      if (!computed[i] && place_[i].home != Home::leaf && place_[i].home != Home::view) place_[i].phase = -1;
  }

  std::vector<Phase> collect() {
    std::vector<Phase> phases;
    auto phase_at = [&](int p) -> Phase& {
      if (static_cast<int>(phases.size()) <= p) phases.resize(static_cast<std::size_t>(p) + 1);
      return phases[static_cast<std::size_t>(p)];
    };
    std::map<std::tuple<int, std::int64_t, bool>, int> regions;
    for (int id = 0; id < out_->size(); ++id) {
      for (int p : info(id).shared_in) phase_at(p).shared.push_back(id);
      Placement& p = place(id);
      if (p.phase < 0) continue;
      const bool flat = p.axis == kFlat || p.axis == kFlatTotal;
      Phase& phase = phase_at(p.phase);
      const auto [it, fresh] =
          regions.emplace(std::tuple(p.phase, extent(id), flat), static_cast<int>(phase.regions.size()));
      if (fresh) {
        phase.regions.emplace_back();
        phase.regions.back().extent = extent(id);
        phase.regions.back().flat = flat;
      }
      p.region = it->second;
      Region& region = phase.regions[static_cast<std::size_t>(it->second)];
      region.members.push_back({id, p.axis});
      region.work_ns += work_ns(*out_, id, machine_);
    }
    return phases;
  }

  static std::vector<int> count_uses(const ir::Graph& graph) {
    std::vector<int> uses(static_cast<std::size_t>(graph.size()), 0);
    auto use = [&](int id) { ++uses[static_cast<std::size_t>(id)]; };
    for (int i = 0; i < graph.size(); ++i)
      for (int in : graph[i].inputs) use(in);
    for (int o : graph.outputs) use(o);
    for (auto u : graph.updates) use(u.value);
    return uses;
  }

  const ir::Graph& given_;
  const std::vector<int> uses_;  // of the given nodes
  const AxisClasses& classes_;
  const Machine& machine_;
  int primary_, lanes_;
  Fusion fusion_;
  std::shared_ptr<ir::Graph> out_;
  std::vector<int> rename_;  // given node -> new node
  std::vector<Placement> place_;
  std::vector<Info> info_;
};

}  // namespace

Schedule form(const ir::Graph& graph, const AxisClasses& classes, const Form& form, const Machine& machine) {
  return Former(graph, classes, form, machine).form();
}

}  // namespace wr::plan
