// Steps as users see them: states shared by steps, results, eval, plans as text, odd sizes, random numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/graph.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using test::numbers;
using List = std::vector<Tensor>;
using Doubles = std::vector<double>;

CompileOptions with(int threads, int lanes) { return {.name = {}, .threads = threads, .lanes = lanes}; }

// ---- states ----
TEST(Step, SeveralStepsShareTheirStates) {
  const State w(Array::from<float>({1, 2}), "w"), target(Array::zeros({2}), "target");
  Step train = compile([&](const Tensor& x) { w.assign(w + x); }, f32(2));
  Step act = compile([&](const Tensor& x) { return x * w + 10 * Tensor(target); }, f32(2));
  Step sync = compile([&] { target.assign(w); });
  const Array x = Array::from<float>({1, 10});
  EXPECT_EQ(numbers(act(x)[0]), (Doubles{1, 20}));
  train(x);
  EXPECT_EQ(numbers(act(x)[0]), (Doubles{2, 120}));
  sync();
  train(x);
  EXPECT_EQ(numbers(target.value()), (Doubles{2, 12}));
  EXPECT_EQ(numbers(w.value()), (Doubles{3, 22}));
  EXPECT_EQ(numbers(act(x)[0]), (Doubles{23, 340}));
}

TEST(Step, AStateMayBecomeAnyFunctionOfItself) {
  // Ops that need more than one element of the old value for one of the new cannot write over it.
  std::vector<float> values(64 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37) % 11) - 5;
  const Array old = Array::from(values, {64, 64});
  std::vector<std::int32_t> backwards;
  Wiring wiring;
  for (std::int32_t i = 0; i < 64; ++i) {
    backwards.push_back(63 - i);
    wiring.push_back({63 - i, i / 2});
  }
  const Tensor reversed_columns = broadcast_to(Tensor(Array::from(backwards, {1, 64})), {64, 64});
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> functions{
      [](const Tensor& s, const Tensor& w) { return matmul(s, w); },
      [](const Tensor& s, const Tensor& w) { return matmul_nt(w, s); },
      [](const Tensor& s, const Tensor&) {
        return permute(s, {1, 0});
      },
      [](const Tensor& s, const Tensor& w) { return s * w + sum(s, 1, Keep::yes); },
      [&](const Tensor& s, const Tensor& w) { return gates(s, slice(w, 1, 0, 4), wiring); },
      [&](const Tensor& s, const Tensor&) { return take_along(s, eval(reversed_columns), 1); },
      [&](const Tensor& s, const Tensor&) { return gather(s, Array::from(backwards, {64}), 0); }};
  for (int lanes : {1, 2, 3})
    for (std::size_t k = 0; k < functions.size(); ++k) {
      State s(old, "s");
      Step step = compile(
          with(1, lanes), [&](const Tensor& w) { s.assign(functions[k](s, w)); }, f32(64, 64));
      step(old);
      EXPECT_EQ(numbers(s.value()), numbers(eval(functions[k](Tensor(old), Tensor(old)))))
          << "function " << k << ", " << lanes << " lanes\n"
          << step.describe();
    }
}

TEST(Step, SetAndValueCopy) {
  State s(Array::from<float>({1, 2}), "s");
  Step twice = compile([&] { s.assign(s * 2); });
  const Array before = s.value();
  twice();
  EXPECT_EQ(numbers(before), (Doubles{1, 2}));
  EXPECT_EQ(numbers(s.value()), (Doubles{2, 4}));
  Array given = Array::from<float>({5, 6});
  s.set(given);
  given.fill(0);
  twice();
  EXPECT_EQ(numbers(s.value()), (Doubles{10, 12}));
}

TEST(Step, OutlivesItsStatesHandles) {
  Step count;
  {
    const State s(Array::zeros({}), "n");
    count = compile([&] {
      s.assign(s + 1);
      return Tensor(s);
    });
  }
  count();
  EXPECT_EQ(static_cast<double>(count()), 2);
}

TEST(Step, ReadsAfterAssignSeeTheNewValue) {
  const State s(Array::scalar(1.0f), "s");
  Step step = compile([&] {
    const Tensor before(s);
    s.assign(s + 1);
    const Tensor between(s);
    s.assign(s * 10);
    return List{before, between, s};
  });
  const auto r = step();
  EXPECT_EQ(numbers(r[0])[0], 1);
  EXPECT_EQ(numbers(r[1])[0], 2);
  EXPECT_EQ(numbers(r[2])[0], 20);
  EXPECT_EQ(numbers(s.value())[0], 20);
}

