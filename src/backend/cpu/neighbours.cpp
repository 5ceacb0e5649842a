// Neighbourhoods of cells: shifted copies of rows of the grid, and their adjoint.
#include <algorithm>
#include <cstring>

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

/// At most a vector of cells that follow one another in a row of a grid.
struct Segment {
  int64_t column, count;
  int64_t cell;    // the first one's position in the strip
  int64_t row[3];  // above, its own, below, of all grids' rows; -1 where there is none
};

/// The row `down` rows away in the same grid, or -1 if there is none.
HWY_INLINE int64_t row_away(const NeighbourParams& p, int64_t row, int64_t down) {
  const int64_t grid = row / p.height * p.height, y = row - grid + down;
  if (y >= 0 && y < p.height) return grid + y;
  return p.wrap ? grid + (y + p.height) % p.height : -1;
}

template <class F>
HWY_INLINE void for_each_segment(const NeighbourParams& p, int64_t first, int64_t most, F f) {
  for (int64_t cell = first; cell < first + p.count;) {
    const int64_t row = cell / p.width, left = row * p.width, end = std::min(left + p.width, first + p.count);
    const int64_t rows[] = {row_away(p, row, -1), row, row_away(p, row, 1)};
    for (; cell < end; cell += most)
      f(Segment{cell - left, std::min(most, end - cell), cell - first, {rows[0], rows[1], rows[2]}});
    cell = end;
  }
}

template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const hn::TFromD<D>* from, int64_t count) {
  return count == static_cast<int64_t>(hn::Lanes(d)) ? hn::LoadU(d, from)
                                                     : load_first(d, from, static_cast<std::size_t>(count));
}

/// Lane 0 is zero, lanes 1 to count - 1 are from[0...].
template <class D>
HWY_INLINE hn::Vec<D> load_one_up(D d, const hn::TFromD<D>* from, int64_t count) {
  using T = hn::TFromD<D>;
  const auto n = static_cast<std::size_t>(count);
  if constexpr (kMasksSafe<T>) return hn::MaskedLoad(hn::AndNot(hn::FirstN(d, 1), hn::FirstN(d, n)), d, from - 1);
  alignas(64) T buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer + 1, from, (n - 1) * sizeof(T));
  return hn::Load(d, buffer);
}

/// The cells one to the left (-1), at (0) or one to the right (1) of a segment's, in the given row.
template <class D>
HWY_INLINE hn::Vec<D> load_beside(D d, const NeighbourParams& p, const hn::TFromD<D>* row, const Segment& s, int side) {
  using T = hn::TFromD<D>;
  if (side < 0 && s.column == 0) {
    const auto outside = hn::Set(d, p.wrap ? row[p.width - 1] : T(0));
    return hn::IfThenElse(hn::FirstN(d, 1), outside, load_one_up(d, row, s.count));
  }
  const T* from = row + s.column + side;
  if (side > 0 && s.column + s.count == p.width) {
    const auto inside = static_cast<std::size_t>(s.count - 1);
    const auto outside = hn::Set(d, p.wrap ? row[0] : T(0));
    return hn::IfThenElse(hn::FirstN(d, inside), load_first(d, from, inside), outside);
  }
  return load_some(d, from, s.count);
}

template <class D>
HWY_INLINE void store_some(D d, hn::Vec<D> v, hn::TFromD<D>* to, int64_t count) {
  if (count == static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(v, d, to);
  else
    store_first(d, v, to, static_cast<std::size_t>(count));
}

template <class T>
void neighbours(const NeighbourParams& p, void* const* ptr, int64_t row0) {
  const hn::ScalableTag<T> d;
  const T* const all = static_cast<const T*>(ptr[1]);
  T* const out = static_cast<T*>(ptr[0]);
  for_each_segment(p, row0, hn::Lanes(d), [&](const Segment& s) HWY_ATTR {
    T* to = out + s.cell;
    for (int64_t channel = 0; channel < p.channels; ++channel)
      for (int64_t row : s.row)
        for (int side = -1; side <= 1; ++side, to += p.out_stride) {
          const T* from = all + channel * p.in_stride + row * p.width;
          store_some(d, row < 0 ? hn::Zero(d) : load_beside(d, p, from, s, side), to, s.count);
        }
  });
}

template <class T>
void neighbours_sum(const NeighbourParams& p, void* const* ptr, int64_t row0) {
  const hn::ScalableTag<T> d;
  const T* const patches = static_cast<const T*>(ptr[1]);
  T* const out = static_cast<T*>(ptr[0]);
  for_each_segment(p, row0, hn::Lanes(d), [&](const Segment& s) HWY_ATTR {
    for (int64_t channel = 0; channel < p.channels; ++channel) {
      auto sum = hn::Zero(d);
      for (int k = 0; k < 9; ++k) {  // neighbour k's own neighbour 8 - k is this cell
        const int64_t row = s.row[2 - k / 3];
        if (row < 0) continue;
        const T* from = patches + (channel * 9 + k) * p.in_stride + row * p.width;
        sum = hn::Add(sum, load_beside(d, p, from, s, 1 - k % 3));
      }
      store_some(d, sum, out + channel * p.out_stride + s.cell, s.count);
    }
  });
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
