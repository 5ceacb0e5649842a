// Ops on rows: every kernel of rows.def on every target against the oracle, each op against the composition it stands
// for, gradients of first and second order, and plans.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cpu/row.h"
#include "ops/interpret.h"
#include "ops/spelled.h"
#include "passes/passes.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "windrow/attention.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using cpu::Target;
using ops::RowFacts;
using ops::RowOp;
using ops::RowPart;
using std::int64_t;
using test::check_gradient;
using test::smooth_array;
using List = std::vector<Tensor>;

ir::Op op_of(std::size_t row) { return static_cast<ir::Op>(static_cast<int>(ir::kFirstRowOp) + static_cast<int>(row)); }

Shape shape_of(RowPart part, int64_t rows, int64_t cols) {
  if (part == RowPart::column || part == RowPart::total) return {cols};
  return {rows, part == RowPart::value ? cols : 1};
}

/// Operands of a row op as it would meet them: statistics that are those of the values, labels that exist.
std::vector<Array> operands_of(std::size_t row, DType dtype, int64_t rows, int64_t cols, unsigned seed) {
  const RowFacts& facts = ops::row_ops_facts()[row];
  std::vector<Array> list;
  for (std::size_t k = 0; k < facts.parts.size(); ++k) {
    const Shape shape = shape_of(facts.part(k), rows, cols);
    Array a = test::random_array({dtype, shape}, seed + static_cast<unsigned>(k));
    if (facts.part(k) == RowPart::label)
      a = eval(cast(floor(abs(Tensor(a)) * (static_cast<double>(cols) / 2.01)), DType::i32));
    list.push_back(a);
  }
  const Tensor x(list[0]);
  switch (static_cast<RowOp>(row)) {
    case RowOp::softmax_grad:
      list[0] = eval(softmax(x));
      break;
    case RowOp::log_softmax_grad:
      list[0] = eval(log_softmax(x));
      break;
    case RowOp::logsumexp_grad:
      list[1] = eval(logsumexp(x, -1, Keep::yes));
      break;
    case RowOp::cross_entropy_grad:
      list[2] = eval(logsumexp(x, -1, Keep::yes));
      break;
    case RowOp::layer_norm_grad:
      list[2] = eval(mean(x, -1, Keep::yes));
      list[3] = eval(rsqrt(variance(x, -1, Keep::yes) + 1e-3));
      break;
    case RowOp::rms_norm_grad:
      list[2] = eval(rsqrt(mean(square(x), -1, Keep::yes) + 1e-3));
      break;
    default:
      break;
  }
  return list;
}

/// A result of the op by the oracle.
std::vector<double> oracle(std::size_t row, int number, const std::vector<Array>& in) {
  const auto graph = std::make_shared<ir::Graph>();
  std::vector<int> ids;
  for (const Array& a : in) ids.push_back(graph->add_input({a.dtype(), a.shape()}, Location::current()));
  int made = graph->add(op_of(row), ids, {{}, {1e-3}, {}}, Location::current());
  if (number > 0) made = graph->add(ir::Op::result, {made}, {{number}, {}, {}}, Location::current());
  graph->outputs = {made};
  return test::numbers(ir::interpret(*graph, in, ir::Rounding::none).outputs[0]);
}

