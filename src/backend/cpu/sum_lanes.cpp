// The sum of what lanes have accumulated, always in their order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/sum_lanes.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include "backend/cpu/map.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void sum_lanes(const SumLanesParams& params, void* const* ptr, std::int64_t count) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* to = static_cast<T*>(ptr[0]);
  const auto* from = static_cast<const T*>(ptr[1]);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    auto a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + lanes);
    auto c = hn::LoadU(d, from + i + 2 * lanes), e = hn::LoadU(d, from + i + 3 * lanes);
    for (std::int64_t lane = 1; lane < params.lanes; ++lane) {
      const T* at = from + i + lane * params.lane_stride;
      a = hn::Add(a, hn::LoadU(d, at));
      b = hn::Add(b, hn::LoadU(d, at + lanes));
      c = hn::Add(c, hn::LoadU(d, at + 2 * lanes));
      e = hn::Add(e, hn::LoadU(d, at + 3 * lanes));
    }
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + lanes);
    hn::StoreU(c, d, to + i + 2 * lanes);
    hn::StoreU(e, d, to + i + 3 * lanes);
  }
  for (; i < count; i += lanes) {
    const auto n = static_cast<std::size_t>(count - i < lanes ? count - i : lanes);
    const bool whole = n == static_cast<std::size_t>(lanes);
    auto a = whole ? hn::LoadU(d, from + i) : load_first(d, from + i, n);
    for (std::int64_t lane = 1; lane < params.lanes; ++lane) {
      const T* at = from + i + lane * params.lane_stride;
      a = hn::Add(a, whole ? hn::LoadU(d, at) : load_first(d, at, n));
    }
    if (whole) {
      hn::StoreU(a, d, to + i);
    } else {
      store_first(d, a, to + i, n);
    }
  }
}

SumLanesKernel sum_lanes_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return &sum_lanes<float>;
    case DType::f64:
      return &sum_lanes<double>;
    case DType::i32:
      return &sum_lanes<std::int32_t>;
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

SumLanesKernel find_sum_lanes(DType dtype, Target target) {
  WINDROW_RETURN_FOR(target, sum_lanes_of(dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif
