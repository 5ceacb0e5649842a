// Matrix products of very few rows: a row vector times a matrix, and dot products along a contiguous inner axis.
// Compiled once for each SIMD target. What each is for: docs/gemm.md.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_row.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "backend/cpu/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace {

// ---- one row of C ----

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

constexpr int kDotRows = kManyRegisters ? 4 : 2;
constexpr int kDotColumns = 8;  // with one row; with more, half

// ---- dot products along contiguous k ----

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
const GemmOfRows& kernels_of_rows() {
  static constexpr GemmOfRows all{run_row<T>, run_dot<T>};
  return all;
}
template const GemmOfRows& kernels_of_rows<float>();
template const GemmOfRows& kernels_of_rows<double>();

}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

template <class T>
const GemmOfRows& gemm_of_rows(Target target) {
  WINDROW_RETURN_FOR(target, kernels_of_rows<T>())
  return HWY_NAMESPACE::kernels_of_rows<T>();
}
template const GemmOfRows& gemm_of_rows<float>(Target target);
template const GemmOfRows& gemm_of_rows<double>(Target target);

}  // namespace wr::cpu
#endif  // HWY_ONCE
