// Optimisers: rates, schedules, groups, clipping, state, memory of the plan, errors. Their arithmetic is compared with
// PyTorch's in golden_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "count_allocations.h"
#include "support/gradients.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using namespace optim;
using test::numbers;
using test::smooth_array;
using Values = std::vector<double>;

State parameter(const Values& values, const std::string& name = "w") { return State(Array::from(values), name); }

/// A step whose gradient by each parameter is all ones: with plain SGD a parameter moves by its rate.
Step ones_step(Optimiser& optimiser, const std::vector<State>& parameters) {
  return compile([&] {
    Tensor loss;
    for (const State& p : parameters) loss = loss.empty() ? sum(Tensor(p)) : loss + sum(Tensor(p));
    optimiser.minimize(loss, parameters);
  });
}

/// The rate of each of n updates.
Values rates(const Schedule& schedule, int n, double lr = 1) {
  State p = parameter({0});
  Sgd sgd({.lr = lr, .schedule = schedule});
  Step step = ones_step(sgd, {p});
  Values list;
  for (int i = 0; i < n; ++i) {
    p.set(Array::from(Values{0}));
    step();
    list.push_back(-numbers(p.value())[0]);
  }
  return list;
}

void expect_near(const Values& ours, const Values& expected, double tolerance = 1e-14) {
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], tolerance) << i;
}

double half_cosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

TEST(Schedules, Constant) { expect_near(rates(schedule::constant(0.5), 3, 0.1), {0.05, 0.05, 0.05}); }
TEST(Schedules, Step) { expect_near(rates(schedule::step(2, 0.1), 5), {1, 1, 0.1, 0.1, 0.01}); }
TEST(Schedules, CosineStaysAtItsFloor) {
  expect_near(rates(schedule::cosine(4, 0.2), 7),
              {1, half_cosine(1, 0.2, 0.25), 0.6, half_cosine(1, 0.2, 0.75), 0.2, 0.2, 0.2});
}
TEST(Schedules, WarmUpThenAnother) {
  expect_near(rates(schedule::warm_up(4, schedule::step(2, 0.5)), 9, 2), {0, 0.5, 1, 1.5, 2, 2, 1, 1, 0.5});
  expect_near(rates(schedule::warm_up(2, {}, 0.5), 4), {0.5, 0.75, 1, 1});
}
TEST(Schedules, OneCycle) {
  const Values r = rates(schedule::one_cycle(100, 0.25, 10, 100), 103);
  EXPECT_NEAR(r[0], 0.1, 1e-14);
  EXPECT_NEAR(r[12], half_cosine(0.1, 1, 0.5), 1e-14);
  EXPECT_NEAR(r[24], 1, 1e-14);
  EXPECT_NEAR(r[99], 0.001, 1e-14);
  EXPECT_NEAR(r[102], 0.001, 1e-14);
  for (std::size_t i = 1; i < 100; ++i) EXPECT_TRUE(i <= 24 ? r[i] > r[i - 1] : r[i] < r[i - 1]) << i;
}

TEST(Optimiser, TheRateCanBeSetWithoutCompilingAgain) {
  State p = parameter({0, 0});
  Sgd sgd({.lr = 1});
  Step step = ones_step(sgd, {p});
  step();
  sgd.set_lr(0.25);
  step();
  EXPECT_EQ(numbers(p.value()), (Values{-1.25, -1.25}));
}

TEST(Optimiser, GroupsHaveTheirOwnRateAndDecay) {
  State a = parameter({1}, "a"), b = parameter({1}, "b"), c = parameter({1}, "c");
  Sgd sgd({.lr = 0.5, .weight_decay = 0.5});
  EXPECT_EQ(sgd.add_group({.parameters = {b}, .lr = 0.1}), 1);
  EXPECT_EQ(sgd.add_group({.parameters = {c}, .weight_decay = 0.0}), 2);
  Step step = ones_step(sgd, {a, b, c});
  step();
  expect_near(numbers(a.value()), {1 - 0.5 * 1.5});
  expect_near(numbers(b.value()), {1 - 0.1 * 1.5});
  expect_near(numbers(c.value()), {1 - 0.5});
  sgd.set_lr(0, 1);
  const Values before = numbers(b.value());
  step();
  EXPECT_EQ(numbers(b.value()), before);
}

