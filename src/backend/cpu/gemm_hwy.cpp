// Matrix multiplication kernels written with Highway, compiled once for each SIMD target: register tiles over plain or
// packed operands, row vector times matrix, dot products. What each is for: docs/gemm.md. Uses only gemm_kernel.h.
#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/gemm_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_hwy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/cache_control.h>
#include <hwy/highway.h>

// A loop over accumulators must vanish entirely, or the compiler keeps them in memory.
#define WR_UNROLL _Pragma("GCC unroll 16")

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using i64 = std::int64_t;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
constexpr i64 kLanes = static_cast<i64>(hn::MaxLanes(Tag<T>()));

template <class T>
constexpr i64 kBlock = 16 / sizeof(T);  // lanes in 128 bits, within which interleaving works

// Accumulators, the row of B and one broadcast of A must fit the register file: 32 registers on AVX-512, else 16.
constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
constexpr int kMaxVectors = kManyRegisters ? 3 : 2;
constexpr int kMaxRows[3] = {kManyRegisters ? 14 : 8, kManyRegisters ? 12 : 6, 8};  // by vectors in a row, less one
constexpr int kTallest = kMaxRows[0];
constexpr int kDotRows = kManyRegisters ? 4 : 2;
constexpr int kDotColumns = 8;  // with one row; with more, half

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
  void store(V v, T* p) const {
    HWY_ALIGN T lanes[kLanes<T>];
    hn::Store(v, Tag<T>(), lanes);
    for (i64 i = 0; i < count; ++i) p[i] = lanes[i];
  }
  i64 count;
#else
  // The masked byte tells the compiler that the count fits, which spares it a branch.
  explicit FirstLanes(i64 lanes) : mask(hn::FirstN(Tag<T>(), static_cast<size_t>(lanes & 0xff))) {}
  V load(const T* p) const { return hn::MaskedLoad(mask, Tag<T>(), p); }
  void store(V v, T* p) const { hn::BlendedStore(v, mask, Tag<T>(), p); }
  hn::Mask<Tag<T>> mask;
#endif
};

// Cuts `size` into as few parts of at most `most` as possible, equal but for one: 33 rows are 7 7 7 6 6, not 8 8 8 8 1.
struct Parts {
  Parts(i64 size, i64 most) : count((size + most - 1) / most), base(size / count), longer(size % count) {}
  i64 count, base, longer;
  i64 length(i64 part) const { return base + (part < longer); }
};

// ---- the register tile ----------------------------------------------------------------------------------------------

template <class T>
struct Tile {
  const T* a = nullptr;
  i64 a_row = 0, a_col = 0;
  const T* b = nullptr;
  i64 b_row = 0;
  T* c = nullptr;
  i64 c_row = 0;
  i64 k = 0;
  i64 last = 0;  // lanes of the last vector of a row that are columns of C
  bool accumulate = false;
};

// C[Rows, Vectors] (+)= A . B with all of C in registers. Tail: the last vector of a row is partial.
template <class T, int Rows, int Vectors, bool Tail>
HWY_NOINLINE void run_tile(const Tile<T>& tile) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  constexpr i64 N = kLanes<T>;
  const T* HWY_RESTRICT a = tile.a;
  const T* HWY_RESTRICT b = tile.b;
  T* HWY_RESTRICT c = tile.c;
  const i64 a_row = tile.a_row, a_col = tile.a_col, b_row = tile.b_row, c_row = tile.c_row;
  const FirstLanes<T> last(tile.last);

  V sum[Rows][Vectors];
  WR_UNROLL for (int i = 0; i < Rows; ++i) { WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::Zero(d); }
  for (i64 k = tile.k; k > 0; --k) {
    V row[Vectors];
    WR_UNROLL for (int j = 0; j < Vectors; ++j) {
      row[j] = Tail && j == Vectors - 1 ? last.load(b + j * N) : hn::LoadU(d, b + j * N);
    }
    WR_UNROLL for (int i = 0; i < Rows; ++i) {
      const V x = hn::Set(d, a[i * a_row]);
      WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = hn::MulAdd(x, row[j], sum[i][j]);
    }
    a += a_col;
    b += b_row;
  }
  if (tile.accumulate) {
    const T* from = c;
    WR_UNROLL for (int i = 0; i < Rows; ++i, from += c_row) {
      WR_UNROLL for (int j = 0; j < Vectors; ++j) {
        const V old = Tail && j == Vectors - 1 ? last.load(from + j * N) : hn::LoadU(d, from + j * N);
        sum[i][j] = hn::Add(sum[i][j], old);
      }
    }
  }
  WR_UNROLL for (int i = 0; i < Rows; ++i, c += c_row) {
    WR_UNROLL for (int j = 0; j < Vectors; ++j) {
      if (Tail && j == Vectors - 1) {
        last.store(sum[i][j], c + j * N);
      } else {
        hn::StoreU(sum[i][j], d, c + j * N);
      }
    }
  }
}

