// Plain loops over strided elements, for copying, converting and comparing arrays. The engine's kernels do not use it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "windrow/dtype.h"
#include "windrow/shape.h"

namespace wr::detail {

/// Calls f.operator()<T>() for the C++ type of dtype.
template <class F>
decltype(auto) with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    case DType::u8:
      return f.template operator()<std::uint8_t>();
    case DType::boolean:
      return f.template operator()<bool>();
    case DType::f32:
      break;
  }
  return f.template operator()<float>();
}

/// Array::astype's rule for one value.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_integral_v<To> && !std::is_same_v<From, bool>) {
    // double holds every i32 and u8, so the comparisons are exact.
    const double v = static_cast<double>(value);
    if (std::isnan(v)) return To{};
    if (v <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (v >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(value);
  }
}

/// Calls row(a, b, n, step_a, step_b) for runs of n elements that together cover `shape` in row-major order; a and b
/// are positions relative to element [0,...,0]. Axes that run on without a gap in both are one run. row returns false
/// to stop early; the result says whether it did not.
template <class Row>
bool walk_rows(const Shape& shape, const Strides& strides_a, const Strides& strides_b, Row&& row) {
  Shape sizes;
  Strides a, b;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    const int last = sizes.rank() - 1;
    if (last >= 0 && a[last] == strides_a[i] * shape[i] && b[last] == strides_b[i] * shape[i]) {
      sizes[last] *= shape[i];
      a[last] = strides_a[i];
      b[last] = strides_b[i];
    } else {
      sizes.push_back(shape[i]);
      a.push_back(strides_a[i]);
      b.push_back(strides_b[i]);
    }
  }
  if (sizes.empty()) return row(std::int64_t{0}, std::int64_t{0}, std::int64_t{1}, std::int64_t{1}, std::int64_t{1});
  const int inner = sizes.rank() - 1;
  Dims index(inner, 0);
  std::int64_t at_a = 0, at_b = 0;
  for (;;) {
    if (!row(at_a, at_b, sizes[inner], a[inner], b[inner])) return false;
    int axis = inner - 1;
    for (; axis >= 0; --axis) {
      at_a += a[axis];
      at_b += b[axis];
      if (++index[axis] < sizes[axis]) break;
      at_a -= a[axis] * sizes[axis];
      at_b -= b[axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis < 0) return true;
  }
}

}  // namespace wr::detail
