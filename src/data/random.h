// Random numbers for data: each sequence depends on nothing but what it was made from, on any machine. (The standard
// library's distributions differ between vendors.)
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace wr::data {

/// SplitMix64 started from a mix of up to three numbers: (seed, epoch, example).
class Draw {
 public:
  explicit Draw(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) : state_(mix(mix(mix(a) ^ b) ^ c)) {}

  std::uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15); }
  /// 0 .. count-1, each as likely. (Lemire's method without the rejection: off by less than count / 2^64.)
  std::uint64_t below(std::uint64_t count) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{bits()} * count >> 64);
  }
  /// In [-1, 1).
  double signed_unit() { return static_cast<double>(static_cast<std::int64_t>(bits())) * 0x1p-63; }
  /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers, all from one draw.
  float normal() {
    const std::uint64_t b = bits();
    const auto sum = static_cast<std::int32_t>((b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48));
    return static_cast<float>(sum - 2 * 0xffff) * (1.7320508f / 0x10000);
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }
  std::uint64_t state_;
};

inline void shuffle(std::vector<std::int64_t>& order, Draw draw) {
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[draw.below(left)]);
}

}  // namespace wr::data
