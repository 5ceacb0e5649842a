// Matrix multiplication: every kernel that can serve a shape, on every SIMD target, against sums in double.
#include "backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/machine.h"
#include "guarded_memory.h"
#include "windrow/error.h"

namespace {

using wr::DType;
using wr::cpu::Gemm;
using wr::cpu::GemmShape;
using wr::cpu::Target;
using i64 = std::int64_t;

const wr::Machine& zen3() {
  static const wr::Machine machine = wr::machine_named("zen3");
  return machine;
}

// How an operand lies in memory.
enum class Layout { rows, columns, rows_apart, columns_apart, strided };
constexpr Layout kLayouts[] = {Layout::rows, Layout::columns, Layout::rows_apart, Layout::columns_apart,
                               Layout::strided};

void set_strides(Layout layout, i64 rows, i64 cols, i64& row, i64& col) {
  switch (layout) {
    case Layout::rows:
      row = cols, col = 1;
      break;
    case Layout::columns:
      row = 1, col = rows;
      break;
    case Layout::rows_apart:
      row = cols + 3, col = 1;
      break;
    case Layout::columns_apart:
      row = 1, col = rows + 5;
      break;
    case Layout::strided:
      row = 2 * cols + 1, col = 2;
      break;
  }
}

GemmShape shape_of(DType dtype, i64 m, i64 n, i64 k, Layout a, Layout b, Layout c, bool accumulate) {
  GemmShape s{.dtype = dtype, .m = m, .n = n, .k = k, .accumulate = accumulate};
  set_strides(a, m, k, s.a_row, s.a_col);
  set_strides(b, k, n, s.b_row, s.b_col);
  set_strides(c, m, n, s.c_row, s.c_col);
  return s;
}

std::string text(const GemmShape& s, const Gemm& gemm) {
  std::string out = std::string(gemm.kernel) + " " + std::string(name_of(gemm.target)) + " " +
                    std::string(name_of(s.dtype)) + (s.accumulate ? " +=" : " =");
  for (const i64 x : {s.m, s.k, s.n, s.a_row, s.a_col, s.b_row, s.b_col, s.c_row, s.c_col}) {
    out += ' ';
    out += std::to_string(x);
  }
  return out;
}

i64 extent(i64 rows, i64 cols, i64 row, i64 col) { return rows && cols ? (rows - 1) * row + (cols - 1) * col + 1 : 0; }

// Heap memory of exactly the operand's extent, so that a sanitizer sees any read beyond it.
template <class T>
std::vector<T> values(i64 count, std::mt19937& random) {
  std::vector<T> out(static_cast<std::size_t>(count));
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (T& x : out) x = static_cast<T>(uniform(random));
  return out;
}

struct Scratch {
  explicit Scratch(std::size_t bytes) : memory(static_cast<char*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64))) {
    used = bytes;
    std::memset(memory, 0xff, (bytes + 127) / 64 * 64);  // NaN: a kernel that reads what it did not write shows
  }
  ~Scratch() { std::free(memory); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool overrun() const { return memory[used] != '\xff'; }
  char* memory;
  std::size_t used;
};

// A copy of some values behind which nothing may be touched.
template <class T>
struct Guarded {
  Guarded(const T* from, std::size_t size) : count(size), memory(size * sizeof(T)) { set(from); }
  void set(const T* from) { std::memcpy(memory.data(), from, count * sizeof(T)); }
  T* begin() const { return static_cast<T*>(memory.data()); }
  std::size_t count;
  wr::GuardedMemory memory;
};

