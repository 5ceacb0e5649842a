// Random numbers on the host, for data, wirings, environments and searches: integers that depend on nothing but the
// seed. (The standard library's distributions differ between vendors.) Random tensors of a step are in tensor.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "windrow/array.h"

namespace wr {

/// SplitMix64. Its whole state is one number, so a checkpoint can hold it.
class Rng {
 public:
  explicit Rng(std::uint64_t seed = 0) : state_(seed) {}
  /// One of many sequences that belong to a seed and have nothing to do with one another.
  static Rng stream(std::uint64_t seed, std::uint64_t number) { return Rng(mix(mix(seed + 1) ^ number)); }

  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15); }
  /// 0 .. count-1, each as likely. (Lemire's method without the rejection: off by less than count / 2^64.)
  std::uint64_t below(std::uint64_t count) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{bits()} * count >> 64);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// In (0, 1).
  double inside() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  /// Mean 0, variance 1. The last bits are the C library's.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(inside()));
    return radius * std::cos(6.283185307179586 * inside());
  }
  /// Arrays of such numbers, one drawn after the other: f32 or f64; of below(), i32.
  Array uniform(const Shape& shape, DType dtype = DType::f32, Location where = Location::current());
  Array normal(const Shape& shape, DType dtype = DType::f32, Location where = Location::current());
  Array below(std::uint64_t count, const Shape& shape, Location where = Location::current());
  std::uint64_t state() const { return state_; }

  /// A number that has nothing to do with x, another one for each x.
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }

 private:
  std::uint64_t state_;
};

/// Every order is as likely.
template <class T>
void shuffle(std::vector<T>& list, Rng rng) {
  for (std::size_t left = list.size(); left > 1; --left) std::swap(list[left - 1], list[rng.below(left)]);
}

}  // namespace wr
