// Matrix products as register tiles over plain or packed operands, compiled once for each SIMD target. What each kernel
// is for: docs/gemm.md.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm_hwy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "backend/cpu/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace {

template <class T>
Panels column_panels(i64 n) {
  return {n, kLanes<T>, kMaxVectors};
}
template <class T>
Panels row_strips(i64 m, const Panels& columns) {
  return {m, 1, kMaxRows[columns.parts.length(0) - 1]};
}

// A large C is not in cache, and is needed only after the tile's loop.
template <class T>
HWY_INLINE void prefetch_rows(const T* c, i64 c_row, i64 rows, i64 width) {
  constexpr i64 line = 64 / sizeof(T);
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < width; j += line) hwy::Prefetch(c + i * c_row + j);
}

/// In place of B's row stride: its panels stand one after the other. Not 0, which is the stride of a broadcast B.
constexpr i64 kPacked = -1;

// One strip of rows of C, all its column panels. `tile` has A and C, at the first column.
template <class T>
void multiply_strip(Tile<T> tile, i64 rows, const T* b, i64 b_row, const Panels& columns) {
  const bool packed = b_row == kPacked;
  constexpr i64 N = kLanes<T>;
  T* const c = tile.c;
  for (i64 p = 0, j = 0; p < columns.count(); j += columns.width(p++)) {
    const i64 width = columns.width(p), vectors = width / N, here = std::min(width, columns.size - j);
    tile.b = b + (packed ? j * tile.k : j);
    tile.b_row = packed ? width : b_row;
    tile.c = c + j;
    tile.last = here - (vectors - 1) * N;
    prefetch_rows(tile.c, tile.c_row, rows, width);
    const bool tail = !packed && here != width;
    (tail ? tile_function<T, Form::tail>(rows, vectors) : tile_function<T, Form::plain>(rows, vectors))(tile);
  }
}

// B as it lies. A strip of A stays in the first-level cache while B streams by from the second. Scratch: the strip of
// A, if it is packed.
template <class T>
void run_direct(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void* scratch) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const T* a = static_cast<const T*>(a_in);
  const T* b = static_cast<const T*>(b_in);
  T* c = static_cast<T*>(c_in);
  T* const a_packed = gemm.pack_a ? static_cast<T*>(scratch) : nullptr;
  const Panels columns = column_panels<T>(s.n), strips = row_strips<T>(s.m, columns);
  const Parts blocks(s.k, gemm.k_block);
  for (i64 block = 0, k = 0; block < blocks.count; k += blocks.length(block++)) {
    for (i64 strip = 0, i = 0; strip < strips.count(); i += strips.width(strip++)) {
      const i64 rows = strips.width(strip);
      const T* const from = a + i * s.a_row + k * s.a_col;
      if (a_packed) pack_strip(from, s.a_row, s.a_col, rows, s.m - i, blocks.length(block), a_packed);
      multiply_strip<T>({.a = a_packed ? a_packed : from,
                         .a_row = a_packed ? 1 : s.a_row,
                         .a_col = a_packed ? rows : s.a_col,
                         .c = c + i * s.c_row,
                         .c_row = s.c_row,
                         .k = blocks.length(block),
                         .accumulate = s.accumulate || block > 0},
                        rows, b + k * s.b_row, s.b_row, columns);
    }
  }
}

// C, in scratch, to where it belongs.
template <class T>
void spread(const T* from, i64 line, i64 rows, i64 columns, T* c, i64 c_row, i64 c_col, bool accumulate) {
  if (c_row == 1) {
    if (accumulate) return transpose<true>(from, line, rows, columns, c, c_col);
    return transpose<false>(from, line, rows, columns, c, c_col);
  }
  for (i64 i = 0; i < rows; ++i) {
    for (i64 j = 0; j < columns; ++j) {
      T& to = c[i * c_row + j * c_col];
      to = accumulate ? to + from[i * line + j] : from[i * line + j];
    }
  }
}

// Large matrices and strided ones: blocks of B are packed in the order the tiles read and stay in the second-level
// cache; a strip of A stays in the first-level cache while the tiles cross B's block. Scratch: B's block; a strip of C
// if C's rows are not contiguous, which is computed there and then spread; a strip of A if it is packed.
template <class T>
void run_packed(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void* scratch) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const T* b = static_cast<const T*>(b_in);
  T* const b_packed = static_cast<T*>(scratch);
  T* const c_strip = s.c_col == 1 ? nullptr : b_packed + gemm.k_block * gemm.n_block;
  T* const a_packed =
      gemm.pack_a ? b_packed + gemm.k_block * gemm.n_block + (c_strip ? kTallest * gemm.n_block : 0) : nullptr;
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
        const T* const a = static_cast<const T*>(a_in) + i * s.a_row + k * s.a_col;
        if (a_packed) pack_strip(a, s.a_row, s.a_col, rows, s.m - i, deep.length(z), a_packed);
        multiply_strip<T>({.a = a_packed ? a_packed : a,
                           .a_row = a_packed ? 1 : s.a_row,
                           .a_col = a_packed ? rows : s.a_col,
                           .c = c_strip ? c_strip : c,
                           .c_row = c_strip ? columns.size : s.c_row,
                           .k = deep.length(z),
                           .accumulate = accumulate && !c_strip},
                          rows, b_packed, kPacked, columns);
        if (c_strip) spread(c_strip, columns.size, rows, columns.size, c, s.c_row, s.c_col, accumulate);
      }
    }
  }
}

