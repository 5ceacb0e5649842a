// Messages of errors: each names the user's line (this file's), the op as the user called it, and the sizes.
#include <gtest/gtest.h>

#include <source_location>

#include "errors.h"
#include "support/gradients.h"
#include "windrow/memory.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using List = std::vector<Tensor>;

/// The message starts with a line of this file and the op's name, and says each of the words.
testing::AssertionResult names(const std::string& message, int line, const std::string& op,
                               const std::vector<std::string>& words) {
  const std::string start = "error_message_test.cpp:" + std::to_string(line) + ": " + op + ": ";
  if (message.rfind(start, 0) != 0)
    return testing::AssertionFailure() << "should start with\n  " << start << "\nbut is\n  " << message;
  for (const auto& word : words)
    if (message.find(word) == std::string::npos)
      return testing::AssertionFailure() << "does not say '" << word << "':\n  " << message;
  return testing::AssertionSuccess();
}

#define REFUSES(expression, op, ...) \
  EXPECT_TRUE(names(error_of([&] { (void)(expression); }), __LINE__, op, std::vector<std::string>{__VA_ARGS__}))

class ErrorMessage : public testing::Test {
 protected:
  const Tensor a{Array::zeros({2, 3})}, b{Array::zeros({4, 5})}, v{Array::zeros({3})}, s{Array::zeros({})};
  const Tensor d{Array::zeros({2, 3}, DType::f64)}, i{Array::zeros({2, 3}, DType::i32)},
      t{Array::zeros({2, 3}, DType::boolean)};
  const Tensor image{Array::zeros({2, 8, 9, 3})}, index{Array::zeros({4}, DType::i32)}, none;
};

// ---- elementwise ----
TEST_F(ErrorMessage, ElementwiseShapes) {
  REFUSES(add(a, b), "add", "[2,3]", "[4,5]", "2 and 4", "axis 0");
  REFUSES(a * b, "mul", "[2,3]", "[4,5]");
  REFUSES(lerp(a, a, b), "lerp", "[2,3]", "[4,5]");
  REFUSES(gt(a, b), "gt", "[2,3]", "[4,5]");
  REFUSES(where(t, a, b), "where", "[2,3]", "[4,5]");
}

TEST_F(ErrorMessage, ElementwiseTypes) {
  REFUSES(a + d, "add", "f32[2,3]", "f64[2,3]", "cast");
  REFUSES(exp(i), "exp", "i32[2,3]", "f32 and f64", "cast");
  REFUSES(i / i, "div", "i32[2,3]");
  REFUSES(relu(t), "relu", "bool[2,3]");
  REFUSES(logical_and(a, a), "logical_and", "bool", "f32[2,3]");
  REFUSES(logical_not(a), "logical_not", "bool", "f32[2,3]");
  REFUSES(where(a, a, a), "where", "bool", "f32[2,3]");
  REFUSES(where(t, a, d), "where", "f32[2,3]", "f64[2,3]");
}

TEST_F(ErrorMessage, EmptyTensors) {
  REFUSES(none + a, "add", "operand 0", "empty Tensor");
  REFUSES(a * none, "mul", "operand 1", "empty Tensor");
  REFUSES(exp(none), "exp", "empty Tensor");
  REFUSES(where(t, a, none), "where", "empty Tensor");
  REFUSES(cast(none, DType::f64), "cast", "empty Tensor");
  REFUSES(sum(none), "sum", "empty Tensor");
  REFUSES(mean(none), "mean", "empty Tensor");
  REFUSES(matmul(a, none), "matmul", "empty Tensor");
  REFUSES(einsum("ij,jk->ik", {a, none}), "einsum", "empty Tensor");
  REFUSES(reshape(none, {2}), "reshape", "empty Tensor");
  REFUSES(concat({a, none}, 0), "concat", "empty Tensor");
  REFUSES(gather(none, index), "gather", "empty Tensor");
  REFUSES(softmax(none), "softmax", "empty Tensor");
  REFUSES(max_pool(none, 2), "max_pool", "empty Tensor");
  REFUSES(conv2d(image, none), "conv2d", "empty Tensor");
  REFUSES(stop_gradient(none), "stop_gradient", "empty Tensor");
  REFUSES(grad(none, {a}), "grad", "empty Tensor");
  REFUSES(eval(none), "eval", "empty Tensor");
}

