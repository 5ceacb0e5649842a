// The passes: each rule on a small graph, and random graphs and einsums against the interpreter.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "ops/interpret.h"
#include "passes/passes.h"
#include "support/graphs.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using ir::Graph;
using ir::Op;
using test::expression;
using test::same_results;
using test::trace;

std::shared_ptr<Graph> simplified(const Graph& graph) { return passes::dce(*passes::simplify(graph)); }

/// Traces a function of x [2,3], y [2,3], r [1,3] (f32), i [2,3] (i32) and c [2,3] (bool), runs a pass, and compares
/// the expression and the numbers.
struct Names {
  Tensor x, y, r, i, c;
};
void expect_pass(const std::function<std::shared_ptr<Graph>(const Graph&)>& pass,
                 const std::function<Tensor(Names)>& fn, const std::string& expected, int line) {
  const auto graph =
      trace({f32(2, 3), f32(2, 3), f32(1, 3), i32(2, 3), boolean(2, 3)}, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{fn({in[0], in[1], in[2], in[3], in[4]})};
      });
  const auto after = pass(*graph);
  EXPECT_EQ(expression(*after, {"x", "y", "r", "i", "c"}), expected) << "line " << line;
  EXPECT_NO_THROW(ir::verify(*after));
  EXPECT_TRUE(same_results(*graph, *after, 1)) << "line " << line << "\n" << ir::print(*graph) << ir::print(*after);
  EXPECT_EQ((*after)[after->outputs[0]].spec, (*graph)[graph->outputs[0]].spec) << "line " << line;
}
#define EXPECT_SIMPLIFIED(traced, expected)        \
  expect_pass(                                     \
      simplified,                                  \
      [](Names n) -> Tensor {                      \
        [[maybe_unused]] auto [x, y, r, i, c] = n; \
        return traced;                             \
      },                                           \
      expected, __LINE__)
#define EXPECT_CONTRACTED(traced, expected)                                     \
  expect_pass([](const Graph& g) { return passes::dce(*passes::contract(g)); }, \
              [](Names n) -> Tensor {                                           \
                [[maybe_unused]] auto [x, y, r, i, c] = n;                      \
                return traced;                                                  \
              },                                                                \
              expected, __LINE__)

// ---- algebra ----

TEST(Simplify, Sums) {
  EXPECT_SIMPLIFIED(x + 0, "x");
  EXPECT_SIMPLIFIED(0 + x, "x");
  EXPECT_SIMPLIFIED(x - 0, "x");
  EXPECT_SIMPLIFIED(0 - x, "neg(x)");
  EXPECT_SIMPLIFIED(-(-x), "x");
  EXPECT_SIMPLIFIED(x + (-y), "sub(x, y)");
  EXPECT_SIMPLIFIED((-x) + y, "sub(y, x)");
  EXPECT_SIMPLIFIED(x - (-y), "add(x, y)");
  EXPECT_SIMPLIFIED(-(x - y), "sub(y, x)");
  EXPECT_SIMPLIFIED(x + x, "mul(x, 2)");
  EXPECT_SIMPLIFIED(x * 3 + x * 3, "mul(x, 6)");
  EXPECT_SIMPLIFIED(i + 0, "i");
  EXPECT_SIMPLIFIED(2 + x, "add(x, 2)");
  EXPECT_SIMPLIFIED((x + 1e9f) - 1e9f, "sub(add(x, 1e+09), 1e+09)");
}

TEST(Simplify, Products) {
  EXPECT_SIMPLIFIED(x * 1, "x");
  EXPECT_SIMPLIFIED(1 * x, "x");
  EXPECT_SIMPLIFIED(x / 1, "x");
  EXPECT_SIMPLIFIED(x * -1, "neg(x)");
  EXPECT_SIMPLIFIED(x / -1, "neg(x)");
  EXPECT_SIMPLIFIED((-x) * (-y), "mul(x, y)");
  EXPECT_SIMPLIFIED((-x) / (-y), "div(x, y)");
  EXPECT_SIMPLIFIED(-(x * 3), "mul(x, -3)");
  EXPECT_SIMPLIFIED(-(x / 3), "div(x, -3)");
  EXPECT_SIMPLIFIED((-x) * 3, "mul(x, -3)");
  EXPECT_SIMPLIFIED((-x) / 3, "div(x, -3)");
  EXPECT_SIMPLIFIED((x * 3) * 5, "mul(x, 15)");
  EXPECT_SIMPLIFIED(5 * (3 * x), "mul(x, 15)");
  EXPECT_SIMPLIFIED((x / 4) * 8, "mul(x, 2)");
  EXPECT_SIMPLIFIED((x * 3) / 6, "mul(x, 0.5)");
  EXPECT_SIMPLIFIED((x / 3) / 5, "div(x, 15)");
  EXPECT_SIMPLIFIED(x / 8, "mul(x, 0.125)");
  EXPECT_SIMPLIFIED(x / -0.5, "mul(x, -2)");
  EXPECT_SIMPLIFIED(x / 3, "div(x, 3)");
  EXPECT_SIMPLIFIED(2 * x, "mul(x, 2)");
  EXPECT_SIMPLIFIED(x * 0, "mul(x, 0)");  // x may be infinite
  EXPECT_SIMPLIFIED((x * 1e-30) * 1e-30, "mul(mul(x, 1e-30), 1e-30)");
  EXPECT_SIMPLIFIED((x * 1e30) * 1e30, "mul(mul(x, 1e+30), 1e+30)");
}

