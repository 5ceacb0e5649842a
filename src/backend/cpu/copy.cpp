// Copy and fill kernels. make_copy puts the axes into canonical form once; the kernels then have few cases to tell
// apart.
#include "backend/cpu/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/copy.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "backend/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using std::int64_t;

// Elements may be wider than their alignment (make_copy groups them), hence memcpy.
template <class T>
HWY_INLINE void move_one(T* dst, const T* src) {
  std::memcpy(dst, src, sizeof(T));
}

// One row of n elements. Rows are often short (channels, features), where a call of memcpy would dominate.
template <class T>
HWY_INLINE void copy_row(T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  if (n >= lanes) {
    if (n >= 16 * lanes) {
      std::memcpy(dst, src, n * sizeof(T));
      return;
    }
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, src + i), d, dst + i);
    if (i < n) hn::StoreU(hn::LoadU(d, src + n - lanes), d, dst + n - lanes);  // overlaps what is already there
    return;
  }
  const hn::CappedTag<T, 16 / sizeof(T)> d16;
  const int64_t lanes16 = hn::Lanes(d16);
  if (n >= lanes16) {
    int64_t i = 0;
    for (; i + lanes16 <= n; i += lanes16) hn::StoreU(hn::LoadU(d16, src + i), d16, dst + i);
    if (i < n) hn::StoreU(hn::LoadU(d16, src + n - lanes16), d16, dst + n - lanes16);
    return;
  }
  for (int64_t i = 0; i < n; ++i) move_one(dst + i, src + i);
}

template <class T>
HWY_INLINE void fill_row(T* dst, T value, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  if (n < lanes) {
    for (int64_t i = 0; i < n; ++i) move_one(dst + i, &value);
    return;
  }
  const auto v = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(v, d, dst + i);
  hn::StoreU(v, d, dst + n - lanes);
}

// Calls f(dst, src) for every index of all but the last `inner` axes.
template <class T, class F>
HWY_INLINE void walk(const CopyParams& p, int inner, T* dst, const T* src, F f) {
  const int outer = p.rank - inner;
  int64_t index[kMaxRank] = {};
  for (;;) {
    f(dst, src);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      dst += p.dst[axis], src += p.src[axis];
      if (++index[axis] < p.size[axis]) break;
      dst -= p.dst[axis] * p.size[axis], src -= p.src[axis] * p.size[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

template <class T>
T* start_of(void* ptr, int64_t offset) {
  return static_cast<T*>(ptr) + offset;
}
template <class T>
const T* source_of(const void* ptr, int64_t offset) {
  return static_cast<const T*>(ptr) + offset;
}

template <class T>
void copy_whole(const CopyParams& p, void* const* ptr, int64_t) {
  std::memcpy(start_of<T>(ptr[0], p.dst_offset), source_of<T>(ptr[1], p.src_offset), p.size[0] * sizeof(T));
}

template <class T>
void copy_rows(const CopyParams& p, void* const* ptr, int64_t) {
  const int axis = p.rank - 2;
  const int64_t rows = p.size[axis], n = p.size[axis + 1], dst_step = p.dst[axis], src_step = p.src[axis];
  walk(p, 2, start_of<T>(ptr[0], p.dst_offset), source_of<T>(ptr[1], p.src_offset),
       [=](T* HWY_RESTRICT dst, const T* HWY_RESTRICT src) HWY_ATTR {
         for (int64_t r = 0; r < rows; ++r) copy_row(dst + r * dst_step, src + r * src_step, n);
       });
}

template <class T>
void fill_region(const CopyParams& p, T* dst_base, const T* src_base) {
  const int axis = p.rank - 1;
  walk(p, 1, dst_base, src_base, [n = p.size[axis]](T* dst, const T* src) HWY_ATTR {
    T value;
    move_one(&value, src);
    fill_row(dst, value, n);
  });
}

template <class T>
void copy_broadcast(const CopyParams& p, void* const* ptr, int64_t) {
  fill_region(p, start_of<T>(ptr[0], p.dst_offset), source_of<T>(ptr[1], p.src_offset));
}

template <class T>
void copy_reverse(const CopyParams& p, void* const* ptr, int64_t) {
  const int axis = p.rank - 1;
  walk(p, 1, start_of<T>(ptr[0], p.dst_offset), source_of<T>(ptr[1], p.src_offset),
       [n = p.size[axis]](T* HWY_RESTRICT dst, const T* HWY_RESTRICT src) HWY_ATTR {
         const hn::ScalableTag<T> d;
         const int64_t lanes = hn::Lanes(d);
         int64_t i = 0;
         if constexpr (sizeof(T) >= 4)
           for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, src - i - lanes + 1)), d, dst + i);
         for (; i < n; ++i) move_one(dst + i, src - i);
       });
}

