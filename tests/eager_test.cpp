// Eager ops on arrays: in place, overlaps, sharing, allocations, threads, messages, operators; and every structured op
// against the same function traced and computed by the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <concepts>
#include <thread>

#include "backend/cpu/target.h"
#include "count_allocations.h"
#include "errors.h"
#include "ops/interpret.h"
#include "step/eager.h"
#include "support/graphs.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

// ---- which overload: arrays and numbers give an Array, any tensor or state among them a Tensor
template <class Expected, class Actual>
concept Gives = std::same_as<Expected, std::remove_cvref_t<Actual>>;
[[maybe_unused]] void overloads([[maybe_unused]] const Array& array, [[maybe_unused]] const Tensor& tensor,
                                [[maybe_unused]] const State& state) {
  static_assert(Gives<Array, decltype(array + array)>);
  static_assert(Gives<Array, decltype(array * 2)>);
  static_assert(Gives<Array, decltype(2.0f - array)>);
  static_assert(Gives<Array, decltype(array < 1)>);
  static_assert(Gives<Array, decltype(-array)>);
  static_assert(Gives<Array, decltype(exp(array))>);
  static_assert(Gives<Array, decltype(clamp(array, 0, 1))>);
  static_assert(Gives<Array, decltype(lerp(0.0, array, 0.5))>);
  static_assert(Gives<Array, decltype(where(array, 1, array))>);
  static_assert(Gives<Array, decltype(sum(array, {0, 1}))>);
  static_assert(Gives<Array, decltype(einsum("i,i->", {array, array}))>);
  static_assert(Gives<Array, decltype(concat({array, array}, 0))>);
  static_assert(Gives<Array, decltype(conv2d(array, array, {}))>);
  static_assert(Gives<Tensor, decltype(array + tensor)>);
  static_assert(Gives<Tensor, decltype(tensor * array)>);
  static_assert(Gives<Tensor, decltype(state + array)>);
  static_assert(Gives<Tensor, decltype(array / state)>);
  static_assert(Gives<Tensor, decltype(2 * tensor)>);
  static_assert(Gives<Tensor, decltype(2 * state)>);
  static_assert(Gives<Tensor, decltype(state * state)>);
  static_assert(Gives<Tensor, decltype(exp(state))>);
  static_assert(Gives<Tensor, decltype(where(array, tensor, 0))>);
  static_assert(Gives<Tensor, decltype(muladd(array, array, tensor))>);
  static_assert(Gives<Tensor, decltype(matmul(array, state))>);
  static_assert(Gives<Tensor, decltype(einsum("i,i->", {array, tensor}))>);
  static_assert(Gives<Tensor, decltype(concat({tensor, array}, 0))>);
}

Array random(const Shape& shape, unsigned seed = 1, DType dtype = DType::f32) {
  return test::random_array({dtype, shape}, seed);
}
Array indices(const Shape& shape, unsigned seed = 1) { return random(shape, seed, DType::i32); }

using Traced = std::function<Tensor(const std::vector<Tensor>&)>;

/// What the traced function computes, worked out in double.
Array reference(const std::vector<Array>& in, const Traced& fn) {
  std::vector<Spec> specs;
  for (const Array& a : in) specs.push_back({a.dtype(), a.shape()});
  const auto graph = test::trace(specs, [&](const auto& x) { return std::vector<Tensor>{fn(x)}; });
  return ir::interpret(*graph, in, ir::Rounding::none).outputs[0].astype((*graph)[graph->outputs[0]].spec.dtype);
}

#define EXPECT_MESSAGE(statement, text) \
  EXPECT_EQ(error_of([&] { statement; }), "eager_test.cpp:" + std::to_string(__LINE__) + ": " text)

// ---- every structured op, both forms ----

struct Structured {
  std::string name;
  std::vector<Array> in;
  std::function<void(Array&, const std::vector<Array>&)> into;
  std::function<Array(const std::vector<Array>&)> value;
  Traced traced;
};
using Arrays = const std::vector<Array>&;
using Tensors = const std::vector<Tensor>&;

// The arguments are used three times: x is arrays, after a destination; arrays; tensors.
// clang-format off
#define STRUCTURED(name, inputs, ...)                                     \
  Structured{#name, std::vector<Array> inputs,                            \
             [](Array& dst, Arrays x) { name(dst, __VA_ARGS__); },        \
             [](Arrays x) -> Array { return name(__VA_ARGS__); },         \
             [](Tensors x) -> Tensor { return name(__VA_ARGS__); }}
// clang-format on

std::vector<Structured> structured() {
  static constexpr Window kWindow{2, 3, 2, 1, 1, 1, 1, 0, 1, 1};
  const Array image = random({2, 7, 6, 3});
  return {
      STRUCTURED(sum, ({random({4, 5, 6})}), x[0], 1),
      STRUCTURED(sum, ({random({70, 50})}), x[0]),
      STRUCTURED(mean, ({random({4, 5, 6})}), x[0], {0, 2}, Keep::yes),
      STRUCTURED(max, ({random({4, 5, 6})}), x[0], -1),
      STRUCTURED(min, ({random({4, 5, 6})}), x[0], {0, 1}),
      STRUCTURED(prod, ({random({4, 3})}), x[0], 0),
      STRUCTURED(argmax, ({random({4, 9})}), x[0], 1),
      STRUCTURED(argmin, ({random({4, 9})}), x[0]),
      STRUCTURED(variance, ({random({4, 9})}), x[0], 1),
      STRUCTURED(logsumexp, ({random({4, 9})}), x[0], 1, Keep::yes),
      STRUCTURED(einsum, ({random({3, 4}), random({4, 5}, 2)}), "ij,jk->ik", {x[0], x[1]}),
      STRUCTURED(einsum, ({random({3, 4}), random({4, 5}, 2), random({5}, 3)}), "ij,jk,k->i", {x[0], x[1], x[2]}),
      STRUCTURED(matmul, ({random({33, 17}), random({17, 21}, 2)}), x[0], x[1]),
      STRUCTURED(matmul, ({random({2, 5, 7}), random({7, 4}, 2)}), x[0], x[1]),
      STRUCTURED(matmul_nt, ({random({6, 7}), random({5, 7}, 2)}), x[0], x[1]),
      STRUCTURED(matmul_tn, ({random({7, 6}), random({7, 5}, 2)}), x[0], x[1]),
      STRUCTURED(concat, ({random({3, 4}), random({3, 2}, 2), random({3, 1}, 3)}), {x[0], x[1], x[2]}, 1),
      STRUCTURED(stack, ({random({3, 4}), random({3, 4}, 2)}), {x[0], x[1]}, 1),
      STRUCTURED(pad, ({random({3, 4})}), x[0], Dims{1, 0}, Dims{0, 2}, 0.5),
      STRUCTURED(gather, ({random({4, 3}), indices({6})}), x[0], x[1]),
      STRUCTURED(gather, ({random({3, 4}), indices({2, 2})}), x[0], x[1], 1),
      STRUCTURED(scatter_add, ({random({4, 3}), indices({6}), random({6, 3}, 2)}), x[0], x[1], x[2]),
      STRUCTURED(take_along, ({random({5, 4}), indices({5, 2})}), x[0], x[1], 1),
      STRUCTURED(embedding_sum, ({random({4, 8}), indices({5, 3})}), x[0], x[1]),
      STRUCTURED(conv2d, ({image, random({3, 3, 3, 5}, 2)}), x[0], x[1]),
      STRUCTURED(conv2d, ({image, random({3, 2, 3, 4}, 2)}), x[0], x[1], ConvOptions{Padding::same, 2, 1}),
      STRUCTURED(conv2d, ({image, random({3, 3, 3, 4}, 2)}), x[0], x[1], {.padding = 1}),
      STRUCTURED(conv1d, ({random({2, 7, 3}), random({3, 3, 4}, 2)}), x[0], x[1], {.padding = 1, .stride = 2}),
      STRUCTURED(conv_transpose2d, ({image, random({3, 3, 2, 4}, 2)}), x[0], x[1], {.stride = 2}),
      STRUCTURED(unfold, ({image}), x[0], kWindow),
      STRUCTURED(max_pool, ({image}), x[0], 2),
      STRUCTURED(max_pool, ({image}), x[0], kWindow),
      STRUCTURED(avg_pool, ({image}), x[0], 3, 1),
      STRUCTURED(avg_pool, ({image}), x[0], kWindow),
      STRUCTURED(softmax, ({random({4, 9})}), x[0]),
      STRUCTURED(softmax, ({random({4, 9})}), x[0], 0),
      STRUCTURED(log_softmax, ({random({4, 9})}), x[0]),
      STRUCTURED(layer_norm, ({random({4, 9}), random({9}, 2), random({9}, 3)}), x[0], x[1], x[2]),
      STRUCTURED(batch_norm, ({random({4, 3, 6}), random({6}, 2), random({6}, 3)}), x[0], x[1], x[2]),
      STRUCTURED(group_norm, ({random({4, 3, 6}), random({6}, 2), random({6}, 3)}), x[0], 2, x[1], x[2]),
      STRUCTURED(instance_norm, ({random({4, 3, 6}), random({6}, 2), random({6}, 3)}), x[0], x[1], x[2], 1e-3),
      STRUCTURED(rms_norm, ({random({4, 9}), random({9}, 2)}), x[0], x[1]),
      STRUCTURED(cross_entropy, ({random({6, 4}), indices({6})}), x[0], x[1]),
      STRUCTURED(mse, ({random({6, 4}), random({6, 4}, 2)}), x[0], x[1]),
      STRUCTURED(huber, ({random({6, 4}), random({6, 4}, 2)}), x[0], x[1], 0.7),
      STRUCTURED(logical_not, ({random({6, 4}, 1, DType::boolean)}), x[0]),
      STRUCTURED(where, ({random({6, 4}, 1, DType::boolean), random({6, 4}, 2), random({4}, 3)}), x[0], x[1], x[2]),
  };
}

