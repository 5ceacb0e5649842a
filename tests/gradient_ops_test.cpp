// Gradients of the structured ops (contractions, shapes, indices, windows) against finite differences, first and second
// order.
#include <gtest/gtest.h>

#include "support/gradients.h"
#include "windrow/attention.h"
#include "windrow/contract.h"

namespace wr {
namespace {

using test::check_gradient;
using test::check_gradients;
using test::smooth_array;
using List = std::vector<Tensor>;

// ---- contractions ----
struct Contraction {
  const char* spec;
  std::vector<Shape> shapes;
};

class EinsumGradient : public testing::TestWithParam<Contraction> {};

TEST_P(EinsumGradient, MatchesDifferences) {
  std::vector<Array> arguments;
  for (const Shape& shape : GetParam().shapes)
    arguments.push_back(smooth_array(shape, static_cast<int>(arguments.size())));
  EXPECT_TRUE(check_gradient([](const List& x) { return einsum(GetParam().spec, x); }, arguments)) << GetParam().spec;
}

INSTANTIATE_TEST_SUITE_P(
    Specs, EinsumGradient,
    testing::Values(
        // matrix products in every orientation, vectors, outer and inner products
        Contraction{"bi,io->bo", {{3, 4}, {4, 2}}}, Contraction{"ib,io->bo", {{4, 3}, {4, 2}}},
        Contraction{"bi,oi->bo", {{3, 4}, {2, 4}}}, Contraction{"bi,io->ob", {{3, 4}, {4, 2}}},
        Contraction{"i,io->o", {{4}, {4, 3}}}, Contraction{"bi,i->b", {{3, 4}, {4}}}, Contraction{"i,i->", {{5}, {5}}},
        Contraction{"i,j->ij", {{3}, {4}}}, Contraction{"i,j->", {{3}, {4}}},
        Contraction{"ij,ij->ij", {{2, 3}, {2, 3}}},
        // batches
        Contraction{"bij,bjk->bik", {{2, 3, 2}, {2, 2, 4}}},
        Contraction{"bhqd,bhkd->bhqk", {{2, 2, 3, 2}, {2, 2, 2, 2}}}, Contraction{"bij,jk->bik", {{2, 3, 2}, {2, 4}}},
        Contraction{"bi,bj->bij", {{3, 2}, {3, 4}}},
        // one operand: sums, permutations, diagonals, traces
        Contraction{"ij->ji", {{2, 3}}}, Contraction{"ij->i", {{2, 3}}}, Contraction{"ijk->", {{2, 3, 2}}},
        Contraction{"ii->i", {{3, 3}}}, Contraction{"ii->", {{3, 3}}}, Contraction{"iij->ji", {{3, 3, 2}}},
        Contraction{"iii->i", {{2, 2, 2}}}, Contraction{"ijij->ij", {{2, 3, 2, 3}}},
        // repeated labels among several operands
        Contraction{"ii,i->i", {{3, 3}, {3}}}, Contraction{"ii,ij->j", {{3, 3}, {3, 2}}},
        Contraction{"iij,jk->ik", {{2, 2, 3}, {3, 2}}}, Contraction{"bii,bij->bj", {{2, 3, 3}, {2, 3, 2}}},
        // labels of one operand only, which are summed over
        Contraction{"ij,k->ik", {{2, 3}, {4}}}, Contraction{"ab,bc->a", {{2, 3}, {3, 4}}},
        // three and four operands
        Contraction{"xy,yz,z->xz", {{2, 3}, {3, 2}, {2}}}, Contraction{"ab,bc,cd->ad", {{2, 3}, {3, 4}, {4, 2}}},
        Contraction{"i,i,i->i", {{4}, {4}, {4}}}, Contraction{"bi,io,bo->b", {{3, 2}, {2, 4}, {3, 4}}},
        Contraction{"ab,bc,ca->", {{2, 3}, {3, 2}, {2, 2}}}, Contraction{"a,b,ab,bc->c", {{2}, {3}, {2, 3}, {3, 2}}},
        // sizes of one and scalars
        Contraction{"bi,io->bo", {{1, 4}, {4, 1}}}, Contraction{"bi,io->bo", {{3, 1}, {1, 2}}},
        Contraction{",i->i", {{}, {3}}}, Contraction{"bij,bjk->bik", {{1, 2, 3}, {1, 3, 2}}}));

TEST(ContractionGradient, TheSameOperandTwice) {
  EXPECT_TRUE(check_gradient([](const List& x) { return einsum("ij,jk->ik", {x[0], x[0]}); }, {smooth_array({3, 3})}));
  EXPECT_TRUE(check_gradient(
      [](const List& x) {
        return einsum("ij,kj,i->k", {x[0], x[0], x[1]});
      },
      {smooth_array({3, 2}), smooth_array({3}, 1)}));
}

TEST(ContractionGradient, MatmulsWithBatches) {
  const std::vector<Array> batched{smooth_array({2, 1, 3, 2}), smooth_array({4, 2, 3}, 1)};
  EXPECT_TRUE(check_gradient([](const List& x) { return matmul(x[0], x[1]); }, batched));
  EXPECT_TRUE(check_gradient([](const List& x) { return matmul_nt(x[0], x[1]); },
                             {smooth_array({3, 4}), smooth_array({2, 4}, 1)}));
  EXPECT_TRUE(check_gradient([](const List& x) { return matmul_tn(x[0], x[1]); },
                             {smooth_array({4, 3}), smooth_array({4, 2}, 1)}));
}

TEST(ContractionGradient, ALayerWithBiasAndRelu) {
  EXPECT_TRUE(check_gradient([](const List& x) { return relu(matmul(x[0], x[1]) + x[2]); },
                             {smooth_array({5, 4}), smooth_array({4, 3}, 1), smooth_array({3}, 2)}));
}

// ---- shapes ----
struct Rearrangement {
  const char* name;
  Tensor (*call)(const Tensor&);
};

class ShapeGradient : public testing::TestWithParam<Rearrangement> {};

// The square makes the second gradient say something: the rearrangements themselves are linear.
TEST_P(ShapeGradient, MatchesDifferences) {
  const Array x = smooth_array({4, 3, 2});
  EXPECT_TRUE(check_gradient([](const List& v) { return GetParam().call(v[0]); }, {x}));
  EXPECT_TRUE(check_gradient([](const List& v) { return square(GetParam().call(square(v[0]))); }, {x}));
}

#define ROW(name, expression)                         \
  Rearrangement {                                     \
#name, [](const Tensor& x) { return expression; } \
  }
INSTANTIATE_TEST_SUITE_P(
    Rearrangements, ShapeGradient,
    testing::Values(ROW(reshape, reshape(x, {6, -1})), ROW(flatten, flatten(x, 1)), ROW(permute, permute(x, {2, 0, 1})),
                    ROW(transpose, transpose(x)), ROW(expand_squeeze, squeeze(expand_dims(x, 1), 1)),
                    ROW(reshape_of_permuted, reshape(permute(x, {1, 0, 2}), {3, 8})),
                    ROW(broadcast_leading, broadcast_to(x, {2, 4, 3, 2})),
                    ROW(broadcast_middle, broadcast_to(reshape(x, {4, 3, 1, 2}), {4, 3, 3, 2})),
                    ROW(slice, slice(x, 0, 1, 3)), ROW(slice_step, slice(x, 0, 0, 4, 2)),
                    ROW(slice_step_odd, slice(x, 0, 1, 4, 3)), ROW(slice_back, slice(x, 1, -1, -4, -1)),
                    ROW(slice_back_step, slice(x, 0, 3, -5, -2)), ROW(slice_one, slice(x, 2, 1, 2)),
                    ROW(slice_none, slice(x, 0, 2, 2)), ROW(slice_twice, slice(slice(x, 0, 3, -5, -1), 1, 0, 3, 2)),
                    ROW(concat, concat({x, x * 2, slice(x, 0, 0, 1)}, 0)),
                    ROW(concat_middle, concat({x, slice(x, 1, 1, 3)}, 1)), ROW(concat_last, concat({x, x}, -1)),
                    ROW(stack, stack({x, -x}, 1)), ROW(pad, pad(x, {1, 0, 2}, {0, 3, 1})),
                    ROW(pad_value, pad(x, {0, 1, 0}, {2, 0, 0}, 0.7)),
                    ROW(pad_then_slice, slice(pad(x, {2, 0, 0}, {2, 0, 0}), 0, 1, 7, 2))),
    [](const auto& p) { return p.param.name; });
#undef ROW

TEST(ShapeGradients, ConcatOfSeveralTensors) {
  EXPECT_TRUE(check_gradient(
      [](const List& x) {
        return square(concat({x[0], x[1], x[0]}, 1));
      },
      {smooth_array({3, 2}), smooth_array({3, 4}, 1)}));
}

// ---- indices ----
const Array kIndices = Array::from<std::int32_t>({2, 0, 2, 1});

TEST(IndexGradient, Gather) {
  for (int axis : {0, 1, 2})
    EXPECT_TRUE(check_gradient([&](const List& x) { return square(gather(x[0], x[1], axis)); },
                               {smooth_array({3, 3, 3}), kIndices}))
        << axis;
  const Array square_of_indices = kIndices.reshape({2, 2});
  for (int axis : {0, 1})
    EXPECT_TRUE(check_gradient([&](const List& x) { return square(gather(x[0], x[1], axis)); },
                               {smooth_array({3, 4}), square_of_indices}))
        << axis;
  EXPECT_TRUE(check_gradient([](const List& x) { return square(gather(x[0], x[1])); },
                             {smooth_array({5}), Array::scalar<std::int32_t>(3)}));
}

TEST(IndexGradient, ScatterAdd) {
  for (int axis : {0, 1})
    EXPECT_TRUE(check_gradient([&](const List& x) { return square(scatter_add(x[0], x[1], x[2], axis)); },
                               {smooth_array({3, 3}), kIndices, smooth_array(axis ? Shape{3, 4} : Shape{4, 3}, 1)}))
        << axis;
}

TEST(IndexGradient, OutOfRangeWritesNothing) {
  const Array indices = Array::from<std::int32_t>({-1, 1, 9});
  EXPECT_TRUE(check_gradient([](const List& x) { return scatter_add(x[0], x[1], square(x[2])); },
                             {smooth_array({3, 2}), indices, smooth_array({3, 2}, 1)}));
}

TEST(IndexGradient, TakeAlong) {
  const Array columns = Array::from<std::int32_t>({{0, 2}, {1, 1}, {2, 0}}),
              rows = Array::from<std::int32_t>({{0, 2, 1}});
  EXPECT_TRUE(
      check_gradient([](const List& x) { return square(take_along(x[0], x[1], 1)); }, {smooth_array({3, 4}), columns}));
  EXPECT_TRUE(
      check_gradient([](const List& x) { return square(take_along(x[0], x[1], 0)); }, {smooth_array({4, 3}), rows}));
}

TEST(IndexGradient, EmbeddingSum) {
  const Array indices = Array::from<std::int32_t>({{0, 2, 0}, {4, 1, 3}});
  EXPECT_TRUE(
      check_gradient([](const List& x) { return square(embedding_sum(x[0], x[1])); }, {smooth_array({5, 3}), indices}));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(embedding_sum(x[0], x[1])); },
                             {smooth_array({5, 3}), indices.reshape({2, 1, 3})}));
}