TEST(Simplify, Powers) {
  EXPECT_SIMPLIFIED(x * x, "square(x)");
  EXPECT_SIMPLIFIED(square(-x), "square(x)");
  EXPECT_SIMPLIFIED(square(abs(x)), "square(x)");
  EXPECT_SIMPLIFIED(abs(-x), "abs(x)");
  EXPECT_SIMPLIFIED(abs(abs(x)), "abs(x)");
  EXPECT_SIMPLIFIED(abs(square(x)), "square(x)");
  EXPECT_SIMPLIFIED(pow(abs(x), 1), "abs(x)");
  EXPECT_SIMPLIFIED(pow(abs(x), 2), "square(x)");
  EXPECT_SIMPLIFIED(pow(abs(x), 0.5), "sqrt(abs(x))");
  EXPECT_SIMPLIFIED(pow(abs(x), -1), "reciprocal(abs(x))");
  EXPECT_SIMPLIFIED(pow(abs(x), -0.5), "rsqrt(abs(x))");
  EXPECT_SIMPLIFIED(pow(abs(x), 3), "pow(abs(x), 3)");
  EXPECT_SIMPLIFIED(reciprocal(reciprocal(x)), "x");
  EXPECT_SIMPLIFIED(reciprocal(sqrt(exp(x))), "rsqrt(exp(x))");
}

TEST(Simplify, Choices) {
  EXPECT_SIMPLIFIED(maximum(x, 0), "relu(x)");
  EXPECT_SIMPLIFIED(maximum(0, x), "relu(x)");
  EXPECT_SIMPLIFIED(maximum(i, 0), "relu(i)");
  EXPECT_SIMPLIFIED(maximum(x, x), "x");
  EXPECT_SIMPLIFIED(minimum(x, x), "x");
  EXPECT_SIMPLIFIED(relu(relu(x)), "relu(x)");
  EXPECT_SIMPLIFIED(relu(x * x), "square(x)");
  EXPECT_SIMPLIFIED(relu(abs(x)), "abs(x)");
  EXPECT_SIMPLIFIED(where(c, x, x), "x");
  EXPECT_SIMPLIFIED(where(full({2, 3}, 1, DType::boolean), x, y), "x");
  EXPECT_SIMPLIFIED(where(full({2, 3}, 0, DType::boolean), x, y), "y");
  EXPECT_SIMPLIFIED(where(c, r, r), "broadcast(r)[2,3]");
  EXPECT_SIMPLIFIED(where(logical_not(c), x, y), "where(c, y, x)");
  EXPECT_SIMPLIFIED(logical_not(logical_not(c)), "c");
  EXPECT_SIMPLIFIED(logical_and(c, c), "c");
  EXPECT_SIMPLIFIED(logical_or(c, c), "c");
  EXPECT_SIMPLIFIED(logical_and(c, full({1, 1}, 1, DType::boolean)), "c");
  EXPECT_SIMPLIFIED(logical_or(c, full({1, 1}, 0, DType::boolean)), "c");
  EXPECT_SIMPLIFIED(stop_gradient(x) + y, "add(x, y)");
}

TEST(Simplify, GradientLooksAtReluResult) {
  const auto graph = trace({f32(4), f32(4)}, [](const std::vector<Tensor>& in) {
    const Tensor y = relu(in[0]);
    return std::vector<Tensor>{y + relu_grad(in[0], in[1])};
  });
  EXPECT_EQ(expression(*simplified(*graph), {"x", "g"}), "add(relu(x), relu_grad(relu(x), g))");
  EXPECT_SIMPLIFIED(relu_grad(x, y), "relu_grad(x, y)");
}

TEST(Simplify, CommutedOperandsAreOneNode) {
  const auto graph = trace({f32(4), f32(4)}, [](const std::vector<Tensor>& in) {
    const Tensor ab = in[0] * in[1], ba = in[1] * in[0];
    return std::vector<Tensor>{ab - ba, in[0] - in[1], in[1] - in[0]};
  });
  EXPECT_EQ(ir::print(*simplified(*graph)),
            "%0 = input 0 : f32[4]\n"
            "%1 = input 1 : f32[4]\n"
            "%2 = mul(%0, %1) : f32[4]\n"
            "%3 = sub(%2, %2) : f32[4]\n"
            "%4 = sub(%0, %1) : f32[4]\n"
            "%5 = sub(%1, %0) : f32[4]\n"
            "outputs %3, %4, %5\n");
}

