// What the profiler advises must help: each test finds the advice in a step built to need it, follows it, and measures.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/thread_team.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class AdviceTiming : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitized kernels are slower than anything between them";
  }
};

CompileOptions fixed(int threads, int lanes) {
  CompileOptions options;
  options.threads = threads;
  options.lanes = lanes;
  return options;
}

struct Measured {
  double us;  // a run, at best
  Profile profile;
  bool advises(const std::string& kind) const {
    return std::any_of(profile.bottlenecks.begin(), profile.bottlenecks.end(),
                       [&](const auto& b) { return b.kind == kind && !b.advice.empty(); });
  }
};

/// The best of some blocks without the profiler, then a profile.
Measured measured(Step step, const std::vector<Array>& arguments) {
  std::vector<const Array*> list;
  for (const Array& a : arguments) list.push_back(&a);
  step.run(list);
  auto seconds = [&](int turns) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < turns; ++i) step.again();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / turns;
  };
  const int turns = std::clamp(static_cast<int>(2e-3 / std::max(seconds(3), 1e-7)), 1, 10000);
  double best = 1e9;
  for (int block = 0; block < 25; ++block) best = std::min(best, seconds(turns));
  step.profile(true);
  for (int i = 0; i < 50; ++i) step.again();
  return {1e6 * best, step.profile()};
}

#define EXPECT_ADVICE(m, kind) EXPECT_TRUE((m).advises(kind)) << (m).profile.bottleneck_report()

Measured product(const CompileOptions& options, std::int64_t columns = 384) {
  return measured(compile(
                      options, [](Tensor a, Tensor b) { return matmul(a, b); }, f32(384, 384), f32(384, columns)),
                  {Array::ones({384, 384}), Array::ones({384, columns})});
}

TEST_F(AdviceTiming, UseMoreThreads) {
  if (default_threads() < 2) GTEST_SKIP() << "one core";
  const Measured before = product(fixed(1, 2));
  EXPECT_ADVICE(before, "parallelism");
  EXPECT_LT(product(fixed(2, 2)).us, 0.8 * before.us);
}

TEST_F(AdviceTiming, LeaveTheLanesToThePlanner) {
  if (default_threads() < 2) GTEST_SKIP() << "one core";
  const Measured before = product(fixed(0, 1));
  EXPECT_ADVICE(before, "parallelism");
  EXPECT_LT(product(fixed(0, 0)).us, 0.8 * before.us);
}

TEST_F(AdviceTiming, FillTheRegisters) {
  const Measured before = product(fixed(1, 1), 13);
  EXPECT_ADVICE(before, "compute");
  EXPECT_LT(product(fixed(1, 1), 16).us / 16, before.us / 13);
}

struct Net {
  nn::Sequential layers{nn::Dense(64, 64), nn::Relu(), nn::Dense(64, 8)};
  optim::Adam adam;
  Measured on(std::int64_t batch) {
    return measured(compile(
                        fixed(1, 1),
                        [&](Tensor x, Tensor y) {
                          const Tensor loss = loss::mse(layers(x), y);
                          adam.minimize(loss, layers.parameters());
                          return loss;
                        },
                        f32(batch, 64), f32(batch, 8)),
                    {Array::ones({batch, 64}), Array::ones({batch, 8})});
  }
};

TEST_F(AdviceTiming, TakeALargerBatch) {
  Net small, large;
  const Measured before = small.on(2);
  EXPECT_ADVICE(before, "batch");
  EXPECT_LT(large.on(64).us / 64, 0.5 * before.us / 2);
}

TEST_F(AdviceTiming, WaitForNoStatisticOfTheBatch) {
  if (default_threads() < 2) GTEST_SKIP() << "one core";
  auto step = [](bool statistic) {
    return measured(compile(
                        fixed(2, 2),
                        [=](Tensor x, Tensor kept) {  // as batch norm in training, and with statistics kept before
                          for (int i = 0; i < 8; ++i) x = tanh(x - (statistic ? mean(x, 0) : kept));
                          return x;
                        },
                        f32(64, 256), f32(256)),
                    {Array::ones({64, 256}), Array::ones({256})});
  };
  Measured before = step(true);
  for (int i = 0; i < 5 && !before.advises("barrier"); ++i)
    before = step(true);  // a neighbour may have been in the way
  EXPECT_ADVICE(before, "barrier");
  EXPECT_LT(step(false).us, before.us);
}

TEST_F(AdviceTiming, StackSmallTensors) {
  constexpr std::int64_t n = 48, width = 8;
  std::vector<Spec> specs(n, f32(width));
  std::vector<Array> small(n, Array::ones({width}));
  specs.push_back(f32(3));  // no common leading size: there is no batch to make larger
  small.push_back(Array::ones({3}));
  const Measured before = measured(compile(
                                       [](const std::vector<Tensor>& x) {
                                         Tensor all = x[0];
                                         for (std::size_t i = 1; i < n; ++i) all = tanh(all) + x[i];
                                         return std::vector<Tensor>{all, sum(x[n])};
                                       },
                                       specs, fixed(1, 1)),
                                   small);
  EXPECT_ADVICE(before, "overhead");
  const Measured after = measured(compile(
                                      fixed(1, 1), [](Tensor x) { return sum(tanh(x), 0); }, f32(n, width)),
                                  {Array::ones({n, width})});
  EXPECT_LT(after.us, 0.5 * before.us);
}

TEST_F(AdviceTiming, MoveFewerBytes) {
  constexpr std::int64_t n = 8'000'000;
  auto step = [&](std::int64_t count) {
    return measured(compile(
                        fixed(1, 1), [](Tensor a, Tensor b) { return a + b; }, f32(count), f32(count)),
                    {Array::ones({count}), Array::ones({count})});
  };
  const Measured before = step(n);
  EXPECT_ADVICE(before, "memory");
  // In pieces that stay near the core each element costs less.
  EXPECT_LT(step(n / 1000).us * 1000, 0.8 * before.us);
}

TEST_F(AdviceTiming, PrepareArgumentsAhead) {
  auto run = [](bool ahead) {
    Step step = compile(
        fixed(1, 1), [](Tensor x) { return sum(tanh(x)); }, f32(64, 64));
    const Array ready = Array::ones({64, 64});
    step(ready);
    step.profile(true);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i) {
      if (!ahead) std::this_thread::sleep_for(std::chrono::microseconds(500));
      step(ready);
    }
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 50;
    return Measured{us, step.profile()};
  };
  const Measured before = run(false);
  EXPECT_ADVICE(before, "input");
  EXPECT_LT(run(true).us, 0.5 * before.us);
}

}  // namespace
}  // namespace wr
