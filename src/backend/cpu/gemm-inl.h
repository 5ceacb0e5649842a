// The parts that matrix product kernels are made of: the register tile, packing of operands, cutting sizes into strips
// and panels. Included again for every target. Uses only gemm_kernel.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/gemm_kernel.h"

#if defined(WINDROW_BACKEND_CPU_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_GEMM_INL_H
#undef WINDROW_BACKEND_CPU_GEMM_INL_H
#else
#define WINDROW_BACKEND_CPU_GEMM_INL_H
#endif

// A loop over accumulators must vanish entirely, or the compiler keeps them in memory.
#undef WR_UNROLL
#define WR_UNROLL _Pragma("GCC unroll 16")

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using i64 = std::int64_t;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
constexpr i64 kLanes = static_cast<i64>(hn::MaxLanes(Tag<T>()));

template <class T>
constexpr i64 kBlock = 16 / sizeof(T);  // lanes in 128 bits, within which interleaving works

// Accumulators, the row of B and one broadcast of A must fit the register file: 32 registers on AVX-512 and on
// NEON, else 16.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_TARGET == HWY_NEON;
constexpr int kMaxVectors = kManyRegisters ? 3 : 2;
constexpr int kMaxRows[3] = {kManyRegisters ? 14 : 8, kManyRegisters ? 12 : 6,
                             kManyRegisters ? 8 : 4};  // by vectors - 1
constexpr int kTallest = kMaxRows[0];

// Stores the first `count` lanes, fewer than there are: in halves. A masked store takes some twenty cycles on AMD
// before AVX-512, and touches memory beyond the lanes before AVX2.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D, hn::Vec<D> v, i64 count, T* p) {
  constexpr i64 lanes = hn::MaxLanes(D());
  if constexpr (lanes > 1) {
    const hn::Half<D> half;
    if (count >= lanes / 2) {
      hn::StoreU(hn::LowerHalf(half, v), half, p);
      store_first(half, hn::UpperHalf(half, v), count - lanes / 2, p + lanes / 2);
    } else {
      store_first(half, hn::LowerHalf(half, v), count, p);
    }
  }
}

// Loads and stores only the first lanes of a vector, the rest being zero. Never touches memory beyond them, which
// masked operations before AVX2 do.
template <class T>
struct FirstLanes {
  using V = hn::Vec<Tag<T>>;
#if HWY_TARGET > HWY_AVX2
  explicit FirstLanes(i64 lanes) : count(lanes) {}
  V load(const T* p) const {
    HWY_ALIGN T lanes[kLanes<T>] = {};
    WR_UNROLL for (i64 i = 0; i < kLanes<T>; ++i) if (i < count) lanes[i] = p[i];
    return hn::Load(Tag<T>(), lanes);
  }
#else
  // The masked byte tells the compiler that the count fits, which spares it a branch.
  explicit FirstLanes(i64 lanes) : count(lanes), mask(hn::FirstN(Tag<T>(), static_cast<size_t>(lanes & 0xff))) {}
  V load(const T* p) const { return hn::MaskedLoad(mask, Tag<T>(), p); }
#endif
  void store(V v, T* p) const {
#if HWY_TARGET <= HWY_AVX3
    hn::BlendedStore(v, mask, Tag<T>(), p);
#else
    store_first(Tag<T>(), v, count, p);
#endif
  }
  i64 count;
#if HWY_TARGET <= HWY_AVX2
  hn::Mask<Tag<T>> mask;
#endif
};

// ---- the register tile ----

// What a tile does with B: reads it (padded to whole vectors, or with a partial last one), or also copies it, padded.
enum class Form { plain, tail, keep, keep_tail };

