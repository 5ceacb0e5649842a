// Eager ops on arrays: each computes at once what the traced function of the same name (tensor.h) computes in a step.
//
// The destination comes first, `add(dst, a, b)`; it must have the result's type and shape and may be an operand. The
// form without one, `add(a, b)`, returns an array from the pool. An op is compiled when it is first called on operands
// of some types and shapes and found again from then on: later calls allocate nothing.
//
// Operands may be any views. Dense ones are read where they stand, others are first copied to pooled memory. A number
// may stand for an operand; it takes the arrays' type. An op with a Tensor among its operands is a traced one and gives
// a Tensor.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "windrow/array.h"
#include "windrow/location.h"
#include "windrow/tensor.h"

namespace wr {

template <class N>
concept Number = std::is_arithmetic_v<N>;

/// An operand of an eager op: an array, which must outlive the call, or a number. Remembers the caller's line.
class ArrayOperand {
 public:
  using Where = Location;
  ArrayOperand(const Array& a, Where at = Where::current()) : array(&a), where(at) {}  // NOLINT
  template <Number N>
  ArrayOperand(N n, Where at = Where::current()) : number(static_cast<double>(n)), where(at) {}  // NOLINT

  const Array* array = nullptr;
  double number = 0;
  Where where;
};

/// The axes of an eager reduction: all, one, or a list. As Axes, but held in place.
class AxisList {
 public:
  AxisList() = default;
  AxisList(int axis) : list{axis}, all(false) {}                                  // NOLINT
  AxisList(std::initializer_list<std::int64_t> axes) : list(axes), all(false) {}  // NOLINT

  Dims list;
  bool all = true;
};

/// A reference to the user's function of one number, for apply(). It lives as long as the call.
class ScalarFunction {
 public:
  template <std::invocable<double> F>
  requires std::is_object_v<F> ScalarFunction(const F& f)  // NOLINT(google-explicit-constructor)
      : object_(std::addressof(f)), call_([](const ScalarFunction& self, double x) {
          return static_cast<double>((*static_cast<const F*>(self.object_))(x));
        }) {}
  template <Number R, Number A>
  ScalarFunction(R (*f)(A))  // NOLINT(google-explicit-constructor)
      : plain_(reinterpret_cast<void (*)()>(f)), call_([](const ScalarFunction& self, double x) {
          return static_cast<double>(reinterpret_cast<R (*)(A)>(self.plain_)(static_cast<A>(x)));
        }) {}
  double operator()(double x) const { return call_(*this, x); }

