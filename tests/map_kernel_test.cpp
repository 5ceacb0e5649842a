// Elementwise kernels against the oracle in double: every row of elementwise.def, every element type, every SIMD target
// this machine has. Adding a row adds its tests.
#include "backend/cpu/map.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "elements.h"
#include "guarded_memory.h"

namespace wr::cpu {
namespace {

using ops::Elementwise;

struct Case {
  Elementwise op;
  DType dtype;
  Target target;
};

std::string label(const Case& c) {
  return std::string(ops::row_of(c.op).name) + "_" + std::string(name_of(c.dtype)) + "_" +
         std::string(name_of(c.target));
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (Target target : available_targets())
    for (int op = 0; op < ops::kElementwiseOps; ++op)
      for (DType dtype : kTypes)
        if (find_map(static_cast<Elementwise>(op), dtype, target))
          cases.push_back({static_cast<Elementwise>(op), dtype, target});
  return cases;
}

DType result_type(const Case& c) { return ops::row_of(c.op).to_bool ? DType::boolean : c.dtype; }

/// The kernel's error in units of the row's bound: 2^-24 or 2^-53 times |expected|, or times max(1, |expected|) for
/// rows with an absolute bound. Results about as small as the least normal number may be off by it.
double error_units(const Case& c, double expected, double actual) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual) ? 0 : HUGE_VAL;
  if (expected == actual) return 0;
  if (!is_floating(result_type(c))) return HUGE_VAL;
  const bool f32 = c.dtype == DType::f32;
  const double largest = f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  if (std::fabs(expected) > largest * (1 - 1e-6))
    return std::isinf(actual) || std::fabs(actual) > largest * (1 - 1e-5) ? 0 : HUGE_VAL;
  double tiny = f32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  if (ops::row_of(c.op).cost > 12) tiny *= 128;  // a factor may underflow before the product does
  double error = std::fabs(actual - expected);
  if (std::fabs(expected) <= tiny && error <= tiny) return 0;
  const double magnitude = ops::row_of(c.op).absolute ? std::max(1.0, std::fabs(expected)) : std::fabs(expected);
  return error / (magnitude * std::ldexp(1.0, f32 ? -24 : -53));
}

/// The f64 oracle has its own rounding error of about one unit in each function of a formula.
double bound(const Case& c) {
  return ops::row_of(c.op).tolerance + (c.dtype == DType::f64 && ops::row_of(c.op).tolerance > 0 ? 2 : 0);
}

/// Runs the op over n elements, all operands contiguous.
void run_flat(const Case& c, void* const* ptr, std::int64_t n) {
  MapParams params;
  params.cols = n;
  for (int k = 0; k <= ops::row_of(c.op).arity; ++k) params.col_stride[k] = 1, params.row_stride[k] = n;
  find_map(c.op, c.dtype, c.target)(params, ptr, 1);
}

class MapKernel : public testing::TestWithParam<Case> {};

TEST_P(MapKernel, AgreesWithTheOracleOverTheDomain) {
  const Case c = GetParam();
  const ops::Row& row = ops::row_of(c.op);
  constexpr std::int64_t n = 20011;
  std::mt19937_64 random(7);
  std::vector<std::vector<double>> storage(row.arity + 1, std::vector<double>(n));
  void* ptr[kMaxOperands] = {};
  for (int k = 0; k <= row.arity; ++k) ptr[k] = storage[k].data();
  for (int k = 0; k < row.arity; ++k) {
    std::uniform_real_distribution<double> domain(row.domain[k].low, row.domain[k].high);
    for (std::int64_t i = 0; i < n; ++i) write(c.dtype, ptr[k + 1], i, domain(random));
    if (k > 0)  // equal operands now and then, for comparisons and their gradients
      for (std::int64_t i = 0; i < n; i += 5) write(c.dtype, ptr[k + 1], i, read(c.dtype, ptr[1], i));
  }
  if (row.name == "pow" || row.name == "clamp" || row.name == "div") {  // equal operands would leave their domain
    for (std::int64_t i = 0; i < n; i += 5) write(c.dtype, ptr[2], i, row.domain[1].low);
    if (row.arity == 3)
      for (std::int64_t i = 0; i < n; i += 5) write(c.dtype, ptr[3], i, row.domain[2].high);
  }
  run_flat(c, ptr, n);
  double worst = 0, at[ops::kMaxArity] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    double x[ops::kMaxArity] = {};
    for (int k = 0; k < row.arity; ++k) x[k] = read(c.dtype, ptr[k + 1], i);
    const double units = error_units(c, ops::evaluate(c.op, x), read(result_type(c), ptr[0], i));
    if (units > worst) worst = units, std::copy(x, x + ops::kMaxArity, at);
  }
  RecordProperty("error_units", std::to_string(worst));
  EXPECT_LE(worst, bound(c)) << "at " << at[0] << ", " << at[1] << ", " << at[2];
}

