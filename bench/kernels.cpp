// Cases of one kernel each, into a destination that exists.
#include <cmath>
#include <regex>

#include "bench/case.h"

namespace wr::bench {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

template <class Fn, class... Specs>
Prepared prepared(int threads, std::vector<Array> arguments, double tolerance, Fn fn, const Specs&... specs) {
  CompileOptions options;
  options.threads = threads;
  Prepared p{compile(options, fn, specs...), std::move(arguments), {}, 0};
  p.check = [tolerance](Step& s, const std::vector<Array>& a) { return check_by_oracle(s, a, tolerance); };
  p.bytes = compulsory_bytes(p.step, p.arguments);
  return p;
}

/// The oracle would take minutes on a large product: some elements are checked instead.
template <class T>
std::string check_product(Step& step, const std::vector<Array>& arguments) {
  const auto k = arguments[0].size(1);
  step.run(std::vector<const Array*>{&arguments[0], &arguments[1]});
  const Array& c = step.output(0);
  for (int i = 0; i < 97; ++i) {
    const std::int64_t row = i * 7919 % c.size(0), col = i * 104729 % c.size(1);
    double sum = 0, magnitude = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const double term = double(arguments[0].at<T>({row, j})) * double(arguments[1].at<T>({j, col}));
      sum += term;
      magnitude += std::abs(term);
    }
    const double error = std::abs(sum - double(c.at<T>({row, col})));
    if (!(error <= magnitude * std::numeric_limits<T>::epsilon() * 8))
      return "element [" + std::to_string(row) + "," + std::to_string(col) + "] is off by " + std::to_string(error);
  }
  return "";
}

Case matmul_case(std::int64_t m, std::int64_t k, std::int64_t n, DType dtype) {
  const bool square = m == 1000 && k == 1000 && n == 1000;
  const std::string type(name_of(dtype));
  const std::string name =
      square ? "matmul1000_" + type
             : "matmul_" + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + "_" + type;
  return {name, "matrix product", [=](int threads) {
            Prepared p = prepared(
                threads, {random_normal({m, k}, 1, 1, dtype), random_normal({k, n}, 2, 1, dtype)}, 0,
                [](Tensor a, Tensor b) { return matmul(a, b); }, Spec{dtype, {m, k}}, Spec{dtype, {k, n}});
            p.check = dtype == DType::f64 ? check_product<double> : check_product<float>;
            return p;
          }};
}

template <class Fn>
Case unary_case(const std::string& name, const std::string& what, double tolerance, Fn fn, DType dtype = DType::f32) {
  return {name, what, [=](int threads) {
            return prepared(threads, {random_normal({kMillion}, 3, 1, dtype)}, tolerance, fn, Spec{dtype, {kMillion}});
          }};
}

template <class Fn>
Case binary_case(const std::string& name, const std::string& what, double tolerance, Fn fn) {
  return {name, what, [=](int threads) {
            return prepared(threads, {random_normal({kMillion}, 3), random_normal({kMillion}, 4)}, tolerance, fn,
                            f32(kMillion), f32(kMillion));
          }};
}

Case optimiser_case(const std::string& name, const std::string& what,
                    const std::function<std::shared_ptr<optim::Optimiser>()>& make) {
  return {name, what, [=](int threads) {
            const State p(random_normal({kMillion}, 5), "p");
            const auto optimiser = make();
            Prepared made = prepared(
                threads, {random_normal({kMillion}, 6)}, 1e-5, [&](Tensor g) { optimiser->apply({p}, {g}); },
                f32(kMillion));
            return made;
          }};
}

}  // namespace

std::vector<Case> kernel_cases() {
  std::vector<Case> list{matmul_case(1000, 1000, 1000, DType::f32), matmul_case(1000, 1000, 1000, DType::f64)};
  for (auto [m, k, n] : {std::array{64, 144, 128}, {64, 128, 64}, {64, 64, 6}, {32, 784, 128}, {16, 16, 16}})
    list.push_back(matmul_case(m, k, n, DType::f32));
  list.push_back(binary_case("add1M", "x + y", 1e-6, [](Tensor x, Tensor y) { return x + y; }));
  list.push_back(unary_case("relu1M", "max(x, 0)", 0, [](Tensor x) { return relu(x); }));
  list.push_back(unary_case("exp1M", "e to the x", 1e-6, [](Tensor x) { return exp(x); }));
  list.push_back(unary_case("tanh1M", "hyperbolic tangent", 1e-6, [](Tensor x) { return tanh(x); }));
  list.push_back(unary_case("sum1M", "sum of all", 1e-3, [](Tensor x) { return sum(x); }));
  list.push_back(unary_case(
      "sum1M_f64", "sum of all, f64", 1e-9, [](Tensor x) { return sum(x); }, DType::f64));
  list.push_back({"softmax1024", "softmax over rows of 1024 x 1024", [](int threads) {
                    return prepared(
                        threads, {random_normal({1024, 1024}, 7)}, 1e-6, [](Tensor x) { return softmax(x, 1); },
                        f32(1024, 1024));
                  }});
  list.push_back(binary_case("fused_relu_mul_add_tanh1M", "tanh(relu(x) * y + 0.5)", 1e-6,
                             [](Tensor x, Tensor y) { return tanh(relu(x) * y + 0.5); }));
  list.push_back(optimiser_case("adam1M", "one Adam update", [] { return std::make_shared<optim::Adam>(); }));
  list.push_back(optimiser_case("sgd1M", "one SGD update",
                                [] { return std::make_shared<optim::Sgd>(optim::Sgd::Options{1e-3}); }));
  return list;
}

std::optional<Case> kernel_case(const std::string& name) {
  std::smatch found;
  if (!std::regex_match(name, found,
                        std::regex("matmul_([1-9][0-9]{0,4})x([1-9][0-9]{0,4})x([1-9][0-9]{0,4})_(f32|f64)")))
    return std::nullopt;
  return matmul_case(std::stoll(found[1]), std::stoll(found[2]), std::stoll(found[3]),
                     found[4] == "f32" ? DType::f32 : DType::f64);
}

}  // namespace wr::bench
