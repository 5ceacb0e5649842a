// Which elements of a buffer an array shows: sizes, strides (in elements, may be 0 or negative) and where element
// [0,...,0] stands. All view functions are arithmetic on layouts; Array only adds the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "windrow/location.h"
#include "windrow/shape.h"

namespace wr {

/// Axes may be negative in every function: -1 is the last one. Each function throws wr::Error on impossible arguments.
struct Layout {
  using Where = Location;
  using Bound = std::optional<std::int64_t>;

  Shape shape{0};
  Strides strides{1};
  std::int64_t offset = 0;

  /// Row-major, from the buffer's start.
  static Layout contiguous(const Shape& shape) { return {shape, contiguous_strides(shape), 0}; }

  std::int64_t count() const { return shape.count(); }
  /// True if the elements stand densely in row-major order (axes of size 1 may have any stride).
  bool is_contiguous() const;
  /// True unless the strides prove that no two indices mean the same element (as they do after broadcast_to).
  bool may_overlap_itself() const;
  /// The lowest and highest element position reached. Only for layouts with elements.
  std::pair<std::int64_t, std::int64_t> range() const;

  /// Elements start, start+step, ... before stop on one axis. Negative bounds count from the end; std::nullopt means
  /// "to the end" in the direction of step. Bounds outside the axis are errors, not clamped.
  Layout slice(int axis, Bound start, Bound stop, std::int64_t step = 1, Where where = Where::current()) const;
  /// One index of an axis; the axis goes away.
  Layout select(int axis, std::int64_t index, Where where = Where::current()) const;
  /// Axis i of the result is axis axes[i] of this.
  Layout permute(const Dims& axes, Where where = Where::current()) const;
  /// All axes in reverse order.
  Layout transpose() const;
  /// Two axes exchanged.
  Layout transpose(int axis_a, int axis_b, Where where = Where::current()) const;
  /// A new axis of size 1 that becomes number `axis` of the result.
  Layout expand_dims(int axis, Where where = Where::current()) const;
  /// Without any axis of size 1.
  Layout squeeze() const;
  Layout squeeze(int axis, Where where = Where::current()) const;
  /// Axes of size 1, and missing leading axes, repeat (stride 0).
  Layout broadcast_to(const Shape& target, Where where = Where::current()) const;
  /// The elements whose indices on both axes agree, as a new last axis; both axes go away.
  Layout diagonal(int axis_a = 0, int axis_b = 1, Where where = Where::current()) const;
  /// The same elements in the same order under another shape, or nothing if no strides can express it.
  /// One size may be -1: it is found from the others.
  std::optional<Layout> reshape(const Shape& target, Where where = Where::current()) const;
};

namespace detail {
/// Number of elements, after checking that no size is negative and the product fits; `op` begins the error.
std::int64_t checked_count(std::string_view op, const Shape& shape, Location where);
/// `axis` in 0..rank-1, after checking it; negative counts from the end.
int checked_axis(std::string_view op, int axis, const Shape& shape, Location where);
/// `index` in 0..size-1, after checking it; negative counts from the end.
std::int64_t checked_index(std::string_view op, std::int64_t index, int axis, const Shape& shape, Location where);
/// Layout::slice under another op's name.
Layout slice(std::string_view op, const Layout& layout, int axis, Layout::Bound start, Layout::Bound stop,
             std::int64_t step, Location where);
/// `target` with its -1 replaced, after checking that it has as many elements as `shape`.
Shape checked_reshape(const Shape& shape, const Shape& target, Location where);
}  // namespace detail

}  // namespace wr
