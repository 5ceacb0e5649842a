// Layers against plain loops and finite differences, modes, names, errors. What the layers learn is in golden_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "count_allocations.h"
#include "support/gradients.h"
#include "windrow/losses.h"
#include "windrow/nn.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using namespace nn;
using test::check_gradient;
using test::numbers;
using test::smooth_array;
using List = std::vector<Tensor>;

Array run(const Module& net, const Array& x, Mode mode = Mode::train) {
  return compile([&](const Tensor& t) { return net(t, mode); }, Spec{x.dtype(), x.shape()})(x);
}

void expect_near(const Array& ours, const Array& expected, double tolerance = 1e-12) {
  ASSERT_EQ(to_string(ours.shape()), to_string(expected.shape()));
  const auto a = numbers(ours), b = numbers(expected);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// The net's gradients by its input and by each of its parameters, against finite differences.
testing::AssertionResult check_net(const Module& net, const Array& x, Mode mode = Mode::train) {
  if (auto result = check_gradient([&](const List& v) { return net(v[0], mode); }, {x}, 1); !result) return result;
  for (const State& p : net.parameters()) {
    const auto by_parameter = [&](const List& v) {
      p.assign(v[0]);  // later reads in this trace see it
      return net(Tensor(x), mode);
    };
    const Array value = p.value();
    auto result = check_gradient(by_parameter, {value}, 1);
    State(p).set(value);
    if (!result) return result << " by " << p.name();
  }
  return testing::AssertionSuccess();
}

// ---- nets and names
// -------------------------------------------------------------------------------------------------------
std::vector<std::string> names(const std::vector<State>& states) {
  std::vector<std::string> list;
  for (const State& s : states) list.push_back(s.name());
  return list;
}
using Names = std::vector<std::string>;

TEST(Sequential, TrainsAsInTheDesign) {
  nn::seed(1);
  nn::Sequential net{nn::Dense(8, 16), nn::Relu(), nn::Dense(16, 3)};
  optim::Adam adam({.lr = 1e-2});
  auto train = compile(
      [&](const Tensor& x, const Tensor& label) {
        auto loss = cross_entropy(net(x), label);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(32, 8), i32(32));
  const Array x = smooth_array({32, 8}).astype(DType::f32);
  Array label = Array::zeros({32}, DType::i32);
  for (std::int32_t i = 0; i < 32; ++i) label.at<std::int32_t>({i}) = i % 3;
  const float first = train(x, label);
  float last = first;
  for (int i = 0; i < 200; ++i) last = train(x, label);
  EXPECT_LT(last, 0.3f * first);
}

TEST(Sequential, NamesArePaths) {
  Sequential net{Dense(2, 3), Relu(), Sequential{Dense(3, 3), Sequential{BatchNorm(3)}}};
  EXPECT_EQ(names(net.parameters()), (Names{"0.w", "0.b", "2.0.w", "2.0.b", "2.1.0.scale", "2.1.0.shift"}));
  EXPECT_EQ(names(net.states()).back(), "2.1.0.variance");
  net.rename("policy");
  EXPECT_EQ(names(net.parameters())[2], "policy.2.0.w");
  Sequential named;
  named.add("conv1", Conv2D(1, 2, 3)).add("norm", BatchNorm(2)).add(Dropout(0.5));
  EXPECT_EQ(names(named.states()),
            (Names{"conv1.w", "conv1.b", "norm.scale", "norm.shift", "norm.mean", "norm.variance", "2.counter"}));
  EXPECT_EQ(error_of([&] { named.add("norm", Relu()); }), "Sequential(3 parts): there are two parts named 'norm'");
}

TEST(Sequential, ALayerUsedTwiceHasOneSetOfParameters) {
  const Dense shared(3, 3, {.dtype = DType::f64});
  const Sequential net{shared, Tanh(), shared};
  EXPECT_EQ(net.parameters().size(), 2u);
  EXPECT_EQ(net.parameters()[0].variable(), shared.w.variable());
  EXPECT_TRUE(check_net(net, smooth_array({4, 3})));
}

class Dueling : public Module {
 public:
  Dueling() = default;
  std::string kind() const override { return "Dueling"; }

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override {
    const Tensor y = relu(hidden(x, mode, where));
    const Tensor a = advantage(y, mode, where);
    return value(y, mode, where) + a - mean(a, 1, Keep::yes);
  }
  Dense hidden = child("hidden", Dense(4, 8)), value = child("value", Dense(8, 1));
  Dense advantage = child("advantage", Dense(8, 2));
};

TEST(Module, AUsersOwnHasNamedParts) {
  const Sequential net{Dueling()};
  EXPECT_EQ(names(net.parameters()),
            (Names{"0.hidden.w", "0.hidden.b", "0.value.w", "0.value.b", "0.advantage.w", "0.advantage.b"}));
  EXPECT_EQ(run(net, Array::ones({5, 4})).shape(), (Shape{5, 2}));
  EXPECT_NE(error_of([&] {
              run(net, Array::ones({5, 3}));
            }).find("in layer '0.hidden', Dense(4, 8)"),
            std::string::npos);
}

TEST(Module, ConcatAndResidual) {
  const Dense a(3, 2, {.dtype = DType::f64}), b(3, 3, {.dtype = DType::f64});
  const Array x = smooth_array({4, 3});
  expect_near(run(Concat(-1, a, b), x), concat({run(a, x), run(b, x)}, -1));
  expect_near(run(Residual(b), x), x + run(b, x));
  EXPECT_NE(error_of([&] {
              run(Residual(Dense(3, 2)), Array::ones({1, 3}));
            }).find("Residual: the input is f32[1,3], the part makes it f32[1,2]"),
            std::string::npos);
}

// ---- errors
// -----------------------------------------------------------------------------------------------------------------
TEST(LayerErrors, NameTheLineTheLayerAndTheSizes) {
  const Sequential net{Dense(8, 16), Relu(), Dense(20, 3)};
  int line = 0;
  const std::string error = error_of([&] {
    compile(
        [&](const Tensor& x) {
          line = __LINE__ + 1;
          return net(x);
        },
        f32(4, 8));
  });
  EXPECT_EQ(error, "layers_test.cpp:" + std::to_string(line) +
                       ": Dense: the input is [4,16], its last axis must be 20 (in layer '2', Dense(20, 3))");
}

TEST(LayerErrors, Inputs) {
  const auto error = [](const Module& layer, const Array& x) {
    const std::string all = error_of([&] { run(layer, x); });
    return all.substr(all.find(' ') + 1);
  };
  const Array flat = Array::ones({2, 3}), sequence = Array::ones({2, 4, 3});
  EXPECT_EQ(error(Conv2D(3, 4, 3), flat),
            "Conv2D: the input must be [batch, height, width, channels], is [2,3] (in layer Conv2D(3, 4, 3x3))");
  EXPECT_EQ(error(Conv2D(3, 4, 3), Array::ones({2, 2, 2, 3})),
            "conv2d: the window spans 3 rows, the padded image has 2 (in layer Conv2D(3, 4, 3x3))");
  EXPECT_EQ(error(Lstm(5, 4), sequence), "Lstm: the input is [2,4,3], its last axis must be 5 (in layer Lstm(5, 4))");
  EXPECT_EQ(error(BatchNorm(4), flat),
            "BatchNorm: the input is [2,3], its last axis must be 4 (in layer BatchNorm(4))");
  EXPECT_EQ(error(Embedding(4, 4), flat),
            "Embedding: the input must be i32 indices, is f32[2,3] (in layer Embedding(4, 4))");
  EXPECT_EQ(error(Dense(3, 4, {.dtype = DType::f64}), flat),
            "Dense: the input is f32[2,3], the layer's type is f64; cast the input or make the layer with .dtype "
            "(in layer Dense(3, 4))");
  EXPECT_EQ(error(Dense(3, 4), Array::ones({3})),
            "Dense: the input is [3], its last axis must be 3 and its rank at least 2 (in layer Dense(3, 4))");
}

TEST(LayerErrors, Sizes) {
  const auto error = [](const std::function<void()>& fn) {
    const std::string all = error_of(fn);
    return all.substr(all.find(' ') + 1);
  };
  EXPECT_EQ(error([] { Dense(0, 3); }), "Dense: in must be at least 1, is 0");
  EXPECT_EQ(error([] { Conv2D(3, 4, 3, {.groups = 2}); }),
            "Conv2D: 3 inputs and 4 outputs do not divide into 2 groups");
  EXPECT_EQ(error([] { Conv2D(3, 4, 3, {.stride = 0}); }), "Conv2D: stride must be at least 1, is 0");
  EXPECT_EQ(error([] { Attention(6, 4); }), "Attention: width 6 does not divide into 4 heads");
  EXPECT_EQ(error([] { GroupNorm(4, 6); }), "GroupNorm: 6 channels do not divide into 4 groups");
  EXPECT_EQ(error([] { Dropout(1); }), "Dropout: the probability must be at least 0 and less than 1, is 1.000000");
}

// ---- modes
// --------------------------------------------------------------------------------------------------------------------
TEST(Dropout, ZeroesAndScalesWhileTraining) {
  nn::seed(3);
  const Dropout layer(0.25);
  const Array x = Array::full({100, 100}, 3);
  Step step = compile([&](const Tensor& t) { return layer(t); }, f32(100, 100));
  const Array first = step(x), second = step(x);
  for (const Array* y : {&first, &second}) {
    double zeros = 0;
    for (double v : numbers(*y)) {
      zeros += v == 0;
      ASSERT_TRUE(v == 0 || std::abs(v - 4) < 1e-6);
    }
    EXPECT_NEAR(zeros / 1e4, 0.25, 0.02);
  }
  EXPECT_FALSE(identical(first, second));
  EXPECT_TRUE(identical(run(layer, x, Mode::eval), x));
}

TEST(Dropout, ResumesFromItsCounterAndKnowsItsSeed) {
  const Array x = Array::ones({64, 32});
  const auto masks = [&](int threads, std::int32_t start) {
    nn::seed(7);
    const Sequential net{Dropout(0.5), Dropout(0.5)};
    for (State s : net.states()) s.set(Array::scalar(start));
    CompileOptions options;
    options.threads = threads;
    options.lanes = 2;
    Step step = compile(
        options, [&](const Tensor& t) { return net(t); }, f32(64, 32));
    const Array first = step(x);
    return std::pair(first, Array(step(x)));
  };
  EXPECT_TRUE(identical(masks(1, 0).second, masks(1, 1).first));
  EXPECT_TRUE(identical(masks(1, 0).second, masks(2, 0).second));
  EXPECT_NEAR(std::accumulate(x.data<float>(), x.data<float>() + x.count(), 0.0),
              eval(sum(Tensor(masks(1, 0).first))).item<float>(),
              400);  // the two masks are independent: 1/4 kept, times 4
}

TEST(Dropout, TheGradientGoesThroughTheSameMask) {
  const Dropout layer(0.5);
  Step step = compile(
      [&](const Tensor& x) {
        const Tensor y = layer(x);
        return std::vector<Tensor>{y, grad(sum(y), {x})[0]};
      },
      f32(16, 16));
  const auto result = step(Array::ones({16, 16}));
  EXPECT_TRUE(identical(result[0], result[1]));
}

TEST(BatchNorm, RunningStatisticsServeEvalMode) {
  const BatchNorm layer(2, {.momentum = 1, .dtype = DType::f64});
  const Array x = smooth_array({5, 3, 2});
  const Array trained = run(layer, x);
  // With momentum 1 the running statistics are the batch's: eval gives the same but for n / (n - 1) in the variance.
  const Array mean_value = layer.mean.value(), variance_value = layer.variance.value();
  for (int c = 0; c < 2; ++c) {
    double total = 0, squares = 0;
    const auto v = numbers(x);
    for (std::size_t i = static_cast<std::size_t>(c); i < v.size(); i += 2) total += v[i];
    for (std::size_t i = static_cast<std::size_t>(c); i < v.size(); i += 2) squares += std::pow(v[i] - total / 15, 2);
    EXPECT_NEAR(mean_value.at<double>({c}), total / 15, 1e-12);
    EXPECT_NEAR(variance_value.at<double>({c}), squares / 14, 1e-12);
    EXPECT_NEAR(trained.at<double>({1, 2, c}), (x.at<double>({1, 2, c}) - total / 15) / std::sqrt(squares / 15 + 1e-5),
                1e-12);
    EXPECT_NEAR(run(layer, x, Mode::eval).at<double>({1, 2, c}),
                (x.at<double>({1, 2, c}) - total / 15) / std::sqrt(squares / 14 + 1e-5), 1e-12);
  }
  EXPECT_TRUE(identical(layer.mean.value(), mean_value)) << "eval must not move the statistics";
  EXPECT_TRUE(check_net(layer, x, Mode::eval));
}

// ---- gradients
// ------------------------------------------------------------------------------------------------------------------
TEST(LayerGradients, AgreeWithFiniteDifferences) {
  nn::seed(5);
  const DType t = DType::f64;
  const Array flat = smooth_array({3, 4}), sequence = smooth_array({2, 3, 4}), image = smooth_array({2, 5, 4, 4});
  EXPECT_TRUE(check_net(Dense(4, 3, {.dtype = t}), sequence));
  EXPECT_TRUE(check_net(Dense(4, 3, {.bias = false, .dtype = t}), flat));
  EXPECT_TRUE(check_net(LayerNorm(4, {.dtype = t}), sequence));
  EXPECT_TRUE(check_net(RmsNorm(4, {.dtype = t}), sequence));
  EXPECT_TRUE(check_net(GroupNorm(2, 4, {.dtype = t}), image));
  EXPECT_TRUE(check_net(InstanceNorm(4, {.dtype = t}), image));
  EXPECT_TRUE(check_net(Conv2D(4, 2, 3, {.padding = Padding::same, .stride = 2, .dtype = t}), image));
  EXPECT_TRUE(check_net(Conv2D(4, 6, 2, {.groups = 2, .dtype = t}), image));
  EXPECT_TRUE(check_net(Conv1D(4, 2, 2, {.dtype = t}), sequence));
  EXPECT_TRUE(check_net(ConvTranspose2D(4, 2, 3, {.padding = Padding::same, .stride = 2, .dtype = t}), image));
  EXPECT_TRUE(check_net(MaxPool(2), image));
  EXPECT_TRUE(check_net(AvgPool(2, 1), sequence));
  EXPECT_TRUE(check_net(GlobalMaxPool(), image));
}

TEST(LayerGradients, RecurrentAndAttention) {
  const DType t = DType::f64;
  const Array sequence = smooth_array({2, 3, 4});
  for (const Returns returns : {Returns::sequence, Returns::last})
    for (const Recompute recompute : {Recompute::no, Recompute::yes}) {
      EXPECT_TRUE(check_net(Lstm(4, 3, {.returns = returns, .recompute = recompute, .dtype = t}), sequence));
      EXPECT_TRUE(check_net(Gru(4, 3, {.returns = returns, .recompute = recompute, .dtype = t}), sequence));
    }
  EXPECT_TRUE(check_net(Attention(4, 2, {.dtype = t}), sequence));
  EXPECT_TRUE(check_net(Attention(4, 1, {.causal = Causal::yes, .bias = false, .dtype = t}), sequence));
}

// ---- one training step of everything allocates nothing
// ---------------------------------------------------------------------
TEST(Layers, AStepAllocatesNothing) {
  const Sequential net{Conv2D(1, 4, 3, {.padding = Padding::same}),
                       BatchNorm(4),
                       Relu(),
                       MaxPool(2),
                       Dropout(0.3),
                       Reshape({4, 16}),
                       Lstm(16, 8),
                       Attention(8, 2),
                       LayerNorm(8),
                       Flatten(),
                       Dense(32, 5)};
  optim::AdamW adam({.weight_decay = 0.1, .clip = {.norm = 1}, .schedule = optim::schedule::cosine(100)});
  for (const int threads : {1, 2}) {
    CompileOptions options;
    options.threads = threads;
    Step step = compile(
        options,
        [&](const Tensor& x, const Tensor& y) {
          const Tensor loss = loss::cross_entropy(net(x), y, {.label_smoothing = 0.1});
          adam.minimize(loss, net.parameters());
          return loss;
        },
        f32(6, 8, 8, 1), i32(6));
    const Array x = Array::ones({6, 8, 8, 1}), y = Array::zeros({6}, DType::i32);
    step(x, y);
    const AllocationCount count;
    float loss = 0;
    for (int i = 0; i < 5; ++i) loss = step(x, y);
    EXPECT_EQ(count.now(), 0);
    EXPECT_TRUE(std::isfinite(loss));
  }
}

// ---- initial values
// ---------------------------------------------------------------------------------------------------------
TEST(Initialisers, Moments) {
  struct Expected {
    Initialiser init;
    double mean, deviation, low, high;
  };
  const double inf = INFINITY;
  const Fans fans{50, 30};
  for (const Expected& e :
       {Expected{init::zeros(), 0, 0, 0, 0}, Expected{init::constant(2), 2, 0, 2, 2},
        Expected{init::uniform(1, 3), 2, 1 / std::sqrt(3), 1, 3}, Expected{init::normal(2, 1), 1, 2, -inf, inf},
        Expected{init::truncated_normal(1, 3), 3, 0.8796, 1, 5}, Expected{init::he_normal(), 0, 0.2, -inf, inf},
        Expected{init::he_uniform(), 0, 0.2, -std::sqrt(0.12), std::sqrt(0.12)},
        Expected{init::xavier_normal(2), 0, 2 * std::sqrt(2.0 / 80), -inf, inf},
        Expected{init::xavier_uniform(), 0, std::sqrt(2.0 / 80), -std::sqrt(6.0 / 80), std::sqrt(6.0 / 80)},
        Expected{init::fan_in_uniform(), 0, std::sqrt(1.0 / 150), -std::sqrt(0.02), std::sqrt(0.02)}}) {
    const auto v = numbers(e.init({200, 100}, fans, 1));
    double mean = 0, square = 0;
    for (double x : v) {
      ASSERT_GE(x, e.low);
      ASSERT_LE(x, e.high);
      mean += x / 2e4;
    }
    for (double x : v) square += (x - mean) * (x - mean) / 2e4;
    EXPECT_NEAR(mean, e.mean, 0.03 * e.deviation + 1e-9);
    EXPECT_NEAR(std::sqrt(square), e.deviation, 0.03 * e.deviation + 1e-9);
  }
}

TEST(Initialisers, OrthogonalColumnsOrRows) {
  for (const Shape& shape : {Shape{3, 3, 2, 8}, Shape{5, 5}, Shape{4, 9}}) {
    const Array q = init::orthogonal(2)(shape, {}, 1).reshape({-1, shape.back()});
    const Array gram =
        q.size(0) >= q.size(1) ? matmul(q.transpose().contiguous(), q) : matmul(q, q.transpose().contiguous());
    expect_near(gram, Array::eye(gram.size(0), DType::f64) * 4, 1e-12);
  }
}

TEST(Initialisers, SeedsReproduceAndLayersDiffer) {
  nn::seed(11);
  const Dense a(4, 4), b(4, 4);
  nn::seed(11);
  const Dense c(4, 4), d(4, 4);
  EXPECT_TRUE(identical(a.w.value(), c.w.value()));
  EXPECT_TRUE(identical(b.w.value(), d.w.value()));
  EXPECT_FALSE(identical(a.w.value(), b.w.value()));
  nn::seed(12);
  EXPECT_FALSE(identical(a.w.value(), Dense(4, 4).w.value()));
}

// ---- summary
// -------------------------------------------------------------------------------------------------------------------
TEST(Summary, CountsLayers) {
  const Sequential net{Conv2D(1, 8, 3, {.padding = Padding::same}), Relu(), Sequential{MaxPool(2), BatchNorm(8)},
                       Flatten(), Dense(8 * 14 * 14, 10)};
  const Summary s = summary(net, f32(64, 28, 28, 1));
  ASSERT_EQ(s.rows.size(), 6u);
  EXPECT_EQ(s.rows[0].kind, "Conv2D(1, 8, 3x3, same)");
  EXPECT_EQ(to_string(s.rows[0].output), "f32[64,28,28,8]");
  EXPECT_EQ(s.rows[0].parameters, 9 * 8 + 8);
  EXPECT_NEAR(s.rows[0].flops, 2.0 * 64 * 28 * 28 * 9 * 8, 0.1 * s.rows[0].flops);
  EXPECT_EQ(s.rows[2].path, "2.0");
  EXPECT_EQ(s.rows[3].parameters, 16);
  EXPECT_EQ(s.rows[3].parameter_bytes, 4u * 32);
  EXPECT_EQ(s.rows[4].parameters, 0);
  EXPECT_EQ(s.rows[5].output_bytes, 64u * 10 * 4);
  EXPECT_EQ(s.total.parameters, 80 + 16 + 1568 * 10 + 10);
  EXPECT_EQ(to_string(s.total.output), "f32[64,10]");
  const std::string text = to_string(s);
  for (const char* part : {"Conv2D(1, 8, 3x3, same)", "f32[64,14,14,8]", "15690", "total", "15786"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace wr
