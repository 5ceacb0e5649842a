// Elementwise kernels of the arithmetic rows of elementwise.def on f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/map_f32.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include "backend/cpu/map-inl.h"
#include "backend/cpu/map_rows.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {

MapKernel arithmetic_f32(ops::Elementwise op) { return arithmetic<float>(op); }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

MapKernel find_arithmetic_f32(ops::Elementwise op, Target target) {
  WINDROW_RETURN_FOR(target, arithmetic_f32(op))
  return nullptr;
}

}  // namespace wr::cpu
#endif
