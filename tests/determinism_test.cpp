// What no peer promises: the same bits at any thread count. And nothing allocated by a run.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "backend/cpu/target.h"
#include "bench/case.h"
#include "count_allocations.h"
#include "step/inside.h"
#include "support/gradients.h"

namespace wr {
namespace {

using test::numbers;

/// Every case; of those for which the interpreter would take half a minute, a smaller one.
std::vector<std::string> names(const std::vector<bench::Case>& cases) {
  static const std::map<std::string, std::string> smaller{
      {"wide_step_b32", "wide_step_w512_b32"},
      {"autoencoder_step_b128", "autoencoder_step_w256_b48"},
      {"gpt_step_b8", "gpt_step_w64_b2"},
      {"transformer_step_b16", "transformer_step_w64_b4"},
      {"attention_step_b1", "attention_step_w512_b1"},
      {"bilstm_step_b32", "bilstm_step_w32_b10"},
      {"cell_step_b16", "cell_step_w24_b6"},
      {"long_cell_step_b8", "long_cell_step_w8_b2"},
      {"unrolled_cell_step_b16", "unrolled_cell_step_w24_b6"},
      {"sac_step_b256", "sac_step_w128_b100"},
      {"vae_step_b128", "vae_step_w200_b60"},
  };
  std::vector<std::string> list;
  for (const auto& c : cases) list.push_back(smaller.count(c.name) ? smaller.at(c.name) : c.name);
  return list;
}

bench::Prepared prepared(const std::string& name, int threads) { return bench::case_named(name).prepare(threads); }

std::vector<const Array*> pointers(const std::vector<Array>& arguments) {
  std::vector<const Array*> list;
  for (const Array& a : arguments) list.push_back(&a);
  return list;
}

/// What the states hold, and a way back to it.
struct Snapshot {
  explicit Snapshot(Step& step) {
    for (const auto& v : step.inside().variables) values.push_back(v->value.clone());
  }
  void restore(Step& step) const {
    for (std::size_t i = 0; i < values.size(); ++i) step.inside().variables[i]->value.copy_from(values[i]);
  }
  std::vector<Array> values;
};

bool same(const std::vector<Array>& a, const std::vector<Array>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!identical(a[i], b[i])) return false;
  return a.size() == b.size();
}

/// The states and results after so many runs from the given start.
std::vector<Array> after(Step& step, const Snapshot& start, const std::vector<Array>& arguments, int runs) {
  start.restore(step);
  for (int i = 0; i < runs; ++i) step.run(pointers(arguments));
  auto values = Snapshot(step).values;
  for (std::size_t i = 0; i < step.inside().outputs.size(); ++i) values.push_back(step.output(i).clone());
  return values;
}

/// The same graph planned for another number of lanes, on the same states.
Step planned_for(bench::Prepared& p, int lanes) {
  CompileOptions options;
  options.lanes = lanes;
  return Step(std::make_unique<Step::Inside>(p.step.inside().graph, options));
}

class EveryBenchStep : public testing::TestWithParam<std::string> {};

TEST_P(EveryBenchStep, HasTheSameBitsAtAnyThreadCount) {
  bench::Prepared p = prepared(GetParam(), 1);
  const Snapshot start(p.step);
  const bool trains = !p.step.inside().graph->updates.empty();
  const int runs = !trains ? 2 : p.step.facts().flops > 1e8 || p.step.facts().state_bytes > (4u << 20) ? 10 : 100;
  for (int lanes : {0, 8}) {
    Step step = planned_for(p, lanes);
    step.set_threads(1);
    const auto wanted = after(step, start, p.arguments, runs);
    const std::vector<Array> states(wanted.begin(), wanted.begin() + std::ssize(start.values));
    EXPECT_EQ(same(states, start.values), !trains) << "nothing was trained";
    for (int threads : {2, 3, 8}) {
      step.set_threads(threads);
      EXPECT_TRUE(same(after(step, start, p.arguments, runs), wanted)) << lanes << " lanes, " << threads << " threads";
    }
  }
}

TEST_P(EveryBenchStep, AllocatesNothingInARun) {
  for (int threads : {1, 2}) {
    bench::Prepared p = prepared(GetParam(), threads);
    const auto arguments = pointers(p.arguments);
    p.step.run(arguments);
    const AllocationCount count;
    for (int i = 0; i < 3; ++i) p.step.run(arguments);
    p.step.again();
    EXPECT_EQ(count.now(), 0) << threads << " threads";
  }
}

TEST_P(EveryBenchStep, IsRight) {
  bench::Prepared p = prepared(GetParam(), 2);
  EXPECT_EQ(p.check(p.step, p.arguments), "");
}

// Results differ by rounding. Adam may turn that into a step the other way for a gradient that is nearly zero: twice
// its rate of 0.001.
TEST_P(EveryBenchStep, IsNearlyTheSameOnEverySimdTarget) {
  const cpu::Target chosen = cpu::active_target();
  std::vector<std::vector<Array>> results;
  for (cpu::Target target : cpu::available_targets()) {
    cpu::set_target(target);
    bench::Prepared p = prepared(GetParam(), 2);
    results.push_back(after(p.step, Snapshot(p.step), p.arguments, 1));
  }
  cpu::set_target(chosen);
  for (const auto& other : results)
    for (std::size_t i = 0; i < other.size(); ++i) EXPECT_TRUE(allclose(other[i], results[0][i], 1e-3, 2.1e-3)) << i;
}

INSTANTIATE_TEST_SUITE_P(Slow, EveryBenchStep, testing::ValuesIn(names(bench::cases())),
                         [](const auto& p) { return p.param; });

/// A small net with everything that sums over rows, for the tests that the sanitizers run too.
struct SmallNet {
  SmallNet() {
    for (const Shape& shape : {Shape{11, 19}, Shape{19}, Shape{19, 5}, Shape{5}, Shape{19}, Shape{19}})
      parameters.emplace_back(bench::random_normal(shape, parameters.size(), 0.3),
                              "p" + std::to_string(parameters.size()));
  }
  Step compiled(int threads, int lanes) {
    return compile(
        CompileOptions{.name = "a name too long for a small string", .threads = threads, .lanes = lanes},
        [&](const Tensor& x, const Tensor& y) {
          const auto& p = parameters;
          const Tensor h = relu(layer_norm(matmul(x, p[0]) + p[1], p[4], p[5]));
          const Tensor loss = cross_entropy(matmul(h, p[2]) + p[3], y);
          adam.minimize(loss, parameters);
          return std::pair(loss, mean(h, 0));
        },
        f32(61, 11), i32(61));
  }
  std::vector<State> parameters;
  optim::Adam adam;
  const Array x = bench::random_normal({61, 11}, 8), y = bench::random_integers({61}, 5, 9);
};

TEST(Determinism, SameBitsAtAnyThreadCount) {
  SmallNet net;
  for (int lanes : {0, 2, 3, 8}) {
    Step step = net.compiled(1, lanes);
    const Snapshot start(step);
    const auto wanted = after(step, start, {net.x, net.y}, 100);
    for (int threads : {2, 3, 8}) {
      step.set_threads(threads);
      EXPECT_TRUE(same(after(step, start, {net.x, net.y}, 100), wanted))
          << lanes << " lanes, " << threads << " threads";
    }
    start.restore(step);
  }
}

TEST(Determinism, SameBitsWhenCompiledAgain) {
  SmallNet net;
  Step first = net.compiled(2, 8);
  const Snapshot start(first);
  const auto wanted = after(first, start, {net.x, net.y}, 20);
  Step second = net.compiled(2, 8);
  EXPECT_TRUE(same(after(second, start, {net.x, net.y}, 20), wanted));
}

TEST(Determinism, SameBitsFromAnotherThread) {
  SmallNet net;
  Step step = net.compiled(2, 3);
  const Snapshot start(step);
  const auto wanted = after(step, start, {net.x, net.y}, 20);
  std::vector<Array> got;
  std::thread([&] { got = after(step, start, {net.x, net.y}, 20); }).join();
  EXPECT_TRUE(same(got, wanted));
}

TEST(Determinism, StepsOfSeveralThreadsDoNotDisturbEachOther) {
  std::vector<std::vector<Array>> got(3);
  std::vector<std::thread> threads;
  for (auto& mine : got)
    threads.emplace_back([&mine] {
      SmallNet net;
      Step step = net.compiled(2, 3);
      mine = after(step, Snapshot(step), {net.x, net.y}, 50);
    });
  for (auto& t : threads) t.join();
  EXPECT_TRUE(same(got[1], got[0]));
  EXPECT_TRUE(same(got[2], got[0]));
}

TEST(Determinism, ARunAllocatesNothing) {
  SmallNet net;
  for (int threads : {1, 2, 3}) {
    Step step = net.compiled(threads, 3);
    step(net.x, net.y);
    const AllocationCount count;
    for (int i = 0; i < 5; ++i) step(net.x, net.y);
    step.again();
    EXPECT_EQ(count.now(), 0) << threads << " threads";
  }
}

TEST(Determinism, SimdTargetsAgreeUpToRounding) {
  const cpu::Target chosen = cpu::active_target();
  std::vector<std::vector<Array>> results;
  for (cpu::Target target : cpu::available_targets()) {
    cpu::set_target(target);
    SmallNet net;
    Step step = net.compiled(2, 3);
    results.push_back(after(step, Snapshot(step), {net.x, net.y}, 5));
  }
  cpu::set_target(chosen);
  for (const auto& other : results)
    for (std::size_t i = 0; i < other.size(); ++i) EXPECT_TRUE(allclose(other[i], results[0][i], 1e-3, 1e-4)) << i;
}

}  // namespace
}  // namespace wr
