// Layout: the arithmetic of views. Uses only shapes and errors.
#include "windrow/layout.h"

#include <algorithm>
#include <limits>
#include <string>

#include "windrow/error.h"

namespace wr {

namespace detail {

std::int64_t checked_count(std::string_view op, const Shape& shape, Location where) {
  // Sizes of 0 are left out of the product: strides of an array without elements must not overflow either.
  constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t product = 1;
  bool none = false;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t size = shape[i];
    if (size < 0) {
      fail(where, std::string(op) + ": size " + std::to_string(size) + " of axis " + std::to_string(i) + " in " +
                      to_string(shape) + " is negative");
    }
    if (size == 0) {
      none = true;
    } else if (product > limit / size) {
      fail(where, std::string(op) + ": the number of elements of " + to_string(shape) + " overflows");
    } else {
      product *= size;
    }
  }
  return none ? 0 : product;
}

int checked_axis(std::string_view op, int axis, const Shape& shape, Location where) {
  const int rank = shape.rank();
  if (axis < -rank || axis >= rank) {
    fail(where, std::string(op) + ": axis " + std::to_string(axis) + " is out of range for " + to_string(shape) + " (" +
                    std::to_string(rank) + " axes)");
  }
  return axis < 0 ? axis + rank : axis;
}

std::int64_t checked_index(std::string_view op, std::int64_t index, int axis, const Shape& shape, Location where) {
  const std::int64_t size = shape[axis];
  if (index < -size || index >= size) {
    fail(where, std::string(op) + ": index " + std::to_string(index) + " is out of range for axis " +
                    std::to_string(axis) + " of size " + std::to_string(size) + " in " + to_string(shape));
  }
  return index < 0 ? index + size : index;
}

Layout slice(std::string_view op, const Layout& layout, int axis, Layout::Bound start, Layout::Bound stop,
             std::int64_t step, Location where) {
  const Shape& shape = layout.shape;
  axis = checked_axis(op, axis, shape, where);
  const std::int64_t size = shape[axis];
  if (step == 0)
    fail(where, std::string(op) + ": step is 0 on axis " + std::to_string(axis) + " of " + to_string(shape));
  // Going up, bounds are 0..size. Going down, they are the elements 0..size-1 and, before them, "no bound".
  const std::int64_t last = step > 0 ? size : size - 1;
  const auto resolve = [&](Layout::Bound bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    const std::int64_t at = *bound < 0 ? *bound + size : *bound;
    if (at < 0 || at > last) {
      const auto text = [](Layout::Bound b) { return b ? std::to_string(*b) : std::string(); };
      fail(where, std::string(op) + ": " + text(start) + ":" + text(stop) + ":" + std::to_string(step) +
                      " is outside axis " + std::to_string(axis) + " of size " + std::to_string(size) + " in " +
                      to_string(shape));
    }
    return at;
  };
  const std::int64_t first = resolve(start, step > 0 ? 0 : size - 1);
  const std::int64_t end = resolve(stop, step > 0 ? size : -1);
  const std::int64_t span = step > 0 ? end - first : first - end;
  // No step longer than the axis is different from one that takes one element: this keeps the arithmetic in range.
  const std::int64_t stride = std::clamp(step, -std::max<std::int64_t>(size, 1), std::max<std::int64_t>(size, 1));
  const std::int64_t length = stride > 0 ? stride : -stride;
  Layout result = layout;
  result.shape[axis] = span > 0 ? (span + length - 1) / length : 0;
  result.strides[axis] = layout.strides[axis] * stride;
  if (span > 0) result.offset += first * layout.strides[axis];
  return result;
}

Shape checked_reshape(const Shape& shape, const Shape& target, Location where) {
  const std::int64_t count = shape.count();
  const auto refuse = [&](const std::string& why) {
    fail(where, "reshape: cannot view " + to_string(shape) + " (" + std::to_string(count) + " elements) as " +
                    to_string(target) + why);
  };
  Shape result = target;
  int unknown = -1;
  for (int i = 0; i < target.rank(); ++i) {
    if (target[i] != -1) continue;
    if (unknown >= 0) refuse(": only one size may be -1");
    unknown = i;
    result[i] = 1;
  }
  const std::int64_t known = checked_count("reshape", result, where);
  if (unknown >= 0) {
    if (known == 0 || count % known != 0) refuse(": no size fits -1");
    result[unknown] = count / known;
  } else if (known != count) {
    refuse(" (" + std::to_string(known) + " elements)");
  }
  return result;
}

}  // namespace detail