TEST(Simplify, Casts) {
  EXPECT_SIMPLIFIED(cast(cast(i, DType::f64), DType::i32), "i");
  EXPECT_SIMPLIFIED(cast(cast(c, DType::u8), DType::f32), "cast(c):f32");
  EXPECT_SIMPLIFIED(cast(cast(x, DType::f64), DType::i32), "cast(x):i32");
  EXPECT_SIMPLIFIED(cast(cast(x, DType::i32), DType::f32), "cast(cast(x):i32):f32");
  EXPECT_SIMPLIFIED(cast(cast(i, DType::f32), DType::i32), "cast(cast(i):f32):i32");
}

// ---- views and reductions ----

TEST(Simplify, PermutesMoveBehindWhatIsDoneToThem) {
  EXPECT_SIMPLIFIED(relu(transpose(x)), "permute(relu(x)){1,0}");
  EXPECT_SIMPLIFIED(transpose(relu(transpose(x))), "relu(x)");
  EXPECT_SIMPLIFIED(transpose(transpose(x) * transpose(y)), "mul(x, y)");
  EXPECT_SIMPLIFIED(transpose(transpose(x) * 2), "mul(x, 2)");
  EXPECT_SIMPLIFIED(transpose(transpose(x) + transpose(r)), "add(x, r)");  // repeated over rows
  EXPECT_SIMPLIFIED(transpose(where(transpose(c), transpose(x), transpose(y))), "where(c, x, y)");
  EXPECT_SIMPLIFIED(transpose(x) + reshape(y, {3, 2}), "add(permute(x){1,0}, reshape(y)[3,2])");  // not alike
  EXPECT_SIMPLIFIED(sum(transpose(x), 1, Keep::yes), "reshape(reduce_sum(x){0})[3,1]");
  // An order that is not its own inverse.
  EXPECT_SIMPLIFIED(permute(permute(reshape(x, {1, 2, 3}), {2, 0, 1}) + reshape(r, {3, 1, 1}), {1, 2, 0}),
                    "add(reshape(x)[1,2,3], reshape(r)[1,1,3])");
  EXPECT_SIMPLIFIED(transpose(concat({transpose(x), transpose(y)}, 0)), "concat(x, y){1}");
}

TEST(Simplify, ViewsOfViews) {
  EXPECT_SIMPLIFIED(reshape(reshape(x, {6}), {3, 2}), "reshape(x)[3,2]");
  EXPECT_SIMPLIFIED(reshape(reshape(x, {6}), {2, 3}), "x");
  EXPECT_SIMPLIFIED(transpose(transpose(x)), "x");
  EXPECT_SIMPLIFIED(permute(x, {0, 1}), "x");
  EXPECT_SIMPLIFIED(permute(permute(reshape(x, {1, 2, 3}), {2, 0, 1}), {1, 2, 0}), "reshape(x)[1,2,3]");
  EXPECT_SIMPLIFIED(transpose(r), "reshape(r)[3,1]");
  EXPECT_SIMPLIFIED(broadcast_to(broadcast_to(r, {2, 3}), {4, 2, 3}), "broadcast(reshape(r)[1,1,3])[4,2,3]");
  EXPECT_SIMPLIFIED(slice(slice(x, 1, 1, 3), 1, 1, 2), "slice(x){0 2, 2 1, 1 1}");
  EXPECT_SIMPLIFIED(slice(slice(reshape(x, {6}), 0, 5, -7, -1), 0, 1, 6, 2), "slice(reshape(x)[6]){4, 3, -2}");
  EXPECT_SIMPLIFIED(slice(broadcast_to(r, {2, 3}), 0, 0, 1), "r");
  EXPECT_SIMPLIFIED(pad(x, {0, 0}, {0, 0}), "x");
  EXPECT_SIMPLIFIED(transpose(broadcast_to(r, {2, 3})), "broadcast(reshape(r)[3,1])[3,2]");
  EXPECT_SIMPLIFIED(reshape(broadcast_to(r, {2, 3}), {2, 1, 3}), "broadcast(reshape(r)[1,1,3])[2,1,3]");
  EXPECT_SIMPLIFIED(reshape(broadcast_to(r, {2, 3}), {6}), "reshape(broadcast(r)[2,3])[6]");
}