TEST(EagerStructured, BothFormsAgreeWithTheInterpreter) {
  for (const Structured& s : structured()) {
    SCOPED_TRACE(s.name + " of " + to_string(s.in[0].shape()));
    const Array expected = reference(s.in, s.traced);
    const Array y = s.value(s.in);
    EXPECT_TRUE(test::nearly_equal(expected, y, 1e-5)) << "expected " << expected << "\ngot " << y;
    Array dst = Array::full(expected.shape(), 1, expected.dtype());
    s.into(dst, s.in);
    EXPECT_TRUE(identical(dst, y)) << "the two forms differ";
  }
}

TEST(EagerStructured, StridedOperandsAndDestination) {
  for (const Structured& s : structured()) {
    SCOPED_TRACE(s.name + " of " + to_string(s.in[0].shape()));
    std::vector<Array> strided;
    for (const Array& a : s.in) {  // the same elements, laid out backwards
      Dims back;
      for (int i = a.rank() - 1; i >= 0; --i) back.push_back(i);
      strided.push_back(a.permute(back).clone().permute(back));
    }
    const Array expected = s.value(s.in);
    EXPECT_TRUE(identical(s.value(strided), expected)) << "strided operands";
    Shape twice = expected.shape();
    if (twice.rank() == 0) continue;
    twice[0] *= 2;
    Array whole = Array::full(twice, 1, expected.dtype());
    Array dst = whole.window(0, 0, twice[0], 2);
    s.into(dst, strided);
    EXPECT_TRUE(identical(whole.slice(0, 0, twice[0], 2), expected)) << "strided destination";
  }
}

TEST(EagerStructured, TheDestinationMayBeAnOperand) {
  for (const Structured& s : structured())
    for (std::size_t k = 0; k < s.in.size(); ++k) {
      SCOPED_TRACE(s.name + " over operand " + std::to_string(k));
      const Array expected = s.value(s.in);
      if (!(expected.shape() == s.in[k].shape()) || expected.dtype() != s.in[k].dtype()) continue;
      std::vector<Array> in;
      for (const Array& a : s.in) in.push_back(a.clone());
      s.into(in[k], in);
      EXPECT_TRUE(identical(in[k], expected));
    }
}

