// The parts of gemm.cpp that live in other files: the Highway kernels of each target and the LIBXSMM code generator.
// The register tile and its packing are here for every kernel that is made of products, convolutions among them.
#pragma once

#include "backend/cpu/gemm.h"

namespace wr::cpu {

/// Cuts `size` into as few parts of at most `most` as possible, equal but for one: 33 rows are 7 7 7 6 6, not 8 8 8
/// 8 1.
struct Parts {
  Parts(std::int64_t size, std::int64_t most) : Parts(into((size + most - 1) / most, size)) {}
  static Parts into(std::int64_t count, std::int64_t size) { return {count, size / count, size % count}; }
  std::int64_t count, base, longer;
  std::int64_t length(std::int64_t part) const { return base + (part < longer); }

 private:
  Parts(std::int64_t parts, std::int64_t least, std::int64_t rest) : count(parts), base(least), longer(rest) {}
};

/// The strips of rows or panels of columns that tiles take: as few as registers allow, nearly equal.
struct Panels {
  Panels(std::int64_t whole, std::int64_t step, std::int64_t most)
      : Panels(whole, step, Parts((whole + step - 1) / step, most)) {}
  Panels(std::int64_t whole, std::int64_t step, Parts cut) : size(whole), unit(step), parts(cut) {}
  std::int64_t size, unit;
  Parts parts;
  std::int64_t count() const { return parts.count; }
  std::int64_t width(std::int64_t panel) const { return parts.length(panel) * unit; }
};

/// What a register tile is given: C[rows, vectors] (+)= A . B. Strides are in elements.
template <class T>
struct Tile {
  const T* a = nullptr;
  std::int64_t a_row = 0, a_col = 0;
  const T* b = nullptr;
  std::int64_t b_row = 0;
  T* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t k = 0;
  std::int64_t last = 0;  // lanes of the last vector of a row that are columns of C
  bool accumulate = false;
  T* copy = nullptr;  // where the rows of B go as well, one after the other
  // The sum goes over k again for each segment, and over the segments again for each group of them: A jumps, B goes on.
  std::int64_t segments = 1, a_segment = 0;
  std::int64_t groups = 1, a_group = 0;
};

template <class T>
using TileFunction = void (*)(const Tile<T>&);

/// out[k*padded + w] = in[w*in_w + k*in_k] for w < width, and zero from there to `padded`.
template <class T>
using PackFunction = void (*)(const T* in, std::int64_t in_w, std::int64_t in_k, std::int64_t width, std::int64_t k,
                              T* out, std::int64_t padded);

/// The Highway kernels of one target and type (gemm_hwy.cpp). `direct` expects Gemm::work with contiguous rows of B and
/// C.
template <class T>
struct HwyGemm {
  Gemm::Run direct, packed, panels, kept;
  Gemm::Prepare keep;  // for `kept`
  PackFunction<T> pack;
  std::int64_t lanes;  // elements of a vector
  std::int64_t panel;  // columns in the widest panel of B
  std::int64_t rows;   // most rows of A in one strip
  std::int64_t strip;  // rows of A in a strip beside a wide panel
  /// The tile of so many rows and vectors; `tail`: of B's last vector only Tile::last lanes may be read.
  TileFunction<T> (*tile)(bool tail, std::int64_t rows, std::int64_t vectors);
  std::int64_t most_rows[3];  // of a tile, by its vectors - 1
  std::int64_t most_vectors;  // where rows are many; three are worth it for an odd number
};

template <class T>
const HwyGemm<T>& hwy_gemm(Target target);

/// Those for very few rows (gemm_row.cpp). Both expect contiguous rows of C.
struct GemmOfRows {
  Gemm::Run row, dot;
};

template <class T>
const GemmOfRows& gemm_of_rows(Target target);

/// Whether LIBXSMM can be asked for this shape on this target; it may still refuse.
bool can_xsmm(const GemmShape& work, Target target);
/// Generates code for `gemm.work` and sets run, code and scratch; false if LIBXSMM refuses. A B of more than
/// `large_bytes` is gone through in passes over k.
bool make_xsmm(Gemm& gemm, std::int64_t large_bytes);

}  // namespace wr::cpu
