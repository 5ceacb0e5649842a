// Sizes of an n-d array, stored in place (no allocation), at most kMaxRank axes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "windrow/location.h"

namespace wr {

inline constexpr int kMaxRank = 8;

/// A short list of integers held in place: sizes, strides, axes, permutations.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> v, Location where = Location::current()) {
    if (v.size() > static_cast<std::size_t>(kMaxRank)) too_many_axes(where);
    for (auto x : v) push_back(x);
  }
  explicit constexpr Dims(std::span<const std::int64_t> v) {
    for (auto x : v) push_back(x);
  }
  constexpr Dims(int rank, std::int64_t fill) {
    for (int i = 0; i < rank; ++i) push_back(fill);
  }

  constexpr int rank() const { return rank_; }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr std::int64_t operator[](int i) const { return v_[i]; }
  constexpr std::int64_t& operator[](int i) { return v_[i]; }
  constexpr const std::int64_t* begin() const { return v_.data(); }
  constexpr const std::int64_t* end() const { return v_.data() + rank_; }
  constexpr std::int64_t* begin() { return v_.data(); }
  constexpr std::int64_t* end() { return v_.data() + rank_; }
  constexpr std::int64_t back() const { return v_[rank_ - 1]; }
  void push_back(std::int64_t x) {
    if (rank_ == kMaxRank) too_many_axes({});
    v_[rank_++] = x;
  }
  void insert(int at, std::int64_t x);
  void erase(int at);
  /// Product of all sizes; 1 for a scalar.
  constexpr std::int64_t count() const {
    std::int64_t n = 1;
    for (auto x : *this) n *= x;
    return n;
  }
  constexpr bool contains(std::int64_t x) const {
    for (auto y : *this)
      if (y == x) return true;
    return false;
  }
  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.v_[i] != b.v_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] static void too_many_axes(Location where);
  std::array<std::int64_t, kMaxRank> v_{};
  int rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// "[64,784]"; "[]" for a scalar.
std::string to_string(const Dims& dims);
/// Row-major strides, in elements.
Strides contiguous_strides(const Shape& shape);

}  // namespace wr