TEST(Simplify, RowsComeBeforeReshapes) {
  EXPECT_SIMPLIFIED(softmax(reshape(relu(x), {2, 1, 3})), "reshape(softmax(relu(x)))[2,1,3]");
  EXPECT_SIMPLIFIED(reshape(softmax(reshape(x, {2, 1, 3})), {2, 3}), "softmax(x)");
  EXPECT_SIMPLIFIED(softmax(reshape(x, {3, 2})), "softmax(reshape(x)[3,2])");  // other rows
  EXPECT_SIMPLIFIED(sum(reshape(relu(x), {6})), "reshape(reduce_sum(relu(x)){0,1})[]");
  EXPECT_SIMPLIFIED(sum(reshape(relu(x), {6, 1}), 0), "reshape(reduce_sum(relu(x)){0,1})[1]");
  EXPECT_SIMPLIFIED(sum(reshape(relu(x), {3, 2}), 0), "reshape(reduce_sum(reshape(relu(x))[3,2]){0})[2]");
}

TEST(Simplify, RowsBeforeReshapesComputeTheSame) {
  const auto graph = test::trace({f32(2, 3, 4, 5), i32(2, 3, 4), f32(5), f32(5)}, [](const std::vector<Tensor>& in) {
    const Tensor rows = reshape(tanh(in[0]), {24, 5}), groups = reshape(in[0] * in[0], {6, 4, 5});
    const Tensor loss = loss::cross_entropy(rows, reshape(in[1], {24})) +
                        sum(layer_norm(groups, in[2], in[3]) * groups) + mean(softmax(rows) * rows) +
                        sum(reshape(log_softmax(groups), {2, 60}));
    std::vector<Tensor> results{loss, softmax(reshape(in[0], {3, 2, 4, 5}))};
    for (const Tensor& g : grad(loss, {in[0], in[2], in[3]})) results.push_back(g);
    return results;
  });
  const auto simple = passes::simplify(*graph);
  EXPECT_TRUE(test::same_results(*simple, *graph, 5)) << ir::print(*simple);
  EXPECT_TRUE(test::same_results(*passes::optimise(*graph), *graph, 6));
}

TEST(Simplify, BroadcastsAreTakenIn) {
  EXPECT_SIMPLIFIED(x + broadcast_to(r, {2, 3}), "add(x, r)");
  EXPECT_SIMPLIFIED(exp(broadcast_to(r, {2, 3})), "broadcast(exp(r))[2,3]");
  EXPECT_SIMPLIFIED(exp(broadcast_to(r, {2, 3})) * x, "mul(exp(r), x)");
  EXPECT_SIMPLIFIED(full({2, 3}, 2) * full({2, 3}, 3) + x, "add(x, 6)");
  EXPECT_SIMPLIFIED(full({2, 1}, 2) + full({1, 3}, 3), "broadcast(5)[2,3]");
  EXPECT_SIMPLIFIED(r + full({2, 3}, 0), "broadcast(r)[2,3]");
}

TEST(Simplify, Reductions) {
  EXPECT_SIMPLIFIED(sum(r, 0, Keep::yes), "r");
  EXPECT_SIMPLIFIED(sum(r), "reshape(reduce_sum(r){1})[]");
  EXPECT_SIMPLIFIED(max(max(x, 0, Keep::yes), 1, Keep::yes), "reduce_max(x){0,1}");
  EXPECT_SIMPLIFIED(sum(sum(x, 0, Keep::yes), 1, Keep::yes), "reduce_sum(x){0,1}");
  EXPECT_SIMPLIFIED(max(sum(x, 0, Keep::yes), 1, Keep::yes), "reduce_max(reduce_sum(x){0}){1}");
  EXPECT_SIMPLIFIED(sum(broadcast_to(r, {2, 3}), 0, Keep::yes), "mul(r, 2)");
  EXPECT_SIMPLIFIED(max(broadcast_to(r, {2, 3}), 0, Keep::yes), "r");
  EXPECT_SIMPLIFIED(sum(broadcast_to(r, {2, 3}), 1, Keep::yes), "broadcast(reduce_sum(r){1})[2,1]");
  EXPECT_SIMPLIFIED(sum(full({2, 3}, 0.5)), "3");
  EXPECT_SIMPLIFIED(argmax(r, 0), "broadcast(0)[3]");
}

TEST(Simplify, InnerReductionThatIsUsedTwiceStays) {
  EXPECT_SIMPLIFIED(sum(sum(x, 0, Keep::yes), 1, Keep::yes) + sum(x, 0, Keep::yes),
                    "add(reduce_sum(reduce_sum(x){0}){1}, reduce_sum(x){0})");
}