template <class T>
struct Case {
  Case(const GemmShape& s, unsigned seed) : shape(s) {
    std::mt19937 random(seed);
    a = values<T>(extent(s.m, s.k, s.a_row, s.a_col), random);
    b = values<T>(extent(s.k, s.n, s.b_row, s.b_col), random);
    before = values<T>(extent(s.m, s.n, s.c_row, s.c_col) + 2 * kGuard, random);
    expected.assign(before.begin(), before.end());
    bound.assign(before.size(), 0);
    const double eps = std::numeric_limits<T>::epsilon();
    for (i64 i = 0; i < s.m; ++i) {
      for (i64 j = 0; j < s.n; ++j) {
        const auto at = static_cast<std::size_t>(kGuard + i * s.c_row + j * s.c_col);
        long double sum = s.accumulate ? before[at] : T(0), size = std::abs(static_cast<double>(sum));
        for (i64 k = 0; k < s.k; ++k) {
          const long double x = a[i * s.a_row + k * s.a_col], y = b[k * s.b_row + j * s.b_col];
          sum += x * y, size += std::abs(x * y);
        }
        expected[at] = static_cast<double>(sum);
        bound[at] = static_cast<double>(size) * eps * (static_cast<double>(s.k) + 2);
      }
    }
  }

  std::vector<T> run(const Gemm& gemm) const {
    std::vector<T> c = before;
    const Scratch scratch(gemm.scratch_bytes);
    gemm.begin(b.data(), scratch.memory);
    gemm(a.data(), b.data(), c.data() + kGuard, scratch.memory);
    EXPECT_FALSE(scratch.overrun()) << text(shape, gemm);
    return c;
  }

  void check(const Gemm& gemm) const {
    const std::vector<T> c = run(gemm);
    for (std::size_t i = 0; i < c.size(); ++i) {
      // Elements that are not C's have the bound 0: they must stay as they were.
      ASSERT_LE(std::abs(static_cast<double>(c[i]) - expected[i]), bound[i]) << text(shape, gemm) << " at " << i;
    }
    const std::vector<T> again = run(gemm);
    ASSERT_EQ(std::memcmp(c.data(), again.data(), c.size() * sizeof(T)), 0)
        << text(shape, gemm) << " is not repeatable";
  }

  static constexpr i64 kGuard = 40;
  GemmShape shape;
  std::vector<T> a, b, before;
  std::vector<double> expected, bound;
};

/// Each kernel that can serve the shape, and the one for products that share their B.
std::vector<Gemm> every_gemm(const GemmShape& shape, Target target, const wr::Machine& machine) {
  std::vector<Gemm> all;
  for (const auto name : wr::cpu::gemm_kernels(shape, target))
    all.push_back(wr::cpu::make_gemm(shape, target, name, machine));
  all.push_back(wr::cpu::make_repeated_gemm(shape, 50, target, machine));
  return all;
}

template <class T>
void check_every_kernel(const GemmShape& shape, unsigned seed, const wr::Machine& machine = zen3()) {
  const Case<T> data(shape, seed);
  for (const Target target : wr::cpu::available_targets()) {
    const auto names = wr::cpu::gemm_kernels(shape, target);
    ASSERT_FALSE(names.empty());
    ASSERT_EQ(names.back(), "reference");
    for (const Gemm& gemm : every_gemm(shape, target, machine)) {
      // The reference is slow, and the same on every target.
      if (gemm.kernel == std::string("reference") && target != wr::cpu::available_targets().front()) continue;
      ASSERT_NO_FATAL_FAILURE(data.check(gemm));
    }
    ASSERT_NO_FATAL_FAILURE(data.check(wr::cpu::make_gemm(shape, target, machine)));
  }
}

template <class T>
class GemmTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, EveryLayoutAndEdgeSize) {
  constexpr i64 sizes[][3] = {{0, 3, 4}, {3, 0, 4}, {3, 4, 0},  {0, 0, 0}, {1, 1, 1},  {1, 7, 5},    {7, 1, 5},
                              {7, 5, 1}, {1, 1, 9}, {1, 33, 1}, {9, 1, 1}, {2, 17, 3}, {15, 16, 17}, {5, 49, 20}};
  unsigned seed = 0;
  for (const auto& [m, n, k] : sizes)
    for (const Layout a : kLayouts)
      for (const Layout b : kLayouts)
        for (const Layout c : kLayouts)
          for (const bool accumulate : {false, true})
            ASSERT_NO_FATAL_FAILURE(
                check_every_kernel<TypeParam>(shape_of(wr::dtype_of<TypeParam>, m, n, k, a, b, c, accumulate), ++seed));
}