template <class T>
void strided_region(const CopyParams& p, T* dst_base, const T* src_base) {
  const int axis = p.rank - 1;
  walk(p, 1, dst_base, src_base,
       [n = p.size[axis], a = p.dst[axis], b = p.src[axis]](T* HWY_RESTRICT dst, const T* HWY_RESTRICT src) HWY_ATTR {
         for (int64_t i = 0; i < n; ++i) move_one(dst + i * a, src + i * b);
       });
}

template <class T>
void copy_strided(const CopyParams& p, void* const* ptr, int64_t) {
  strided_region(p, start_of<T>(ptr[0], p.dst_offset), source_of<T>(ptr[1], p.src_offset));
}

// Transposes one tile of kTile x kTile elements. Halves of two source rows are joined while loading, which costs no
// shuffle; what is left is 4x4 (4 bytes) or 2x2 (8 bytes) transposition inside 128-bit blocks. 512-bit vectors would
// need more shuffles on fewer ports.
template <class T>
inline constexpr int kTile = HWY_MAX_BYTES >= 32 ? 32 / sizeof(T) : 16 / sizeof(T);

template <class T>
using TileTag = hn::FixedTag<T, kTile<T>>;

template <class T>
HWY_INLINE hn::Vec<TileTag<T>> load_joined(const T* low, const T* high) {
  const TileTag<T> d;
  if constexpr (HWY_MAX_BYTES >= 32) {
    const hn::Half<TileTag<T>> half;
    return hn::Combine(d, hn::LoadU(half, high), hn::LoadU(half, low));
  } else {
    (void)high;
    return hn::LoadU(d, low);
  }
}

HWY_INLINE void transpose_tile(std::uint32_t* HWY_RESTRICT dst, int64_t dst_step, const std::uint32_t* HWY_RESTRICT src,
                               int64_t src_step) {
  const TileTag<std::uint32_t> d;
  const hn::RepartitionToWide<TileTag<std::uint32_t>> wide;
  const auto low64 = [=](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
  };
  const auto high64 = [=](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b)));
  };
  for (int column = 0; column < kTile<std::uint32_t>; column += 4) {
    const std::uint32_t* from = src + column;
    std::uint32_t* to = dst + column * dst_step;
    const auto v0 = load_joined(from, from + 4 * src_step);
    const auto v1 = load_joined(from + src_step, from + 5 * src_step);
    const auto v2 = load_joined(from + 2 * src_step, from + 6 * src_step);
    const auto v3 = load_joined(from + 3 * src_step, from + 7 * src_step);
    const auto t0 = hn::InterleaveLower(d, v0, v1), t1 = hn::InterleaveUpper(d, v0, v1);
    const auto t2 = hn::InterleaveLower(d, v2, v3), t3 = hn::InterleaveUpper(d, v2, v3);
    hn::StoreU(low64(t0, t2), d, to);
    hn::StoreU(high64(t0, t2), d, to + dst_step);
    hn::StoreU(low64(t1, t3), d, to + 2 * dst_step);
    hn::StoreU(high64(t1, t3), d, to + 3 * dst_step);
  }
}

HWY_INLINE void transpose_tile(std::uint64_t* HWY_RESTRICT dst, int64_t dst_step, const std::uint64_t* HWY_RESTRICT src,
                               int64_t src_step) {
  const TileTag<std::uint64_t> d;
  for (int column = 0; column < kTile<std::uint64_t>; column += 2) {
    const std::uint64_t* from = src + column;
    std::uint64_t* to = dst + column * dst_step;
    const auto v0 = load_joined(from, from + 2 * src_step);
    const auto v1 = load_joined(from + src_step, from + 3 * src_step);
    hn::StoreU(hn::InterleaveLower(d, v0, v1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, v0, v1), d, to + dst_step);
  }
}

