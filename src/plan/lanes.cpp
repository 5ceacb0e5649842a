// Lanes and strips: how rows are shared out, how many make a strip, and what it all costs.
#include <algorithm>
#include <limits>

#include "plan/cost.h"
#include "plan/form.h"

namespace wr::plan {
namespace {

using ir::Node;
using ir::Op;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The largest number of rows a lane has of a region.
std::int64_t most_rows(const Region& region) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < region.row_begin.size(); ++i)
    rows = std::max(rows, region.row_begin[i + 1] - region.row_begin[i]);
  return rows;
}

/// Numbers of rows worth trying, from one up: as equal strips of at most that many.
std::int64_t next_strip(std::int64_t strip) { return std::max(strip + 1, strip * 6 / 5); }

void choose_strip(Region& region, const RegionCost& cost) {
  struct Choice {
    std::int64_t strip;
    double ns;
  };
  constexpr double kNearly = 1.01;
  const std::int64_t rows = most_rows(region);
  std::vector<Choice> choices;
  for (std::int64_t wanted = 1; wanted <= rows;
       wanted = wanted == rows ? rows + 1 : std::min(rows, next_strip(wanted))) {
    std::int64_t strip = divide_up(rows, divide_up(rows, wanted));
    // Many small rows: strips begin on a cache line, or every vector would be in two.
    if (region.flat || (cost.only_sweeps() && strip > 64)) strip = std::min(rows, divide_up(strip, 64) * 64);
    strip = std::min(rows, divide_up(strip, cost.rows_together()) * cost.rows_together());
    if (cost.most_rows() > 0) strip = std::min<std::int64_t>(strip, cost.most_rows());
    if (!choices.empty() && choices.back().strip == strip) continue;
    choices.push_back({strip, cost.ns(static_cast<double>(rows), static_cast<double>(strip))});
  }
  const double best =
      std::min_element(choices.begin(), choices.end(), [](auto& a, auto& b) { return a.ns < b.ns; })->ns;
  // Of what is nearly equal, the longest strip that stays in the second-level cache; if none does, the shortest. What a
  // single op makes is not read in its strip, and its kernel has blocks of its own: the longest.
  region.strip = 0;
  for (const Choice& c : choices)
    if (c.ns <= kNearly * best &&
        (region.strip == 0 || cost.single_op() || cost.stays_in_l2(static_cast<double>(c.strip))))
      region.strip = c.strip;
}

/// Is a value cut so finely between lanes that the caches fetch each other's lines? Rows that lie together are not.
bool interleaved(const ir::Graph& g, int id, Cut cut, int lanes) {
  if (!cut.is_along() || cut.axis() == 0) return false;
  const Shape& shape = g[id].spec.shape;
  double run = static_cast<double>(size_of(g[id].spec.dtype)) / lanes;
  for (int i = cut.axis(); i < shape.rank(); ++i) run *= static_cast<double>(shape[i]);
  return run < 4096;
}

/// The caller's thread copies what could not be written where it belongs.
double commit_ns(const Schedule& s, const Machine& m, double resident) {
  double bytes = 0;
  for (const Commit& c : s.commits) bytes += bytes_of(*s.graph, c.node);
  return 2 * bytes * m.ns_byte(resident * s.lanes);
}

/// Time lost to bytes that one core wrote and another reads, all lanes at once.
double crossing_ns(const Schedule& s, const Machine& machine) {
  const ir::Graph& g = *s.graph;
  const double remote = (s.lanes - 1) / (s.lanes * machine.gbs_cross), contended = 1.8 / machine.gbs_cross;
  std::vector<bool> updated(static_cast<std::size_t>(g.size()), false);
  for (auto u : g.updates) updated[u.state] = true;
  double ns = 0;
  for (const Phase& phase : s.phases)
    for (const Region& r : phase.regions) {
      if (r.lanes() < 2) continue;
      std::vector<int> read_whole;
      for (const Member& m : r.members) {
        if (m.cut.is_total() && s.place[m.node].into < 0) ns += 2 * remote * bytes_of(g, m.node);
        if (s.place[m.node].whole && interleaved(g, m.node, m.cut, r.lanes())) ns += contended * bytes_of(g, m.node);
        for (std::size_t k = 0; k < g[m.node].inputs.size(); ++k) {
          int in = g[m.node].inputs[k];
          const std::optional<Cut> cut = cut_of_operand(g, m.node, static_cast<int>(k), m.cut);
          const auto& place = s.place[in];
          const bool kept = place.home == Home::leaf ? updated[in] : place.whole;
          if (kept && cut && interleaved(g, in, *cut, r.lanes())) ns += contended * bytes_of(g, in);
          if (!cut) {
            while (ir::is_view(g[in].op)) in = g[in].inputs[0];
            read_whole.push_back(in);
          }
        }
      }
      std::sort(read_whole.begin(), read_whole.end());
      read_whole.erase(std::unique(read_whole.begin(), read_whole.end()), read_whole.end());
      for (int in : read_whole)
        if (updated[in] || s.place[in].home != Home::leaf) ns += remote * bytes_of(g, in);
    }
  return ns;
}

}  // namespace

// A region not worth some barriers' wait goes whole to the lane that has least to do.
void share_out(Schedule& s, const Options& o) {
  const Machine& machine = o.machine;
  const double resident = resident_bytes(s);
  for (Phase& phase : s.phases) {
    std::vector<double> load(static_cast<std::size_t>(s.lanes), 0);
    std::vector<std::size_t> order(phase.regions.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return phase.regions[a].work_ns > phase.regions[b].work_ns; });
    for (auto i : order) {
      Region& r = phase.regions[i];
      const bool split = s.lanes > 1 && r.extent > 1 && r.work_ns > 5 * machine.barrier_ns;
      if (split) {
        const auto parts = std::min<std::int64_t>(s.lanes, r.extent);
        // Flat parts begin on a cache line of any element type, so that lanes do not write to one line.
        const std::int64_t unit =
            r.flat || r.extent >= 4096 ? std::min<std::int64_t>(64, divide_up(r.extent, parts)) : 1;
        r.first_lane = 0;
        for (std::int64_t p = 0; p <= parts; ++p)
          r.row_begin.push_back(p == parts ? r.extent : divide_up(r.extent * p / parts, unit) * unit);
      } else {
        const auto least = std::min_element(load.begin(), load.end()) - load.begin();
        r.first_lane = static_cast<int>(least);
        r.row_begin = {0, r.extent};
      }
      const RegionCost cost(s, r, machine, resident);
      choose_strip(r, cost);
      for (int p = 0; p < r.lanes(); ++p) {
        const auto rows = r.row_begin[static_cast<std::size_t>(p) + 1] - r.row_begin[p];
        load[r.first_lane + p] += cost.ns(static_cast<double>(rows), static_cast<double>(std::min(rows, r.strip)));
      }
    }
    s.estimate_ns += *std::max_element(load.begin(), load.end());
  }
  const double barriers = machine.barrier_ns * static_cast<double>(s.phases.size());
  s.estimate_ns += commit_ns(s, machine, resident);
  s.estimate_ns += s.lanes > 1 ? barriers + crossing_ns(s, machine) : 0.1 * barriers;
}

}  // namespace wr::plan