 private:
  const void* object_ = nullptr;
  void (*plain_)() = nullptr;
  double (*call_)(const ScalarFunction&, double);
};

// ---- elementwise: every row of elementwise.def ----
// The overloads are chosen so that arrays and numbers give an Array although both also convert to the operands of
// traced ops: the first operand matches exactly, the later ones convert and so note the caller's line.

namespace eager {
#define WINDROW_EAGER_2(name, ...) Array name(const ArrayOperand& a, const ArrayOperand& b);
#define WINDROW_BINARY WINDROW_EAGER_2
#define WINDROW_COMPARE WINDROW_EAGER_2
#define WINDROW_LOGIC WINDROW_EAGER_2
#define WINDROW_TERNARY(name, ...) Array name(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c);
#define WINDROW_QUINARY(name, ...)                                                                       \
  Array name(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c, const ArrayOperand& d, \
             const ArrayOperand& e);
#include "windrow/elementwise.def"
#undef WINDROW_EAGER_2
}  // namespace eager

#define WINDROW_UNARY(name, ...)                             \
  void name(Destination dst, const Array& x, WINDROW_WHERE); \
  Array name(const Array& x, WINDROW_WHERE);
#define WINDROW_EAGER_2(name, ...)                                                                              \
  void name(Destination dst, const ArrayOperand& a, const ArrayOperand& b);                                     \
  inline Array name(const Array& a, const ArrayOperand& b) { return eager::name(ArrayOperand(a, b.where), b); } \
  template <Number N>                                                                                           \
  Array name(N a, const ArrayOperand& b) {                                                                      \
    return eager::name(ArrayOperand(a, b.where), b);                                                            \
  }
#define WINDROW_BINARY WINDROW_EAGER_2
#define WINDROW_COMPARE WINDROW_EAGER_2
#define WINDROW_LOGIC WINDROW_EAGER_2
#define WINDROW_TERNARY(name, ...)                                                                 \
  void name(Destination dst, const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c); \
  inline Array name(const Array& a, const ArrayOperand& b, const ArrayOperand& c) {                \
    return eager::name(ArrayOperand(a, b.where), b, c);                                            \
  }                                                                                                \
  template <Number N>                                                                              \
  Array name(N a, const ArrayOperand& b, const ArrayOperand& c) {                                  \
    return eager::name(ArrayOperand(a, b.where), b, c);                                            \
  }
#define WINDROW_QUINARY(name, ...)                                                                       \
  void name(Destination dst, const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c,        \
            const ArrayOperand& d, const ArrayOperand& e);                                               \
  inline Array name(const Array& a, const ArrayOperand& b, const ArrayOperand& c, const ArrayOperand& d, \
                    const ArrayOperand& e) {                                                             \
    return eager::name(ArrayOperand(a, b.where), b, c, d, e);                                            \
  }
#include "windrow/elementwise.def"
#undef WINDROW_EAGER_2

/// yes where the condition (bool) holds, no elsewhere.
void where(Destination dst, const Array& condition, const ArrayOperand& yes, const ArrayOperand& no);
Array where(const Array& condition, const ArrayOperand& yes, const ArrayOperand& no);
void logical_not(Destination dst, const Array& x, WINDROW_WHERE);
Array logical_not(const Array& x, WINDROW_WHERE);
/// Converted to dst's type. Array::astype says how.
void cast(Destination dst, const Array& x, WINDROW_WHERE);
Array cast(const Array& x, DType dtype, WINDROW_WHERE);
/// a + alpha * b.
void add_scaled(Destination dst, const Array& a, const Array& b, double alpha, WINDROW_WHERE);
Array add_scaled(const Array& a, const Array& b, double alpha, WINDROW_WHERE);
void fill(Destination dst, double value, WINDROW_WHERE);
/// x broadcast and converted to dst.
void copy(Destination dst, const Array& x, WINDROW_WHERE);
/// f of every element, in double; for trying out a function that has no op. A plain loop on one core: slow.
void apply(Destination dst, const Array& x, ScalarFunction f, WINDROW_WHERE);
Array apply(const Array& x, ScalarFunction f, WINDROW_WHERE);

// ---- reductions ----
#define WINDROW_EAGER_REDUCTIONS(row) \
  row(sum) row(mean) row(max) row(min) row(prod) row(argmax) row(argmin) row(variance) row(logsumexp)
#define WINDROW_EAGER_REDUCE(name)                                                                            \
  void name(Destination dst, const Array& x, const AxisList& axes = {}, Keep keep = Keep::no, WINDROW_WHERE); \
  Array name(const Array& x, const AxisList& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
WINDROW_EAGER_REDUCTIONS(WINDROW_EAGER_REDUCE)
/// Square root of the sum of squares.
WINDROW_EAGER_REDUCE(norm)
#undef WINDROW_EAGER_REDUCE

// ---- contractions ----
void einsum(Destination dst, std::string_view spec, std::initializer_list<ArrayOperand> operands, WINDROW_WHERE);
void einsum(Destination dst, std::string_view spec, std::span<const ArrayOperand> operands, WINDROW_WHERE);
Array einsum(std::string_view spec, std::initializer_list<ArrayOperand> operands, WINDROW_WHERE);
Array einsum(std::string_view spec, std::span<const ArrayOperand> operands, WINDROW_WHERE);
void matmul(Destination dst, const Array& a, const Array& b, WINDROW_WHERE);
Array matmul(const Array& a, const Array& b, WINDROW_WHERE);
void matmul_nt(Destination dst, const Array& a, const Array& b, WINDROW_WHERE);
Array matmul_nt(const Array& a, const Array& b, WINDROW_WHERE);
void matmul_tn(Destination dst, const Array& a, const Array& b, WINDROW_WHERE);
Array matmul_tn(const Array& a, const Array& b, WINDROW_WHERE);
/// The sum of the products of two vectors.
void dot(Destination dst, const Array& a, const Array& b, WINDROW_WHERE);
Array dot(const Array& a, const Array& b, WINDROW_WHERE);

// ---- shapes (the others are views of Array) ----
void concat(Destination dst, std::initializer_list<ArrayOperand> parts, int axis, WINDROW_WHERE);
void concat(Destination dst, std::span<const ArrayOperand> parts, int axis, WINDROW_WHERE);
Array concat(std::initializer_list<ArrayOperand> parts, int axis, WINDROW_WHERE);
Array concat(std::span<const ArrayOperand> parts, int axis, WINDROW_WHERE);
void stack(Destination dst, std::initializer_list<ArrayOperand> parts, int axis, WINDROW_WHERE);
void stack(Destination dst, std::span<const ArrayOperand> parts, int axis, WINDROW_WHERE);
Array stack(std::initializer_list<ArrayOperand> parts, int axis, WINDROW_WHERE);
Array stack(std::span<const ArrayOperand> parts, int axis, WINDROW_WHERE);
void pad(Destination dst, const Array& x, const Dims& before, const Dims& after, double value = 0, WINDROW_WHERE);
Array pad(const Array& x, const Dims& before, const Dims& after, double value = 0, WINDROW_WHERE);

// ---- indices ----
void gather(Destination dst, const Array& x, const Array& indices, int axis = 0, WINDROW_WHERE);
Array gather(const Array& x, const Array& indices, int axis = 0, WINDROW_WHERE);
void scatter_add(Destination dst, const Array& base, const Array& indices, const Array& updates, int axis = 0,
                 WINDROW_WHERE);
Array scatter_add(const Array& base, const Array& indices, const Array& updates, int axis = 0, WINDROW_WHERE);
void take_along(Destination dst, const Array& x, const Array& indices, int axis, WINDROW_WHERE);
Array take_along(const Array& x, const Array& indices, int axis, WINDROW_WHERE);
/// dst's last axis says how many classes there are.
void one_hot(Destination dst, const Array& indices, WINDROW_WHERE);
Array one_hot(const Array& indices, std::int64_t classes, DType dtype = DType::f32, WINDROW_WHERE);
void embedding_sum(Destination dst, const Array& table, const Array& indices, WINDROW_WHERE);
Array embedding_sum(const Array& table, const Array& indices, WINDROW_WHERE);

// ---- windows over images ----
void conv2d(Destination dst, const Array& x, const Array& weights, const ConvOptions& options = {}, WINDROW_WHERE);
Array conv2d(const Array& x, const Array& weights, const ConvOptions& options = {}, WINDROW_WHERE);
void conv1d(Destination dst, const Array& x, const Array& weights, const ConvOptions& options = {}, WINDROW_WHERE);
Array conv1d(const Array& x, const Array& weights, const ConvOptions& options = {}, WINDROW_WHERE);
void conv_transpose2d(Destination dst, const Array& x, const Array& weights, const ConvOptions& options = {},
                      WINDROW_WHERE);
Array conv_transpose2d(const Array& x, const Array& weights, const ConvOptions& options = {}, WINDROW_WHERE);
void unfold(Destination dst, const Array& x, const Window& window, WINDROW_WHERE);
Array unfold(const Array& x, const Window& window, WINDROW_WHERE);
/// dst is the image.
void fold(Destination dst, const Array& patches, const Window& window, WINDROW_WHERE);
Array fold(const Array& patches, const Shape& image, const Window& window, WINDROW_WHERE);
void max_pool(Destination dst, const Array& x, std::int64_t size, std::int64_t stride = 0, WINDROW_WHERE);
Array max_pool(const Array& x, std::int64_t size, std::int64_t stride = 0, WINDROW_WHERE);
void max_pool(Destination dst, const Array& x, const Window& window, WINDROW_WHERE);
Array max_pool(const Array& x, const Window& window, WINDROW_WHERE);
void avg_pool(Destination dst, const Array& x, std::int64_t size, std::int64_t stride = 0, WINDROW_WHERE);
Array avg_pool(const Array& x, std::int64_t size, std::int64_t stride = 0, WINDROW_WHERE);
void avg_pool(Destination dst, const Array& x, const Window& window, WINDROW_WHERE);
Array avg_pool(const Array& x, const Window& window, WINDROW_WHERE);

// ---- compositions ----
void softmax(Destination dst, const Array& x, int axis = -1, WINDROW_WHERE);
Array softmax(const Array& x, int axis = -1, WINDROW_WHERE);
void log_softmax(Destination dst, const Array& x, int axis = -1, WINDROW_WHERE);
Array log_softmax(const Array& x, int axis = -1, WINDROW_WHERE);
void layer_norm(Destination dst, const Array& x, const Array& scale, const Array& shift, double epsilon = 1e-5,
                WINDROW_WHERE);
Array layer_norm(const Array& x, const Array& scale, const Array& shift, double epsilon = 1e-5, WINDROW_WHERE);
void batch_norm(Destination dst, const Array& x, const Array& scale, const Array& shift, double epsilon = 1e-5,
                WINDROW_WHERE);
Array batch_norm(const Array& x, const Array& scale, const Array& shift, double epsilon = 1e-5, WINDROW_WHERE);
void group_norm(Destination dst, const Array& x, std::int64_t groups, const Array& scale, const Array& shift,
                double epsilon = 1e-5, WINDROW_WHERE);
Array group_norm(const Array& x, std::int64_t groups, const Array& scale, const Array& shift, double epsilon = 1e-5,
                 WINDROW_WHERE);
void instance_norm(Destination dst, const Array& x, const Array& scale, const Array& shift, double epsilon = 1e-5,
                   WINDROW_WHERE);
Array instance_norm(const Array& x, const Array& scale, const Array& shift, double epsilon = 1e-5, WINDROW_WHERE);
void rms_norm(Destination dst, const Array& x, const Array& scale, double epsilon = 1e-5, WINDROW_WHERE);
Array rms_norm(const Array& x, const Array& scale, double epsilon = 1e-5, WINDROW_WHERE);
/// The same seed gives the same mask.
void dropout(Destination dst, const Array& x, double probability, std::int32_t seed, WINDROW_WHERE);
Array dropout(const Array& x, double probability, std::int32_t seed, WINDROW_WHERE);
void cross_entropy(Destination dst, const Array& logits, const Array& labels, WINDROW_WHERE);
Array cross_entropy(const Array& logits, const Array& labels, WINDROW_WHERE);
void mse(Destination dst, const Array& prediction, const Array& target, WINDROW_WHERE);
Array mse(const Array& prediction, const Array& target, WINDROW_WHERE);
void huber(Destination dst, const Array& prediction, const Array& target, double delta = 1, WINDROW_WHERE);
Array huber(const Array& prediction, const Array& target, double delta = 1, WINDROW_WHERE);

// ---- gradients ----
// Of sum(g * op(x)), by the op's first operand where nothing else is said. Inside a step, use grad().
using UnaryOp = Tensor (*)(const Tensor&, Location);
using BinaryOp = Tensor (*)(const Operand&, const Operand&);
using AxisOp = Tensor (*)(const Tensor&, int, Location);
/// Of any elementwise op: gradient(dx, wr::tanh, x, g), gradient(dx, wr::leaky_relu, x, 0.1, g).
void gradient(Destination dst, UnaryOp op, const Array& x, const Array& g, WINDROW_WHERE);
Array gradient(UnaryOp op, const Array& x, const Array& g, WINDROW_WHERE);
void gradient(Destination dst, BinaryOp op, const ArrayOperand& a, const ArrayOperand& b, const Array& g,
              WINDROW_WHERE);
Array gradient(BinaryOp op, const ArrayOperand& a, const ArrayOperand& b, const Array& g, WINDROW_WHERE);
/// Of softmax and log_softmax.
void gradient(Destination dst, AxisOp op, const Array& x, const Array& g, int axis = -1, WINDROW_WHERE);
Array gradient(AxisOp op, const Array& x, const Array& g, int axis = -1, WINDROW_WHERE);
/// By the image, whose shape is dst's, and by the weights, whose shape is dst's.
#define WINDROW_EAGER_CONV_GRADIENTS(conv)                                                                           \
  void conv##_image_gradient(Destination dst, const Array& g, const Array& weights, const ConvOptions& options = {}, \
                             WINDROW_WHERE);                                                                         \
  void conv##_weights_gradient(Destination dst, const Array& x, const Array& g, const ConvOptions& options = {},     \
                               WINDROW_WHERE);
