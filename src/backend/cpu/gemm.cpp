// The choice of a matrix multiplication kernel: an ordered list, the reference last. docs/gemm.md has the measurements
// behind the order and the limits.
#include "backend/cpu/gemm.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/cpu/gemm_kernel.h"
#include "base/machine.h"
#include "windrow/error.h"

namespace wr::cpu {
namespace {

using i64 = std::int64_t;

// ---- nothing to multiply, and the oracle ----

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

// ---- blocks ----

i64 bytes(const GemmShape& s) { return static_cast<i64>(size_of(s.dtype)); }
i64 ceil_to(i64 x, i64 unit) { return (x + unit - 1) / unit * unit; }

/// Where a product is to run: decides kernels and the sizes of blocks.
struct Site {
  Target target;
  i64 l1, l2;  // bytes

  bool wide() const { return target == Target::avx512; }
  /// A packed block of B: with a strip of A and the strip of C being written, it must stay in L2.
  i64 block_bytes() const { return wide() ? l2 * 3 / 8 : l2 / 2; }
  /// The depth of such a block: a strip of 8 to 14 rows so deep takes up to about half of L1.
  i64 depth_bytes() const { return l1 / 24; }
};

// The depth of one pass over k, all passes nearly equal.
i64 depth_of(const GemmShape& s, i64 most) {
  most = std::max(most / bytes(s), i64{16});
  const i64 passes = (s.k + most - 1) / most;
  return (s.k + passes - 1) / passes;
}

// Exchanges the operands: C^T = B^T . A^T.
GemmShape exchanged(const GemmShape& s) {
  return {s.dtype, s.n, s.m, s.k, s.b_col, s.b_row, s.a_col, s.a_row, s.c_col, s.c_row, s.accumulate};
}

// ---- how each kernel is made ----

template <class T>
std::size_t room(i64 elements) {
  return sizeof(T) * static_cast<std::size_t>(elements);
}

// Columns of A so far apart that a strip of them touches a line, perhaps a page, an element: packed strip by strip.
bool packs_a(const Gemm& gemm, const Site& site) { return !site.wide() && gemm.work.a_col != 1; }

template <class T>
bool make_packed(Gemm& gemm, const Site& site) {
  const HwyGemm<T>& hwy = hwy_gemm<T>(gemm.target);
  const GemmShape& s = gemm.work;
  gemm.k_block = depth_of(s, site.depth_bytes());
  const i64 most = std::max(site.block_bytes() / bytes(s) / gemm.k_block / hwy.panel, i64{1}) * hwy.panel;
  gemm.n_block = std::min(most, ceil_to(s.n, hwy.panel));
  gemm.pack_a = packs_a(gemm, site);
  const i64 strip = s.c_col == 1 ? 0 : hwy.rows * gemm.n_block;
  const i64 a_strip = gemm.pack_a ? hwy.rows * gemm.k_block + hwy.lanes : 0;
  gemm.scratch_bytes = room<T>(gemm.k_block * gemm.n_block + strip + a_strip);
  gemm.run = hwy.packed;
  return true;
}

template <class T>
bool make_direct(Gemm& gemm, const Site& site) {
  const HwyGemm<T>& hwy = hwy_gemm<T>(gemm.target);
  gemm.k_block = 2 * depth_of(gemm.work, site.depth_bytes());
  gemm.pack_a = packs_a(gemm, site) && gemm.work.n > hwy.panel;
  gemm.scratch_bytes = gemm.pack_a ? room<T>(hwy.rows * std::min(gemm.k_block, gemm.work.k) + hwy.lanes) : 0;
  gemm.run = hwy.direct;
  return true;
}

template <class T>
bool make_panels(Gemm& gemm, const Site& site) {
  const HwyGemm<T>& hwy = hwy_gemm<T>(gemm.target);
  const GemmShape& s = gemm.work;
  gemm.strip = hwy.strip;
  gemm.k_block = depth_of(s, site.l1 / 2 / hwy.panel);
  const i64 most = std::max(site.l2 / 2 / bytes(s) / gemm.k_block, i64{1});
  gemm.m_block = ceil_to(std::min(s.m, most), gemm.strip);
  gemm.pack_a = s.a_col != 1;
  const i64 c_block = s.c_col == 1 ? 0 : gemm.m_block * ceil_to(s.n, hwy.lanes);
  const i64 a_block = gemm.pack_a ? gemm.m_block * gemm.k_block + hwy.lanes : 0;
  gemm.scratch_bytes = room<T>(gemm.k_block * 3 * hwy.lanes + c_block + a_block);
  gemm.run = hwy.panels;
  return true;
}

// The same with the operands exchanged, for a B whose columns are contiguous: they are read as they lie.
template <class T>
bool make_turned(Gemm& gemm, const Site& site) {
  gemm.work = exchanged(gemm.work);
  gemm.swapped = !gemm.swapped;
  return make_panels<T>(gemm, site);
}

// For a B that stays: gemm.h, make_repeated_gemm.
template <class T>
void make_kept(Gemm& gemm, const Site& site) {
  const HwyGemm<T>& hwy = hwy_gemm<T>(gemm.target);
  gemm.kernel = "hwy kept";
  gemm.k_block = depth_of(gemm.work, site.l1 / 2 / hwy.panel);
  gemm.scratch_bytes = room<T>(gemm.work.k * ceil_to(gemm.work.n, hwy.lanes));
  gemm.run = hwy.kept;
  gemm.prepare = hwy.keep;
}

template <class T>
bool make_row(Gemm& gemm, const Site&) {
  gemm.run = gemm_of_rows<T>(gemm.target).row;
  return true;
}
template <class T>
bool make_dot(Gemm& gemm, const Site&) {
  gemm.run = gemm_of_rows<T>(gemm.target).dot;
  return true;
}
template <class T>
bool make_empty(Gemm& gemm, const Site&) {
  gemm.run = run_empty<T>;
  return true;
}
template <class T>
bool make_reference(Gemm& gemm, const Site&) {
  gemm.run = run_reference<T>;
  return true;
}
bool make_generated(Gemm& gemm, const Site& site) { return make_xsmm(gemm, site.l2 * 3 / 8); }

// ---- the list ----

bool is_empty(const GemmShape& s) { return s.m == 0 || s.n == 0 || s.k == 0; }
i64 bytes_of_b(const GemmShape& s) { return s.n * s.k * bytes(s); }

// Rows of A that become columns: whole vectors of them, or they are wasted.
bool fills_vectors(i64 rows, i64 vector_bytes, const GemmShape& s) {
  return rows * 8 >= ceil_to(rows, vector_bytes / bytes(s)) * 7;
}

// Rules for AVX-512, as measured on Emerald Rapids.
namespace wide {
// Rows that are too few to become a vector's lanes.
bool few_rows(const GemmShape& s) { return s.m <= 16 && !fills_vectors(s.m, 64, s); }
// So deep, a transposed B is better read as it lies than copied in order for LIBXSMM.
bool deep_and_transposed(const GemmShape& s) { return s.b_col != 1 && s.k >= (few_rows(s) && s.n >= 64 ? 64 : 128); }
// A B that does not stay in L2 is left to LIBXSMM only with rows enough to use what it reads, and not more than pay for
// packing.
bool xsmm(const GemmShape& s, const Site& at) {
  if (deep_and_transposed(s)) return false;
  const i64 b = bytes_of_b(s);
  return b <= at.l2 || (b <= 2 * at.l2 && s.m >= 64 && s.m < 256);
}
bool dot(const GemmShape& s, const Site& at) {
  return s.m <= 16 && (bytes_of_b(s) > at.l2 / 2 || (s.k >= 256 && few_rows(s)));
}
bool turned(const GemmShape& s, const Site& at) {
  const i64 most = bytes_of_b(s) <= at.l2 ? 64 : 32;
  return deep_and_transposed(s) && s.m <= most && s.n >= s.m && fills_vectors(s.m, 64, s);
}
bool direct(const GemmShape& s, const Site& at) { return bytes_of_b(s) <= at.l2 / 2 || s.m <= 8; }
bool panels(const GemmShape& s, const Site&) { return s.b_col == 1 ? s.m <= 64 : few_rows(s); }
// A plain B that stays in L2 is left to LIBXSMM.
bool kept(const GemmShape& s, i64 times) { return s.b_col != 1 && s.m > 6 && times >= 4; }
}  // namespace wide

// Rules for AVX2 and what is narrower, as measured on Zen 3.
namespace narrow {
// LIBXSMM is ahead where k is very small, at the widths its tiles of four and three vectors fit, and where columns of A
// can be read as they lie: few of them, or all in L1, and not so far apart that their lines push one another out of it.
// A last vector that is not full costs it more than us.
bool xsmm(const GemmShape& s, const Site& at) {
  const i64 row = s.n * bytes(s);
  if (row % 32 != 0 || bytes_of_b(s) > at.l2 / 2) return false;
  if (s.k <= 24) return true;
  if (s.b_col != 1) return false;
  if (s.a_col != 1)
    return row > 64 && (s.k <= 64 || s.k * s.a_col * bytes(s) <= at.l1) && s.a_col * bytes(s) % 1024 != 0;
  return row == 96 || row == 128 || row == 224 || row == 256;
}
// A B that is packed once for several products; very few rows are better left to kernels made for them.
bool kept(const GemmShape& s, i64 times) { return s.m > 6 && times >= 4; }
// So many rows pay for packing blocks of B, whichever way it lies; each strip of A is then read once a block.
bool many_rows(const GemmShape& s) { return s.a_col == 1 && s.m >= 256; }
// With many rows, a large B must be at stake.
bool turned(const GemmShape& s, const Site& at) {
  return !many_rows(s) && s.n >= s.m && fills_vectors(s.m, 32, s) && (s.m <= 32 || bytes_of_b(s) > at.l2 / 2);
}
// Beside a single panel, columns of A are as well read as they lie: each is needed once. Three or five vectors leave a
// single one over, where panels have tiles of three.
bool direct(const GemmShape& s, const Site& at) {
  const i64 vectors = (s.n * bytes(s) + 31) / 32;
  if (vectors <= 2) return true;
  if (s.a_col != 1) return false;
  const i64 near = s.m < 64 ? at.l2 / 2 : at.l2 / 2 - 1;  // where it is just half of L2, rows decide
  return s.m <= 6 || (vectors != 3 && vectors != 5 && bytes_of_b(s) <= near);
}
// Of a large C that is written once, whole rows are better written one after the other.
bool panels(const GemmShape& s, const Site& at) {
  if (many_rows(s) && bytes_of_b(s) > at.l2 / 2) return false;
  return s.k > 64 || s.m * s.n * bytes(s) <= at.l2;
}
}  // namespace narrow

bool wants_xsmm(const GemmShape& s, const Site& at) { return at.wide() ? wide::xsmm(s, at) : narrow::xsmm(s, at); }
bool wants_dot(const GemmShape& s, const Site& at) {
  return (s.m <= 4 && (s.k >= 32 || s.n <= 8)) || (at.wide() && wide::dot(s, at));
}
bool wants_turned(const GemmShape& s, const Site& at) {
  return at.wide() ? wide::turned(s, at) : narrow::turned(s, at);
}
bool wants_direct(const GemmShape& s, const Site& at) {
  return at.wide() ? wide::direct(s, at) : narrow::direct(s, at);
}
bool wants_panels(const GemmShape& s, const Site& at) {
  return at.wide() ? wide::panels(s, at) : narrow::panels(s, at);
}
bool always(const GemmShape&, const Site&) { return true; }

struct Kernel {
  const char* name;
  bool (*can)(const GemmShape& work, Target target);
  bool (*wants)(const GemmShape& work, const Site&);  // worth choosing, given that the kernels before it were not
  bool (*make_f32)(Gemm&, const Site&);
  bool (*make_f64)(Gemm&, const Site&);
};

const Kernel kKernels[] = {
    {"empty", [](const GemmShape& s, Target) { return is_empty(s); }, always, make_empty<float>, make_empty<double>},
    {"row", [](const GemmShape& s, Target) { return !is_empty(s) && s.b_col == 1 && s.c_col == 1; },
     [](const GemmShape& s, const Site&) { return s.m == 1; }, make_row<float>, make_row<double>},
    {"dot", [](const GemmShape& s, Target) { return !is_empty(s) && s.a_col == 1 && s.b_row == 1 && s.c_col == 1; },
     wants_dot, make_dot<float>, make_dot<double>},
    {"libxsmm", [](const GemmShape& s, Target target) { return !is_empty(s) && can_xsmm(s, target); }, wants_xsmm,
     make_generated, make_generated},
    {"hwy turned", [](const GemmShape& s, Target) { return !is_empty(s) && s.b_row == 1 && s.b_col != 1; },
     wants_turned, make_turned<float>, make_turned<double>},
    {"hwy direct", [](const GemmShape& s, Target) { return !is_empty(s) && s.b_col == 1 && s.c_col == 1; },
     wants_direct, make_direct<float>, make_direct<double>},
    {"hwy panels", [](const GemmShape& s, Target) { return !is_empty(s); }, wants_panels, make_panels<float>,
     make_panels<double>},
    {"hwy packed", [](const GemmShape& s, Target) { return !is_empty(s); }, always, make_packed<float>,
     make_packed<double>},
    {"reference", [](const GemmShape&, Target) { return true; }, always, make_reference<float>, make_reference<double>},
};

// ---- the shape the kernels see ----

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

bool finish(Gemm& gemm, const Kernel& kernel, const Site& site) {
  gemm.kernel = kernel.name;
  return (gemm.shape.dtype == DType::f32 ? kernel.make_f32 : kernel.make_f64)(gemm, site);
}

}  // namespace

GemmShape row_major(DType dtype, i64 m, i64 n, i64 k, bool accumulate) {
  return {dtype, m, n, k, k, 1, n, 1, n, 1, accumulate};
}

Gemm make_gemm(const GemmShape& shape, Target target, const Machine& machine) {
  const Gemm begun = start(shape, target);
  const Site site{target, machine.l1d, machine.l2};
  for (const Kernel& kernel : kKernels) {
    Gemm gemm = begun;
    if (kernel.can(gemm.work, target) && kernel.wants(gemm.work, site) && finish(gemm, kernel, site)) return gemm;
  }
  throw Error("gemm: no kernel");  // not reached: the reference serves everything
}

Gemm make_repeated_gemm(const GemmShape& shape, i64 times, Target target, const Machine& machine) {
  Gemm gemm = start(shape, target);
  const Site site{target, machine.l1d, machine.l2};
  const bool plain = !is_empty(gemm.work) && !gemm.swapped && gemm.work.c_col == 1;
  const bool kept = site.wide() ? wide::kept(gemm.work, times) : narrow::kept(gemm.work, times);
  if (!plain || !kept) return make_gemm(shape, target, machine);
  gemm.shape.dtype == DType::f32 ? make_kept<float>(gemm, site) : make_kept<double>(gemm, site);
  return gemm;
}

Gemm make_gemm(const GemmShape& shape, Target target, std::string_view name, const Machine& machine) {
  Gemm gemm = start(shape, target);
  const Site site{target, machine.l1d, machine.l2};
  for (const Kernel& kernel : kKernels)
    if (kernel.name == name && kernel.can(gemm.work, target) && finish(gemm, kernel, site)) return gemm;
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
