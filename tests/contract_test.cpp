// Contractions in semirings: kernels on every target against the oracle, gradients with ties, zeros and clips, NaN,
// every way labels can stand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backend/cpu/target.h"
#include "ops/interpret.h"
#include "passes/passes.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "windrow/contract.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using std::int64_t;
using test::check_gradient;
using test::numbers;
using List = std::vector<Tensor>;

constexpr Semiring kSemirings[] = {Semiring::max_product, Semiring::max_plus,    Semiring::min_plus,
                                   Semiring::max_min,     Semiring::lukasiewicz, Semiring::noisy_or};

/// Sixteenths between 0 and 1, the ends included: sums and products of two are exact in f32, and many are equal.
Array sixteenths(const Spec& spec, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(static_cast<std::size_t>(spec.shape.count()));
  for (double& v : values) v = std::uniform_int_distribution<int>(0, 16)(random) / 16.0;
  return Array::from(values, spec.shape).astype(spec.dtype);
}

/// The result and the gradients by both operands of something that depends on all of the result.
List all_results(const std::string& spec, const List& in, Semiring semiring) {
  const Tensor c = contract(spec, in[0], in[1], semiring);
  List results{c};
  for (const Tensor& g : grad(sum(c * in[2]), {in[0], in[1]})) results.push_back(g);
  return results;
}

struct Sizes {
  int64_t batch, m, k, n;
};

void check(const Sizes& s, Semiring semiring, DType dtype, unsigned seed, const CompileOptions& options = {}) {
  const std::vector<Spec> specs{
      {dtype, {s.batch, s.m, s.k}}, {dtype, {s.batch, s.k, s.n}}, {dtype, {s.batch, s.m, s.n}}};
  const auto fn = [&](const List& in) { return all_results("bmk,bkn->bmn", in, semiring); };
  std::vector<Array> arguments;
  for (std::size_t i = 0; i < specs.size(); ++i)
    arguments.push_back(sixteenths(specs[i], seed + static_cast<unsigned>(i)));
  const auto exact = ir::interpret(*test::trace(specs, fn), arguments, ir::Rounding::none).outputs;
  const auto got = test::run_once(fn, arguments, options);
  for (std::size_t r = 0; r < exact.size(); ++r) {
    const auto x = numbers(got[r]), y = numbers(exact[r]);
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(x[i], y[i], (dtype == DType::f64 ? 1e-12 : 3e-5) * std::max(1.0, std::abs(y[i])))
          << to_string(semiring) << " result " << r << " element " << i << " of " << s.batch << "," << s.m << "," << s.k
          << "," << s.n << " " << options.simd;
  }
}

TEST(Contract, MatchesTheOracleOnEveryTarget) {
  for (const cpu::Target target : cpu::available_targets())
    for (const Semiring semiring : kSemirings) {
      const CompileOptions options{.simd = std::string(cpu::name_of(target))};
      check({1, 9, 5, 50}, semiring, DType::f32, 1, options);
      check({2, 19, 33, 7}, semiring, DType::f64, 2, options);
    }
}

