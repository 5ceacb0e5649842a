#include "apps/automaton/frame.h"

namespace wr::apps {

Frame::Frame(std::int64_t grids, std::int64_t height, std::int64_t width, Border border)
    : grids_(grids),
      height_(height),
      width_(width),
      stride_(width + 2),
      words_(words_of(grids, height, width)),
      wrap_(border == Border::wrap),
      inside_(plane(0, height, 0, width)),
      left_(plane(0, height, -1, 0)),
      right_(plane(0, height, width, width + 1)),
      above_(plane(-1, 0, -1, width + 1)),
      below_(plane(height, height + 1, -1, width + 1)),
      around_(static_cast<std::size_t>(3 * words_)),
      made_(static_cast<std::size_t>(words_)) {}

CellBits Frame::plane_of(const std::vector<logic::BitGrid>& grids, std::int64_t channel) const {
  CellBits bits(static_cast<std::size_t>(words_));
  for (std::int64_t grid = 0; grid < grids_; ++grid)
    for (std::int64_t y = 0; y < height_; ++y)
      for (std::int64_t x = 0; x < width_; ++x)
        if (grids[grid].get(channel, y, x)) set(bits, grid, y, x);
  return bits;
}

void Frame::look_at(const Word* state) {
  Word* middle = around_.data() + words_;
  for (std::int64_t i = 0; i < words_; ++i) middle[i] = state[i] & inside_[i];
  if (!wrap_) return;
  add_shifted(width_, left_);
  add_shifted(-width_, right_);
  add_shifted(height_ * stride_, above_);  // the corners too
  add_shifted(-height_ * stride_, below_);
}

void Frame::neighbours(int k, Word* to) const {
  const std::int64_t by = (k / 3 - 1) * stride_ + k % 3 - 1;
  for (std::int64_t i = 0; i < words_; ++i) to[i] = shifted(i, by);
}

void Frame::set(CellBits& bits, std::int64_t grid, std::int64_t y, std::int64_t x) const {
  const std::int64_t bit = (grid * (height_ + 2) + y + 1) * stride_ + x + 1;
  bits[bit / 64] |= Word{1} << (bit % 64);
}

CellBits Frame::plane(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) const {
  CellBits bits(static_cast<std::size_t>(words_));
  for (std::int64_t grid = 0; grid < grids_; ++grid)
    for (std::int64_t y = top; y < bottom; ++y)
      for (std::int64_t x = left; x < right; ++x) set(bits, grid, y, x);
  return bits;
}

void Frame::add_shifted(std::int64_t by, const CellBits& where) {
  for (std::int64_t i = 0; i < words_; ++i) made_[i] = shifted(i, by) & where[i];
  Word* middle = around_.data() + words_;
  for (std::int64_t i = 0; i < words_; ++i) middle[i] |= made_[i];
}

}  // namespace wr::apps
