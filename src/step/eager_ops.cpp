// The eager functions of ops.h: each says what its operands and attributes are and how to trace it.
#include <array>

#include "base/array_walk.h"
#include "ops/define.h"
#include "step/eager.h"
#include "windrow/contract.h"

namespace wr {

using eager::Attribute;
using eager::Call;
using In = eager::Trace::Operands;
using Where = Location;

// Defines both forms of a function. PARAMETERS, OPERANDS and ATTRIBUTES are parenthesised lists; TRACED is an
// expression over `in`, the operands as they are traced. Numbers and sizes it uses beside them must be among the
// attributes.
#define WINDROW_LIST(...) __VA_ARGS__
#define WINDROW_EAGER(name, PARAMETERS, OPERANDS, ATTRIBUTES, TRACED)                               \
  void name(Destination dst, WINDROW_LIST PARAMETERS, Where where) {                                \
    eager::into(dst, Call{#name, where}, std::to_array<ArrayOperand>({WINDROW_LIST OPERANDS}),      \
                {WINDROW_LIST ATTRIBUTES}, [&]([[maybe_unused]] In in) { return TRACED; });         \
  }                                                                                                 \
  Array name(WINDROW_LIST PARAMETERS, Where where) {                                                \
    return eager::value(Call{#name, where}, std::to_array<ArrayOperand>({WINDROW_LIST OPERANDS}),   \
                        {WINDROW_LIST ATTRIBUTES}, [&]([[maybe_unused]] In in) { return TRACED; }); \
  }

// ---- elementwise ----

namespace {

/// pow has rules for certain exponents (2 is a square), so its numbers are part of the plan.
Call formula(const char* name, const Where& where) { return {name, where, true, std::string_view(name) == "pow"}; }

}  // namespace

#define WINDROW_UNARY(name, ...)                                                     \
  void name(Destination dst, const Array& x, Where where) {                          \
    eager::into(dst, formula(#name, where), std::to_array<ArrayOperand>({x}), {},    \
                [&](In in) { return name(in[0].tensor, where); });                   \
  }                                                                                  \
  Array name(const Array& x, Where where) {                                          \
    return eager::value(formula(#name, where), std::to_array<ArrayOperand>({x}), {}, \
                        [&](In in) { return name(in[0].tensor, where); });           \
  }
#define WINDROW_EAGER_2(name, ...)                                                                                  \
  void name(Destination dst, const ArrayOperand& a, const ArrayOperand& b) {                                        \
    eager::into(dst, formula(#name, a.where), std::to_array({a, b}), {}, [](In in) { return name(in[0], in[1]); }); \
  }                                                                                                                 \
  Array eager::name(const ArrayOperand& a, const ArrayOperand& b) {                                                 \
    return eager::value(formula(#name, a.where), std::to_array({a, b}), {},                                         \
                        [](In in) { return wr::name(in[0], in[1]); });                                              \
  }
#define WINDROW_BINARY WINDROW_EAGER_2
#define WINDROW_COMPARE WINDROW_EAGER_2
#define WINDROW_LOGIC WINDROW_EAGER_2
#define WINDROW_TERNARY(name, ...)                                                                  \
  void name(Destination dst, const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c) { \
    eager::into(dst, formula(#name, a.where), std::to_array({a, b, c}), {},                         \
                [](In in) { return name(in[0], in[1], in[2]); });                                   \
  }                                                                                                 \
  Array eager::name(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c) {          \
    return eager::value(formula(#name, a.where), std::to_array({a, b, c}), {},                      \
                        [](In in) { return wr::name(in[0], in[1], in[2]); });                       \
  }
#define WINDROW_QUINARY(name, ...)                                                                              \
  void name(Destination dst, const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c,               \
            const ArrayOperand& d, const ArrayOperand& e) {                                                     \
    eager::into(dst, formula(#name, a.where), std::to_array({a, b, c, d, e}), {},                               \
                [](In in) { return name(in[0], in[1], in[2], in[3], in[4]); });                                 \
  }                                                                                                             \
  Array eager::name(const ArrayOperand& a, const ArrayOperand& b, const ArrayOperand& c, const ArrayOperand& d, \
                    const ArrayOperand& e) {                                                                    \
    return eager::value(formula(#name, a.where), std::to_array({a, b, c, d, e}), {},                            \
                        [](In in) { return wr::name(in[0], in[1], in[2], in[3], in[4]); });                     \
  }
#include "windrow/elementwise.def"
#undef WINDROW_EAGER_2

namespace {

Call choice(const Where& where) { return {"where", where, true, false, 1}; }
constexpr auto traced_where = [](In in) { return where(in[0].tensor, in[1], in[2]); };

}  // namespace

void where(Destination dst, const Array& condition, const ArrayOperand& yes, const ArrayOperand& no) {
  eager::into(dst, choice(yes.where), std::to_array({ArrayOperand(condition, yes.where), yes, no}), {}, traced_where);
}
Array where(const Array& condition, const ArrayOperand& yes, const ArrayOperand& no) {
  return eager::value(choice(yes.where), std::to_array({ArrayOperand(condition, yes.where), yes, no}), {},
                      traced_where);
}

WINDROW_EAGER(logical_not, (const Array& x), (x), (), logical_not(in[0].tensor, where))

void cast(Destination dst, const Array& x, Where where) {
  const DType dtype = static_cast<Array&>(dst).dtype();
  eager::into(dst, Call{"cast", where}, std::to_array<ArrayOperand>({x}), {dtype},
              [&](In in) { return cast(in[0].tensor, dtype, where); });
}
Array cast(const Array& x, DType dtype, Where where) {
  return eager::value(Call{"cast", where}, std::to_array<ArrayOperand>({x}), {dtype},
                      [&](In in) { return cast(in[0].tensor, dtype, where); });
}

namespace {

Call scaled(const Where& where) { return {"add_scaled", where, true}; }
// One formula rather than a product and a sum: only one kernel may run in place.
constexpr auto traced_add_scaled = [](In in) { return muladd(in[2], in[1], in[0]); };

}  // namespace

void add_scaled(Destination dst, const Array& a, const Array& b, double alpha, Where where) {
  eager::into(dst, scaled(where), std::to_array<ArrayOperand>({a, b, alpha}), {}, traced_add_scaled);
}
Array add_scaled(const Array& a, const Array& b, double alpha, Where where) {
  return eager::value(scaled(where), std::to_array<ArrayOperand>({a, b, alpha}), {}, traced_add_scaled);
}

void fill(Destination dst, double value, Where where) { static_cast<Array&>(dst).fill(value, where); }
void copy(Destination dst, const Array& x, Where where) { static_cast<Array&>(dst).copy_from(x, where); }

void apply(Destination to, const Array& x, ScalarFunction f, Where where) {
  Array& dst = to;
  if (!(dst.shape() == x.shape()))
    fail(where, "apply: the operand is " + to_string(x.shape()) + ", the destination " + to_string(dst.shape()));
  void* out = detail::ArrayAccess::write(dst, "apply", where);
  if (detail::ArrayAccess::overlap(dst, x) && !detail::ArrayAccess::same_elements(dst, x))
    return apply(dst, x.clone(where), f, where);
  const void* in = detail::ArrayAccess::read(x);
  detail::with_type(dst.dtype(), [&]<class To>() {
    detail::with_type(x.dtype(), [&]<class From>() {
      detail::walk_rows(x.shape(), dst.strides(), x.strides(), [&](auto i, auto j, auto n, auto step_i, auto step_j) {
        for (std::int64_t k = 0; k < n; ++k)
          static_cast<To*>(out)[i + k * step_i] =
              detail::convert<To>(f(static_cast<double>(static_cast<const From*>(in)[j + k * step_j])));
        return true;
      });
    });
  });
}
Array apply(const Array& x, ScalarFunction f, Where where) {
  Array result = Array::empty(x.shape(), x.dtype(), where);
  apply(result, x, f, where);
  return result;
}

// ---- reductions ----

namespace {

Axes axes_of(const AxisList& axes) {
  return axes.all ? Axes() : Axes(std::vector<int>(axes.list.begin(), axes.list.end()));
}

}  // namespace

#define WINDROW_EAGER_REDUCE(name)                                                                         \
  WINDROW_EAGER(name, (const Array& x, const AxisList& axes, Keep keep), (x), (axes.all, axes.list, keep), \
                name(in[0].tensor, axes_of(axes), keep, where))
WINDROW_EAGER_REDUCTIONS(WINDROW_EAGER_REDUCE)
WINDROW_EAGER(norm, (const Array& x, const AxisList& axes, Keep keep), (x), (axes.all, axes.list, keep),
              sqrt(sum(square(in[0].tensor, where), axes_of(axes), keep, where), where))

// ---- contractions ----

namespace {

std::vector<Tensor> tensors(In in) {
  std::vector<Tensor> list;
  for (const Operand& operand : in) list.push_back(operand.tensor);
  return list;
}

std::span<const ArrayOperand> as_span(std::initializer_list<ArrayOperand> list) { return {list.begin(), list.size()}; }

}  // namespace

void einsum(Destination dst, std::string_view spec, std::span<const ArrayOperand> operands, Where where) {
  eager::into(dst, Call{"einsum", where}, operands, {spec}, [&](In in) { return einsum(spec, tensors(in), where); });
}
Array einsum(std::string_view spec, std::span<const ArrayOperand> operands, Where where) {
  return eager::value(Call{"einsum", where}, operands, {spec}, [&](In in) { return einsum(spec, tensors(in), where); });
}
void einsum(Destination dst, std::string_view spec, std::initializer_list<ArrayOperand> operands, Where where) {
  einsum(dst, spec, as_span(operands), where);
}
Array einsum(std::string_view spec, std::initializer_list<ArrayOperand> operands, Where where) {
  return einsum(spec, as_span(operands), where);
}

WINDROW_EAGER(contract, (std::string_view spec, const Array& a, const Array& b, Semiring semiring), (a, b),
              (spec, semiring), contract(spec, in[0].tensor, in[1].tensor, semiring, where))

#define WINDROW_EAGER_PRODUCT(name) \
  WINDROW_EAGER(name, (const Array& a, const Array& b), (a, b), (), name(in[0].tensor, in[1].tensor, where))
WINDROW_EAGER_PRODUCT(matmul)
WINDROW_EAGER_PRODUCT(matmul_nt)
WINDROW_EAGER_PRODUCT(matmul_tn)

namespace {

Tensor traced_dot(In in, const Where& where) {
  const Tensor &a = in[0].tensor, &b = in[1].tensor;
  if (a.rank() != 1 || !(a.shape() == b.shape()) || a.dtype() != b.dtype())
    fail(where,
         "dot: needs two vectors of one size and type, got " + to_string(a.spec()) + " and " + to_string(b.spec()));
  return einsum("i,i->", std::vector<Tensor>{a, b}, where);
}

}  // namespace

WINDROW_EAGER(dot, (const Array& a, const Array& b), (a, b), (), traced_dot(in, where))

// ---- shapes ----

#define WINDROW_EAGER_JOIN(name)                                                                                   \
  void name(Destination dst, std::span<const ArrayOperand> parts, int axis, Where where) {                         \
    eager::into(dst, Call{#name, where}, parts, {axis}, [&](In in) { return name(tensors(in), axis, where); });    \
  }                                                                                                                \
  Array name(std::span<const ArrayOperand> parts, int axis, Where where) {                                         \
    return eager::value(Call{#name, where}, parts, {axis}, [&](In in) { return name(tensors(in), axis, where); }); \
  }                                                                                                                \
  void name(Destination dst, std::initializer_list<ArrayOperand> parts, int axis, Where where) {                   \
    name(dst, as_span(parts), axis, where);                                                                        \
  }                                                                                                                \
  Array name(std::initializer_list<ArrayOperand> parts, int axis, Where where) {                                   \
    return name(as_span(parts), axis, where);                                                                      \
  }
WINDROW_EAGER_JOIN(concat)
WINDROW_EAGER_JOIN(stack)

WINDROW_EAGER(pad, (const Array& x, const Dims& before, const Dims& after, double value), (x), (before, after, value),
              pad(in[0].tensor, before, after, value, where))

// ---- indices ----

WINDROW_EAGER(gather, (const Array& x, const Array& indices, int axis), (x, indices), (axis),
              gather(in[0].tensor, in[1].tensor, axis, where))
WINDROW_EAGER(scatter_add, (const Array& base, const Array& indices, const Array& updates, int axis),
              (base, indices, updates), (axis), scatter_add(in[0].tensor, in[1].tensor, in[2].tensor, axis, where))
WINDROW_EAGER(take_along, (const Array& x, const Array& indices, int axis), (x, indices), (axis),
              take_along(in[0].tensor, in[1].tensor, axis, where))
WINDROW_EAGER(embedding_sum, (const Array& table, const Array& indices), (table, indices), (),
              embedding_sum(in[0].tensor, in[1].tensor, where))

void one_hot(Destination to, const Array& indices, Where where) {
  Array& dst = to;
  if (dst.rank() != indices.rank() + 1)
    fail(where, "one_hot: the destination must be the indices " + to_string(indices.shape()) +
                    " and an axis of classes, is " + to_string(dst.shape()));
  const auto classes = dst.size(-1);
  eager::into(dst, Call{"one_hot", where}, std::to_array<ArrayOperand>({indices}), {classes, dst.dtype()},
              [&](In in) { return one_hot(in[0].tensor, classes, dst.dtype(), where); });
}
Array one_hot(const Array& indices, std::int64_t classes, DType dtype, Where where) {
  return eager::value(Call{"one_hot", where}, std::to_array<ArrayOperand>({indices}), {classes, dtype},
                      [&](In in) { return one_hot(in[0].tensor, classes, dtype, where); });
}

// ---- windows ----

#define WINDROW_WINDOW_ATTRIBUTES(w)                                                                          \
  w.height, w.width, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w, w.pad_top, w.pad_bottom, w.pad_left, \
      w.pad_right

#define WINDROW_CONV_ATTRIBUTES(o) o.padding.each_side, o.stride, o.dilation, o.groups
#define WINDROW_EAGER_CONV(name)                                                                        \
  WINDROW_EAGER(name, (const Array& x, const Array& weights, const ConvOptions& options), (x, weights), \
                (WINDROW_CONV_ATTRIBUTES(options)), name(in[0].tensor, in[1].tensor, options, where))
WINDROW_EAGER_CONV(conv1d)
WINDROW_EAGER_CONV(conv2d)
WINDROW_EAGER_CONV(conv_transpose2d)
WINDROW_EAGER(unfold, (const Array& x, const Window& window), (x), (WINDROW_WINDOW_ATTRIBUTES(window)),
              unfold(in[0].tensor, window, where))
WINDROW_EAGER(max_pool, (const Array& x, const Window& window), (x), (WINDROW_WINDOW_ATTRIBUTES(window)),
              max_pool(in[0].tensor, window, where))
WINDROW_EAGER(max_pool, (const Array& x, std::int64_t size, std::int64_t stride), (x), (size, stride),
              max_pool(in[0].tensor, size, stride, where))
WINDROW_EAGER(avg_pool, (const Array& x, std::int64_t size, std::int64_t stride), (x), (size, stride),
              avg_pool(in[0].tensor, size, stride, where))

WINDROW_EAGER(avg_pool, (const Array& x, const Window& window), (x), (WINDROW_WINDOW_ATTRIBUTES(window)),
              avg_pool(in[0].tensor, window, where))

void fold(Destination to, const Array& patches, const Window& window, Where where) {
  Array& dst = to;
  eager::into(dst, Call{"fold", where}, std::to_array<ArrayOperand>({patches}),
              {dst.shape(), WINDROW_WINDOW_ATTRIBUTES(window)},
              [&](In in) { return fold(in[0].tensor, dst.shape(), window, where); });
}
Array fold(const Array& patches, const Shape& image, const Window& window, Where where) {
  return eager::value(Call{"fold", where}, std::to_array<ArrayOperand>({patches}),
                      {image, WINDROW_WINDOW_ATTRIBUTES(window)},
                      [&](In in) { return fold(in[0].tensor, image, window, where); });
}

// ---- compositions ----

WINDROW_EAGER(softmax, (const Array& x, int axis), (x), (axis), softmax(in[0].tensor, axis, where))
WINDROW_EAGER(log_softmax, (const Array& x, int axis), (x), (axis), log_softmax(in[0].tensor, axis, where))
#define WINDROW_EAGER_NORM(name)                                                                                   \
  WINDROW_EAGER(name, (const Array& x, const Array& scale, const Array& shift, double epsilon), (x, scale, shift), \
                (epsilon), name(in[0].tensor, in[1].tensor, in[2].tensor, epsilon, where))
WINDROW_EAGER_NORM(layer_norm)
WINDROW_EAGER_NORM(batch_norm)
WINDROW_EAGER_NORM(instance_norm)
WINDROW_EAGER(group_norm, (const Array& x, std::int64_t groups, const Array& scale, const Array& shift, double epsilon),
              (x, scale, shift), (groups, epsilon),
              group_norm(in[0].tensor, groups, in[1].tensor, in[2].tensor, epsilon, where))
WINDROW_EAGER(rms_norm, (const Array& x, const Array& scale, double epsilon), (x, scale), (epsilon),
              rms_norm(in[0].tensor, in[1].tensor, epsilon, where))

// The seed is the counter of the traced kind.
void dropout(Destination dst, const Array& x, double probability, std::int32_t seed, Where where) {
  const Array counter = Array::scalar(seed, where);
  eager::into(dst, Call{"dropout", where}, std::to_array<ArrayOperand>({x, counter}), {probability},
              [&](In in) { return ops::dropout_at(in[0].tensor, probability, in[1].tensor, where); });
}
Array dropout(const Array& x, double probability, std::int32_t seed, Where where) {
  Array result = Array::empty(x.shape(), x.dtype(), where);
  dropout(result, x, probability, seed, where);
  return result;
}
WINDROW_EAGER_PRODUCT(cross_entropy)
WINDROW_EAGER_PRODUCT(mse)
WINDROW_EAGER(huber, (const Array& prediction, const Array& target, double delta), (prediction, target), (delta),
              huber(in[0].tensor, in[1].tensor, delta, where))

// ---- gradients ----

namespace {

Tensor gradient_of(const Tensor& y, const Tensor& g, const Tensor& by, const char* op, const Where& where) {
  if (!(g.spec() == y.spec()))
    fail(where, std::string(op) + ": the gradient must be " + to_string(y.spec()) + ", is " + to_string(g.spec()));
  return grad(sum(mul(Operand(y, where), g), {}, Keep::no, where), {by}, where)[0];
}

Tensor gradient_of(BinaryOp op, In in, const Where& where) {
  const Tensor a = in[0].is_number ? full({}, in[0].number, in[2].tensor.dtype(), where) : in[0].tensor;
  return gradient_of(op(Operand(a, where), in[1]), in[2].tensor, a, "gradient", where);
}

/// An operand of an op that is linear in it: its value does not matter to its gradient.
Tensor placeholder(const Array& like, const Where& where) { return full(like.shape(), 0, like.dtype(), where); }

template <class Op>
std::uintptr_t address(Op op) {
  return reinterpret_cast<std::uintptr_t>(op);
}

}  // namespace

WINDROW_EAGER(gradient, (UnaryOp op, const Array& x, const Array& g), (x, g), (address(op)),
              gradient_of(op(in[0].tensor, where), in[1].tensor, in[0].tensor, "gradient", where))
WINDROW_EAGER(gradient, (BinaryOp op, const ArrayOperand& a, const ArrayOperand& b, const Array& g), (a, b, g),
              (address(op)), gradient_of(op, in, where))
WINDROW_EAGER(gradient, (AxisOp op, const Array& x, const Array& g, int axis), (x, g), (address(op), axis),
              gradient_of(op(in[0].tensor, axis, where), in[1].tensor, in[0].tensor, "gradient", where))

#define WINDROW_EAGER_CONV_GRADIENTS(conv)                                                                            \
  void conv##_image_gradient(Destination to, const Array& g, const Array& weights, const ConvOptions& options,        \
                             Where where) {                                                                           \
    Array& dst = to;                                                                                                  \
    eager::into(dst, Call{#conv "_image_gradient", where}, std::to_array<ArrayOperand>({g, weights}),                 \
                {dst.shape(), dst.dtype(), WINDROW_CONV_ATTRIBUTES(options)}, [&](In in) {                            \
                  const Tensor x = placeholder(dst, where);                                                           \
                  return gradient_of(conv(x, in[1].tensor, options, where), in[0].tensor, x, #conv "_image_gradient", \
                                     where);                                                                          \
                });                                                                                                   \
  }                                                                                                                   \
  void conv##_weights_gradient(Destination to, const Array& x, const Array& g, const ConvOptions& options,            \
                               Where where) {                                                                         \
    Array& dst = to;                                                                                                  \
    eager::into(dst, Call{#conv "_weights_gradient", where}, std::to_array<ArrayOperand>({x, g}),                     \
                {dst.shape(), dst.dtype(), WINDROW_CONV_ATTRIBUTES(options)}, [&](In in) {                            \
                  const Tensor w = placeholder(dst, where);                                                           \
                  return gradient_of(conv(in[0].tensor, w, options, where), in[1].tensor, w,                          \
                                     #conv "_weights_gradient", where);                                               \
                });                                                                                                   \
  }
WINDROW_EAGER_CONV_GRADIENTS(conv1d)
WINDROW_EAGER_CONV_GRADIENTS(conv2d)
WINDROW_EAGER_CONV_GRADIENTS(conv_transpose2d)

void max_pool_gradient(Destination dst, const Array& x, const Array& g, const Window& window, Where where) {
  eager::into(dst, Call{"max_pool_gradient", where}, std::to_array<ArrayOperand>({x, g}),
              {WINDROW_WINDOW_ATTRIBUTES(window)}, [&](In in) {
                return gradient_of(max_pool(in[0].tensor, window, where), in[1].tensor, in[0].tensor,
                                   "max_pool_gradient", where);
              });
}

void avg_pool_gradient(Destination to, const Array& g, const Window& window, Where where) {
  Array& dst = to;
  eager::into(dst, Call{"avg_pool_gradient", where}, std::to_array<ArrayOperand>({g}),
              {dst.shape(), dst.dtype(), WINDROW_WINDOW_ATTRIBUTES(window)}, [&](In in) {
                const Tensor x = placeholder(dst, where);
                return gradient_of(avg_pool(x, window, where), in[0].tensor, x, "avg_pool_gradient", where);
              });
}

}  // namespace wr