TEST(Optimiser, StatesHaveStableNames) {
  State w = parameter({1}, "0.w");
  Adam adam;
  adam.add_group({.parameters = {w}, .lr = 0.1});
  ones_step(adam, {w});
  ones_step(adam, {w});  // a second step shares the state
  std::vector<std::string> names;
  for (const State& s : adam.states()) names.push_back(s.name());
  EXPECT_EQ(names, (std::vector<std::string>{"adam.step", "adam.lr", "adam.lr.1", "adam.mean.0.w", "adam.square.0.w"}));
}

TEST(Optimiser, ResumesFromItsStatesBitForBit) {
  const Array x = smooth_array({8, 4}).astype(DType::f32), y = smooth_array({8, 2}, 1).astype(DType::f32);
  struct Run {
    State w{Array::full({4, 2}, 0.1), "w"};
    AdamW adam{{.lr = 0.05, .weight_decay = 0.1, .schedule = schedule::cosine(10)}};
    Step step = compile(
        [&](const Tensor& in, const Tensor& target) {
          const Tensor loss = mse(matmul(in, w), target);
          adam.minimize(loss, {w});
          return loss;
        },
        f32(8, 4), f32(8, 2));
  };
  Run whole, first, second;
  for (int i = 0; i < 6; ++i) whole.step(x, y);
  for (int i = 0; i < 3; ++i) first.step(x, y);
  second.w.set(first.w.value());
  const auto from = first.adam.states();
  auto to = second.adam.states();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].set(from[i].value());
  for (int i = 0; i < 3; ++i) second.step(x, y);
  EXPECT_TRUE(identical(whole.w.value(), second.w.value()));
}

TEST(Optimiser, EachGetsToTheMinimum) {
  const auto reaches = [](Optimiser& optimiser) {
    State p(smooth_array({5}), "p");
    Step step = compile([&] {
      const Tensor loss = sum(square(p - Array::from<double>({1, 2, 3, 4, 5})));
      optimiser.minimize(loss, {p});
      return loss;
    });
    double loss = 1;
    for (int i = 0; i < 2000; ++i) loss = step();
    return loss < 1e-3;
  };
  Sgd sgd({.lr = 0.1}), momentum({.lr = 0.01, .momentum = 0.9}),
      nesterov({.lr = 0.01, .momentum = 0.9, .nesterov = true});
  Adam adam({.lr = 0.05});
  AdamW adamw({.lr = 0.05});
  RmsProp rmsprop({.lr = 0.01}), centred({.lr = 0.01, .momentum = 0.5, .centred = true});
  for (Optimiser* o : std::vector<Optimiser*>{&sgd, &momentum, &nesterov, &adam, &adamw, &rmsprop, &centred})
    EXPECT_TRUE(reaches(*o));
}

// ---- clipping ----
TEST(Clipping, ByValueAndByNorm) {
  const std::vector<Tensor> g{Tensor(Array::from<double>({3, -4})), Tensor(Array::from<double>({{12}}))};
  EXPECT_EQ(eval(global_norm(g)).item<double>(), 13);
  EXPECT_EQ(numbers(eval(clip_by_value(g, 3.5))[0]), (Values{3, -3.5}));
  const auto clipped = eval(clip_by_norm(g, 1.3));
  expect_near(numbers(clipped[0]), {0.3, -0.4}, 1e-7);
  expect_near(numbers(clipped[1]), {1.2}, 1e-7);
  EXPECT_EQ(numbers(eval(clip_by_norm(g, 20))[0]), (Values{3, -4}));
  EXPECT_EQ(numbers(eval(clip_by_norm({Tensor(Array::zeros({2}))}, 1))[0]), (Values{0, 0}));
}

TEST(Clipping, MixedTypes) {
  const auto clipped = eval(clip_by_norm({Tensor(Array::from<float>({3})), Tensor(Array::from<double>({4}))}, 2.5));
  EXPECT_NEAR(numbers(clipped[0])[0], 1.5, 1e-6);
  EXPECT_NEAR(numbers(clipped[1])[0], 2, 1e-6);
}

