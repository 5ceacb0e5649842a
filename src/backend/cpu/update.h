// Kernels of the rows of updates.def: every operand is read once, every result written once.
#pragma once

#include "backend/cpu/kernel.h"
#include "ops/update.h"

namespace wr::cpu {

/// Rows of `cols` elements that lie together; from one row to the next is a stride, in elements.
struct UpdateParams {
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride[kMaxOperands] = {};  // of results and values
};
/// ptr: the results, the values, the numbers. A result may stand where a value stands.
using UpdateKernel = void (*)(const UpdateParams& params, void* const* ptr, std::int64_t row0);

/// f32 and f64.
UpdateKernel find_update(ops::Update update, DType dtype, Target target);

/// Entries row0, ... of a table, whose gradient is rows and where they go.
struct UpdateRowsParams {
  std::int64_t rows = 0, cols = 0;
  std::int64_t terms = 1;     // indices a row of the gradient
  std::int64_t count = 0;     // indices in all
  bool touched_only = false;  // other entries keep what they are, whatever a gradient of 0 would make of them
};
/// ptr: the results, the values but the gradient, order[2, count] (see index_order), the gradient's rows, the numbers,
/// and scratch for a row. A result may stand where its value stands: then entries that a gradient of 0 leaves as they
/// are, are not written.
using UpdateRowsKernel = void (*)(const UpdateRowsParams& params, void* const* ptr, std::int64_t row0);

/// f32 and f64.
UpdateRowsKernel find_update_rows(ops::Update update, DType dtype, Target target);

}  // namespace wr::cpu
