// Reduction kernels, generic over the op and the element type. Included again for every target.
//
// Three ways through an input: `Across` where a reduced axis is contiguous (a vector per output, then a transposing
// tree that finishes a vector of outputs at once), `Down` where a kept axis is (a vector of outputs at once), `Single`
// for the rest. All combine long ranges pairwise, by halves, in an order that depends on the sizes alone. Integers, of
// which any order gives the same, go by plain loops.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/cpu/kernel.h"
#include "backend/cpu/simd-inl.h"

#if defined(WINDROW_BACKEND_CPU_REDUCE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_REDUCE_INL_H
#undef WINDROW_BACKEND_CPU_REDUCE_INL_H
#else
#define WINDROW_BACKEND_CPU_REDUCE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ---- the ops ----

/// Unsigned integers wrap as vectors do; signed ones may not.
template <class T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <class T>
struct Sum {
  static constexpr T kIdentity = 0;
  HWY_INLINE static T combine(T a, T b) { return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b)); }
  HWY_INLINE static Simd<T> combine(Simd<T> a, Simd<T> b) { return a + b; }
};
template <class T>
struct Product {
  static constexpr T kIdentity = 1;
  HWY_INLINE static T combine(T a, T b) { return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b)); }
  HWY_INLINE static Simd<T> combine(Simd<T> a, Simd<T> b) { return a * b; }
};
template <class T>
struct Maximum {
  using Limits = std::numeric_limits<T>;
  static constexpr T kIdentity = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  HWY_INLINE static T combine(T a, T b) { return a > b || a != a ? a : b; }
  HWY_INLINE static Simd<T> combine(Simd<T> a, Simd<T> b) { return max(a, b); }
};
template <class T>
struct Minimum {
  using Limits = std::numeric_limits<T>;
  static constexpr T kIdentity = Limits::has_infinity ? Limits::infinity() : Limits::max();
  HWY_INLINE static T combine(T a, T b) { return a < b || a != a ? a : b; }
  HWY_INLINE static Simd<T> combine(Simd<T> a, Simd<T> b) { return min(a, b); }
};

// ---- walking over axes ----

/// A nest of loops, the last axis the innermost; `in` and `out` are strides.
struct Axes {
  int rank = 0;
  std::int64_t size[kMaxRank], in[kMaxRank], out[kMaxRank];

  void push(std::int64_t n, std::int64_t in_stride, std::int64_t out_stride) {
    size[rank] = n;
    in[rank] = in_stride;
    out[rank++] = out_stride;
  }
  void remove(int at) {
    for (int i = at + 1; i < rank; ++i) size[i - 1] = size[i], in[i - 1] = in[i], out[i - 1] = out[i];
    --rank;
  }
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= size[i];
    return n;
  }
};

/// A place in the nest; can start anywhere and goes on one by one.
struct Cursor {
  const Axes& axes;
  std::int64_t index[kMaxRank];
  std::int64_t in = 0, out = 0;

  HWY_NOINLINE explicit Cursor(const Axes& a, std::int64_t start = 0) : axes(a) {
    for (int i = axes.rank - 1; i >= 0; --i) {
      index[i] = start % axes.size[i];
      start /= axes.size[i];
      in += index[i] * axes.in[i];
      out += index[i] * axes.out[i];
    }
  }
  HWY_INLINE void next() {
    const int last = axes.rank - 1;
    if (last < 0) return;
    in += axes.in[last];
    out += axes.out[last];
    if (++index[last] == axes.size[last]) carry();
  }

 private:
  HWY_NOINLINE void carry() {
    for (int i = axes.rank - 1; index[i] == axes.size[i]; --i) {
      in -= index[i] * axes.in[i];
      out -= index[i] * axes.out[i];
      index[i] = 0;
      if (i == 0) return;
      in += axes.in[i - 1];
      out += axes.out[i - 1];
      ++index[i - 1];
    }
  }
};

// ---- what becomes of a reduced value ----