TEST_P(MapKernel, SpecialValues) {
  const Case c = GetParam();
  const ops::Row& row = ops::row_of(c.op);
  if (!is_floating(c.dtype) || row.arity > 2) return;
  const double inf = HUGE_VAL, nan = std::nan("");
  const bool f32 = c.dtype == DType::f32;
  const double denormal = f32 ? 1e-40 : 1e-310,
               least = f32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  const double huge = f32 ? 3e38 : 1.7e308;
  const double values[] = {0.,   -0., 1.,   -1., 0.5,      -0.5,      2,     -2,     3,    -3,    88.5, -88.5, 104,
                           -104, inf, -inf, nan, denormal, -denormal, least, -least, huge, -huge, 1e-8, -1e-8, 20,
                           -20,  1e5, -1e5, 700, -700,     1e10,      -1e10, 6,      2.5,  3.5,   -2.5};
  for (double a : values) {
    for (double b : values) {
      double in[2] = {a, b}, out = 0;
      void* ptr[3] = {&out, &in[0], &in[1]};
      double a_bits = 0, b_bits = 0;
      write(c.dtype, &a_bits, 0, a), write(c.dtype, &b_bits, 0, b);
      ptr[1] = &a_bits, ptr[2] = &b_bits;
      run_flat(c, ptr, 1);
      const double x[2] = {read(c.dtype, &a_bits, 0), read(c.dtype, &b_bits, 0)};
      const double expected = ops::evaluate(c.op, x), actual = read(result_type(c), &out, 0);
      // Slopes of -20 and below are 0 in f32 but not in double: times something infinite they are anything.
      if ((row.name == "silu_grad" || row.name == "gelu_grad") && x[0] <= -20 && std::fabs(x[1]) > 1e30) continue;
      // A formula may overflow halfway in f32 where double does not: then only the limit must be right.
      const double allowed = 4 * bound(c) + (row.name == "pow" && !f32 ? 4000 : 0);
      EXPECT_LE(error_units(c, expected, actual), allowed)
          << row.name << "(" << x[0] << ", " << x[1] << ") = " << actual << ", not " << expected;
      if (row.arity == 1) break;
    }
  }
}

