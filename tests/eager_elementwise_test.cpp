// Every row of elementwise.def through its eager functions, against the oracle in double: to a destination, as a value,
// in place over each operand, on strided operands and to strided destinations, broadcast, with numbers. Adding a row
// adds its tests.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/formula.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using ops::Elementwise;

struct Functions {
  void (*into)(Array& dst, const ArrayOperand* in);
  Array (*value)(const Array* in);
};

const Functions kFunctions[] = {
#define WINDROW_UNARY(name, ...)                                        \
  {[](Array& dst, const ArrayOperand* in) { name(dst, *in[0].array); }, \
   [](const Array* in) -> Array { return name(in[0]); }},
#define WINDROW_TEST_2(name, ...)                                       \
  {[](Array& dst, const ArrayOperand* in) { name(dst, in[0], in[1]); }, \
   [](const Array* in) -> Array { return name(in[0], in[1]); }},
#define WINDROW_BINARY WINDROW_TEST_2
#define WINDROW_COMPARE WINDROW_TEST_2
#define WINDROW_LOGIC WINDROW_TEST_2
#define WINDROW_TERNARY(name, ...)                                             \
  {[](Array& dst, const ArrayOperand* in) { name(dst, in[0], in[1], in[2]); }, \
   [](const Array* in) -> Array { return name(in[0], in[1], in[2]); }},
#define WINDROW_QUINARY(name, ...)                                                           \
  {[](Array& dst, const ArrayOperand* in) { name(dst, in[0], in[1], in[2], in[3], in[4]); }, \
   [](const Array* in) -> Array { return name(in[0], in[1], in[2], in[3], in[4]); }},
#include "windrow/elementwise.def"
};

struct Case {
  Elementwise op;
  DType dtype;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int op = 0; op < ops::kElementwiseOps; ++op)
    for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean})
      if (ops::accepts(ops::row_of(static_cast<Elementwise>(op)).types, dtype))
        cases.push_back({static_cast<Elementwise>(op), dtype});
  return cases;
}

class EagerElementwise : public testing::TestWithParam<Case> {
 protected:
  const ops::Row& row() const { return ops::row_of(GetParam().op); }
  DType result_type() const { return row().to_bool ? DType::boolean : GetParam().dtype; }

  /// Operand k, from the row's domain.
  Array operand(int k, const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.count()));
    std::uniform_real_distribution<double> draw(row().domain[k].low, row().domain[k].high);
    for (double& v : values) v = is_floating(GetParam().dtype) ? draw(random_) : std::round(draw(random_));
    return Array::from(values, shape).astype(GetParam().dtype);
  }
  std::vector<Array> operands(const Shape& shape) {
    std::vector<Array> list;
    for (int k = 0; k < row().arity; ++k) list.push_back(operand(k, shape));
    return list;
  }
  void into(Array& dst, const std::vector<Array>& in) {
    std::vector<ArrayOperand> list(in.begin(), in.end());
    kFunctions[static_cast<int>(GetParam().op)].into(dst, list.data());
  }

  void expect_right(const Array& actual, const std::vector<Array>& in, const char* what) {
    ASSERT_EQ(actual.dtype(), result_type()) << what;
    std::vector<std::vector<double>> x;
    for (const Array& a : in) x.push_back(a.broadcast_to(actual.shape()).astype(DType::f64).to_vector<double>());
    const auto y = actual.astype(DType::f64).to_vector<double>();
    const double unit = GetParam().dtype == DType::f32 ? 0x1p-24 : 0x1p-53;
    for (std::size_t i = 0; i < y.size(); ++i) {
      double point[ops::kMaxArity] = {};
      for (std::size_t k = 0; k < x.size(); ++k) point[k] = x[k][i];
      const double expected = ops::evaluate(GetParam().op, point);
      const double size = row().absolute ? std::max(1.0, std::fabs(expected)) : std::fabs(expected);
      ASSERT_NEAR(y[i], expected, is_floating(result_type()) ? row().tolerance * unit * size : 0)
          << what << ", element " << i;
    }
  }

  std::mt19937 random_{7};
};

TEST_P(EagerElementwise, ToADestinationAndAsAValue) {
  const auto in = operands({3, 37});
  Array dst = Array::empty({3, 37}, result_type());
  into(dst, in);
  expect_right(dst, in, "destination");
  expect_right(kFunctions[static_cast<int>(GetParam().op)].value(in.data()), in, "value");
}

TEST_P(EagerElementwise, InPlaceOverEachOperand) {
  if (result_type() != GetParam().dtype) return;  // comparisons
  const auto in = operands({5, 61});
  for (std::size_t k = 0; k < in.size(); ++k) {
    Array dst = in[k].clone();
    std::vector<ArrayOperand> list(in.begin(), in.end());
    list[k] = ArrayOperand(dst);
    kFunctions[static_cast<int>(GetParam().op)].into(dst, list.data());
    expect_right(dst, in, "in place");
  }
}

TEST_P(EagerElementwise, StridedOperandsAndDestination) {
  std::vector<Array> in;
  for (int k = 0; k < row().arity; ++k)
    in.push_back(k % 2 ? operand(k, {8, 10}).slice(0, 0, 8, 2).slice(1, 1, 8) : operand(k, {7, 4}).transpose());
  Array whole = Array::zeros({8, 7}, result_type());
  Array dst = whole.window(0, 1, 8, 2);
  into(dst, in);
  expect_right(whole.slice(0, 1, 8, 2), in, "strided");
  for (double v : whole.slice(0, 0, 8, 2).astype(DType::f64).to_vector<double>())
    ASSERT_EQ(v, 0) << "wrote beside the window";
}

TEST_P(EagerElementwise, Broadcast) {
  const Shape shapes[] = {{4, 9}, {9}, {4, 1}, {1, 1}, {}};
  for (int shift = 0; shift < 3; ++shift) {
    std::vector<Array> in;
    for (int k = 0; k < row().arity; ++k) in.push_back(operand(k, shapes[(k + shift) % 5]));
    Array y = kFunctions[static_cast<int>(GetParam().op)].value(in.data());
    expect_right(y, in, "broadcast");
  }
}

TEST_P(EagerElementwise, Numbers) {
  if (row().arity == 1 || GetParam().dtype == DType::boolean) return;  // no numbers to take
  for (int array = 0; array < row().arity; ++array) {  // all others are numbers, and not the same ones each time
    for (int turn = 0; turn < 2; ++turn) {
      auto in = operands({});
      in[array] = operand(array, {21});
      std::vector<ArrayOperand> list;
      for (std::size_t k = 0; k < in.size(); ++k)
        list.push_back(static_cast<int>(k) == array ? ArrayOperand(in[k])
                                                    : ArrayOperand(in[k].astype(DType::f64).item<double>()));
      Array dst = Array::empty({21}, result_type());
      kFunctions[static_cast<int>(GetParam().op)].into(dst, list.data());
      expect_right(dst, in, "numbers");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, EagerElementwise, testing::ValuesIn(all_cases()), [](const auto& c) {
  return std::string(ops::row_of(c.param.op).name) + "_" + std::string(name_of(c.param.dtype));
});

}  // namespace
}  // namespace wr
