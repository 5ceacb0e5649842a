// Casts between element types.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/map_cast.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/map.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `To` is bool for a truth value. Written so that the compiler can vectorise it: no branches.
template <class To, class From>
HWY_INLINE To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Both bounds are exact in f64; in f32 the upper one for i32 is 2^31, which is out of range itself.
    constexpr double low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    const double wide = x;
    const double ordered = wide == wide ? wide : 0.0;
    const double limited = ordered < low ? low : ordered > high ? high : ordered;
    return static_cast<To>(static_cast<std::int32_t>(limited));
  } else if constexpr (std::is_same_v<From, std::int32_t> && std::is_same_v<To, std::uint8_t>) {
    return static_cast<To>(x < 0 ? 0 : x > 255 ? 255 : x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
HWY_INLINE void convert_run(const From* from, To* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

template <class To, class From>
void cast_kernel(const MapParams& params, void* const* ptr, std::int64_t rows) {
  auto* to = static_cast<To*>(ptr[0]);
  const auto* from = static_cast<const From*>(ptr[1]);
  const bool repeated = params.col_stride[1] == 0 && params.cols > 1;
  if (!repeated && params.row_stride[0] == params.cols && params.row_stride[1] == params.cols)
    return convert_run(from, to, rows * params.cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (repeated) {
      const To value = convert<To>(*from);
      for (std::int64_t i = 0; i < params.cols; ++i) to[i] = value;
    } else {
      convert_run(from, to, params.cols);
    }
    to += params.row_stride[0];
    from += params.row_stride[1];
  }
}

template <class From>
MapKernel cast_from(DType to) {
  switch (to) {
    case DType::f32:
      return &cast_kernel<float, From>;
    case DType::f64:
      return &cast_kernel<double, From>;
    case DType::i32:
      return &cast_kernel<std::int32_t, From>;
    case DType::u8:
      return &cast_kernel<std::uint8_t, From>;
    case DType::boolean:
      return &cast_kernel<bool, From>;
  }
  return nullptr;
}

// From bool is from u8: the bytes are 0 or 1.
MapKernel cast(DType from, DType to) {
  switch (from) {
    case DType::f32:
      return cast_from<float>(to);
    case DType::f64:
      return cast_from<double>(to);
    case DType::i32:
      return cast_from<std::int32_t>(to);
    case DType::u8:
    case DType::boolean:
      return cast_from<std::uint8_t>(to);
  }
  return nullptr;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

MapKernel find_cast(DType from, DType to, Target target) {
  WINDROW_RETURN_FOR(target, cast(from, to))
  return nullptr;
}

}  // namespace wr::cpu
#endif