TEST(IndexGradient, ChosenByOneHotOrArgmax) {
  const Array labels = Array::from<std::int32_t>({1, 0, 3});
  EXPECT_TRUE(check_gradient([](const List& x) { return sum(square(x[0]) * one_hot(x[1], 4, DType::f64), 1); },
                             {smooth_array({3, 4}), labels}));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(take_along(x[0], argmax(x[0], 1, Keep::yes), 1)); },
                             {smooth_array({3, 4})}));
}

// ---- windows ----
const Window kWindows[] = {
    {2, 2, 1, 1, 1, 1, 0, 0, 0, 0}, {2, 3, 2, 1, 1, 1, 1, 0, 1, 1}, {2, 2, 1, 2, 2, 1, 0, 1, 0, 0}};

TEST(WindowGradient, UnfoldAndFold) {
  for (const Window& w : kWindows) {
    const Array image = smooth_array({2, 4, 5, 2});
    EXPECT_TRUE(check_gradient([&](const List& x) { return square(unfold(x[0], w)); }, {image}));
    EXPECT_TRUE(
        check_gradient([&](const List& x) { return square(fold(square(unfold(x[0], w)), x[0].shape(), w)); }, {image}));
  }
}

TEST(WindowGradient, Conv2d) {
  for (Padding padding : {Padding::valid, Padding::same, Padding(1)})
    for (std::int64_t stride : {1, 2})
      for (std::int64_t dilation : {1, 2})
        EXPECT_TRUE(check_gradient(
            [&](const List& x) {
              return conv2d(x[0], x[1], {padding, stride, dilation});
            },
            {smooth_array({2, 5, 6, 2}), smooth_array({2, 3, 2, 3}, 1)}))
            << padding.each_side << " stride " << stride << " dilation " << dilation;
  EXPECT_TRUE(check_gradient([](const List& x) { return conv2d(x[0], x[1]); },
                             {smooth_array({2, 3, 3, 2}), smooth_array({1, 1, 2, 3}, 1)}));
}

