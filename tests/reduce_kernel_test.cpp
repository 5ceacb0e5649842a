// Reductions against a plain loop in double: random shapes, axes and strides, every op, element type and SIMD target.
#include "backend/cpu/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "guarded_memory.h"

namespace wr::cpu {
namespace {

constexpr Reduce kOps[] = {Reduce::sum, Reduce::max, Reduce::min, Reduce::prod, Reduce::argmax, Reduce::argmin};

/// A strided input and which of its axes go.
struct Problem {
  Shape shape;
  Strides strides, out_strides;
  Dims axes;
  std::int64_t in_count = 1, out_count = 1;  // elements of memory
};

/// Shapes of rank 0 to 4, the axes in any order in memory, sometimes with gaps, sometimes repeated (stride 0).
Problem random_problem(std::mt19937& random) {
  Problem p;
  const int rank = static_cast<int>(random() % 5);
  const std::int64_t sizes[] = {1, 2, 3, 6, 7, 8, 10, 16, 17, 33, 70};
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) {
    p.shape.push_back(sizes[random() % (rank > 2 ? 7 : std::size(sizes))]);
    p.strides.push_back(0);
    order.push_back(i);
  }
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  std::int64_t stride = random() % 5 == 0 ? 2 : 1;
  for (int i = rank - 1; i >= 0; --i) {
    const int axis = order[i];
    if (random() % 10 == 0) continue;  // stride 0
    p.strides[axis] = stride;
    p.in_count += (p.shape[axis] - 1) * stride;
    stride *= p.shape[axis] + (random() % 5 == 0 ? 1 : 0);
  }
  Shape kept;
  for (int i = 0; i < rank; ++i) {
    if (random() % 2) {
      p.axes.push_back(i);
    } else {
      kept.push_back(p.shape[i]);
    }
  }
  p.out_strides = contiguous_strides(kept);
  const std::int64_t spread = random() % 4 == 0 ? 2 : 1;
  for (int i = 0; i < kept.rank(); ++i) {
    p.out_strides[i] *= spread;
    p.out_count += (kept[i] - 1) * p.out_strides[i];
  }
  return p;
}

/// Calls f(in offset, out offset, position among the reduced elements) for every element of the input.
template <class F>
void for_each(const Problem& p, F f) {
  std::int64_t index[kMaxRank] = {};
  for (std::int64_t n = p.shape.count(), i = 0; i < n; ++i) {
    std::int64_t rest = i, in = 0, out = 0, position = 0;
    for (int axis = p.shape.rank() - 1; axis >= 0; --axis) {
      index[axis] = rest % p.shape[axis];
      rest /= p.shape[axis];
    }
    int kept = 0;
    for (int axis = 0; axis < p.shape.rank(); ++axis) {
      in += index[axis] * p.strides[axis];
      if (p.axes.contains(axis)) {
        position = position * p.shape[axis] + index[axis];
      } else {
        out += index[axis] * p.out_strides[kept++];
      }
    }
    f(in, out, position);
  }
}

struct Expected {
  long double value = 0;
  double magnitude = 0;  // magnitude: the sum of absolute values, against which sums are compared
  std::int64_t position = -1;
};

void absorb(Expected& e, Reduce op, double x, std::int64_t position, bool first) {
  const bool larger = op == Reduce::max || op == Reduce::argmax;
  switch (op) {
    case Reduce::sum:
      e.value += x, e.magnitude += std::fabs(x);
      return;
    case Reduce::prod:
      e.value *= x, e.magnitude = static_cast<double>(std::fabs(e.value)) * 16;
      return;
    default:
      break;
  }
  if (first || (!std::isnan(e.value) && (std::isnan(x) || (larger ? x > e.value : x < e.value))))
    e.value = x, e.position = position;
}

template <class T>
void check(const Problem& p, Reduce op, Target target, bool accumulate, std::mt19937& random, bool with_nan) {
  const bool position = op == Reduce::argmax || op == Reduce::argmin;
  GuardedMemory in(p.in_count * sizeof(T)), out(p.out_count * (position ? 4 : sizeof(T)));
  auto* x = static_cast<T*>(in.data());
  for (std::int64_t i = 0; i < p.in_count; ++i) {
    const double value = std::is_floating_point_v<T> ? static_cast<double>(random() % 2001) / 1000.0 - 1
                                                     : static_cast<double>(random() % 7);
    x[i] = static_cast<T>(op == Reduce::prod
                              ? (std::is_floating_point_v<T> ? 1 + value / 100 : 1 - 2 * static_cast<int>(random() % 2))
                              : value);
    if (std::is_floating_point_v<T> && with_nan && random() % 20 == 0) x[i] = std::numeric_limits<T>::quiet_NaN();
  }
  std::vector<Expected> expected(p.out_count);
  std::vector<bool> met(p.out_count, false);
  for (std::int64_t i = 0; i < p.out_count; ++i) {
    const T old = static_cast<T>(1 + i % 3);
    if (!position) static_cast<T*>(out.data())[i] = old;
    if (op == Reduce::prod) expected[i].value = 1;
    if (accumulate && !position) absorb(expected[i], op, static_cast<double>(old), 0, true), met[i] = true;
  }
  for_each(p, [&](std::int64_t from, std::int64_t to, std::int64_t at) {
    absorb(expected[to], op, static_cast<double>(x[from]), at, !met[to]);
    met[to] = true;
  });
  const ReduceParams params = make_reduce(p.shape, p.strides, p.axes, p.out_strides, accumulate);
  void* ptr[] = {out.data(), in.data()};
  find_reduce(op, dtype_of<T>, target)(params, ptr, params.kept_size[0]);
  ASSERT_TRUE(in.intact() && out.intact());
  std::vector<bool> seen(p.out_count, false);
  for_each(p, [&](std::int64_t, std::int64_t to, std::int64_t) { seen[to] = true; });
  for (std::int64_t i = 0; i < p.out_count; ++i) {
    if (!seen[i]) continue;
    const std::string what = "op " + std::to_string(static_cast<int>(op)) + " shape " + to_string(p.shape) +
                             " strides " + to_string(p.strides) + " axes " + to_string(p.axes) + " out " +
                             to_string(p.out_strides) + " at " + std::to_string(i);
    if (position) {
      ASSERT_EQ(static_cast<std::int32_t*>(out.data())[i], expected[i].position) << what;
      continue;
    }
    const auto y = static_cast<double>(static_cast<T*>(out.data())[i]);
    if (std::isnan(expected[i].value)) {
      ASSERT_TRUE(std::isnan(y)) << what;
    } else {
      const double unit = !std::is_floating_point_v<T> ? 0 : std::ldexp(64.0, sizeof(T) == 4 ? -24 : -53);
      ASSERT_NEAR(y, static_cast<double>(expected[i].value), unit * (expected[i].magnitude + 1e-9)) << what;
    }
  }
}

class ReduceKernel : public testing::TestWithParam<Target> {};

TEST_P(ReduceKernel, RandomShapesAxesAndStrides) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 1500 && !HasFatalFailure(); ++trial) {
    const Problem p = random_problem(random);
    for (Reduce op : kOps) {
      check<float>(p, op, GetParam(), trial % 2, random, trial % 3 == 0);
      check<double>(p, op, GetParam(), trial % 2, random, trial % 3 == 0);
      check<std::int32_t>(p, op, GetParam(), trial % 2, random, false);
    }
    check<std::uint8_t>(p, Reduce::max, GetParam(), trial % 2, random, false);
    check<std::uint8_t>(p, Reduce::min, GetParam(), trial % 2, random, false);
  }
}