TEST(Contract, RandomSizesOnEveryTarget) {
  std::mt19937 random(5);
  const auto size = [&](int most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
  for (const cpu::Target target : cpu::available_targets())
    for (int round = 0; round < 12; ++round) {
      const Semiring semiring = kSemirings[round % 6];
      const DType dtype = round % 4 < 2 ? DType::f32 : DType::f64;
      check({size(3), size(40), size(30), size(70)}, semiring, dtype, static_cast<unsigned>(round),
            {.lanes = 1 + round % 3, .simd = std::string(cpu::name_of(target))});
    }
}

/// Deeper and wider than a block of any machine's caches that is described: several turns of every loop.
TEST(Contract, ManyBlocks) {
  CompileOptions options{.machine = "pi4"};
  for (const Semiring semiring : kSemirings) check({1, 3, 1100, 100}, semiring, DType::f64, 3, options);
}

/// Truths with whole steps of the depth in which "and" is 0, or nearly: what is left out changes no bit beside a single
/// row, of which nothing is left out. A NaN in such a step is seen.
TEST(Contract, LukasiewiczLeavesOutWhatIsZero) {
  constexpr int64_t kRows = 41, kDepth = 600, kColumns = 90;
  std::mt19937 random(8);
  const auto number = [&](double most) { return std::uniform_real_distribution<double>(0, most)(random); };
  std::vector<double> a(kRows * kDepth), b(kDepth * kColumns);
  for (double& v : a) v = number(1) < 0.003 ? number(1) : number(0.5);
  for (double& v : b) v = number(1) < 0.003 ? number(1) : number(0.5);
  const auto joined = [](const Array& x, const Array& y, const CompileOptions& options) {
    return numbers(
        test::run_once([](const List& at) { return List{contract("xy,yz->xz", at[0], at[1], Semiring::lukasiewicz)}; },
                       {x, y}, options)[0]);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const cpu::Target target : cpu::available_targets())
    for (const DType dtype : {DType::f32, DType::f64}) {
      const CompileOptions options{.lanes = 1, .simd = std::string(cpu::name_of(target))};
      const Array right = Array::from(b, {kDepth, kColumns}).astype(dtype);
      const auto whole = joined(Array::from(a, {kRows, kDepth}).astype(dtype), right, options);
      for (int64_t i = 0; i < kRows; ++i) {
        const std::vector<double> row(a.begin() + i * kDepth, a.begin() + (i + 1) * kDepth);
        const auto alone = joined(Array::from(row, {1, kDepth}).astype(dtype), right, options);
        for (int64_t j = 0; j < kColumns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < kDepth; ++k) sum += std::max(0.0, row[k] + b[k * kColumns + j] - 1);
          ASSERT_EQ(whole[i * kColumns + j], alone[j]) << i << "," << j << " " << options.simd;
          ASSERT_NEAR(alone[j], std::min(1.0, sum), 1e-5) << i << "," << j << " " << options.simd;
        }
      }
      for (const bool in_first : {true, false}) {
        auto x = a, y = b;
        (in_first ? x[7 * kDepth + 500] : y[500 * kColumns + 7]) = nan;
        const auto got = joined(Array::from(x, {kRows, kDepth}).astype(dtype),
                                Array::from(y, {kDepth, kColumns}).astype(dtype), options);
        for (int64_t i = 0; i < kRows; ++i)
          for (int64_t j = 0; j < kColumns; ++j)
            ASSERT_EQ(std::isnan(got[i * kColumns + j]), (in_first ? i : j) == 7)
                << i << "," << j << " " << options.simd;
      }
    }
}

TEST(Contract, CutsAlongAnyAxis) {
  for (const Semiring semiring : kSemirings) {
    check({1, 64, 16, 16}, semiring, DType::f64, 4, {.lanes = 4});
    check({8, 4, 16, 8}, semiring, DType::f64, 5, {.threads = 2, .lanes = 2});
    check({1, 1, 16, 128}, semiring, DType::f64, 6, {.lanes = 3});
  }
}

TEST(Contract, IsTheCompositionItStandsFor) {
  for (const Semiring semiring : kSemirings) {
    const auto graph = test::trace({f64(2, 9, 4), f64(2, 4, 10), f64(2, 9, 10)},
                                   [&](const List& in) { return all_results("bmk,bkn->bmn", in, semiring); });
    EXPECT_TRUE(test::same_results(*graph, *passes::spell_out(*graph), 5)) << to_string(semiring);
    EXPECT_EQ(ir::print(*ir::parse(ir::print(*graph))), ir::print(*graph));
  }
}

