// Results: what is needed for them, when what is computed again comes, and where new values of states and outputs
// stand.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "plan/draft.h"

namespace wr::plan {

using ir::Node;
using ir::Op;

namespace {

using Users = std::vector<std::vector<int>>;  // by node; twice where a node is two operands

Users users_of(const Draft& draft) {
  Users users(static_cast<std::size_t>(draft.size()));
  for (int id = 0; id < draft.size(); ++id)
    for (int in : draft.node(id).inputs) users[in].push_back(id);
  return users;
}

/// The whole value must be readable after the node's phase.
void need_whole(Draft& draft, int id) {
  Placement& p = draft.place(id);
  if (p.home == Home::view || (draft.inside_region(id) && ir::is_view(draft.node(id).op)))
    return need_whole(draft, draft.node(id).inputs[0]);
  if (p.home == Home::leaf || p.whole) return;
  p.whole = true;
  if (p.home == Home::strip && !p.cut.is_total()) p.home = Home::arena;
}

/// Who reads a value: nodes, and whether it is an output or a state's new value.
struct Readers {
  Users users;
  std::vector<bool> is_result;

  explicit Readers(const Draft& draft) : users(users_of(draft)), is_result(users.size(), false) {
    for (int id : draft.graph->outputs) is_result[id] = true;
    for (auto u : draft.graph->updates) is_result[u.value] = true;
  }
};

/// Every reader of a view of a state, and of views of it, is in an earlier phase.
bool view_is_read_before(Draft& draft, int view, int phase, const Readers& readers) {
  for (int user : readers.users[view]) {
    const Node& n = draft.node(user);
    if (draft.place(user).phase >= phase && !ir::is_view(n.op)) return false;
    for (int shared : draft.info(user).shared_in)
      if (shared >= phase) return false;
    if (ir::is_view(n.op) && !view_is_read_before(draft, user, phase, readers)) return false;
  }
  return !readers.is_result[view];
}

bool same_extent(Draft& draft, int a, int b) {
  return draft.extent(a) == draft.extent(b) && draft.place(a).cut.is_flat() == draft.place(b).cut.is_flat();
}

/// May the node's strips be written over the state's old value? Only if every other reader is done by then.
bool can_overwrite(Draft& draft, int state, int id, const Readers& readers) {
  for (int user : readers.users[state]) {
    const Node& n = draft.node(user);
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      if (n.inputs[k] != state) continue;
      if (ir::is_view(n.op)) {
        if (!view_is_read_before(draft, user, draft.place(id).phase, readers)) return false;
        continue;
      }
      const Placement& p = draft.place(user);
      for (int shared : draft.info(user).shared_in)
        if (shared >= draft.place(id).phase) return false;
      if (p.phase < 0) continue;
      if (p.phase > draft.place(id).phase) return false;
      if (p.phase < draft.place(id).phase) continue;
      const bool same_rows =
          p.cut == draft.place(id).cut && cut_of_operand(*draft.graph, user, static_cast<int>(k), p.cut) == p.cut;
      if (!same_rows || draft.made_at(user) > draft.made_at(id) || !same_extent(draft, user, id)) return false;
      if (user == draft.made_at(id) && !is_in_place(n.op)) return false;
    }
  }
  return !readers.is_result[state];
}

}  // namespace

void delay_copies(Draft& draft) {
  constexpr int kNever = std::numeric_limits<int>::max();
  std::vector<int> latest(draft.placements.size(), kNever);
  for (int id = draft.size() - 1; id >= 0; --id) {
    const bool placed = draft.inside_region(id);
    const int bound = latest[id];
    if (placed && draft.node(id).op == Op::result) {  // goes with its maker, as early as any result must be there
      int& of_maker = latest[draft.node(id).inputs[0]];
      of_maker = std::min(of_maker, draft.place(id).cut.is_total() ? draft.place(id).phase : bound);
      continue;
    }
    if (placed && draft.node(id).copy != 0 && !draft.place(id).cut.is_total() && bound != kNever) {
      draft.place(id).phase = std::max(draft.place(id).phase, bound);
      draft.info(id).ready = draft.place(id).phase + 1;
    }
    for (std::size_t k = 0; k < draft.node(id).inputs.size(); ++k) {
      const bool together = placed && draft.joins(id, static_cast<int>(k), draft.place(id).cut);
      const int phase = placed ? draft.place(id).phase - (together ? 0 : 1) : bound;
      int& of_input = latest[draft.node(id).inputs[k]];
      of_input = std::min(of_input, phase);
    }
  }
  for (int id = 0; id < draft.size(); ++id)
    if (draft.node(id).op == Op::result) {
      draft.place(id).phase = draft.place(draft.node(id).inputs[0]).phase;
      draft.info(id).ready = draft.info(draft.node(id).inputs[0]).ready;
    }
}