// ---- reductions ----
TEST_F(ErrorMessage, Reductions) {
  REFUSES(sum(a, 2), "sum", "axis 2", "rank 2");
  REFUSES(max(a, -3), "max", "axis -3", "rank 2");
  REFUSES(mean(a, Axes{0, 5}), "mean", "axis 5", "rank 2");
  REFUSES(prod(a, Axes{1, 1}), "prod", "axis 1", "twice");
  REFUSES(min(a, Axes{1, -1}), "min", "axis 1", "twice");
  REFUSES(sum(t), "sum", "bool[2,3]");
  REFUSES(mean(i), "mean", "i32[2,3]", "cast");
  REFUSES(variance(i), "variance", "i32[2,3]");
  REFUSES(logsumexp(a, 4), "logsumexp", "axis 4", "rank 2");
  REFUSES(argmax(Tensor(Array::zeros({0, 3})), 0), "argmax", "axis 0", "[0,3]");
}

// ---- contractions ----
TEST_F(ErrorMessage, MatrixProducts) {
  REFUSES(matmul(a, b), "matmul", "inner sizes", "[2,3]", "[4,5]");
  REFUSES(matmul_nt(a, b), "matmul_nt", "[2,3]", "[4,5]");
  REFUSES(matmul_tn(a, b), "matmul_tn", "[2,3]", "[4,5]");
  REFUSES(matmul(a, v), "matmul", "rank 2", "[2,3]", "[3]");
  REFUSES(matmul(a, transpose(d)), "matmul", "f32[2,3]", "f64[3,2]");
  REFUSES(matmul(i, transpose(i)), "matmul", "i32[2,3]");
  const Tensor batched(Array::zeros({2, 4, 3})), other(Array::zeros({5, 3, 2}));
  REFUSES(matmul(batched, other), "matmul", "batch", "[2,4,3]", "[5,3,2]");
}

TEST_F(ErrorMessage, EinsumSpecs) {
  REFUSES(einsum("ij,jk->ik", {a, b}), "einsum", "'ij,jk->ik'", "label 'j'", "3", "4", "[4,5]");
  REFUSES(einsum("ij->ik", {a}), "einsum", "'k'", "no operand");
  REFUSES(einsum("ij->ii", {a}), "einsum", "'i'", "twice");
  REFUSES(einsum("ii->i", {a}), "einsum", "label 'i'", "[2,3]");
  REFUSES(einsum("ij,jk->ik", {a}), "einsum", "2 operands", "1");
  REFUSES(einsum("ijk->i", {a}), "einsum", "'ijk'", "[2,3]");
  REFUSES(einsum("i1->i", {a}), "einsum", "'1'", "position 1");
  REFUSES(einsum("ij->i->j", {a}), "einsum", "'-'");
  REFUSES(einsum("ij,jk->ik", {a, transpose(d)}), "einsum", "f32[2,3]", "f64[3,2]");
  REFUSES(einsum("ij->ji", {i}), "einsum", "i32[2,3]");
  REFUSES(einsum("", {}), "einsum", "operands");
}

// ---- shapes ----
TEST_F(ErrorMessage, Shapes) {
  REFUSES(reshape(a, {4, 2}), "reshape", "[2,3]", "6 elements", "[4,2]");
  REFUSES(reshape(a, {4, -1}), "reshape", "[2,3]", "[4,-1]");
  REFUSES(reshape(a, {-1, -1}), "reshape", "[-1,-1]", "more than one");
  REFUSES(reshape(a, {-2, -3}), "reshape", "[-2,-3]", "negative");
  REFUSES(flatten(a, 3), "flatten", "axis 3", "rank 2");
  REFUSES(permute(a, {0, 0}), "permute", "axis 0", "twice");
  REFUSES(permute(a, {0}), "permute", "1 axes", "[2,3]");
  REFUSES(permute(a, {0, 2}), "permute", "axis 2", "rank 2");
  REFUSES(transpose(v), "transpose", "rank 2", "[3]");
  REFUSES(expand_dims(a, 4), "expand_dims", "axis 4", "rank 3");
  REFUSES(squeeze(a, 1), "squeeze", "axis 1", "[2,3]", "size 3");
  REFUSES(broadcast_to(a, {4, 3}), "broadcast_to", "[2,3]", "[4,3]");
  REFUSES(broadcast_to(a, {3}), "broadcast_to", "[2,3]", "[3]");
  REFUSES(broadcast_to(s, {-2}), "broadcast_to", "[-2]");
  REFUSES(slice(a, 2, 0, 1), "slice", "axis 2", "rank 2");
  REFUSES(slice(a, 0, 0, 1, 0), "slice", "step is 0");
  REFUSES(concat({}, 0), "concat", "nothing");
  REFUSES(concat({a, b}, 0), "concat", "part 1", "[4,5]", "[2,3]", "axis 0");
  REFUSES(concat({a, d}, 0), "concat", "f64[2,3]", "f32[2,3]");
  REFUSES(concat({a, a}, 2), "concat", "axis 2", "rank 2");
  REFUSES(stack({a, b}, 0), "stack", "[1,4,5]", "[1,2,3]");
  REFUSES(pad(a, {1}, {1, 1}), "pad", "[2,3]", "3 numbers");
  REFUSES(pad(a, {-1, 0}, {0, 0}), "pad", "negative", "axis 0");
  REFUSES(full({2, -3}, 1), "full", "[2,-3]");
  REFUSES(iota({3}, 1), "iota", "axis 1", "rank 1");
  REFUSES(iota({-3}, 0), "iota", "negative", "[-3]");
  REFUSES(a.size(2), "size", "axis 2", "rank 2");
  REFUSES(expand_dims(reshape(a, {1, 1, 1, 1, 1, 1, 2, 3}), 0), "expand_dims", "8");
}

