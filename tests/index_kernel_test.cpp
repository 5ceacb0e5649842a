// Index kernels against plain loops, on every SIMD target and type, with indices out of range and guards.
#include "backend/cpu/index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernel_speed.h"

namespace wr::cpu {
namespace {

using std::int64_t;

template <class T>
constexpr DType type_of = dtype_of<T>;

template <class T>
T missing() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
  return T(0);
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]))) return false;
  return a.size() == b.size();
}

template <class T>
std::vector<T> values(int64_t n, unsigned seed) {
  std::mt19937 gen(seed);
  std::vector<T> v(n);
  for (auto& x : v) {
    if constexpr (std::is_floating_point_v<T>)
      x = static_cast<T>(std::normal_distribution<double>()(gen));
    else
      x = static_cast<T>(gen());  // integers wrap
  }
  return v;
}

std::vector<std::int32_t> indices(int64_t n, int64_t size, unsigned seed, bool wild) {
  std::mt19937 gen(seed);
  std::vector<std::int32_t> v(n);
  for (auto& x : v) {
    x = size > 0 ? static_cast<std::int32_t>(gen() % size) : 0;
    if (wild && gen() % 4 == 0)
      x = std::vector<std::int32_t>{-1, static_cast<std::int32_t>(size), std::numeric_limits<std::int32_t>::max(),
                                    std::numeric_limits<std::int32_t>::min()}[gen() % 4];
  }
  return v;
}

constexpr int64_t kGuard = 70;

// Runs `call(ptr0)` on a copy of `before` with guards, and compares with `want`.
template <class T, class F>
void check(const std::vector<T>& before, const std::vector<T>& want, const std::string& what, F call) {
  std::vector<T> out(before.size() + 2 * kGuard, T(77)), guarded = out;
  std::copy(before.begin(), before.end(), out.begin() + kGuard);
  std::copy(want.begin(), want.end(), guarded.begin() + kGuard);
  call(out.data() + kGuard);
  ASSERT_TRUE(same(out, guarded)) << what;
}

template <class T>
T plus(T a, T b) {
  if constexpr (std::is_same_v<T, std::int32_t>)
    return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  else
    return static_cast<T>(a + b);
}

template <class T>
void check_index(IndexParams p, int64_t gap, bool wild) {
  p.x_outer_stride = p.axis_size * p.inner + gap;
  auto x = values<T>(p.outer * p.x_outer_stride, 1), updates = values<T>(p.outer * p.count * p.inner, 2);
  auto shared = indices(p.count, p.axis_size, 3, wild),
       along = indices(p.outer * p.count * p.inner, p.axis_size, 4, wild);
  std::vector<T> gathered(updates.size()), taken = gathered, scattered = x, put = x;
  if (p.clear)
    for (int64_t o = 0; o < p.outer; ++o)
      for (int64_t i = 0; i < p.axis_size * p.inner; ++i)
        scattered[o * p.x_outer_stride + i] = put[o * p.x_outer_stride + i] = T(0);
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t j = 0; j < p.count; ++j)
      for (int64_t i = 0; i < p.inner; ++i) {
        const int64_t at = (o * p.count + j) * p.inner + i, base = o * p.x_outer_stride + i;
        const auto place = [&](int64_t k) { return k >= 0 && k < p.axis_size ? base + k * p.inner : -1; };
        const int64_t a = place(shared[j]), b = place(along[at]);
        gathered[at] = a < 0 ? missing<T>() : x[a];
        taken[at] = b < 0 ? missing<T>() : x[b];
        if (a >= 0) scattered[a] = plus(scattered[a], updates[at]);
        if (b >= 0) put[b] = plus(put[b], updates[at]);
      }
  for (Target t : available_targets()) {
    const std::string on = std::string(name_of(t)) + " " + std::string(name_of(type_of<T>)) + " outer " +
                           std::to_string(p.outer) + " axis " + std::to_string(p.axis_size) + " inner " +
                           std::to_string(p.inner) + " count " + std::to_string(p.count);
    const std::vector<T> blank(updates.size(), T(5));
    const auto run = [&](IndexKernel kernel, std::vector<T>& in, std::vector<std::int32_t>& idx) {
      return [&, kernel](T* out) {
        void* ptr[] = {out, in.data(), idx.data()};
        kernel(p, ptr, 0);
      };
    };
    check<T>(blank, gathered, "gather " + on, run(find_gather(type_of<T>, t), x, shared));
    check<T>(blank, taken, "take_along " + on, run(find_take_along(type_of<T>, t), x, along));
    check<T>(x, scattered, "scatter_add " + on, run(find_scatter_add(type_of<T>, t), updates, shared));
    check<T>(x, put, "put_along_add " + on, run(find_put_along_add(type_of<T>, t), updates, along));
  }
}

template <class T>
class IndexKernelOf : public testing::Test {};
using Types = testing::Types<float, double, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(IndexKernelOf, Types);

TYPED_TEST(IndexKernelOf, GatherScatterTakePut) {
  for (int64_t inner : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 129})
    for (int64_t outer : {0, 1, 3})
      for (int64_t count : {0, 1, 9})
        for (bool wild : {false, true})
          check_index<TypeParam>(
              {.outer = outer, .axis_size = 5, .inner = inner, .count = count, .clear = count == 9 && wild},
              outer == 3 ? 4 : 0, wild);
  check_index<TypeParam>({.outer = 2, .axis_size = 0, .inner = 3, .count = 4}, 0, true);
  check_index<TypeParam>({.outer = 70, .axis_size = 6, .inner = 1, .count = 1}, 0, true);  // one value a row
  check_index<TypeParam>({.outer = 2, .axis_size = 3, .inner = 0, .count = 4, .clear = true}, 0, true);
}