TEST(Simplify, EinsumTakesInViews) {
  EXPECT_SIMPLIFIED(matmul(transpose(x), y), "einsum(x, y){km,kn->mn}");
  EXPECT_SIMPLIFIED(matmul(x, transpose(y)), "einsum(x, y){mk,nk->mn}");
  EXPECT_SIMPLIFIED(transpose(matmul(x, transpose(y))), "einsum(x, y){mk,nk->nm}");
  EXPECT_SIMPLIFIED(einsum("bi,bo->io", {x, broadcast_to(r, {2, 3})}), "einsum(x, reshape(r)[3]){bi,o->io}");
  EXPECT_SIMPLIFIED(einsum("bi,ij->bj", {broadcast_to(r, {2, 3}), reshape(concat({x, r}, 0), {3, 3})}),
                    "broadcast(reshape(einsum(reshape(r)[3], concat(x, r){0}){i,ij->j})[1,3])[2,3]");
  EXPECT_SIMPLIFIED(einsum("bi->i", {broadcast_to(r, {2, 3})}), "mul(einsum(reshape(r)[3]){i->i}, 2)");
  EXPECT_SIMPLIFIED(sum(einsum("bi,bj->ij", {x, y}), 1), "einsum(x, y){bi,bj->i}");
}

TEST(Simplify, TransposedEinsumThatIsUsedTwiceStays) {
  EXPECT_SIMPLIFIED(matmul_nt(x, y) + transpose(matmul_nt(x, y)),
                    "add(einsum(x, y){mk,nk->mn}, permute(einsum(x, y){mk,nk->mn}){1,0})");
}

TEST(Simplify, PrintedGraph) {
  const auto before = ir::parse(
      "%0 = input 0 : f32[4,3]\n"
      "%1 = state \"w\" : f32[2,3]\n"
      "%2 = permute(%1) {ints=[1, 0]} : f32[3,2] scope=1\n"
      "%3 = einsum(%0, %2) {text=\"bi,io->bo\"} : f32[4,2] scope=1\n"
      "%4 = constant [2] : f32[1,1]\n"
      "%5 = broadcast(%4) {ints=[4, 2]} : f32[4,2]\n"
      "%6 = mul(%5, %3) : f32[4,2]\n"
      "%7 = div(%6, %4) : f32[4,2] gradient\n"
      "outputs %7\n"
      "updates %1 <- %1\n");
  EXPECT_EQ(ir::print(*passes::dce(*passes::simplify(*before))),
            "%0 = input 0 : f32[4,3]\n"
            "%1 = state \"w\" : f32[2,3]\n"
            "%2 = einsum(%0, %1) {text=\"bi,oi->bo\"} : f32[4,2] scope=1\n"
            "outputs %2\n"
            "updates %1 <- %1\n");
}

TEST(Simplify, CopiesForCheckpointsStayApart) {
  const auto before = ir::parse(
      "%0 = input 0 : f32[4]\n"
      "%1 = exp(%0) : f32[4] scope=1\n"
      "%2 = exp(%0) : f32[4] copy=1 gradient\n"
      "%3 = mul(%1, %2) : f32[4]\n"
      "outputs %3\n");
  EXPECT_EQ(ir::print(*passes::optimise(*before)), ir::print(*before));
}

// ---- fold, contract, dce ----

TEST(Fold, OpsOnConstantsBecomeConstants) {
  const auto graph = trace({}, [](const std::vector<Tensor>&) {
    const Tensor a(Array::from<float>({1, 2, 3})), b(Array::from<float>({4, 5, 6}));
    return std::vector<Tensor>{a * b + 1,
                               sum(a),
                               reshape(cast(a, DType::i32), {3, 1}),
                               broadcast_to(a, {2, 3}),
                               einsum("i,i->", {a, b}),
                               cast(iota({3}, 0), DType::f32) * 2};
  });
  EXPECT_EQ(ir::print(*passes::dce(*passes::fold(*graph))),
            "%0 = constant [5, 11, 19] : f32[3]\n"
            "%1 = constant [6] : f32[]\n"
            "%2 = constant [1, 2, 3] : i32[3,1]\n"
            "%3 = constant [1, 2, 3] : f32[1,3]\n"
            "%4 = broadcast(%3) {ints=[2, 3]} : f32[2,3]\n"
            "%5 = constant [32] : f32[]\n"
            "%6 = constant [0, 2, 4] : f32[3]\n"
            "outputs %0, %1, %2, %4, %5, %6\n");
}

TEST(Fold, RoundsAtEachOp) {
  const auto graph = trace({}, [](const std::vector<Tensor>&) {
    const Tensor big(Array::scalar(16777216.0f));
    return std::vector<Tensor>{(big + 1) - big};
  });
  EXPECT_EQ(expression(*passes::dce(*passes::fold(*graph)), {}), "0");
}

TEST(Fold, LargeResultsStay) {
  const auto graph =
      trace({}, [](const std::vector<Tensor>&) { return std::vector<Tensor>{Tensor(Array::zeros({5000})) + 1}; });
  EXPECT_EQ((*passes::fold(*graph))[passes::fold(*graph)->outputs[0]].op, Op::add);
}