/// Stores the value, combined with the old one if the parameters say so.
template <class Op, class T>
struct KeepValue {
  static constexpr bool kNeedsInput = false;
  T* to;
  bool accumulate;

  HWY_INLINE void one(std::int64_t, std::int64_t out, T value) const {
    to[out] = accumulate ? Op::combine(to[out], value) : value;
  }
  HWY_INLINE void vector(std::int64_t, std::int64_t out, Simd<T> value, std::size_t n) const {
    const hn::ScalableTag<T> d;
    const bool whole = n == hn::Lanes(d);
    if (accumulate) value = Op::combine(Simd<T>(whole ? hn::LoadU(d, to + out) : load_first(d, to + out, n)), value);
    if (whole) {
      hn::StoreU(value.v, d, to + out);
    } else {
      store_first(d, value.v, to + out, n);
    }
  }
};

/// Stores where the value stands first among the elements it came from.
template <class Op, class T>
struct KeepPosition {
  static constexpr bool kNeedsInput = true;  // so a vector of values must come from neighbouring inputs
  std::int32_t* to;
  const T* from;
  const Axes& reduced;  // in row-major order, whatever order the value was computed in

  void one(std::int64_t in, std::int64_t out, T value) const {
    to[out] = static_cast<std::int32_t>(reduced.rank == 1 && reduced.in[0] == 1 ? first_in_run(from + in, value)
                                                                                : first_anywhere(from + in, value));
  }
  void vector(std::int64_t in, std::int64_t out, Simd<T> value, std::size_t n) const {
    const hn::ScalableTag<T> d;
    alignas(64) T values[hn::MaxLanes(hn::ScalableTag<T>())];
    hn::Store(value.v, d, values);
    for (std::size_t i = 0; i < n; ++i) {
      const auto lane = static_cast<std::int64_t>(i);
      one(in + lane, out + lane, values[i]);
    }
  }

 private:
  static bool same(T a, T b) { return a == b || (a != a && b != b); }

  HWY_NOINLINE std::int64_t first_in_run(const T* run, T value) const {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto target = hn::Set(d, value);
    const std::int64_t n = reduced.size[0];
    for (std::int64_t i = 0; i < n; i += lanes) {
      const auto v = n - i >= lanes ? hn::LoadU(d, run + i) : load_first(d, run + i, static_cast<std::size_t>(n - i));
      const auto hit = value != value ? hn::Not(hn::Eq(v, v)) : hn::Eq(v, target);  // NaN: the lanes that are NaN
      const auto at = hn::FindFirstTrue(d, hit);
      if (at >= 0 && i + at < n) return i + at;
    }
    return 0;
  }
  HWY_NOINLINE std::int64_t first_anywhere(const T* base, T value) const {
    const std::int64_t n = reduced.count();
    if (reduced.rank == 1) {
      for (std::int64_t i = 0; i < n; ++i)
        if (same(base[i * reduced.in[0]], value)) return i;
    }
    Cursor cursor(reduced);
    for (std::int64_t i = 0; i < n; ++i, cursor.next())
      if (same(base[cursor.in], value)) return i;
    return 0;
  }
};

// ---- across: a reduced axis is contiguous ----

template <class Op, class T>
struct Across {
  using V = Simd<T>;
  static constexpr hn::ScalableTag<T> d{};
  static constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  static constexpr std::int64_t kChunk = 1024;  // elements summed straight through

  const T* from;
  const Axes& outer;  // the reduced axes but the contiguous one
  std::int64_t run;   // length of that one
  std::int64_t chunks_a_run = (run + kChunk - 1) / kChunk;
  std::int64_t chunks = outer.count() * chunks_a_run;
  std::int64_t chunks_at_once = std::max<std::int64_t>(1, kChunk / run);