TEST(EagerStructured, NoAllocationsAfterTheFirstCall) {
  for (const Structured& s : structured()) {
    Array dst = s.value(s.in);
    s.into(dst, s.in);
    const AllocationCount count;
    for (int i = 0; i < 3; ++i) s.into(dst, s.in);
    EXPECT_EQ(count.now(), 0) << s.name << " of " << s.in[0].shape().rank() << " axes";
  }
}

TEST(Eager, ThoseWithoutATracedTwin) {
  const Array x = random({5, 6}), v = random({40}), w = random({40}, 2);
  double expected = 0;
  for (int i = 0; i < 40; ++i) expected += double{v.at<float>({i})} * w.at<float>({i});
  EXPECT_NEAR(dot(v, w).item<float>(), expected, 1e-5);
  EXPECT_NEAR(norm(v).item<float>(), std::sqrt(dot(v, v).item<float>()), 1e-5);
  Array each = Array::empty({5});
  norm(each, x, 1);
  EXPECT_NEAR(each.at<float>({2}), norm(x.select(0, 2)).item<float>(), 1e-6);

  const Array ids = Array::from({2, 0, 1});
  Array hot = Array::empty({3, 3});
  one_hot(hot, ids);
  EXPECT_TRUE(identical(hot, one_hot(ids, 3)));
  EXPECT_TRUE(identical(hot, Array::from<float>({{0, 0, 1}, {1, 0, 0}, {0, 1, 0}})));

  const Window window{2, 2, 2, 2, 1, 1, 0, 0, 0, 0};
  const Array image = random({1, 4, 4, 2});
  Array back = Array::empty({1, 4, 4, 2});
  fold(back, unfold(image, window), window);
  EXPECT_TRUE(identical(back, image));

  Array whole = Array::empty({5, 6}, DType::i32);
  cast(whole, x);
  EXPECT_TRUE(identical(whole, x.astype(DType::i32)));
  EXPECT_TRUE(identical(cast(x, DType::f64), x.astype(DType::f64)));
  EXPECT_TRUE(identical(cast(x, DType::f32), x));
  fill(whole, 3);
  EXPECT_TRUE(identical(whole, Array::full({5, 6}, 3, DType::i32)));
  copy(whole, Array::from({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(whole.at<std::int32_t>({4, 5}), 6);

  Array y = v.clone();
  add_scaled(y, y, w, -0.5);
  add_scaled(y, y, w, -0.25);  // another number, the same plan
  EXPECT_TRUE(test::nearly_equal(y, v - 0.75 * w, 1e-6));
  EXPECT_TRUE(test::nearly_equal(add_scaled(v, w, 2), v + w + w, 1e-6));
}

TEST(Eager, DropoutOfASeed) {
  const Array x = Array::ones({100, 50});
  Array y = Array::empty({100, 50}), again = Array::empty({100, 50});
  dropout(y, x, 0.25, 7);
  dropout(again, x, 0.25, 7);
  EXPECT_TRUE(identical(y, again));
  EXPECT_FALSE(identical(y, dropout(x, 0.25, 8)));
  const float kept = sum(cast(y > 0, DType::f32)).item<float>();
  EXPECT_NEAR(kept / 5000, 0.75, 0.03);
  EXPECT_EQ(max(y).item<float>(), 1 / 0.75f);
  const AllocationCount count;
  dropout(y, x, 0.25, 9);
  EXPECT_EQ(count.now(), 0);
  EXPECT_MESSAGE(dropout(x, 1, 0), "dropout: the probability must be at least 0 and less than 1, is 1.000000");
}

/// What grad() makes of sum(g * fn(in)), by one of the operands.
Array by_grad(const std::vector<Array>& in, std::size_t by, const Array& g, const Traced& fn) {
  return reference(in, [&](Tensors t) { return grad(sum(fn(t) * g), {t[by]})[0]; });
}

TEST(Eager, GradientsOfElementwiseOps) {
  const Array x = random({5, 7}), g = random({5, 7}, 2);
  Array dx = Array::empty({5, 7});
  gradient(dx, tanh, x, g);
  EXPECT_TRUE(test::nearly_equal(by_grad({x}, 0, g, [](Tensors t) { return tanh(t[0]); }), dx, 1e-5));
  EXPECT_TRUE(identical(gradient(tanh, x, g), dx));
  gradient(dx, wr::gelu, x, g);  // another op, not the plan of the first
  EXPECT_TRUE(test::nearly_equal(by_grad({x}, 0, g, [](Tensors t) { return gelu(t[0]); }), dx, 1e-5));
  gradient(dx, leaky_relu, x, 0.1, g);
  EXPECT_TRUE(test::nearly_equal(by_grad({x}, 0, g, [](Tensors t) { return leaky_relu(t[0], 0.1); }), dx, 1e-5));
  gradient(dx, softmax, x, g, 0);
  EXPECT_TRUE(test::nearly_equal(by_grad({x}, 0, g, [](Tensors t) { return softmax(t[0], 0); }), dx, 1e-5));
  const AllocationCount count;
  gradient(dx, softmax, x, g, 0);
  gradient(dx, leaky_relu, x, 0.1, g);
  EXPECT_EQ(count.now(), 0);
  EXPECT_MESSAGE(gradient(dx, exp, x, x.slice(0, 0, 2)), "gradient: the gradient must be f32[5,7], is f32[2,7]");
}

TEST(Eager, GradientsOfConvolutionsAndPools) {
  const Array x = random({2, 7, 6, 3}), w = random({3, 3, 3, 4}, 2), g = random({2, 4, 3, 4}, 3);
  const ConvOptions o{.padding = 1, .stride = 2};
  const Traced conv = [&](Tensors t) { return conv2d(t[0], t[1], o); };
  Array dx = Array::empty(x.shape()), dw = Array::empty(w.shape());
  conv2d_image_gradient(dx, g, w, o);
  EXPECT_TRUE(test::nearly_equal(by_grad({x, w}, 0, g, conv), dx, 1e-5));
  conv2d_weights_gradient(dw, x, g, o);
  EXPECT_TRUE(test::nearly_equal(by_grad({x, w}, 1, g, conv), dw, 1e-5));

  const Array s = random({2, 7, 3}), v = random({3, 3, 4}, 2), h = random({2, 4, 4}, 3);
  const Traced conv_1 = [&](Tensors t) { return conv1d(t[0], t[1], o); };
  Array ds = Array::empty(s.shape()), dv = Array::empty(v.shape());
  conv1d_image_gradient(ds, h, v, o);
  EXPECT_TRUE(test::nearly_equal(by_grad({s, v}, 0, h, conv_1), ds, 1e-5));
  conv1d_weights_gradient(dv, s, h, o);
  EXPECT_TRUE(test::nearly_equal(by_grad({s, v}, 1, h, conv_1), dv, 1e-5));

  const Array wide = random({2, 13, 11, 4}, 4);
  const Traced transposed = [&](Tensors t) { return conv_transpose2d(t[0], t[1], o); };
  conv_transpose2d_image_gradient(dx, wide, w, o);
  EXPECT_TRUE(test::nearly_equal(by_grad({x, w}, 0, wide, transposed), dx, 1e-5));
  conv_transpose2d_weights_gradient(dw, x, wide, o);
  EXPECT_TRUE(test::nearly_equal(by_grad({x, w}, 1, wide, transposed), dw, 1e-5));

  const Window window{3, 2, 2, 2, 1, 1, 1, 1, 0, 0};
  const Array p = random({2, 4, 3, 3}, 3);
  max_pool_gradient(dx, x, p, window);
  EXPECT_TRUE(test::nearly_equal(by_grad({x}, 0, p, [&](Tensors t) { return max_pool(t[0], window); }), dx, 1e-5));
  avg_pool_gradient(dx, p, window);
  EXPECT_TRUE(test::nearly_equal(by_grad({x}, 0, p, [&](Tensors t) { return avg_pool(t[0], window); }), dx, 1e-5));
  const AllocationCount count;
  conv2d_image_gradient(dx, g, w, o);
  conv2d_weights_gradient(dw, x, g, o);
  max_pool_gradient(dx, x, p, window);
  EXPECT_EQ(count.now(), 0);
}

TEST(Eager, EveryTypeThatTheTableOfOpsNames) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::u8, DType::boolean}) {
    SCOPED_TRACE(name_of(dtype));
    const Array x = random({4, 3}, 1, dtype), ids = indices({4, 2});
    const auto same = [&](const Array& y, const Traced& fn) { return identical(y, reference({x, ids}, fn)); };
    EXPECT_TRUE(same(concat({x, x}, 1), [](Tensors t) { return concat({t[0], t[0]}, 1); }));
    EXPECT_TRUE(same(pad(x, {1, 0}, {0, 1}, 1), [](Tensors t) { return pad(t[0], {1, 0}, {0, 1}, 1); }));
    EXPECT_TRUE(same(gather(x, ids), [](Tensors t) { return gather(t[0], t[1]); }));
    EXPECT_TRUE(same(one_hot(ids, 4, dtype), [&](Tensors t) { return one_hot(t[1], 4, dtype); }));
    const Array picks = ids.slice(0, 0, 4).slice(1, 0, 1) * 0;
    EXPECT_TRUE(identical(take_along(x, picks, 1), x.slice(1, 0, 1)));
    EXPECT_TRUE(identical(where(x.astype(DType::boolean), x, x), x));
    for (DType to : {DType::f32, DType::f64, DType::i32, DType::u8, DType::boolean})
      EXPECT_TRUE(identical(cast(x, to), x.astype(to))) << "to " << name_of(to);
    if (dtype == DType::u8 || dtype == DType::boolean) continue;
    EXPECT_TRUE(same(max(x, 1), [](Tensors t) { return max(t[0], 1); }));
    EXPECT_TRUE(same(min(x, 0), [](Tensors t) { return min(t[0], 0); }));
    EXPECT_TRUE(same(argmax(x, 1), [](Tensors t) { return argmax(t[0], 1); }));
    EXPECT_TRUE(test::nearly_equal(sum(x, 0), reference({x}, [](Tensors t) { return sum(t[0], 0); }), 1e-6));
    EXPECT_TRUE(test::nearly_equal(prod(x, 1), reference({x}, [](Tensors t) { return prod(t[0], 1); }), 1e-6));
    const Array twice = scatter_add(x, Array::from({0, 1, 2, 3}), x);
    EXPECT_TRUE(identical(twice, x + x));
  }
}