template <class T>
using TileFunction = void (*)(const Tile<T>&);

template <class T, int Vectors, bool Tail, int... Row>
constexpr std::array<TileFunction<T>, kTallest> tile_row(std::integer_sequence<int, Row...>) {
  return {run_tile<T, Row + 1, Vectors, Tail>...};
}
template <class T, int Vectors, bool Tail>
constexpr auto tiles_of = tile_row<T, Vectors, Tail>(std::make_integer_sequence<int, kMaxRows[Vectors - 1]>());

template <class T>
TileFunction<T> tile_function(i64 rows, i64 vectors, bool tail) {
  const auto at = static_cast<size_t>(rows - 1);
  if (vectors == 1) return tail ? tiles_of<T, 1, true>[at] : tiles_of<T, 1, false>[at];
  if (vectors == 2) return tail ? tiles_of<T, 2, true>[at] : tiles_of<T, 2, false>[at];
  if constexpr (kMaxVectors == 3) return tail ? tiles_of<T, 3, true>[at] : tiles_of<T, 3, false>[at];
  return nullptr;
}

// ---- packing --------------------------------------------------------------------------------------------------------

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

// out[k][w] = in[w*line + k] for as many lanes of w as d has.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void transpose_strip(D d, const T* HWY_RESTRICT in, i64 line, i64 k, T* HWY_RESTRICT out, i64 padded) {
  constexpr i64 block = kBlock<T>;
  i64 at = 0;
  for (; at + block <= k; at += block) {
    hn::Vec<D> v[block];
    WR_UNROLL for (i64 r = 0; r < block; ++r) v[r] = load_blocks(d, in + r * line + at, line);
    transpose_blocks(d, v);
    WR_UNROLL for (i64 r = 0; r < block; ++r) hn::StoreU(v[r], d, out + (at + r) * padded);
  }
  for (; at < k; ++at) {
    for (i64 w = 0; w < static_cast<i64>(hn::MaxLanes(D())); ++w) out[at * padded + w] = in[w * line + at];
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

// The strips of rows or panels of columns that tiles take: as few as registers allow, nearly equal.
struct Panels {
  Panels(i64 whole, i64 step, i64 most) : size(whole), unit(step), parts((whole + step - 1) / step, most) {}
  i64 size, unit;
  Parts parts;
  i64 count() const { return parts.count; }
  i64 width(i64 panel) const { return parts.length(panel) * unit; }
};

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

// ---- drivers --------------------------------------------------------------------------------------------------------

template <class T>
Panels column_panels(i64 n) {
  return {n, kLanes<T>, kMaxVectors};
}
template <class T>
Panels row_strips(i64 m, const Panels& columns) {
  return {m, 1, kMaxRows[columns.parts.length(0) - 1]};
}

// One strip of rows of C, all its column panels. `tile` has A and C, at the first column. Packed B has no b_row.
template <class T>
void multiply_strip(Tile<T> tile, i64 rows, const T* b, i64 b_row, const Panels& columns) {
  constexpr i64 N = kLanes<T>;
  T* const c = tile.c;
  for (i64 p = 0, j = 0; p < columns.count(); j += columns.width(p++)) {
    const i64 width = columns.width(p), vectors = width / N, here = std::min(width, columns.size - j);
    tile.b = b + (b_row ? j : j * tile.k);
    tile.b_row = b_row ? b_row : width;
    tile.c = c + j;
    tile.last = here - (vectors - 1) * N;
    if (!b_row) {  // a large C is not in cache, and is needed only after the tile's loop
      for (i64 i = 0; i < rows; ++i)
        for (i64 v = 0; v < vectors; ++v) hwy::Prefetch(tile.c + i * tile.c_row + v * N);
    }
    tile_function<T>(rows, vectors, here != width)(tile);
  }
}

// B as it lies. A strip of A stays in the first-level cache while B streams by from the second.
template <class T>
void run_direct(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void*) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const T* a = static_cast<const T*>(a_in);
  const T* b = static_cast<const T*>(b_in);
  T* c = static_cast<T*>(c_in);
  const Panels columns = column_panels<T>(s.n), strips = row_strips<T>(s.m, columns);
  const Parts blocks(s.k, gemm.k_block);
  for (i64 block = 0, k = 0; block < blocks.count; k += blocks.length(block++)) {
    for (i64 strip = 0, i = 0; strip < strips.count(); i += strips.width(strip++)) {
      multiply_strip<T>({.a = a + i * s.a_row + k * s.a_col,
                         .a_row = s.a_row,
                         .a_col = s.a_col,
                         .c = c + i * s.c_row,
                         .c_row = s.c_row,
                         .k = blocks.length(block),
                         .accumulate = s.accumulate || block > 0},
                        strips.width(strip), b + k * s.b_row, s.b_row, columns);
    }
  }
}

