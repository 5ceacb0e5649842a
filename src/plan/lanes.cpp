// Lanes and strips: how rows are shared out, how many make a strip, and what it all costs.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "plan/form.h"

namespace wr::plan {
namespace {

using ir::Node;
using ir::Op;

struct Traffic {
  double row_bytes = 0;        // values made in the strips, a row
  double live_bytes = 0;       // the most of them that are needed at once
  double weight_bytes = 0;     // whole operands read again by every strip, and totals
  double weights = 0;          // their elements
  double flops_row = 0;        // of matrix products and gates
  double calls = 0;            // kernels a strip
  bool along_vectors = false;  // rows are what vectors run over: strips of whole vectors
};

bool is_gates(Op op) { return op == Op::gates || op == Op::gates_grad_x || op == Op::gates_grad_coefficients; }

/// The most bytes a row that the region's members have made and still need.
double live_bytes(const Schedule& s, const Region& region) {
  const ir::Graph& g = *s.graph;
  std::unordered_map<int, std::size_t> last;  // member that reads a node last
  for (std::size_t i = 0; i < region.members.size(); ++i) {
    const Node& n = g[region.members[i].node];
    for (int in : n.inputs) {
      while (ir::is_view(g[in].op)) in = g[in].inputs[0];
      last[in] = i;
    }
  }
  double now = 0, most = 0;
  std::vector<double> freed(region.members.size() + 1, 0);
  for (std::size_t i = 0; i < region.members.size(); ++i) {
    const Member& m = region.members[i];
    if (!ir::is_view(g[m.node].op) && !is_total(m.axis)) {
      const double bytes = bytes_of(g, m.node) / static_cast<double>(region.extent);
      now += bytes;
      const auto found = last.find(m.node);
      freed[found == last.end() ? i : found->second] += bytes;
    }
    most = std::max(most, now);
    now -= freed[i];
  }
  return most;
}

Traffic traffic_of(const Schedule& s, const Region& region, const Options& o) {
  Traffic t;
  const ir::Graph& g = *s.graph;
  std::vector<int> weights;
  for (const Member& m : region.members) {
    const Node& n = g[m.node];
    if (ir::is_view(n.op)) continue;
    t.calls += 1;
    const double bytes = bytes_of(g, m.node);
    if (is_total(m.axis)) {
      t.weight_bytes += bytes;
      t.weights += static_cast<double>(n.spec.shape.count());
    } else {
      t.row_bytes += bytes / static_cast<double>(region.extent);
    }
    if (n.op != Op::einsum && !is_gates(n.op)) continue;
    t.along_vectors |= is_gates(n.op);
    t.flops_row += flops(g, m.node) / static_cast<double>(region.extent);
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (aligned_axis(g, m.node, static_cast<int>(k), m.axis) == kNotAligned) weights.push_back(n.inputs[k]);
  }
  std::sort(weights.begin(), weights.end());
  weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
  // Long regions of gates and rows of whole pictures use memory again and again; for others all they make is near
  // enough what they need.
  const bool large_rows = t.row_bytes > 0.1 * static_cast<double>(o.machine.l2);
  t.live_bytes = t.along_vectors || large_rows ? live_bytes(s, region) : t.row_bytes;
  for (int w : weights) {
    t.weight_bytes += bytes_of(g, w);
    t.weights += static_cast<double>(g[w].spec.shape.count());
  }
  return t;
}

/// Nanoseconds a row costs beyond its arithmetic when strips have this many rows.
double strip_cost(const Traffic& t, double rows, const Options& o) {
  const Machine& m = o.machine;
  const double l1 = static_cast<double>(m.l1d), l2 = static_cast<double>(m.l2);
  const double strip = rows * t.live_bytes;
  const double full = (strip + t.weight_bytes) / (0.7 * l2);  // of the second-level cache
  const auto beyond = [&](double least, double most) {
    return std::min(most, least + (most - least) / 2 * std::max(0.0, full - 1));
  };
  const double ns_byte = strip < 0.6 * l1 ? 0.005 : beyond(0.012, 0.05);
  const double weight_ns_byte = beyond(0.010, 0.04);
  // Few rows: the register tiles of a product are not filled. A row of a convolution is many of them, one a place.
  const double rows_a_row = std::max(1.0, t.flops_row / std::max(1.0, 2 * t.weights));
  const double gemm_ramp = 1 + 2 / (rows * rows_a_row);
  return t.row_bytes * ns_byte + t.weight_bytes * weight_ns_byte / rows + gemm_ramp * t.flops_row / 150 +
         15 * t.calls / rows;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void choose_strip(const Schedule& s, Region& region, const Options& o) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < region.row_begin.size(); ++i)
    rows = std::max(rows, region.row_begin[i + 1] - region.row_begin[i]);
  const Traffic t = traffic_of(s, region, o);
  if (region.flat || t.flops_row == 0 || t.row_bytes <= 64) {
    // Nothing but sweeps: strips whose values stay in the first-level cache.
    const auto fit = static_cast<std::int64_t>(0.5 * static_cast<double>(o.machine.l1d) / std::max(t.row_bytes, 1.0));
    region.strip = std::clamp<std::int64_t>(fit, 1, rows);
    if (region.strip > 64) region.strip = region.strip / 64 * 64;
    region.strip = std::min(rows, divide_up(rows, divide_up(rows, region.strip)));
    // Many small rows: strips begin on a cache line, or every vector would be in two.
    if (region.flat || region.strip > 64) region.strip = std::min(rows, divide_up(region.strip, 16) * 16);
    return;
  }
  double best = std::numeric_limits<double>::max();
  for (std::int64_t strips = 1; strips <= rows; strips = strips < 8 ? strips + 1 : strips * 5 / 4) {
    auto strip = divide_up(rows, strips);
    // Kernels of gates hold up to four vectors of 16 cells in registers.
    if (t.along_vectors) strip = std::min({rows, divide_up(strip, 16) * 16, std::int64_t{64}});
    const double cost = strip_cost(t, static_cast<double>(strip), o);
    if (cost < best * 0.999) {
      best = cost;
      region.strip = strip;
    }
  }
}

/// Is a value cut so finely between lanes that the caches fetch each other's lines? Rows that lie together are not.
bool interleaved(const ir::Graph& g, int id, int axis, int lanes) {
  if (axis <= 0) return false;
  const Shape& shape = g[id].spec.shape;
  double run = static_cast<double>(size_of(g[id].spec.dtype)) / lanes;
  for (int i = axis; i < shape.rank(); ++i) run *= static_cast<double>(shape[i]);
  return run < 4096;
}

/// Time to write and read again what outlives its strip.
double kept_ns(const Schedule& s, const Options& o) {
  double bytes = 0;
  for (std::size_t i = 0; i < s.place.size(); ++i)
    if (s.place[i].home == Home::arena && s.place[i].phase >= 0) bytes += bytes_of(*s.graph, static_cast<int>(i));
  return bytes / s.lanes * (bytes / s.lanes < 0.5 * static_cast<double>(o.machine.l2) ? 0.01 : 0.05);
}

/// Time lost to bytes that one core wrote and another reads (measured: 10-20 GB/s), all lanes at once.
double crossing_ns(const Schedule& s) {
  const ir::Graph& g = *s.graph;
  const double remote = 0.067 * (s.lanes - 1) / s.lanes, contended = 0.12;
  std::vector<bool> updated(static_cast<std::size_t>(g.size()), false);
  for (auto u : g.updates) updated[static_cast<std::size_t>(u.state)] = true;
  double ns = 0;
  for (const Phase& phase : s.phases)
    for (const Region& r : phase.regions) {
      if (r.lanes() < 2) continue;
      std::vector<int> read_whole;
      for (const Member& m : r.members) {
        if (is_total(m.axis) && s.place[static_cast<std::size_t>(m.node)].into < 0)
          ns += 2 * remote * bytes_of(g, m.node);
        if (s.place[static_cast<std::size_t>(m.node)].whole && interleaved(g, m.node, m.axis, r.lanes()))
          ns += contended * bytes_of(g, m.node);
        for (std::size_t k = 0; k < g[m.node].inputs.size(); ++k) {
          int in = g[m.node].inputs[k];
          const int axis = aligned_axis(g, m.node, static_cast<int>(k), m.axis);
          const auto& place = s.place[static_cast<std::size_t>(in)];
          const bool kept = place.home == Home::leaf ? updated[static_cast<std::size_t>(in)] : place.whole;
          if (kept && axis != kNotAligned && interleaved(g, in, axis, r.lanes())) ns += contended * bytes_of(g, in);
          if (axis == kNotAligned) {
            while (ir::is_view(g[in].op)) in = g[in].inputs[0];
            read_whole.push_back(in);
          }
        }
      }
      std::sort(read_whole.begin(), read_whole.end());
      read_whole.erase(std::unique(read_whole.begin(), read_whole.end()), read_whole.end());
      for (int in : read_whole)
        if (updated[static_cast<std::size_t>(in)] || s.place[static_cast<std::size_t>(in)].home != Home::leaf)
          ns += remote * bytes_of(g, in);
    }
  return ns;
}

}  // namespace