  HWY_INLINE static V load_part(const T* at, std::int64_t n) {
    V part = load_first(d, at, static_cast<std::size_t>(n));
    if (Op::kIdentity == T{0}) return part;
    return V(hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(n)), part.v, hn::Set(d, Op::kIdentity)));
  }

  struct Accumulators {
    V a, b, c, e;

    // Written out: an implicit constructor would not be compiled for the target.
    HWY_INLINE Accumulators() : a(hn::Set(d, Op::kIdentity)), b(a), c(a), e(a) {}
    HWY_INLINE void add(const T* at, std::int64_t n) {
      std::int64_t i = 0;
      for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
        a = Op::combine(a, V(hn::LoadU(d, at + i)));
        b = Op::combine(b, V(hn::LoadU(d, at + i + kLanes)));
        c = Op::combine(c, V(hn::LoadU(d, at + i + 2 * kLanes)));
        e = Op::combine(e, V(hn::LoadU(d, at + i + 3 * kLanes)));
      }
      for (; i + kLanes <= n; i += kLanes) a = Op::combine(a, V(hn::LoadU(d, at + i)));
      if (i < n) b = Op::combine(b, load_part(at + i, n - i));
    }
    HWY_INLINE V total() const { return Op::combine(Op::combine(a, b), Op::combine(c, e)); }
  };

  /// Chunks [first, last) straight through.
  HWY_NOINLINE V straight(const T* base, std::int64_t first, std::int64_t last) const {
    Accumulators sums;
    Cursor cursor(outer, first / chunks_a_run);
    for (std::int64_t chunk = first; chunk < last; ++chunk) {
      const std::int64_t start = chunks_a_run == 1 ? 0 : chunk % chunks_a_run * kChunk;
      sums.add(base + cursor.in + start, std::min(kChunk, run - start));
      if (start + kChunk >= run) cursor.next();
    }
    return sums.total();
  }

  HWY_NOINLINE V halves(const T* base, std::int64_t first, std::int64_t last) const {
    if (last - first <= chunks_at_once) return straight(base, first, last);
    const std::int64_t middle = first + (last - first) / 2;
    return Op::combine(halves(base, first, middle), halves(base, middle, last));
  }

  HWY_INLINE V all(const T* base) const {
    if (chunks > 1) return halves(base, 0, chunks);
    if (run < kLanes) return load_part(base, run);
    Accumulators sums;
    sums.add(base, run);
    return sums.total();
  }

  /// Combines neighbouring lanes of two vectors: those of `low` to the lower half, those of `high` to the upper.
  HWY_INLINE static V pairs(V low, V high) {
    return Op::combine(V(hn::ConcatEven(d, high.v, low.v)), V(hn::ConcatOdd(d, high.v, low.v)));
  }

  template <class Keep>
  static HWY_NOINLINE void run_all(const T* from, const Axes& kept, const Axes& outer, std::int64_t run,
                                   const Keep& keep) {
    const Across across{from, outer, run};
    const std::int64_t count = kept.count();
    Cursor cursor(kept);
    std::int64_t done = 0;
    for (; done < count;) {
      const std::int64_t group = std::min(kLanes, count - done);
      if (group > kLanes / 4) {
        across.finish_many(cursor, group, keep);
        done += group;
      } else {
        V v = across.all(from + cursor.in);
        for (std::int64_t width = kLanes; width > 1; width /= 2) v = pairs(v, v);
        keep.one(cursor.in, cursor.out, hn::GetLane(v.v));
        cursor.next();
        ++done;
      }
    }
  }

  /// As many outputs as a vector has lanes, by a tree that transposes as it combines.
  template <class Keep>
  HWY_INLINE void finish_many(Cursor& cursor, std::int64_t group, const Keep& keep) const {
    hn::Vec<hn::ScalableTag<T>> level[kLanes];
    std::int64_t in[kLanes], out[kLanes];
    bool neighbours = !Keep::kNeedsInput;
    for (std::int64_t r = 0; r < kLanes; ++r) {
      if (r < group) {
        in[r] = cursor.in;
        out[r] = cursor.out;
        neighbours &= out[r] == out[0] + r;
        level[r] = all(from + cursor.in).v;
        cursor.next();
      } else {
        level[r] = level[0];
      }
    }
#pragma GCC unroll 4
    for (std::int64_t width = kLanes / 2; width >= 1; width /= 2)
#pragma GCC unroll 8
      for (std::int64_t r = 0; r < width; ++r) level[r] = pairs(V(level[2 * r]), V(level[2 * r + 1])).v;
    if (neighbours) return keep.vector(in[0], out[0], V(level[0]), static_cast<std::size_t>(group));
    alignas(64) T values[kLanes];
    hn::Store(level[0], d, values);
    for (std::int64_t r = 0; r < group; ++r) keep.one(in[r], out[r], values[r]);
  }
};

