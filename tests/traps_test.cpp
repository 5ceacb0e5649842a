// What users get wrong: refused where it is written, with words that help, or defined.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <type_traits>

#include "base/host.h"
#include "base/turn.h"
#include "errors.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
/// The message has all of the parts, and begins with a line of this file.
void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
  EXPECT_EQ(text.rfind("traps_test.cpp:", 0), 0u) << text;
  for (const char* part : parts) EXPECT_TRUE(has(text, part)) << text << "\nlacks: " << part;
}

// ---- steps ----

TEST(Traps, AStepThatWasNeverCompiledSaysSo) {
  Step empty;
  const Array x = Array::ones({2});
  expect_says(error_of([&] { empty(x); }), {"never compiled"});
  expect_says(error_of([&] { empty(); }), {"never compiled"});
  expect_says(error_of([&] { empty.again(); }), {"never compiled"});
  expect_says(error_of([&] { empty.set_threads(1); }), {"never compiled"});
  EXPECT_TRUE(has(error_of([&] { empty.describe(); }), "never compiled"));
  Step real = compile([](const Tensor& t) { return t; }, f32(2));
  const Step taken = std::move(real);
  expect_says(error_of([&] { real(x); }), {"never compiled", "moved"});  // NOLINT(bugprone-use-after-move)
}

// `if (x > 0)` would always be taken: there is no value while tracing.
static_assert(!std::is_constructible_v<bool, Tensor>);
static_assert(!std::is_convertible_v<Tensor, bool>);

TEST(Traps, WrongArgumentsAndResultsNameTheCallersLine) {
  Step step = compile(
      CompileOptions{.name = "s"}, [](const Tensor& x) { return x * 2; }, f32(3));
  expect_says(error_of([&] { step(Array::ones({4})); }), {"s: argument 0 is f32[4]", "compiled for f32[3]"});
  expect_says(error_of([&] { step(Array::ones({3}), Array::ones({3})); }), {"takes 1 arguments, got 2"});
  expect_says(error_of([&] { step(Array::ones({3}, DType::f64)); }), {"f64[3]"});
  expect_says(error_of([&] { step(Array::ones({6}).slice(0, 0, 6, 2)); }), {"strided"});
  const Array x = Array::ones({3});
  expect_says(error_of([&] { step(x)[3]; }), {"result 3", "has 1"});
  expect_says(error_of([&] { step.output(1); }), {"result 1"});
  expect_says(error_of([&] { static_cast<void>(double{step(x)}); }), {"f32[3]", "not one number"});
}

TEST(Traps, WhatHasNoSuchNameOrNumberSaysWhatThereIs) {
  const Metadata settings{{"lr", "0.1"}, {"seed", "7"}};
  EXPECT_EQ(settings.at("seed"), "7");
  expect_says(error_of([&] { settings.at("sede"); }), {"'sede'", "lr, seed"});
  expect_says(error_of([&] { Metadata().at("lr"); }), {"'lr'", "nothing at all"});
  const nn::List<nn::Dense> parts(2, [] { return nn::Dense(1, 1); });
  EXPECT_TRUE(has(error_of([&] { parts[2]; }), "part 2 was asked for; it has 2"));
}

TEST(Traps, ResultsOfOneStepAreArgumentsOfAnother) {
  Step twice = compile([](const Tensor& x) { return x * 2; }, f32(3));
  Step total = compile([](const Tensor& x) { return sum(x); }, f32(3));
  EXPECT_EQ(float{total(twice(Array::ones({3})))}, 6);
}

TEST(Traps, RunningOrCompilingInsideATraceIsRefused) {
  Step inner = compile([](const Tensor& x) { return x * 2; }, f32(2));
  const Array x = Array::ones({2});
  const std::string run = error_of([&] {
    compile(
        [&](const Tensor& t) {
          inner(x);
          return t;
        },
        f32(2));
  });
  expect_says(run, {"cannot run while another step is traced"});
  const std::string nested = error_of(
      [&] { compile([&](const Tensor& t) { return compile([](const Tensor& u) { return u; }, f32(2)), t; }, f32(2)); });
  expect_says(nested, {"another step is being traced"});
  // Arrays are computed at once wherever they are, also there.
  Step eager = compile([&](const Tensor& t) { return t + Tensor(x + x); }, f32(2));
  EXPECT_EQ(Array(eager(x)).at<float>({0}), 3);
}

