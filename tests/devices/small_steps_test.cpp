// Whole training steps that are small enough for an interpreter of device code: a convolutional net, a DQN, an
// automaton of gates. They train as on the CPU.
#include "devices/device_under_test.h"
#include "support/gradients.h"
#include "windrow/logic.h"
#include "windrow/losses.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using test::smooth_array;

Array floats(const Shape& shape, int salt, double low = -1, double high = 1) {
  return smooth_array(shape, salt, low, high).astype(DType::f32);
}
State weights(const Shape& shape, int salt) {
  return State(floats(shape, salt, -0.5, 0.5), "w" + std::to_string(salt));
}

/// Losses of a few updates on one batch.
using Trained = std::vector<float>;
constexpr int kUpdates = 3;

Trained cnn(const std::string& device) {
  State kernels = weights({3, 3, 2, 4}, 1), dense = weights({36, 3}, 2), bias = weights({3}, 3);
  optim::Adam adam(optim::Adam::Options{.lr = 0.02});
  Step step = compile(
      CompileOptions{.lanes = 2, .device = device},
      [&](const Tensor& x, const Tensor& y) {
        const Tensor seen = max_pool(relu(conv2d(x, Tensor(kernels))), 2);
        const Tensor logits = matmul(reshape(seen, {4, 36}), Tensor(dense)) + Tensor(bias);
        const Tensor loss = mean(cross_entropy(logits, y));
        adam.minimize(loss, {kernels, dense, bias});
        return loss;
      },
      f32(4, 8, 8, 2), i32(4));
  const Array x = floats({4, 8, 8, 2}, 4), y = Array::from<std::int32_t>({0, 2, 1, 2});
  Trained losses;
  for (int i = 0; i < kUpdates; ++i) losses.push_back(step(x, y));
  return losses;
}

/// A dueling net with layer norm, its target copied in the same step.
struct Dueling {
  State hidden, scale, shift, value, advantage;
  explicit Dueling(int salt)
      : hidden(weights({6, 8}, salt)),
        scale(Array::full({8}, 1.0, DType::f32), "scale" + std::to_string(salt)),
        shift(Array::zeros({8}), "shift" + std::to_string(salt)),
        value(weights({8, 1}, salt + 1)),
        advantage(weights({8, 3}, salt + 2)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor h = relu(layer_norm(matmul(x, Tensor(hidden)), Tensor(scale), Tensor(shift)));
    const Tensor a = matmul(h, Tensor(advantage));
    return matmul(h, Tensor(value)) + a - mean(a, 1, Keep::yes);
  }
  std::vector<State> states() const { return {hidden, scale, shift, value, advantage}; }
};

Trained dqn(const std::string& device) {
  const Dueling net(10), target(20);
  optim::Adam adam(optim::Adam::Options{.lr = 0.02});
  Step step = compile(
      CompileOptions{.lanes = 2, .device = device},
      [&](const Tensor& x, const Tensor& action, const Tensor& reward, const Tensor& next) {
        const Tensor best = reshape(argmax(net(next), 1), {6, 1});
        const Tensor wanted = reward + 0.9 * take_along(target(next), best, 1);
        const Tensor loss = mean(huber(take_along(net(x), action, 1), stop_gradient(wanted)));
        adam.minimize(loss, net.states());
        for (std::size_t i = 0; i < net.states().size(); ++i) {
          State kept = target.states()[i];
          kept.assign(0.9 * Tensor(kept) + 0.1 * Tensor(net.states()[i]));
        }
        return loss;
      },
      f32(6, 6), i32(6, 1), f32(6, 1), f32(6, 6));
  const Array action = Array::from<std::int32_t>({0, 2, 1, 2, 0, 1}).reshape({6, 1});
  Trained losses;
  for (int i = 0; i < kUpdates; ++i)
    losses.push_back(step(floats({6, 6}, 30), action, floats({6, 1}, 31), floats({6, 6}, 32)));
  return losses;
}

Trained automaton(const std::string& device) {
  logic::AutomatonOptions options;
  options.channels = 2;
  options.kernels = 2;
  options.kernel_gates = {8, 4, 2};
  options.update_gates = {6, 4, 2};
  options.start = {.pass = 2, .noise = 1};
  const logic::Automaton rule_of(options);
  optim::Adam adam(optim::Adam::Options{.lr = 0.05});
  Step step = compile(
      CompileOptions{.lanes = 2, .device = device},
      [&](const Tensor& start, const Tensor& wanted) {
        const auto rule = rule_of.rule();
        Tensor cells = start;
        for (int i = 0; i < 2; ++i) cells = rule_of.step(rule, cells, 4, 4, Border::zero);
        const Tensor loss = sum(square(slice(cells, 0, 0, 1) - wanted));
        adam.minimize(loss, rule_of.parameters());
        return loss;
      },
      f32(2, 16), f32(1, 16));
  Trained losses;
  for (int i = 0; i < kUpdates; ++i) losses.push_back(step(floats({2, 16}, 40, 0, 1), floats({1, 16}, 41, 0, 1)));
  return losses;
}

void expect_same(Trained (*train)(const std::string&)) {
  const Trained here = train("cpu"), there = train(test::wanted_device());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 2e-4 * std::max(1.0f, here[i])) << i;
  EXPECT_NE(here.front(), here.back()) << "it does not learn";
}

TEST(OpenClSmallSteps, AConvolutionalNet) {
  ON_A_DEVICE();
  expect_same(cnn);
}
TEST(OpenClSmallSteps, ADqn) {
  ON_A_DEVICE();
  expect_same(dqn);
}
TEST(OpenClSmallSteps, AnAutomatonOfGates) {
  ON_A_DEVICE();
  expect_same(automaton);
}

}  // namespace
}  // namespace wr
