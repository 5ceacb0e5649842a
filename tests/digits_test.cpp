// Drawn digits: the same for the same seed, all of them different, and a net can learn them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "windrow/data.h"
#include "windrow/windrow.h"

namespace wr::data {
namespace {

TEST(Digits, TheSeedDecides) {
  const Dataset a = draw_digits(50, 3), b = draw_digits(20, 3), c = draw_digits(20, 4);
  EXPECT_EQ(a.x.shape(), Shape({50, 28, 28}));
  EXPECT_TRUE(identical(a.range(0, 20).x, b.x));
  EXPECT_TRUE(identical(a.range(0, 20).y, b.y));
  EXPECT_FALSE(identical(b.x, c.x));
  // The bytes themselves: drawing must not change unnoticed, nor differ between machines.
  std::uint64_t sum = 1469598103934665603u;
  for (const std::uint8_t v : a.x.to_vector<std::uint8_t>()) sum = (sum ^ v) * 1099511628211u;
  EXPECT_EQ(sum, 5279213266272978742u);
}

TEST(Digits, EveryClassIsDrawnWithInkAndVariety) {
  const Dataset data = draw_digits(1000, 1);
  std::vector<int> count(10);
  std::set<std::vector<std::uint8_t>> different;
  for (std::int64_t i = 0; i < data.count(); ++i) {
    ++count.at(static_cast<std::size_t>(data.y.at<std::int32_t>({i})));
    const auto pixels = data.x.select(0, i).to_vector<std::uint8_t>();
    different.insert(pixels);
    int inked = 0;
    for (const int v : pixels) inked += v > 128;
    EXPECT_GT(inked, 15);
    EXPECT_LT(inked, 350);
  }
  EXPECT_EQ(different.size(), 1000u);
  for (const int n : count) EXPECT_GT(n, 60);
}

TEST(Digits, ANetLearnsThem) {
  const Dataset train_set = draw_digits(4000, 1), test_set = draw_digits(1000, 2);
  std::mt19937 random(5);
  const auto start = [&](std::int64_t in, std::int64_t out, const char* name) {
    std::vector<float> values(static_cast<std::size_t>(in * out));
    for (float& v : values)
      v = (static_cast<float>(random()) * 0x1p-32f - 0.5f) * 4 / std::sqrt(static_cast<float>(in));
    return State(Array::from(values, {in, out}), name);
  };
  const State w0 = start(784, 64, "w0"), w1 = start(64, 10, "w1"), b0(Array::zeros({64}), "b0"),
              b1(Array::zeros({10}), "b1");
  optim::Adam adam({.lr = 2e-3});
  const auto net = [&](const Tensor& x) { return matmul(relu(matmul(x, w0) + b0), w1) + b1; };
  const CompileOptions one_thread{
      .name = "digits", .threads = 1, .lanes = 1};  // a busy machine makes threads wait for each other
  Step train = compile(
      one_thread,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = cross_entropy(net(x), y);
        adam.minimize(loss, {w0, b0, w1, b1});
        return loss;
      },
      f32(50, 784), i32(50));
  Step classify = compile(
      one_thread, [&](const Tensor& x) { return argmax(net(x), 1); }, f32(50, 784));
  Loader loader(train_set, {.batch = 50, .seed = 1, .example = {784}});
  for (int epoch = 0; epoch < 6; ++epoch)
    for (auto& [x, y] : loader) train(x, y);
  int right = 0;
  Loader all(test_set, {.batch = 50, .shuffle = false, .example = {784}});
  for (auto& [x, y] : all) {
    const Array guess = classify(x);
    for (std::int64_t i = 0; i < 50; ++i) right += guess.at<std::int32_t>({i}) == y.at<std::int32_t>({i});
  }
  RecordProperty("right_of_1000", right);
  EXPECT_GT(right, 900);
  EXPECT_LT(right, 1000);  // and they are not trivial
}

}  // namespace
}  // namespace wr::data