// ---- destinations ----

TEST(Eager, OverlappingWindowsAreReadBeforeTheyAreWritten) {
  Array a = Array::arange(100);
  Array head = a.window(0, 0, 99), tail = a.window(0, 1, 100);
  add(tail, head, 1);  // one apart: in place it would smear
  EXPECT_TRUE(identical(a.slice(0, 1, 100), Array::arange(1, 100)));
  EXPECT_EQ(a.at<float>({0}), 0);
  Array square = random({8, 8});
  const Array product = matmul(square, square), flipped = square.transpose() + square;
  Array again = square.clone();
  matmul(again, again, again);
  EXPECT_TRUE(identical(again, product));
  again = square.clone();
  add(again, again.transpose(), again);
  EXPECT_TRUE(identical(again, flipped));
  // A row of the destination broadcast over it.
  again = square.clone();
  const Array row = square.slice(0, 0, 1).clone();
  Array first = again.window(0, 0, 1);
  sub(again, again, first);
  EXPECT_TRUE(identical(again, square - row));
}

TEST(Eager, LargeArraysInPlaceOnSeveralLanes) {
  const Array x = random({1000, 301}), row = random({301}, 2), column = random({1000, 1}, 3);
  Array y = x.clone();
  exp(y, y);
  EXPECT_TRUE(identical(y, exp(x)));
  muladd(y, row, y, column);
  EXPECT_TRUE(identical(y, muladd(row, exp(x), column)));
  y = x.clone();
  where(y, y > 0, y, row);
  EXPECT_TRUE(identical(y, where(x > 0, x, row)));
}

