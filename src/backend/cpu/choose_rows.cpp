// Kernel calls of ops on rows.
#include <algorithm>

#include "backend/cpu/choose.h"
#include "backend/cpu/row.h"

namespace wr::cpu {

using ops::RowPart;

namespace {

/// From one row to the next, in elements, where all axes but the last are one after the other and a row's elements lie
/// together; -1 where they do not. Axes that only repeat a row count as one after the other among themselves.
std::int64_t row_stride(const View& v) {
  const int last = v.shape.rank() - 1;
  if (v.shape[last] > 1 && v.strides[last] != 1) return -1;
  std::int64_t stride = -1, next = -1;  // next: what the axis outside must step by
  for (int i = last - 1; i >= 0; --i) {
    if (v.shape[i] == 1) continue;
    if (stride < 0)
      stride = v.strides[i];
    else if (v.strides[i] != next)
      return -1;
    next = v.strides[i] * v.shape[i];
  }
  return stride < 0 ? 0 : stride;
}

}  // namespace

void Chooser::rows() {
  const ops::RowOp op = ops::row_op(node_.op);
  const ops::RowFacts& facts = ops::facts_of(op);
  const Shape& shape = work_.in[0].shape;
  RowParams p;
  p.cols = shape.back();
  p.rows = 1;
  for (int i = 0; i + 1 < shape.rank(); ++i) p.rows *= shape[i];
  p.epsilon = ops::epsilon_of(node_.attrs);
  std::vector<View> operands;
  std::vector<std::pair<View, View>> copies;  // results that a kernel cannot write where they belong
  const auto add = [&](const View& v, RowPart part) {
    const bool by_row = part != RowPart::column && part != RowPart::total;
    p.row_stride[operands.size()] = by_row ? row_stride(v) * v.elem() : 0;
    operands.push_back(v);
  };
  for (std::size_t k = 0; k < work_.out.size(); ++k) {
    const View& to = work_.out[k].view;
    const RowPart part = facts.result(k);
    p.accumulate[k] = work_.out[k].accumulate;
    const bool direct = part == RowPart::total ? to.dense() : row_stride(to) >= 0;
    if (!direct) copies.emplace_back(to, emit_.scratch(to.dtype, to.shape));
    add(direct ? to : copies.back().second, part);
  }
  for (std::size_t k = 0; k < work_.in.size(); ++k) {
    const View& v = work_.in[k];
    const bool direct = facts.part(k) == RowPart::column ? v.dense() : row_stride(v) >= 0;
    add(direct ? v : dense(v), facts.part(k));
  }
  // The first result over the first value, or over g, where it is laid out like that.
  unsigned in_place = 0;
  for (std::size_t k = 0; k < work_.in.size(); ++k) {
    const View &from = operands[work_.out.size() + k], &to = operands[0];
    const bool value = facts.part(k) == RowPart::value && facts.result(0) == RowPart::value;
    if (value && from.dense() && to.dense()) in_place |= 1U << (work_.out.size() + k);
  }
  call(find_row(op, node_.spec.dtype, target()), p, operands, name(), in_place);
  for (const auto& [to, from] : copies) copy(to, from);
}

}  // namespace wr::cpu