namespace {

bool holds(const std::vector<int>& list, int id) { return std::find(list.begin(), list.end(), id) != list.end(); }

/// The node whose call makes a value, and all further results of that call.
std::vector<int> made_with(Draft& draft, int value, const Users& users) {
  std::vector<int> group{draft.made_at(value)};
  for (int user : users[group[0]])
    if (draft.node(user).op == Op::result) group.push_back(user);
  return group;
}

/// Nodes that can be asked for at once: what only one update needs may be half the graph. The marks are shared by
/// groups that come one after the other.
class NodeSet {
 public:
  NodeSet(const std::vector<int>& nodes, std::vector<int>& marks, int mark) : marks_(marks), mark_(mark) {
    for (int id : nodes) add(id);
  }
  void add(int id) {
    list_.push_back(id);
    marks_[id] = mark_;
  }
  bool holds(int id) const { return marks_[id] == mark_; }
  const std::vector<int>& list() const { return list_; }

 private:
  std::vector<int> list_;
  std::vector<int>& marks_;
  int mark_;
};

/// The nodes of a call, and those of its phase that nobody else needs.
void add_made_for(Draft& draft, NodeSet& alone, const Users& users, const std::vector<bool>& is_result) {
  const int phase = draft.place(alone.list()[0]).phase;
  for (std::size_t i = 0; i < alone.list().size(); ++i)
    for (int in : draft.node(alone.list()[i]).inputs) {
      if (!draft.inside_region(in) || draft.place(in).cut.is_total() || draft.place(in).phase != phase) continue;
      if (is_result[in] || alone.holds(in)) continue;
      if (draft.node(in).op == Op::result || ir::definition(draft.node(in).op).further) continue;
      const auto& readers = users[in];
      if (std::all_of(readers.begin(), readers.end(), [&](int reader) { return alone.holds(reader); })) alone.add(in);
    }
}

/// The last phase in which somebody else reads a state; -1 if nobody does.
int last_read(Draft& draft, int id, const NodeSet& alone, const Users& users) {
  int last = -1;
  for (int user : users[id]) {
    if (ir::is_view(draft.node(user).op)) last = std::max(last, last_read(draft, user, alone, users));
    if (!alone.holds(user)) last = std::max(last, draft.place(user).phase);
  }
  return last;
}

/// Bytes of what stays in its strips now and would have to cross to a later phase.
double crossing_bytes(Draft& draft, const NodeSet& alone) {
  double bytes = 0;
  for (int id : alone.list())
    for (int in : draft.node(id).inputs) {
      const Placement& place = draft.place(in);
      if (draft.inside_region(in) && place.phase == draft.place(id).phase && place.home == Home::strip &&
          !alone.holds(in))
        bytes += bytes_of(*draft.graph, in);
    }
  return bytes;
}

}  // namespace

/// All states that one call gives their values wait together.
void sink_updates(Draft& draft) {
  const auto count = static_cast<std::size_t>(draft.size());
  const Users users = users_of(draft);
  std::vector<bool> is_result(count, false), done(count, false);
  for (int id : draft.graph->outputs) is_result[id] = true;
  std::vector<int> marks(count, -1);
  std::unordered_multimap<int, int> states;  // by the value they are given
  for (auto u : draft.graph->updates) states.emplace(u.value, u.state);
  for (auto u : draft.graph->updates) {
    const std::vector<int> group = made_with(draft, u.value, users);
    if (done[group[0]]) continue;
    done[group[0]] = true;
    const auto stays = [&](int id) {
      const auto& readers = users[id];
      return !draft.inside_region(id) || draft.place(id).cut.is_total() ||
             !std::all_of(readers.begin(), readers.end(), [&](int reader) { return holds(group, reader); });
    };
    if (std::any_of(group.begin(), group.end(), stays)) continue;
    const int phase = draft.place(group[0]).phase;
    NodeSet alone(group, marks, group[0]);
    add_made_for(draft, alone, users, is_result);
    int last = -1;
    double copied = 0;
    for (int value : group)
      for (auto [at, end] = states.equal_range(value); at != end; ++at) {
        const int read = last_read(draft, at->second, alone, users);
        if (read >= phase) copied += bytes_of(*draft.graph, at->second);
        last = std::max(last, read);
      }
    if (last < phase || crossing_bytes(draft, alone) >= copied) continue;
    for (int id : alone.list()) {
      draft.place(id).phase = last + 1;
      draft.info(id).ready = last + 2;
    }
  }
}

