// Grids of bits with a border of one cell, in words: what neighbours see is a shift.
#pragma once

#include <cstdint>
#include <vector>

#include "windrow/circuit.h"

namespace wr::apps {

using Word = std::uint64_t;
using CellBits = std::vector<Word>;  // a bit a cell

/// Some grids of one size, one after the other, each with a border of one cell round it, so that a neighbour is a shift
/// by a number of bits.
class Frame {
 public:
  static constexpr std::int64_t kBlock = 8;  // planes are a multiple of so many words

  Frame(std::int64_t grids, std::int64_t height, std::int64_t width, Border border);
  static std::int64_t words_of(std::int64_t grids, std::int64_t height, std::int64_t width) {
    return (grids * (height + 2) * (width + 2) + 64 * kBlock - 1) / (64 * kBlock) * kBlock;
  }
  std::int64_t words() const { return words_; }
  const CellBits& inside() const { return inside_; }
  CellBits plane_of(const std::vector<logic::BitGrid>& grids, std::int64_t channel) const;

  /// To be called before neighbours().
  void look_at(const Word* state);
  /// All cells as their k-th neighbours have it.
  void neighbours(int k, Word* to) const;

 private:
  void set(CellBits& bits, std::int64_t grid, std::int64_t y, std::int64_t x) const;
  CellBits plane(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) const;
  Word shifted(std::int64_t word, std::int64_t by) const {
    const Word* at = around_.data() + words_ + word + (by >> 6);
    const auto bits = static_cast<unsigned>(by & 63);
    return at[0] >> bits | (at[1] << 1) << (63 - bits);
  }
  void add_shifted(std::int64_t by, const CellBits& where);

  std::int64_t grids_, height_, width_, stride_, words_;
  bool wrap_;
  CellBits inside_, left_, right_, above_, below_;
  std::vector<Word> around_;  // zeros, the grid, zeros
  std::vector<Word> made_;
};

}  // namespace wr::apps