bool Layout::is_contiguous() const {
  std::int64_t expected = 1;
  bool dense = true;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) dense = false;
    expected *= shape[i];
  }
  return dense;
}

bool Layout::may_overlap_itself() const {
  // Distinct if, from the smallest stride up, each step is longer than everything the smaller axes span.
  struct Axis {
    std::int64_t stride, size;
  } axes[kMaxRank];
  int n = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] == 1) continue;
    const std::int64_t stride = strides[i] < 0 ? -strides[i] : strides[i];
    int at = n++;
    for (; at > 0 && axes[at - 1].stride > stride; --at) axes[at] = axes[at - 1];
    axes[at] = {stride, shape[i]};
  }
  std::int64_t span = 0;
  for (int i = 0; i < n; ++i) {
    if (axes[i].stride <= span) return true;
    span += axes[i].stride * (axes[i].size - 1);
  }
  return false;
}

std::pair<std::int64_t, std::int64_t> Layout::range() const {
  std::int64_t low = offset, high = offset;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t reach = (shape[i] - 1) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

Layout Layout::slice(int axis, Bound start, Bound stop, std::int64_t step, Where where) const {
  return detail::slice("slice", *this, axis, start, stop, step, where);
}

Layout Layout::select(int axis, std::int64_t index, Where where) const {
  axis = detail::checked_axis("select", axis, shape, where);
  Layout result = *this;
  result.offset += detail::checked_index("select", index, axis, shape, where) * strides[axis];
  result.shape.erase(axis);
  result.strides.erase(axis);
  return result;
}

Layout Layout::permute(const Dims& axes, Where where) const {
  if (axes.rank() != shape.rank()) {
    fail(where, "permute: " + to_string(axes) + " names " + std::to_string(axes.rank()) + " axes, " + to_string(shape) +
                    " has " + std::to_string(shape.rank()));
  }
  Layout result = *this;
  bool taken[kMaxRank] = {};
  for (int i = 0; i < axes.rank(); ++i) {
    // An axis too large for int is out of range either way.
    const std::int64_t named = std::clamp<std::int64_t>(axes[i], -1000, 1000);
    const int axis = detail::checked_axis("permute", static_cast<int>(named), shape, where);
    if (taken[axis]) {
      fail(where, "permute: axis " + std::to_string(axis) + " appears twice in " + to_string(axes) + " for " +
                      to_string(shape));
    }
    taken[axis] = true;
    result.shape[i] = shape[axis];
    result.strides[i] = strides[axis];
  }
  return result;
}

Layout Layout::transpose() const {
  Layout result = *this;
  std::reverse(result.shape.begin(), result.shape.end());
  std::reverse(result.strides.begin(), result.strides.end());
  return result;
}

Layout Layout::transpose(int axis_a, int axis_b, Where where) const {
  axis_a = detail::checked_axis("transpose", axis_a, shape, where);
  axis_b = detail::checked_axis("transpose", axis_b, shape, where);
  Layout result = *this;
  std::swap(result.shape[axis_a], result.shape[axis_b]);
  std::swap(result.strides[axis_a], result.strides[axis_b]);
  return result;
}

Layout Layout::expand_dims(int axis, Where where) const {
  const int rank = shape.rank();
  if (rank == kMaxRank) {
    fail(where, "expand_dims: " + to_string(shape) + " has " + std::to_string(rank) + " axes, the most there may be");
  }
  if (axis < -rank - 1 || axis > rank) {
    fail(where, "expand_dims: axis " + std::to_string(axis) + " is out of range for " + to_string(shape) + " (" +
                    std::to_string(rank) + " axes)");
  }
  if (axis < 0) axis += rank + 1;
  Layout result = *this;
  result.shape.insert(axis, 1);
  result.strides.insert(axis, 0);
  return result;
}

Layout Layout::squeeze() const {
  Layout result = *this;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) {
      result.shape.erase(i);
      result.strides.erase(i);
    }
  }
  return result;
}

