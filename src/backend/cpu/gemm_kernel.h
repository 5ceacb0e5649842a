// The parts of gemm.cpp that live in other files: the Highway kernels of each target and the LIBXSMM code generator.
#pragma once

#include "backend/cpu/gemm.h"

namespace wr::cpu {

/// out[k*padded + w] = in[w*in_w + k*in_k] for w < width, and zero from there to `padded`.
template <class T>
using PackFunction = void (*)(const T* in, std::int64_t in_w, std::int64_t in_k, std::int64_t width, std::int64_t k,
                              T* out, std::int64_t padded);

/// The Highway kernels of one target and type. All expect Gemm::work with contiguous rows of C, except `packed`.
template <class T>
struct HwyGemm {
  Gemm::Run row, dot, direct, packed;
  PackFunction<T> pack;
  std::int64_t panel;  // columns in the widest panel of packed B
  std::int64_t rows;   // most rows of A in one strip
};

template <class T>
const HwyGemm<T>& hwy_gemm(Target target);

/// Whether LIBXSMM can be asked for this shape on this target; it may still refuse.
bool can_xsmm(const GemmShape& work, Target target);
/// Generates code for `gemm.work` and sets run, code and scratch; false if LIBXSMM refuses.
bool make_xsmm(Gemm& gemm);

}  // namespace wr::cpu
