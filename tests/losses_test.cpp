// Losses against plain formulas in double: values, reductions, extremes, gradients, errors.
#include <gtest/gtest.h>

#include <cmath>

#include "support/gradients.h"
#include "windrow/losses.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using loss::Reduction;
using test::check_gradient;
using test::numbers;
using test::smooth_array;
using List = std::vector<Tensor>;
using Values = std::vector<double>;

constexpr Reduction kReductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

/// A loss for each reduction against the values it should have a row.
void expect_losses(const std::function<Tensor(Reduction)>& loss, const Values& rows, const Shape& shape) {
  double sum = 0;
  for (double v : rows) sum += v;
  EXPECT_NEAR(eval(loss(Reduction::sum)).item<double>(), sum, 1e-12 * std::abs(sum));
  EXPECT_NEAR(eval(loss(Reduction::mean)).item<double>(), sum / static_cast<double>(rows.size()),
              1e-12 * std::abs(sum));
  const Array each = eval(loss(Reduction::none));
  EXPECT_EQ(to_string(each.shape()), to_string(shape));
  const Values ours = numbers(each);
  ASSERT_EQ(ours.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(ours[i], rows[i], 1e-12) << i;
}

Values elementwise(const Array& x, const Array& y, const std::function<double(double, double)>& f) {
  const Values a = numbers(x), b = numbers(y);
  Values out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(f(a[i], b[i]));
  return out;
}

class ElementLosses : public testing::Test {
 protected:
  const Array x = smooth_array({3, 4}), y = smooth_array({3, 4}, 1);
};

TEST_F(ElementLosses, Mse) {
  expect_losses([&](Reduction r) { return loss::mse(Tensor(x), Tensor(y), {.reduction = r}); },
                elementwise(x, y, [](double a, double b) { return (a - b) * (a - b); }), {3, 4});
}
TEST_F(ElementLosses, Mae) {
  expect_losses([&](Reduction r) { return loss::mae(Tensor(x), Tensor(y), {.reduction = r}); },
                elementwise(x, y, [](double a, double b) { return std::abs(a - b); }), {3, 4});
}
TEST_F(ElementLosses, Huber) {
  expect_losses([&](Reduction r) { return loss::huber(Tensor(x), Tensor(y), {.delta = 0.5, .reduction = r}); },
                elementwise(x, y,
                            [](double a, double b) {
                              const double d = std::abs(a - b);
                              return d < 0.5 ? 0.5 * d * d : 0.5 * (d - 0.25);
                            }),
                {3, 4});
}
TEST_F(ElementLosses, BinaryCrossEntropy) {
  const Array target = eval(sigmoid(Tensor(y)));
  expect_losses([&](Reduction r) { return loss::binary_cross_entropy(Tensor(x), Tensor(target), {.reduction = r}); },
                elementwise(x, target,
                            [](double z, double t) {
                              const double p = 1 / (1 + std::exp(-z));
                              return -t * std::log(p) - (1 - t) * std::log(1 - p);
                            }),
                {3, 4});
}
TEST_F(ElementLosses, Hinge) {
  const Array side = eval(sign(Tensor(y)));
  expect_losses([&](Reduction r) { return loss::hinge(Tensor(x), Tensor(side), {.margin = 0.7, .reduction = r}); },
                elementwise(x, side, [](double a, double b) { return std::max(0.0, 0.7 - a * b); }), {3, 4});
}

// ---- over classes ----
/// -sum over the last axis of q log p.
Values entropy_rows(const Values& q, const Values& p, std::size_t classes) {
  Values rows(p.size() / classes);
  for (std::size_t i = 0; i < p.size(); ++i) rows[i / classes] -= q[i] * std::log(p[i]);
  return rows;
}

class ClassLosses : public testing::Test {
 protected:
  static constexpr std::size_t kClasses = 5;
  const Array z = smooth_array({2, 3, 5}), probabilities = eval(softmax(Tensor(z)));
  const Array soft = eval(softmax(Tensor(smooth_array({2, 3, 5}, 1))));
  const Array labels = Array::from<std::int32_t>({{0, 4, 2}, {1, 1, 3}});
  Values target(bool as_labels, double smoothing) const {
    Values q = as_labels ? numbers(eval(one_hot(Tensor(labels), 5, DType::f64))) : numbers(soft);
    for (double& v : q) v = (1 - smoothing) * v + smoothing / kClasses;
    return q;
  }
};

TEST_F(ClassLosses, CrossEntropy) {
  for (const bool as_labels : {true, false})
    for (const double smoothing : {0.0, 0.3})
      expect_losses(
          [&](Reduction r) {
            return loss::cross_entropy(Tensor(z), Tensor(as_labels ? labels : soft),
                                       {.label_smoothing = smoothing, .reduction = r});
          },
          entropy_rows(target(as_labels, smoothing), numbers(probabilities), kClasses), {2, 3});
}

TEST_F(ClassLosses, CrossEntropyOfProbabilitiesHasAFloor) {
  Values floored = numbers(probabilities);
  for (double& p : floored) p = std::max(p, 0.1);
  for (const bool as_labels : {true, false})
    expect_losses(
        [&](Reduction r) {
          return loss::cross_entropy_of_probabilities(Tensor(probabilities), Tensor(as_labels ? labels : soft),
                                                      {.floor = 0.1, .reduction = r});
        },
        entropy_rows(target(as_labels, 0), floored, kClasses), {2, 3});
}

TEST_F(ClassLosses, KlDivergence) {
  const Values p = numbers(soft);
  Values rows = entropy_rows(p, numbers(probabilities), kClasses);
  const Values own = entropy_rows(p, p, kClasses);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] -= own[i];
  expect_losses(
      [&](Reduction r) { return loss::kl_divergence(log_softmax(Tensor(z)), Tensor(soft), {.reduction = r}); }, rows,
      {2, 3});
}