TEST(WindowGradient, Conv1dTransposedAndGrouped) {
  EXPECT_TRUE(check_gradient([](const List& x) { return conv1d(x[0], x[1], {.padding = 2, .stride = 2}); },
                             {smooth_array({2, 6, 2}), smooth_array({3, 2, 3}, 1)}));
  EXPECT_TRUE(check_gradient([](const List& x) { return conv_transpose2d(x[0], x[1], {.padding = 1, .stride = 2}); },
                             {smooth_array({2, 3, 2, 2}), smooth_array({2, 3, 3, 2}, 1)}));
  EXPECT_TRUE(check_gradient([](const List& x) { return conv2d(x[0], x[1], {.padding = 1, .groups = 2}); },
                             {smooth_array({2, 4, 3, 4}), smooth_array({3, 2, 2, 2}, 1)}));
}

// The images' second axis of one element comes from a reshape, with a stride that no dense array has.
TEST(WindowGradient, ImagesOfOneColumnThatWereSequences) {
  const auto column = [](const Tensor& sequence) {  // [batch, time, channels], as PyTorch's layers turn it
    const Tensor turned = permute(2 * sequence, {0, 2, 1});
    return permute(reshape(turned, {turned.shape()[0], turned.shape()[1], turned.shape()[2], 1}), {0, 2, 3, 1});
  };
  EXPECT_TRUE(check_gradient([&](const List& x) { return conv_transpose2d(column(x[0]), x[1], {.stride = 2}); },
                             {smooth_array({2, 3, 4}), smooth_array({4, 4, 1, 2}, 1)}, 1));
  EXPECT_TRUE(check_gradient([&](const List& x) { return conv2d(column(x[0]), x[1], {.stride = 2}); },
                             {smooth_array({2, 7, 2}), smooth_array({3, 1, 2, 3}, 1)}, 1));
}

