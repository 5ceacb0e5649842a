// The parts of gemm.cpp that live in other files: the Highway kernels of each target and the LIBXSMM code generator.
#pragma once

#include "backend/cpu/gemm.h"

namespace wr::cpu {

/// out[k*padded + w] = in[w*in_w + k*in_k] for w < width, and zero from there to `padded`.
template <class T>
using PackFunction = void (*)(const T* in, std::int64_t in_w, std::int64_t in_k, std::int64_t width, std::int64_t k,
                              T* out, std::int64_t padded);

/// The Highway kernels of one target and type (gemm_hwy.cpp). `direct` expects Gemm::work with contiguous rows of B and
/// C.
template <class T>
struct HwyGemm {
  Gemm::Run direct, packed, panels;
  PackFunction<T> pack;
  std::int64_t lanes;  // elements of a vector
  std::int64_t panel;  // columns in the widest panel of B
  std::int64_t rows;   // most rows of A in one strip
  std::int64_t strip;  // rows of A in a strip beside a wide panel
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
