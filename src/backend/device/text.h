// Pieces of device code as text: concatenation, names of types, numbers, and the policy by which the formulas of
// elementwise.def and updates.def print themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/update.h"

namespace wr::device {

namespace detail {
inline void append(std::string& text, std::string_view part) { text += part; }
inline void append(std::string& text, const char* part) { text += part; }
inline void append(std::string& text, char part) { text += part; }
template <class T>
requires std::is_integral_v<T>
void append(std::string& text, T number) { text += std::to_string(number); }
}  // namespace detail

/// Texts and whole numbers, one after the other.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string text;
  (detail::append(text, parts), ...);
  return text;
}

/// The element type in every dialect; a bool is a byte that is 0 or 1.
std::string_view type_name(DType dtype);
/// A number of that type, so that all dialects read the same bits.
std::string literal(DType dtype, double value);

/// A row of elementwise.def (or where, cast) applied to expressions of that type.
std::string formula(ops::Elementwise op, DType dtype, const std::vector<std::string>& operands);
/// The results of a row of updates.def.
std::vector<std::string> formulas(ops::Update update, DType dtype, const std::vector<std::string>& operands);
/// A conversion between element types: fractions are cut off, what is out of range becomes the nearest in range.
std::string converted(DType to, DType from, const std::string& x);

}  // namespace wr::device
