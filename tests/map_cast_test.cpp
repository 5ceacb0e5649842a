// The elementwise kernels that are not rows of elementwise.def: where, cast and the sum over lanes, on every SIMD
// target.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/map.h"
#include "elements.h"
#include "guarded_memory.h"

namespace wr::cpu {
namespace {

/// What a cast to the type gives for a value read as double.
double converted(DType to, double x) {
  const auto limited = [](double v, double low, double high) {
    return std::isnan(v) ? 0 : std::trunc(std::min(std::max(v, low), high));
  };
  switch (to) {
    case DType::f32:
      return static_cast<float>(x);
    case DType::f64:
      return x;
    case DType::i32:
      return limited(x, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
    case DType::u8:
      return limited(x, 0, 255);
    case DType::boolean:
      return x != 0;
  }
  return 0;
}

class MapOther : public testing::TestWithParam<Target> {};

TEST_P(MapOther, CastBetweenAllTypes) {
  const double inf = HUGE_VAL;
  const double floats[] = {0,   -0.0,          0.5,         -0.5,         1,
                           -1,  1.99,          -1.99,       254.9,        255,
                           256, 300,           -3,          2147483520.0, 2147483648.0,
                           3e9, -2147483648.0, -3e9,        1e30,         -1e30,
                           inf, -inf,          std::nan("")};
  const double integers[] = {0, 1, -1, 2, 255, 256, 1000, -1000, 2147483647.0, -2147483648.0, 16777217};
  const double bytes[] = {0, 1, 2, 127, 128, 255};
  for (DType from : kTypes) {
    std::vector<double> values;
    if (is_floating(from)) {
      values.assign(std::begin(floats), std::end(floats));
    } else if (from == DType::i32) {
      values.assign(std::begin(integers), std::end(integers));
    } else {
      values.assign(std::begin(bytes), std::end(bytes));
    }
    for (DType to : kTypes) {
      for (std::int64_t cols : {1, 5, 16, 70}) {
        for (int pattern = 0; pattern < 3; ++pattern) {  // full, value a row, shared row
          constexpr std::int64_t rows = 3;
          MapParams params;
          params.cols = cols;
          params.row_stride[0] = cols, params.col_stride[0] = 1;
          params.row_stride[1] = pattern == 0 ? cols : pattern == 1, params.col_stride[1] = pattern != 1;
          const std::int64_t count = params.row_stride[1] * (rows - 1) + params.col_stride[1] * (cols - 1) + 1;
          GuardedMemory in(count * size_of(from)), out(rows * cols * size_of(to));
          for (std::int64_t i = 0; i < count; ++i) write(from, in.data(), i, values[(i + cols) % values.size()]);
          void* ptr[] = {out.data(), in.data()};
          find_cast(from, to, GetParam())(params, ptr, rows);
          for (std::int64_t i = 0; i < rows * cols; ++i) {
            const double x = read(from, in.data(), i / cols * params.row_stride[1] + i % cols * params.col_stride[1]);
            const double expected = converted(to, x), actual = read(to, out.data(), i);
            ASSERT_TRUE(expected == actual || (std::isnan(expected) && std::isnan(actual)))
                << name_of(from) << " to " << name_of(to) << ": " << x << " gives " << actual << ", not " << expected;
          }
          ASSERT_TRUE(in.intact() && out.intact());
        }
      }
    }
  }
}

TEST_P(MapOther, WhereWithEveryBroadcastPattern) {
  std::mt19937 random(2);
  for (DType dtype : kTypes) {
    for (std::int64_t cols : {1, 3, 6, 8, 15, 16, 17, 40, 65, 70}) {
      for (std::int64_t rows : {1, 3, 40}) {
        for (int combination = 0; combination < 64; ++combination) {
          const DType types[] = {dtype, DType::boolean, dtype, dtype};
          MapParams params;
          params.cols = cols;
          std::vector<GuardedMemory> memory;
          void* ptr[4];
          for (int k = 0; k < 4; ++k) {
            const int pattern = k == 0 ? 0 : combination >> (2 * (k - 1)) & 3;
            params.col_stride[k] = pattern == 0 || pattern == 2;
            params.row_stride[k] = pattern == 0 ? cols : pattern == 1;
            const std::int64_t count = params.row_stride[k] * (rows - 1) + params.col_stride[k] * (cols - 1) + 1;
            memory.emplace_back(count * size_of(types[k]));
            ptr[k] = memory[k].data();
            for (std::int64_t i = 0; i < count; ++i) write(types[k], ptr[k], i, random() % (k == 1 ? 2 : 100));
          }
          find_where(dtype, GetParam())(params, ptr, rows);
          for (std::int64_t i = 0; i < rows * cols; ++i) {
            double x[4];
            for (int k = 0; k < 4; ++k)
              x[k] = read(types[k], ptr[k], i / cols * params.row_stride[k] + i % cols * params.col_stride[k]);
            ASSERT_EQ(x[0], x[1] != 0 ? x[2] : x[3]) << name_of(dtype) << " cols " << cols << " rows " << rows
                                                     << " combination " << combination << " element " << i;
          }
          for (const GuardedMemory& m : memory) ASSERT_TRUE(m.intact());
        }
      }
    }
  }
}

TEST_P(MapOther, SumOfLanesGoesInOrder) {
  std::mt19937 random(9);
  for (std::int64_t lanes : {1, 2, 3, 8}) {
    for (std::int64_t count : {1, 7, 16, 64, 100, 333}) {
      const std::int64_t stride = count + 5;
      GuardedMemory in((stride * (lanes - 1) + count) * sizeof(float)), out(count * sizeof(float));
      auto* x = static_cast<float*>(in.data());
      for (std::int64_t i = 0; i < stride * (lanes - 1) + count; ++i) x[i] = static_cast<float>(random()) * 1e-3f;
      std::vector<float> expected(x, x + count);
      for (std::int64_t lane = 1; lane < lanes; ++lane)
        for (std::int64_t i = 0; i < count; ++i) expected[i] += x[lane * stride + i];
      for (bool in_place : {false, true}) {
        void* ptr[] = {in_place ? in.data() : out.data(), in.data()};
        find_sum_lanes(DType::f32, GetParam())({lanes, stride}, ptr, count);
        ASSERT_EQ(std::memcmp(ptr[0], expected.data(), count * sizeof(float)), 0) << lanes << " lanes of " << count;
      }
      ASSERT_TRUE(in.intact() && out.intact());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MapOther, testing::ValuesIn(available_targets()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace wr::cpu
