// Reduction kernels on f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduce_f32.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include "backend/cpu/reduce-inl.h"
#include "backend/cpu/reduce_types.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {

ReduceKernel reduce_f32(Reduce op) {
  switch (op) {
    case Reduce::sum:
      return &reduce_kernel<Sum<float>, float>;
    case Reduce::max:
      return &reduce_kernel<Maximum<float>, float>;
    case Reduce::min:
      return &reduce_kernel<Minimum<float>, float>;
    case Reduce::prod:
      return &reduce_kernel<Product<float>, float>;
    case Reduce::argmax:
      return &position_kernel<Maximum<float>, float>;
    case Reduce::argmin:
      return &position_kernel<Minimum<float>, float>;
  }
  return nullptr;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

ReduceKernel find_reduce_f32(Reduce op, Target target) {
  WINDROW_RETURN_FOR(target, reduce_f32(op))
  return nullptr;
}

}  // namespace wr::cpu
#endif