/// Operands drawn from the domain in guarded memory, run with every pattern of strides; the reference is the flat
/// kernel, so that equal operands must give equal bits wherever they stand.
TEST_P(MapKernel, BroadcastPatternsInPlaceAndTails) {
  const Case c = GetParam();
  const ops::Row& row = ops::row_of(c.op);
  const int patterns = row.arity > 3 ? 3 : 4;  // full, value a row, shared row, scalar
  int combinations = 1;
  for (int k = 0; k < row.arity; ++k) combinations *= patterns;
  std::mt19937 random(3);
  const std::size_t in_size = size_of(c.dtype), out_size = size_of(result_type(c));
  for (std::int64_t cols = 1; cols <= 70; cols += cols < 18 ? 1 : 13) {
    for (std::int64_t rows : {1, 2, 5, 33}) {
      for (int combination = 0; combination < combinations; ++combination) {
        if (combination && random() % static_cast<unsigned>(combinations) >= 4) continue;  // a few of many
        const std::int64_t pad = combination % 2 ? 3 : 0;  // between rows of full operands
        MapParams params;
        params.cols = cols;
        std::vector<GuardedMemory> memory;
        std::vector<std::vector<double>> flat(row.arity + 1, std::vector<double>(rows * cols));
        void *ptr[kMaxOperands] = {}, *flat_ptr[kMaxOperands] = {};
        const std::int64_t out_stride = cols + pad;
        memory.emplace_back((out_stride * (rows - 1) + cols) * out_size);
        ptr[0] = memory[0].data();
        params.row_stride[0] = out_stride, params.col_stride[0] = 1;
        int rest = combination;
        for (int k = 1; k <= row.arity; ++k, rest /= patterns) {
          const int pattern = rest % patterns;
          params.col_stride[k] = pattern == 0 || pattern == 2;
          params.row_stride[k] = pattern == 0 ? cols + pad : pattern == 1 ? 1 : 0;
          const std::int64_t count = params.row_stride[k] * (rows - 1) + params.col_stride[k] * (cols - 1) + 1;
          memory.emplace_back(count * in_size);
          ptr[k] = memory[k].data();
          std::uniform_real_distribution<double> domain(row.domain[k - 1].low, row.domain[k - 1].high);
          for (std::int64_t i = 0; i < count; ++i) write(c.dtype, ptr[k], i, domain(random));
          flat_ptr[k] = flat[k].data();
          for (std::int64_t i = 0; i < rows * cols; ++i)
            write(c.dtype, flat_ptr[k], i,
                  read(c.dtype, ptr[k], i / cols * params.row_stride[k] + i % cols * params.col_stride[k]));
        }
        flat_ptr[0] = flat[0].data();
        run_flat(c, flat_ptr, rows * cols);
        const bool full = params.col_stride[1] == 1 && params.row_stride[1] == out_stride;
        if (full && out_size == in_size && random() % 2) ptr[0] = ptr[1];  // in place
        find_map(c.op, c.dtype, c.target)(params, ptr, rows);
        for (std::int64_t i = 0; i < rows * cols; ++i)
          ASSERT_EQ(std::memcmp(static_cast<char*>(ptr[0]) + (i / cols * out_stride + i % cols) * out_size,
                                static_cast<char*>(flat_ptr[0]) + i * out_size, out_size),
                    0)
              << "rows " << rows << " cols " << cols << " combination " << combination << " element " << i;
        for (const GuardedMemory& m : memory)
          ASSERT_TRUE(m.intact()) << "cols " << cols << " combination " << combination;
      }
    }
  }
}

/// Every 4099th bit pattern of f32 for functions of one operand.
TEST_P(MapKernel, SweepOfAllFloats) {
  const Case c = GetParam();
  const ops::Row& row = ops::row_of(c.op);
  if (c.dtype != DType::f32 || row.arity != 1) return;
  std::vector<float> x, y;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4099)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  y.resize(x.size());
  void* ptr[] = {y.data(), x.data()};
  run_flat(c, ptr, static_cast<std::int64_t>(x.size()));
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double in = x[i];
    if (row.name == "tanh" || row.name == "erf" || row.name == "sigmoid") {
      ASSERT_FALSE(std::fabs(y[i]) > 1) << "at " << in;
    }
    double units = error_units(c, ops::evaluate(c.op, &in), y[i]);
    // Far from the domain sine and cosine keep their absolute error only.
    if ((row.name == "sin" || row.name == "cos") && std::fabs(in) > 6) units *= std::fabs(ops::evaluate(c.op, &in));
    if (units > worst) worst = units, at = x[i];
  }
  RecordProperty("error_units", std::to_string(worst));
  EXPECT_LE(worst, bound(c)) << "at " << at;
}

INSTANTIATE_TEST_SUITE_P(All, MapKernel, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return label(info.param); });

}  // namespace
}  // namespace wr::cpu
