// Neighbourhoods of cells: shifted copies of rows of the grid, and their adjoint.
#include <algorithm>

#include "backend/cpu/gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/neighbours.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using std::int64_t;

struct Put {
  template <class V>
  HWY_INLINE V operator()(V, V from) const {
    return from;
  }
};
struct Plus {
  template <class V>
  HWY_INLINE V operator()(V to, V from) const {
    return hn::Add(to, from);
  }
};

template <class T, class F>
HWY_INLINE void move_row(T* HWY_RESTRICT to, const T* HWY_RESTRICT from, int64_t n, F f) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    store_first(d, f(load_first(d, to + i, rest), load_first(d, from + i, rest)), to + i, rest);
  }
}

/// Cells [begin, end) of one row of a grid, from the row that is `up` rows and `left` columns away.
struct Segment {
  int64_t begin, end;  // columns
  int64_t cell;        // the first one's position in the strip
  int64_t row;         // of all grids' rows
};

template <class F>
HWY_INLINE void for_each_segment(int64_t first, int64_t count, int64_t width, F f) {
  for (int64_t cell = first; cell < first + count;) {
    const int64_t column = cell % width, end = std::min(width, column + first + count - cell);
    f(Segment{column, end, cell - first, cell / width});
    cell += end - column;
  }
}

/// The row `up` rows away in the same grid, or -1 if there is none.
HWY_INLINE int64_t row_away(const NeighbourParams& p, int64_t row, int64_t up) {
  const int64_t grid = row / p.height * p.height, y = row - grid + up;
  if (y >= 0 && y < p.height) return grid + y;
  return p.wrap ? grid + (y + p.height) % p.height : -1;
}

/// to[0...] = (or +=) the row's columns [begin + right, end + right), with zeros or the other side outside.
template <class T, class F>
HWY_INLINE void shifted_row(const NeighbourParams& p, T* to, const T* row, const Segment& s, int64_t right, F f) {
  const int64_t begin = std::max<int64_t>(s.begin + right, 0), end = std::min(s.end + right, p.width);
  T* const inside = to + (begin - right - s.begin);
  if (begin < end) move_row(inside, row + begin, end - begin, f);
  const hn::CappedTag<T, 1> one;
  for (int64_t column = s.begin; column < s.end; ++column) {
    const int64_t from = column + right;
    if (from >= 0 && from < p.width) {
      column = std::max(column, end - right - 1);  // to the right edge
      continue;
    }
    T* const at = to + (column - s.begin);
    const T outside = p.wrap ? row[(from + p.width) % p.width] : T(0);
    hn::StoreU(f(hn::LoadU(one, at), hn::Set(one, outside)), one, at);
  }
}

template <class T>
void neighbours(const NeighbourParams& p, void* const* ptr, int64_t row0) {
  const T* x = static_cast<const T*>(ptr[1]);
  T* out = static_cast<T*>(ptr[0]);
  for (int64_t channel = 0; channel < p.channels; ++channel, x += p.in_stride)
    for (int64_t k = 0; k < 9; ++k, out += p.out_stride)
      for_each_segment(row0, p.count, p.width, [&](const Segment& s) HWY_ATTR {
        const int64_t row = row_away(p, s.row, k / 3 - 1);
        if (row >= 0)
          shifted_row(p, out + s.cell, x + row * p.width, s, k % 3 - 1, Put());
        else
          std::fill_n(out + s.cell, s.end - s.begin, T(0));
      });
}

template <class T>
void neighbours_sum(const NeighbourParams& p, void* const* ptr, int64_t row0) {
  const T* patches = static_cast<const T*>(ptr[1]);
  T* out = static_cast<T*>(ptr[0]);
  for (int64_t channel = 0; channel < p.channels; ++channel, out += p.out_stride) {
    std::fill_n(out, p.count, T(0));
    for (int64_t k = 0; k < 9; ++k, patches += p.in_stride)
      for_each_segment(row0, p.count, p.width, [&](const Segment& s) HWY_ATTR {
        const int64_t row = row_away(p, s.row, 1 - k / 3);
        if (row >= 0) shifted_row(p, out + s.cell, patches + row * p.width, s, 1 - k % 3, Plus());
      });
  }
}

}  // namespace

NeighbourKernel find_neighbours(DType dtype) { return dtype == DType::f32 ? neighbours<float> : neighbours<double>; }
NeighbourKernel find_neighbours_sum(DType dtype) {
  return dtype == DType::f32 ? neighbours_sum<float> : neighbours_sum<double>;
}

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

NeighbourKernel find_neighbours(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_neighbours(dtype))
  return nullptr;
}

NeighbourKernel find_neighbours_sum(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_neighbours_sum(dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