Layout Layout::squeeze(int axis, Where where) const {
  axis = detail::checked_axis("squeeze", axis, shape, where);
  if (shape[axis] != 1) {
    fail(where, "squeeze: axis " + std::to_string(axis) + " of " + to_string(shape) + " has size " +
                    std::to_string(shape[axis]) + ", not 1");
  }
  return select(axis, 0, where);
}

Layout Layout::broadcast_to(const Shape& target, Where where) const {
  detail::checked_count("broadcast_to", target, where);
  const int missing = target.rank() - shape.rank();
  if (missing < 0) {
    fail(where,
         "broadcast_to: cannot broadcast " + to_string(shape) + " to " + to_string(target) + ": it has fewer axes");
  }
  Layout result{target, Strides(target.rank(), 0), offset};
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == target[missing + i]) {
      result.strides[missing + i] = strides[i];
    } else if (shape[i] != 1) {
      fail(where, "broadcast_to: cannot broadcast " + to_string(shape) + " to " + to_string(target) + ": axis " +
                      std::to_string(i) + " has size " + std::to_string(shape[i]) + ", not 1 or " +
                      std::to_string(target[missing + i]));
    }
  }
  return result;
}

Layout Layout::diagonal(int axis_a, int axis_b, Where where) const {
  axis_a = detail::checked_axis("diagonal", axis_a, shape, where);
  axis_b = detail::checked_axis("diagonal", axis_b, shape, where);
  if (axis_a == axis_b) {
    fail(where, "diagonal: axis " + std::to_string(axis_a) + " of " + to_string(shape) + " is given twice");
  }
  Layout result = *this;
  for (int axis : {std::max(axis_a, axis_b), std::min(axis_a, axis_b)}) {
    result.shape.erase(axis);
    result.strides.erase(axis);
  }
  result.shape.push_back(std::min(shape[axis_a], shape[axis_b]));
  result.strides.push_back(strides[axis_a] + strides[axis_b]);
  return result;
}

std::optional<Layout> Layout::reshape(const Shape& target, Where where) const {
  const Shape wanted = detail::checked_reshape(shape, target, where);
  if (wanted.count() == 0) return Layout{wanted, contiguous_strides(wanted), offset};
  const Layout from = squeeze();
  Layout result{wanted, Strides(wanted.rank(), 0), offset};
  // Match groups of axes with equal products; inside a group the old axes must run on without a gap.
  int i = 0, j = 0;
  while (i < from.shape.rank()) {
    std::int64_t old_product = from.shape[i], new_product = 1;
    int i_end = i + 1, j_end = j;
    while (old_product != new_product || (j_end < wanted.rank() && wanted[j_end] == 1)) {
      if (new_product < old_product || (new_product == old_product && wanted[j_end] == 1)) {
        new_product *= wanted[j_end++];
      } else {
        if (from.strides[i_end - 1] != from.strides[i_end] * from.shape[i_end]) return std::nullopt;
        old_product *= from.shape[i_end++];
      }
    }
    std::int64_t stride = from.strides[i_end - 1];
    for (int k = j_end - 1; k >= j; --k) {
      result.strides[k] = stride;
      stride *= wanted[k];
    }
    i = i_end;
    j = j_end;
  }
  return result;
}

}  // namespace wr
