// Reductions over any axes of a strided array: look-up by op, element type and SIMD target, and the parameters of a
// kernel.
#pragma once

#include "backend/cpu/kernel.h"

namespace wr::cpu {

enum class Reduce : std::uint8_t { sum, max, min, prod, argmax, argmin };

/// f32, f64 and i32; max and min (so any and all) also on u8 and bool. nullptr where there is no such kernel.
/// Sums are pairwise: the error grows with the logarithm of the count. max and min give NaN if any element is NaN.
/// argmax and argmin write i32: the first position in row-major order of the reduced axes, a NaN counting as the
/// extreme. They ignore `accumulate`. Over no elements: sum 0, prod 1, max and min the type's lowest and highest
/// (infinities), arg 0.
ReduceKernel find_reduce(Reduce op, DType dtype, Target target);

/// The parameters to reduce `axes` of an input. `out_strides` has one stride for each kept axis, in order. Axes of size
/// 1 are dropped and neighbours merged where their strides allow; the first kept axis stays by itself, as the kernel's
/// `rows` replaces its size.
ReduceParams make_reduce(const Shape& shape, const Strides& in_strides, const Dims& axes, const Strides& out_strides,
                         bool accumulate);

}  // namespace wr::cpu
