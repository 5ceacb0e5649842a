// Kernels of the rows of rows.def: a row at a time, in as few passes over it as its sums and maxima allow.
#pragma once

#include "backend/cpu/kernel.h"
#include "ops/rows.h"

namespace wr::cpu {

/// Rows of `cols` elements that lie together; from one row to the next is a stride, in bytes (0 for one that is the
/// same for all rows). Columns and totals have no stride.
struct RowParams {
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride[kMaxOperands] = {};  // of results, then operands
  double epsilon = 0;
  bool accumulate[kMaxOperands] = {};  // by result, of totals: added to what stands there
};
/// ptr: the results, the operands. The first result may stand where the first value or g stands.
using RowKernel = void (*)(const RowParams& params, void* const* ptr, std::int64_t row0);

/// f32 and f64. A sum over a row is of 4 vectors, combined in a fixed order; totals are added row by row.
RowKernel find_row(ops::RowOp op, DType dtype, Target target);

}  // namespace wr::cpu
