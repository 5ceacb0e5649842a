// The element type and shape of a tensor, as the arguments of compile() are described: wr::f32(64, 784), wr::i32(64).
#pragma once

#include <concepts>
#include <string>

#include "windrow/dtype.h"
#include "windrow/shape.h"

namespace wr {

struct Spec {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const Spec&, const Spec&) = default;
};

/// "f32[64,784]"
std::string to_string(const Spec& spec);

namespace detail {
template <class... Sizes>
Spec make_spec(DType dtype, Sizes... sizes) {
  Spec spec{dtype, {}};
  (spec.shape.push_back(static_cast<std::int64_t>(sizes)), ...);
  return spec;
}
}  // namespace detail

template <std::integral... Sizes>
Spec f32(Sizes... sizes) {
  return detail::make_spec(DType::f32, sizes...);
}
template <std::integral... Sizes>
Spec f64(Sizes... sizes) {
  return detail::make_spec(DType::f64, sizes...);
}
template <std::integral... Sizes>
Spec i32(Sizes... sizes) {
  return detail::make_spec(DType::i32, sizes...);
}
template <std::integral... Sizes>
Spec u8(Sizes... sizes) {
  return detail::make_spec(DType::u8, sizes...);
}
template <std::integral... Sizes>
Spec boolean(Sizes... sizes) {
  return detail::make_spec(DType::boolean, sizes...);
}

}  // namespace wr