TEST(Clipping, BothInTheOptions) {
  State p = parameter({0, 0});
  Sgd sgd({.lr = 1, .clip = {.value = 3, .norm = 1}});
  Step step = compile([&] { sgd.apply({p}, {Tensor(Array::from<double>({4, 30}))}); });
  step();
  expect_near(numbers(p.value()), {-std::sqrt(0.5), -std::sqrt(0.5)}, 1e-6);
}

// ---- the plan ----
TEST(OptimiserPlan, UpdatesInPlaceWithoutTemporaries) {
  const Array big = Array::ones({512, 512});
  const auto scratch = [&](Optimiser& optimiser) {
    State p(big, "p"), g(big, "g");
    Step step = compile([&] { optimiser.apply({p}, {Tensor(g)}); });
    step();
    const AllocationCount count;
    step();
    EXPECT_EQ(count.now(), 0);
    return step.facts().peak_bytes();
  };
  Sgd sgd, nesterov({.momentum = 0.9, .nesterov = true, .weight_decay = 0.1});
  Adam adam;
  AdamW adamw;
  RmsProp rmsprop({.momentum = 0.9, .centred = true});
  for (Optimiser* o : std::vector<Optimiser*>{&sgd, &nesterov, &adam, &adamw, &rmsprop})
    EXPECT_LT(scratch(*o), big.bytes() / 4);
}

TEST(OptimiserPlan, AdamIsOneOp) {
  State p(Array::ones({8}), "p"), g(Array::ones({8}), "g");
  Adam adam;
  const std::string graph = compile([&] { adam.apply({p}, {Tensor(g)}); }).graph();
  EXPECT_NE(graph.find("adam_update"), std::string::npos) << graph;
  for (const char* part : {"lerp", "lerp_square", "adam_step"}) EXPECT_EQ(graph.find(part), std::string::npos) << graph;
}

// ---- errors ----
TEST(OptimiserErrors, NameTheLineAndTheSetting) {
  const auto error = [](const std::function<void()>& fn) -> std::string {
    try {
      fn();
    } catch (const Error& e) {
      const std::string what = e.what();
      EXPECT_EQ(what.find("optim_test.cpp:"), 0u) << what;
      return what.substr(what.find(' ') + 1);
    }
    return "no error";
  };
  EXPECT_EQ(error([] { Sgd({.momentum = 1}); }), "sgd: momentum must be at least 0 and less than 1, is 1.000000");
  EXPECT_EQ(error([] { Sgd({.nesterov = true}); }), "sgd: nesterov needs a momentum");
  EXPECT_EQ(error([] { Adam({.lr = -1}); }), "adam: lr must not be negative, is -1.000000");
  EXPECT_EQ(error([] { AdamW({.beta2 = 1}); }), "adamw: beta2 must be at least 0 and less than 1, is 1.000000");
  const State p = parameter({1, 2}, "0.w");
  Adam adam;
  EXPECT_EQ(error([&] { adam.apply({p}, {}); }), "adam: 1 parameters but 0 gradients");
  EXPECT_EQ(error([&] { adam.apply({}, {}); }), "adam: no parameters to update");
  EXPECT_EQ(error([&] { adam.apply({p}, {Tensor(Array::ones({2}))}); }),
            "adam: parameter 0 '0.w' is f64[2], its gradient f32[2]");
  EXPECT_EQ(error([&] { adam.set_lr(1, 2); }), "adam: there is no group 2");
  adam.add_group({.parameters = {p}});
  EXPECT_EQ(error([&] { adam.add_group({.parameters = {p}}); }), "adam: parameter '0.w' is already in group 1");
  EXPECT_EQ(error([] { clip_by_norm({Tensor(Array::ones({2}))}, 0); }),
            "clip_by_norm: the limit must be positive, is 0.000000");
  EXPECT_THROW(schedule::one_cycle(3, 0.3), Error);
  EXPECT_THROW(schedule::cosine(0), Error);
}

}  // namespace
}  // namespace wr
