// The choice of a matrix multiplication kernel: an ordered list, the reference last. docs/gemm.md has the measurements
// behind the order and the limits.
#include "backend/cpu/gemm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cpu/gemm_kernel.h"
#include "windrow/error.h"

namespace wr::cpu {
namespace {

using i64 = std::int64_t;

// ---- nothing to multiply, and the oracle ----------------------------------------------------------------------------

template <class T>
void run_empty(const Gemm& gemm, const void*, const void*, void* c_in, void*) {
  const GemmShape& s = gemm.shape;
  if (s.accumulate) return;
  T* c = static_cast<T*>(c_in);
  for (i64 i = 0; i < s.m; ++i)
    for (i64 j = 0; j < s.n; ++j) c[i * s.c_row + j * s.c_col] = 0;
}

template <class T>
void run_reference(const Gemm& gemm, const void* a_in, const void* b_in, void* c_in, void*) {
  const GemmShape& s = gemm.shape;
  const T* a = static_cast<const T*>(a_in);
  const T* b = static_cast<const T*>(b_in);
  T* c = static_cast<T*>(c_in);
  for (i64 i = 0; i < s.m; ++i) {
    for (i64 j = 0; j < s.n; ++j) {
      T& to = c[i * s.c_row + j * s.c_col];
      double sum = s.accumulate ? static_cast<double>(to) : 0.0;
      for (i64 k = 0; k < s.k; ++k)
        sum += static_cast<double>(a[i * s.a_row + k * s.a_col]) * static_cast<double>(b[k * s.b_row + j * s.b_col]);
      to = static_cast<T>(sum);
    }
  }
}

// ---- the list -------------------------------------------------------------------------------------------------------

// A packed block of B: with a strip of A and the strip of C being written, it must stay in an L2 of 2 MB.
constexpr i64 kBlockBytes = 768 << 10;
// From the first size on B hardly stays in L2 by itself, from the second not at all, and is worth packing although its
// rows are contiguous, if there are rows of A enough to pay for it. LIBXSMM's passes over k need that less.
constexpr i64 kLargeBytes = 1280 << 10, kHugeBytes = 2 << 20;
constexpr i64 kLargeRows = 128, kHugeRows = 32;
// The depth of a block: a strip of 8 to 14 rows so deep takes 16 to 28 KB of an L1 of 48 KB.
constexpr i64 kDepthBytes = 2048;

i64 bytes(const GemmShape& s) { return static_cast<i64>(size_of(s.dtype)); }
i64 ceil_to(i64 x, i64 unit) { return (x + unit - 1) / unit * unit; }

// The depth of one pass over k, all passes nearly equal.
i64 depth_of(const GemmShape& s) {
  const i64 most = kDepthBytes / bytes(s), passes = (s.k + most - 1) / most;
  return (s.k + passes - 1) / passes;
}

template <class T>
bool make_packed(Gemm& gemm) {
  const HwyGemm<T>& hwy = hwy_gemm<T>(gemm.target);
  const GemmShape& s = gemm.work;
  gemm.k_block = depth_of(s);
  const i64 room = kBlockBytes / bytes(s) / gemm.k_block, most = std::max(room / hwy.panel, i64{1}) * hwy.panel;
  gemm.n_block = std::min(most, ceil_to(s.n, hwy.panel));
  const i64 strip = s.c_col == 1 ? 0 : hwy.rows * gemm.n_block;
  gemm.scratch_bytes = sizeof(T) * static_cast<std::size_t>(gemm.k_block * gemm.n_block + strip);
  gemm.run = hwy.packed;
  return true;
}

template <class T>
bool make_direct(Gemm& gemm) {
  gemm.k_block = 2 * depth_of(gemm.work);
  gemm.run = hwy_gemm<T>(gemm.target).direct;
  return true;
}

template <class T>
bool make_row(Gemm& gemm) {
  gemm.run = hwy_gemm<T>(gemm.target).row;
  return true;
}
template <class T>
bool make_dot(Gemm& gemm) {
  gemm.run = hwy_gemm<T>(gemm.target).dot;
  return true;
}
template <class T>
bool make_empty(Gemm& gemm) {
  gemm.run = run_empty<T>;
  return true;
}
template <class T>
bool make_reference(Gemm& gemm) {
  gemm.run = run_reference<T>;
  return true;
}

bool is_empty(const GemmShape& s) { return s.m == 0 || s.n == 0 || s.k == 0; }
bool is_large(const GemmShape& s) { return s.n * s.k * bytes(s) > kLargeBytes && s.m >= kLargeRows; }
bool is_huge(const GemmShape& s) { return s.n * s.k * bytes(s) > kHugeBytes && s.m >= kHugeRows; }
bool always(const GemmShape&) { return true; }

struct Kernel {
  const char* name;
  bool (*can)(const GemmShape& work, Target target);
  bool (*wants)(const GemmShape& work);  // worth choosing, given that the kernels before it were not
  bool (*make_f32)(Gemm&);
  bool (*make_f64)(Gemm&);
};

const Kernel kKernels[] = {
    {"empty", [](const GemmShape& s, Target) { return is_empty(s); }, always, make_empty<float>, make_empty<double>},
    {"row", [](const GemmShape& s, Target) { return !is_empty(s) && s.b_col == 1 && s.c_col == 1; },
     [](const GemmShape& s) { return s.m == 1; }, make_row<float>, make_row<double>},
    {"dot", [](const GemmShape& s, Target) { return !is_empty(s) && s.a_col == 1 && s.b_row == 1 && s.c_col == 1; },
     [](const GemmShape& s) { return s.m <= 4 && (s.k >= 32 || s.n <= 8); }, make_dot<float>, make_dot<double>},
    {"libxsmm", [](const GemmShape& s, Target target) { return !is_empty(s) && can_xsmm(s, target); },
     [](const GemmShape& s) { return !is_large(s); }, make_xsmm, make_xsmm},
    {"hwy direct", [](const GemmShape& s, Target) { return !is_empty(s) && s.b_col == 1 && s.c_col == 1; },
     [](const GemmShape& s) { return !is_large(s) && !is_huge(s); }, make_direct<float>, make_direct<double>},
    {"hwy packed", [](const GemmShape& s, Target) { return !is_empty(s); }, always, make_packed<float>,
     make_packed<double>},
    {"reference", [](const GemmShape&, Target) { return true; }, always, make_reference<float>, make_reference<double>},
};

// ---- the shape the kernels see --------------------------------------------------------------------------------------

// Strides along an axis of size 1 mean nothing: set them to what makes the operand look contiguous.
GemmShape plain_strides(GemmShape s) {
  if (s.k == 1) {
    s.a_col = 1;
    s.b_row = s.b_col == 1 ? s.n : 1;
  }
  if (s.m == 1) {
    s.a_row = s.a_col == 1 ? s.k : 1;
    s.c_row = s.c_col == 1 ? s.n : 1;
  }
  if (s.n == 1) {
    s.b_col = s.b_row == 1 ? s.k : 1;
    s.c_col = s.c_row == 1 ? s.m : 1;
  }
  return s;
}

// Exchanges the operands: C^T = B^T . A^T.
GemmShape exchanged(const GemmShape& s) {
  return {s.dtype, s.n, s.m, s.k, s.b_col, s.b_row, s.a_col, s.a_row, s.c_col, s.c_row, s.accumulate};
}

// Kernels want contiguous rows of C, and a vector as a row.
bool should_exchange(const GemmShape& s) {
  if (s.n == 1 && s.m != 1) return true;
  return s.c_col != 1 && s.c_row == 1 && s.m != 1;
}

Gemm start(const GemmShape& shape, Target target) {
  if (!is_floating(shape.dtype))
    throw Error("gemm: the type must be f32 or f64, it is " + std::string(name_of(shape.dtype)));
  if (shape.m < 0 || shape.n < 0 || shape.k < 0)
    throw Error("gemm: negative size " + std::to_string(shape.m) + "x" + std::to_string(shape.k) + "x" +
                std::to_string(shape.n));
  Gemm gemm;
  gemm.shape = shape;
  gemm.target = target;
  gemm.swapped = should_exchange(shape);
  gemm.work = plain_strides(gemm.swapped ? exchanged(shape) : shape);
  return gemm;
}

bool finish(Gemm& gemm, const Kernel& kernel) {
  gemm.kernel = kernel.name;
  return (gemm.shape.dtype == DType::f32 ? kernel.make_f32 : kernel.make_f64)(gemm);
}

}  // namespace

GemmShape row_major(DType dtype, i64 m, i64 n, i64 k, bool accumulate) {
  return {dtype, m, n, k, k, 1, n, 1, n, 1, accumulate};
}

Gemm make_gemm(const GemmShape& shape, Target target) {
  const Gemm begun = start(shape, target);
  for (const Kernel& kernel : kKernels) {
    Gemm gemm = begun;
    if (kernel.can(gemm.work, target) && kernel.wants(gemm.work) && finish(gemm, kernel)) return gemm;
  }
  throw Error("gemm: no kernel");  // not reached: the reference serves everything
}

Gemm make_gemm(const GemmShape& shape, Target target, std::string_view name) {
  Gemm gemm = start(shape, target);
  for (const Kernel& kernel : kKernels)
    if (kernel.name == name && kernel.can(gemm.work, target) && finish(gemm, kernel)) return gemm;
  throw Error("gemm: the kernel '" + std::string(name) + "' cannot serve this shape");
}

std::vector<std::string_view> gemm_kernels(const GemmShape& shape, Target target) {
  const Gemm begun = start(shape, target);
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kKernels)
    if (kernel.can(begun.work, target)) names.push_back(kernel.name);
  return names;
}

}  // namespace wr::cpu