// ---- indices ----
TEST_F(ErrorMessage, Indices) {
  REFUSES(gather(a, v), "gather", "i32", "f32[3]");
  REFUSES(gather(a, index, 2), "gather", "axis 2", "rank 2");
  REFUSES(scatter_add(a, index, b), "scatter_add", "f32[4,3]", "f32[4,5]");
  REFUSES(scatter_add(a, i, a), "scatter_add", "one axis", "i32[2,3]");
  REFUSES(take_along(b, i, 1), "take_along", "[2,3]", "[4,5]", "axis 1");
  REFUSES(take_along(a, index, 1), "take_along", "[4]", "[2,3]");
  REFUSES(one_hot(v, 3), "one_hot", "i32", "f32[3]");
  REFUSES(one_hot(index, 0), "one_hot", "at least one class");
  REFUSES(embedding_sum(v, i), "embedding_sum", "two axes", "f32[3]");
  REFUSES(embedding_sum(a, a), "embedding_sum", "i32", "f32[2,3]");
}

// ---- windows ----
TEST_F(ErrorMessage, Windows) {
  const Tensor weights{Array::zeros({3, 3, 3, 4})}, deep{Array::zeros({3, 3, 5, 4})}, large{Array::zeros({9, 3, 3, 4})};
  REFUSES(conv2d(a, weights), "conv2d", "[batch, height, width, channels]", "[2,3]");
  REFUSES(conv2d(image, a), "conv2d", "weights", "[2,3]");
  REFUSES(conv2d(image, deep), "conv2d", "3 channels", "[3,3,5,4]", "take 5");
  REFUSES(conv2d(image, large), "conv2d", "9 rows", "has 8");
  REFUSES(conv2d(image, weights, {.stride = 0}), "conv2d", "positive", "0");
  REFUSES(conv2d(image, weights, {.padding = Padding::same, .stride = 0}), "conv2d", "positive", "0");
  REFUSES(conv2d(image, cast(weights, DType::f64)), "conv2d", "f32[", "f64[");
  REFUSES(max_pool(a, 2), "max_pool", "[batch, height, width, channels]", "f32[2,3]");
  REFUSES(max_pool(image, 9), "max_pool", "9 rows", "has 8");
  REFUSES(max_pool(image, 0), "max_pool", "positive");
  REFUSES(avg_pool(image, 10), "avg_pool", "10 rows", "has 8");
  REFUSES(unfold(image, {.height = 2, .pad_top = -1}), "unfold", "negative padding");
  REFUSES(fold(image, {2, 8, 9, 3}, {.height = 2, .width = 2}), "fold", "[2,8,9,3]", "[batch,7,8,2,2,channels]");
}

// ---- compositions ----
TEST_F(ErrorMessage, Compositions) {
  REFUSES(softmax(a, 2), "softmax", "axis 2", "rank 2");
  REFUSES(softmax(i), "softmax", "i32[2,3]");
  REFUSES(log_softmax(a, -3), "log_softmax", "axis -3", "rank 2");
  REFUSES(layer_norm(a, v, Tensor(Array::zeros({2}))), "layer_norm", "[3]", "[2,3]", "[2]");
  REFUSES(cross_entropy(a, index), "cross_entropy", "f32[2,3]", "i32[4]");
  REFUSES(cross_entropy(a, Tensor(Array::zeros({2}))), "cross_entropy", "i32", "f32[2]");
  REFUSES(mse(a, b), "mse", "[2,3]", "[4,5]");
  REFUSES(mse(a, d), "mse", "f32[2,3]", "f64[2,3]");
  REFUSES(huber(a, v), "huber", "[2,3]", "[3]");
  const Random random;
  REFUSES(random.uniform({2}, DType::i32), "uniform", "i32[2]");
  REFUSES(random.normal({-2}), "normal", "negative", "[-2]");
  REFUSES(random.bernoulli(1.5, {2}), "bernoulli", "1.5");
}