template <class T>
HWY_INLINE void transpose_plain(T* HWY_RESTRICT dst, int64_t dst_step, const T* HWY_RESTRICT src, int64_t src_step,
                                int64_t n, int64_t m) {
  constexpr int64_t kBlock = 16;  // as many source rows as stay in L1 while their columns are walked
  for (int64_t i0 = 0; i0 < n; i0 += kBlock) {
    const int64_t i1 = std::min(n, i0 + kBlock);
    for (int64_t j = 0; j < m; ++j)
      for (int64_t i = i0; i < i1; ++i) move_one(dst + j * dst_step + i, src + i * src_step + j);
  }
}

// dst[j * dst_step + i] = src[i * src_step + j] for i < n, j < m.
template <class T>
HWY_INLINE void transpose(T* HWY_RESTRICT dst, int64_t dst_step, const T* HWY_RESTRICT src, int64_t src_step, int64_t n,
                          int64_t m) {
  if constexpr (sizeof(T) >= 4) {
    constexpr int64_t kSide = kTile<T>;
    // As many columns as a cache line holds are taken together: rows a power of two apart share few L1 sets, so that a
    // line would not stay until the columns beside come round.
    constexpr int64_t kLine = 64 / sizeof(T);
    if (n >= kSide && m >= kSide) {
      for (int64_t j0 = 0; j0 < m; j0 += kLine)
        for (int64_t i0 = 0; i0 < n; i0 += kSide)
          for (int64_t j1 = j0; j1 < std::min(m, j0 + kLine); j1 += kSide) {
            // The last tile of a row or column is moved back to end at the edge: it repeats some elements.
            const int64_t i = std::min(i0, n - kSide), j = std::min(j1, m - kSide);
            transpose_tile(dst + j * dst_step + i, dst_step, src + i * src_step + j, src_step);
          }
      return;
    }
  }
  transpose_plain(dst, dst_step, src, src_step, n, m);
}

template <class T>
void copy_transpose(const CopyParams& p, void* const* ptr, int64_t) {
  const int axis = p.rank - 2;
  const int64_t m = p.size[axis], n = p.size[axis + 1], dst_step = p.dst[axis], src_step = p.src[axis + 1];
  walk(p, 2, start_of<T>(ptr[0], p.dst_offset), source_of<T>(ptr[1], p.src_offset),
       [=](T* dst, const T* src) HWY_ATTR { transpose(dst, dst_step, src, src_step, n, m); });
}

void copy_nothing(const CopyParams&, void* const*, int64_t) {}
void fill_nothing(const FillParams&, void* const*, int64_t) {}

template <class T>
void fill_contiguous(const FillParams& p, void* const* ptr, int64_t) {
  fill_region(p.region, start_of<T>(ptr[0], p.region.dst_offset), source_of<T>(p.value, 0));
}
template <class T>
void fill_strided(const FillParams& p, void* const* ptr, int64_t) {
  strided_region(p.region, start_of<T>(ptr[0], p.region.dst_offset), source_of<T>(p.value, 0));
}

template <class T>
CopyKernel find_copy_of(const CopyParams& p) {
  switch (p.kind) {
    case CopyKind::nothing:
      return copy_nothing;
    case CopyKind::rows:
      return p.rank == 1 ? copy_whole<T> : copy_rows<T>;
    case CopyKind::broadcast:
      return copy_broadcast<T>;
    case CopyKind::reverse:
      return copy_reverse<T>;
    case CopyKind::transpose:
      return copy_transpose<T>;
    case CopyKind::strided:
      return copy_strided<T>;
  }
  return nullptr;
}

template <class T>
FillKernel find_fill_of(const FillParams& p) {
  if (p.region.kind == CopyKind::nothing) return fill_nothing;
  return p.region.kind == CopyKind::broadcast ? fill_contiguous<T> : fill_strided<T>;
}

}  // namespace