TYPED_TEST(GemmTest, RandomSizesAndLayouts) {
  std::mt19937 random(7);
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (unsigned i = 0; i < 400; ++i) {
    const i64 m = pick(71), n = pick(71), k = pick(71);
    const Layout a = kLayouts[pick(5)], b = kLayouts[pick(5)], c = kLayouts[pick(5)];
    ASSERT_NO_FATAL_FAILURE(
        check_every_kernel<TypeParam>(shape_of(wr::dtype_of<TypeParam>, m, n, k, a, b, c, pick(2) == 1), i));
  }
}

// Sizes of the usual networks, in the three forms a dense layer needs: output, weight gradient, input gradient.
TYPED_TEST(GemmTest, NetworkSizes) {
  constexpr i64 sizes[][3] = {{32, 128, 144}, {64, 64, 128}, {64, 6, 64},   {32, 128, 784}, {196, 16, 72},
                              {784, 8, 9},    {16, 16, 16},  {1, 128, 144}, {4, 10, 64}};
  for (const auto& [m, n, k] : sizes) {
    for (const Layout a : {Layout::rows, Layout::columns})
      for (const Layout b : {Layout::rows, Layout::columns})
        for (const bool accumulate : {false, true})
          ASSERT_NO_FATAL_FAILURE(check_every_kernel<TypeParam>(
              shape_of(wr::dtype_of<TypeParam>, m, n, k, a, b, Layout::rows, accumulate), 3));
  }
}

// Deep, wide and tall enough that every loop over blocks goes round more than once.
TYPED_TEST(GemmTest, SeveralBlocks) {
  constexpr i64 sizes[][3] = {{40, 1000, 700}, {33, 130, 1100}, {5, 2100, 300}, {300, 90, 70}};
  for (const auto& [m, n, k] : sizes) {
    for (const auto& [a, b, c] : {std::array{Layout::rows, Layout::rows, Layout::rows},
                                  std::array{Layout::columns, Layout::columns, Layout::rows_apart},
                                  std::array{Layout::rows_apart, Layout::strided, Layout::strided}})
      ASSERT_NO_FATAL_FAILURE(
          check_every_kernel<TypeParam>(shape_of(wr::dtype_of<TypeParam>, m, n, k, a, b, c, m % 2 == 0), 5));
  }
}

// A machine of tiny caches: small products go through every loop over blocks, with all kinds of rests.
TYPED_TEST(GemmTest, ManyBlocksOnATinyMachine) {
  wr::Machine tiny;
  tiny.l1d = 2 << 10;
  tiny.l2 = 8 << 10;
  std::mt19937 random(11);
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (unsigned i = 0; i < 150; ++i) {
    const i64 m = 1 + pick(90), n = 1 + pick(90), k = 1 + pick(150);
    const Layout a = kLayouts[pick(5)], b = kLayouts[pick(5)], c = kLayouts[pick(5)];
    ASSERT_NO_FATAL_FAILURE(
        check_every_kernel<TypeParam>(shape_of(wr::dtype_of<TypeParam>, m, n, k, a, b, c, pick(2) == 1), i, tiny));
  }
}

