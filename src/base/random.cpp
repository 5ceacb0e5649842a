// Arrays of random numbers.
#include "windrow/random.h"

#include <fmt/format.h>

#include <limits>

#include "windrow/error.h"

namespace wr {
namespace {

template <class Draw>
Array drawn(const char* name, const Shape& shape, DType dtype, const Location& where, Draw draw) {
  if (!is_floating(dtype))
    fail(where, fmt::format("Rng::{}: the numbers are f32 or f64, not {}", name, name_of(dtype)));
  Array array = Array::empty(shape, dtype, where);
  const std::int64_t count = array.count();
  if (dtype == DType::f32) {
    float* values = array.mutable_data<float>();
    for (std::int64_t i = 0; i < count; ++i) values[i] = draw(float{});
  } else {
    double* values = array.mutable_data<double>();
    for (std::int64_t i = 0; i < count; ++i) values[i] = draw(double{});
  }
  return array;
}

}  // namespace

Array Rng::uniform(const Shape& shape, DType dtype, Location where) {
  return drawn("uniform", shape, dtype, where, [this]<class T>(T) {
    // A double just below 1 would round to 1 as a float.
    if constexpr (std::is_same_v<T, float>)
      return static_cast<float>(bits() >> 40) * 0x1p-24F;
    else
      return uniform();
  });
}

Array Rng::normal(const Shape& shape, DType dtype, Location where) {
  return drawn("normal", shape, dtype, where, [this]<class T>(T) { return static_cast<T>(normal()); });
}

Array Rng::below(std::uint64_t count, const Shape& shape, Location where) {
  if (count < 1 || count > std::uint64_t{1} << 31)
    fail(where, fmt::format("Rng::below: {} is not in 1..2147483648, as many as i32 has from 0 on", count));
  Array array = Array::empty(shape, DType::i32, where);
  std::int32_t* values = array.mutable_data<std::int32_t>();
  for (std::int64_t i = 0; i < array.count(); ++i) values[i] = static_cast<std::int32_t>(below(count));
  return array;
}

}  // namespace wr