WINDROW_EAGER_CONV_GRADIENTS(conv1d)
WINDROW_EAGER_CONV_GRADIENTS(conv2d)
WINDROW_EAGER_CONV_GRADIENTS(conv_transpose2d)
#undef WINDROW_EAGER_CONV_GRADIENTS
void max_pool_gradient(Destination dst, const Array& x, const Array& g, const Window& window, WINDROW_WHERE);
void avg_pool_gradient(Destination dst, const Array& g, const Window& window, WINDROW_WHERE);

// ---- operators ----
#define WINDROW_EAGER_OPERATOR(symbol, name)                                                 \
  inline Array operator symbol(const Array& a, const ArrayOperand& b) { return name(a, b); } \
  template <Number N>                                                                        \
  Array operator symbol(N a, const ArrayOperand& b) {                                        \
    return name(a, b);                                                                       \
  }
WINDROW_EAGER_OPERATOR(+, add)
WINDROW_EAGER_OPERATOR(-, sub)
WINDROW_EAGER_OPERATOR(*, mul)
WINDROW_EAGER_OPERATOR(/, div)
WINDROW_EAGER_OPERATOR(<, lt)
WINDROW_EAGER_OPERATOR(<=, le)
WINDROW_EAGER_OPERATOR(>, gt)
WINDROW_EAGER_OPERATOR(>=, ge)
#undef WINDROW_EAGER_OPERATOR
/// In place.
#define WINDROW_EAGER_ASSIGNMENT(symbol, name)                     \
  inline Array& operator symbol(Array& a, const ArrayOperand& b) { \
    name(a, ArrayOperand(a, b.where), b);                          \
    return a;                                                      \
  }
WINDROW_EAGER_ASSIGNMENT(+=, add)
WINDROW_EAGER_ASSIGNMENT(-=, sub)
WINDROW_EAGER_ASSIGNMENT(*=, mul)
WINDROW_EAGER_ASSIGNMENT(/=, div)
#undef WINDROW_EAGER_ASSIGNMENT
// The one operator that cannot know the caller's line: nothing of its own is converted.
inline Array operator-(const Array& a) { return neg(a); }

}  // namespace wr