TEST(Eager, CopiesOfTheDestinationKeepTheirValue) {
  Array a = random({32});
  const Array copy = a, before = a.clone();
  exp(a, a);
  EXPECT_TRUE(identical(copy, before));
  EXPECT_TRUE(identical(a, exp(before)));
  mul(a.window(0, 0, 4), before.slice(0, 0, 4), 0);
  EXPECT_EQ(a.at<float>({3}), 0);
  EXPECT_NE(a.at<float>({4}), 0);
}

TEST(Eager, EmptyAndOneElementArrays) {
  const Array none = Array::empty({0, 3});
  EXPECT_EQ((none + none).shape(), (Shape{0, 3}));
  EXPECT_EQ((none * 2).count(), 0);
  EXPECT_EQ(matmul(none, random({3, 4})).shape(), (Shape{0, 4}));
  EXPECT_EQ(sum(none, 0).at<float>({1}), 0);
  EXPECT_EQ((Array::scalar(2.0f) + Array::scalar(3.0f)).item<float>(), 5);
}

// ---- operators ----

TEST(Eager, Operators) {
  const Array a = Array::from({1.0f, 2.0f, 3.0f}), b = Array::from({4.0f, 5.0f, 6.0f});
  EXPECT_TRUE(identical(a + b, Array::from({5.0f, 7.0f, 9.0f})));
  EXPECT_TRUE(identical(2 * a - 1, Array::from({1.0f, 3.0f, 5.0f})));
  EXPECT_TRUE(identical(6 / a, Array::from({6.0f, 3.0f, 2.0f})));
  EXPECT_TRUE(identical(-a, Array::from({-1.0f, -2.0f, -3.0f})));
  EXPECT_TRUE(identical(a < 2, Array::from({true, false, false})));
  EXPECT_TRUE(identical(2 <= a, Array::from({false, true, true})));
  EXPECT_TRUE(identical(a >= b, Array::from({false, false, false})));
  EXPECT_TRUE(identical(b > a, Array::from({true, true, true})));
  Array c = a;
  c += b;
  c *= 2;
  c -= a;
  c /= 3.0;
  EXPECT_TRUE(test::nearly_equal(c, (2 * (a + b) - a) / 3, 1e-6));
  EXPECT_TRUE(identical(a, Array::from({1.0f, 2.0f, 3.0f})));
}

