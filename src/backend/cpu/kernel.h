// What a kernel is to the executor, and the parameters of each kernel family. Everything in the parameters is fixed
// when the plan is made; a call brings only pointers. Kernels neither allocate nor throw. Strides are in elements.
#pragma once

#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"
#include "windrow/shape.h"

namespace wr::cpu {

inline constexpr int kMaxOperands = 12;  // destinations and inputs of a call

/// Elementwise kernel over rows x cols: ptr[0] is the destination, ptr[1..] the inputs in order.
/// Column strides are 0 (one value a row) or 1; the destination's is 1. Row strides are any, 0 for a value shared by
/// all rows. The destination may be exactly one of the inputs (same pointer, same strides).
struct MapParams {
  std::int64_t cols = 0;
  std::int64_t row_stride[kMaxOperands] = {};
  std::int64_t col_stride[kMaxOperands] = {};
};
using MapKernel = void (*)(const MapParams& params, void* const* ptr, std::int64_t rows);

/// Reduction of an n-d strided input over some axes: ptr[0] the destination, ptr[1] the input.
/// `rows` replaces kept_size[0] (a kept axis of size 1 stands there if the op keeps none).
/// With `accumulate`, the destination's old value takes part as if it were one more element.
struct ReduceParams {
  int kept = 0, reduced = 0;
  std::int64_t kept_size[kMaxRank] = {}, kept_in[kMaxRank] = {}, kept_out[kMaxRank] = {};
  std::int64_t reduced_size[kMaxRank] = {}, reduced_in[kMaxRank] = {};
  bool accumulate = false;
};
using ReduceKernel = void (*)(const ReduceParams& params, void* const* ptr, std::int64_t rows);

}  // namespace wr::cpu
