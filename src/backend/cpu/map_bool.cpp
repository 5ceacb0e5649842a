// Elementwise kernels that make or take bool: comparisons, logic, where. And the look-up over all rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/map_bool.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include "backend/cpu/map-inl.h"
#include "backend/cpu/map.h"
#include "backend/cpu/map_rows.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {

template <class T>
MapKernel comparison(ops::Elementwise op) {
  switch (op) {
#define WINDROW_COMPARE(name, ...) \
  case ops::Elementwise::name:     \
    return kernel_of_row<ops::Elementwise::name, T, std::uint8_t>();
#include "windrow/elementwise.def"
    default:
      return nullptr;
  }
}

// Bool is stored in bytes of 0 or 1, on which the bitwise operators are the logical ones.
MapKernel logic(ops::Elementwise op) {
  using Byte = std::uint8_t;
  switch (op) {
#define WINDROW_LOGIC(name, ...) \
  case ops::Elementwise::name:   \
    return &map_kernel<VectorFormula<ops::Elementwise::name>, Byte, Byte, Byte, Byte>;
#include "windrow/elementwise.def"
    default:
      return nullptr;
  }
}

MapKernel compare_or_logic(ops::Elementwise op, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return comparison<float>(op);
    case DType::f64:
      return comparison<double>(op);
    case DType::i32:
      return comparison<std::int32_t>(op);
    case DType::boolean:
      return logic(op);
    default:
      return nullptr;
  }
}

struct Where {
  static constexpr int kCost = 2;
  template <class T>
  HWY_INLINE static Simd<T> evaluate(Truth<T> condition, Simd<T> yes, Simd<T> no) {
    return select(condition, yes, no);
  }
};

/// On bytes the condition is a number too.
struct WhereBytes {
  static constexpr int kCost = 2;
  template <class T>
  HWY_INLINE static T evaluate(T condition, T yes, T no) {
    return select(condition != number(condition, 0), yes, no);
  }
};

MapKernel where(DType dtype) {
  using Byte = std::uint8_t;
  switch (dtype) {
    case DType::f32:
      return &map_kernel<Where, float, float, Byte, float, float>;
    case DType::f64:
      return &map_kernel<Where, double, double, Byte, double, double>;
    case DType::i32:
      return &map_kernel<Where, std::int32_t, std::int32_t, Byte, std::int32_t, std::int32_t>;
    default:
      return &map_kernel<WhereBytes, Byte, Byte, Byte, Byte, Byte>;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

MapKernel find_where(DType dtype, Target target) {
  WINDROW_RETURN_FOR(target, where(dtype))
  return nullptr;
}

MapKernel find_map(ops::Elementwise op, DType dtype, Target target) {
  const ops::Row& row = ops::row_of(op);
  if (!ops::accepts(row.types, dtype)) return nullptr;
  if (row.to_bool) {
    WINDROW_RETURN_FOR(target, compare_or_logic(op, dtype))
    return nullptr;
  }
  switch (dtype) {
    case DType::f32:
      return find_arithmetic_f32(op, target);
    case DType::f64:
      return find_arithmetic_f64(op, target);
    case DType::i32:
      return find_arithmetic_i32(op, target);
    default:
      return nullptr;
  }
}

}  // namespace wr::cpu
#endif
