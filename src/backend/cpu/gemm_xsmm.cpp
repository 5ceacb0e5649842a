// LIBXSMM, which generates code for one exact size; the only file that includes it. Row-major C = A . B is LIBXSMM's
// column-major C^T = B^T . A^T, so the operands change places. Without it, nothing is served.
#include <algorithm>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>

#include "backend/cpu/gemm_kernel.h"

#ifdef WINDROW_HAVE_LIBXSMM  // set by the build where the library is installed
#include <libxsmm.h>

namespace wr::cpu {
namespace {

std::mutex& dispatch_lock() {
  static std::mutex lock;
  return lock;
}

bool is_stride(std::int64_t stride, std::int64_t least) {
  return stride >= std::max<std::int64_t>(least, 1) && stride <= std::numeric_limits<libxsmm_blasint>::max();
}

template <class T>
Gemm::Code dispatch(const GemmShape& s, bool a_transposed, std::int64_t b_row) {
  const auto n = static_cast<libxsmm_blasint>(s.n), m = static_cast<libxsmm_blasint>(s.m);
  const auto k = static_cast<libxsmm_blasint>(s.k);
  const auto first = static_cast<libxsmm_blasint>(b_row);
  const auto second = static_cast<libxsmm_blasint>(a_transposed ? s.a_col : s.a_row);
  const auto third = static_cast<libxsmm_blasint>(s.c_row);
  const T one = 1, beta = s.accumulate ? 1 : 0;
  const int flags = a_transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;  // its default ("auto") may read beyond the operands
  const std::lock_guard lock(dispatch_lock());
  libxsmm_init();
  if constexpr (sizeof(T) == 4) {
    return reinterpret_cast<Gemm::Code>(
        libxsmm_smmdispatch(n, m, k, &first, &second, &third, &one, &beta, &flags, &prefetch));
  } else {
    return reinterpret_cast<Gemm::Code>(
        libxsmm_dmmdispatch(n, m, k, &first, &second, &third, &one, &beta, &flags, &prefetch));
  }
}

template <class T>
using Code = std::conditional_t<sizeof(T) == 4, libxsmm_smmfunction, libxsmm_dmmfunction>;

template <class T>
void run_plain(const Gemm& gemm, const void* a, const void* b, void* c, void*) {
  if (gemm.swapped) std::swap(a, b);
  reinterpret_cast<Code<T>>(gemm.code)(static_cast<const T*>(b), static_cast<const T*>(a), static_cast<T*>(c));
}

// The rows of B are not contiguous, and LIBXSMM 1.17 cannot generate for that: B is copied in order first.
template <class T>
void run_copied(const Gemm& gemm, const void* a, const void* b, void* c, void* scratch) {
  if (gemm.swapped) std::swap(a, b);
  const GemmShape& s = gemm.work;
  T* const copy = static_cast<T*>(scratch);
  hwy_gemm<T>(gemm.target).pack(static_cast<const T*>(b), s.b_col, s.b_row, s.n, s.k, copy, s.n);
  reinterpret_cast<Code<T>>(gemm.code)(copy, static_cast<const T*>(a), static_cast<T*>(c));
}

/// A large B in passes over k: what a pass reads of B again and again for other rows of A stays in cache.
template <class T>
void run_passes(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void* scratch) {
  if (gemm.swapped) std::swap(a_in, b_in);
  const GemmShape& s = gemm.work;
  const T *a = static_cast<const T*>(a_in), *b = static_cast<const T*>(b_in);
  T* const c = static_cast<T*>(c_in);
  if (!s.accumulate)
    for (std::int64_t i = 0; i < s.m; ++i) std::fill_n(c + i * s.c_row, s.n, T{0});
  for (std::int64_t k = 0; k < s.k; k += gemm.k_block) {
    const std::int64_t depth = std::min(gemm.k_block, s.k - k);
    const T* rows = b + k * s.b_row;
    if (s.b_col != 1) {
      hwy_gemm<T>(gemm.target).pack(rows, s.b_col, s.b_row, s.n, depth, static_cast<T*>(scratch), s.n);
      rows = static_cast<const T*>(scratch);
    }
    const Gemm::Code code = depth == gemm.k_block ? gemm.code : gemm.last;
    reinterpret_cast<Code<T>>(code)(rows, a + k * s.a_col, c);
  }
}

template <class T>
bool make_passes(Gemm& gemm, std::int64_t passes) {
  GemmShape pass = gemm.work;
  const bool copy = pass.b_col != 1;
  const auto code_of = [&](std::int64_t depth) {
    pass.k = depth;
    pass.accumulate = true;
    return dispatch<T>(pass, pass.a_col != 1, copy ? pass.n : pass.b_row);
  };
  gemm.k_block = (gemm.work.k + passes - 1) / passes;
  gemm.code = code_of(gemm.k_block);
  gemm.last = code_of(gemm.work.k - (passes - 1) * gemm.k_block);
  gemm.run = run_passes<T>;
  gemm.scratch_bytes = copy ? static_cast<std::size_t>(pass.n * gemm.k_block) * sizeof(T) : 0;
  return gemm.code != nullptr && gemm.last != nullptr;
}

template <class T>
bool make(Gemm& gemm, std::int64_t large_bytes) {
  constexpr std::int64_t kDeepest = 256;
  const GemmShape& s = gemm.work;
  const bool copy = s.b_col != 1;
  if (s.n * s.k * static_cast<std::int64_t>(sizeof(T)) > large_bytes && s.k > kDeepest)
    return make_passes<T>(gemm, (s.k + kDeepest - 1) / kDeepest);
  gemm.code = dispatch<T>(s, s.a_col != 1, copy ? s.n : s.b_row);
  gemm.run = copy ? run_copied<T> : run_plain<T>;
  gemm.scratch_bytes = copy ? static_cast<std::size_t>(s.n * s.k) * sizeof(T) : 0;
  return gemm.code != nullptr;
}

}  // namespace

// LIBXSMM keeps generated code in a registry whose key does not tell instruction sets apart, so it serves only the best
// target of the machine: a plan forced to a lower one must not meet code made for the higher.
bool can_xsmm(const GemmShape& work, Target target) {
  constexpr std::int64_t most = std::numeric_limits<libxsmm_blasint>::max();
  return target == available_targets().back() && work.m <= most && work.n <= most && work.k <= most &&
         work.c_col == 1 && is_stride(work.c_row, work.n) && (work.b_col != 1 || is_stride(work.b_row, work.n)) &&
         ((work.a_col == 1 && is_stride(work.a_row, work.k)) || (work.a_row == 1 && is_stride(work.a_col, work.m)));
}

bool make_xsmm(Gemm& gemm, std::int64_t large_bytes) {
  return gemm.work.dtype == DType::f32 ? make<float>(gemm, large_bytes) : make<double>(gemm, large_bytes);
}

}  // namespace wr::cpu

#else

namespace wr::cpu {
bool can_xsmm(const GemmShape&, Target) { return false; }
bool make_xsmm(Gemm&, std::int64_t) { return false; }
}  // namespace wr::cpu

#endif