// Operands that end where memory ends: a kernel that reads or writes beyond them is killed.
TYPED_TEST(GemmTest, NothingBeyondTheEndIsTouched) {
  std::mt19937 random(13);
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  for (unsigned i = 0; i < 60; ++i) {
    const i64 m = 1 + pick(40), n = 1 + pick(40), k = 1 + pick(40);
    const Layout layouts[] = {Layout::rows, Layout::columns, Layout::rows_apart, Layout::columns_apart};
    const GemmShape s =
        shape_of(wr::dtype_of<TypeParam>, m, n, k, layouts[pick(4)], layouts[pick(4)], layouts[pick(4)], pick(2) == 1);
    const Case<TypeParam> data(s, i);
    const TypeParam* const before = data.before.data() + data.kGuard;
    const Guarded<TypeParam> a(data.a.data(), data.a.size()), b(data.b.data(), data.b.size());
    Guarded<TypeParam> c(before, data.before.size() - 2 * data.kGuard);
    for (const Target target : wr::cpu::available_targets()) {
      for (const Gemm& gemm : every_gemm(s, target, zen3())) {
        const Scratch scratch(gemm.scratch_bytes);
        c.set(before);
        gemm.begin(b.begin(), scratch.memory);
        gemm(a.begin(), b.begin(), c.begin(), scratch.memory);
        ASSERT_TRUE(c.memory.intact()) << text(s, gemm);
        for (std::size_t at = 0; at < c.count; ++at)
          ASSERT_LE(std::abs(static_cast<double>(c.begin()[at]) - data.expected[at + data.kGuard]),
                    data.bound[at + data.kGuard])
              << text(s, gemm) << " at " << at;
      }
    }
  }
}

TYPED_TEST(GemmTest, BroadcastOperands) {
  for (const bool accumulate : {false, true}) {
    GemmShape s = wr::cpu::row_major(wr::dtype_of<TypeParam>, 20, 30, 25, accumulate);
    GemmShape one_row_of_b = s;
    one_row_of_b.b_row = 0;
    ASSERT_NO_FATAL_FAILURE(check_every_kernel<TypeParam>(one_row_of_b, 4));
    s.a_row = 0;
    ASSERT_NO_FATAL_FAILURE(check_every_kernel<TypeParam>(s, 1));
    s.b_col = 0;
    ASSERT_NO_FATAL_FAILURE(check_every_kernel<TypeParam>(s, 2));
    s.a_col = s.b_row = 0;
    ASSERT_NO_FATAL_FAILURE(check_every_kernel<TypeParam>(s, 3));
  }
}

// One B for many products, of which some have other numbers of rows: it is packed once, and not read again.
TEST(Gemm, KeepsWhatStaysTheSame) {
  for (const Target target : wr::cpu::available_targets()) {
    const GemmShape many = shape_of(DType::f32, 20, 70, 90, Layout::rows, Layout::columns, Layout::rows, true);
    GemmShape few = many;
    few.m = 9;
    const Gemm all = wr::cpu::make_repeated_gemm(many, 10, target, zen3());
    const Gemm some = wr::cpu::make_repeated_gemm(few, 10, target, zen3());
    EXPECT_EQ(wr::cpu::make_repeated_gemm(many, 1, target, zen3()).prepare, nullptr) << "a single product";
    if (target == Target::avx512) continue;  // keeps nothing
    ASSERT_NE(all.prepare, nullptr);
    ASSERT_STREQ(all.kernel, some.kernel);
    ASSERT_EQ(all.scratch_bytes, some.scratch_bytes);
    const Case<float> data(many, 1);
    std::vector<float> b = data.b;
    const Scratch scratch(all.scratch_bytes);
    all.begin(b.data(), scratch.memory);
    std::fill(b.begin(), b.end(), std::nanf(""));
    std::vector<float> c = data.before;
    some(data.a.data(), b.data(), c.data() + data.kGuard, scratch.memory);
    some(data.a.data() + 9 * many.a_row, b.data(), c.data() + data.kGuard + 9 * many.c_row, scratch.memory);
    for (std::size_t i = 0; i < static_cast<std::size_t>(data.kGuard + 18 * many.c_row); ++i)
      ASSERT_LE(std::abs(static_cast<double>(c[i]) - data.expected[i]), data.bound[i]) << name_of(target) << ' ' << i;
  }
}

