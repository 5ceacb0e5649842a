// Updates of parameters: every kernel of updates.def on every target against the oracle, the compositions that the pass
// puts them in place of, and the plans of the optimisers.
#include "backend/cpu/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/interpret.h"
#include "passes/passes.h"
#include "support/graphs.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using cpu::Target;
using cpu::UpdateParams;
using std::int64_t;

/// Parameters, means, gradients; mean squares and numbers are positive.
double draw(std::string_view name, std::mt19937& gen) {
  std::uniform_real_distribution<double> unit(0, 1);
  const double x = unit(gen);
  return name == "p" || name == "m" || name == "v" || name == "g" ? 2 * x - 1 : 0.01 + x;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    names.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return names;
}

/// rows x cols of every operand with gaps between the rows; results over the first values, as in a step, or apart.
template <class T>
void check_kernel(ops::Update update, Target target, int64_t rows, int64_t cols, bool in_place) {
  const ops::UpdateRow& row = ops::row_of(update);
  const auto names = split(row.operands);
  const auto results = static_cast<std::size_t>(row.result_count), values = static_cast<std::size_t>(row.values);
  const int64_t stride = cols + 3;
  std::mt19937 gen(7);
  std::vector<std::vector<T>> memory(names.size());
  for (std::size_t k = 0; k < names.size(); ++k)
    for (int64_t i = 0; i < (k < values ? rows * stride : 1); ++i)
      memory[k].push_back(static_cast<T>(draw(names[k], gen)));
  const std::vector<std::vector<T>> before = memory;
  std::vector<std::vector<T>> apart(results, std::vector<T>(static_cast<std::size_t>(rows * stride), T{77}));
  UpdateParams params;
  params.rows = rows;
  params.cols = cols;
  std::vector<void*> ptr;
  for (std::size_t r = 0; r < results; ++r) ptr.push_back(in_place ? memory[r].data() : apart[r].data());
  for (auto& operand : memory) ptr.push_back(operand.data());
  for (std::size_t k = 0; k < results + values; ++k) params.row_stride[k] = stride;
  cpu::find_update(update, sizeof(T) == 4 ? DType::f32 : DType::f64, target)(params, ptr.data(), 0);
  const double unit = sizeof(T) == 4 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -53);
  for (int64_t i = 0; i < rows * stride; ++i) {
    double x[ops::kMaxUpdateOperands], y[ops::kMaxUpdateResults];
    const auto at = static_cast<std::size_t>(i);
    for (std::size_t k = 0; k < names.size(); ++k) x[k] = static_cast<double>(before[k][k < values ? at : 0]);
    ops::evaluate(update, x, y);
    for (std::size_t r = 0; r < results; ++r) {
      const auto got = static_cast<double>((in_place ? memory[r] : apart[r])[at]);
      if (i % stride >= cols)
        ASSERT_EQ(got, in_place ? static_cast<double>(before[r][at]) : 77.0) << row.name << " wrote into a gap";
      else
        ASSERT_NEAR(got, y[r], 16 * unit * std::max(1.0, std::abs(y[r])))
            << row.name << " result " << r << " element " << i << " on " << cpu::name_of(target);
    }
  }
}

TEST(UpdateKernels, MatchTheOracleOnEveryTarget) {
  for (const Target target : cpu::available_targets())
    for (std::size_t u = 0; u < ops::update_rows().size(); ++u)
      for (const int64_t cols : {1, 7, 8, 31, 64})
        for (const bool in_place : {false, true}) {
          check_kernel<float>(static_cast<ops::Update>(u), target, 3, cols, in_place);
          check_kernel<double>(static_cast<ops::Update>(u), target, 3, cols, in_place);
        }
}

TEST(UpdateRows, CountTheOpsTheyReplace) {
  EXPECT_EQ(ops::row_of(ops::Update::sgd_update).ops, 2);   // sub, mul
  EXPECT_EQ(ops::row_of(ops::Update::adam_update).ops, 3);  // adam_step, lerp, lerp_square
  EXPECT_EQ(ops::row_of(ops::Update::nesterov_update).ops, 4);
}