template <class T>
void spread(const T* from, i64 rows, i64 columns, T* c, i64 c_row, i64 c_col, bool accumulate) {
  for (i64 i = 0; i < rows; ++i) {
    for (i64 j = 0; j < columns; ++j) {
      T& to = c[i * c_row + j * c_col];
      to = accumulate ? to + from[i * columns + j] : from[i * columns + j];
    }
  }
}

// Large matrices and strided ones: blocks of B are packed in the order the tiles read and stay in the second-level
// cache. A never needs packing: a strip of it stays in the first-level cache while the tiles cross B's block. Scratch:
// B's block, and a strip of C if C's rows are not contiguous, which is computed there and then spread.
template <class T>
void run_packed(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void* scratch) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const T* b = static_cast<const T*>(b_in);
  T* const b_packed = static_cast<T*>(scratch);
  T* const c_strip = s.c_col == 1 ? nullptr : b_packed + gemm.k_block * gemm.n_block;
  const Panels across(s.n, kLanes<T>, gemm.n_block / kLanes<T>);
  const Parts deep(s.k, gemm.k_block);
  for (i64 x = 0, j = 0; x < across.count(); j += across.width(x++)) {
    const Panels columns = column_panels<T>(std::min(across.width(x), s.n - j));
    const Panels strips = row_strips<T>(s.m, columns);
    for (i64 z = 0, k = 0; z < deep.count; k += deep.length(z++)) {
      const bool accumulate = s.accumulate || z > 0;
      pack_block(b + k * s.b_row + j * s.b_col, s.b_col, s.b_row, columns, deep.length(z), b_packed);
      for (i64 strip = 0, i = 0; strip < strips.count(); i += strips.width(strip++)) {
        const i64 rows = strips.width(strip);
        T* const c = static_cast<T*>(c_in) + i * s.c_row + j * s.c_col;
        multiply_strip<T>({.a = static_cast<const T*>(a_in) + i * s.a_row + k * s.a_col,
                           .a_row = s.a_row,
                           .a_col = s.a_col,
                           .c = c_strip ? c_strip : c,
                           .c_row = c_strip ? columns.size : s.c_row,
                           .k = deep.length(z),
                           .accumulate = accumulate && !c_strip},
                          rows, b_packed, 0, columns);
        if (c_strip) spread(c_strip, rows, columns.size, c, s.c_row, s.c_col, accumulate);
      }
    }
  }
}

// ---- one row of C ---------------------------------------------------------------------------------------------------