// ---- gradients and control ----
TEST_F(ErrorMessage, Gradients) {
  REFUSES(grad(a, {a}), "grad", "one element", "f32[2,3]", "sum or mean");
  REFUSES(grad(sum(i), {a}), "grad", "f32 or f64", "i32[]");
  REFUSES(grad(sum(a), {i}), "grad", "i32[2,3]");
  REFUSES(grad(sum(a), {none}), "grad", "not part");
  REFUSES(repeat(-1, [](int, const List& c) { return c; }, {a}), "repeat", "-1");
  REFUSES(repeat(1, [](int, const List&) { return List{}; }, {a}), "repeat", "1 tensors", "returns 0");
  REFUSES(repeat(2, [](int, const List& c) { return List{sum(c[0])}; }, {a}), "repeat", "f32[2,3]", "f32[]");
}

// ---- traces and states ----
TEST_F(ErrorMessage, OtherTraces) {
  const auto inside = [&](const auto& use) { compile([&](const Tensor& x) { return use(x); }, f32(2, 3)); };
  REFUSES(inside([&](const Tensor& x) { return x + a; }), "add", "different traces");
  REFUSES(inside([&](const Tensor& x) { return matmul(x, transpose(a)); }), "matmul", "different traces");
  REFUSES(inside([&](const Tensor& x) { return grad(sum(x), {a})[0]; }), "grad", "trace");
  REFUSES(inside([&](const Tensor& x) { return eval(x), x; }), "eval", "arguments of a step");
  const State state(Array::zeros({2, 3}), "w");
  REFUSES(inside([&](const Tensor& x) { return state.assign(a), x; }), "assign", "another trace");
}

TEST_F(ErrorMessage, States) {
  State w(Array::zeros({2, 3}), "w"), unnamed(Array::zeros({2})), empty;
  REFUSES(w.assign(b), "assign", "'w'", "f32[2,3]", "f32[4,5]");
  REFUSES(w.assign(d), "assign", "f32[2,3]", "f64[2,3]");
  REFUSES(unnamed.assign(a), "assign", "f32[2]", "f32[2,3]");
  REFUSES(w.assign(none), "assign", "empty Tensor");
  REFUSES(w.set(Array::zeros({3, 2})), "set", "'w'", "f32[2,3]", "f32[3,2]");
  REFUSES(w.set(Array::zeros({2, 3}, DType::f64)), "set", "f64[2,3]");
  REFUSES(empty.set(Array::zeros({1})), "set", "empty State");
  REFUSES(empty.value(), "value", "empty State");
  REFUSES(empty.shape(), "spec", "empty State");
  REFUSES(empty.name(), "name", "empty State");
  REFUSES(empty.rename("x"), "name", "empty State");
  REFUSES(memory_of(empty), "memory_of", "empty State");
  REFUSES(empty.assign(a), "assign", "empty State");
  REFUSES(Tensor(empty), "state", "empty State");
  REFUSES(empty + a, "state", "empty State");
  EXPECT_THROW(empty.value(), Error);
  EXPECT_THROW(empty.name(), Error);
}

TEST_F(ErrorMessage, Optimisers) {
  const State w(Array::zeros({2, 3}), "w");
  optim::Sgd sgd({.lr = 1});
  optim::Adam adam;
  REFUSES(sgd.apply({w}, {b}), "sgd", "f32[2,3]", "f32[4,5]");
  REFUSES(adam.apply({w}, {}), "adam", "1 parameters", "0 gradients");
  REFUSES(adam.minimize(a, {w}), "grad", "one element", "f32[2,3]");
}

