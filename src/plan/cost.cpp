// Costs of regions.
#include "plan/cost.h"

#include <algorithm>
#include <unordered_map>

#include "ir/attributes.h"

namespace wr::plan {
namespace {

using ir::Node;
using ir::Op;

int source_of(const ir::Graph& g, int id) {
  while (ir::is_view(g[id].op)) id = g[id].inputs[0];
  return id;
}

}  // namespace

double inner_bytes(const ir::Graph& g, int id, Cut cut) {
  double bytes = static_cast<double>(size_of(g[id].spec.dtype));
  if (!cut.is_along()) return bytes;
  const Shape& shape = g[id].spec.shape;
  for (int i = cut.axis() + 1; i < shape.rank(); ++i) bytes *= static_cast<double>(shape[i]);
  return bytes;
}

double resident_bytes(const Schedule& s) {
  const ir::Graph& g = *s.graph;
  double bytes = 0;
  for (int id = 0; id < g.size(); ++id) {
    const Placement& p = s.place[id];
    const bool kept = p.home == Home::arena && p.phase >= 0;
    if (kept || p.home == Home::output || g[id].op == Op::state || g[id].op == Op::input) bytes += bytes_of(g, id);
  }
  return bytes / s.lanes;
}

RegionCost::RegionCost(const Schedule& s, const Region& region, const Machine& machine, double resident)
    : machine_(machine),
      lanes_(static_cast<double>(std::min<std::int64_t>(s.lanes, machine.cores))),
      resident_(resident),
      extent_(static_cast<double>(region.extent)) {
  for (const Member& m : region.members)
    if (!ir::is_view((*s.graph)[m.node].op)) add(s, region, m);
  // Long regions of gates, rows of whole pictures and sweeps use memory again and again; for others all they make is
  // near enough what they need.
  const bool large_rows = made_row_ > 0.1 * static_cast<double>(machine.l2);
  if (in_place_ == calls_) return;  // nothing stands in the strips
  live_row_ = (most_rows_ > 0 || large_rows || only_sweeps() ? live_bytes(s, region) : made_row_) + body_row_;
}

void RegionCost::add(const Schedule& s, const Region& region, const Member& m) {
  const ir::Graph& g = *s.graph;
  const Node& n = g[m.node];
  const auto extent = static_cast<double>(region.extent);
  const double bytes = bytes_of(g, m.node);
  const Placement& place = s.place[m.node];
  calls_ += n.op == Op::result ? 0 : 1;
  in_place_ += n.op != Op::result && ir::definition(n.op).traits.in_place ? 1 : 0;
  if (m.cut.is_total()) {
    add_weight(g, m.node, 2);                                // read and written
    ends_ns_ += machine_.call_ns + bytes / machine_.gbs_l1;  // somebody sums the lanes' parts
  } else {
    made_row_ += bytes / extent;
    if (place.whole) add_far(g, m.node, m.cut, extent);
  }
  const ir::Traits& traits = ir::definition(n.op).traits;
  const bool product = traits.arithmetic;
  if (n.attrs.body) {
    add_body(g, m.node, extent);
  } else if (product) {
    rows_together_ = std::max(rows_together_, traits.rows_together);
    most_rows_ = std::max(most_rows_, traits.most_rows);
    wide_ = n.spec.dtype == DType::f64 ? machine_.gflops_f32 / machine_.gflops_f64 : 1;
    flops_row_ += wide_ * flops(g, m.node) / extent;
  } else {
    if (!m.cut.is_total()) sweep_row_ += bytes / extent;
    const double elements = static_cast<double>(n.spec.shape.count());
    if (traits.heavy) heavy_ns_row_ += machine_.exp_ns * elements / extent;
  }
  if (n.op == Op::result) return;  // its maker has read the operands
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const int in = n.inputs[k], source = source_of(g, in);
    const std::optional<Cut> cut = cut_of_operand(g, m.node, static_cast<int>(k), m.cut);
    if (!cut) {
      if (product) add_weight(g, source, 1);
      if (n.attrs.body) again_bytes_ += bytes_of(g, in) * static_cast<double>(ir::ScanForm::of(n.attrs).steps - 1);
      continue;
    }
    if (!product) sweep_row_ += bytes_of(g, in) / extent;
    const Placement& from = s.place[source];
    const bool here = from.phase == place.phase && from.region == place.region;
    if (!here) add_far(g, in, *cut, extent);
  }
}

