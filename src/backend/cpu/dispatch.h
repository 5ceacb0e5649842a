// Picks the copy of a function that was compiled for a SIMD target. For use in the HWY_ONCE part of a file that
// includes itself through hwy/foreach_target.h.
#pragma once

#include <hwy/highway.h>

#include "backend/cpu/target.h"

#if HWY_TARGETS & HWY_SSE4
#define WINDROW_CASE_SSE4(call) \
  case ::wr::cpu::Target::sse4: \
    return N_SSE4::call;
#else
#define WINDROW_CASE_SSE4(call)
#endif
#if HWY_TARGETS & HWY_AVX2
#define WINDROW_CASE_AVX2(call) \
  case ::wr::cpu::Target::avx2: \
    return N_AVX2::call;
#else
#define WINDROW_CASE_AVX2(call)
#endif
#if HWY_TARGETS & HWY_AVX3
#define WINDROW_CASE_AVX512(call) \
  case ::wr::cpu::Target::avx512: \
    return N_AVX3::call;
#else
#define WINDROW_CASE_AVX512(call)
#endif
#if HWY_TARGETS & HWY_NEON
#define WINDROW_CASE_NEON(call) \
  case ::wr::cpu::Target::neon: \
    return N_NEON::call;
#else
#define WINDROW_CASE_NEON(call)
#endif

/// Returns `call` of the target's namespace; falls through if this build lacks the target.
#define WINDROW_RETURN_FOR(target, call) \
  switch (target) {                      \
    WINDROW_CASE_SSE4(call)              \
    WINDROW_CASE_AVX2(call)              \
    WINDROW_CASE_AVX512(call)            \
    WINDROW_CASE_NEON(call)              \
    default:                             \
      break;                             \
  }