// ---- compile and call ----
TEST_F(ErrorMessage, Compile) {
  const auto same = [](const List& x) { return x; };
  REFUSES(compile(same, {f32(2, -3)}), "input", "negative", "f32[2,-3]");
  REFUSES(compile(same, {f32(2)}, {.name = {}, .threads = 0, .lanes = -1}), "compile", "lanes", "-1");
  REFUSES(compile(same, {f32(2)}, {.name = {}, .threads = 0, .lanes = 100000}), "compile", "lanes", "100000");
  REFUSES(compile(same, {f32(2)}, {.name = {}, .threads = -2, .lanes = 0}), "threads", "-2");
  REFUSES(compile(same, {f32(2)}, {.name = {}, .threads = 100000, .lanes = 0}), "threads", "100000");
  REFUSES(compile([](const List&) { return List{Tensor()}; }, {f32(2)}), "compile", "empty Tensor");
  REFUSES(compile([&](const List&) { return List{a}; }, {f32(2)}), "compile", "another trace");
  REFUSES(compile([&](Tensor) { return a; }, f32(2)), "compile", "another trace");
  REFUSES(compile(
              {.name = "step"}, [&](Tensor) { return a; }, f32(2)),
          "compile", "another trace");
  REFUSES(compile([](Tensor x, Tensor y) { return x + y; }, f32(2)), "compile", "takes 2 tensors", "1 type was given");
  Step step = compile(same, {f32(2)});
  REFUSES(step.set_threads(-1), "threads", "-1");
  REFUSES(step.set_threads(5000), "threads", "5000");
}

class CallErrors : public testing::Test {
 protected:
  std::string message(const std::function<void()>& fn) { return error_of(fn); }
  Step step = compile(
      CompileOptions{.name = "train", .threads = 1, .lanes = 1},
      [](const Tensor& x, const Tensor& y) { return sum(x) + y; }, f32(2, 3), f32());
  const Array x = Array::ones({2, 3}), y = Array::scalar(1.0f);
};

TEST_F(CallErrors, NameTheStepTheArgumentAndTheSizes) {
  const auto says = [](const std::string& text, const std::vector<std::string>& words) {
    for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  };
  says(message([&] { step(x); }), {"train", "2 arguments", "got 1"});
  says(message([&] { step(x, y, y); }), {"train", "2 arguments", "got 3"});
  says(message([&] { step(Array::ones({3, 2}), y); }), {"train", "argument 0", "f32[3,2]", "f32[2,3]"});
  says(message([&] { step(x, Array::scalar(1.0)); }), {"train", "argument 1", "f64[]", "f32[]"});
  says(message([&] { step(Array::ones({3, 2}).transpose(), y); }), {"train", "argument 0", "strided", "contiguous()"});
  says(message([&] { step(x.slice(0, 0, 1).broadcast_to({2, 3}), y); }), {"train", "argument 0", "contiguous()"});
  says(message([&] { (void)static_cast<float>(compile([](const Tensor& v) { return v; }, f32(2))(Array::ones({2}))); }),
       {"f32[2]", "one number"});
  says(message([&] { step.again(); }), {"again", "not been run"});
}

TEST_F(CallErrors, ARefusedCallChangesNothing) {
  EXPECT_EQ(static_cast<float>(step(x, y)), 7);
  const Array other = Array::full({2, 3}, 100);
  EXPECT_THROW(step(other, Array::scalar(1.0)), Error);
  EXPECT_EQ(static_cast<float>(step.again()), 7);
}

Location default_of_a_default(Location where = Location::current()) { return where; }

TEST(Location, IsTheCallersPlaceWhereverItComesFrom) {
  const auto line = static_cast<unsigned>(__LINE__);
  EXPECT_EQ(default_of_a_default().line(), line + 1);
  EXPECT_EQ(Location(std::source_location::current()).line(), line + 2);
  EXPECT_EQ(default_of_a_default(std::source_location::current()).line(), line + 3);
  EXPECT_EQ(to_string(default_of_a_default()), "error_message_test.cpp:" + std::to_string(line + 4));
}

TEST(Location, OfAnotherLanguageOutlivesTheNameItWasMadeFrom) {
  std::string file = "/home/somebody/models/a_rather_long_name_of_a_script.py";
  const Location a(file, 12), b(file, 13);
  const char* const kept = a.file_name();
  EXPECT_EQ(kept, b.file_name()) << "a name is kept once";
  file.assign(file.size(), 'x');
  EXPECT_EQ(std::string(kept), "/home/somebody/models/a_rather_long_name_of_a_script.py");
  EXPECT_EQ(a, Location("/home/somebody/models/a_rather_long_name_of_a_script.py", 12));
  EXPECT_FALSE(a == b);
  EXPECT_EQ(error_of([&] {
              (void)matmul(Tensor(Array::zeros({2, 3})), Tensor(Array::zeros({2, 3})), a);
            }).rfind("a_rather_long_name_of_a_script.py:12: matmul: ", 0),
            0u);
}

}  // namespace
}  // namespace wr