TEST(Contract, ProductsThatAreAdded) {
  EXPECT_CONTRACTED(x * y + r, "muladd(x, y, r)");
  EXPECT_CONTRACTED(r + x * y, "muladd(x, y, r)");
  EXPECT_CONTRACTED(square(x) + y, "muladd(x, x, y)");
  EXPECT_CONTRACTED(x - y * 2, "muladd(y, -2, x)");
  EXPECT_CONTRACTED(x * y - 3, "muladd(x, y, -3)");
  EXPECT_CONTRACTED(y * (1 - square(x)), "tanh_grad(x, y)");
  EXPECT_CONTRACTED(y * x * (1 - x), "sigmoid_grad(x, y)");
  EXPECT_CONTRACTED(x * (1 - x) * y, "sigmoid_grad(x, y)");
  EXPECT_CONTRACTED(x - y * r, "sub(x, mul(y, r))");
  EXPECT_CONTRACTED(i * i + i, "add(mul(i, i), i)");
  EXPECT_CONTRACTED(r * r + x, "add(mul(r, r), x)");  // the product is smaller than the sum
  EXPECT_CONTRACTED((x * y + r) / (x * y), "div(add(mul(x, y), r), mul(x, y))");
}

TEST(Contract, BiasesAndActivations) {
  EXPECT_CONTRACTED(relu(x + r), "add_relu(x, r)");
  EXPECT_CONTRACTED(tanh(r + x), "add_tanh(r, x)");
  EXPECT_CONTRACTED(sigmoid(x + 1), "add_sigmoid(x, 1)");
  EXPECT_CONTRACTED(relu(i + i), "relu(add(i, i))");
  EXPECT_CONTRACTED(relu(x + r) / (x + r), "div(relu(add(x, r)), add(x, r))");  // the sum is needed itself
}

// ---- sums of pads ----

#define EXPECT_JOINED(traced, expected)                                          \
  expect_pass([](const Graph& g) { return passes::dce(*passes::join_pads(g)); }, \
              [](Names n) -> Tensor {                                            \
                [[maybe_unused]] auto [x, y, r, i, c] = n;                       \
                return traced;                                                   \
              },                                                                 \
              expected, __LINE__)

/// x with zeros before and after it along an axis.
Tensor put(const Tensor& x, int axis, std::int64_t before, std::int64_t after) {
  Dims low(x.rank(), 0), high(x.rank(), 0);
  low[axis] = before;
  high[axis] = after;
  return pad(x, low, high);
}

TEST(JoinPads, PartsThatDoNotOverlap) {
  EXPECT_JOINED(put(x, 0, 0, 2) + put(y, 0, 2, 0), "concat(x, y){0}");
  EXPECT_JOINED(put(y, 1, 3, 0) + put(x, 1, 0, 3), "concat(x, y){1}");
  EXPECT_JOINED(put(r, 0, 2, 0) + (put(r, 0, 0, 2) + put(r, 0, 1, 1)), "concat(r, r, r){0}");
  EXPECT_JOINED(put(i, 0, 0, 2) + put(i, 0, 2, 0), "concat(i, i){0}");
}

TEST(JoinPads, GapsAreZeros) {
  EXPECT_JOINED(put(r, 0, 0, 3) + put(r, 0, 2, 1), "concat(r, broadcast(0)[1,3], r, broadcast(0)[1,3]){0}");
}

TEST(JoinPads, OtherTermsStay) {
  EXPECT_JOINED(put(r, 0, 0, 1) + x + put(r, 0, 1, 0) + y, "add(add(x, y), concat(r, r){0})");
  EXPECT_JOINED(put(r, 0, 0, 1) + r + put(r, 0, 1, 0), "add(r, concat(r, r){0})");
}

TEST(JoinPads, PartsThatOverlapMakeTwoRows) {
  EXPECT_JOINED(put(r, 0, 0, 1) + put(r, 0, 1, 0) + put(-r, 0, 0, 1) + put(-r, 0, 1, 0),
                "add(concat(r, r){0}, concat(neg(r), neg(r)){0})");
}

TEST(JoinPads, WhatCannotBeJoinedStays) {
  EXPECT_JOINED(put(x, 0, 0, 1) + put(y, 0, 1, 0), "add(pad(x){0,0,1,0}, pad(y){1,0,0,0})");
  EXPECT_JOINED(pad(x, {1, 0}, {0, 1}) + pad(y, {0, 0}, {1, 1}), "add(pad(x){1,0,0,1}, pad(y){0,0,1,1})");
  EXPECT_JOINED(pad(x, {2, 0}, {0, 0}, 1) + pad(y, {0, 0}, {2, 0}, 1), "add(pad(x){2,0,0,0}, pad(y){0,0,2,0})");
  EXPECT_JOINED(mul(put(x, 0, 0, 2), put(y, 0, 2, 0)), "mul(pad(x){0,0,2,0}, pad(y){2,0,0,0})");
}