// ---- extremes ----
template <class Fn>
Array gradient_at(const Fn& loss, const Array& x) {
  return compile([&](const Tensor& t) { return grad(loss(t), {t})[0]; }, Spec{x.dtype(), x.shape()})(x);
}

TEST(LossExtremes, LargeLogitsStayFinite) {
  const Array z = Array::from<float>({{1e4f, -1e4f, 0.0f}});
  const Array wrong = Array::from<std::int32_t>({1}), y = Array::from<float>({{0, 1, 1}});
  const auto cross = [&](const Tensor& t) { return loss::cross_entropy(t, Tensor(wrong)); };
  const auto binary = [&](const Tensor& t) { return loss::binary_cross_entropy(t, Tensor(y), {Reduction::sum}); };
  EXPECT_FLOAT_EQ(eval(cross(Tensor(z))).item<float>(), 2e4f);
  EXPECT_FLOAT_EQ(eval(binary(Tensor(z))).item<float>(), 2e4f + std::log(2.0f));
  EXPECT_TRUE(allclose(gradient_at(cross, z), Array::from<float>({{1, -1, 0}}), 0, 1e-6));
  EXPECT_TRUE(allclose(gradient_at(binary, z), Array::from<float>({{1, -1, -0.5f}}), 0, 1e-6));
}

TEST(LossExtremes, ZeroProbabilities) {
  const Array p = Array::from<float>({{0, 1}}), log_q = Array::from<float>({{-2, -0.1f}});
  EXPECT_FLOAT_EQ(eval(loss::kl_divergence(Tensor(log_q), Tensor(p))).item<float>(), 0.1f);
  const Array label = Array::from<std::int32_t>({0});
  const auto cross = [&](const Tensor& t) {
    return loss::cross_entropy_of_probabilities(t, Tensor(label), {.floor = 1e-6});
  };
  EXPECT_NEAR(eval(cross(Tensor(p))).item<float>(), -std::log(1e-6f), 1e-4);
  EXPECT_EQ(numbers(gradient_at(cross, p)), (Values{0, 0}));
}

