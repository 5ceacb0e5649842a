// Steps with open sizes: a plan a shape, the same states, the bits of a step made for the shape alone.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "count_allocations.h"
#include "errors.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

Array inputs(std::int64_t rows) {
  Array x = Array::empty({rows, 6});
  for (std::int64_t i = 0; i < x.count(); ++i) x.mutable_data<float>()[i] = std::sin(static_cast<float>(i) * 0.37f);
  return x;
}
Array labels(std::int64_t rows) {
  Array y = Array::empty({rows}, DType::i32);
  for (std::int64_t i = 0; i < rows; ++i) y.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % 3);
  return y;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A small net and its optimiser, started the same each time.
struct Training {
  nn::Sequential net = [] {
    nn::seed(3);
    return nn::Sequential{nn::Dense(6, 8), nn::Relu(), nn::Dense(8, 3)};
  }();
  optim::Adam adam{optim::Adam::Options{.lr = 1e-2}};

  Step step(const Spec& x, const Spec& y, const CompileOptions& options = {}) {
    return compile(
        options,
        [this](const Tensor& image, const Tensor& label) {
          const Tensor loss = loss::cross_entropy(net(image), label);
          adam.minimize(loss, net.parameters());
          return loss;
        },
        x, y);
  }
};

void expect_same(const nn::Sequential& a, const nn::Sequential& b) {
  const auto left = a.states(), right = b.states();
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(identical(left[i].value(), right[i].value())) << i;
}

TEST(OpenStep, GivesTheBitsOfStepsCompiledForEachShape) {
  Training open, fixed;
  Step any_rows = open.step(f32(any, 6), i32(any));
  for (const std::int64_t rows : {64, 7, 64, 1, 33, 7}) {
    Step these = fixed.step(f32(rows, 6), i32(rows));
    const float a = any_rows(inputs(rows), labels(rows));
    const float b = these(inputs(rows), labels(rows));
    EXPECT_EQ(a, b) << rows;
    EXPECT_TRUE(std::isfinite(a));
  }
  expect_same(open.net, fixed.net);
}

TEST(OpenStep, MeansAreOverTheRowsThereAre) {
  Step mean_of = compile([](const Tensor& x) { return mean(x); }, f32(any));
  for (const std::int64_t n : {5, 1, 100}) EXPECT_FLOAT_EQ(float{mean_of(Array::full({n}, 3))}, 3);
}

TEST(OpenStep, KeepsFewPlansAndForgetsTheOneUnusedForLongest) {
  int traced = 0;
  Step twice = compile(
      CompileOptions{.name = "twice", .plans = 2},
      [&](const Tensor& x) {
        ++traced;
        return x * 2;
      },
      f32(any));
  EXPECT_EQ(twice.facts().lanes, 0);
  EXPECT_TRUE(twice.plans().empty());
  EXPECT_EQ(traced, 0);
  const auto run = [&](std::int64_t n) { EXPECT_EQ(twice(Array::ones({n}))[0].shape(), Shape({n})); };
  run(1), run(2), run(1), run(2);
  EXPECT_EQ(traced, 2);
  run(1), run(3);  // 2 goes
  EXPECT_EQ(traced, 3);
  run(1);
  EXPECT_EQ(traced, 3);
  run(2);
  EXPECT_EQ(traced, 4);
  const auto plans = twice.plans();
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].arguments, std::vector<Spec>{f32(2)});
  EXPECT_EQ(plans[1].arguments, std::vector<Spec>{f32(1)});
  EXPECT_EQ(twice.facts().arguments, std::vector<Spec>{f32(2)});
  const std::string text = twice.describe();
  EXPECT_TRUE(has(text, "twice for f32[any]: 2 of at most 2 plans")) << text;
  EXPECT_TRUE(has(text, "twice (f32[2])") && has(text, "twice (f32[1])")) << text;
}

TEST(OpenStep, AllocatesNothingOnceAShapeHasItsPlan) {
  Training t;
  Step step = t.step(f32(any, 6), i32(any));
  const Array x = inputs(32), y = labels(32), rest = inputs(5), rest_y = labels(5);
  step(x, y), step(rest, rest_y);
  const AllocationCount count;
  for (int i = 0; i < 4; ++i) step(x, y), step(rest, rest_y);
  EXPECT_EQ(count.now(), 0);
}

TEST(OpenStep, PrepareMakesThePlanAhead) {
  int traced = 0;
  Step step = compile([&](const Tensor& x) { return ++traced, x + 1; }, f32(any, 2));
  step.prepare({f32(4, 2)});
  EXPECT_EQ(traced, 1);
  step(Array::ones({4, 2}));
  EXPECT_EQ(traced, 1);
  EXPECT_TRUE(has(error_of([&] { step.prepare({f32(4, 3)}); }), "argument 0 is f32[4,3], the step takes f32[any,2]"));
}