// A region not worth a barrier's wait goes whole to the lane that has least to do.
void share_out(Schedule& s, const Options& o) {
  for (Phase& phase : s.phases) {
    std::vector<double> load(static_cast<std::size_t>(s.lanes), 0);
    std::vector<std::size_t> order(phase.regions.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return phase.regions[a].work_ns > phase.regions[b].work_ns; });
    for (auto i : order) {
      Region& r = phase.regions[i];
      const bool split = s.lanes > 1 && r.extent > 1 && r.work_ns > 1500;
      if (split) {
        const auto parts = std::min<std::int64_t>(s.lanes, r.extent);
        // Flat parts begin on a cache line of any element type, so that lanes do not write to one line.
        const std::int64_t unit =
            r.flat || r.extent >= 4096 ? std::min<std::int64_t>(64, divide_up(r.extent, parts)) : 1;
        r.first_lane = 0;
        for (std::int64_t p = 0; p <= parts; ++p)
          r.row_begin.push_back(p == parts ? r.extent : divide_up(r.extent * p / parts, unit) * unit);
        for (std::int64_t p = 0; p < parts; ++p)
          load[static_cast<std::size_t>(p)] += r.work_ns / static_cast<double>(parts);
      } else {
        const auto least = std::min_element(load.begin(), load.end()) - load.begin();
        r.first_lane = static_cast<int>(least);
        r.row_begin = {0, r.extent};
        load[static_cast<std::size_t>(least)] += r.work_ns;
      }
      choose_strip(s, r, o);
    }
    s.estimate_ns += *std::max_element(load.begin(), load.end());
  }
  const double phases = static_cast<double>(s.phases.size());
  s.estimate_ns += kept_ns(s, o) + (s.lanes > 1 ? o.machine.barrier_ns * phases + crossing_ns(s) : 0.1 * o.machine.barrier_ns * phases);
}

}  // namespace wr::plan
