// Gradients of elementwise ops, reductions and compositions against finite differences, first and second order; ties,
// stop_gradient, checkpoint and repeat. The structured ops are in gradient_ops_test.cpp.
#include <gtest/gtest.h>

#include "ops/formula.h"
#include "support/gradients.h"

namespace wr {
namespace {

using test::check_gradient;
using test::numbers;
using test::run_once;
using test::smooth_array;
using List = std::vector<Tensor>;

// ---- elementwise: every row of elementwise.def ----
struct Elementwise {
  std::string_view name;
  std::function<Tensor(const List&)> call;
};

std::vector<Elementwise> elementwise_functions() {
  return {
#define WINDROW_UNARY(name, ...) {#name, [](const List& x) { return name(x[0]); }},
#define WINDROW_BINARY(name, ...) {#name, [](const List& x) { return name(x[0], x[1]); }},
#define WINDROW_TERNARY(name, ...) {#name, [](const List& x) { return name(x[0], x[1], x[2]); }},
#define WINDROW_QUINARY(name, ...) {#name, [](const List& x) { return name(x[0], x[1], x[2], x[3], x[4]); }},
#define WINDROW_COMPARE(name, ...) {#name, [](const List& x) { return cast(name(x[0], x[1]), DType::f64); }},
#define WINDROW_LOGIC(name, ...) \
  {#name, [](const List& x) { return cast(name(gt(x[0], 0.5), gt(x[1], 0.5)), DType::f64); }},
#include "windrow/elementwise.def"
  };
}

class ElementwiseGradient : public testing::TestWithParam<int> {
 protected:
  const ops::Row& row() const { return ops::elementwise_rows()[GetParam()]; }
  testing::AssertionResult check(const std::vector<Shape>& shapes) const {
    std::vector<Array> arguments;
    for (int i = 0; i < row().arity; ++i)
      arguments.push_back(smooth_array(shapes[static_cast<std::size_t>(i) % shapes.size()], i, row().domain[i].low,
                                       row().domain[i].high));
    const auto functions = elementwise_functions();
    EXPECT_EQ(functions[GetParam()].name, row().name);
    return check_gradient(functions[GetParam()].call, arguments);
  }
};

TEST_P(ElementwiseGradient, EqualShapes) { EXPECT_TRUE(check({{5, 3}})); }
TEST_P(ElementwiseGradient, Scalars) { EXPECT_TRUE(check({{}})); }
TEST_P(ElementwiseGradient, Broadcasting) {
  EXPECT_TRUE(check({{4, 3}, {3}, {4, 1}, {}, {1, 3}}));
  EXPECT_TRUE(check({{2, 1, 3}, {4, 1}, {3}, {2, 1, 1}, {1}}));
}

INSTANTIATE_TEST_SUITE_P(Rows, ElementwiseGradient, testing::Range(0, ops::kElementwiseOps),
                         [](const auto& row) { return std::string(ops::elementwise_rows()[row.param].name); });

TEST(Gradient, ANumberAsOperand) {
  const Array x = smooth_array({3, 2}, 0, 0.5, 2);
  EXPECT_TRUE(check_gradient([](const List& v) { return 2 - v[0] * 3 + 1 / v[0]; }, {x}));
  EXPECT_TRUE(check_gradient([](const List& v) { return pow(v[0], 3) + pow(2, v[0]) + maximum(v[0], 1); }, {x}));
}

TEST(Gradient, Where) {
  const auto condition = [](const List& v) { return gt(v[0], 0); };
  EXPECT_TRUE(check_gradient([&](const List& v) { return where(condition(v), v[1], v[2] * v[2]); },
                             {smooth_array({4, 3}, 0), smooth_array({3}, 1), smooth_array({4, 1}, 2)}));
  EXPECT_TRUE(check_gradient([&](const List& v) { return where(condition(v), v[0] * v[0], 1); }, {smooth_array({7})}));
}

TEST(Gradient, CastGoesThroughFloatsAndStopsAtIntegers) {
  const Array x = smooth_array({6});
  const auto through = [](DType t) {
    return run_once([t](const List& v) { return grad(sum(cast(cast(v[0] * v[0], t), DType::f64) + v[0]), {v[0]}); },
                    {smooth_array({6})})[0];
  };
  EXPECT_TRUE(allclose(through(DType::f32), run_once([](const List& v) { return List{2 * v[0] + 1}; }, {x})[0]));
  EXPECT_TRUE(identical(through(DType::i32), Array::ones({6}, DType::f64)));
  EXPECT_TRUE(identical(through(DType::boolean), Array::ones({6}, DType::f64)));
}

// ---- reductions ----
struct Reduction {
  const char* name;
  Tensor (*call)(const Tensor&, const Axes&, Keep);
};

class ReductionGradient : public testing::TestWithParam<Reduction> {};

TEST_P(ReductionGradient, OverAnyAxes) {
  const std::vector<Axes> sets{{}, 0, 1, -1, Axes{0, 2}, Axes{2, 1}, Axes{0, 1, 2}, Axes(std::vector<int>{})};
  for (const Axes& axes : sets)
    for (Keep keep : {Keep::no, Keep::yes})
      EXPECT_TRUE(
          check_gradient([&](const List& x) { return GetParam().call(x[0], axes, keep); }, {smooth_array({3, 4, 2})}))
          << testing::PrintToString(axes.list);
}

TEST_P(ReductionGradient, OverAnAxisOfSizeOne) {
  EXPECT_TRUE(
      check_gradient([&](const List& x) { return GetParam().call(x[0], 1, Keep::no); }, {smooth_array({3, 1})}));
}

#define ROW(name)                                                               \
  Reduction {                                                                   \
#name, [](const Tensor& x, const Axes& a, Keep k) { return name(x, a, k); } \
  }
INSTANTIATE_TEST_SUITE_P(Reductions, ReductionGradient,
                         testing::Values(ROW(sum), ROW(mean), ROW(max), ROW(min), ROW(prod), ROW(variance),
                                         ROW(logsumexp),
                                         Reduction{"argmax", [](const Tensor& x, const Axes& a,
                                                                Keep k) { return cast(argmax(x, a, k), DType::f64); }},
                                         Reduction{"argmin", [](const Tensor& x, const Axes& a,
                                                                Keep k) { return cast(argmin(x, a, k), DType::f64); }}),
                         [](const auto& p) { return p.param.name; });
#undef ROW

TEST(Gradient, ProdWithZeros) {
  const auto slope = [](const List& x) { return grad(sum(prod(x[0], 1)), {x[0]}); };
  const Array x = Array::from<double>({{2, 0, 3}, {0, 5, 0}, {2, 3, 4}});
  EXPECT_TRUE(allclose(run_once(slope, {x})[0], Array::from<double>({{0, 6, 0}, {0, 0, 0}, {12, 8, 6}})));
}

// ---- compositions ----
TEST(Gradient, Softmaxes) {
  for (int axis : {0, 1, -1}) {
    EXPECT_TRUE(check_gradient([&](const List& x) { return softmax(x[0], axis); }, {smooth_array({4, 5})}));
    EXPECT_TRUE(check_gradient([&](const List& x) { return log_softmax(x[0], axis); }, {smooth_array({4, 5})}));
  }
}

TEST(Gradient, LayerNorm) {
  const auto fn = [](const List& x) { return layer_norm(x[0], x[1], x[2]); };
  EXPECT_TRUE(check_gradient(fn, {smooth_array({3, 7}), smooth_array({7}, 1), smooth_array({7}, 2)}));
  EXPECT_TRUE(check_gradient(fn, {smooth_array({2, 3, 4}), smooth_array({4}, 1), smooth_array({4}, 2)}));
}

TEST(Gradient, Losses) {
  const Array labels = Array::from<std::int32_t>({0, 3, 1, 3});
  EXPECT_TRUE(check_gradient([](const List& x) { return cross_entropy(x[0], x[1]); }, {smooth_array({4, 5}), labels}));
  const std::vector<Array> pair{smooth_array({4, 3}), smooth_array({4, 3}, 1)};
  EXPECT_TRUE(check_gradient([](const List& x) { return mse(x[0], x[1]); }, pair));
  for (double delta : {0.5, 1.0, 3.0})
    EXPECT_TRUE(check_gradient([&](const List& x) { return huber(x[0], x[1], delta); }, pair)) << delta;
}

// ---- what is not smooth ----
TEST(Gradient, EqualOperandsShareTheGradient) {
  const Array a = Array::from<double>({1, 2, 3}), b = Array::from<double>({1, 3, 2});
  const auto maxima = run_once([](const List& x) { return grad(sum(maximum(x[0], x[1])), {x[0], x[1]}); }, {a, b});
  EXPECT_EQ(numbers(maxima[0]), (std::vector<double>{0.5, 0, 1}));
  EXPECT_EQ(numbers(maxima[1]), (std::vector<double>{0.5, 1, 0}));
  const auto minima = run_once([](const List& x) { return grad(sum(minimum(x[0], x[1])), {x[0], x[1]}); }, {a, b});
  EXPECT_EQ(numbers(minima[0]), (std::vector<double>{0.5, 1, 0}));
  EXPECT_EQ(numbers(minima[1]), (std::vector<double>{0.5, 0, 1}));
}

TEST(Gradient, EqualElementsShareTheGradientOfAReduction) {
  const Array x = Array::from<double>({{1, 3, 3}, {2, 2, 2}, {5, 4, 4}});
  const auto top = run_once([](const List& v) { return grad(sum(max(v[0], 1)), {v[0]}); }, {x})[0];
  EXPECT_TRUE(allclose(top, Array::from<double>({{0, .5, .5}, {1. / 3, 1. / 3, 1. / 3}, {1, 0, 0}})));
  const auto bottom = run_once([](const List& v) { return grad(sum(min(v[0], 1)), {v[0]}); }, {x})[0];
  EXPECT_TRUE(allclose(bottom, Array::from<double>({{1, 0, 0}, {1. / 3, 1. / 3, 1. / 3}, {0, .5, .5}})));
}

TEST(Gradient, ReluAndAbsAtZero) {
  const Array zero = Array::zeros({3}, DType::f64);
  EXPECT_TRUE(identical(run_once([](const List& x) { return grad(sum(relu(x[0])), {x[0]}); }, {zero})[0], zero));
  EXPECT_TRUE(identical(run_once([](const List& x) { return grad(sum(abs(x[0])), {x[0]}); }, {zero})[0], zero));
}

TEST(Gradient, StopGradientGivesTheValueAndNoGradient) {
  const Array x = smooth_array({4});
  const auto r = run_once(
      [](const List& v) {
        const Tensor y = stop_gradient(v[0] * v[0]) * v[0];
        return List{y, grad(sum(y), {v[0]})[0], grad(sum(stop_gradient(exp(v[0]))), {v[0]}, allow_unused)[0]};
      },
      {x});
  for (std::size_t i = 0; i < 4; ++i) {
    const double v = numbers(x)[i];
    EXPECT_NEAR(numbers(r[0])[i], v * v * v, 1e-12);
    EXPECT_NEAR(numbers(r[1])[i], v * v, 1e-12);
    EXPECT_EQ(numbers(r[2])[i], 0);
  }
}

TEST(Gradient, OfWhatTheLossDoesNotUseIsZero) {
  const State unused(Array::ones({2, 3}), "unused"), used(Array::ones({2}), "used");
  Step step = compile([&](const Tensor& x) { return grad(sum(x * used), {unused, used, x}, allow_unused); }, f32(2));
  const auto r = step(Array::from<float>({3, 4}));
  EXPECT_TRUE(identical(r[0], Array::zeros({2, 3})));
  EXPECT_TRUE(identical(r[1], Array::from<float>({3, 4})));
  EXPECT_TRUE(identical(r[2], Array::ones({2})));
}

TEST(Gradient, ByAnIntermediateAndByTheLossItself) {
  const auto r = run_once(
      [](const List& x) {
        const Tensor y = x[0] * x[0], loss = sum(y * y);
        const auto d = grad(loss, {y, loss});
        return List{y, d[0], d[1]};
      },
      {smooth_array({3})});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(numbers(r[1])[i], 2 * numbers(r[0])[i], 1e-12);
  EXPECT_EQ(numbers(r[2])[0], 1);
}

TEST(Gradient, ThirdOrder) {
  const auto r = run_once(
      [](const List& x) {
        const Tensor d1 = grad(sum(sin(x[0])), {x[0]})[0], d2 = grad(sum(d1), {x[0]})[0];
        return List{grad(sum(d2), {x[0]})[0], -cos(x[0])};
      },
      {smooth_array({5})});
  EXPECT_TRUE(allclose(r[0], r[1], 1e-12, 1e-12));
}

// ---- checkpoint and repeat ----
enum class How { kept, checkpoint, repeat, repeat_recompute };

/// A deep chain of layers; what its gradient needs is much, unless it is computed again.
List deep_chain(const List& x, How how, int depth) {
  const auto layer = [&](const Tensor& h) { return tanh(tanh(tanh(matmul(h, x[1])) * 1.1) + h); };
  Tensor h = x[0];
  if (how == How::repeat || how == How::repeat_recompute) {
    const auto body = [&](int, const List& carry) { return List{layer(carry[0])}; };
    h = repeat(depth, body, {h}, how == How::repeat ? Recompute::no : Recompute::yes)[0];
  } else {
    for (int i = 0; i < depth; ++i) h = how == How::checkpoint ? checkpoint(layer, h) : layer(h);
  }
  const Tensor loss = mean(h * h);
  const auto d = grad(loss, {x[0], x[1]});
  return {loss, d[0], d[1]};
}

TEST(Checkpoint, GivesTheSameValuesAndGradients) {
  const std::vector<Array> arguments{smooth_array({6, 4}), smooth_array({4, 4}, 1, -0.9, 0.9)};
  const auto kept = run_once([](const List& x) { return deep_chain(x, How::kept, 5); }, arguments);
  for (How how : {How::checkpoint, How::repeat, How::repeat_recompute}) {
    const auto other = run_once([&](const List& x) { return deep_chain(x, how, 5); }, arguments);
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(allclose(other[i], kept[i], 1e-12, 1e-12)) << static_cast<int>(how) << " result " << i;
  }
}

TEST(Checkpoint, NeedsLessMemory) {
  const auto bytes = [](How how) {
    const std::vector<Spec> specs{f32(512, 64), f32(64, 64)};
    CompileOptions options;
    options.machine = "zen3";  // what fits in a cache decides how much is kept at once
    return compile([&](const List& x) { return deep_chain(x, how, 24); }, specs, options).facts().peak_bytes();
  };
  EXPECT_LT(bytes(How::checkpoint), 0.7 * static_cast<double>(bytes(How::kept)));
  EXPECT_LT(bytes(How::repeat_recompute), 0.7 * static_cast<double>(bytes(How::repeat)));
}

TEST(Checkpoint, HasGradientsOfGradients) {
  const auto fn = [](const List& x) {
    return checkpoint([](const Tensor& h) { return sin(h * h) * exp(-h); },
                      checkpoint([](const Tensor& h) { return tanh(h) * h; }, x[0]));
  };
  EXPECT_TRUE(check_gradient(fn, {smooth_array({5})}));
}

TEST(Checkpoint, OfSeveralTensorsInsideAnother) {
  const auto inner = [](const List& a) { return List{a[0] * a[1], sin(a[0])}; };
  const auto outer = [&](const List& a) {
    const auto r = checkpoint(inner, {a[0], a[1]});
    return List{r[0] + exp(r[1])};
  };
  EXPECT_TRUE(check_gradient([&](const List& x) { return checkpoint(outer, x)[0]; },
                             {smooth_array({4}), smooth_array({4}, 1)}));
}

TEST(Repeat, CarriesSeveralTensorsAndKnowsTheTurn) {
  for (Recompute recompute : {Recompute::no, Recompute::yes})
    EXPECT_TRUE(check_gradient(
        [&](const List& x) {
          const auto body = [](int i, const List& c) { return List{c[1] * (i + 1), sin(c[0]) + 0.5 * c[1]}; };
          const auto r = repeat(4, body, {x[0], x[1]}, recompute);
          return r[0] * r[1];
        },
        {smooth_array({3, 2}), smooth_array({3, 2}, 1)}));
}

TEST(Repeat, NoTimesGivesWhatWasCarried) {
  const Array x = smooth_array({3});
  const auto never = [](int, const List&) -> List { throw Error("called"); };
  EXPECT_TRUE(identical(run_once([&](const List& v) { return repeat(0, never, {v[0]}); }, {x})[0], x));
}

}  // namespace
}  // namespace wr