TEST(Traps, ShapesOfTooManyAxesNameTheCallersLine) {
  const Array x = Array::ones({4});
  expect_says(error_of([&] { x.reshape({1, 1, 1, 1, 1, 1, 1, 1, 4}); }), {"a shape has at most 8 axes"});
  expect_says(error_of([&] {
                compile([](const Tensor& t) { return reshape(t, {1, 1, 1, 1, 1, 1, 1, 1, 4}); }, f32(4));
              }),
              {"a shape has at most 8 axes"});
  EXPECT_EQ(x.reshape({1, 1, 1, 1, 1, 1, 1, 4}).rank(), 8);
}

TEST(Traps, NamesOfOptionsAreLookedAtWhenCompiling) {
  const auto with = [](const CompileOptions& options) {
    return error_of([&] {
      compile(
          options, [](const Tensor& x) { return x; }, f32(any));
    });
  };
  expect_says(with({.simd = "avx1024"}), {"compile: unknown SIMD target 'avx1024'"});
  expect_says(with({.machine = "toaster"}), {"compile: there is no machine \"toaster\""});
}

TEST(Traps, AnEmptyFunctionIsSaidToBeOne) {
  const std::function<Tensor(const Tensor&)> nothing;
  expect_says(error_of([&] { compile(nothing, f32(2)); }), {"compile: an empty std::function was called"});
  Step open = compile(nothing, f32(any));
  expect_says(error_of([&] { open(Array::ones({2})); }), {"compile: an empty std::function was called"});
}

TEST(Traps, LayersThatNoMemoryHoldsNameTheCallersLine) {
  const std::int64_t big = std::int64_t{1} << 31;
  expect_says(error_of([&] { nn::Dense(big, big); }), {"the number of elements of [2147483648,2147483648] overflows"});
  if (memory_available() == 0) GTEST_SKIP() << "the system does not say how much memory it has";
  const std::int64_t wide = host().memory / 8;
  expect_says(error_of([&] { nn::Dense(wide, 8); }), {"no memory for"});
  expect_says(error_of([&] { nn::Embedding(wide, 8); }), {"no memory for"});
  expect_says(error_of([&] { nn::Conv2D(wide, 8, 3); }), {"no memory for"});
  expect_says(error_of([&] { nn::Gru(wide, 8); }), {"no memory for"});
}

TEST(Traps, LoadersAndSplitsNameTheCallersLine) {
  const Array x = Array::ones({4, 3}), y = Array::ones({5});
  expect_says(error_of([&] { data::Loader({x, y}, {.batch = 2}); }), {"loader: x is [4,3], y is [5]"});
  expect_says(error_of([&] { data::Loader({x, x}, {.batch = 8}); }), {"4 examples do not fill one batch of 8"});
  expect_says(error_of([&] { data::Loader(4, f32(2), f32(2), nullptr, {.batch = 2}); }), {"no function"});
  expect_says(error_of([&] { data::split({x, x}, 1.5); }), {"split: the share must be from 0 to 1"});
  expect_says(error_of([&] { data::split({x, y}, 0.5); }), {"split: x is [4,3], y is [5]"});
}

TEST(Traps, ThreadsAreLimited) {
  Step step = compile([](const Tensor& x) { return x; }, f32(2));
  expect_says(error_of([&] { step.set_threads(100000); }), {"threads: 100000 is not in 1.."});
  expect_says(error_of([&] { step.set_threads(-1); }), {"threads: -1"});
}

// ---- threads ----

TEST(Traps, RunsOfOneStepWaitForOneAnother) {
  const State count(Array::scalar(0.0), "count");
  Step step = compile([&] { count.assign(count + 1); });
  const auto run = [&] {
    for (int i = 0; i < 2000; ++i) step();
  };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(count.value().item<double>(), 4000);
}