TEST_P(ReduceKernel, LongSumsStayAccurate) {
  constexpr std::int64_t n = 1 << 20;
  std::vector<float> x(2 * n);
  std::mt19937 random(5);
  for (float& v : x) v = std::uniform_real_distribution<float>(0, 1)(random);
  // Contiguous; down columns; strided by 2 elements.
  const struct {
    Shape shape;
    Strides strides;
    Dims axes;
  } cases[] = {{{n}, {1}, {0}}, {{n / 64, 64}, {64, 1}, {0}}, {{n}, {2}, {0}}, {{64, n / 64}, {n / 64, 1}, {1}}};
  for (const auto& c : cases) {
    const Shape kept = c.shape.rank() == 1 ? Shape{} : Shape{64};
    const ReduceParams params = make_reduce(c.shape, c.strides, c.axes, contiguous_strides(kept), false);
    std::vector<float> y(64);
    void* ptr[] = {y.data(), x.data()};
    find_reduce(Reduce::sum, DType::f32, GetParam())(params, ptr, params.kept_size[0]);
    double first = 0;
    for_each({c.shape, c.strides, contiguous_strides(kept), c.axes},
             [&](std::int64_t in, std::int64_t out, std::int64_t) { first += out == 0 ? x[in] : 0.0f; });
    EXPECT_NEAR(y[0] / first, 1.0, 3e-7);
  }
}

TEST_P(ReduceKernel, EmptyReductions) {
  const ReduceParams params = make_reduce({3, 0}, {0, 1}, {1}, {1}, false);
  float y[3] = {7, 7, 7};
  void* ptr[] = {y, nullptr};
  const float inf = std::numeric_limits<float>::infinity();
  const std::pair<Reduce, float> cases[] = {
      {Reduce::sum, 0}, {Reduce::prod, 1}, {Reduce::max, -inf}, {Reduce::min, inf}};
  for (auto [op, value] : cases) {
    find_reduce(op, DType::f32, GetParam())(params, ptr, 3);
    for (float v : y) EXPECT_EQ(v, value);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReduceKernel, testing::ValuesIn(available_targets()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace wr::cpu
