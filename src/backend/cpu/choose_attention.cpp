// Kernel calls of attention: sizes of blocks, and the products of each size that occurs.
#include <algorithm>

#include "backend/cpu/attention.h"
#include "backend/cpu/choose.h"

namespace wr::cpu {

using ir::Op;

namespace {

/// Queries or keys of a block, on the side of which there are few and on the long one, which ends at a whole unit where
/// not all is seen. The scores of a block stay in L1 beside what they are made of.
struct Blocks {
  std::int64_t few, many, unit;
};
/// Of a block on the diagonal half is not seen: smaller ones compute less for nothing, as long as what is read again
/// for each of them stays in L2.
Blocks blocks_of(bool causal, bool backward, std::int64_t bytes_again, Target target, const Machine& machine) {
  if (!causal) return {64, 64, 64};
  if (bytes_again > machine.l2) return {64, 64, 32};
  if (target == Target::avx512) return {32, 128, 32};
  return {16, backward ? 64 : 128, 16};
}
constexpr std::int64_t kLine = 64;  // bytes: whole vectors on every target

HeadStrides strides_of(const View& v) { return {v.strides[0], v.strides[1], v.strides[2]}; }

/// [b, position, head, column] with columns that lie together.
bool has_columns(const View& v) { return v.shape[3] <= 1 || v.strides[3] == 1; }

/// Makes the products of every size of block that can occur; `shape` says what one is for so many on the side of which
/// there are few and on the long one.
template <class ShapeOf>
BlockGemms products(const Blocks& blocks, std::int64_t all_few, std::int64_t all_many, bool causal, Target target,
                    const Machine& machine, std::size_t& scratch, ShapeOf shape) {
  BlockGemms made;
  const std::int64_t few[] = {all_few >= blocks.few ? blocks.few : 0, all_few % blocks.few};
  const std::int64_t rest = all_many % blocks.unit;
  for (int i = 0; i < 2; ++i)
    for (int tail = 0; tail < 2; ++tail)
      for (std::int64_t units = 0; units * blocks.unit < blocks.many; ++units) {
        const std::int64_t many = units * blocks.unit + (tail ? rest : blocks.unit);
        if (few[i] == 0 || many == 0 || many > all_many || (tail && rest == 0)) continue;
        if (!causal && many != blocks.many && many != all_many % blocks.many) continue;
        Gemm& gemm = made.of[i][tail][units];
        gemm = make_gemm(shape(few[i], many), target, machine);
        scratch = std::max(scratch, gemm.scratch_bytes);
      }
  return made;
}

}  // namespace

void Chooser::attention() {
  const bool backward = node_.op == Op::attention_grad;
  std::vector<View> in = work_.in, results;
  const std::size_t mask = backward ? 6 : 3;
  for (std::size_t k = 0; k < in.size(); ++k)
    if (k == mask ? in[k].shape[3] > 1 && in[k].strides[3] != 1 : !has_columns(in[k])) in[k] = dense(in[k]);
  for (const lower::Destination& to : work_.out)
    results.push_back(has_columns(to.view) ? to.view : emit_.scratch(to.view.dtype, to.view.shape));
  const View &q = in[0], &k = in[1], &v = in[2];
  const DType type = q.dtype;
  AttentionParams p;
  p.batch = q.shape[0];
  p.queries = q.shape[1];
  p.keys = k.shape[1];
  p.heads = q.shape[2];
  p.width = q.shape[3];
  if (results[0].count() == 0 && (!backward || results[1].count() == 0)) return;
  p.scale = node_.attrs.reals[0];
  p.causal = node_.attrs.ints[0] != 0;
  const std::int64_t few = backward ? p.keys : p.queries, many = backward ? p.queries : p.keys;
  const std::int64_t again = backward ? 5 : 2;  // q, g, both transposed and dq, or k and v
  const auto element = static_cast<std::int64_t>(size_of(type));
  const Blocks blocks = blocks_of(p.causal, backward, again * many * p.width * element, target(), kernels_.machine());
  p.query_block = backward ? blocks.many : blocks.few;
  p.key_block = backward ? blocks.few : blocks.many;
  p.unit = blocks.unit;
  const std::int64_t line = kLine / element;
  p.query_line = (std::min(p.query_block, p.queries) + line - 1) / line * line;
  p.first = node_.attrs.ints[1];
  p.first_is_row = work_.cut == plan::Cut::along(1);
  p.q = strides_of(q);
  p.k = strides_of(k);
  p.v = strides_of(v);
  p.masked = in.size() > mask;
  if (p.masked) {
    const auto step = [&](int axis) { return in[mask].shape[axis] == 1 ? 0 : in[mask].strides[axis]; };
    p.mask_batch = step(0);
    p.mask_head = step(1);
    p.mask_query = step(2);
  }
  // Rows that are read again for every block of the others are put together first.
  p.k_row = !backward && p.queries > p.query_block ? p.width : p.k.position;
  p.v_row = !backward && p.queries > p.query_block ? p.width : p.v.position;
  std::size_t scratch = 0;
  const auto d = p.width, Q = p.query_line;
  p.once = many <= blocks.many;
  const auto make = [&](auto shape) {
    return products(blocks, few, many, p.causal, target(), kernels_.machine(), scratch, shape);
  };
  std::vector<View> operands = results;
  operands.insert(operands.end(), in.begin(), in.begin() + static_cast<std::ptrdiff_t>(mask));
  if (!backward) {
    p.out = strides_of(results[0]);
    p.lse = strides_of(results[1]);
    p.scores = make([&](auto m, auto n) { return GemmShape{type, n, m, d, p.k_row, 1, Q, 1, Q, 1, false}; });
    p.values = make([&](auto m, auto n) { return GemmShape{type, m, d, n, 1, Q, p.v_row, 1, d, 1, !p.once}; });
  } else {
    p.dq = strides_of(results[0]);
    p.dk = strides_of(results[1]);
    p.dv = strides_of(results[2]);
    p.out = strides_of(in[3]);
    p.lse = strides_of(in[4]);
    p.g = strides_of(in[5]);
    p.q_row = p.keys > p.key_block ? p.width : p.q.position;
    p.g_row = p.keys > p.key_block ? p.width : p.g.position;
    p.add_dk = work_.out[1].accumulate;
    p.add_dv = work_.out[2].accumulate;
    const bool add_dk = p.add_dk || !p.once, add_dv = p.add_dv || !p.once;
    p.scores = make([&](auto n, auto m) { return GemmShape{type, n, m, d, p.k_row, 1, Q, 1, Q, 1, false}; });
    p.along = make([&](auto n, auto m) { return GemmShape{type, n, m, d, p.v_row, 1, Q, 1, Q, 1, false}; });
    p.of_v = make([&](auto n, auto m) { return GemmShape{type, n, d, m, Q, 1, p.g_row, 1, p.dv.position, 1, add_dv}; });
    p.of_k = make([&](auto n, auto m) { return GemmShape{type, n, d, m, Q, 1, p.q_row, 1, p.dk.position, 1, add_dk}; });
    p.of_q = make([&](auto n, auto m) { return GemmShape{type, m, d, n, 1, Q, p.k_row, 1, p.dq.position, 1, true}; });
  }
  operands.push_back(emit_.scratch(type, {std::max<std::int64_t>(scratch_of(p, backward).size, 1)}));
  operands.push_back(emit_.scratch_bytes(std::max<std::size_t>(scratch, 64)));
  if (p.masked) operands.push_back(in[mask]);
  call(find_attention(type, backward, target()), p, operands, name());
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!has_columns(work_.out[i].view)) copy(work_.out[i].view, results[i]);
}

}  // namespace wr::cpu