TEST(OpenStep, RefusesWhatNoPlanTakes) {
  Step step = compile([](const Tensor& x, const Tensor& y) { return sum(x) + sum(cast(y, DType::f32)); },
                      f32(any('b'), 6), i32(any('b')));
  EXPECT_TRUE(has(error_of([&] {
                    step(Array::ones({4, 5}), labels(4));
                  }),
                  "argument 0 is f32[4,5], the step takes f32[b,6]"));
  EXPECT_TRUE(has(error_of([&] { step(Array::ones({4, 6}), Array::ones({4})); }), "argument 1 is f32[4]"));
  const std::string wrong = error_of([&] { step(inputs(4), labels(3)); });
  EXPECT_TRUE(has(wrong, "open_step_test.cpp:")) << wrong;
  EXPECT_TRUE(has(wrong, "argument 1 is i32[3]") && has(wrong, "argument 0 at axis 0, which is 4")) << wrong;
  EXPECT_TRUE(has(error_of([&] { step(inputs(4)); }), "takes 2 arguments, got 1"));
  EXPECT_TRUE(has(error_of([&] { step.again(); }), "not been run"));
  // A negative size is a mistake, not an open one.
  EXPECT_TRUE(has(error_of([] { compile([](const Tensor& x) { return x; }, f32(-5, 3)); }), "negative size"));
}

TEST(OpenStep, TheTraceItselfChecksSizesWithoutALetter) {
  Step step = compile([](const Tensor& x, const Tensor& y) { return sum(x + y); }, f32(any), f32(any));
  EXPECT_EQ(float{step(Array::ones({4}), Array::ones({4}))}, 8);
  EXPECT_TRUE(has(error_of([&] { step(Array::ones({4}), Array::ones({3})); }), "do not broadcast"));
  EXPECT_EQ(float{step(Array::ones({4}), Array::ones({4}))}, 8);  // the error left nothing behind
}

TEST(OpenStep, SeveralAxesMayBeOpen) {
  Step step = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, f32(any('m'), any('k')),
                      f32(any('k'), any('n')));
  for (const auto& [m, k, n] : {std::tuple{2, 3, 4}, {5, 1, 2}, {3, 2, 3}}) {
    const Array product = step(Array::ones({m, k}), Array::ones({k, n}));
    EXPECT_TRUE(identical(product, Array::full({m, n}, k)));
  }
}

TEST(OpenStep, KeepsItsFunction) {
  const auto make = [] {
    const State seen(Array::scalar(0.f), "seen");
    auto fn = [seen](const Tensor& x) {
      seen.assign(seen + sum(x));
      return Tensor(seen);
    };
    return compile(fn, f32(any));  // fn goes, the step has its own
  };
  Step step = make();
  step(Array::ones({3}));
  EXPECT_EQ(float{step(Array::ones({4}))}, 7);
}

TEST(OpenStep, RefusesStatesMadeAnewWithEachTrace) {
  Step step = compile(
      [](const Tensor& x) {
        const State count(Array::scalar(0.f), "count");
        count.assign(count + sum(x));
        return Tensor(count);
      },
      f32(any));
  step(Array::ones({3}));
  const std::string text = error_of([&] { step(Array::ones({4})); });
  EXPECT_TRUE(has(text, "state 'count' is made anew")) << text;
}

TEST(OpenStep, ALoaderGivesItTheShortLastBatch) {
  const data::Dataset all{inputs(70), labels(70)};
  Training t;
  Step step = t.step(f32(any('b'), 6), i32(any('b')));
  data::Loader loader(all, {.batch = 32, .rest = data::LoaderOptions::Rest::keep});
  float first = 0, last = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    double sum = 0;
    for (data::Batch& batch : loader) sum += double{step(batch.x, batch.y)} * static_cast<double>(batch.count);
    (epoch == 0 ? first : last) = static_cast<float>(sum / 70);
  }
  EXPECT_LT(last, first);
  EXPECT_EQ(step.plans().size(), 2u);
}

TEST(OpenStep, TwoThreadsWithTheirOwnShapesTakeTurns) {
  const State total(Array::scalar(0.0), "total");
  Step step = compile([&](const Tensor& x) { total.assign(total + cast(sum(x), DType::f64)); }, f32(any));
  const auto run = [&](std::int64_t rows) {
    const Array x = Array::ones({rows});
    for (int i = 0; i < 500; ++i) step(x);
  };
  std::thread other(run, 3);
  run(2);
  other.join();
  EXPECT_EQ(total.value().item<double>(), 500 * 5);
}

}  // namespace
}  // namespace wr
