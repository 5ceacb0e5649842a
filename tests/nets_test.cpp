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

TEST(BatchNorm, StandardisesFeaturesFarFromZero) {
  const BatchNorm norm(2, {.epsilon = 0, .affine = false, .momentum = 0.5});
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) {
    const float wave = static_cast<float>(i % 8) - 3.5f;  // variance 5.25
    values.push_back(30 + wave);
    values.push_back(-100 + 0.01f * wave);
  }
  const Array x = Array::from<float>(values).reshape({64, 2});
  // At first, far from the running mean, rounding leaves nothing of the second feature's variance.
  Step step = compile(
      CompileOptions{.check = false}, [&](Tensor t) { return norm(t, Mode::train); }, f32(64, 2));
  Array y = step(x)[0];
  EXPECT_NEAR(y.data<float>()[0], -3.5 / std::sqrt(5.25), 1e-4);
  for (int run = 0; run < 24; ++run) y = step(x)[0];  // by now the running mean is near
  EXPECT_NEAR(y.data<float>()[0], -3.5 / std::sqrt(5.25), 1e-6);
  EXPECT_NEAR(y.data<float>()[1], -3.5 / std::sqrt(5.25), 1e-3);
  EXPECT_NEAR(norm.mean.value().data<float>()[0], 30, 1e-4);
  EXPECT_NEAR(norm.variance.value().data<float>()[0], 5.25 * 64 / 63, 1e-4);
}

}  // namespace
}  // namespace wr
