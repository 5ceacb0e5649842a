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

}  // namespace wr::cpu
