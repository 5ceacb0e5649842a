// Random numbers of the loader: one sequence for each (seed, epoch, example).
#pragma once

#include <cstdint>

#include "windrow/random.h"

namespace wr::data {

class Draw : public Rng {
 public:
  explicit Draw(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) : Rng(mix(mix(mix(a) ^ b) ^ c)) {}

  /// In [-1, 1).
  double signed_unit() { return static_cast<double>(static_cast<std::int64_t>(bits())) * 0x1p-63; }
  /// Mean 0, variance 1, nearly normal: the sum of four uniform numbers, all from one draw.
  float quick_normal() {
    const std::uint64_t b = bits();
    const auto sum = static_cast<std::int32_t>((b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48));
    return static_cast<float>(sum - 2 * 0xffff) * (1.7320508f / 0x10000);
  }
};

}  // namespace wr::data