TEST(JoinPads, TheGradientOfMomentsIsNoSum) {
  const auto graph = trace({f32(4, 50, 3)}, [](const std::vector<Tensor>& in) {
    Tensor h = full({4, 3}, 0);
    for (int t = 0; t < 50; ++t) h = tanh(h + reshape(slice(in[0], 1, t, t + 1), {4, 3}));
    return grad(sum(h), {in[0]});
  });
  const auto after = passes::optimise(*graph);
  int pads = 0, concats = 0;
  for (int id = 0; id < after->size(); ++id) {
    pads += (*after)[id].op == Op::pad;
    concats += (*after)[id].op == Op::concat;
  }
  EXPECT_EQ(pads, 0);
  EXPECT_EQ(concats, 1);
  EXPECT_TRUE(same_results(*graph, *after, 1));
}

TEST(Dce, KeepsInputsAndOrder) {
  const auto before = ir::parse(
      "%0 = constant [1] : f32[1]\n"
      "%1 = input 1 : f32[1]\n"
      "%2 = input 0 : f32[2]\n"
      "%3 = state \"unused\" : f32[1]\n"
      "%4 = state \"w\" : f32[1]\n"
      "%5 = exp(%1) : f32[1]\n"
      "%6 = add(%4, %0) : f32[1]\n"
      "updates %4 <- %6\n");
  EXPECT_EQ(ir::print(*passes::dce(*before)),
            "%0 = input 0 : f32[2]\n"
            "%1 = input 1 : f32[1]\n"
            "%2 = constant [1] : f32[1]\n"
            "%3 = state \"w\" : f32[1]\n"
            "%4 = add(%3, %2) : f32[1]\n"
            "updates %3 <- %4\n");
}

// ---- einsum lowering ----

std::string lowered(const std::string& spec, const std::vector<Spec>& shapes) {
  const auto graph =
      trace(shapes, [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{einsum(spec, in)}; });
  const auto after = passes::dce(*passes::lower_einsum(*graph));
  EXPECT_NO_THROW(ir::verify(*after));
  for (int id = 0; id < after->size(); ++id) EXPECT_TRUE(passes::is_lowered(*after, id)) << ir::print(*after);
  EXPECT_TRUE(same_results(*graph, *after, 7)) << spec << "\n" << ir::print(*after);
  return expression(*after, {"x", "y", "z", "u", "v"});
}

TEST(LowerEinsum, OneOperand) {
  EXPECT_EQ(lowered("ij->ij", {f32(2, 3)}), "x");
  EXPECT_EQ(lowered("ij->ji", {f32(2, 3)}), "permute(x){1,0}");
  EXPECT_EQ(lowered("ij->", {f32(2, 3)}), "reshape(reduce_sum(x){0,1})[]");
  EXPECT_EQ(lowered("ij->j", {f32(2, 3)}), "reshape(reduce_sum(x){0})[3]");
  EXPECT_EQ(lowered("ii->i", {f32(3, 3)}), "slice(reshape(x)[9]){0, 3, 4}");
  EXPECT_EQ(lowered("ii->", {f32(3, 3)}), "reshape(reduce_sum(slice(reshape(x)[9]){0, 3, 4}){0})[]");
  EXPECT_EQ(lowered("ij->ji", {f32(1, 3)}), "reshape(reshape(x)[3])[3,1]");
}

TEST(LowerEinsum, TwoOperands) {
  EXPECT_EQ(lowered("mk,kn->mn", {f32(2, 3), f32(3, 4)}), "einsum(x, y){mk,kn->mn}");
  EXPECT_EQ(lowered("bmk,bkn->bmn", {f32(5, 2, 3), f32(5, 3, 4)}), "einsum(x, y){bmk,bkn->bmn}");
  EXPECT_EQ(lowered("i,j->ij", {f32(2), f32(3)}), "mul(reshape(x)[2,1], reshape(y)[1,3])");
  EXPECT_EQ(lowered("bi,bi->b", {f32(2, 3), f32(2, 3)}), "reshape(reduce_sum(mul(x, y)){1})[2]");
  EXPECT_EQ(lowered("mk,kn->m", {f32(2, 3), f32(3, 4)}), "einsum(x, reshape(reduce_sum(y){1})[3]){mk,k->m}");
  EXPECT_EQ(lowered("mk,kn->mn", {f32(2, 1), f32(1, 4)}),
            "mul(reshape(reshape(x)[2])[2,1], reshape(reshape(y)[4])[1,4])");
}

