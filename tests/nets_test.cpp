// Whole training steps of nets of every layer, at batch sizes that do not divide evenly: against the interpreter in
// double, the same bits at any thread count, and no allocations.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/case.h"
#include "count_allocations.h"
#include "windrow/losses.h"
#include "windrow/nn.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using namespace nn;

struct Example {
  const char* name;
  std::function<Sequential()> net;
  Spec input, labels;
  bool random = false;  // draws numbers, which the interpreter cannot
};

std::vector<Example> examples() {
  const ConvLayerOptions same{.padding = Padding::same};
  return {
      {"mlp",
       [] {
         return Sequential{Dense(20, 33), LayerNorm(33), Gelu(), Dense(33, 5)};
       },
       f32(37, 20), i32(37)},
      {"cnn",
       [=] {
         return Sequential{Conv2D(1, 6, 3, same), BatchNorm(6), Relu(),     MaxPool(2), Conv2D(6, 8, 3, same),
                           BatchNorm(8),          Silu(),       AvgPool(2), Flatten(),  Dense(8 * 9, 5)};
       },
       f32(21, 12, 12, 1), i32(21)},
      {"dropout",
       [] {
         return Sequential{Dense(20, 33), Dropout(0.2), Relu(), Dense(33, 5)};
       },
       f32(37, 20), i32(37), true},
      {"residual",
       [=] {
         return Sequential{
             Conv2D(2, 8, 3, {.padding = Padding::same, .stride = 2}),
             Residual(Sequential{GroupNorm(4, 8), Elu(), Conv2D(8, 8, 3, {.padding = Padding::same, .groups = 4})}),
             ConvTranspose2D(8, 4, 2, {.stride = 2}),
             InstanceNorm(4),
             Concat(-1, GlobalAvgPool(), GlobalMaxPool()),
             Dense(8, 5)};
       },
       f32(19, 8, 8, 2), i32(19)},
      {"lstm",
       [] {
         return Sequential{Embedding(7, 6), Lstm(6, 10), Lstm(10, 9, {.returns = Returns::last}), Dense(9, 5)};
       },
       i32(35, 6), i32(35)},
      {"gru",
       [] {
         return Sequential{Gru(6, 10), Dense(10, 5)};
       },
       f32(33, 5, 6), i32(33, 5)},
      {"attention",
       [] {
         return Sequential{Embedding(7, 12),
                           Residual(Sequential{LayerNorm(12), Attention(12, 3, {.causal = Causal::yes})}),
                           Residual(Sequential{RmsNorm(12), Dense(12, 24), Relu(), Dense(24, 12)}),
                           Conv1D(12, 5, 3, {.padding = Padding::same})};
       },
       i32(13, 9), i32(13, 9)},
  };
}

Array sample(const Spec& spec, int below) {
  return spec.dtype == DType::i32 ? bench::random_integers(spec.shape, below, 1)
                                  : bench::random_normal(spec.shape, 2, 1, spec.dtype);
}

/// A net with its optimiser and training step.
struct Training {
  Training(const Example& example, int lanes, int threads)
      : net((nn::seed(1), example.net())),
        step(compile(
            options(lanes, threads),
            [&](const Tensor& in, const Tensor& labels) {
              const Tensor loss = loss::cross_entropy(net(in), labels);
              sgd.minimize(loss, net.parameters());
              return loss;
            },
            example.input, example.labels)) {}
  static CompileOptions options(int lanes, int threads) {
    CompileOptions o;
    o.lanes = lanes;
    o.threads = threads;
    return o;
  }
  Sequential net;
  optim::Sgd sgd{{.lr = 0.1, .momentum = 0.9, .clip = {.norm = 1}, .schedule = optim::schedule::cosine(20)}};
  Step step;
};

class Nets : public testing::TestWithParam<int> {
 protected:
  const Example example = examples()[GetParam()];
  const Array x = sample(example.input, 7), y = sample(example.labels, 5);
};

TEST_P(Nets, AgreeWithTheInterpreter) {
  if (example.random) GTEST_SKIP() << "the interpreter draws no random numbers";
  for (const int lanes : {1, 3}) {
    Training training(example, lanes, 1);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(bench::check_by_oracle(training.step, {x, y}, 2e-4), "") << lanes << " lanes";
  }
}

TEST_P(Nets, GiveTheSameBitsAtAnyThreadCount) {
  Training one(example, 3, 1), three(example, 3, 3);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(identical(one.step(x, y)[0], three.step(x, y)[0])) << "step " << i;
  const auto a = one.net.states(), b = three.net.states();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(identical(a[i].value(), b[i].value())) << a[i].name();
}