TEST(NormGradient, EachKind) {
  const std::vector<Array> in{smooth_array({3, 2, 4}), smooth_array({4}, 1), smooth_array({4}, 2)};
  EXPECT_TRUE(check_gradient([](const List& x) { return square(batch_norm(x[0], x[1], x[2])); }, in));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(group_norm(x[0], 2, x[1], x[2])); }, in));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(instance_norm(x[0], x[1], x[2])); }, in));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(rms_norm(x[0], x[1])) + x[2]; }, in));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(layer_norm(x[0], {}, x[2])) * x[1]; }, in));
}

// ---- gradients of the user's ----

TEST(CustomGradient, TheRuleReplacesTheOpsOwn) {
  const Array x = smooth_array({3, 4});
  const auto results = test::run_once(
      [](const List& in) {
        const Tensor rounded = custom_gradient(round(in[0]), in[0], [](auto&, auto&, auto& g) { return 3 * g; });
        return List{rounded, grad(sum(rounded * in[0]), {in[0]})[0]};
      },
      {x});
  EXPECT_TRUE(allclose(results[0], round(x)));
  EXPECT_TRUE(allclose(results[1], round(x) + 3 * x));
}

TEST(CustomGradient, ARightRuleAgreesWithDifferences) {
  // Mish, and a product of two arguments; of both orders, since the rules are made of ops.
  EXPECT_TRUE(check_gradient(
      [](const List& in) {
        return custom_gradient(in[0] * tanh(softplus(in[0])), in[0], [](auto& x, auto& y, auto& g) {
          const Tensor t = y / x;
          return g * (t + x * (1 - t * t) * sigmoid(x));
        });
      },
      {smooth_array({2, 5})}));
  EXPECT_TRUE(check_gradient(
      [](const List& in) {
        return custom_gradient(in[0] * in[1], in, [](auto& x, auto&, auto& g) { return List{g * x[1], g * x[0]}; });
      },
      {smooth_array({2, 5}), smooth_array({2, 5}, 1)}));
}

