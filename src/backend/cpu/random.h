// Random numbers that depend on nothing but (seed, stream, step, element): Philox4x32-10, a counter-based generator.
// The same numbers at any split into strips or lanes and on any number of threads. Also iota. Measured speeds:
// docs/kernels.md.
//
// Bit-identical on every SIMD target, the normal distribution too: its logarithm, sine and cosine are polynomials of
// +, * and exactly rounded /, sqrt, without fused multiply-add (needs -ffp-contract=off, which cmake/Flags.cmake sets).
#pragma once

#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"

namespace wr::cpu {

enum class Distribution : std::uint8_t {
  uniform,    // [0, 1) in steps of 2^-24 (f32) or 2^-53 (f64)
  normal,     // mean 0, variance 1, by Box-Muller (f32: |x| < 6.8, f64: |x| < 8.6)
  bernoulli,  // 1 with the given probability, to 2^-32, else 0; any type
  integer     // 0 .. bound - 1, biased by less than bound * 2^-32; i32, u8
};

/// Element (o, r, i) of dst[outer, rows, inner] is the element e = (o * extent + row0 + r) * inner + i of the whole
/// array. Philox counter: (block low, block high, step, stream); key: (seed low, seed high). f32, bernoulli and integer
/// take word e % 4 of block e / 4. f64 (uniform, normal) takes words 2 (e % 2), the high half, and 2 (e % 2) + 1, the
/// low half, of block e / 2. A normal pair (2k, 2k + 1) shares its two uniforms.
struct RandomParams {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // which random op of the graph
  std::int64_t outer = 1, extent = 0, rows = 0, inner = 1;
  double probability = 0.5;  // bernoulli
  std::int32_t bound = 1;    // integer; at least 1, and at most 256 for u8
};

/// ptr: dst, and the i32 step counter. nullptr where the type does not fit the distribution.
using RandomKernel = void (*)(const RandomParams& params, void* const* ptr, std::int64_t row0);
RandomKernel find_random(Distribution distribution, DType dtype, Target target);

/// One block of the generator, for tests and for scalar use.
void philox4x32(const std::uint32_t counter[4], const std::uint32_t key[2], std::uint32_t out[4]);

/// dst[o, r, i] = start + step * (r + row0 if `strip_axis`), computed in double (integers exactly), then converted.
/// ptr: dst. Any type; bool is whether the value is not 0.
struct IotaParams {
  std::int64_t outer = 1, rows = 0, inner = 1;
  double start = 0, step = 1;
  bool strip_axis = false;  // the strip cuts the counted axis
};
using IotaKernel = void (*)(const IotaParams& params, void* const* ptr, std::int64_t row0);
IotaKernel find_iota(DType dtype, Target target);

}  // namespace wr::cpu
