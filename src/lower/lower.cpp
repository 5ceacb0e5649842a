// From schedule to program: homes of values, and codes for every number of rows that occurs.
#include "lower/lower.h"

#include <algorithm>
#include <map>

#include "lower/lowering.h"
#include "plan/memory.h"

namespace wr::lower {

using ir::Node;
using ir::Op;
using plan::Home;

namespace {

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
std::size_t bytes_of(const Spec& spec) {
  return static_cast<std::size_t>(std::max<std::int64_t>(spec.shape.count(), 1)) * size_of(spec.dtype);
}

class Builder {
 public:
  Builder(const plan::Schedule& schedule, Kernels& kernels) : s_(schedule), g_(*schedule.graph), kernels_(kernels) {
    p_.lanes = schedule.lanes;
  }

  Program build() {
    number_bases();
    place_leaves();
    place_whole_values();
    place_partials();
    place_shared();
    for (int id = 0; id < g_.size(); ++id)
      if (g_[id].op == Op::result) h_.further[g_[id].inputs[0]].push_back(id);
    for (std::size_t phase = 0; phase < s_.phases.size(); ++phase) lower_phase(static_cast<int>(phase));
    lower_commits();
    p_.scratch_bytes = std::max(p_.scratch_bytes, memory_.bytes);
    p_.scratch_lower_bound = memory_.lower_bound;
    return std::move(p_);
  }

 private:
  void number_bases() {
    int next = kFirstLeaf;
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) p_.input_base.push_back(next++);
    for (std::size_t i = 0; i < s_.states.size(); ++i) p_.state_base.push_back(next++);
    for (int id = 0; id < g_.size(); ++id)
      if (g_[id].op == Op::constant) {
        constants_.push_back(id);
        add_constant(g_[id].value, next);
      }
    for (int id = 0; id < g_.size(); ++id)
      if (g_[id].attrs.body) number_constants_of(*g_[id].attrs.body, next);
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) p_.output_base.push_back(next++);
    p_.bases = next;
  }

  int add_constant(const std::shared_ptr<const Array>& value, int& next) {
    p_.constants.push_back(value);
    p_.constant_base.push_back(next);
    return next++;
  }

  void number_constants_of(const ir::Graph& body, int& next) {
    for (int id = 0; id < body.size(); ++id)
      if (body[id].op == Op::constant && !h_.constants.contains(body[id].value.get()))
        h_.constants[body[id].value.get()] = add_constant(body[id].value, next);
    if (h_.zero < 0) h_.zero = add_constant(std::make_shared<const Array>(Array::zeros({1}, DType::f64)), next);
  }