TEST(Contract, GradientsOfFirstAndSecondOrder) {
  // In every semiring the winner is ahead, and what is clipped is clipped, by more than 0.003.
  std::vector<double> first, second;
  for (int i = 0; i < 9; ++i)
    for (int k = 0; k < 3; ++k) first.push_back(0.12 + 0.0071 * i + 0.25 * ((i + k) % 3));
  for (int k = 0; k < 3; ++k)
    for (int j = 0; j < 10; ++j) second.push_back(0.1017 + 0.0072 * j + 0.2 * ((k + 2 * j) % 3));
  const Array a = Array::from(first, {9, 3}), b = Array::from(second, {3, 10});
  for (const Semiring semiring : kSemirings)
    EXPECT_TRUE(
        check_gradient([=](const List& x) { return square(contract("xy,yz->xz", x[0], x[1], semiring)); }, {a, b}))
        << to_string(semiring);
}

/// Small ones take another way: the same answers.
TEST(Contract, FewRowsAndColumns) {
  const Array a = test::smooth_array({2, 3, 5}, 0, 0.1, 0.9), b = test::smooth_array({2, 5, 2}, 1, 0.1, 0.9);
  for (const Semiring semiring : kSemirings)
    EXPECT_TRUE(check_gradient([=](const List& x) { return contract("bxy,byz->bxz", x[0], x[1], semiring); }, {a, b}))
        << to_string(semiring);
}

std::vector<double> gradient_by_first(const Array& a, const Array& b, Semiring semiring) {
  return numbers(test::run_once(
      [=](const List& in) { return grad(sum(contract("xy,yz->xz", in[0], in[1], semiring)), {in[0]}); }, {a, b})[0]);
}

TEST(Contract, WinnersShareTheGradient) {
  // One row against nine equal columns; three of its four elements win.
  const Array a = Array::from<double>({{0.5, 0.5, 0.25, 0.5}}), b = Array::full({4, 9}, 1.0, DType::f64);
  for (const Semiring semiring : {Semiring::max_product, Semiring::max_plus, Semiring::max_min}) {
    const auto g = gradient_by_first(a, b, semiring);
    for (const std::size_t i : {0, 1, 3}) EXPECT_DOUBLE_EQ(g[i], 3) << to_string(semiring);
    EXPECT_EQ(g[2], 0);
  }
  const auto least = gradient_by_first(a, b, Semiring::min_plus);
  EXPECT_DOUBLE_EQ(least[2], 9);
  EXPECT_EQ(least[0], 0);
  // Equal parts of a minimum have half each, as minimum() has it.
  EXPECT_DOUBLE_EQ(
      gradient_by_first(b.transpose().contiguous(), Array::full({4, 9}, 1.0, DType::f64), Semiring::max_min)[0],
      9 * 0.25 * 0.5);
}

TEST(Contract, ZeroFactorsOfNoisyOrAreCounted) {
  const Array certain = Array::full({3, 9}, 1.0, DType::f64);
  // No factor is 0: 0.5 * 0.5 are left beside each. One is: only it can change anything. Two are: none can.
  EXPECT_DOUBLE_EQ(gradient_by_first(Array::from<double>({{0.5, 0.5, 0.5}}), certain, Semiring::noisy_or)[0], 9 * 0.25);
  const auto one = gradient_by_first(Array::from<double>({{1, 0.5, 0.75}}), certain, Semiring::noisy_or);
  EXPECT_DOUBLE_EQ(one[0], 9 * 0.125);
  EXPECT_EQ(one[1], 0);
  EXPECT_EQ(one[2], 0);
  for (const double g : gradient_by_first(Array::from<double>({{1, 1, 0.5}}), certain, Semiring::noisy_or))
    EXPECT_EQ(g, 0);
}

/// 1 - 1e-9 is 1 in f32; the gradient still knows the product of doubts.
TEST(Contract, NoisyOrKeepsSmallDoubts) {
  const Array a = Array::full({1, 2}, 0.99999, DType::f32), b = Array::full({2, 8}, 1.0, DType::f32);
  const double doubt = 1 - static_cast<double>(0.99999F);
  EXPECT_NEAR(gradient_by_first(a, b, Semiring::noisy_or)[0], 8 * doubt, 8 * doubt * 1e-5);
}

