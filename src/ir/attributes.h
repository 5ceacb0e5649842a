// What the numbers and texts of nodes mean: the one place where they are written and read. Reading expects attributes
// that the op's infer has accepted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "windrow/contract.h"

namespace wr::ir {

/// Sizes (reshape, broadcast), an order of axes (permute) or axes (reductions) as they stand in ints.
Attrs attrs_of(const Dims& list);
inline Dims list_of(const Attrs& attrs) { return Dims(std::span(attrs.ints)); }

/// Of slice: along each axis, `counts` elements from `starts`, `steps` apart.
struct Slice {
  Dims starts, counts, steps;

  /// Throws Error if there are not three numbers an axis.
  static Slice of(const Attrs& attrs, int rank);
  Attrs attrs() const;
};

/// Of pad: so many elements of a value before and after each axis.
struct Pad {
  Dims before, after;
  double value = 0;

  /// Throws Error if there are not two numbers an axis and a value.
  static Pad of(const Attrs& attrs, int rank);
  Attrs attrs() const;
};

/// Of unfold, max_pool_pick and max_pool_scatter; of fold with the size of the image behind it.
inline constexpr std::size_t kWindowNumbers = 10;
Window window_of(const Attrs& attrs);
Attrs attrs_of(const Window& window);
Attrs attrs_of(const Window& window, std::int64_t image_height, std::int64_t image_width);
struct ImageSize {
  std::int64_t height, width;
};
ImageSize image_of(const Attrs& fold);

/// Of conv, conv_grad_x and conv_grad_w: the window on an image of such a size, whose channels go in so many groups.
struct Convolution {
  Window window;
  ImageSize image;
  std::int64_t groups = 1;

  /// Throws Error if the numbers are not as many as expected.
  static Convolution of(const Attrs& attrs);
  Attrs attrs() const;
};

/// Of scan: how often its body is run, and what the body's inputs and outputs are. The inputs are the carried values,
/// a moment of each sequence, then what is the same at every moment, and so are the operands: what the carried values
/// begin with, sequences [steps, ...], the rest. The body's outputs are the new carried values, then what is stacked,
/// then what is summed over the moments.
struct ScanForm {
  std::int64_t steps = 0;
  bool reverse = false;  // from the last moment to the first
  int carries = 0, sequences = 0, stacked = 0, sums = 0;
  /// By carried value: is it kept at every moment, [steps + 1, ...] in the order of time? Else the last one is the
  /// result.
  std::vector<bool> kept = {};

  /// Throws Error if the numbers make no sense.
  static ScanForm of(const Attrs& attrs);
  Attrs attrs(std::shared_ptr<const Graph> body) const;

  /// Carried values, then stacked ones, then sums.
  int results() const { return carries + stacked + sums; }
  bool is_carry(int result) const { return result < carries; }
  bool is_stacked(int result) const { return result >= carries && result < carries + stacked; }
  bool is_sum(int result) const { return result >= carries + stacked; }
  /// Has the result an axis of moments before its others?
  bool has_time(int result) const { return is_carry(result) ? kept[result] : is_stacked(result); }
  /// Where a kept value stands before the first turn, and after the last.
  std::int64_t first_slot() const { return reverse ? steps : 0; }
  std::int64_t last_slot() const { return reverse ? 0 : steps; }
  /// Where the values before, and after, the moment 0 stand.
  std::int64_t before_slot() const { return reverse ? 1 : 0; }
  std::int64_t after_slot() const { return reverse ? 0 : 1; }
};

/// Of contract, contract_share and contract_grad. Throws Error if there is none of that name.
Semiring semiring_of(const Attrs& attrs);
Attrs attrs_of(Semiring semiring);

/// Of einsum: "bi,io->bo", taken apart.
struct Labels {
  std::vector<std::string> operands;
  std::string result;

  static Labels of(std::string_view spec);
  std::string text() const;
  /// How many operands have the label.
  int holders(char label) const;
  /// Every label once, in the order of the operands.
  std::string all() const;
};

}  // namespace wr::ir