CopyKernel find_copy(const CopyParams& p) {
  return p.elem_size == 1   ? find_copy_of<std::uint8_t>(p)
         : p.elem_size == 4 ? find_copy_of<std::uint32_t>(p)
                            : find_copy_of<std::uint64_t>(p);
}
FillKernel find_fill(const FillParams& p) {
  return p.region.elem_size == 1   ? find_fill_of<std::uint8_t>(p)
         : p.region.elem_size == 4 ? find_fill_of<std::uint32_t>(p)
                                   : find_fill_of<std::uint64_t>(p);
}

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {
namespace {

void erase_axis(CopyParams& p, int axis) {
  --p.rank;
  for (int i = axis; i < p.rank; ++i) p.size[i] = p.size[i + 1], p.dst[i] = p.dst[i + 1], p.src[i] = p.src[i + 1];
}

void swap_axes(CopyParams& p, int a, int b) {
  std::swap(p.size[a], p.size[b]);
  std::swap(p.dst[a], p.dst[b]);
  std::swap(p.src[a], p.src[b]);
}

void sort_and_merge(CopyParams& p) {
  for (int i = 1; i < p.rank; ++i)
    for (int j = i; j > 0 && p.dst[j - 1] < p.dst[j]; --j) swap_axes(p, j - 1, j);
  for (int i = p.rank - 1; i > 0; --i) {
    if (p.dst[i - 1] != p.dst[i] * p.size[i] || p.src[i - 1] != p.src[i] * p.size[i]) continue;
    p.size[i - 1] *= p.size[i], p.dst[i - 1] = p.dst[i], p.src[i - 1] = p.src[i];
    erase_axis(p, i);
  }
}

// Where elements move in contiguous groups of 4 or 8 bytes, a group is one element of that size: the shuffles of a
// transposition then work on it too. Returns whether anything changed.
bool widen(CopyParams& p) {
  const int last = p.rank - 1;
  if (p.rank < 2 || p.dst[last] != 1 || p.src[last] != 1) return false;
  const std::int64_t group = p.size[last], bytes = group * p.elem_size;
  if (bytes != 4 && bytes != 8) return false;
  for (int i = 0; i < last; ++i)
    if (p.dst[i] % group || p.src[i] % group) return false;
  if (p.dst_offset % group || p.src_offset % group) return false;
  for (int i = 0; i < last; ++i) p.dst[i] /= group, p.src[i] /= group;
  p.dst_offset /= group, p.src_offset /= group;
  p.elem_size = static_cast<int>(bytes);
  p.rank = last;
  return true;
}

CopyKind classify(CopyParams& p) {
  const int last = p.rank - 1;
  if (p.dst[last] != 1) return CopyKind::strided;
  if (p.src[last] == 1) return CopyKind::rows;
  if (p.src[last] == 0) return CopyKind::broadcast;
  if (p.src[last] == -1) return CopyKind::reverse;
  for (int i = last - 1; i >= 0; --i) {
    if (p.src[i] != 1) continue;
    for (; i < last - 1; ++i) swap_axes(p, i, i + 1);
    return CopyKind::transpose;
  }
  return CopyKind::strided;
}

}  // namespace

CopyParams make_copy(const Dims& dims, const Strides& dst_strides, const Strides& src_strides, int elem_size) {
  CopyParams p;
  p.elem_size = elem_size;
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] == 0) return p;
    if (dims[i] == 1) continue;
    const bool flip = dst_strides[i] < 0;
    if (flip) p.dst_offset += dst_strides[i] * (dims[i] - 1), p.src_offset += src_strides[i] * (dims[i] - 1);
    p.size[p.rank] = dims[i];
    p.dst[p.rank] = flip ? -dst_strides[i] : dst_strides[i];
    p.src[p.rank] = flip ? -src_strides[i] : src_strides[i];
    ++p.rank;
  }
  sort_and_merge(p);
  if (p.rank == 0) p.rank = 1, p.size[0] = p.dst[0] = p.src[0] = 1;
  if (widen(p)) sort_and_merge(p);
  p.kind = classify(p);
  return p;
}

CopyKernel find_copy(const CopyParams& params, Target target) {
  WINDROW_RETURN_FOR(target, find_copy(params))
  return nullptr;
}

FillParams make_fill(const Dims& dims, const Strides& dst_strides, int elem_size, const void* value) {
  FillParams p;
  p.region = make_copy(dims, dst_strides, Strides(dims.rank(), 0), elem_size);
  if (p.region.rank == 1 && p.region.size[0] == 1) p.region.src[0] = 0, p.region.kind = CopyKind::broadcast;
  std::memcpy(p.value, value, elem_size);
  return p;
}

FillKernel find_fill(const FillParams& params, Target target) {
  WINDROW_RETURN_FOR(target, find_fill(params))
  return nullptr;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