TEST(Contract, ClippedLukasiewiczHasNoGradient) {
  const Array a = Array::from<double>({{0.9, 0.9, 0.1}}), b = Array::full({3, 9}, 0.8, DType::f64);
  for (const double g : gradient_by_first(a, b, Semiring::lukasiewicz)) EXPECT_EQ(g, 0);  // 0.7 + 0.7 > 1
  const auto below = gradient_by_first(Array::from<double>({{0.4, 0.1, 0.5}}), b, Semiring::lukasiewicz);
  EXPECT_DOUBLE_EQ(below[0], 9);
  EXPECT_EQ(below[1], 0);
  EXPECT_DOUBLE_EQ(below[2], 9);
}

TEST(Contract, NaNReachesWhatItIsPartOf) {
  for (const cpu::Target target : cpu::available_targets())
    for (const Semiring semiring : kSemirings)
      for (const std::size_t where : {0, 1}) {
        auto values = numbers(test::smooth_array({12, 20}, 0, 0.1, 0.9));
        const auto others = numbers(test::smooth_array({20, 21}, 1, 0.1, 0.9));
        auto rest = others;
        (where == 0 ? values[3 * 20 + 7] : rest[7 * 21 + 3]) = std::nan("");
        const auto c =
            numbers(test::run_once([=](const List& in) { return List{contract("xy,yz->xz", in[0], in[1], semiring)}; },
                                   {Array::from(values, {12, 20}), Array::from(rest, {20, 21})},
                                   {.simd = std::string(cpu::name_of(target))})[0]);
        for (std::size_t i = 0; i < 12; ++i)
          for (std::size_t j = 0; j < 21; ++j)
            ASSERT_EQ(std::isnan(c[i * 21 + j]), (where == 0 ? i : j) == 3)
                << to_string(semiring) << " " << i << " " << j << " " << cpu::name_of(target);
      }
}

TEST(Contract, InfinityIsTheLengthOfNoPath) {
  const double inf = std::numeric_limits<double>::infinity();
  const Array a = Array::from<double>({{0, 1, inf}, {inf, inf, inf}, {2, inf, inf}});
  const Array b = Array::from<double>({{inf, 5, inf}, {3, 1, inf}, {1, 1, 1}});
  EXPECT_EQ(numbers(contract("xy,yz->xz", a, b, Semiring::min_plus)),
            (std::vector<double>{4, 2, inf, inf, inf, inf, inf, 7, inf}));
  // inf - inf is no length.
  EXPECT_TRUE(std::isnan(numbers(contract("xy,yz->xz", Array::full({8, 2}, inf, DType::f64),
                                          Array::full({2, 8}, -inf, DType::f64), Semiring::min_plus))[0]));
}

double met(Semiring semiring, double a, double b) {
  return semiring == Semiring::max_min                                      ? std::min(a, b)
         : semiring == Semiring::lukasiewicz                                ? std::max(0.0, a + b - 1)
         : semiring == Semiring::max_plus || semiring == Semiring::min_plus ? a + b
                                                                            : a * b;
}