TEST(UpdateRows, HaveAsManyOperandsAsTheySay) {
  for (const ops::UpdateRow& row : ops::update_rows()) {
    EXPECT_EQ(split(row.operands).size(), static_cast<std::size_t>(row.values + row.numbers)) << row.name;
    EXPECT_LE(row.values + row.numbers, ops::kMaxUpdateOperands) << row.name;
    EXPECT_LE(row.result_count, ops::kMaxUpdateResults) << row.name;
    EXPECT_LE(row.result_count + row.values + row.numbers, cpu::kMaxOperands) << row.name;
  }
}

// ---- the pass ----

/// An optimiser's graph before and after the pass; `update` is the op that must be there.
void expect_fused(optim::Optimiser& optimiser, const std::string& update) {
  const auto graph = test::trace({f32(5, 3)}, [&](const std::vector<Tensor>& in) {
    State p(Array::ones({5, 3}), "p");
    optimiser.apply({p}, {in[0]});
    return std::vector<Tensor>{};
  });
  const auto before = passes::contract(*passes::dce(*passes::simplify(*graph)));
  const auto after = passes::dce(*passes::fuse(*before));
  EXPECT_NO_THROW(ir::verify(*after));
  EXPECT_NE(ir::print(*after).find("= " + update + "("), std::string::npos) << ir::print(*after);
  EXPECT_TRUE(test::same_results(*before, *after, 3)) << ir::print(*after);
  EXPECT_EQ(ir::print(*ir::parse(ir::print(*after))), ir::print(*after));
}

TEST(Fuse, EachOptimiserHasItsUpdate) {
  using namespace optim;
  Sgd sgd, momentum({.momentum = 0.9}), nesterov({.momentum = 0.9, .nesterov = true});
  Adam adam, decayed({.weight_decay = 0.1});
  AdamW adamw({.weight_decay = 0.1});
  RmsProp rmsprop;
  expect_fused(sgd, "sgd_update");
  expect_fused(momentum, "momentum_update");
  expect_fused(nesterov, "nesterov_update");
  expect_fused(adam, "adam_update");
  expect_fused(decayed, "adam_update");
  expect_fused(adamw, "adamw_update");
  expect_fused(rmsprop, "rmsprop_update");
}

TEST(Fuse, LeavesWhatIsReadBeforeTheUpdate) {
  // The new mean is read by an op that stands before the update: it must be there by then.
  const auto graph = ir::parse(
      "%0 = input 0 : f32[4]\n"
      "%1 = state \"p\" : f32[4]\n"
      "%2 = state \"m\" : f32[4]\n"
      "%3 = constant [0.5] : f32[1]\n"
      "%4 = muladd(%2, %3, %0) : f32[4]\n"
      "%5 = exp(%4) : f32[4]\n"
      "%6 = reduce_max(%5) {ints=[0]} : f32[1]\n"
      "%7 = mul(%6, %4) : f32[4]\n"
      "%8 = sub(%1, %7) : f32[4]\n"
      "updates %1 <- %8, %2 <- %4\n");
  const auto after = passes::dce(*passes::fuse(*graph));
  EXPECT_EQ(ir::print(*after).find("momentum_update"), std::string::npos) << ir::print(*after);
  EXPECT_TRUE(test::same_results(*graph, *after, 3));
}

TEST(Fuse, LeavesOperandsThatAreRepeated) {
  const auto graph = ir::parse(
      "%0 = input 0 : f32[1,4]\n"
      "%1 = state \"p\" : f32[3,4]\n"
      "%2 = constant [0.5] : f32[1,1]\n"
      "%3 = mul(%2, %0) : f32[1,4]\n"
      "%4 = sub(%1, %3) : f32[3,4]\n"
      "updates %1 <- %4\n");
  const auto after = passes::fuse(*graph);
  EXPECT_EQ(ir::print(*after).find("sgd_update"), std::string::npos);
  const passes::Fused fused = passes::what_was_fused(*after);
  EXPECT_TRUE(fused.made.empty());
  ASSERT_EQ(fused.missed.size(), 1U);
  EXPECT_EQ(fused.missed[0].rule, "sgd_update");
  EXPECT_EQ(fused.missed[0].why, "an operand has another shape or type");
}

