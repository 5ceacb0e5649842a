// Copy and fill kernels against an element-by-element copy, on every SIMD target, with guards round the destination.
#include "backend/cpu/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernel_speed.h"

namespace wr::cpu {
namespace {

constexpr std::int64_t kGuard = 80;

// The bytes of a strided view, with `guard` elements of room on both sides: none for a source, so that the address
// sanitizer sees any read beyond it.
struct Region {
  std::int64_t low = 0, high = 0;  // first and last element relative to the one with index 0
  std::int64_t guard;
  Region(const Dims& dims, const Strides& strides, std::int64_t room) : guard(room) {
    for (int i = 0; i < dims.rank(); ++i)
      (strides[i] < 0 ? low : high) += strides[i] * std::max<std::int64_t>(dims[i] - 1, 0);
  }
  std::int64_t bytes(int elem) const { return (high - low + 1 + 2 * guard) * elem; }
  std::int64_t origin(int elem) const { return (guard - low) * elem; }
};

template <class F>
void for_each_index(const Dims& dims, F f) {
  if (dims.count() == 0) return;
  Dims index(dims.rank(), 0);
  for (;;) {
    f(index);
    int axis = dims.rank() - 1;
    for (; axis >= 0 && ++index[axis] == dims[axis]; --axis) index[axis] = 0;
    if (axis < 0) return;
  }
}

std::int64_t offset_of(const Dims& index, const Strides& strides) {
  std::int64_t at = 0;
  for (int i = 0; i < index.rank(); ++i) at += index[i] * strides[i];
  return at;
}

std::vector<unsigned char> noise(std::int64_t bytes, unsigned seed) {
  std::mt19937 gen(seed);
  std::vector<unsigned char> v(bytes);
  for (auto& b : v) b = static_cast<unsigned char>(gen());
  return v;
}

void check_copy(const Dims& dims, const Strides& dst_strides, const Strides& src_strides, int elem) {
  const Region to(dims, dst_strides, kGuard), from(dims, src_strides, 0);
  auto source = noise(from.bytes(elem), 1);
  const auto before = noise(to.bytes(elem), 2);
  auto want = before;
  for_each_index(dims, [&](const Dims& index) {
    std::memcpy(want.data() + to.origin(elem) + offset_of(index, dst_strides) * elem,
                source.data() + from.origin(elem) + offset_of(index, src_strides) * elem, elem);
  });
  const CopyParams params = make_copy(dims, dst_strides, src_strides, elem);
  for (Target target : available_targets()) {
    auto got = before;
    void* ptr[] = {got.data() + to.origin(elem), source.data() + from.origin(elem)};
    find_copy(params, target)(params, ptr, 0);
    ASSERT_TRUE(got == want) << name_of(target) << " dims " << to_string(dims) << " dst " << to_string(dst_strides)
                             << " src " << to_string(src_strides) << " elem " << elem << " kind "
                             << static_cast<int>(params.kind);
  }
}

void check_fill(const Dims& dims, const Strides& strides, int elem) {
  const Region to(dims, strides, kGuard);
  const unsigned char value[8] = {17, 34, 51, 68, 85, 102, 119, 136};
  const auto before = noise(to.bytes(elem), 3);
  auto want = before;
  for_each_index(dims, [&](const Dims& index) {
    std::memcpy(want.data() + to.origin(elem) + offset_of(index, strides) * elem, value, elem);
  });
  const FillParams params = make_fill(dims, strides, elem, value);
  for (Target target : available_targets()) {
    auto got = before;
    void* ptr[] = {got.data() + to.origin(elem)};
    find_fill(params, target)(params, ptr, 0);
    ASSERT_TRUE(got == want) << name_of(target) << " dims " << to_string(dims) << " strides " << to_string(strides);
  }
}

// Strides of a dense array whose axes lie in memory in the order `perm`, slowest first, each row padded by `pad`.
Strides permuted_strides(const Dims& dims, const std::vector<int>& perm, std::int64_t pad = 0) {
  Strides s(dims.rank(), 0);
  std::int64_t step = 1;
  for (int i = dims.rank() - 1; i >= 0; --i) {
    s[perm[i]] = step;
    step *= std::max<std::int64_t>(dims[perm[i]], 1);
    if (i == dims.rank() - 1) step += pad;
  }
  return s;
}

TEST(CopyKernel, ClassifiesTheCommonCases) {
  EXPECT_EQ(make_copy({4, 5, 6}, {30, 6, 1}, {30, 6, 1}, 4).kind, CopyKind::rows);
  EXPECT_EQ(make_copy({4, 5, 6}, {30, 6, 1}, {30, 6, 1}, 4).rank, 1);
  EXPECT_EQ(make_copy({4, 5, 6}, {30, 6, 1}, {60, 12, 1}, 4).rank, 2);
  EXPECT_EQ(make_copy({4, 6}, {6, 1}, {1, 0}, 4).kind, CopyKind::broadcast);
  EXPECT_EQ(make_copy({4, 6}, {6, 1}, {1, 4}, 4).kind, CopyKind::transpose);
  EXPECT_EQ(make_copy({4, 6}, {6, 1}, {6, -1}, 4).kind, CopyKind::reverse);
  EXPECT_EQ(make_copy({4, 6}, {-6, -1}, {-6, -1}, 4).rank, 1);
  EXPECT_EQ(make_copy({4, 0}, {1, 1}, {1, 1}, 4).kind, CopyKind::nothing);
  const CopyParams pairs = make_copy({5, 7, 2}, {14, 2, 1}, {2, 10, 1}, 4);  // pairs of f32 move as one element
  EXPECT_EQ(pairs.kind, CopyKind::transpose);
  EXPECT_EQ(pairs.elem_size, 8);
}

TEST(CopyKernel, Scalar) {
  for (int elem : {1, 4, 8}) {
    check_copy({}, {}, {}, elem);
    check_copy({1, 1}, {7, 3}, {0, -2}, elem);
    check_fill({}, {}, elem);
  }
}

TEST(CopyKernel, EmptyTouchesNothing) {
  check_copy({0}, {1}, {1}, 4);
  check_copy({3, 0, 2}, {2, 2, 1}, {0, 0, 0}, 8);
  check_fill({3, 0}, {1, 1}, 4);
}

TEST(CopyKernel, Contiguous) {
  for (int elem : {1, 4, 8})
    for (std::int64_t n = 1; n < 140; ++n) check_copy({n}, {1}, {1}, elem);
}

TEST(CopyKernel, Rows) {
  for (int elem : {1, 4, 8})
    for (std::int64_t n = 1; n < 70; ++n) {
      check_copy({3, n}, {n + 3, 1}, {n + 1, 1}, elem);
      check_copy({3, 2, n}, {3 * n, n, 1}, {0, n, 1}, elem);
      check_copy({2, 3, n}, {3 * n, n, 1}, {n, 2 * n, 1}, elem);
    }
}

TEST(CopyKernel, Broadcast) {
  for (int elem : {1, 4, 8})
    for (std::int64_t n = 1; n < 70; ++n) {
      check_copy({3, n}, {n, 1}, {1, 0}, elem);
      check_copy({3, n}, {n, 1}, {0, 0}, elem);
      check_copy({n, 3}, {1, n + 2}, {0, 1}, elem);
    }
}

TEST(CopyKernel, Reversed) {
  for (int elem : {1, 4, 8})
    for (std::int64_t n = 1; n < 70; ++n) {
      check_copy({2, n}, {n, 1}, {n, -1}, elem);
      check_copy({2, n}, {n, -1}, {-n, 1}, elem);
      check_copy({2, n}, {-n, -1}, {n, 1}, elem);
    }
}

TEST(CopyKernel, Transpose) {
  for (int elem : {1, 4, 8})
    for (std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100, 300})
      for (std::int64_t m : {1, 2, 4, 6, 8, 11, 16, 19, 32, 65}) {
        check_copy({m, n}, {n, 1}, {1, m}, elem);
        check_copy({m, n}, {n + 2, 1}, {1, m + 5}, elem);
        check_copy({2, m, n}, {n * m, n, 1}, {n * m, 1, m}, elem);
      }
}

TEST(CopyKernel, EveryPermutationOfFourAxes) {
  std::vector<int> perm{0, 1, 2, 3};
  do {
    for (int elem : {1, 4, 8})
      for (const Dims& dims : {Dims{2, 9, 3, 17}, Dims{5, 1, 8, 2}, Dims{3, 4, 12, 8}}) {
        check_copy(dims, contiguous_strides(dims), permuted_strides(dims, perm), elem);
        check_copy(dims, contiguous_strides(dims), permuted_strides(dims, perm, 3), elem);
        check_copy(dims, permuted_strides(dims, perm, 1), contiguous_strides(dims), elem);
      }
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(CopyKernel, RandomStrides) {
  std::mt19937 gen(7);
  const auto pick = [&](int n) { return static_cast<int>(gen() % n); };
  for (int trial = 0; trial < 3000; ++trial) {
    const int rank = 1 + pick(kMaxRank);
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(rank > 5 ? 1 + pick(3) : pick(40) == 0 ? 0 : 1 + pick(9));
    std::vector<int> perm(rank);
    for (int i = 0; i < rank; ++i) perm[i] = i;
    std::shuffle(perm.begin(), perm.end(), gen);
    Strides dst = permuted_strides(dims, perm, pick(3));
    std::shuffle(perm.begin(), perm.end(), gen);
    Strides src = permuted_strides(dims, perm, pick(3));
    for (int i = 0; i < rank; ++i) {
      if (pick(4) == 0) dst[i] = -dst[i];
      if (pick(4) == 0) src[i] = -src[i];
      if (pick(4) == 0) src[i] = 0;
      if (pick(9) == 0) src[i] *= 2;
    }
    const int elem = std::vector<int>{1, 4, 8}[pick(3)];
    check_copy(dims, dst, src, elem);
    check_fill(dims, dst, elem);
  }
}

TEST(CopyKernel, PadIsFillThenCopy) {
  // [3,4] into the middle of [5,7]: what the pad op does.
  std::vector<float> x(12), out(35, -1), want(35, 9);
  for (int i = 0; i < 12; ++i) x[i] = static_cast<float>(i), want[(1 + i / 4) * 7 + 2 + i % 4] = static_cast<float>(i);
  const float nine = 9;
  const FillParams fill = make_fill({5, 7}, {7, 1}, 4, &nine);
  const CopyParams copy = make_copy({3, 4}, {7, 1}, {4, 1}, 4);
  void* all[] = {out.data()};
  void* middle[] = {out.data() + 9, x.data()};
  find_fill(fill, active_target())(fill, all, 0);
  find_copy(copy, active_target())(copy, middle, 0);
  EXPECT_EQ(out, want);
}

TEST(CopyKernel, DISABLED_Speed) {
  SpeedArray<double> from = speed_input<double>(1 << 20), to = from;
  const auto row = [&](const char* name, const Dims& dims, const Strides& dst, const Strides& src, int elem) {
    const CopyParams p = make_copy(dims, dst, src, elem);
    void* ptr[] = {to.data(), from.data()};
    print_speed(name, 2.0 * elem * static_cast<double>(dims.count()), [&](Target t) { find_copy(p, t)(p, ptr, 0); });
  };
  row("copy 144x128 f32 contiguous", {144, 128}, {128, 1}, {128, 1}, 4);
  row("transpose 144x128 f32", {128, 144}, {144, 1}, {1, 128}, 4);
  row("transpose 32x128 f32", {128, 32}, {32, 1}, {1, 128}, 4);
  row("transpose 784x128 f32", {128, 784}, {784, 1}, {1, 128}, 4);
  row("transpose 144x128 f64", {128, 144}, {144, 1}, {1, 128}, 8);
  row("transpose 144x128 u8", {128, 144}, {144, 1}, {1, 128}, 1);
  row("slice 64x100 of 128 columns f32", {64, 100}, {100, 1}, {128, 1}, 4);
  row("permute [64,196,8] to [196,64,8] f32", {196, 64, 8}, {512, 8, 1}, {8, 1568, 1}, 4);
  row("repeat a row 64x128 f32", {64, 128}, {128, 1}, {0, 1}, 4);
  row("repeat a column 64x128 f32", {64, 128}, {128, 1}, {1, 0}, 4);
  row("every second of 16384 f32", {8192}, {1}, {2}, 4);
}

}  // namespace
}  // namespace wr::cpu
