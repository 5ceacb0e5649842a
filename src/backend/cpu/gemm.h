// Matrix multiplication on one core: C (+)= A . B for any sizes and strides. A plan makes a Gemm once (choice of
// kernel, code generation, blocking) and runs it every step; lanes call it on their own part of the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"

namespace wr {
struct Machine;
}

namespace wr::cpu {

/// C[m,n] (+)= A[m,k] . B[k,n]. Strides are in elements and may be anything: transposed operands, strided views, 0 for
/// a broadcast operand. The elements of C must be distinct and must not overlap A or B.
struct GemmShape {
  DType dtype = DType::f32;  // f32 or f64
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0, c_col = 0;
  bool accumulate = false;  // C += instead of C =
};

/// The shape of contiguous row-major operands.
GemmShape row_major(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, bool accumulate = false);

/// A multiplication ready to run: a plain value. Running neither allocates, locks nor throws, may happen in several
/// threads at once (each with its own scratch), and gives the same bits every time.
struct Gemm {
  using Run = void (*)(const Gemm& gemm, const void* a, const void* b, void* c, void* scratch);
  using Prepare = void (*)(const Gemm& gemm, const void* b, void* scratch);
  using Code = void (*)();  // generated code, cast by the kernel that made it

  void operator()(const void* a, const void* b, void* c, void* scratch) const { run(*this, a, b, c, scratch); }
  /// Before the first of the runs with one B and one scratch, for what make_repeated_gemm made.
  void begin(const void* b, void* scratch) const {
    if (prepare) prepare(*this, b, scratch);
  }

  Run run = nullptr;
  Prepare prepare = nullptr;      // only of what make_repeated_gemm made, if it packs B
  const char* kernel = "";        // "libxsmm", "hwy direct", ...: see gemm_kernels()
  std::size_t scratch_bytes = 0;  // of 64-byte aligned memory the caller gives each run
  GemmShape shape;                // as asked for

  // The kernels' own: the shape with degenerate strides set to the plain ones and, if `swapped`, the operands' roles
  // exchanged (C^T = B^T . A^T) so that rows of C are contiguous; what the kernel decided.
  GemmShape work;
  bool swapped = false;
  Target target = Target::sse4;
  Code code = nullptr, last = nullptr;  // the latter for the last of several passes over k
  std::int64_t m_block = 0, n_block = 0, k_block = 0, strip = 0;
  bool pack_a = false;
};

/// Chooses the fastest kernel for the shape on the target, and blocks for the caches of the machine: the same three
/// give the same bits anywhere. Throws Error if the dtype is not f32 or f64 or a size is negative. Locks while it
/// generates code, so it may be called from any thread.
Gemm make_gemm(const GemmShape& shape, Target target, const Machine& machine);

/// The same for so many products with one B, each of which needs begin() once before: B may be packed then and kept in
/// scratch. Products of a different number of rows, all made so, may use what one of them began with if they have the
/// same `prepare`.
Gemm make_repeated_gemm(const GemmShape& shape, std::int64_t times, Target target, const Machine& machine);

/// One kernel by name, for tests and benchmarks. Throws Error if it cannot serve the shape on the target.
Gemm make_gemm(const GemmShape& shape, Target target, std::string_view kernel, const Machine& machine);

/// The kernels that can serve a shape, in the order of the list; the reference is last and always there.
std::vector<std::string_view> gemm_kernels(const GemmShape& shape, Target target);

}  // namespace wr::cpu
