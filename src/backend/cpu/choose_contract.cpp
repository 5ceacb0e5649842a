// Contractions in semirings: which operand goes along vectors, sizes of blocks, copies of what kernels cannot step
// through.
#include <algorithm>

#include "backend/cpu/choose.h"
#include "backend/cpu/contract.h"
#include "base/machine.h"
#include "ir/attributes.h"

namespace wr::cpu {

using ir::Op;

namespace {

void run_contract(const Contraction& made, void* const* ptr, std::int64_t) {
  made({ptr[0], ptr[1], ptr[2], ptr[3], ptr[4], ptr[5]});
}

MatrixStrides strides_of(const View& v) { return {v.strides[0], v.strides[1], v.strides[2]}; }
bool has_contiguous_columns(const View& v) { return v.strides[2] == 1 || v.shape[2] == 1; }

View turned(View v) {
  std::swap(v.shape[1], v.shape[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}

}  // namespace

std::int64_t contraction_lanes(DType dtype, Target target) {
  return dtype == DType::f32 ? contract_kernel<float>(ContractJob::result, Semiring::max_product, target).lanes
                             : contract_kernel<double>(ContractJob::result, Semiring::max_product, target).lanes;
}

Contraction make_contraction(const ContractShape& shape, Target target, const Machine& machine) {
  if (!is_floating(shape.dtype))
    throw Error("contract: the type must be f32 or f64, it is " + std::string(name_of(shape.dtype)));
  const auto bytes = static_cast<std::int64_t>(size_of(shape.dtype));
  const ContractKernel kernel = shape.dtype == DType::f32 ? contract_kernel<float>(shape.job, shape.semiring, target)
                                                          : contract_kernel<double>(shape.job, shape.semiring, target);
  Contraction made;
  made.run = kernel.run;
  made.shape = shape;
  // A strip of rows so deep takes a third of L1; the block of panels beside it stays in L2. Shares need all of the
  // depth at once.
  const std::int64_t depth = std::max<std::int64_t>(shape.depth, 1);
  made.depth_block =
      shape.job == ContractJob::share ? depth : std::min(depth, std::max<std::int64_t>(machine.l1d / 24 / bytes, 16));
  const std::int64_t fit = machine.l2 * 3 / 8 / bytes / made.depth_block / kernel.panel;
  const std::int64_t all = (shape.columns + kernel.lanes - 1) / kernel.lanes * kernel.lanes;
  made.column_block = std::min(std::max<std::int64_t>(fit, 1) * kernel.panel, all);
  made.scratch_bytes = static_cast<std::size_t>(made.depth_block * (made.column_block + kernel.spare) * bytes);
  return made;
}

// The gradient by a is [m,k] of x and y [m,n] with b turned, [n,k]; the others are [m,n] of a [m,k] with b [k,n], or
// the reverse where that fills vectors better.
void Chooser::contract() {
  const auto& [to, accumulate] = work_.out[0];
  if (to.count() == 0) return;
  ContractShape s;
  s.job = node_.op == Op::contract         ? ContractJob::result
          : node_.op == Op::contract_share ? ContractJob::share
                                           : ContractJob::gradient;
  s.semiring = ir::semiring_of(node_.attrs);
  s.dtype = to.dtype;
  s.batch = to.shape[0];
  s.accumulate = accumulate;
  const bool gradient = s.job == ContractJob::gradient;
  const std::int64_t lanes = contraction_lanes(s.dtype, target());
  const bool reversed = !gradient && to.shape[2] < lanes && to.shape[2] < to.shape[1];
  const View wanted = reversed ? turned(to) : to;
  const bool direct = has_contiguous_columns(wanted);
  if (accumulate && !direct) throw Error("internal: a sum of contractions whose columns are apart");
  const View out = direct ? wanted : emit_.scratch(to.dtype, wanted.shape);
  View own = out, second = out, first, panel;
  if (gradient) {
    own = has_contiguous_columns(work_.in[0]) ? work_.in[0] : dense(work_.in[0]);
    first = work_.in[2];
    second = work_.in[3];
    panel = turned(work_.in[1]);
  } else {
    first = reversed ? turned(work_.in[1]) : work_.in[0];
    panel = reversed ? turned(work_.in[0]) : work_.in[1];
    if (s.job == ContractJob::share) {
      own = reversed ? turned(work_.in[2]) : work_.in[2];
      if (!has_contiguous_columns(own)) own = dense(own);
    }
  }
  s.rows = out.shape[1];
  s.columns = out.shape[2];
  s.depth = panel.shape[1];
  s.out = strides_of(out);
  s.first = strides_of(first);
  s.second = strides_of(second);
  s.panel = strides_of(panel);
  s.own = strides_of(own);
  const Contraction made = make_contraction(s, target(), kernels_.machine());
  call(run_contract, made, {out, first, second, panel, own, emit_.scratch_bytes(made.scratch_bytes)}, name());
  if (!direct) copy(wanted, out);
}

}  // namespace wr::cpu