// ---- down: a kept axis is contiguous ----

template <class Op, class T>
struct Down {
  using V = Simd<T>;
  static constexpr hn::ScalableTag<T> d{};
  static constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  static constexpr std::int64_t kStraight = 64;  // elements summed straight down

  const Axes& reduced;

  template <int kVectors>
  struct Block {
    hn::Vec<hn::ScalableTag<T>> v[kVectors];
  };

  template <int kVectors>
  HWY_INLINE static void load_block(const T* at, std::size_t n, Block<kVectors>& block) {
    if (kVectors == 1 && n < static_cast<std::size_t>(kLanes)) {
      block.v[0] = load_first(d, at, n);
    } else {
      for (int i = 0; i < kVectors; ++i) block.v[i] = hn::LoadU(d, at + i * kLanes);
    }
  }
  template <int kVectors>
  HWY_INLINE static void combine(Block<kVectors>& a, const Block<kVectors>& b) {
    for (int i = 0; i < kVectors; ++i) a.v[i] = Op::combine(V(a.v[i]), V(b.v[i])).v;
  }

  /// Rows at one stride. A single vector of columns is summed in four strands, lest each add wait for the one before.
  template <int kVectors>
  HWY_INLINE void straight_down(const T* at, std::size_t n, std::int64_t rows, Block<kVectors>& sum) const {
    const std::int64_t stride = reduced.in[0];
    Block<kVectors> total, next;
    load_block(at, n, total);
    std::int64_t r = 1;
    if (kVectors == 1 && rows >= 8) {
      Block<kVectors> strand[3];
      for (int i = 0; i < 3; ++i) load_block(at + (i + 1) * stride, n, strand[i]);
      for (r = 4; r + 4 <= rows; r += 4) {
        load_block(at + r * stride, n, next);
        combine(total, next);
        for (int i = 0; i < 3; ++i) {
          load_block(at + (r + i + 1) * stride, n, next);
          combine(strand[i], next);
        }
      }
      combine(total, strand[0]);
      combine(strand[1], strand[2]);
      combine(total, strand[1]);
    }
    for (; r < rows; ++r) {
      load_block(at + r * stride, n, next);
      combine(total, next);
    }
    sum = total;
  }

  /// Elements [first, last) of the reduced axes for kVectors vectors of columns.
  template <int kVectors>
  HWY_NOINLINE void halves(const T* base, std::size_t n, std::int64_t first, std::int64_t last,
                           Block<kVectors>& sum) const {
    if (last - first > kStraight) {
      const std::int64_t middle = first + (last - first) / 2;
      Block<kVectors> second;
      halves<kVectors>(base, n, first, middle, sum);
      halves<kVectors>(base, n, middle, last, second);
      return combine(sum, second);
    }
    if (reduced.rank == 1) return straight_down(base + first * reduced.in[0], n, last - first, sum);
    Cursor cursor(reduced, first);
    Block<kVectors> total, next;  // not the argument, which would live in memory
    load_block(base + cursor.in, n, total);
    for (std::int64_t i = first + 1; i < last; ++i) {
      cursor.next();
      load_block(base + cursor.in, n, next);
      combine(total, next);
    }
    sum = total;
  }