// C[Rows, Vectors] (+)= A . B with all of C in registers.
template <class T, int Rows, int Vectors, Form form>
HWY_NOINLINE void run_tile(const Tile<T>& tile) {
  constexpr bool Tail = form == Form::tail || form == Form::keep_tail;
  constexpr bool Keep = form == Form::keep || form == Form::keep_tail;
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  constexpr i64 N = kLanes<T>;
  const T* HWY_RESTRICT b = tile.b;
  T* HWY_RESTRICT c = tile.c;
  T* HWY_RESTRICT copy = tile.copy;
  const i64 a_row = tile.a_row, a_col = tile.a_col, b_row = tile.b_row, c_row = tile.c_row;
  const FirstLanes<T> last(tile.last);

  V sum[Rows][Vectors];
  WR_UNROLL for (int i = 0; i < Rows; ++i) { WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::Zero(d); }
  for (i64 group = 0, segment = 0; group < tile.groups;) {
    const T* HWY_RESTRICT a = tile.a + group * tile.a_group + segment * tile.a_segment;
    for (i64 k = tile.k; k > 0; --k) {
      V row[Vectors];
      WR_UNROLL for (int j = 0; j < Vectors; ++j) {
        row[j] = Tail && j == Vectors - 1 ? last.load(b + j * N) : hn::LoadU(d, b + j * N);
      }
      if constexpr (Keep) {
        hwy::Prefetch(b + Vectors * N);  // the next panel comes while this one is used
        WR_UNROLL for (int j = 0; j < Vectors; ++j) hn::StoreU(row[j], d, copy + j * N);
        copy += Vectors * N;
      }
      WR_UNROLL for (int i = 0; i < Rows; ++i) {
        const V x = hn::Set(d, a[i * a_row]);
        WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::MulAdd(x, row[j], sum[i][j]);
      }
      a += a_col;
      b += b_row;
    }
    if (++segment == tile.segments) segment = 0, ++group;
  }
  const bool partial = tile.last != N;
  if (tile.accumulate) {
    const T* from = c;
    WR_UNROLL for (int i = 0; i < Rows; ++i, from += c_row) {
      WR_UNROLL for (int j = 0; j < Vectors; ++j) {
        const V old = j == Vectors - 1 && partial ? last.load(from + j * N) : hn::LoadU(d, from + j * N);
        sum[i][j] = hn::Add(sum[i][j], old);
      }
    }
  }
  WR_UNROLL for (int i = 0; i < Rows; ++i, c += c_row) {
    WR_UNROLL for (int j = 0; j < Vectors; ++j) {
      if (j == Vectors - 1 && partial) {
        last.store(sum[i][j], c + j * N);
      } else {
        hn::StoreU(sum[i][j], d, c + j * N);
      }
    }
  }
}

template <class T, int Vectors, Form form, int... Row>
constexpr std::array<TileFunction<T>, kTallest> tile_row(std::integer_sequence<int, Row...>) {
  return {run_tile<T, Row + 1, Vectors, form>...};
}
template <class T, int Vectors, Form form>
constexpr auto tiles_of = tile_row<T, Vectors, form>(std::make_integer_sequence<int, kMaxRows[Vectors - 1]>());

template <class T, Form form>
TileFunction<T> tile_function(i64 rows, i64 vectors) {
  const auto at = static_cast<size_t>(rows - 1);
  if (vectors == 1) return tiles_of<T, 1, form>[at];
  if (vectors == 2) return tiles_of<T, 2, form>[at];
  return tiles_of<T, 3, form>[at];
}

// ---- packing ----

// One vector whose 128-bit blocks come from lines a block's lanes apart.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* p, i64 line) {
  constexpr i64 lanes = hn::MaxLanes(D());
  if constexpr (lanes == kBlock<T>) {
    return hn::LoadU(d, p);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, p + lanes / 2 * line, line), load_blocks(half, p, line));
  }
}

// Transposes the 4x4 (f32) or 2x2 (f64) matrices that lie across the 128-bit blocks of v[].
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D>* v) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const auto low = hn::InterleaveLower(d, v[0], v[1]), high = hn::InterleaveUpper(d, v[0], v[1]);
    v[0] = low, v[1] = high;
  } else {
    const hn::Repartition<double, D> pairs;
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1]));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1]));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3]));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
    v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
    v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
    v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
    v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
  }
}

// out[k][w] (+)= in[w*line + k] for as many lanes of w as d has.
template <bool Add = false, class D, class T = hn::TFromD<D>>
HWY_INLINE void transpose_strip(D d, const T* HWY_RESTRICT in, i64 line, i64 k, T* HWY_RESTRICT out, i64 padded) {
  constexpr i64 block = kBlock<T>;
  i64 at = 0;
  for (; at + block <= k; at += block) {
    hn::Vec<D> v[block];
    WR_UNROLL for (i64 r = 0; r < block; ++r) v[r] = load_blocks(d, in + r * line + at, line);
    transpose_blocks(d, v);
    WR_UNROLL for (i64 r = 0; r < block; ++r) {
      T* const to = out + (at + r) * padded;
      if constexpr (Add) v[r] = hn::Add(v[r], hn::LoadU(d, to));
      hn::StoreU(v[r], d, to);
    }
  }
  for (; at < k; ++at) {
    for (i64 w = 0; w < static_cast<i64>(hn::MaxLanes(D())); ++w) {
      T& to = out[at * padded + w];
      to = Add ? to + in[w * line + at] : in[w * line + at];
    }
  }
}