// C[Vectors] (+)= A[1,k] . B[k,Vectors]. Steps: rows of B summed apart, so that eight additions are always in flight.
template <class T, int Vectors, int Steps, bool Tail>
HWY_NOINLINE void row_panel(const Tile<T>& tile) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  constexpr i64 N = kLanes<T>;
  const T* HWY_RESTRICT a = tile.a;
  const T* HWY_RESTRICT b = tile.b;
  const i64 a_col = tile.a_col, b_row = tile.b_row;
  const FirstLanes<T> last(tile.last);
  const auto load = [&](const T* p, int j) HWY_ATTR {
    if (Tail && j == Vectors - 1) return last.load(p + j * N);
    return hn::LoadU(d, p + j * N);
  };
  V sum[Steps][Vectors];
  WR_UNROLL for (int s = 0; s < Steps; ++s) { WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[s][j] = hn::Zero(d); }
  i64 k = tile.k;
  for (; k >= Steps; k -= Steps) {
    WR_UNROLL for (int s = 0; s < Steps; ++s) {
      const V x = hn::Set(d, a[s * a_col]);
      WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[s][j] = hn::MulAdd(x, load(b + s * b_row, j), sum[s][j]);
    }
    a += Steps * a_col;
    b += Steps * b_row;
  }
  for (; k > 0; --k, a += a_col, b += b_row) {
    const V x = hn::Set(d, *a);
    WR_UNROLL for (int j = 0; j < Vectors; ++j) sum[0][j] = hn::MulAdd(x, load(b, j), sum[0][j]);
  }
  WR_UNROLL for (int j = 0; j < Vectors; ++j) {
    WR_UNROLL for (int s = 1; s < Steps; ++s) sum[0][j] = hn::Add(sum[0][j], sum[s][j]);
    if (tile.accumulate) sum[0][j] = hn::Add(sum[0][j], load(tile.c, j));
    if (Tail && j == Vectors - 1) {
      last.store(sum[0][j], tile.c + j * N);
    } else {
      hn::StoreU(sum[0][j], d, tile.c + j * N);
    }
  }
}

template <class T, bool Tail>
TileFunction<T> row_function(i64 vectors) {
  constexpr TileFunction<T> functions[] = {row_panel<T, 1, 8, Tail>, row_panel<T, 2, 4, Tail>, row_panel<T, 3, 3, Tail>,
                                           row_panel<T, 4, 2, Tail>, row_panel<T, 5, 2, Tail>, row_panel<T, 6, 2, Tail>,
                                           row_panel<T, 7, 1, Tail>, row_panel<T, 8, 1, Tail>};
  return functions[vectors - 1];
}

// Each row of C on its own, for one row or very few.
template <class T>
void run_row(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void*) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const T* a = static_cast<const T*>(a_in);
  T* c = static_cast<T*>(c_in);
  constexpr i64 N = kLanes<T>;
  const Parts parts((s.n + N - 1) / N, 8);
  for (i64 i = 0; i < s.m; ++i) {
    for (i64 part = 0, j = 0; part < parts.count; j += parts.length(part++) * N) {
      const i64 vectors = parts.length(part), here = std::min(vectors * N, s.n - j);
      const Tile<T> tile{.a = a + i * s.a_row,
                         .a_col = s.a_col,
                         .b = static_cast<const T*>(b_in) + j,
                         .b_row = s.b_row,
                         .c = c + i * s.c_row + j,
                         .k = s.k,
                         .last = here - (vectors - 1) * N,
                         .accumulate = s.accumulate};
      (here == vectors * N ? row_function<T, false>(vectors) : row_function<T, true>(vectors))(tile);
    }
  }
}

// ---- dot products along contiguous k --------------------------------------------------------------------------------

// The sums of the lanes of four vectors.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void sum_lanes4(D d, hn::Vec<D>* v, T* out) {
  if constexpr (hn::MaxLanes(D()) * sizeof(T) > 16) {
    const hn::Half<D> half;
    hn::Vec<hn::Half<D>> h[4];
    WR_UNROLL for (int i = 0; i < 4; ++i) h[i] = hn::Add(hn::LowerHalf(half, v[i]), hn::UpperHalf(half, v[i]));
    sum_lanes4(half, h, out);
  } else if constexpr (sizeof(T) == 4) {
    transpose_blocks(d, v);
    hn::StoreU(hn::Add(hn::Add(v[0], v[1]), hn::Add(v[2], v[3])), d, out);
  } else {
    transpose_blocks(d, v);
    transpose_blocks(d, v + 2);
    hn::StoreU(hn::Add(v[0], v[1]), d, out);
    hn::StoreU(hn::Add(v[2], v[3]), d, out + 2);
  }
}