TEST_P(Nets, LearnAndAllocateNothing) {
  Training training(example, 0, 2);
  const double first = training.step(x, y);
  const AllocationCount count;
  double last = first;
  for (int i = 0; i < 20; ++i) last = training.step(x, y);
  EXPECT_EQ(count.now(), 0);
  EXPECT_LT(last, first);
}

INSTANTIATE_TEST_SUITE_P(All, Nets, testing::Range(0, static_cast<int>(examples().size())),
                         [](const auto& info) { return examples()[info.param].name; });

/// What BatchNorm makes of one batch while training, in double.
std::vector<double> standardised(const Array& x, double epsilon) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  const float* in = x.data<float>();
  std::vector<double> out(static_cast<std::size_t>(rows * width));
  for (std::int64_t c = 0; c < width; ++c) {
    double mean = 0, variance = 0;
    for (std::int64_t r = 0; r < rows; ++r) mean += in[r * width + c] / static_cast<double>(rows);
    for (std::int64_t r = 0; r < rows; ++r)
      variance += std::pow(in[r * width + c] - mean, 2) / static_cast<double>(rows);
    for (std::int64_t r = 0; r < rows; ++r)
      out[static_cast<std::size_t>(r * width + c)] = (in[r * width + c] - mean) / std::sqrt(variance + epsilon);
  }
  return out;
}

/// Features around 0, +-1e3 and 1e4 of spread 1, and one around 100 of spread 0.01.
Array far_from_zero(std::int64_t rows) {
  const double middle[] = {0, 1e3, -1e3, 1e4, 100}, spread[] = {1, 1, 1, 1, 0.01};
  std::vector<float> values;
  for (std::int64_t r = 0; r < rows; ++r)
    for (int c = 0; c < 5; ++c)
      values.push_back(static_cast<float>(middle[c] + spread[c] * std::sin(static_cast<double>(r * (c + 3)) + c)));
  return Array::from<float>(values).reshape({rows, 5});
}

// From the first step, when nothing is known of where the features are; by one lane or several.
TEST(BatchNorm, StandardisesFeaturesFarFromZero) {
  for (const int lanes : {1, 3})
    for (const std::int64_t rows : {7, 64, 1000}) {
      const BatchNorm norm(5, {.affine = false, .momentum = 0.5});
      const Array x = far_from_zero(rows);
      Step step = compile(
          CompileOptions{.lanes = lanes}, [&](Tensor t) { return norm(t, Mode::train); }, f32(rows, 5));
      const std::vector<double> expected = standardised(x, 1e-5);
      for (int run = 0; run < 2; ++run) {
        const Array y = step(x)[0];
        for (std::int64_t i = 0; i < y.count(); ++i)
          ASSERT_NEAR(y.data<float>()[i], expected[static_cast<std::size_t>(i)], 2e-3)
              << "run " << run << ", row " << i / 5 << " of " << rows << ", feature " << i % 5;
      }
      EXPECT_NEAR(norm.mean.value().data<float>()[3], 0.75 * 1e4, 1);  // moved twice from 0, by half of the way
    }
}

// So are its gradients: a sum of products with offsets, not of products with thousands that cancel out.
TEST(BatchNorm, GradientsFarFromZeroAreThoseNearIt) {
  const auto gradients = [](float away) {
    nn::seed(1);
    const Sequential net{BatchNorm(5), nn::Dense(5, 3), nn::Tanh()};
    const Array x = far_from_zero(64).slice(1, 0, 1).broadcast_to({64, 5}).contiguous() + Array::full({64, 5}, away);
    Step step = compile(
        [&](Tensor t) {
          std::vector<Tensor> wrt{t};
          for (const State& p : net.parameters()) wrt.push_back(p);
          return std::vector<Tensor>(grad(sum(square(net(t))), wrt));
        },
        f32(64, 5));
    std::vector<Array> out;
    const auto results = step(x);
    for (std::size_t i = 0; i <= net.parameters().size(); ++i) out.push_back(Array(results[static_cast<int>(i)]));
    return out;
  };
  const auto near = gradients(0), far = gradients(4096);  // x itself is rounded to 2^-12 there
  for (std::size_t i = 0; i < near.size(); ++i) EXPECT_TRUE(allclose(far[i], near[i], 1e-2, 5e-3)) << i;
}

TEST(BatchNorm, RunningStatisticsAreThoseOfPyTorch) {
  const BatchNorm norm(1, {.momentum = 0.25});
  Step step = compile([&](Tensor t) { return norm(t, Mode::train); }, f32(4, 1));
  step(Array::from<float>({{1}, {2}, {3}, {6}}));  // mean 3, variance 14 / 3 over n - 1
  EXPECT_FLOAT_EQ(norm.mean.value().item<float>(), 0.75f);
  EXPECT_FLOAT_EQ(norm.variance.value().item<float>(), 0.75f + 0.25f * 14 / 3);
}

}  // namespace
}  // namespace wr