TEST(LossExtremes, ALabelOutOfRangeIsSeen) {
  const Array z = Array::ones({1, 3}), label = Array::from<std::int32_t>({3});
  EXPECT_TRUE(std::isnan(eval(loss::cross_entropy(Tensor(z), Tensor(label))).item<float>()));
}

// ---- gradients ----
TEST(LossGradients, AgreeWithFiniteDifferences) {
  const Array x = smooth_array({3, 4}), y = smooth_array({3, 4}, 1), labels = Array::from<std::int32_t>({0, 3, 2});
  const Array soft = eval(softmax(Tensor(y))), side = eval(sign(Tensor(y)));
  for (const Reduction r : kReductions) {
    const auto expect = [&](const std::function<Tensor(const Tensor&)>& loss) {
      EXPECT_TRUE(check_gradient([&](const List& v) { return loss(v[0]); }, {x}));
    };
    expect([&](const Tensor& t) { return loss::mse(t, Tensor(y), {r}); });
    expect([&](const Tensor& t) { return loss::mae(t, Tensor(y), {r}); });
    expect([&](const Tensor& t) { return loss::huber(t, Tensor(y), {.delta = 0.9, .reduction = r}); });
    expect([&](const Tensor& t) { return loss::binary_cross_entropy(t, Tensor(soft), {r}); });
    expect([&](const Tensor& t) { return loss::hinge(t, Tensor(side), {.margin = 0.7, .reduction = r}); });
    expect([&](const Tensor& t) { return loss::kl_divergence(log_softmax(t), Tensor(soft), {r}); });
    expect([&](const Tensor& t) {
      return loss::cross_entropy(t, Tensor(labels), {.label_smoothing = 0.1, .reduction = r});
    });
    expect([&](const Tensor& t) { return loss::cross_entropy(t, Tensor(soft), {.reduction = r}); });
    expect([&](const Tensor& t) {
      return loss::cross_entropy_of_probabilities(softmax(t), Tensor(labels), {.reduction = r});
    });
  }
  EXPECT_TRUE(check_gradient([&](const List& v) { return loss::mse(v[0], v[1]); }, {x, y}));
}

// ---- errors ----
TEST(LossErrors, NameTheLossAndTheTypes) {
  const auto error = [](const std::function<void()>& fn) -> std::string {
    try {
      fn();
    } catch (const Error& e) {
      const std::string what = e.what();
      EXPECT_EQ(what.find("losses_test.cpp:"), 0u) << what;
      return what.substr(what.find(' ') + 1);
    }
    return "no error";
  };
  const Tensor x(Array::ones({2, 3})), y(Array::ones({3, 2})), label(Array::zeros({3}, DType::i32));
  EXPECT_EQ(error([&] { loss::mse(x, y); }),
            "mse: the prediction is f32[2,3], the target f32[3,2]; they must be equal");
  EXPECT_EQ(error([&] { loss::hinge(x, label); }),
            "hinge: the prediction is f32[2,3], the target i32[3]; they must be equal");
  EXPECT_EQ(
      error([&] { loss::cross_entropy(x, label); }),
      "cross_entropy: the prediction is f32[2,3], the target i32[3]; expected labels i32[2] or probabilities f32[2,3]");
  EXPECT_EQ(error([&] { loss::cross_entropy(x, x, {.label_smoothing = 2}); }),
            "cross_entropy: label_smoothing must be in 0..1, is 2.000000");
  EXPECT_EQ(error([&] { loss::huber(x, x, {.delta = 0}); }), "huber: delta must be positive, is 0.000000");
  EXPECT_EQ(error([&] { loss::mae(Tensor(), x); }), "mae: an operand is an empty Tensor");
}

}  // namespace
}  // namespace wr