/// Batches, labels in any order, labels of one operand alone, diagonals, nothing to reduce.
TEST(Contract, EveryKindOfLabel) {
  const Array a = test::smooth_array({2, 3, 4}, 0, 0.05, 0.95), b = test::smooth_array({4, 2, 3}, 1, 0.05, 0.95);
  const auto x = numbers(a), y = numbers(b);
  for (const Semiring semiring : kSemirings)
    for (const char* spec :
         {"ijk,kil->jli", "ijk,kij->ijk", "ijk,kij->", "ijk,lmn->nj", "ijk,kmn->jnm", "ijk,kij->kj"}) {
      const std::string text = spec;
      const std::string la = text.substr(0, 3), lb = text.substr(4, 3), lc = text.substr(9);
      std::string all = la;
      for (const char c : lb)
        if (all.find(c) == std::string::npos) all += c;
      const auto size_of = [&](char c) -> int64_t {
        return la.find(c) != std::string::npos ? a.shape()[static_cast<int>(la.find(c))]
                                               : b.shape()[static_cast<int>(lb.find(c))];
      };
      Shape shape, result;
      for (const char c : all) shape.push_back(size_of(c));
      for (const char c : lc) result.push_back(size_of(c));
      const double none = semiring == Semiring::noisy_or      ? 1
                          : semiring == Semiring::lukasiewicz ? 0
                          : semiring == Semiring::min_plus    ? 1e9
                                                              : -1e9;
      std::vector<double> wanted(static_cast<std::size_t>(result.count()), none);
      ir::for_each_index(shape, [&](const Dims& index) {
        const auto at = [&](const std::string& labels, const Shape& of) {
          Dims i;
          for (const char c : labels) i.push_back(index[static_cast<int>(all.find(c))]);
          return ir::position(i, of);
        };
        const double v = met(semiring, x[at(la, a.shape())], y[at(lb, b.shape())]);
        double& to = wanted[at(lc, result)];
        to = semiring == Semiring::noisy_or      ? to * (1 - v)
             : semiring == Semiring::lukasiewicz ? to + v
             : semiring == Semiring::min_plus    ? std::min(to, v)
                                                 : std::max(to, v);
      });
      const Array got = contract(spec, a, b, semiring);
      ASSERT_EQ(got.shape(), result) << spec;
      const auto z = numbers(got);
      for (std::size_t i = 0; i < z.size(); ++i)
        ASSERT_NEAR(z[i],
                    semiring == Semiring::noisy_or      ? 1 - wanted[i]
                    : semiring == Semiring::lukasiewicz ? std::min(1.0, wanted[i])
                                                        : wanted[i],
                    1e-12)
            << to_string(semiring) << " " << spec << " " << i;
    }
  const Array square = Array::from<double>({{0.5, 0.9}, {0.8, 0.25}});
  EXPECT_EQ(numbers(contract("ii,i->i", square, Array::from<double>({1, 1}), Semiring::max_product)),
            (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(numbers(contract("ij,jk", square, square, Semiring::sum_product)), numbers(matmul(square, square)));
}

/// 400 constants: a join of three variables would be 256 MB.
TEST(Contract, NoJoinIsHeldInMemory) {
  for (const Semiring semiring : kSemirings) {
    const Step step = compile([=](const List& in) { return all_results("xy,yz->xz", in, semiring); },
                              std::vector<Spec>(3, f32(400, 400)), CompileOptions{.lanes = 2});
    const StepFacts& f = step.facts();
    EXPECT_LT(f.scratch_bytes * static_cast<std::size_t>(f.lanes) + f.arena_bytes + f.partial_bytes, 12U << 20U)
        << to_string(semiring);
  }
}

TEST(Contract, RefusesWhatDoesNotFit) {
  const Tensor a(Array::zeros({2, 3})), b(Array::zeros({4, 5}));
  const auto error = [](auto fn) {
    try {
      fn();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error([&] {
              contract("xy,yz->xz", a, b, Semiring::max_plus);
            }).find("contract: 'xy,yz->xz': label 'y' is 3 in one place and 4 in operand 1 [4,5]"),
            std::string::npos)
      << error([&] { contract("xy,yz->xz", a, b, Semiring::max_plus); });
  EXPECT_NE(error([&] { contract("xy->xz", a, b, Semiring::max_plus); }).find("contract: 'xy->xz'"), std::string::npos);
  EXPECT_NE(
      error([&] { contract("x!,yz->xz", a, b, Semiring::max_plus); }).find("contract: 'x!,yz->xz': unexpected '!'"),
      std::string::npos);
  EXPECT_FALSE(semiring_called("max_times").has_value());
  for (const Semiring semiring : kSemirings) EXPECT_EQ(semiring_called(to_string(semiring)), semiring);
}

}  // namespace
}  // namespace wr