TYPED_TEST(IndexKernelOf, OneHot) {
  for (int64_t rows : {0, 1, 5, 64})
    for (int64_t classes : {0, 1, 3, 10, 33}) {
      auto idx = indices(rows, classes, 6, true);
      std::vector<TypeParam> want(rows * classes);
      for (int64_t r = 0; r < rows; ++r)
        if (idx[r] >= 0 && idx[r] < classes) want[r * classes + idx[r]] = 1;
      const OneHotParams p{rows, classes};
      for (Target t : available_targets())
        check<TypeParam>(std::vector<TypeParam>(want.size(), TypeParam(9)), want, "one_hot", [&](TypeParam* out) {
          void* ptr[] = {out, idx.data()};
          find_one_hot(type_of<TypeParam>, t)(p, ptr, 0);
        });
    }
}

template <class T>
void check_embedding(const EmbeddingParams& p, bool wild) {
  auto table = values<T>(p.entries * p.width, 1), d_out = values<T>(p.rows * p.width, 2);
  auto idx = indices(p.rows * p.terms, p.entries, 3, wild);
  std::vector<T> sum(p.rows * p.width, T(0)), d_table = p.clear ? std::vector<T>(table.size()) : table;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t j = 0; j < p.terms; ++j)
      for (int64_t c = 0; c < p.width; ++c) {
        const int64_t k = idx[r * p.terms + j], at = r * p.width + c;
        const bool inside = k >= 0 && k < p.entries;
        sum[at] = plus(sum[at], inside ? table[k * p.width + c] : missing<T>());
        if (inside) d_table[k * p.width + c] = plus(d_table[k * p.width + c], d_out[at]);
      }
  for (Target t : available_targets()) {
    const std::string on =
        std::string(name_of(t)) + " " + std::string(name_of(type_of<T>)) + " width " + std::to_string(p.width);
    check<T>(std::vector<T>(sum.size(), T(3)), sum, "embedding_sum " + on, [&](T* out) {
      void* ptr[] = {out, table.data(), idx.data()};
      find_embedding_sum(type_of<T>, t)(p, ptr, 0);
    });
    check<T>(table, d_table, "embedding_scatter " + on, [&](T* out) {
      void* ptr[] = {out, d_out.data(), idx.data()};
      find_embedding_scatter(type_of<T>, t)(p, ptr, 0);
    });
  }
}

TEST(IndexKernel, Embedding) {
  for (int64_t width : {0, 1, 2, 3, 4, 5, 8, 12, 16, 17, 31, 32, 48, 64, 100, 128, 145, 300})
    for (int64_t rows : {0, 1, 6})
      for (int64_t terms : {0, 1, 5})
        for (bool wild : {false, true}) {
          const EmbeddingParams p{.rows = rows, .terms = terms, .entries = 7, .width = width, .clear = wild};
          check_embedding<float>(p, wild);
          check_embedding<double>(p, wild);
          check_embedding<std::int32_t>(p, wild);
        }
}

TEST(IndexKernel, BoolMovesButDoesNotAdd) {
  EXPECT_NE(find_gather(DType::boolean, active_target()), nullptr);
  EXPECT_NE(find_one_hot(DType::boolean, active_target()), nullptr);
  EXPECT_EQ(find_scatter_add(DType::boolean, active_target()), nullptr);
  EXPECT_EQ(find_put_along_add(DType::boolean, active_target()), nullptr);
  EXPECT_EQ(find_embedding_sum(DType::u8, active_target()), nullptr);
}

TEST(IndexKernel, DISABLED_Speed) {
  SpeedArray<float> a = speed_input<float>(1 << 19), b = a;
  SpeedArray<std::int32_t> idx = speed_input<std::int32_t>(1 << 14);
  void* ptr[] = {a.data(), b.data(), idx.data()};
  const IndexParams rows{.axis_size = 97, .inner = 128, .count = 1024, .x_outer_stride = 97 * 128};
  print_speed("gather 1024 rows of 128 f32", 8.0 * 1024 * 128,
              [&](Target t) { find_gather(DType::f32, t)(rows, ptr, 0); });
  print_speed("scatter_add 1024 rows of 128 f32", 12.0 * 1024 * 128,
              [&](Target t) { find_scatter_add(DType::f32, t)(rows, ptr, 0); });
  const IndexParams one{.outer = 1024, .axis_size = 97, .inner = 1, .count = 1, .x_outer_stride = 97, .clear = true};
  print_speed("take_along 1 of 97, 1024 rows f32", 12.0 * 1024,
              [&](Target t) { find_take_along(DType::f32, t)(one, ptr, 0); });
  print_speed("put_along_add 1 of 97, 1024 rows", 4.0 * 97 * 1024,
              [&](Target t) { find_put_along_add(DType::f32, t)(one, ptr, 0); });
  const OneHotParams classes{1024, 10};
  void* hot[] = {a.data(), idx.data()};
  print_speed("one_hot 1024x10 f32", 44.0 * 1024, [&](Target t) { find_one_hot(DType::f32, t)(classes, hot, 0); });
  for (int64_t width : {16, 128}) {
    const EmbeddingParams p{.rows = 256, .terms = 20, .entries = 97, .width = width};
    const std::string shape = " 256x20, width " + std::to_string(width);
    const double bytes = 4.0 * 256 * 20 * static_cast<double>(width);
    print_speed("embedding_sum" + shape, bytes, [&](Target t) { find_embedding_sum(DType::f32, t)(p, ptr, 0); });
    print_speed("embedding_scatter" + shape, 2 * bytes,
                [&](Target t) { find_embedding_scatter(DType::f32, t)(p, ptr, 0); });
  }
}

}  // namespace
}  // namespace wr::cpu