TEST(Step, StatesSwap) {
  for (int lanes : {1, 3}) {
    const State a(Array::arange(1000), "a"), b(Array::full({1000}, 7), "b");
    Step swap = compile(with(2, lanes), [&] {
      const Tensor old_a(a), old_b(b);
      a.assign(old_b);
      b.assign(old_a);
    });
    swap();
    EXPECT_TRUE(identical(a.value(), Array::full({1000}, 7)));
    EXPECT_TRUE(identical(b.value(), Array::arange(1000)));
    swap();
    EXPECT_TRUE(identical(a.value(), Array::arange(1000)));
  }
}

// Each new value needs neighbours' old ones: none may be overwritten too early, whoever has the rows.
TEST(Step, UpdatesReadOldValuesOfOtherRows) {
  for (int lanes : {1, 2, 8}) {
    const State a(Array::arange(4096), "a");
    Step turn = compile(with(2, lanes), [&] { a.assign(concat({slice(a, 0, 1, 4096), slice(a, 0, 0, 1)}, 0) + 0); });
    Step back = compile(with(2, lanes), [&] { a.assign(slice(a, 0, 4095, -4097, -1)); });
    turn();
    EXPECT_EQ(numbers(a.value())[0], 1) << lanes;
    EXPECT_EQ(numbers(a.value())[4095], 0);
    back();
    EXPECT_EQ(numbers(a.value())[0], 0);
    EXPECT_EQ(numbers(a.value())[1], 4095);
    EXPECT_EQ(numbers(a.value())[4095], 1);
  }
}

TEST(Step, AssigningAnInputOrAConstant) {
  const State a(Array::zeros({3}), "a"), b(Array::zeros({3}), "b");
  Step step = compile(
      [&](const Tensor& x) {
        a.assign(x);
        b.assign(Tensor(Array::from<float>({7, 8, 9})));
        return x;
      },
      f32(3));
  Array x = Array::from<float>({1, 2, 3});
  step(x);
  x.fill(0);
  EXPECT_EQ(numbers(a.value()), (Doubles{1, 2, 3}));
  EXPECT_EQ(numbers(b.value()), (Doubles{7, 8, 9}));
}

// ---- results ----
TEST(Step, ResultsBelongToTheStep) {
  Step step = compile([](const Tensor& x) { return std::pair(x * 2, sum(x)); }, f32(2));
  const auto first = step(Array::from<float>({1, 2}));
  const Array kept = first[0].clone(), copied = first[0];
  const float total = step(Array::from<float>({5, 6}))[1].item<float>();
  EXPECT_EQ(total, 11);
  EXPECT_EQ(numbers(first[0]), (Doubles{10, 12}));
  EXPECT_EQ(numbers(kept), (Doubles{2, 4}));
  EXPECT_EQ(numbers(copied), (Doubles{2, 4})) << "a copied array is a value";
  EXPECT_EQ(&step.output(0), &first[0]);
}

TEST(Step, AgainRunsOnTheSameArguments) {
  const State n(Array::scalar(0.0f), "n");
  Step step = compile(
      [&](const Tensor& x) {
        n.assign(n + x);
        return Tensor(n);
      },
      f32());
  EXPECT_THROW(step.again(), Error);
  const Array two = Array::scalar(2.0f);
  step(two);
  step.again();
  EXPECT_EQ(static_cast<float>(step.again()), 6);
}