TEST(Eager, PowersByNumber) {
  const Array a = random({50}) * random({50}, 2) + 5;
  EXPECT_TRUE(identical(pow(a, 2), square(a)));
  EXPECT_TRUE(identical(pow(a, 0.5), sqrt(a)));
  EXPECT_TRUE(test::nearly_equal(pow(a, 3), a * a * a, 1e-5));
}

double half(double x) { return x / 2; }

TEST(Eager, ApplyAUsersFunction) {
  const Array x = random({4, 5});
  int calls = 0;
  EXPECT_TRUE(identical(apply(x, [&](double v) { return ++calls, v * 2; }), x * 2));
  EXPECT_EQ(calls, 20);
  EXPECT_TRUE(identical(apply(x, half), x / 2));
  Array y = x.clone();
  apply(y, y.transpose().transpose(), half);
  EXPECT_TRUE(identical(y, x / 2));
  Array whole = Array::empty({5, 4}, DType::i32);
  apply(whole, x.transpose(), [](double v) { return 10 * v; });
  EXPECT_TRUE(identical(whole, (x * 10).transpose().astype(DType::i32)));
}

// ---- the cache ----

TEST(Eager, NoAllocationsOnStridedOrSharedOperandsEither) {
  const Array a = random({64, 48}), b = random({48, 64}, 2).transpose();
  Array whole = Array::empty({64, 96});
  Array dst = whole.window(1, 0, 96, 2), dense = Array::empty({64, 48});
  const auto all = [&] {
    add(dst, a, b);
    mul(dense, b, 3);
    sum(dense.window(0, 0, 1), a, 0, Keep::yes);
    softmax(dense, dense);
    const Array value = a * b + 1;
    dense += value;
  };
  all();
  all();
  const AllocationCount count;
  all();
  EXPECT_EQ(count.now(), 0);
}