void mark_needed(Draft& draft) {
  std::unordered_map<int, std::vector<int>> totals;  // by accumulator
  for (int id = 0; id < draft.size(); ++id)
    if (draft.place(id).cut.is_total()) totals[draft.accumulator(id)].push_back(id);
  std::vector<bool> computed(draft.placements.size(), false);
  std::vector<int> work;
  auto need_result = [&](int id) {  // a view is copied from the whole value behind it
    while (ir::is_view(draft.node(id).op)) id = draft.node(id).inputs[0];
    need_whole(draft, id);
    work.push_back(id);
  };
  for (int id : draft.graph->outputs) need_result(id);
  for (auto u : draft.graph->updates) need_result(u.value);
  auto share = [&](auto&& self, int id, int phase) -> void {
    auto& phases = draft.info(id).shared_in;
    if (draft.place(id).home == Home::leaf || std::find(phases.begin(), phases.end(), phase) != phases.end()) return;
    phases.push_back(phase);
    for (int in : draft.node(id).inputs) {
      if (draft.node(id).op == Op::lane_sum)
        work.push_back(in);
      else
        self(self, in, phase);
    }
  };
  while (!work.empty()) {
    const int id = work.back();
    work.pop_back();
    if (computed[id] || draft.place(id).home == Home::leaf) continue;
    computed[id] = true;
    if (draft.place(id).cut.is_total())  // with everything that goes into the same accumulator
      for (int other : totals[draft.accumulator(id)]) work.push_back(other);
    if (draft.place(id).home == Home::view) {
      need_whole(draft, id);
      work.push_back(draft.node(id).inputs[0]);
      continue;
    }
    const int phase = draft.place(id).phase;
    const Cut cut = draft.place(id).cut;
    for (std::size_t k = 0; k < draft.node(id).inputs.size(); ++k) {
      const int in = draft.node(id).inputs[k];
      if (draft.place(in).home == Home::leaf) continue;
      if (draft.node(id).op == Op::lane_sum) {
        work.push_back(in);
      } else if (draft.place(in).phase == phase && draft.joins(id, static_cast<int>(k), cut)) {
        work.push_back(in);
      } else if (draft.info(in).can_share && draft.info(in).share_ready <= phase &&
                 !(draft.place(in).phase >= 0 && draft.info(in).ready <= phase && draft.place(in).whole)) {
        share(share, in, phase);
      } else {
        need_whole(draft, in);
        work.push_back(in);
      }
    }
  }
  for (std::size_t i = 0; i < draft.placements.size(); ++i)
    if (!computed[i] && draft.placements[i].home != Home::leaf && draft.placements[i].home != Home::view)
      draft.placements[i].phase = -1;
}

void place_results(Draft& draft, Schedule& s) {
  const Readers readers(draft);
  std::unordered_map<int, int> index_of_state;
  for (int id = 0; id < draft.size(); ++id)
    if (draft.node(id).op == Op::state) {
      index_of_state.emplace(id, static_cast<int>(s.states.size()));
      s.states.push_back(id);
    }
  std::vector<bool> has_home(draft.placements.size(), false);
  auto settle_result = [&](int id, Home home, int index) {
    if (home == Home::state && draft.node(id).op == Op::state && s.states[index] == id) return;
    const bool direct = draft.inside_region(id) && !draft.place(id).cut.is_total() && !ir::is_view(draft.node(id).op) &&
                        !has_home[id] && (home == Home::output || can_overwrite(draft, s.states[index], id, readers));
    if (direct) {
      has_home[id] = true;
      draft.place(id).home = home;
      draft.place(id).index = index;
      draft.place(id).whole = true;
    } else {
      need_whole(draft, id);
      s.commits.push_back({id, home, index});
    }
  };
  // States first: an output that is also a state's new value is copied.
  for (auto u : draft.graph->updates) settle_result(u.value, Home::state, index_of_state.at(u.state));
  for (std::size_t i = 0; i < draft.graph->outputs.size(); ++i)
    settle_result(draft.graph->outputs[i], Home::output, static_cast<int>(i));
}

}  // namespace wr::plan
