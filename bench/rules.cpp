// Rules traced into steps, in every semantics, checked against plain loops in double; `windrow bench rules` runs them.
#include "windrow/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include "bench/case.h"

namespace wr::bench {
namespace {

using rules::Semantics;

constexpr Semantics kSemantics[] = {Semantics::sum,     Semantics::product, Semantics::godel, Semantics::lukasiewicz,
                                    Semantics::maxprod, Semantics::minplus, Semantics::ltn};

Array truths(const Shape& shape, std::uint64_t seed) {
  // Small enough for a product of a thousand doubts to be told from 0.
  return eval(sigmoid(Tensor(random_normal(shape, seed, 1, DType::f64))) * 0.05).astype(DType::f32);
}

/// exists y: p(x, y) and p(y, z), by a plain loop over y.
double joined(Semantics semantics, const std::vector<double>& p, std::int64_t n, std::int64_t x, std::int64_t z) {
  double sum = 0, doubt = 1, most = 0, least = std::numeric_limits<double>::infinity(), weakest = 0, clipped = 0,
         squares = 0;
  for (std::int64_t y = 0; y < n; ++y) {
    const double a = p[x * n + y], b = p[y * n + z];
    const double kept = (a * (1 - 1e-4) + 1e-4) * (b * (1 - 1e-4) + 1e-4);
    sum += a * b;
    doubt *= 1 - a * b;
    most = std::max(most, a * b);
    least = std::min(least, a + b);
    weakest = std::max(weakest, std::min(a, b));
    clipped += std::max(0.0, a + b - 1);
    squares += kept * kept;
  }
  switch (semantics) {
    case Semantics::product:
      return 1 - doubt;
    case Semantics::godel:
      return weakest;
    case Semantics::lukasiewicz:
      return std::min(1.0, clipped);
    case Semantics::maxprod:
      return most;
    case Semantics::minplus:
      return least;
    case Semantics::ltn:
      return std::sqrt(squares / static_cast<double>(n));
    default:
      return 1 / (1 + std::exp(-sum));  // the rule has a temperature of 1
  }
}

std::string check_join(Semantics semantics, std::int64_t n, Step& step, const std::vector<Array>& arguments) {
  const auto p = arguments[0].astype(DType::f64).to_vector<double>();
  step.run(std::vector<const Array*>{&arguments[0]});
  const auto got = step.output(0).astype(DType::f64).to_vector<double>();
  for (std::int64_t x = 0; x < n; x += std::max<std::int64_t>(1, n / 10))
    for (std::int64_t z = 0; z < n; ++z) {
      const double wanted = joined(semantics, p, n, x, z), is = got[x * n + z];
      if (!(std::abs(is - wanted) <= 1e-4 * std::max(wanted, 0.01)))
        return fmt::format("({}, {}) is {:.9g}, plain loops have {:.9g}", x, z, is, wanted);
    }
  return "";
}

Case join_case(Semantics semantics, std::int64_t n) {
  return {fmt::format("rules_join_{}_n{}", to_string(semantics), n), "R(x, z) :- P(x, y), P(y, z)", [=](int threads) {
            const std::string text =
                fmt::format("domain V = {}.\nrel P(V, V) input.\nrel R(V, V).\nR(x, z) :- P(x, y), P(y, z){}.\n", n,
                            semantics == Semantics::sum ? " T=1" : "");
            rules::Program program = rules::Program::parse(text, "join");
            Array given = truths({n, n}, 1);
            // Below a half, Lukasiewicz' "and" is 0 everywhere.
            if (semantics == Semantics::lukasiewicz) given = eval(Tensor(given) * 11);
            CompileOptions options;
            options.threads = threads;
            Prepared p{compile(
                           options,
                           [&](const Tensor& x) {
                             return program.trace("R", {{"P", x}}, {.semantics = semantics});
                           },
                           f32(n, n)),
                       {given},
                       {},
                       0};
            p.check = [=](Step& s, const std::vector<Array>& a) { return check_join(semantics, n, s, a); };
            p.bytes = compulsory_bytes(p.step, p.arguments);
            return p;
          }};
}

Case and_case() {
  return {"rules_and_n1000", "R(x) :- P(x), Q(x), product", [](int threads) {
            rules::Program program = rules::Program::parse(
                "domain V = 1000.\nrel P(V) input.\nrel Q(V) input.\nrel R(V).\nR(x) :- P(x), Q(x).\n", "and");
            CompileOptions options;
            options.threads = threads;
            Prepared p{compile(
                           options,
                           [&](const Tensor& x, const Tensor& y) {
                             return program.trace("R", {{"P", x}, {"Q", y}}, {.semantics = Semantics::product});
                           },
                           f32(1000), f32(1000)),
                       {truths({1000}, 1), truths({1000}, 2)},
                       {},
                       0};
            p.check = [](Step& s, const std::vector<Array>& a) { return check_by_oracle(s, a, 1e-5); };
            p.bytes = compulsory_bytes(p.step, p.arguments);
            return p;
          }};
}

/// Forward and backward: the gradient of the mean of a rule's values by both of its relations.
Case gradient_case(const std::string& name, const std::string& rule, std::int64_t n) {
  return {
      name, rule + ", product, and its gradients", [=](int threads) {
        rules::Program program = rules::Program::parse(
            fmt::format("domain V = {}.\nrel P(V, V) input.\nrel Q(V, V) input.\nrel R(V, V).\n{}.\n", n, rule),
            "gradient");
        CompileOptions options;
        options.threads = threads;
        Prepared p{
            compile(
                options,
                [&](const Tensor& x, const Tensor& y) {
                  const Tensor loss = mean(program.trace("R", {{"P", x}, {"Q", y}}, {.semantics = Semantics::product}));
                  std::vector<Tensor> results = grad(loss, {x, y});
                  results.push_back(loss);
                  return results;
                },
                f32(n, n), f32(n, n)),
            {truths({n, n}, 1), truths({n, n}, 2)},
            {},
            0};
        p.check = [](Step& s, const std::vector<Array>& a) { return check_by_oracle(s, a, 1e-3); };
        p.bytes = compulsory_bytes(p.step, p.arguments);
        return p;
      }};
}

}  // namespace

std::vector<Case> rules_cases() {
  std::vector<Case> list{and_case(), gradient_case("rules_and_grad_n100", "R(x, y) :- P(x, y), Q(x, y)", 100),
                         gradient_case("rules_join_grad_n100", "R(x, z) :- P(x, y), Q(y, z)", 100)};
  for (const std::int64_t n : {200, 1000})
    for (const Semantics s : kSemantics) list.push_back(join_case(s, n));
  return list;
}

std::optional<Case> rules_case(const std::string& name) {
  for (Case& c : rules_cases())
    if (c.name == name) return std::move(c);
  std::smatch m;
  if (!std::regex_match(name, m, std::regex("rules_join_([a-z]+)_n([1-9][0-9]{0,3})"))) return std::nullopt;
  const auto semantics = rules::semantics_called(m[1].str());
  if (!semantics || *semantics == Semantics::boolean) return std::nullopt;
  return join_case(*semantics, std::stoll(m[2].str()));
}

}  // namespace wr::bench