TEST(LowerEinsum, OrderByCost) {
  // A scale along the result's axis is applied to the result.
  EXPECT_EQ(lowered("xy,yz,z->xz", {f32(8, 8), f32(8, 8), f32(8)}), "mul(einsum(x, y){xy,yz->xz}, reshape(z)[1,8])");
  EXPECT_EQ(lowered("ab,bc,cd->ad", {f32(2, 9), f32(9, 9), f32(9, 9)}),
            "einsum(einsum(x, y){ab,bc->ac}, z){ac,cd->ad}");
  EXPECT_EQ(lowered("ab,bc,cd->ad", {f32(9, 9), f32(9, 9), f32(9, 2)}),
            "einsum(x, einsum(y, z){bc,cd->bd}){ab,bd->ad}");
}

TEST(LowerEinsum, RandomSpecs) {
  std::mt19937 random(3);
  auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int turn = 0; turn < 400; ++turn) {
    const std::int64_t sizes[] = {1 + draw(3), 1 + draw(3), 1 + draw(4), 1, 1 + draw(3), 2};
    std::string spec, seen;
    std::vector<Spec> shapes;
    for (int operand = 0, n = 1 + draw(5); operand < n; ++operand) {
      if (operand) spec += ',';
      Spec shape{DType::f64, {}};
      for (int axis = 0, rank = draw(5); axis < rank; ++axis) {
        const int label = draw(6);
        spec += static_cast<char>('a' + label);
        if (seen.find(spec.back()) == std::string::npos) seen += spec.back();
        shape.shape.push_back(sizes[label]);
      }
      shapes.push_back(shape);
    }
    spec += "->";
    std::shuffle(seen.begin(), seen.end(), random);
    spec += seen.substr(0, static_cast<std::size_t>(draw(static_cast<int>(seen.size()) + 1)));
    lowered(spec, shapes);
    if (HasFailure()) FAIL() << spec;
  }
}

TEST(LowerEinsum, ManyOperandsGreedily) {
  std::string spec;
  std::vector<Spec> shapes;
  for (char c = 'a'; c < 'a' + 12; ++c) {
    spec += std::string(c == 'a' ? "" : ",") + c + static_cast<char>(c + 1);
    shapes.push_back(f64(2, 2));
  }
  lowered(spec + "->am", shapes);
}

// ---- everything together ----

TEST(Optimise, RandomSteps) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const auto graph = test::random_graph({.seed = seed, .ops = 25, .without = {}});
    const auto after = passes::optimise(*graph);
    ASSERT_NO_THROW(ir::verify(*after)) << seed;
    ASSERT_TRUE(same_results(*graph, *after, seed)) << seed << "\n" << ir::print(*graph) << "\n" << ir::print(*after);
    const std::string text = ir::print(*after);
    ASSERT_EQ(ir::print(*ir::parse(text)), text);
    ASSERT_EQ(ir::print(*passes::optimise(*after)), text) << seed << ": not stable\n" << ir::print(*graph);
    for (int id = 0; id < after->size(); ++id) ASSERT_TRUE(passes::is_lowered(*after, id));
  }
}

// ---- traits ----

TEST(Traits, CommutativeOpsAreFoundByAskingTheFormulas) {
  std::vector<std::string_view> found;
  for (int op = 0; op < ir::kOps; ++op)
    if (const ir::OpDef& def = ir::definition(static_cast<Op>(op)); def.traits.commutative) found.push_back(def.name);
  EXPECT_EQ(found,
            (std::vector<std::string_view>{"add", "mul", "maximum", "minimum", "add_relu", "add_tanh", "add_sigmoid",
                                           "eq", "ne", "logical_and", "logical_or", "logical_xor"}));
}

TEST(Traits, HeavyOpsTakeAPolynomial) {
  for (const Op op : {Op::exp, Op::log, Op::tanh, Op::gelu, Op::pow, Op::adam_step, Op::adam_update, Op::random})
    EXPECT_TRUE(ir::definition(op).traits.heavy) << ir::definition(op).name;
  for (const Op op : {Op::add, Op::div, Op::sqrt, Op::rsqrt, Op::lerp, Op::momentum_update, Op::reduce_sum})
    EXPECT_FALSE(ir::definition(op).traits.heavy) << ir::definition(op).name;
}

TEST(Traits, FloatingPointOperations) {
  const auto graph = ir::parse(
      "%0 = input 0 : f32[4,3]\n"
      "%1 = input 1 : f32[3,5]\n"
      "%2 = einsum(%0, %1) {text=\"bi,io->bo\"} : f32[4,5]\n"
      "%3 = exp(%2) : f32[4,5]\n"
      "%4 = reduce_sum(%3) {ints=[0]} : f32[1,5]\n"
      "%5 = permute(%3) {ints=[1, 0]} : f32[5,4]\n");
  const double expected[] = {0, 0, 2 * 4 * 3 * 5, 20, 20, 0};
  for (int id = 0; id < graph->size(); ++id) EXPECT_EQ(ir::flops_of(*graph, (*graph)[id]), expected[id]) << id;
}

}  // namespace
}  // namespace wr