// ---- a panel of B in the first-level cache ----

// The panels of `run_panels`: where registers are few, an odd number of vectors makes one panel of three (24 columns:
// 4x3 tiles at full speed), not one of one. Packed strips of A are as tall for every panel.
template <class T>
Panels narrow_panels(i64 n, bool pack_a) {
  const i64 vectors = (n + kLanes<T> - 1) / kLanes<T>;
  if (kManyRegisters || (pack_a && vectors != 3)) return column_panels<T>(n);
  return {n, kLanes<T>, Parts::into(std::max(vectors / 2, i64{1}), vectors)};
}

// A panel of B: as it lies, or already packed in `copy` (k x width).
template <class T>
struct Panel {
  const T* b;
  i64 b_row, width, here;  // of `width` columns, only `here` exist
  T* copy;
  bool packed;
};

// One panel of B times all strips of a block of A. If B is as it lies, the first strip leaves a copy for the others.
template <class T>
void multiply_panel(Tile<T> tile, const Panels& strips, bool a_packed, const Panel<T>& panel) {
  constexpr i64 N = kLanes<T>;
  const i64 vectors = panel.width / N, a_strip = a_packed ? tile.k : tile.a_row;
  const T* const a = tile.a;
  T* const c = tile.c;
  const bool tail = !panel.packed && panel.here != panel.width;
  // A panel that is used once, or whose rows follow one another anyway, needs no copy.
  bool keep = !panel.packed && strips.count() > 1 && (tail || panel.b_row != panel.width);
  tile.last = panel.here - (vectors - 1) * N;
  tile.copy = panel.copy;
  tile.b = panel.packed ? panel.copy : panel.b;
  tile.b_row = panel.packed ? panel.width : panel.b_row;
  if (a_packed) tile.a_row = 1;
  for (i64 strip = 0, i = 0; strip < strips.count(); i += strips.width(strip++)) {
    const i64 rows = strips.width(strip);
    tile.a = a + i * a_strip;
    if (a_packed) tile.a_col = rows;
    tile.c = c + i * tile.c_row;
    prefetch_rows(tile.c, tile.c_row, rows, panel.width);
    if (keep) {
      (tail ? tile_function<T, Form::keep_tail>(rows, vectors) : tile_function<T, Form::keep>(rows, vectors))(tile);
      tile.b = panel.copy;
      tile.b_row = panel.width;
      keep = false;
    } else if (tail && tile.b != panel.copy) {
      tile_function<T, Form::tail>(rows, vectors)(tile);
    } else {
      tile_function<T, Form::plain>(rows, vectors)(tile);
    }
  }
}

// A panel of B, some hundred rows deep, stays in the first-level cache while a block of A streams by from the second. B
// is read once a block of A: good for few rows and wide B, which comes from afar. Scratch: the panel; the block of A if
// it is packed; a block of C if C's rows are not contiguous.
template <class T>
void run_panels(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void* scratch) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const Panels columns = narrow_panels<T>(s.n, gemm.pack_a);
  const Panels blocks(s.m, gemm.strip, gemm.m_block / gemm.strip);
  const Parts deep(s.k, gemm.k_block);
  const i64 c_line = (s.n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  T* const copy = static_cast<T*>(scratch);
  T* const c_block = s.c_col == 1 ? nullptr : copy + gemm.k_block * 3 * kLanes<T>;
  T* const a_packed =
      gemm.pack_a ? copy + gemm.k_block * 3 * kLanes<T> + (c_block ? gemm.m_block * c_line : 0) : nullptr;
  for (i64 y = 0, i = 0; y < blocks.count(); i += blocks.width(y++)) {
    const i64 rows = std::min(blocks.width(y), s.m - i);
    T* const c = static_cast<T*>(c_in) + i * s.c_row;
    for (i64 z = 0, k = 0; z < deep.count; k += deep.length(z++)) {
      const T* const a = static_cast<const T*>(a_in) + i * s.a_row + k * s.a_col;
      if (a_packed) pack_strips(a, s.a_row, s.a_col, row_strips<T>(rows, columns), deep.length(z), a_packed);
      Tile<T> tile{.a = a_packed ? a_packed : a,
                   .a_row = s.a_row,
                   .a_col = s.a_col,
                   .c_row = c_block ? c_line : s.c_row,
                   .k = deep.length(z),
                   .accumulate = z > 0 || (s.accumulate && !c_block)};
      for (i64 p = 0, j = 0; p < columns.count(); j += columns.width(p++)) {
        const T* const b = static_cast<const T*>(b_in) + k * s.b_row + j * s.b_col;
        const Panel<T> panel{b, s.b_row, columns.width(p), std::min(columns.width(p), s.n - j), copy, s.b_col != 1};
        if (panel.packed) pack(b, s.b_col, s.b_row, panel.here, tile.k, copy, panel.width);
        tile.c = c_block ? c_block + j : c + j;
        const Panels strips(rows, 1, kMaxRows[(a_packed ? columns.width(0) : panel.width) / kLanes<T> - 1]);
        multiply_panel(tile, strips, a_packed != nullptr, panel);
      }
    }
    if (c_block) spread(c_block, c_line, rows, s.n, c, s.c_row, s.c_col, s.accumulate);
  }
}

