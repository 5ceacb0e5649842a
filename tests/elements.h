// Elements of any type as doubles, for the tests of kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "windrow/dtype.h"

namespace wr::cpu {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i32, DType::u8, DType::boolean};

inline double read(DType dtype, const void* p, std::int64_t i) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(p)[i];
    case DType::f64:
      return static_cast<const double*>(p)[i];
    case DType::i32:
      return static_cast<const std::int32_t*>(p)[i];
    default:
      return static_cast<const std::uint8_t*>(p)[i];
  }
}

/// Rounds to the nearest where the type is one of integers; a bool is whether that is not 0.
inline void write(DType dtype, void* p, std::int64_t i, double value) {
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(p)[i] = static_cast<float>(value);
      break;
    case DType::f64:
      static_cast<double*>(p)[i] = value;
      break;
    case DType::i32:
      static_cast<std::int32_t*>(p)[i] = static_cast<std::int32_t>(std::lround(value));
      break;
    case DType::u8:
      static_cast<std::uint8_t*>(p)[i] = static_cast<std::uint8_t>(std::lround(value));
      break;
    case DType::boolean:
      static_cast<std::uint8_t*>(p)[i] = std::lround(value) != 0;
      break;
  }
}

}  // namespace wr::cpu
