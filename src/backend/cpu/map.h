// Elementwise kernels: look-up by op, element type and SIMD target. A look-up gives nullptr where there is no such
// kernel.
#pragma once

#include <cstdint>

#include "backend/cpu/kernel.h"
#include "ops/formula.h"

namespace wr::cpu {

/// The kernel of a row of elementwise.def on operands of `dtype`. Comparisons write bool (bytes 0 or 1), logic ops take
/// bool.
MapKernel find_map(ops::Elementwise op, DType dtype, Target target);

/// dst = condition ? a : b; ptr is dst, condition (bool), a, b.
MapKernel find_where(DType dtype, Target target);

/// dst = the value of ptr[1] in another type. To bool: whether it is not 0. Float to integer: towards zero, saturating,
/// NaN gives 0; wider to narrower integers saturate too.
MapKernel find_cast(DType from, DType to, Target target);

/// Sum over lanes: dst[i] = in[i] + in[i + lane_stride] + ... over `lanes`, always in that order. dst may be in.
struct SumLanesParams {
  std::int64_t lanes = 1;
  std::int64_t lane_stride = 0;  ///< in elements
};
using SumLanesKernel = void (*)(const SumLanesParams& params, void* const* ptr, std::int64_t count);
/// f32, f64 and i32.
SumLanesKernel find_sum_lanes(DType dtype, Target target);

}  // namespace wr::cpu