// Ops that have gradients of their own, whose gradients are those of what they are made of: a step of the third order
// goes through both.
TEST(ThirdOrder, OpsMadeOfOthersMatchDifferences) {
  const Array x = smooth_array({2, 3}), y = smooth_array({2, 3}, 1), scale = smooth_array({3}, 2),
              shift = smooth_array({3}, 3), labels = Array::from<std::int32_t>({0, 2});
  EXPECT_TRUE(check_gradient([](const List& t) { return softmax(t[0]) * t[1]; }, {x, y}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(log_softmax(t[0])); }, {x}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return logsumexp(t[0], -1); }, {x}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return square(cross_entropy(t[0], t[1])); }, {x, labels}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return layer_norm(t[0], t[1], t[2]); }, {x, scale, shift}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return rms_norm(t[0], t[1]); }, {x, scale}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return contract("xy,yz->xz", t[0], t[1], Semiring::noisy_or); },
                             {smooth_array({2, 2}, 0, 0.1, 0.9), smooth_array({2, 2}, 1, 0.1, 0.9)}, 3));
  EXPECT_TRUE(check_gradient([](const List& t) { return attention(t[0], t[1], t[2], AttentionForm{}); },
                             {smooth_array({1, 2, 1, 2}), smooth_array({1, 2, 1, 2}, 1), smooth_array({1, 2, 1, 2}, 2)},
                             3));
}

TEST(CustomGradient, AnEmptyTensorStopsTheGradient) {
  const auto results = test::run_once(
      [](const List& in) {
        const Tensor y = custom_gradient(in[0] * in[1], in, [](auto& x, auto&, auto& g) {
          return List{g * x[1], Tensor()};
        });
        return grad(sum(y), in, allow_unused);
      },
      {smooth_array({4}), smooth_array({4}, 1)});
  EXPECT_TRUE(identical(results[0], smooth_array({4}, 1)));
  EXPECT_TRUE(identical(results[1], Array::zeros({4}, DType::f64)));
}

TEST(CustomGradient, AnOpThatIsNotDifferentiatedCostsNothing) {
  const auto plain = compile([](const Tensor& x) { return exp(x); }, f32(4));
  const auto custom = compile(
      [](const Tensor& x) { return custom_gradient(exp(x), x, [x](auto&, auto&, auto&) { return x; }); }, f32(4));
  EXPECT_EQ(custom.graph(), plain.graph());
}

TEST(CustomGradient, InACheckpointItsArgumentsAreComputedAgain) {
  EXPECT_TRUE(check_gradient(
      [](const List& in) {
        return checkpoint(
            [](const Tensor& x) {
              const Tensor e = exp(x);
              return custom_gradient(square(e), e, [](auto& a, auto&, auto& g) { return 2 * g * a; });
            },
            in[0]);
      },
      {smooth_array({2, 3})}));
}

TEST(CustomGradient, MistakesAreNamed) {
  const auto message = [](const GradientRule& rule) -> std::string {
    try {
      compile([&](const Tensor& x) { return grad(sum(custom_gradient(exp(x), std::vector<Tensor>{x}, rule)), {x})[0]; },
              f32(4));
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message([](auto&, auto&, auto&) { return List{}; }).find("1 arguments, the rule gives 0"),
            std::string::npos);
  EXPECT_NE(message([](auto&, auto&, auto& g) {
              return List{sum(g)};
            }).find("custom_gradient: argument 0 is f32[4], the rule's gradient f32[]"),
            std::string::npos);
  EXPECT_NE(message({}).find("custom_gradient: the rule is empty"), std::string::npos);
}

TEST(WindowGradient, Pools) {
  for (std::int64_t stride : {0, 1}) {
    EXPECT_TRUE(
        check_gradient([&](const List& x) { return square(max_pool(x[0], 2, stride)); }, {smooth_array({2, 4, 4, 2})}));
    EXPECT_TRUE(
        check_gradient([&](const List& x) { return square(avg_pool(x[0], 2, stride)); }, {smooth_array({2, 4, 4, 2})}));
  }
  for (const Window& w : kWindows)
    EXPECT_TRUE(check_gradient([&](const List& x) { return square(max_pool(x[0], w)); }, {smooth_array({2, 4, 5, 2})}));
}

TEST(WindowGradient, ASmallConvolutionalNet) {
  EXPECT_TRUE(check_gradients(
      [](const List& x) {
        const Tensor h = max_pool(relu(conv2d(x[0], x[1], {.padding = Padding::same}) + x[2]), 2);
        return List{log_softmax(matmul(flatten(h, 1), x[3]))};
      },
      {smooth_array({3, 4, 4, 1}), smooth_array({3, 3, 1, 2}, 1, -0.9, 0.9), smooth_array({2}, 2),
       smooth_array({8, 3}, 3, -0.9, 0.9)}));
}

}  // namespace
}  // namespace wr
