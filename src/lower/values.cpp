// Views of a node's operands and results.
#include "lower/lowering.h"

namespace wr::lower {

using ir::Node;
using ir::Op;
using plan::Cut;
using plan::Home;

bool Lowering::in_this_region(int id) const {
  const auto& p = schedule_.place[id];
  return region_ && p.phase == phase_ && p.region == region_index_ && p.home != Home::view && p.home != Home::leaf;
}

Shape Lowering::strip_shape(const Shape& shape, Cut cut) const {
  if (cut.is_flat()) return {rows_};
  Shape s = shape;
  if (cut.is_along()) s[cut.axis()] = rows_;
  return s;
}

View Lowering::operand(int id, int k, Cut cut) {
  const int in = graph_[id].inputs[k];
  const auto rows = region_ ? plan::cut_of_operand(graph_, id, k, cut) : std::nullopt;
  return rows ? strip(in, *rows) : whole(in);
}

View Lowering::whole(int id) {
  const auto& shared = homes_.shared[phase_];
  if (auto it = shared.find(id); it != shared.end()) return it->second;
  const Node& n = graph_[id];
  if (in_this_region(id) && schedule_.place[id].cut.is_once())
    if (auto it = local_.find(id); it != local_.end()) return it->second;
  if (const View& v = homes_.whole[id]; v.base >= 0) return v;
  if (ir::is_view(n.op)) return through(n, whole(n.inputs[0]), {});
  throw Error("internal: node " + std::to_string(id) + " (" + std::string(ir::definition(n.op).name) +
              ") has no whole value");
}

View Lowering::strip(int id, Cut cut) {
  // A member of this region may also be read along another axis of the same size: then its strip is not the one wanted.
  if (in_this_region(id) && schedule_.place[id].cut == cut) {
    if (auto it = local_.find(id); it != local_.end()) return it->second;
    if (auto it = outer_.find(id); it != outer_.end()) return local_[id] = block_of(it->second, cut);
    if (auto it = given_.results.find(id); it != given_.results.end())
      return in_block_ ? block_of(it->second.view, cut) : it->second.view;
    const Node& n = graph_[id];
    if (ir::is_view(n.op)) {
      return local_[id] = through(n, operand(id, 0, cut), cut);
    }
  }
  return rows_of(whole(id), cut);
}

/// The strip's rows of a whole value.
View Lowering::rows_of(View v, Cut cut) {
  if (cut.is_flat()) {
    v = dense(v);
    v.shape = {rows_};
    v.strides = {1};
    v.advance = v.elem();
    return v;
  }
  v.shape[cut.axis()] = rows_;
  v.advance = v.strides[cut.axis()] * v.elem();
  return v;
}

View Lowering::through(const Node& n, const View& v, std::optional<Cut> cut) {
  if (cut && cut->is_flat()) return v;  // rows are elements: only reshape is cut like that
  const Shape shape = cut ? strip_shape(n.spec.shape, *cut) : n.spec.shape;
  if (n.op == Op::reshape && !can_reshape(v, shape)) return view_through(n, dense(v), shape);
  return view_through(n, v, shape);
}

View Lowering::destination(int id, Cut cut) {
  const Node& n = graph_[id];
  if (!region_) return homes_.shared[phase_].at(id);
  if (auto it = given_.results.find(id); it != given_.results.end())
    return in_block_ && !cut.is_total() ? block_of(it->second.view, cut) : it->second.view;
  if (cut.is_total()) return homes_.partial[id];
  if (const View& v = homes_.whole[id]; v.base >= 0) return cut.is_once() ? v : rows_of(v, cut);
  const Shape shape = strip_shape(n.spec.shape, cut);
  return in_block_ && outlasts_block(id) ? lasting_destination(id, cut) : emit_.scratch(n.spec.dtype, shape);
}

Destination Lowering::further_destination(int id, int number, Cut cut) {
  if (const auto found = homes_.further.find(id); found != homes_.further.end())
    for (int result : found->second)
      if (graph_[result].attrs.ints[0] == number && schedule_.place[result].phase >= 0) {
        const Cut own = schedule_.place[result].cut;
        local_[result] = destination(result, own);
        return {local_[result], accumulates(result, own)};
      }
  // Nobody needs it, but the kernel writes it.
  const Spec spec = ir::spec_of_result(graph_, id, number);
  return {emit_.scratch(spec.dtype, strip_shape(spec.shape, *plan::cut_of_result(graph_, id, number, cut)))};
}

View Lowering::dense(View v) {
  if (v.dense()) return v;
  const View d = emit_.scratch(v.dtype, v.shape);
  kernels_.copy(d, v, emit_);
  return d;
}

std::vector<Turn> Lowering::run() {
  if (region_) return lower_region();
  const int list = emit_.begin_list();
  for (int id : schedule_.phases[phase_].shared) {
    emit_.node = id;
    if (!ir::is_view(graph_[id].op)) lower(id, Cut::once());
  }
  return {{list}};
}

void Lowering::lower(int id, Cut cut) {
  const Node& n = graph_[id];
  if (n.op == Op::lane_sum) return lower_lane_sum(id, cut);
  Work work{graph_, id, cut, {}, {}};
  for (std::size_t k = 0; k < n.inputs.size(); ++k) work.in.push_back(operand(id, static_cast<int>(k), cut));
  if (const auto it = given_.turned.find(id); it != given_.turned.end()) work.in[1] = it->second;
  local_[id] = destination(id, cut);
  work.out.push_back({local_[id], accumulates(id, cut)});
  if (const ir::FurtherResults* further = ir::definition(n.op).further)
    for (int number = 1; number <= further->of(n.attrs); ++number)
      work.out.push_back(further_destination(id, number, cut));
  kernels_.make(work, emit_);
}

bool Lowering::accumulates(int id, Cut cut) const {
  if (const auto it = given_.results.find(id); it != given_.results.end() && it->second.accumulate) return true;
  return cut.is_total() && adds_to_total(id);
}

/// The parts that the lanes of the total's region have made.
void Lowering::lower_lane_sum(int id, Cut cut) {
  const int total = graph_[id].inputs[0];
  const auto& place = schedule_.place[total];
  const plan::Region& from = schedule_.phases[place.phase].regions[place.region];
  local_[id] = destination(id, cut);
  View parts = homes_.partial[total];
  parts.base = kPartials;
  if (!cut.is_once()) parts = rows_of(parts, cut);
  parts.offset += from.first_lane * homes_.lane_bytes;
  kernels_.make({graph_, id, cut, {{local_[id]}}, {parts}, from.lanes(), homes_.lane_bytes}, emit_);
}

}  // namespace wr::lower