TEST(Traps, StepsThatShareAStateWaitForOneAnother) {
  State count(Array::scalar(0.0), "count");
  const State mine(Array::scalar(0.0), "mine"), between(Array::scalar(0.0), "between");
  Step a = compile([&] { count.assign(count + 1); });
  Step b = compile([&] {
    count.assign(count + 1);
    mine.assign(mine + count);
  });
  // Joins what b and c have with a: all three are one turn.
  Step c = compile([&] { between.assign(mine + 1); });
  std::thread other([&] {
    for (int i = 0; i < 2000; ++i) b();
  });
  std::thread third([&] {
    for (int i = 0; i < 2000; ++i) {
      c();
      EXPECT_GE(count.value().item<double>(), 0);
    }
  });
  for (int i = 0; i < 2000; ++i) a();
  other.join();
  third.join();
  EXPECT_EQ(count.value().item<double>(), 4000);
}

TEST(Traps, StepsMayBeCompiledWhileOthersRun) {
  const State count(Array::scalar(0.0), "count"), other(Array::scalar(0.0), "other");
  Step a = compile([&] { count.assign(count + 1); });
  std::thread running([&] {
    for (int i = 0; i < 3000; ++i) a();
  });
  for (int i = 0; i < 20; ++i) {
    Step both = compile([&] {
      count.assign(count + 1);
      other.assign(other + 1);
    });
    for (int k = 0; k < 10; ++k) both();
  }
  running.join();
  EXPECT_EQ(count.value().item<double>(), 3200);
  EXPECT_EQ(other.value().item<double>(), 200);
}

// A step of many states joins their turns to its own one by one, and asks for the leader at every run: were the way up
// as long as there are states, this would take minutes, and letting go of them would need a stack as deep.
TEST(Turn, ManyJoinedTurnsAreNearTheirLeader) {
  const auto step = std::make_shared<Turn>();
  std::vector<std::shared_ptr<Turn>> states;
  for (int i = 0; i < 300'000; ++i) {
    states.push_back(std::make_shared<Turn>());
    Turn::join(step, states.back());
  }
  for (const auto& state : states) const Turn::Hold hold(state);
}

TEST(Turn, JoinedTurnsExcludeOneAnother) {
  std::vector<std::shared_ptr<Turn>> turns;
  for (int i = 0; i < 8; ++i) turns.push_back(std::make_shared<Turn>());
  for (int i = 1; i < 8; ++i) Turn::join(turns[i], turns[i / 2]);
  Turn::join(turns[7], turns[0]);
  int shared = 0;
  const auto work = [&](std::size_t of) {
    for (int i = 0; i < 5000; ++i) {
      const Turn::Hold hold(turns[of]);
      ++shared;
    }
  };
  std::thread a(work, 7), b(work, 4);
  work(0);
  a.join(), b.join();
  EXPECT_EQ(shared, 15000);
}

// ---- sizes and memory ----

TEST(Traps, SizesThatOverflowAreRefused) {
  const std::int64_t big = std::int64_t{1} << 40;
  expect_says(error_of([&] { compile([](const Tensor& x) { return sum(x); }, f32(big, big)); }),
              {"f32[1099511627776,1099511627776]", "more elements than any memory"});
  const std::string spread = error_of([&] {
    compile(
        [&](const Tensor& x) {
          return sum(broadcast_to(reshape(x, {1, 2}), {big, 2})) + sum(x + full({big, big, 1}, 0));
        },
        f32(2));
  });
  EXPECT_FALSE(has(spread, "no error")) << spread;
}

