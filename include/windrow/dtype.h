// Element types of arrays and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wr {

enum class DType : std::uint8_t { f32, f64, i32, u8, boolean };

constexpr std::size_t size_of(DType t) {
  constexpr std::size_t sizes[] = {4, 8, 4, 1, 1};
  return sizes[static_cast<int>(t)];
}
constexpr std::string_view name_of(DType t) {
  constexpr std::string_view names[] = {"f32", "f64", "i32", "u8", "bool"};
  return names[static_cast<int>(t)];
}
constexpr bool is_floating(DType t) { return t == DType::f32 || t == DType::f64; }

template <class T>
struct dtype_of_t;
template <>
struct dtype_of_t<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of_t<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of_t<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of_t<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of_t<bool> {
  static constexpr DType value = DType::boolean;
};
/// The element type that stores a C++ scalar type: dtype_of<float> is DType::f32.
template <class T>
inline constexpr DType dtype_of = dtype_of_t<T>::value;

}  // namespace wr