TEST(Gemm, RefusesWhatItCannotServe) {
  const Target target = wr::cpu::active_target();
  EXPECT_THROW(wr::cpu::make_gemm(wr::cpu::row_major(DType::i32, 2, 2, 2), target, zen3()), wr::Error);
  EXPECT_THROW(wr::cpu::make_gemm(wr::cpu::row_major(DType::f32, -1, 2, 2), target, zen3()), wr::Error);
  EXPECT_THROW(wr::cpu::make_gemm(wr::cpu::row_major(DType::f32, 2, 2, 2), target, "no such kernel", zen3()),
               wr::Error);
}

// Blocks follow the machine that is given, not this one.
TEST(Gemm, BlocksComeFromTheMachine) {
  const GemmShape shape = wr::cpu::row_major(DType::f32, 300, 2000, 2000);
  wr::Machine small, large;
  small.l1d = 32 << 10, small.l2 = 256 << 10;
  large.l1d = 48 << 10, large.l2 = 2 << 20;
  for (const Target target : wr::cpu::available_targets()) {
    const Gemm a = wr::cpu::make_gemm(shape, target, "hwy packed", small);
    const Gemm b = wr::cpu::make_gemm(shape, target, "hwy packed", large);
    EXPECT_LE(a.k_block * a.n_block * 4, small.l2 / 2);
    EXPECT_LE(b.k_block * b.n_block * 4, large.l2 / 2);
    EXPECT_LT(a.k_block * a.n_block, b.k_block * b.n_block);
    const Gemm panels = wr::cpu::make_gemm(shape, target, "hwy panels", small);
    EXPECT_LE(panels.scratch_bytes, static_cast<std::size_t>(small.l1d));  // the panel, and nothing else
    EXPECT_LE(panels.m_block * panels.k_block * 4, small.l2);
  }
}

// On AVX2 B is read once where it comes from afar, as it lies even if transposed; columns of A are packed.
TEST(Gemm, ChoosesByShapeAndCaches) {
  const auto& targets = wr::cpu::available_targets();
  if (std::find(targets.begin(), targets.end(), Target::avx2) == targets.end()) GTEST_SKIP() << "needs AVX2";
  wr::Machine machine = zen3();
  const auto chosen = [&](i64 m, i64 k, i64 n, Layout a, Layout b) {
    const GemmShape s = shape_of(DType::f32, m, n, k, a, b, Layout::rows, false);
    return std::string(wr::cpu::make_gemm(s, Target::avx2, machine).kernel);
  };
  EXPECT_EQ(chosen(32, 2048, 2048, Layout::rows, Layout::rows), "hwy panels");
  EXPECT_EQ(chosen(32, 2048, 2048, Layout::rows, Layout::columns), "hwy turned");
  EXPECT_EQ(chosen(11, 64, 128, Layout::rows, Layout::columns), "hwy panels");  // 5 of 16 lanes would be wasted
  EXPECT_EQ(chosen(784, 1024, 512, Layout::columns, Layout::rows), "hwy panels");
  EXPECT_EQ(chosen(2048, 32, 2048, Layout::columns, Layout::rows), "hwy packed");
  EXPECT_EQ(chosen(64, 144, 128, Layout::rows, Layout::rows), "hwy direct");
  EXPECT_EQ(chosen(72, 6272, 16, Layout::columns, Layout::rows), "hwy direct");
  EXPECT_EQ(chosen(64, 64, 6, Layout::rows, Layout::rows), "hwy direct");
  machine.l2 = 64 << 10;
  EXPECT_EQ(chosen(64, 144, 128, Layout::rows, Layout::rows), "hwy panels");
}

// A forced lower target must never run code generated for a higher one.
TEST(Gemm, GeneratedCodeIsForTheBestTargetOnly) {
  const GemmShape shape = wr::cpu::row_major(DType::f32, 32, 128, 144);
  for (const Target target : wr::cpu::available_targets()) {
    if (target == wr::cpu::available_targets().back()) continue;
    for (const auto name : wr::cpu::gemm_kernels(shape, target)) EXPECT_NE(name, "libxsmm");
  }
}

}  // namespace