TEST(Traps, WhatMemoryCannotHoldIsRefusedAtOnce) {
  if (memory_available() == 0) GTEST_SKIP() << "the system does not say how much memory it has";
  const std::int64_t most = host().memory;
  expect_says(error_of([&] { Array::zeros({most}); }), {"no memory for", "MB are free"});
  expect_says(error_of([&] { compile([](const Tensor& x) { return sum(x); }, f32(most)); }),
              {"argument 0 is f32[", "GB, and this machine has"});
  // Activations that have to be kept: the estimate is of the plan, before it takes memory.
  const std::int64_t rows = 1 << 16, width = most / 4 / rows * 2;
  const std::string kept = error_of([&] {
    compile(
        [&](const Tensor& x) {
          const Tensor wide = broadcast_to(reshape(x, {rows, 1}), {rows, width}) * iota({1, width}, 1, DType::f32);
          return wide / sum(wide);
        },
        f32(rows));
  });
  expect_says(kept, {"GB"});
}

// ---- gradients and optimisers ----

TEST(Traps, GradientsThatDoNotArriveAreNamed) {
  const State w(Array::ones({3}), "w"), idle(Array::ones({3}), "idle");
  const auto trace = [&](const std::function<Tensor(const Tensor&)>& loss_of) {
    return error_of([&] { compile([&](const Tensor& x) { return grad(loss_of(x), {w}); }, f32(3)); });
  };
  expect_says(trace([&](const Tensor& x) { return sum(round(x * w)); }), {"'w'", "round", "allow_unused"});
  expect_says(trace([&](const Tensor& x) { return sum(cast(argmax(x * w, 0), DType::f32)) + sum(x); }),
              {"'w'", "argmax"});
  expect_says(trace([&](const Tensor& x) { return sum(where(w > x, x, 0)); }), {"'w'", "gt"});
  expect_says(trace([&](const Tensor& x) { return sum(x * stop_gradient(w)); }), {"'w'", "stop_gradient"});
  expect_says(trace([&](const Tensor& x) { return sum(x * x); }), {"'w'", "does not depend on it"});
  EXPECT_EQ(trace([&](const Tensor& x) { return sum(round(x) * w); }), "no error");
  Step zeros = compile([&](const Tensor& x) { return grad(sum(x * x), {w}, allow_unused); }, f32(3));
  EXPECT_TRUE(identical(Array(zeros(Array::ones({3}))), Array::zeros({3})));
}

TEST(Traps, OptimisersNameUnusedParametersAndUpdateOncePerStep) {
  const State w(Array::ones({3}), "w"), idle(Array::ones({3}), "idle");
  optim::Sgd sgd({.lr = 0.5});
  expect_says(error_of([&] { sgd.minimize(sum(w * w), {w}); }), {"sgd: minimize", "no step is being traced"});
  EXPECT_TRUE(identical(w.value(), Array::ones({3})));
  expect_says(error_of([&] { compile([&] { sgd.minimize(sum(w * w), {w, idle}); }); }), {"'idle'"});
  expect_says(error_of([&] {
                compile([&] {
                  sgd.minimize(sum(w * w), {w});
                  sgd.minimize(sum(idle * idle), {idle});
                });
              }),
              {"sgd: minimize is called twice"});
  Step step = compile([&] { sgd.minimize(sum(w * w), {w, idle}, allow_unused); });
  Step again = compile([&] { sgd.minimize(sum(w * w), {w}); });  // another step: shares what the optimiser knows
  step(), again();
  EXPECT_TRUE(identical(w.value(), Array::zeros({3})));
  EXPECT_TRUE(identical(idle.value(), Array::ones({3})));
}

TEST(Traps, AParameterIsMovedOnceAndByARate) {
  const State w(Array::ones({3}), "w"), b(Array::ones({3}), "b");
  optim::Sgd sgd({.lr = 0.5});
  expect_says(error_of([&] { compile([&] {
                               sgd.minimize(sum(w * b), {w, b, w});
                             }); }),
              {"sgd: parameter 'w' is in the list twice"});
  expect_says(error_of([&] { sgd.set_lr(std::numeric_limits<double>::quiet_NaN()); }),
              {"lr must not be negative, is nan"});
  expect_says(error_of([&] { sgd.set_lr(-1); }), {"lr must not be negative, is -1"});
}

