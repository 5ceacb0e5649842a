// Elements in memory as a kernel sees them.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace wr::lower {

/// Memory a lane knows by number: its own scratch and its own parts of totals, the arena, all lanes' parts; then
/// arguments, states, constants and outputs.
enum Base : int { kScratch = 0, kPartial = 1, kArena = 2, kPartials = 3, kFirstLeaf = 4 };

/// Somewhere behind a base, or in a scratch buffer that has no place yet.
struct View {
  int base = kScratch;
  int buffer = -1;           // of the emitter, when base is kScratch and the place is still open
  std::int64_t offset = 0;   // bytes
  std::int64_t advance = 0;  // bytes a row of the region
  std::int64_t inner = 0;    // bytes a row of the strip
  std::int64_t step = 0;     // bytes a turn of the loop
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;

  std::int64_t elem() const { return static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t count() const { return shape.count(); }
  bool dense() const;
};

View dense_view(int base, std::int64_t offset, DType dtype, const Shape& shape);

/// Can the elements be addressed in another shape without moving them?
bool can_reshape(const View& v, const Shape& shape);
/// What a view op (reshape, permute, broadcast, slice) makes of a view; `shape` is its result's, perhaps of a strip.
View view_through(const ir::Node& op, View v, const Shape& shape);

}  // namespace wr::lower