TEST(Fuse, SaysWhichRuleNearlyApplied) {
  State w(Array::ones({4, 8}), "w"), b(Array::zeros({8}), "b");
  int line = 0;
  const auto layer = [&](bool read_elsewhere) {
    const Step step = compile(
        [&](const Tensor& x) {
          const Tensor sum = matmul(x, Tensor(w)) + Tensor(b);
          line = __LINE__ + 1;
          const Tensor y = relu(sum);
          return read_elsewhere ? y * exp(sum) : y;
        },
        f32(16, 4));
    return step.describe();
  };
  const std::string one = layer(false), two = layer(true);
  EXPECT_NE(one.find("one loop for several ops: 1 add_relu\n"), std::string::npos) << one;
  EXPECT_EQ(one.find("no add_relu"), std::string::npos) << one;
  EXPECT_NE(two.find("one loop for several ops: none\n"), std::string::npos) << two;
  EXPECT_NE(
      two.find("no add_relu at update_test.cpp:" + std::to_string(line) + ": a value inside is read elsewhere too"),
      std::string::npos)
      << two;
}

// ---- plans and runs ----

TEST(UpdatePlan, OneCallReadsAndWritesEveryState) {
  State p(Array::ones({64, 32}), "p");
  optim::Adam adam;
  const Step step = compile([&](const Tensor& g) { adam.apply({p}, {g}); }, f32(64, 32));
  const std::string plan = step.describe();
  EXPECT_NE(plan.find("adam_update(p, adam.mean.p, adam.square.p, arg0"), std::string::npos) << plan;
  for (const char* state :
       {"-> state p", "-> state adam.mean.p  [by the same call]", "-> state adam.square.p  [by the same call]"})
    EXPECT_NE(plan.find(state), std::string::npos) << plan;
}

/// Old values that others need: read by an op of the same region that comes after the update's call.
TEST(UpdatePlan, OldValuesAreReadBeforeTheyAreOverwritten) {
  const Array g = test::random_array(f32(8, 16), 1), p0 = test::random_array(f32(8, 16), 2),
              v0 = test::random_array(f32(8, 16), 3);
  State p(p0, "p"), v(v0, "v"), rate(Array::full({1, 1}, 0.5, DType::f32), "rate");
  Step step = compile(
      [&](const Tensor& in) {
        const Tensor old_p(p), old_v(v);
        const Tensor now = muladd(old_v, 0.9, in), moved = old_p - Tensor(rate) * now;
        const Tensor result = (old_v + in) * now;
        p.assign(moved);
        v.assign(now);
        return result;
      },
      f32(8, 16));
  EXPECT_NE(step.describe().find("momentum_update"), std::string::npos) << step.describe();
  const Array got = step(g);
  EXPECT_TRUE(test::nearly_equal(got, eval((Tensor(v0) + Tensor(g)) * muladd(Tensor(v0), 0.9, Tensor(g))), 1e-5));
  EXPECT_TRUE(test::nearly_equal(v.value(), eval(muladd(Tensor(v0), 0.9, Tensor(g))), 1e-5));
}

TEST(UpdatePlan, ColumnsCutAndPartsOfStatesWork) {
  // A parameter that is a transposed view of its gradient: rows with gaps.
  State p(Array::ones({24, 16}), "p");
  optim::Sgd sgd({.lr = 0.5, .momentum = 0.9});
  Step step = compile([&](const Tensor& g) { sgd.apply({p}, {permute(g, {1, 0})}); }, f32(16, 24));
  const Array g = test::random_array(f32(16, 24), 5);
  step(g);
  step(g);
  EXPECT_TRUE(test::nearly_equal(p.value(), eval(1.0f - (0.5f + 0.95f) * permute(Tensor(g), {1, 0})), 1e-5));
}

TEST(UpdatePlan, DifferentiatesThroughAnOptimiser) {
  // Fusing comes after differentiation, so an update is differentiated as what it is made of.
  State p(Array::full({3}, 2, DType::f64), "p");
  optim::Sgd sgd({.lr = 0.1});
  Step step = compile(
      [&](const Tensor& x) {
        sgd.minimize(sum(square(Tensor(p) * x)), {p});  // p' = p - 0.1 * 2 p x^2
        return grad(sum(Tensor(p)), {x})[0];            // -0.4 p x
      },
      Spec{DType::f64, {3}});
  const Array got = step(Array::from(std::vector<double>{1, 2, 3}, {3}));
  EXPECT_EQ(got.shape(), (Shape{3}));
  const auto g = got.to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(g[i], -0.8 * static_cast<double>(i + 1), 1e-9);
}

}  // namespace
}  // namespace wr
