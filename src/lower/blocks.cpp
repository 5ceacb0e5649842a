// Blocks of a strip. A strip is as long as matrix products like it, so its values stand in L2. Cheap ops that follow
// one another would wait for L2 at each step; they go through the strip in blocks of few rows, whose values stay in L1.
#include <algorithm>

#include "lower/lowering.h"

namespace wr::lower {

using ir::Op;
using plan::Cut;

namespace {

/// A view is a way to address what is there, a further result is made by the call for the first.
bool makes_no_call(Op op) { return ir::is_view(op) || op == Op::result; }

/// Do a value's rows follow one another in memory?
bool rows_are_together(const Shape& shape, Cut cut) {
  return cut.is_flat() || std::all_of(shape.begin(), shape.begin() + cut.axis(), [](auto size) { return size == 1; });
}

}  // namespace

/// Costs about as much as reading its operands.
bool Lowering::is_light(const plan::Member& m) const {
  const Node& n = graph_[m.node];
  if (m.cut.is_once() || !ir::definition(n.op).traits.sweep) return false;
  if (!m.cut.is_total() && !rows_are_together(n.spec.shape, m.cut)) return false;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const auto cut = plan::cut_of_operand(graph_, m.node, static_cast<int>(k), m.cut);
    if (cut && !rows_are_together(graph_[n.inputs[k]].spec.shape, *cut)) return false;
  }
  return true;
}

std::int64_t Lowering::row_bytes(const plan::Member& m) const {
  const auto bytes = [&](int id, Cut cut) {
    const Spec& spec = graph_[id].spec;
    const auto rows = plan::rows_of(spec.shape, cut);
    return rows > 0 ? spec.shape.count() / rows * static_cast<std::int64_t>(size_of(spec.dtype)) : 0;
  };
  const Node& n = graph_[m.node];
  std::int64_t widest = m.cut.is_total() ? 0 : bytes(m.node, m.cut);
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const auto cut = plan::cut_of_operand(graph_, m.node, static_cast<int>(k), m.cut);
    if (cut) widest = std::max(widest, bytes(n.inputs[k], *cut));
  }
  return widest;
}

/// How many rows to take at a time through light members; all, if that is as good.
std::int64_t Lowering::block_rows(Members begin, Members end) const {
  std::int64_t widest = 1, ops = 0;
  for (auto m = begin; m != end; ++m)
    if (!makes_no_call(graph_[m->node].op)) {
      widest = std::max(widest, row_bytes(*m));
      ++ops;
    }
  const auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>(schedule_.block_bytes) / widest);
  if (ops < 2 || rows_ < 2 * most) return rows_;
  const auto blocks = (rows_ + most - 1) / most;
  return (rows_ + blocks - 1) / blocks;
}

void Lowering::find_last_uses() {
  for (std::size_t i = 0; i < region_->members.size(); ++i) {
    const Node& n = graph_[region_->members[i].node];
    if (makes_no_call(n.op)) continue;
    for (int in : n.inputs) {
      while (ir::is_view(graph_[in].op)) in = graph_[in].inputs[0];
      last_use_[in] = static_cast<int>(i);
    }
  }
  for (int id : given_.copied) {
    while (ir::is_view(graph_[id].op)) id = graph_[id].inputs[0];
    last_use_[id] = static_cast<int>(region_->members.size());
  }
}

bool Lowering::outlasts_block(int id) const {
  const auto it = last_use_.find(id);
  return it != last_use_.end() && it->second >= block_end_;
}

/// A block's rows of a strip.
View Lowering::block_of(View v, Cut cut) const {
  const int at = cut.is_flat() ? 0 : cut.axis();
  v.shape[at] = rows_;
  if (v.advance == 0) v.inner = v.strides[at] * v.elem();
  return v;
}

View Lowering::lasting_destination(int id, Cut cut) {
  auto [it, fresh] = outer_.try_emplace(id);
  if (fresh) {
    Shape shape = strip_shape(graph_[id].spec.shape, cut);
    shape[cut.is_flat() ? 0 : cut.axis()] = strip_rows_;
    it->second = emit_.lasting_scratch(graph_[id].spec.dtype, shape);
  }
  return block_of(it->second, cut);
}

void Lowering::lower_members(Members begin, Members end) {
  for (auto m = begin; m != end; ++m) {
    (given_.scan < 0 ? emit_.node : emit_.inside) = m->node;
    if (!makes_no_call(graph_[m->node].op)) lower(m->node, m->cut);
  }
}

std::vector<Turn> Lowering::lower_in_blocks(Members begin, Members end, std::int64_t block) {
  outer_ = std::move(local_);
  strip_rows_ = rows_;
  block_end_ = static_cast<int>(end - region_->members.begin());
  in_block_ = true;
  const bool first_strip = first_;
  emit_.begin_loop();
  const auto lowered = [&](std::int64_t rows, bool first) {
    local_.clear();
    rows_ = rows;
    first_ = first;
    const int list = emit_.begin_list();
    lower_members(begin, end);
    return list;
  };
  std::vector<Turn> turns;
  const bool totals = std::any_of(begin, end, [](auto& m) { return m.cut.is_total(); });
  int usual = -1;
  for (std::int64_t row = 0; row < strip_rows_; row += block) {
    const bool first = first_strip && totals && row == 0;
    const auto rows = std::min(block, strip_rows_ - row);
    const bool is_usual = rows == block && !first;
    const int list = is_usual && usual >= 0 ? usual : lowered(rows, first);
    if (is_usual) usual = list;
    turns.push_back({list, row, rows});
  }
  emit_.end_loop();
  rows_ = strip_rows_;
  first_ = first_strip;
  in_block_ = false;
  local_ = std::move(outer_);
  outer_.clear();
  return turns;
}

std::vector<Turn> Lowering::lower_region() {
  find_last_uses();
  std::vector<Turn> turns;
  const auto all = region_->members.end();
  bool open = false;  // a list for whole strips
  const auto is_scan = [&](const plan::Member& m) { return graph_[m.node].op == Op::scan; };
  for (auto begin = region_->members.begin(); begin != all;) {
    if (is_scan(*begin)) {
      emit_.node = begin->node;
      const auto loop = lower_scan(begin->node, begin->cut);
      turns.insert(turns.end(), loop.begin(), loop.end());
      open = false;
      ++begin;
      continue;
    }
    const auto light = [&](const plan::Member& m) { return makes_no_call(graph_[m.node].op) || is_light(m); };
    const auto end = std::find_if_not(begin, all, light);
    const auto block = block_rows(begin, end);
    if (end != begin && block < rows_) {
      const auto blocks = lower_in_blocks(begin, end, block);
      turns.insert(turns.end(), blocks.begin(), blocks.end());
      open = false;
      begin = end;
      continue;
    }
    if (!open) turns.push_back({emit_.begin_list(), 0, rows_});
    open = true;
    const auto next =
        end == begin ? std::find_if(begin + 1, all, [&](auto& m) { return light(m) || is_scan(m); }) : end;
    lower_members(begin, next);
    begin = next;
  }
  return turns;
}

}  // namespace wr::lower
