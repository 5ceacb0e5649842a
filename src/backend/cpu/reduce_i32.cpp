// Reduction kernels on i32, and of bytes what is any and all.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduce_i32.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include "backend/cpu/reduce-inl.h"
#include "backend/cpu/reduce_types.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {

ReduceKernel reduce_i32(Reduce op) {
  switch (op) {
    case Reduce::sum:
      return &reduce_kernel<Sum<std::int32_t>, std::int32_t>;
    case Reduce::max:
      return &reduce_kernel<Maximum<std::int32_t>, std::int32_t>;
    case Reduce::min:
      return &reduce_kernel<Minimum<std::int32_t>, std::int32_t>;
    case Reduce::prod:
      return &reduce_kernel<Product<std::int32_t>, std::int32_t>;
    case Reduce::argmax:
      return &position_kernel<Maximum<std::int32_t>, std::int32_t>;
    case Reduce::argmin:
      return &position_kernel<Minimum<std::int32_t>, std::int32_t>;
  }
  return nullptr;
}

ReduceKernel reduce_u8(Reduce op) {
  switch (op) {
    case Reduce::max:
      return &reduce_kernel<Maximum<std::uint8_t>, std::uint8_t>;
    case Reduce::min:
      return &reduce_kernel<Minimum<std::uint8_t>, std::uint8_t>;
    default:
      return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

ReduceKernel find_reduce_i32(Reduce op, Target target) {
  WINDROW_RETURN_FOR(target, reduce_i32(op))
  return nullptr;
}

ReduceKernel find_reduce_u8(Reduce op, Target target) {
  WINDROW_RETURN_FOR(target, reduce_u8(op))
  return nullptr;
}

}  // namespace wr::cpu
#endif
