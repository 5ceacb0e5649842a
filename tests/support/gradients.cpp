// Gradients against finite differences.
#include "support/gradients.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "ops/interpret.h"
#include "support/graphs.h"

namespace wr::test {
namespace {

std::vector<Spec> specs_of(const std::vector<Array>& arguments) {
  std::vector<Spec> specs;
  for (const Array& a : arguments) specs.push_back({a.dtype(), a.shape()});
  return specs;
}

std::vector<const Array*> pointers(const std::vector<Array>& arguments) {
  std::vector<const Array*> list;
  for (const Array& a : arguments) list.push_back(&a);
  return list;
}

/// Fixed weights that make a scalar of a result.
Array weights(const Shape& shape, std::size_t which) {
  std::mt19937 random(77 + static_cast<unsigned>(which));
  std::uniform_real_distribution<double> real(0.5, 1.5);
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (double& v : values) v = real(random) * (random() % 2 ? 1 : -1);
  return Array::from(values, shape);
}

/// The gradients of the weighted sum of fn's results by its f64 arguments.
Function derivative(const Function& fn) {
  return [fn](const std::vector<Tensor>& x) {
    const auto results = fn(x);
    Tensor total = full({}, 0, DType::f64);
    for (std::size_t k = 0; k < results.size(); ++k)
      total = total + sum(results[k] * Tensor(weights(results[k].shape(), k)));
    std::vector<Tensor> by;
    for (const Tensor& t : x)
      if (t.dtype() == DType::f64) by.push_back(t);
    return grad(total, by, allow_unused);
  };
}

std::string compare_with_oracle(const Function& fn, const std::vector<Array>& arguments, const std::string& what) {
  const auto graph = trace(specs_of(arguments), fn);
  const auto wanted = ir::interpret(*graph, arguments, ir::Rounding::none).outputs;
  for (int lanes : {0, 3}) {
    const auto got = run_once(fn, arguments, {.name = {}, .threads = 2, .lanes = lanes});
    for (std::size_t k = 0; k < got.size(); ++k)
      if (!nearly_equal(got[k], wanted[k], 1e-10))
        return what + " with lanes = " + std::to_string(lanes) + ": result " + std::to_string(k) + " is\n" +
               to_string(got[k]) + "\nbut the interpreter says\n" + to_string(wanted[k]) + "\n" + ir::print(*graph);
  }
  return "";
}

/// Four-point differences of the weighted results by one element.
double difference(Step& step, std::vector<Array>& arguments, std::size_t which, std::size_t element) {
  const Array saved = arguments[which].clone();
  const double x = saved.flatten().at<double>({static_cast<std::int64_t>(element)});
  const double h = 5e-4 * std::clamp(std::abs(x), 0.02, 1.0);
  double slope = 0;
  const double moves[] = {-2, -1, 1, 2}, factors[] = {1, -8, 8, -1};
  std::vector<std::vector<double>> sum;
  for (int i = 0; i < 4; ++i) {
    Array moved = saved.clone();
    moved.mutable_data<double>()[element] = x + moves[i] * h;
    arguments[which] = moved;
    const auto results = step.run(pointers(arguments));
    sum.resize(results.size());
    for (std::size_t k = 0; k < results.size(); ++k) {
      const auto y = numbers(results[k]);
      sum[k].resize(y.size());
      for (std::size_t j = 0; j < y.size(); ++j) sum[k][j] += factors[i] * y[j];
    }
  }
  for (std::size_t k = 0; k < sum.size(); ++k) {
    const auto w = numbers(weights(step.output(k).shape(), k));
    for (std::size_t j = 0; j < w.size(); ++j) slope += w[j] * sum[k][j];
  }
  arguments[which] = saved;
  return slope / (12 * h);
}

std::string compare_slopes(const Function& fn, std::vector<Array> arguments, const std::string& what) {
  const auto gradients = run_once(derivative(fn), arguments, {.name = {}, .threads = 2, .lanes = 3});
  Step step = compile(fn, specs_of(arguments));
  for (std::size_t which = 0, g = 0; which < arguments.size(); ++which) {
    if (arguments[which].dtype() != DType::f64) continue;
    const auto got = numbers(gradients[g++]);
    std::vector<double> wanted(got.size());
    double largest = 1e-3;
    for (std::size_t i = 0; i < got.size(); ++i) {
      wanted[i] = difference(step, arguments, which, i);
      largest = std::max(largest, std::abs(wanted[i]));
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!(std::abs(got[i] - wanted[i]) <= 1e-5 * std::max(std::abs(wanted[i]), 1e-2 * largest)))
        return what + ": by argument " + std::to_string(which) + ", element " + std::to_string(i) + ": grad() says " +
               std::to_string(got[i]) + ", differences say " + std::to_string(wanted[i]);
  }
  return "";
}

}  // namespace

testing::AssertionResult check_gradients(const Function& fn, const std::vector<Array>& arguments, int order) {
  std::string wrong = compare_with_oracle(fn, arguments, "forward");
  Function at = fn;
  for (int k = 1; k <= order && wrong.empty(); ++k) {
    const std::string what = k == 1 ? "gradient" : "gradient of order " + std::to_string(k);
    const Function next = derivative(at);
    wrong = compare_with_oracle(next, arguments, what);
    if (wrong.empty()) wrong = compare_slopes(at, arguments, what);
    at = next;
  }
  return wrong.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << wrong;
}

testing::AssertionResult check_gradient(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                                        const std::vector<Array>& arguments, int order) {
  return check_gradients([&](const std::vector<Tensor>& x) { return std::vector<Tensor>{fn(x)}; }, arguments, order);
}

Array smooth_array(const Shape& shape, int which, double low, double high, unsigned seed) {
  std::mt19937 random(seed * 31 + static_cast<unsigned>(which));
  const auto n = static_cast<std::size_t>(shape.count());
  std::vector<double> values(n);
  if (high - low < 0.99) {  // too narrow for the grid, and without kinks inside
    std::uniform_real_distribution<double> real(low, high);
    for (double& v : values) v = real(random);
    return Array::from(values, shape);
  }
  const auto steps = std::max<std::size_t>(1, static_cast<std::size_t>((high - low) / 0.02) - 1);
  std::vector<std::size_t> order(std::max(n, steps));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i % steps;
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < n; ++i) values[i] = low + 0.02 * static_cast<double>(order[i]) + 0.003 * (which % 5 + 1);
  return Array::from(values, shape);
}

std::vector<Array> run_once(const Function& fn, const std::vector<Array>& arguments, const CompileOptions& options) {
  Step step = compile(fn, specs_of(arguments), options);
  const auto results = step.run(pointers(arguments));
  std::vector<Array> copies;
  for (std::size_t i = 0; i < results.size(); ++i) copies.push_back(results[i].clone());
  return copies;
}

std::vector<double> numbers(const Array& a) { return a.astype(DType::f64).to_vector<double>(); }

}  // namespace wr::test