  void place_leaves() {
    View nowhere;
    nowhere.base = -1;
    h_.whole.assign(static_cast<std::size_t>(g_.size()), nowhere);
    h_.partial.assign(static_cast<std::size_t>(g_.size()), nowhere);
    auto put = [&](int id, int base) { whole(id) = dense_view(base, 0, g_[id].spec.dtype, g_[id].spec.shape); };
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) put(g_.inputs[i], p_.input_base[i]);
    for (std::size_t i = 0; i < s_.states.size(); ++i) put(s_.states[i], p_.state_base[i]);
    for (std::size_t i = 0; i < constants_.size(); ++i) put(constants_[i], p_.constant_base[i]);
  }

  /// Values read outside their strips: in the state or output they are for, or in the arena while they are needed.
  void place_whole_values() {
    std::vector<int> last(static_cast<std::size_t>(g_.size()), -1);
    const std::vector<int> shared = last_shared();
    for (int id = g_.size() - 1; id >= 0; --id) {
      const auto& place = s_.place[id];
      const int used = place.home == Home::view || ir::is_view(g_[id].op) ? last[id] : place.phase;
      for (int in : g_[id].inputs) last[in] = std::max({last[in], used, shared[id]});
    }
    const int end = static_cast<int>(s_.phases.size());
    for (const auto& c : s_.commits) extend(c.node, end, last);
    std::vector<plan::Lifetime> values;
    std::vector<int> nodes;
    for (int id = 0; id < g_.size(); ++id) {
      const auto& place = s_.place[id];
      if (place.phase < 0) continue;
      if (place.home == Home::state)
        whole(id) = dense_view(p_.state_base[place.index], 0, g_[id].spec.dtype, g_[id].spec.shape);
      if (place.home == Home::output)
        whole(id) = dense_view(p_.output_base[place.index], 0, g_[id].spec.dtype, g_[id].spec.shape);
      if (place.home != Home::arena) continue;
      values.push_back({bytes_of(g_[id].spec), place.phase, std::max(place.phase, last[id])});
      nodes.push_back(id);
    }
    const plan::MemoryUse use = plan::assign_offsets(values);
    p_.arena_bytes = use.bytes;
    p_.arena_lower_bound = use.lower_bound;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      whole(nodes[i]) = dense_view(kArena, static_cast<std::int64_t>(values[i].offset), g_[nodes[i]].spec.dtype,
                                   g_[nodes[i]].spec.shape);
  }

  /// The last phase in which each lane computes a node for itself, by node; -1 for none.
  std::vector<int> last_shared() const {
    std::vector<int> last(static_cast<std::size_t>(g_.size()), -1);
    for (std::size_t p = 0; p < s_.phases.size(); ++p)
      for (int id : s_.phases[p].shared) last[id] = static_cast<int>(p);
    return last;
  }

  void extend(int id, int phase, std::vector<int>& last) {
    last[id] = std::max(last[id], phase);
    if (ir::is_view(g_[id].op)) extend(g_[id].inputs[0], phase, last);
  }

  void place_partials() {
    for (int id = 0; id < g_.size(); ++id) {
      const auto& place = s_.place[id];
      if (place.phase < 0 || !place.cut.is_total()) continue;
      View& partial = h_.partial[id];
      if (place.into >= 0) continue;
      const Spec& spec = g_[id].spec;
      partial = dense_view(kPartial, static_cast<std::int64_t>(p_.partial_bytes), spec.dtype, spec.shape);
      p_.partial_bytes += rounded(bytes_of(spec));
    }
    for (int id = 0; id < g_.size(); ++id) {
      int into = id;
      while (s_.place[into].into >= 0) into = s_.place[into].into;
      if (into != id) h_.partial[id] = h_.partial[into];
    }
    h_.lane_bytes = static_cast<std::int64_t>(p_.partial_bytes);
  }

  void place_shared() {
    for (const plan::Phase& phase : s_.phases) {
      std::unordered_map<int, View> views;
      std::size_t bytes = 0;
      for (int id : phase.shared) {
        if (ir::is_view(g_[id].op)) continue;
        views[id] = dense_view(kScratch, static_cast<std::int64_t>(bytes), g_[id].spec.dtype, g_[id].spec.shape);
        bytes += rounded(bytes_of(g_[id].spec));
      }
      h_.shared.push_back(std::move(views));
      shared_bytes_.push_back(bytes);
    }
  }

  void lower_phase(int index) {
    const plan::Phase& phase = s_.phases[index];
    const std::size_t reserved = shared_bytes_[index];
    p_.scratch_bytes = std::max(p_.scratch_bytes, reserved);
    std::vector<std::vector<Piece>> lanes(static_cast<std::size_t>(s_.lanes));
    if (!h_.shared[index].empty()) {
      const auto pieces = add_codes(index, nullptr, -1, 0, true, reserved);
      for (auto& lane : lanes) lane = pieces;
    }
    for (std::size_t r = 0; r < phase.regions.size(); ++r) {
      const plan::Region& region = phase.regions[r];
      const bool totals =
          std::any_of(region.members.begin(), region.members.end(), [](auto& m) { return m.cut.is_total(); });
      std::map<std::pair<std::int64_t, bool>, std::vector<Piece>> strips;
      for (int l = 0; l < region.lanes(); ++l) {
        const auto begin = region.row_begin[l], end = region.row_begin[static_cast<std::size_t>(l) + 1];
        for (auto row = begin; row < end || (row == begin && totals && begin == end); row += region.strip) {
          const auto rows = std::min(region.strip, end - row);
          const bool first = totals && row == begin;
          const auto [it, fresh] = strips.try_emplace(std::pair(rows, first));
          if (fresh) it->second = add_codes(index, &region, static_cast<int>(r), rows, first, reserved);
          for (const Piece& piece : it->second)
            lanes[region.first_lane + l].push_back(
                {piece.code, row + piece.inner, piece.inner, piece.span, piece.turns});
          if (rows == 0) break;
        }
      }
    }
    p_.pieces.push_back(std::move(lanes));
  }

  /// The pieces of a strip that begins at row 0.
  std::vector<Piece> add_codes(int phase, const plan::Region* region, int region_index, std::int64_t rows, bool first,
                               std::size_t reserved) {
    Emitter emitter;
    const std::vector<Turn> turns = Lowering(s_, h_, kernels_, emitter, phase, region, region_index, rows, first).run();
    const int first_code = static_cast<int>(p_.codes.size());
    for (CallList& list : emitter.finish(reserved, memory_)) p_.codes.push_back({std::move(list), 0, region_index});
    std::vector<Piece> pieces;
    for (const Turn& turn : turns) {
      pieces.push_back({first_code + turn.list, turn.inner, turn.inner, turn.span, turn.turns});
      p_.codes[pieces.back().code].rows = turn.rows;
    }
    return pieces;
  }

  View copied(Emitter& emitter, const View& from, const View& to) {
    kernels_.copy(to, from, emitter);
    return to;
  }

  /// A result as a view of the whole value behind it.
  View committed(int id, Emitter& emitter) {
    if (whole(id).base >= 0) return whole(id);
    const Node& n = g_[id];
    if (!ir::is_view(n.op)) throw Error("internal: result " + std::to_string(id) + " has no whole value");
    View v = committed(n.inputs[0], emitter);
    if (n.op == Op::reshape && !can_reshape(v, n.spec.shape)) v = copied(emitter, v, emitter.scratch(v.dtype, v.shape));
    return view_through(n, v, n.spec.shape);
  }

  /// All sources are read before any state is written: a state may be another's source.
  void lower_commits() {
    Emitter emitter;
    struct Copy {
      View to, from;
      int node;
    };
    std::vector<Copy> later;
    for (const plan::Commit& c : s_.commits) {
      const Spec& spec = g_[c.node].spec;
      const int base = (c.home == Home::state ? p_.state_base : p_.output_base)[c.index];
      emitter.node = c.node;
      View from = committed(c.node, emitter);
      const bool from_state = std::find(p_.state_base.begin(), p_.state_base.end(), from.base) != p_.state_base.end();
      if (from_state) from = copied(emitter, from, emitter.scratch(spec.dtype, spec.shape));
      later.push_back({dense_view(base, 0, spec.dtype, spec.shape), from, c.node});
    }
    for (const auto& [to, from, node] : later) {
      emitter.node = node;
      copied(emitter, from, to);
    }
    p_.commits = std::move(emitter.finish(0, memory_).front());
  }

  View& whole(int id) { return h_.whole[id]; }

  const plan::Schedule& s_;
  const ir::Graph& g_;
  Kernels& kernels_;
  Program p_;
  Emitter::Memory memory_;
  Homes h_;
  std::vector<std::size_t> shared_bytes_;
  std::vector<int> constants_;  // nodes
};

}  // namespace

Program lower(const plan::Schedule& schedule, Kernels& kernels) { return Builder(schedule, kernels).build(); }

}  // namespace wr::lower
