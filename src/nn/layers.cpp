// Dense, Embedding, Dropout, and the layers without parameters.
#include "nn/sizes.h"

#include <fmt/format.h>

namespace wr::nn {

Dense::Dense(std::int64_t in, std::int64_t out, const DenseOptions& options, Where where) {
  expect_positive("Dense", "in", in, where);
  expect_positive("Dense", "out", out, where);
  w = parameter("w", initial(options.weights, {in, out}, {in, out}, options.dtype, where));
  if (options.bias) b = parameter("b", initial(options.biases, {out}, {in, out}, options.dtype, where));
}

std::string Dense::kind() const { return fmt::format("Dense({}, {})", w.shape()[0], w.shape()[1]); }

Tensor Dense::forward(const Tensor& x, Mode, const Where& where) const {
  expect_features("Dense", x, 2, w.shape()[0], w.spec().dtype, where);
  const Tensor y = matmul(x, w, where);
  return b ? Operand(y, where) + b : y;
}

Embedding::Embedding(std::int64_t entries, std::int64_t width, const EmbeddingOptions& options, Where where) {
  expect_positive("Embedding", "entries", entries, where);
  expect_positive("Embedding", "width", width, where);
  w = parameter("w", initial(options.weights, {entries, width}, {entries, width}, options.dtype, where));
}

std::string Embedding::kind() const { return fmt::format("Embedding({}, {})", w.shape()[0], w.shape()[1]); }

Tensor Embedding::forward(const Tensor& x, Mode, const Where& where) const {
  if (x.dtype() != DType::i32) fail(where, "Embedding: the input must be i32 indices, is " + to_string(x.spec()));
  return gather(w, x, 0, where);
}

Dropout::Dropout(double probability, Where where) : probability_(probability), random_(next_seed()) {
  if (!(probability >= 0 && probability < 1))
    fail(where, "Dropout: the probability must be at least 0 and less than 1, is " + std::to_string(probability));
  buffer("counter", random_.counter());
}

std::string Dropout::kind() const { return fmt::format("Dropout({})", probability_); }

Tensor Dropout::forward(const Tensor& x, Mode mode, const Where& at) const {
  if (mode == Mode::eval || probability_ == 0) return x;
  return dropout(x, probability_, random_, at);
}

Lambda Relu() {
  return {"Relu", [](const Tensor& x, const Where& where) { return relu(x, where); }};
}
Lambda Relu6() {
  return {"Relu6", [](const Tensor& x, const Where& where) { return relu6(x, where); }};
}
Lambda LeakyRelu(double slope) {
  return {fmt::format("LeakyRelu({})", slope),
          [=](const Tensor& x, const Where& where) { return leaky_relu(Operand(x, where), slope); }};
}
Lambda Elu() {
  return {"Elu", [](const Tensor& x, const Where& where) { return elu(x, where); }};
}
Lambda Softplus() {
  return {"Softplus", [](const Tensor& x, const Where& where) { return softplus(x, where); }};
}
Lambda Silu() {
  return {"Silu", [](const Tensor& x, const Where& where) { return silu(x, where); }};
}
Lambda Gelu() {
  return {"Gelu", [](const Tensor& x, const Where& where) { return gelu(x, where); }};
}
Lambda Sigmoid() {
  return {"Sigmoid", [](const Tensor& x, const Where& where) { return sigmoid(x, where); }};
}
Lambda Tanh() {
  return {"Tanh", [](const Tensor& x, const Where& where) { return tanh(x, where); }};
}
Lambda Softmax(int axis) {
  return {"Softmax", [=](const Tensor& x, const Where& where) { return softmax(x, axis, where); }};
}
Lambda LogSoftmax(int axis) {
  return {"LogSoftmax", [=](const Tensor& x, const Where& where) { return log_softmax(x, axis, where); }};
}
namespace {

std::int64_t numbers_a_row(const Tensor& x) {
  std::int64_t n = 1;
  for (int i = 1; i < x.rank(); ++i) n *= x.size(i);
  return n;
}

/// Of no rows, the elements do not say what a size that was left open is: the numbers a row would have do.
void complete(Shape& shape, std::int64_t numbers) {
  int open = 0;
  for (int i = 1; i < shape.rank(); ++i)
    if (shape[i] == -1)
      open = i;
    else if (shape[i] > 0)
      numbers /= shape[i];
  if (open > 0) shape[open] = numbers;
}

}  // namespace

Lambda Flatten() {
  return {"Flatten", [](const Tensor& x, const Where& where) {
            if (x.rank() < 1) fail(where, "Flatten: the input has no batch axis");
            return reshape(x, {x.size(0), numbers_a_row(x)}, where);
          }};
}
Lambda Reshape(const Shape& sizes) {
  return {"Reshape(" + to_string(sizes) + ")", [=](const Tensor& x, const Where& where) {
            if (x.rank() < 1) fail(where, "Reshape: the input has no batch axis");
            Shape shape = sizes;
            shape.insert(0, x.size(0));
            if (x.size(0) == 0) complete(shape, numbers_a_row(x));
            return reshape(x, shape, where);
          }};
}

}  // namespace wr::nn
