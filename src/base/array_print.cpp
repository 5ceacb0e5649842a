// Arrays as text, in the manner of numpy.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <string_view>

#include "array_walk.h"
#include "windrow/array.h"

namespace wr {

namespace {

constexpr std::int64_t kSummariseAbove = 1000;  // elements
constexpr std::int64_t kEdge = 3;               // indices shown at each end of a summarised axis
constexpr int kMaxDigits = 6;                   // after the point

/// Calls show(i) for the indices of an axis that are printed, and show(-1) where some are left out.
template <class F>
void for_each_shown(std::int64_t size, bool summarise, F show) {
  for (std::int64_t i = 0; i < size; ++i) {
    if (summarise && size > 2 * kEdge && i == kEdge) {
      show(std::int64_t{-1});
      i = size - kEdge;
    }
    show(i);
  }
}

double element(const Array& array, std::int64_t position) {
  return detail::with_type(array.dtype(), [&]<class T>() {
    return static_cast<double>(static_cast<const T*>(detail::ArrayAccess::read(array))[position]);
  });
}

template <class F>
void for_each_shown_element(const Array& array, bool summarise, int axis, std::int64_t position, F& f) {
  if (axis == array.rank()) return f(element(array, position));
  for_each_shown(array.shape()[axis], summarise, [&](std::int64_t i) {
    if (i >= 0) for_each_shown_element(array, summarise, axis + 1, position + i * array.strides()[axis], f);
  });
}

std::string chars(double value, DType dtype, std::chars_format format, int digits) {
  char text[400];  // the largest double in fixed notation has 309 digits before the point
  std::to_chars_result end{};
  if (digits >= 0) {
    end = std::to_chars(text, text + sizeof text, value, format, digits);
  } else if (dtype == DType::f32) {
    end = std::to_chars(text, text + sizeof text, static_cast<float>(value), format);
  } else {
    end = std::to_chars(text, text + sizeof text, value, format);
  }
  return std::string(text, end.ptr);
}

/// One notation for all printed elements, so that columns line up.
class Notation {
 public:
  Notation(const Array& array, bool summarise) : dtype_(array.dtype()) {
    if (is_floating(dtype_)) {
      double largest = 0, smallest = INFINITY;
      auto measure = [&](double v) {
        if (!std::isfinite(v) || v == 0) return;
        largest = std::max(largest, std::abs(v));
        smallest = std::min(smallest, std::abs(v));
      };
      for_each_shown_element(array, summarise, 0, 0, measure);
      const bool scientific = largest >= 1e8 || (largest > 0 && smallest < 1e-4);
      format_ = scientific ? std::chars_format::scientific : std::chars_format::fixed;
      auto count_digits = [&](double v) {
        if (std::isfinite(v)) digits_ = std::max(digits_, digits_needed(v));
      };
      for_each_shown_element(array, summarise, 0, 0, count_digits);
    }
    auto widen = [&](double v) { width_ = std::max(width_, plain(v).size()); };
    for_each_shown_element(array, summarise, 0, 0, widen);
  }

  std::string text(double value) const {
    std::string s = plain(value);
    return std::string(width_ - s.size(), ' ') + s;
  }

 private:
  int digits_needed(double value) const {
    const std::string s = chars(value, dtype_, format_, -1);
    const auto point = s.find('.');
    if (point == std::string::npos) return 0;
    return std::min(kMaxDigits, static_cast<int>(std::min(s.find('e'), s.size()) - point - 1));
  }

  std::string plain(double value) const {
    if (dtype_ == DType::boolean) return value != 0 ? "true" : "false";
    if (!is_floating(dtype_)) return std::to_string(static_cast<std::int64_t>(value));
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    std::string s = chars(value, dtype_, format_, digits_);
    if (digits_ == 0) s.insert(std::min(s.find('e'), s.size()), ".");  // as numpy: 1. is not an integer
    return s;
  }

  DType dtype_;
  std::chars_format format_ = std::chars_format::fixed;
  int digits_ = 0;
  std::size_t width_ = 0;
};

void print(std::string& out, const Array& array, const Notation& notation, bool summarise, int axis,
           std::int64_t position) {
  if (axis == array.rank()) {
    out += notation.text(element(array, position));
    return;
  }
  // Elements follow each other on a line; rows start a line each, with an empty line between matrices.
  const int inner = array.rank() - axis - 1;
  const std::string separator =
      inner == 0 ? ", " : "," + std::string(static_cast<std::size_t>(inner), '\n') + std::string(axis + 1, ' ');
  out += "[";
  bool first = true;
  for_each_shown(array.shape()[axis], summarise, [&](std::int64_t i) {
    if (!first) out += separator;
    first = false;
    if (i < 0) {
      out += "...";
    } else {
      print(out, array, notation, summarise, axis + 1, position + i * array.strides()[axis]);
    }
  });
  out += "]";
}

}  // namespace

std::string to_string(const Array& array) {
  std::string out;
  if (array.count() == 0) {
    out = "[]";
  } else {
    const bool summarise = array.count() > kSummariseAbove;
    print(out, array, Notation(array, summarise), summarise, 0, 0);
  }
  return out + " " + std::string(name_of(array.dtype())) + to_string(array.shape());
}

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << to_string(array); }

}  // namespace wr
