// The element type and shape of a tensor, as the arguments of compile() are described: wr::f32(64, 784), wr::i32(64);
// or with sizes left open: wr::f32(wr::any, 784).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "windrow/dtype.h"
#include "windrow/shape.h"

namespace wr {

/// A size that a step leaves open: each run has its own. Sizes with the same letter are equal in every run:
/// f32(any('b'), 784) with i32(any('b')); those without one may all differ.
struct OpenSize {
  std::int64_t code = INT64_MIN;  // how a shape holds it: far from any size, also from one that is negative by mistake
  constexpr OpenSize operator()(char letter) const { return {INT64_MIN + 1 + static_cast<unsigned char>(letter)}; }
};
inline constexpr OpenSize any;
constexpr bool is_open(std::int64_t size) { return size <= any(static_cast<char>(-1)).code; }

template <class T>
concept SpecSize = std::integral<T> || std::same_as<T, OpenSize>;

struct Spec {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const Spec&, const Spec&) = default;
};

/// "f32[64,784]"; open sizes are "any" or their letter.
std::string to_string(const Spec& spec);

namespace detail {
constexpr std::int64_t size_code(OpenSize size) { return size.code; }
constexpr std::int64_t size_code(std::integral auto size) { return static_cast<std::int64_t>(size); }
template <class... Sizes>
Spec make_spec(DType dtype, Sizes... sizes) {
  static_assert(sizeof...(Sizes) <= kMaxRank, "a shape has at most 8 axes");
  Spec spec{dtype, {}};
  (spec.shape.push_back(size_code(sizes)), ...);
  return spec;
}
}  // namespace detail

template <SpecSize... Sizes>
Spec f32(Sizes... sizes) {
  return detail::make_spec(DType::f32, sizes...);
}
template <SpecSize... Sizes>
Spec f64(Sizes... sizes) {
  return detail::make_spec(DType::f64, sizes...);
}
template <SpecSize... Sizes>
Spec i32(Sizes... sizes) {
  return detail::make_spec(DType::i32, sizes...);
}
template <SpecSize... Sizes>
Spec u8(Sizes... sizes) {
  return detail::make_spec(DType::u8, sizes...);
}
template <SpecSize... Sizes>
Spec boolean(Sizes... sizes) {
  return detail::make_spec(DType::boolean, sizes...);
}

}  // namespace wr
