// Random numbers that depend on nothing but what they were made from, on any machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace wr::logic {

/// SplitMix64.
class Draw {
 public:
  explicit Draw(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(mix(seed + 1) ^ stream)) {}
  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15); }
  std::uint64_t below(std::uint64_t count) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{bits()} * count >> 64);
  }
  /// In (0, 1).
  double unit() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(unit())) * std::cos(6.283185307179586 * unit()); }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }
  std::uint64_t state_;
};

template <class T>
void shuffle(std::vector<T>& list, Draw draw) {
  for (std::size_t left = list.size(); left > 1; --left) std::swap(list[left - 1], list[draw.below(left)]);
}

}  // namespace wr::logic