// A checkpoint without the moments would be resumed as if nothing were wrong.
TEST(Traps, AnOptimiserHasItsStatesOnceTheStepIsTraced) {
  const State w(Array::ones({3}), "w");
  optim::Adam adam;
  expect_says(error_of([&] { adam.states(); }), {"adam: its states are made when the step is traced", "prepare()"});
  Step step = compile([&](const Tensor& x) { adam.minimize(sum(x * w), {w}); }, f32(any, 3));
  expect_says(error_of([&] { adam.states(); }), {"where it leaves sizes open"});
  step.prepare({f32(2, 3)});
  EXPECT_EQ(adam.states().size(), 4u);  // counter, rate, two moments
}

TEST(Traps, AGradientRuleThatDoesNotFitNamesItsLine) {
  const State w(Array::ones({3}), "w");
  const auto trace = [&](const GradientRule& rule) {
    return error_of([&] { compile([&] { return grad(sum(custom_gradient(round(w * 2), {w * 2}, rule)), {w}); }); });
  };
  expect_says(trace([](auto&, auto&, auto& g) { return std::vector<Tensor>{sum(g)}; }), {"the rule's gradient f32[]"});
  expect_says(trace([](auto&, auto&, auto&) { return std::vector<Tensor>(); }), {"the rule gives 0 gradients"});
}

// ---- values ----

TEST(Traps, ABatchOfNoRowsIsDefined) {
  nn::Sequential net{nn::Dense(4, 8), nn::Relu(), nn::Dense(8, 3)};
  optim::Sgd sgd({.lr = 0.1});
  const auto before = net.parameters()[0].value();
  Step train = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::cross_entropy(net(x), y);
        sgd.minimize(loss, net.parameters());
        return loss;
      },
      f32(any, 4), i32(any));
  EXPECT_EQ(float{train(Array::zeros({0, 4}), Array::zeros({0}, DType::i32))}, 0);
  EXPECT_TRUE(identical(net.parameters()[0].value(), before));
  EXPECT_EQ(nn::predict(net, Array::zeros({0, 4})).shape(), Shape({0, 3}));
}

TEST(Traps, ABatchOfNoImagesGoesThroughFlattenAndReshape) {
  nn::Sequential net{nn::Conv2D(1, 2, 3), nn::Flatten(), nn::Reshape({-1, 2}), nn::Flatten(), nn::Dense(72, 3)};
  EXPECT_EQ(nn::predict(net, Array::zeros({0, 8, 8, 1})).shape(), Shape({0, 3}));
  EXPECT_EQ(nn::predict(net, Array::zeros({2, 8, 8, 1})).shape(), Shape({2, 3}));
}

TEST(Check, NamesTheOpAndTheRow) {
  const State w(Array::ones({3}), "w");
  Step step = compile(
      CompileOptions{.check = true},
      [&](const Tensor& x) {
        const Tensor y = log(x * w);  // the line that is to be named
        w.assign(w + sum(y, 0));
        return sum(y);
      },
      f32(4, 3));
  Array x = Array::ones({4, 3});
  EXPECT_EQ(float{step(x)}, 0);
  x.at<float>({2, 1}) = 0;
  expect_says(error_of([&] { step(x); }), {"log (traps_test.cpp:", "-inf in row 2"});
  EXPECT_TRUE(identical(w.value(), Array::ones({3})));  // as before the run
  x.at<float>({2, 1}) = -1;
  expect_says(error_of([&] { step(x); }), {"log", "nan in row 2"});
  x.at<float>({3, 0}) = std::numeric_limits<float>::quiet_NaN();
  expect_says(error_of([&] { step(x); }), {"argument 0 is nan in row 3"});
  x = Array::ones({4, 3});
  EXPECT_EQ(float{step(x)}, 0);
}

TEST(Check, NamesTheIndexThatIsOutOfRange) {
  const Array logits = Array::zeros({4, 3});
  Array labels = Array::zeros({4}, DType::i32);
  Step step = compile(
      CompileOptions{.check = true}, [](const Tensor& x, const Tensor& y) { return loss::cross_entropy(x, y); },
      f32(4, 3), i32(4));
  EXPECT_TRUE(std::isfinite(float{step(logits, labels)}));
  labels.at<std::int32_t>({2}) = 3;
  expect_says(error_of([&] { step(logits, labels); }), {"argument 1 has 3 in row 2", "from 0 to 2"});
  labels.at<std::int32_t>({2}) = -1;
  expect_says(error_of([&] { step(logits, labels); }), {"argument 1 has -1 in row 2"});
}