/// rows x cols with gaps between the rows, which nobody may write to. The bound is 64 units of the largest element of a
/// row's sums: kernels sum in vectors, exponentials are within 2 units.
template <class T>
void check_kernel(std::size_t row, Target target, int64_t rows, int64_t cols, bool accumulate) {
  const RowFacts& facts = ops::row_ops_facts()[row];
  constexpr DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  constexpr int64_t kGap = 3;
  const auto in = operands_of(row, dtype, rows, cols, 5);
  std::vector<std::vector<T>> memory;
  cpu::RowParams p;
  p.rows = rows;
  p.cols = cols;
  p.epsilon = 1e-3;
  const auto width = [&](RowPart part) {
    return part == RowPart::value || part == RowPart::column || part == RowPart::total ? cols : 1;
  };
  for (std::size_t k = 0; k < facts.results.size(); ++k) {
    const RowPart part = facts.result(k);
    const int64_t stride = width(part) + kGap;
    memory.emplace_back(static_cast<std::size_t>((part == RowPart::total ? 1 : rows) * stride), T{7});
    p.row_stride[k] = part == RowPart::total ? 0 : stride * static_cast<int64_t>(sizeof(T));
    p.accumulate[k] = accumulate;
  }
  for (std::size_t k = 0; k < in.size(); ++k) {
    const RowPart part = facts.part(k);
    const int64_t each = width(part), stride = each + kGap, count = part == RowPart::column ? 1 : rows;
    std::vector<T> values(static_cast<std::size_t>(count * stride), T{99});
    const auto numbers = test::numbers(in[k]);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < each; ++i) {
        const double x = numbers[r * each + i];
        T* at = &values[r * stride + i];
        if (part == RowPart::label)
          *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(x);
        else
          *at = static_cast<T>(x);
      }
    p.row_stride[facts.results.size() + k] = part == RowPart::column ? 0 : stride * static_cast<int64_t>(sizeof(T));
    memory.push_back(std::move(values));
  }
  std::vector<void*> ptr;
  for (auto& m : memory) ptr.push_back(m.data());
  cpu::find_row(static_cast<RowOp>(row), dtype, target)(p, ptr.data(), 0);
  const double unit = sizeof(T) == 4 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -53);
  for (std::size_t k = 0; k < facts.results.size(); ++k) {
    const auto want = oracle(row, static_cast<int>(k), in);
    const bool total = facts.result(k) == RowPart::total;
    const int64_t each = width(facts.result(k)), stride = each + kGap, count = total ? 1 : rows;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < stride; ++i) {
        const auto got = static_cast<double>(memory[k][r * stride + i]);
        if (i >= each) {
          ASSERT_EQ(got, 7.0) << facts.name << " wrote into a gap of result " << k;
          continue;
        }
        const double expected = want[r * each + i] + (total && accumulate ? 7 : 0);
        ASSERT_NEAR(got, expected, 64 * unit * std::max(1.0, std::abs(expected)))
            << facts.name << " result " << k << " row " << r << " column " << i << " of " << cols << " on "
            << cpu::name_of(target);
      }
  }
}

TEST(RowKernels, MatchTheOracleOnEveryTarget) {
  for (const Target target : cpu::available_targets())
    for (std::size_t row = 0; row < ops::row_ops_facts().size(); ++row)
      for (const int64_t cols : {1, 3, 8, 10, 31, 64, 77}) {
        check_kernel<float>(row, target, 4, cols, false);
        check_kernel<double>(row, target, 4, cols, cols % 2 == 1);
      }
}

TEST(RowKernels, TotalsOfNoRowsAreZero) {
  check_kernel<float>(static_cast<std::size_t>(RowOp::layer_norm_grad), cpu::active_target(), 0, 9, false);
  check_kernel<float>(static_cast<std::size_t>(RowOp::rms_norm_grad), cpu::active_target(), 0, 9, true);
}

TEST(RowKernels, NotANumberAndInfinityShow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array x = Array::from<float>({{1, nan, 2}, {1, 2, 3}, {-1e30F, -1e30F, 0}});
  const auto y = test::numbers(eval(softmax(Tensor(x))));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i]));
  EXPECT_NEAR(y[3] + y[4] + y[5], 1, 1e-6);
  EXPECT_EQ(y[8], 1);
  EXPECT_EQ(y[6], 0);
}

// ---- what they stand for ----

TEST(Rows, AreTheCompositionsTheyStandFor) {
  for (std::size_t row = 0; row < ops::row_ops_facts().size(); ++row) {
    const RowFacts& facts = ops::row_ops_facts()[row];
    for (int number = 0; number < static_cast<int>(facts.results.size()); ++number)
      for (const int64_t cols : {1, 6}) {
        const auto in = operands_of(row, DType::f64, 5, cols, 11);
        const auto want = oracle(row, number, in);
        std::vector<Tensor> tensors(in.begin(), in.end());
        const auto got = test::numbers(eval(ops::spelled_out(op_of(row), number, tensors, {{}, {1e-3}, {}})));
        ASSERT_EQ(got.size(), want.size()) << facts.name;
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(got[i], want[i], 1e-12 * std::max(1.0, std::abs(want[i]))) << facts.name << " " << number;
      }
  }
}