// out[k][w] (+)= in[w*line + k] for w < width.
template <bool Add, class T>
void transpose(const T* in, i64 line, i64 width, i64 k, T* out, i64 out_line) {
  i64 w = 0;
  for (; w + kLanes<T> <= width; w += kLanes<T>)
    transpose_strip<Add>(Tag<T>(), in + w * line, line, k, out + w, out_line);
  for (; w + kBlock<T> <= width; w += kBlock<T>)
    transpose_strip<Add>(hn::FixedTag<T, kBlock<T>>(), in + w * line, line, k, out + w, out_line);
  for (i64 at = 0; w < width && at < k; ++at) {
    for (i64 i = w; i < width; ++i) {
      T& to = out[at * out_line + i];
      to = Add ? to + in[i * line + at] : in[i * line + at];
    }
  }
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE i64 copy_vectors(D d, const T* HWY_RESTRICT in, i64 at, i64 width, T* HWY_RESTRICT out) {
  constexpr i64 lanes = hn::MaxLanes(D());
  for (; at + lanes <= width; at += lanes) hn::StoreU(hn::LoadU(d, in + at), d, out + at);
  return at;
}

template <class T>
HWY_INLINE void copy_line(const T* HWY_RESTRICT in, i64 width, T* HWY_RESTRICT out, i64 padded) {
  i64 at = copy_vectors(Tag<T>(), in, 0, width, out);
  at = copy_vectors(hn::FixedTag<T, kBlock<T>>(), in, at, width, out);
  for (; at < width; ++at) out[at] = in[at];
  for (; at < padded; ++at) out[at] = T(0);
}

template <class T>
void pack(const T* in, i64 in_w, i64 in_k, i64 width, i64 k, T* out, i64 padded) {
  if (in_w == 1) {
    for (i64 at = 0; at < k; ++at) copy_line(in + at * in_k, width, out + at * padded, padded);
    return;
  }
  i64 w = 0;
  if (in_k == 1) {
    for (; w + kLanes<T> <= width; w += kLanes<T>) transpose_strip(Tag<T>(), in + w * in_w, in_w, k, out + w, padded);
    for (; w + kBlock<T> <= width; w += kBlock<T>)
      transpose_strip(hn::FixedTag<T, kBlock<T>>(), in + w * in_w, in_w, k, out + w, padded);
  }
  for (i64 at = 0; w < padded && at < k; ++at) {
    for (i64 i = w; i < padded; ++i) out[at * padded + i] = i < width ? in[i * in_w + at * in_k] : T(0);
  }
}

// Packs a block: the panel that begins at column w is out[w*k ..], k lines as long as the panel is wide.
template <class T>
void pack_block(const T* in, i64 in_w, i64 in_k, const Panels& panels, i64 k, T* out) {
  if (in_w != 1) {
    for (i64 p = 0, w = 0; p < panels.count(); w += panels.width(p++))
      pack(in + w * in_w, in_w, in_k, std::min(panels.width(p), panels.size - w), k, out + w * k, panels.width(p));
    return;
  }
  // Along the lines of `in`: panel by panel would touch a page for every few elements.
  for (i64 at = 0; at < k; ++at, in += in_k) {
    for (i64 p = 0, w = 0; p < panels.count(); w += panels.width(p++)) {
      const i64 width = panels.width(p);
      copy_line(in + w, std::min(width, panels.size - w), out + w * k + at * width, width);
    }
  }
}

// Packs a strip of A: row r is out[r], k of them `rows` apart. Of the `all` rows that A has from here on, those that
// share a vector are read too, and up to a vector is written beyond the end.
template <class T>
void pack_strip(const T* in, i64 in_row, i64 in_col, i64 rows, i64 all, i64 k, T* out) {
  constexpr i64 N = kLanes<T>;
  const Tag<T> d;
  if (in_row == 1 && (rows + N - 1) / N * N <= all) {  // the next row covers what is too much
    for (i64 at = 0; at < k; ++at, out += rows, in += in_col)
      for (i64 r = 0; r < rows; r += N) hn::StoreU(hn::LoadU(d, in + r), d, out + r);
  } else {
    for (i64 at = 0; at < k; ++at, in += in_col)
      for (i64 r = 0; r < rows; ++r) *out++ = in[r * in_row];
  }
}

// Packs all strips of a block of A, one behind the other.
template <class T>
void pack_strips(const T* in, i64 in_row, i64 in_col, const Panels& strips, i64 k, T* out) {
  for (i64 s = 0, i = 0; s < strips.count(); i += strips.width(s++))
    pack_strip(in + i * in_row, in_row, in_col, strips.width(s), strips.size - i, k, out + i * k);
}

}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