TEST(Check, LabelsAreAlwaysLookedAtAndOtherIndicesMayBeOutOfRange) {
  const Array logits = Array::zeros({40, 3}), table = Array::ones({3, 2});
  Array labels = Array::zeros({40}, DType::i32);
  const CompileOptions plain{.name = "train", .check = false};
  Step step = compile(
      plain, [](const Tensor& x, const Tensor& y) { return loss::cross_entropy(x, reshape(y, {40})); }, f32(40, 3),
      i32(40));
  EXPECT_TRUE(std::isfinite(float{step(logits, labels)}));
  labels.at<std::int32_t>({37}) = 3;
  expect_says(error_of([&] { step(logits, labels); }),
              {"traps_test.cpp", "train: argument 1 has 3 in row 37, but cross_entropy (traps_test.cpp:", "0 to 2"});
  labels.at<std::int32_t>({37}) = -1;
  expect_says(error_of([&] { step(logits, labels); }), {"argument 1 has -1 in row 37"});
  Step read = compile(
      plain, [](const Tensor& t, const Tensor& i) { return gather(t, i, 0); }, f32(3, 2), i32(40));
  const Array got = read(table, labels);
  EXPECT_TRUE(std::isnan(got.at<float>({37, 1})));
  EXPECT_EQ(got.at<float>({36, 1}), 1);
}

TEST(Check, InfinitiesOfAMaskAreNotToBlame) {
  Step step = compile(
      CompileOptions{.check = true},
      [](const Tensor& x) {
        const Tensor masked = where(x > 0, x, -std::numeric_limits<double>::infinity());
        return sum(sqrt(softmax(masked, 1) - 0.75));
      },
      f32(1, 2));
  expect_says(error_of([&] { step(Array::from<float>({{1, -1}})); }), {"sqrt", "nan"});
}

// ---- nets ----

struct Block : nn::Net<Block> {
  nn::LayerNorm norm{4};
  nn::Dense up{4, 8}, down{8, 4};
  Tensor operator()(const Tensor& x) const { return x + down(relu(up(norm(x)))); }
};

struct Model : nn::Net<Model> {
  nn::Dense in{3, 4};
  nn::List<Block> blocks{2, [] { return Block(); }};
  Block last;
  State scale = parameter("scale", Array::ones({4}));
  nn::Dense out = child("out", nn::Dense(4, 2));
  Tensor operator()(const Tensor& x) const {
    Tensor y = in(x);
    for (const Block& block : blocks) y = block(y);
    return out(last(y) * scale);
  }
};

TEST(Net, MembersAreItsParts) {
  const Model model;
  std::vector<std::string> names;
  for (const State& p : model.parameters()) names.push_back(p.name());
  const std::vector<std::string> expected{"scale",       "out.w",   "out.b",   "0.w",     "0.b",     "1.0.0.scale",
                                          "1.0.0.shift", "1.0.1.w", "1.0.1.b", "1.0.2.w", "1.0.2.b", "1.1.0.scale",
                                          "1.1.0.shift", "1.1.1.w", "1.1.1.b", "1.1.2.w", "1.1.2.b", "2.0.scale",
                                          "2.0.shift",   "2.1.w",   "2.1.b",   "2.2.w",   "2.2.b"};
  EXPECT_EQ(names, expected);
  const Model copy = model;  // a handle, as every module: the same parameters
  EXPECT_EQ(copy.parameters().size(), names.size());
  EXPECT_EQ(copy.parameters()[0].variable(), model.parameters()[0].variable());
  EXPECT_EQ(model.kind(), "Model");
}