// ---- a B that stays the same ----

// All of B lies in scratch: panel after panel of a block some hundred rows deep, then those of the next. A panel is in
// the first-level cache while the strips of A, which are few, take turns with it.
template <class T>
struct Kept {
  explicit Kept(const Gemm& gemm) : columns(narrow_panels<T>(gemm.work.n, false)), deep(gemm.work.k, gemm.k_block) {}
  i64 line() const { return (columns.size + kLanes<T> - 1) / kLanes<T> * kLanes<T>; }
  Panels columns;
  Parts deep;
};

template <class T>
void keep(const Gemm& gemm, const void* b_in, void* scratch) {
  const GemmShape& s = gemm.work;
  const Kept<T> kept(gemm);
  const T* const b = static_cast<const T*>(b_in);
  for (i64 z = 0, k = 0; z < kept.deep.count; k += kept.deep.length(z++))
    pack_block(b + k * s.b_row, s.b_col, s.b_row, kept.columns, kept.deep.length(z),
               static_cast<T*>(scratch) + k * kept.line());
}

template <class T>
void run_kept(const Gemm& gemm, const void* a_in, const void*, void* c_in, void* scratch) {
  const GemmShape& s = gemm.work;
  const Kept<T> kept(gemm);
  for (i64 z = 0, k = 0; z < kept.deep.count; k += kept.deep.length(z++)) {
    const i64 depth = kept.deep.length(z);
    T* const block = static_cast<T*>(scratch) + k * kept.line();
    for (i64 p = 0, j = 0; p < kept.columns.count(); j += kept.columns.width(p++)) {
      const i64 width = kept.columns.width(p);
      const Tile<T> tile{.a = static_cast<const T*>(a_in) + k * s.a_col,
                         .a_row = s.a_row,
                         .a_col = s.a_col,
                         .c = static_cast<T*>(c_in) + j,
                         .c_row = s.c_row,
                         .k = depth,
                         .accumulate = s.accumulate || z > 0};
      multiply_panel<T>(tile, {s.m, 1, kMaxRows[width / kLanes<T> - 1]}, false,
                        {nullptr, 0, width, std::min(width, s.n - j), block + j * depth, true});
    }
  }
}

}  // namespace

template <class T>
TileFunction<T> find_tile(bool tail, i64 rows, i64 vectors) {
  return tail ? tile_function<T, Form::tail>(rows, vectors) : tile_function<T, Form::plain>(rows, vectors);
}

template <class T>
const HwyGemm<T>& kernels() {
  static constexpr HwyGemm<T> all{.direct = run_direct<T>,
                                  .packed = run_packed<T>,
                                  .panels = run_panels<T>,
                                  .kept = run_kept<T>,
                                  .keep = keep<T>,
                                  .pack = pack<T>,
                                  .lanes = kLanes<T>,
                                  .panel = kMaxVectors * kLanes<T>,
                                  .rows = kTallest,
                                  .strip = kMaxRows[kMaxVectors - 1],
                                  .tile = find_tile<T>,
                                  .most_rows = {kMaxRows[0], kMaxRows[1], kMaxRows[2]},
                                  .most_vectors = kMaxVectors};
  return all;
}
template const HwyGemm<float>& kernels<float>();
template const HwyGemm<double>& kernels<double>();

}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

template <class T>
const HwyGemm<T>& hwy_gemm(Target target) {
  WINDROW_RETURN_FOR(target, kernels<T>())
  return HWY_NAMESPACE::kernels<T>();  // the baseline, which every machine has
}
template const HwyGemm<float>& hwy_gemm<float>(Target target);
template const HwyGemm<double>& hwy_gemm<double>(Target target);

}  // namespace wr::cpu
#endif  // HWY_ONCE