TEST(Rows, PublicFunctionsMakeThem) {
  const auto graph = test::trace({f32(4, 5), i32(4), f32(5)}, [](const List& in) {
    return List{softmax(in[0]),
                log_softmax(in[0], 1),
                logsumexp(in[0], -1),
                cross_entropy(in[0], in[1]),
                rms_norm(in[0], in[2]),
                layer_norm(in[0], {}, in[2]),
                loss::cross_entropy(in[0], in[1])};
  });
  const std::string text = ir::print(*graph);
  for (const char* op : {"softmax", "log_softmax", "logsumexp", "cross_entropy", "rms_norm", "layer_norm"})
    EXPECT_NE(text.find("= " + std::string(op) + "("), std::string::npos) << op << "\n" << text;
  EXPECT_EQ(text.find(" exp("), std::string::npos) << text;
  EXPECT_EQ(ir::print(*ir::parse(text)), text);
}

TEST(Rows, RefuseWhatDoesNotFit) {
  const auto error = [](const std::string& text) {
    try {
      ir::parse(text);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error("%0 = input 0 : f32[4,5]\n%1 = input 1 : f32[4]\n%2 = rms_norm(%0, %1) {reals=[0.1]} : f32[4,5]\n")
                .find("operand 1 must be f32[5], is f32[4]"),
            std::string::npos);
  EXPECT_NE(error("%0 = input 0 : i32[4,5]\n%1 = softmax(%0) : i32[4,5]\n").find("i32[4,5]"), std::string::npos);
}

TEST(Rows, GradientsOfFirstAndSecondOrder) {
  const Array x = smooth_array({2, 3, 5}), scale = smooth_array({5}, 1), shift = smooth_array({5}, 2);
  const Array labels = Array::from<std::int32_t>({{0, 3, 1}, {4, 2, 2}});
  EXPECT_TRUE(check_gradient([](const List& t) { return softmax(t[0]) * t[1]; }, {x, scale}));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(log_softmax(t[0])); }, {x}));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(logsumexp(t[0], -1)); }, {x}));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(cross_entropy_of_rows(t[0], t[1])); }, {x, labels}));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(layer_norm(t[0], t[1], t[2])); }, {x, scale, shift}));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(rms_norm(t[0], t[1])); }, {x, scale}));
}

// ---- plans ----

/// Two layers with norms and a loss on labels.
Step training_step(const CompileOptions& options, const std::shared_ptr<nn::Sequential>& net,
                   const std::shared_ptr<optim::Sgd>& sgd) {
  return compile(
      options,
      [=](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::cross_entropy((*net)(x), y);
        sgd->minimize(loss, net->parameters());
        return loss;
      },
      f32(37, 12), i32(37));
}

std::shared_ptr<nn::Sequential> normed_net() {
  nn::seed(3);
  return std::make_shared<nn::Sequential>(nn::Dense(12, 24), nn::LayerNorm(24), nn::Gelu(), nn::Dense(24, 16),
                                          nn::RmsNorm(16), nn::Relu(), nn::Dense(16, 7));
}

TEST(RowPlan, NamesWhatWasFused) {
  const auto net = normed_net();
  const std::string plan = training_step({.lanes = 2}, net, std::make_shared<optim::Sgd>()).describe();
  for (const char* call : {"= layer_norm(", "= layer_norm_grad(", "= rms_norm_grad(", "= cross_entropy(",
                           "= cross_entropy_grad(", "[by the same call]"})
    EXPECT_NE(plan.find(call), std::string::npos) << call << "\n" << plan;
}

TEST(RowPlan, SameBitsWithAnyNumberOfThreadsAndAsWithoutFusing) {
  std::vector<std::vector<float>> losses;
  for (const int threads : {1, 2, 3}) {
    const auto net = normed_net();
    Step step = training_step({.threads = threads, .lanes = 3}, net, std::make_shared<optim::Sgd>());
    losses.emplace_back();
    for (unsigned i = 0; i < 4; ++i) {
      const Array x = test::random_array(f32(37, 12), i), y = test::random_array(i32(37), i);
      const float loss = step(x, y);
      losses.back().push_back(loss);
    }
    EXPECT_EQ(losses.back(), losses.front()) << threads;
  }
}

TEST(RowPlan, FusedOrNotTheGraphsComputeTheSame) {
  for (unsigned s = 0; s < 60; ++s) {
    const auto graph = test::random_graph({s, 3 + static_cast<int>(s % 9), {}});
    const auto plain = passes::optimise(*graph, passes::Fuse::no);
    for (int id = 0; id < plain->size(); ++id)
      ASSERT_FALSE(ops::is_spelled((*plain)[id].op) || ir::is_update((*plain)[id].op)) << ir::print(*plain);
    EXPECT_TRUE(test::same_results(*passes::optimise(*graph, passes::Fuse::yes), *plain, s)) << s;
  }
}

}  // namespace
}  // namespace wr