TEST(Net, TrainsAndIsPartOfOthers) {
  nn::Sequential net{Model(), nn::Tanh(), Model().out};
  EXPECT_EQ(net.parameters()[0].name(), "0.scale");
  optim::Adam adam({.lr = 1e-2});
  Step train = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::mse(net.children()[0]->operator()(x), y);
        adam.minimize(loss, net.children()[0]->parameters());
        return loss;
      },
      f32(8, 3), f32(8, 2));
  const Array x = Array::ones({8, 3}), y = Array::full({8, 2}, 0.5);
  const float first = train(x, y);
  for (int i = 0; i < 50; ++i) train(x, y);
  EXPECT_LT(float{train(x, y)}, first / 2);
}

TEST(Predict, AnswersAnyNumberOfRows) {
  nn::Sequential net{nn::Dense(3, 4), nn::Dropout(0.5), nn::Tanh()};
  const Array rows = Array::arange(30).reshape({10, 3});
  const Array all = nn::predict(net, rows);
  EXPECT_EQ(all.shape(), Shape({10, 4}));
  for (const std::int64_t n : {1, 3, 10})
    EXPECT_TRUE(allclose(nn::predict(net, rows.slice(0, 0, n)), all.slice(0, 0, n), 1e-6, 1e-6)) << n;
  net.add(nn::Dense(4, 1));  // another net now
  EXPECT_EQ(nn::predict(net, rows).shape(), Shape({10, 1}));
  net.parameters()[0].rename("w");
  State(net.parameters().back()).set(Array::full({1}, 100));
  EXPECT_GT(nn::predict(net, rows).at<float>({0, 0}), 50);  // the parameters of now
  expect_says(error_of([&] { nn::predict(net, Array::ones({2, 5})); }), {"Dense"});
  const Model model;
  EXPECT_EQ(nn::predict(model, rows).shape(), Shape({10, 2}));
}

TEST(Traps, ATensorThatIsNotThereIsRefusedWithTheCallersLine) {
  const Tensor h(Array::ones({2})), x(Array::ones({4, 2}));
  const auto expect = [](const std::function<void()>& fn, const std::string& end) {
    const std::string message = error_of(fn);
    EXPECT_TRUE(message.starts_with("traps_test.cpp:")) << message;
    EXPECT_TRUE(message.ends_with(": " + end)) << message;
  };
  expect(
      [&] {
        scan([](const auto& c, const auto&) { return Scan{{c[1]}, {}}; }, {h}, {x});
      },
      "scan: carried tensor 1 was asked for; there is one, number 0");
  expect(
      [&] {
        scan([](const auto& c, const auto& m) { return Scan{{c[0] + m[2]}, {}}; }, {h}, {x, x});
      },
      "scan: sequence 2 was asked for; there are 0 to 1");
  const ScanBody body = [](const auto& c, const auto& m) { return Scan{{c[0] + m[0]}, {}}; };
  expect([&] { scan(body, {h}, {x}).outputs[0]; }, "scan: output 0 was asked for; there is none");
  expect([&] { scan(body, {h}, {x}).carry[1]; }, "scan: carried tensor 1 was asked for; there is one, number 0");
  expect([&] { repeat(3, [](const auto& c) { return std::vector<Tensor>{c[1]}; }, {h}); },
         "repeat: carried tensor 1 was asked for; there is one, number 0");
  expect([&] { repeat(3, [](int, const auto& c) { return std::vector<Tensor>{c[1]}; }, {h}); },
         "repeat: carried tensor 1 was asked for; there is one, number 0");
  expect([&] { checkpoint([](const Tensors& a) { return std::vector<Tensor>{a[1]}; }, std::vector<Tensor>{h}); },
         "checkpoint: argument 1 was asked for; there is one, number 0");
  expect([&] { grad(sum(h), {h})[1]; }, "grad: gradient 1 was asked for; there is one, number 0");
  expect([&] { compile([](const Tensors& a) { return std::vector<Tensor>{a[1]}; }, std::vector<Spec>{f32(2)}); },
         "compile: argument 1 was asked for; there is one, number 0");
}

}  // namespace
}  // namespace wr