TEST(Step, ResultsThatAreArgumentsViewsOrTwiceTheSame) {
  const State s(Array::from<float>({5, 6, 7}), "s");
  for (int lanes : {0, 2}) {
    Step step = compile(
        with(2, lanes),
        [&](const Tensor& x) {
          const Tensor y = x + 1;
          return List{
              x, transpose(x), y, y, slice(y, 1, 2, -4, -2), broadcast_to(s, {2, 3}), s, reshape(transpose(x), {2, 3})};
        },
        f32(2, 3));
    const auto r = step(Array::from<float>({{1, 2, 3}, {4, 5, 6}}));
    EXPECT_EQ(numbers(r[0]), (Doubles{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(numbers(r[1]), (Doubles{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(numbers(r[2]), (Doubles{2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(numbers(r[3]), (Doubles{2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(numbers(r[4]), (Doubles{4, 2, 7, 5}));
    EXPECT_EQ(numbers(r[5]), (Doubles{5, 6, 7, 5, 6, 7}));
    EXPECT_EQ(numbers(r[6]), (Doubles{5, 6, 7}));
    EXPECT_EQ(numbers(r[7]), (Doubles{1, 4, 2, 5, 3, 6}));
  }
}

TEST(Step, WithoutArgumentsOrResults) {
  Step constant = compile([] { return full({2}, 3); });
  EXPECT_EQ(numbers(constant()[0]), (Doubles{3, 3}));
  Step nothing = compile([](const Tensor&) {}, f32(2));
  EXPECT_EQ(nothing(Array::zeros({2})).size(), 0u);
  Step unused = compile([](const Tensor&, const Tensor& y) { return y; }, f32(2), f32());
  EXPECT_EQ(static_cast<float>(unused(Array::zeros({2}), Array::scalar(4.0f))), 4);
}

TEST(Step, OnNumbers) {
  Step step = compile(
      [](const Tensor& x, const Tensor& y) { return std::tuple(x * y, where(x > y, x, y), cast(x, DType::i32)); },
      f64(), f64());
  const auto r = step(Array::scalar(2.5), Array::scalar(4.0));
  EXPECT_EQ(numbers(r[0])[0], 10);
  EXPECT_EQ(numbers(r[1])[0], 4);
  EXPECT_EQ(r[2].item<std::int32_t>(), 2);
}

TEST(Step, OnNothing) {
  Step step = compile(
      [](const Tensor& x, const Tensor& w) {
        return List{x * 2, sum(x), matmul(x, w), concat({x, x}, 0), sum(x, 0), max(w, 0), mean(matmul(x, w), 1)};
      },
      f32(0, 3), f32(3, 2));
  const auto r = step(Array::zeros({0, 3}), Array::ones({3, 2}));
  EXPECT_EQ(r[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(numbers(r[1]), (Doubles{0}));
  EXPECT_EQ(r[2].shape(), (Shape{0, 2}));
  EXPECT_EQ(r[3].shape(), (Shape{0, 3}));
  EXPECT_EQ(numbers(r[4]), (Doubles{0, 0, 0}));
  EXPECT_EQ(numbers(r[5]), (Doubles{1, 1}));
  Step inner = compile([](const Tensor& x, const Tensor& w) { return matmul(x, w); }, f32(2, 0), f32(0, 3));
  EXPECT_EQ(numbers(inner(Array::zeros({2, 0}), Array::zeros({0, 3}))[0]), Doubles(6, 0));
}

// 61 rows on 8 lanes: parts and strips of different sizes.
TEST(Step, RowsThatDoNotDivideEvenly) {
  for (std::int64_t rows : {1, 7, 61, 129})
    for (int lanes : {1, 2, 3, 8}) {
      const Array x = test::smooth_array({rows, 37}), w = test::smooth_array({37, 29}, 1, -0.5, 0.49);
      const auto fn = [](const List& a) {
        const Tensor h = relu(matmul(a[0], a[1])), loss = mean(square(h));
        const auto d = grad(loss, {a[0], a[1]});
        return List{h, loss, d[0], d[1], max(h, 0), sum(h, 0)};
      };
      const auto one = test::run_once(fn, {x, w}, with(1, 1)), many = test::run_once(fn, {x, w}, with(2, lanes));
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(allclose(many[i], one[i], 1e-12, 1e-13)) << rows << " " << lanes << " " << i;
    }
}

// ---- eval ----
TEST(Eval, ComputesNow) {
  const State s(Array::from<float>({1, 2, 3}), "s");
  EXPECT_EQ(numbers(eval(s * 2 + Tensor(Array::from<float>({1, 1, 1})))), (Doubles{3, 5, 7}));
  const Tensor x(Array::from<float>({1, 2}));
  const auto both = eval(List{x + 1, sum(x)});
  EXPECT_EQ(numbers(both[0]), (Doubles{2, 3}));
  EXPECT_EQ(numbers(both[1]), (Doubles{3}));
  EXPECT_EQ(numbers(eval(grad(sum(x * x), {x})[0])), (Doubles{2, 4}));
}

TEST(Eval, LeavesStatesAlone) {
  const State s(Array::scalar(1.0f), "s");
  const Tensor more = s + 1;
  s.assign(more);
  EXPECT_EQ(numbers(eval(more))[0], 2);
  EXPECT_EQ(numbers(s.value())[0], 1);
}

// ---- text and facts ----
Step a_training_step(const CompileOptions& options) {
  const State w(Array::ones({20, 30}), "weights"), b(Array::zeros({30}), "bias");
  optim::Adam adam;
  return compile(
      options,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = mse(relu(matmul(x, w) + b), y);
        adam.minimize(loss, {w, b});
        return loss;
      },
      f32(64, 20), f32(64, 30));
}

TEST(Describe, NamesWhatAPersonLooksFor) {
  const std::string text = a_training_step({.name = "digits", .threads = 1, .lanes = 2}).describe();
  for (const char* word : {"digits", "region", "phase", "strip", "2 lanes", "barrier", "FLOP", "memory", "lower bound",
                           "state", "KB", "einsum", "weights", "step_test.cpp:", "(gradient of step_test.cpp:", "rows"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
}

TEST(Facts, SayWhatThePlanIs) {
  Step step = a_training_step({.name = {}, .threads = 1, .lanes = 2});
  const StepFacts& f = step.facts();
  EXPECT_EQ(f.lanes, 2);
  EXPECT_GE(f.regions, f.phases);
  EXPECT_GE(f.phases, 1);
  EXPECT_GT(f.instructions, 3);
  const double product = 2.0 * 64 * 20 * 30;  // forward, and the gradient by the weights
  EXPECT_GT(f.flops, 2 * product);
  EXPECT_LT(f.flops, 3.5 * product);
  EXPECT_GE(f.state_bytes, 3 * (20 * 30 + 30) * sizeof(float));
  EXPECT_LE(f.lower_bound_bytes, f.peak_bytes());
  EXPECT_GT(f.compile_ms, 0);
  EXPECT_EQ(f.peak_bytes(), 2 * f.scratch_bytes + 2 * f.partial_bytes + f.arena_bytes);
}

TEST(GraphText, ParsesBackToTheSameText) {
  Step step = a_training_step({});
  EXPECT_EQ(ir::print(*ir::parse(step.graph())), step.graph());
  EXPECT_NE(step.graph().find("weights"), std::string::npos);
}

// ---- threads ----
TEST(Threads, AreSetAndKept) {
  Step step = a_training_step(with(3, 8));
  EXPECT_EQ(step.threads(), 3);
  step.set_threads(1);
  EXPECT_EQ(step.threads(), 1);
  step.set_threads(0);
  EXPECT_GE(step.threads(), 1);
  EXPECT_THROW(step.set_threads(-1), Error);
  EXPECT_THROW(step.set_threads(100'000), Error);
  EXPECT_GE(step.threads(), 1);
}

TEST(Threads, MayBeMoreThanLanes) {
  Step step = compile(
      with(8, 2), [](const Tensor& x) { return sum(exp(x)); }, f32(1000));
  EXPECT_NEAR(static_cast<double>(step(Array::zeros({1000}))), 1000, 1e-3);
}

// ---- random numbers ----
TEST(RandomNumbers, AreTheSameAtAnyLanesAndThreads) {
  std::vector<std::vector<Array>> all;
  for (const auto& [threads, lanes] : {std::pair{1, 1}, {2, 1}, {1, 3}, {2, 8}, {0, 0}}) {
    const Random random(42);
    Step step = compile(with(threads, lanes), [&] {
      const Tensor u = random.uniform({61, 13}), n = random.normal({61, 13}, DType::f64);
      return List{u, n, random.bernoulli(0.3, {500}), tanh(u), sum(n, 0)};
    });
    step();
    std::vector<Array> results;
    for (std::size_t i = 0; i < 4; ++i) results.push_back(step.output(i).clone());
    all.push_back(results);
  }
  for (const auto& other : all)
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(identical(other[i], all[0][i])) << i;
}

TEST(RandomNumbers, AdvanceWithEveryRun) {
  const Random random(1);
  Step step = compile([&] { return List{random.uniform({100}), random.uniform({100})}; });
  step();
  const Array first = step.output(0).clone(), beside = step.output(1).clone();
  step();
  EXPECT_FALSE(identical(step.output(0), first)) << "the next run draws anew";
  EXPECT_FALSE(identical(first, beside)) << "two draws of one run differ";
  EXPECT_EQ(random.counter().value().item<std::int32_t>(), 2);
  State counter = random.counter();
  counter.set(Array::scalar<std::int32_t>(0));
  step();
  EXPECT_TRUE(identical(step.output(0), first)) << "the same counter gives the same numbers";
}

TEST(RandomNumbers, HaveTheirDistributions) {
  const Random random(7);
  const auto r = eval(List{random.uniform({40000}), random.normal({40000}, DType::f64),
                           cast(random.bernoulli(0.3, {40000}), DType::f32)});
  const auto moments = [](const Array& a) {
    double sum = 0, squares = 0, low = 1e9, high = -1e9;
    for (double v : numbers(a)) sum += v, squares += v * v, low = std::min(low, v), high = std::max(high, v);
    const double mean = sum / static_cast<double>(a.count());
    return std::array{mean, squares / static_cast<double>(a.count()) - mean * mean, low, high};
  };
  const auto u = moments(r[0]), n = moments(r[1]), b = moments(r[2]);
  EXPECT_NEAR(u[0], 0.5, 0.01);
  EXPECT_NEAR(u[1], 1.0 / 12, 0.003);
  EXPECT_GE(u[2], 0);
  EXPECT_LT(u[3], 1);
  EXPECT_NEAR(n[0], 0, 0.02);
  EXPECT_NEAR(n[1], 1, 0.03);
  EXPECT_NEAR(b[0], 0.3, 0.01);
}

TEST(RandomNumbers, OfOtherSeedsDiffer) {
  EXPECT_FALSE(identical(eval(Random(1).uniform({50})), eval(Random(2).uniform({50}))));
}

}  // namespace
}  // namespace wr