// C[Rows, Columns] (+)= dots of rows of A with columns of B, of which only `columns` may exist. `b_row` is here the
// distance between columns of B.
template <class T, int Rows, int Columns>
HWY_NOINLINE void dot_tile(const Tile<T>& tile, i64 columns) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  constexpr i64 N = kLanes<T>;
  const T* b[Columns];  // columns that do not exist repeat the last one
  for (i64 j = 0; j < Columns; ++j) b[j] = tile.b + std::min(j, columns - 1) * tile.b_row;
  V sum[Rows][Columns];
  WR_UNROLL for (int i = 0; i < Rows; ++i) { WR_UNROLL for (int j = 0; j < Columns; ++j) sum[i][j] = hn::Zero(d); }
  const T* a = tile.a;
  const i64 a_row = tile.a_row;
  const auto step = [&](const auto& load) HWY_ATTR {
    V x[Rows];
    WR_UNROLL for (int i = 0; i < Rows; ++i) x[i] = load(a + i * a_row);
    WR_UNROLL for (int j = 0; j < Columns; ++j) {
      const V y = load(b[j]);
      WR_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] = hn::MulAdd(x[i], y, sum[i][j]);
    }
  };
  i64 k = 0;
  for (; k + N <= tile.k; k += N) step([&](const T* p) HWY_ATTR { return hn::LoadU(d, p + k); });
  const FirstLanes<T> last(tile.k - k);
  if (k < tile.k) step([&](const T* p) HWY_ATTR { return last.load(p + k); });
  WR_UNROLL for (int i = 0; i < Rows; ++i) {
    T total[Columns];
    WR_UNROLL for (int j = 0; j < Columns; j += 4) sum_lanes4(d, sum[i] + j, total + j);
    T* c = tile.c + i * tile.c_row;
    for (i64 j = 0; j < columns; ++j) c[j] = tile.accumulate ? c[j] + total[j] : total[j];
  }
}

template <class T>
void run_dot(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void*) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  constexpr int few = kDotColumns / 2;
  constexpr void (*functions[])(const Tile<T>&, i64) = {dot_tile<T, 1, kDotColumns>, dot_tile<T, 2, few>,
                                                        dot_tile<T, kDotRows - 1, few>, dot_tile<T, kDotRows, few>};
  const Parts strips(s.m, kDotRows);
  const i64 most = strips.base == 1 && strips.longer == 0 ? kDotColumns : few;
  for (i64 j = 0; j < s.n; j += most) {
    for (i64 strip = 0, i = 0; strip < strips.count; i += strips.length(strip++)) {
      const Tile<T> tile{.a = static_cast<const T*>(a_in) + i * s.a_row,
                         .a_row = s.a_row,
                         .b = static_cast<const T*>(b_in) + j * s.b_col,
                         .b_row = s.b_col,
                         .c = static_cast<T*>(c_in) + i * s.c_row + j,
                         .c_row = s.c_row,
                         .k = s.k,
                         .accumulate = s.accumulate};
      functions[strips.length(strip) - 1](tile, std::min(most, s.n - j));
    }
  }
}

}  // namespace

template <class T>
const HwyGemm<T>& kernels() {
  static constexpr HwyGemm<T> all{
      run_row<T>, run_dot<T>, run_direct<T>, run_packed<T>, pack<T>, kMaxVectors * kLanes<T>, kTallest};
  return all;
}
template const HwyGemm<float>& kernels<float>();
template const HwyGemm<double>& kernels<double>();

}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

// The last target compiled is the baseline, which every machine has.
template <class T>
const HwyGemm<T>& hwy_gemm(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx512) return N_AVX3::kernels<T>();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::avx2) return N_AVX2::kernels<T>();
#endif
  static_cast<void>(target);
  return HWY_NAMESPACE::kernels<T>();
}
template const HwyGemm<float>& hwy_gemm<float>(Target target);
template const HwyGemm<double>& hwy_gemm<double>(Target target);

}  // namespace wr::cpu
#endif  // HWY_ONCE