  /// Few columns and no gaps: several rows make a vector of columns, folded at the end.
  template <class Keep>
  static HWY_NOINLINE void run_packed(const T* from, std::int64_t columns, std::int64_t rows, const Keep& keep) {
    const std::int64_t pack = kLanes / columns;
    Axes packs;
    packs.push(rows / pack, kLanes, 0);
    Block<1> sum;
    Down{packs}.template halves<1>(from, kLanes, 0, rows / pack, sum);
    alignas(64) T lane[2 * kLanes];
    hn::Store(sum.v[0], d, lane);
    for (std::int64_t half = kLanes / 2; half >= columns; half /= 2)
      for (std::int64_t i = 0; i < half; ++i) lane[i] = Op::combine(lane[i], lane[i + half]);
    for (std::int64_t r = rows / pack * pack; r < rows; ++r)
      for (std::int64_t i = 0; i < columns; ++i) lane[i] = Op::combine(lane[i], from[r * columns + i]);
    for (std::int64_t i = 0; i < columns; ++i) keep.one(i, i, lane[i]);
  }

  template <class Keep>
  static HWY_NOINLINE void run_all(const T* from, const Axes& kept, std::int64_t columns, const Axes& reduced,
                                   const Keep& keep) {
    if (kept.count() == 1 && reduced.rank == 1 && reduced.in[0] == columns && kLanes % columns == 0 &&
        columns < kLanes && reduced.size[0] * columns >= 4 * kLanes)
      return run_packed(from, columns, reduced.size[0], keep);
    const Down down{reduced};
    const std::int64_t count = kept.count(), length = reduced.count();
    Cursor cursor(kept);
    for (std::int64_t r = 0; r < count; ++r, cursor.next()) {
      std::int64_t c = 0;
      for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
        Block<4> sum;
        down.template halves<4>(from + cursor.in + c, kLanes, 0, length, sum);
        for (int i = 0; i < 4; ++i)
          keep.vector(cursor.in + c + i * kLanes, cursor.out + c + i * kLanes, V(sum.v[i]), kLanes);
      }
      for (; c < columns; c += kLanes) {
        Block<1> sum;
        const auto n = static_cast<std::size_t>(std::min(kLanes, columns - c));
        down.template halves<1>(from + cursor.in + c, n, 0, length, sum);
        keep.vector(cursor.in + c, cursor.out + c, V(sum.v[0]), n);
      }
    }
  }
};

// ---- single: nothing is contiguous ----

template <class Op, class T>
struct Single {
  static T halves(const T* base, const Axes& reduced, std::int64_t first, std::int64_t last) {
    if (last - first > 64) {
      const std::int64_t middle = first + (last - first) / 2;
      const T low = halves(base, reduced, first, middle);
      return Op::combine(low, halves(base, reduced, middle, last));
    }
    T total = Op::kIdentity;
    Cursor cursor(reduced, first);
    for (std::int64_t i = first; i < last; ++i, cursor.next()) total = Op::combine(total, base[cursor.in]);
    return total;
  }

  template <class Keep>
  static void run_all(const T* from, const Axes& kept, const Axes& reduced, const Keep& keep) {
    const std::int64_t count = kept.count(), length = reduced.count();
    Cursor cursor(kept);
    for (std::int64_t r = 0; r < count; ++r, cursor.next()) {
      const T value = length ? halves(from + cursor.in, reduced, 0, length) : Op::kIdentity;
      keep.one(cursor.in, cursor.out, value);
    }
  }
};

// ---- integers ----

// Integers may be combined in any order, so plain loops do, which the compiler turns into vectors.

template <class Op, class T>
struct IntegersAcross {
  template <class Keep>
  static void run_all(const T* from, const Axes& kept, const Axes& outer, std::int64_t run, const Keep& keep) {
    const std::int64_t count = kept.count(), runs = outer.count();
    Cursor cursor(kept);
    for (std::int64_t r = 0; r < count; ++r, cursor.next()) {
      T total = Op::kIdentity;
      Cursor along(outer);
      for (std::int64_t k = 0; k < runs; ++k, along.next()) {
        const T* const at = from + cursor.in + along.in;
        for (std::int64_t i = 0; i < run; ++i) total = Op::combine(total, at[i]);
      }
      keep.one(cursor.in, cursor.out, total);
    }
  }
};