/// A body's work is done at every moment; what it makes is needed until the moment's end, and made again.
void RegionCost::add_body(const ir::Graph& g, int id, double extent) {
  const ir::Graph& body = *g[id].attrs.body;
  const auto steps = static_cast<double>(ir::ScanForm::of(g[id].attrs).steps);
  double made = 0;
  for (int inside = 0; inside < body.size(); ++inside) {
    const Node& n = body[inside];
    if (ir::is_leaf(n.op) || ir::is_view(n.op) || n.op == Op::result) continue;
    const ir::Traits& traits = ir::definition(n.op).traits;
    calls_ += steps;
    made += bytes_of(body, inside);
    if (traits.arithmetic) {
      rows_together_ = std::max(rows_together_, traits.rows_together);
      most_rows_ = std::max(most_rows_, traits.most_rows);
      wide_ = n.spec.dtype == DType::f64 ? machine_.gflops_f32 / machine_.gflops_f64 : 1;
      flops_row_ += steps * wide_ * flops(body, inside) / extent;
      continue;
    }
    double bytes = bytes_of(body, inside);
    for (int in : n.inputs) bytes += bytes_of(body, in);
    sweep_row_ += steps * bytes / extent;
    if (traits.heavy) heavy_ns_row_ += steps * machine_.exp_ns * static_cast<double>(n.spec.shape.count()) / extent;
  }
  body_row_ += made / extent;
}

void RegionCost::add_far(const ir::Graph& g, int id, Cut cut, double extent) {
  std::vector<Cut>& known = known_far_[id];
  if (std::find(known.begin(), known.end(), cut) != known.end()) return;
  known.push_back(cut);
  far_.push_back({bytes_of(g, id) / extent, cut == Cut::along(0) ? -1 : inner_bytes(g, id, cut)});
}

void RegionCost::add_weight(const ir::Graph& g, int id, double times) {
  again_bytes_ += times * bytes_of(g, id);
  if (!known_weights_.insert(id).second) return;
  weight_bytes_ += bytes_of(g, id);
  weights_ += static_cast<double>(g[id].spec.shape.count());
}

/// The most bytes a row that the region's members have made and still need.
double RegionCost::live_bytes(const Schedule& s, const Region& region) const {
  const ir::Graph& g = *s.graph;
  std::unordered_map<int, std::size_t> last;  // member that reads a node last
  for (std::size_t i = 0; i < region.members.size(); ++i)
    for (int in : g[region.members[i].node].inputs) last[source_of(g, in)] = i;
  double now = 0, most = 0;
  std::vector<double> freed(region.members.size() + 1, 0);
  for (std::size_t i = 0; i < region.members.size(); ++i) {
    const Member& m = region.members[i];
    if (!ir::is_view(g[m.node].op) && !m.cut.is_total()) {
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

double RegionCost::ns(double rows, double strip) const {
  const Machine& m = machine_;
  const double strips = rows / strip;
  const double live = strip * live_row_;
  double ns = ends_ns_ + heavy_ns_row_ * rows + m.call_ns * calls_ * strips;
  if (only_sweeps()) {
    ns += rows * sweep_row_ * m.ns_byte(live, lanes_);
  } else {
    // Sweeps among products go through a strip in blocks that stay in L1; what they make, products read again.
    ns += rows * (sweep_row_ / m.gbs_l1 + made_row_ * m.ns_byte(live + weight_bytes_, lanes_));
    // Few rows: the register tiles of a product are not filled. A row of a convolution is many of them, one a place.
    const double rows_a_row = std::max(1.0, flops_row_ / std::max(1.0, 2 * weights_));
    ns += rows * flops_row_ / m.gflops_f32 * (1 + m.product_ramp / (strip * rows_a_row));
  }
  ns += strips * again_bytes_ * m.ns_byte(live + weight_bytes_, lanes_);
  for (const Far& f : far_) {
    const bool together = f.inner_bytes < 0 || strip >= extent_;  // all rows in one strip: nothing is left out between
    const double run = together ? strip * f.row_bytes : strip * f.inner_bytes;
    ns += rows * f.row_bytes * m.ns_byte(resident_, lanes_) * (together ? 1 : strided(m, run));
    if (!together) ns += 0.25 * m.call_ns * rows * f.row_bytes / run;
  }
  return ns;
}

}  // namespace wr::plan