TEST(Eager, ANewNumberNeedsNoNewPlan) {
  const Array a = random({10});
  Array dst = a * 2;
  mul(dst, a, 2);
  const auto plans = eager::cache_facts().plans;
  for (int i = 0; i < 100; ++i) mul(dst, a, i);
  EXPECT_EQ(eager::cache_facts().plans, plans);
  EXPECT_TRUE(identical(dst, 99 * a));
}

TEST(Eager, TheCacheIsBounded) {
  std::thread([] {  // has a cache of its own
    for (std::int64_t n = 1; n < 2000; ++n) {
      const Array y = Array::full({n}, 2) * 3;
      ASSERT_EQ(y.at<float>({n - 1}), 6);
      ASSERT_LE(eager::cache_facts().plans, eager::kMostPlans);
    }
  })
      .join();
}

TEST(Eager, EachSimdTargetHasItsPlans) {
  const Array x = random({100});
  const auto active = cpu::active_target();
  for (auto target : cpu::available_targets()) {
    cpu::set_target(target);
    EXPECT_TRUE(test::nearly_equal(reference({x}, [](Tensors t) { return exp(t[0]); }), exp(x), 1e-6));
  }
  cpu::set_target(active);
}

TEST(Eager, TwoThreadsAtOnce) {
  const Array a = random({300, 70}), b = random({70, 50}, 2);
  const Array expected = relu(matmul(a, b)) + 1;
  bool right[2] = {};
  const auto work = [&](int which) {
    right[which] = true;
    for (int i = 0; i < 200; ++i) {
      Array y = matmul(a, b);
      relu(y, y);
      y += 1;
      right[which] &= identical(y, expected);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_TRUE(right[0]);
  EXPECT_TRUE(right[1]);
}

// ---- messages ----

TEST(EagerMessages, NameTheOpTheSizesAndTheLine) {
  Array a = Array::zeros({2, 3}), b = Array::zeros({4, 3}), i = Array::zeros({3}, DType::i32),
        dst = Array::zeros({3, 2});
  EXPECT_MESSAGE(add(dst, a, a), "add: the result is f32[2,3], the destination f32[3,2]");
  EXPECT_MESSAGE(lt(dst, a, 1), "lt: the result is bool[2,3], the destination f32[3,2]");
  EXPECT_MESSAGE(matmul(dst, a, b), "matmul: inner sizes differ: the left operand is [2,3], the right one [4,3]");
  EXPECT_MESSAGE(a + b, "add: shapes [2,3] and [4,3] do not broadcast: 2 and 4 at axis 0");
  EXPECT_MESSAGE(a * i, "mul: operand types differ: f32[2,3] and i32[1,3]; cast one of them");
  EXPECT_MESSAGE(a += b, "add: shapes [2,3] and [4,3] do not broadcast: 2 and 4 at axis 0");
  EXPECT_MESSAGE(exp(i), "exp: works on f32 and f64, the operand is i32[3]; cast it");
  EXPECT_MESSAGE(sum(a, 2), "sum: axis 2 is out of range for rank 2");
  EXPECT_MESSAGE(dot(a, b), "dot: needs two vectors of one size and type, got f32[2,3] and f32[4,3]");
  EXPECT_MESSAGE(one_hot(dst, dst),
                 "one_hot: the destination must be the indices [3,2] and an axis of classes, is [3,2]");
  EXPECT_MESSAGE(apply(dst, a, half), "apply: the operand is [2,3], the destination [3,2]");
  EXPECT_MESSAGE(add(a + a, a, a),
                 "destination: a temporary [2,3] that is not a window would lose the result; write to a "
                 "variable or to a.window(...)");
}

}  // namespace
}  // namespace wr