template <class Op, class T>
struct IntegersDown {
  static constexpr std::int64_t kColumns = 64;  // at a time

  template <class Keep>
  static void run_all(const T* from, const Axes& kept, std::int64_t columns, const Axes& reduced, const Keep& keep) {
    const std::int64_t count = kept.count(), length = reduced.count();
    Cursor cursor(kept);
    for (std::int64_t r = 0; r < count; ++r, cursor.next()) {
      for (std::int64_t c = 0; c < columns; c += kColumns) {
        const std::int64_t n = std::min(kColumns, columns - c);
        T total[kColumns];
        std::fill_n(total, n, Op::kIdentity);
        Cursor down(reduced);
        for (std::int64_t k = 0; k < length; ++k, down.next()) {
          const T* const at = from + cursor.in + c + down.in;
          for (std::int64_t i = 0; i < n; ++i) total[i] = Op::combine(total[i], at[i]);
        }
        for (std::int64_t i = 0; i < n; ++i) keep.one(cursor.in + c + i, cursor.out + c + i, total[i]);
      }
    }
  }
};

// ---- the choice ----

inline int find_contiguous(const Axes& axes, bool also_out) {
  for (int i = axes.rank - 1; i >= 0; --i)
    if (axes.in[i] == 1 && axes.size[i] > 1 && (!also_out || axes.out[i] == 1)) return i;
  return -1;
}

inline void read_axes(const ReduceParams& params, std::int64_t rows, Axes& kept, Axes& reduced) {
  for (int i = 0; i < params.kept; ++i)
    kept.push(i == 0 ? rows : params.kept_size[i], params.kept_in[i], params.kept_out[i]);
  for (int i = 0; i < params.reduced; ++i) reduced.push(params.reduced_size[i], params.reduced_in[i], 0);
}

template <class Op, class T, class Keep>
void reduce_with(const T* from, const Axes& kept, const Axes& reduced, const Keep& keep) {
  if (kept.count() <= 0) return;
  const int across = find_contiguous(reduced, false), down = find_contiguous(kept, true);
  if (reduced.count() > 0 && across >= 0) {
    Axes outer = reduced;
    outer.remove(across);
    using Way = std::conditional_t<std::is_integral_v<T>, IntegersAcross<Op, T>, Across<Op, T>>;
    return Way::run_all(from, kept, outer, reduced.size[across], keep);
  }
  if (reduced.count() > 0 && down >= 0) {
    Axes others = kept;
    others.remove(down);
    using Way = std::conditional_t<std::is_integral_v<T>, IntegersDown<Op, T>, Down<Op, T>>;
    return Way::run_all(from, others, kept.size[down], reduced, keep);
  }
  Single<Op, T>::run_all(from, kept, reduced, keep);
}

template <class Op, class T>
void reduce_kernel(const ReduceParams& params, void* const* ptr, std::int64_t rows) {
  Axes kept, reduced;
  read_axes(params, rows, kept, reduced);
  const KeepValue<Op, T> keep{static_cast<T*>(ptr[0]), params.accumulate};
  reduce_with<Op>(static_cast<const T*>(ptr[1]), kept, reduced, keep);
}

/// The extreme first, then where it stands: two simple passes over data that is in cache by then.
template <class Op, class T>
void position_kernel(const ReduceParams& params, void* const* ptr, std::int64_t rows) {
  Axes kept, reduced;
  read_axes(params, rows, kept, reduced);
  const auto* from = static_cast<const T*>(ptr[1]);
  const KeepPosition<Op, T> keep{static_cast<std::int32_t*>(ptr[0]), from, reduced};
  reduce_with<Op>(from, kept, reduced, keep);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
