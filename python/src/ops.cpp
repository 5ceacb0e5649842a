// Ops that are not elementwise: reductions, contractions, shapes, indices, compositions. Each is traced where an
// operand is a Tensor or a State, and computed at once otherwise.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <deque>

#include "casters.h"
#include "windrow/contract.h"

namespace wr::python {
namespace {

using namespace nb::literals;

Keep keep_of(bool keep) { return keep ? Keep::yes : Keep::no; }

struct Reduction {
  const char *name, *doc;
  Tensor (*traced)(const Tensor&, const Axes&, Keep, Location);
  Array (*eager)(const Array&, const AxisList&, Keep, Location);
};

const Reduction kReductions[] = {
    {"sum", "Sum over the axes; all of them where none is given.", sum, sum},
    {"mean", "Mean over the axes.", mean, mean},
    {"max", "Largest element over the axes; equal ones share the gradient.", max, max},
    {"min", "Smallest element over the axes; equal ones share the gradient.", min, min},
    {"prod", "Product over the axes.", prod, prod},
    {"argmax", "Index (i32) of the first largest element.", argmax, argmax},
    {"argmin", "Index (i32) of the first smallest element.", argmin, argmin},
    {"variance", "Mean of the squared distance from the mean.", variance, variance},
    {"logsumexp", "log(sum(exp(x))), without overflow.", logsumexp, logsumexp},
};

void bind_reductions(nb::module_& m) {
  for (const Reduction& row : kReductions) {
    const Reduction* r = &row;
    const auto call = [r](nb::handle x, nb::handle axis, bool keepdims) {
      const Location w = here();
      return either(
          {x}, [&] { return r->traced(tensor_from(x, w), axes_from(axis), keep_of(keepdims), w); },
          [&] { return r->eager(ArrayIn(x, r->name), axis_list_from(axis), keep_of(keepdims), w); });
    };
    m.def(row.name, call, "x"_a, "axis"_a.none() = nb::none(), "keepdims"_a = false, row.doc);
    for (nb::handle type : {nb::type<Array>(), nb::type<Tensor>()})
      nb::setattr(type, row.name,
                  nb::cpp_function(call, nb::scope(type), nb::name(row.name), nb::is_method(),
                                   nb::arg("axis").none() = nb::none(), nb::arg("keepdims") = false, row.doc));
  }
  m.def(
      "norm",
      [](nb::handle x, nb::handle axis, bool keepdims) {
        const Location w = here();
        return either(
            {x}, [&] { return sqrt(sum(square(tensor_from(x, w), w), axes_from(axis), keep_of(keepdims), w), w); },
            [&] { return norm(ArrayIn(x, "norm"), axis_list_from(axis), keep_of(keepdims), w); });
      },
      "x"_a, "axis"_a.none() = nb::none(), "keepdims"_a = false, "Square root of the sum of squares.");
}

/// Array operands of a call that takes several.
class Operands {
 public:
  Operands(nb::handle sequence, const char* op, Location where) {
    for (nb::handle item : sequence) list_.emplace_back(held_.emplace_back(item, op).get(), where);
  }
  std::span<const ArrayOperand> get() const { return list_; }

 private:
  std::deque<ArrayIn> held_;
  std::vector<ArrayOperand> list_;
};

bool any_of(nb::handle sequence) {
  for (nb::handle item : sequence)
    if (is_traced(item)) return true;
  return false;
}

void bind_contractions(nb::module_& m) {
  m.def(
      "einsum",
      [](const std::string& spec, const nb::args& operands) -> nb::object {
        const Location w = here();
        if (any_of(operands)) return nb::cast(einsum(spec, tensors_from(operands, w), w));
        return nb::cast(einsum(spec, Operands(operands, "einsum", w).get(), w));
      },
      "spec"_a, "operands"_a,
      "einsum('bi,io->bo', x, w): any number of operands, repeated labels (diagonals), labels to sum over.");
  m.def(
      "contract",
      [](const std::string& spec, nb::handle a, nb::handle b, const std::string& semiring) {
        const Location w = here();
        const auto found = semiring_called(semiring);
        if (!found)
          fail(w, "contract: there is no semiring '" + semiring +
                      "'; there are sum_product, max_product, max_plus, min_plus, max_min, lukasiewicz, noisy_or");
        return either(
            {a, b}, [&] { return contract(spec, tensor_from(a, w), tensor_from(b, w), *found, w); },
            [&] { return contract(spec, ArrayIn(a, "contract"), ArrayIn(b, "contract"), *found, w); });
      },
      "spec"_a, "a"_a, "b"_a, "semiring"_a,
      "contract('xy,yz->xz', p, q, 'max_product'): einsum of two operands in another semiring.");
#define PRODUCT(op, doc)                                                         \
  m.def(                                                                         \
      #op,                                                                       \
      [](nb::handle a, nb::handle b) {                                           \
        const Location w = here();                                               \
        return either(                                                           \
            {a, b}, [&] { return op(tensor_from(a, w), tensor_from(b, w), w); }, \
            [&] { return op(ArrayIn(a, #op), ArrayIn(b, #op), w); });            \
      },                                                                         \
      "a"_a, "b"_a, doc);
  PRODUCT(matmul, "The matrix product over the last two axes; leading axes are batches and broadcast.")
  PRODUCT(matmul_nt, "The same with b given transposed.")
  PRODUCT(matmul_tn, "The same with a given transposed.")
#undef PRODUCT
  m.def(
      "dot",
      [](nb::handle a, nb::handle b) {
        const Location w = here();
        return either(
            {a, b},
            [&] {
              return einsum("i,i->", {tensor_from(a, w), tensor_from(b, w)}, w);
            },
            [&] { return dot(ArrayIn(a, "dot"), ArrayIn(b, "dot"), w); });
      },
      "a"_a, "b"_a, "The sum of the products of two vectors.");
  m.def(
      "add_scaled",
      [](nb::handle a, nb::handle b, double alpha) {
        const Location w = here();
        return either(
            {a, b},
            [&] {
              return muladd({alpha, w}, {tensor_from(b, w), w}, {tensor_from(a, w), w});
            },
            [&] { return add_scaled(ArrayIn(a, "add_scaled"), ArrayIn(b, "add_scaled"), alpha, w); });
      },
      "a"_a, "b"_a, "alpha"_a, "a + alpha * b.");
}

void bind_shapes(nb::module_& m) {
  m.def(
      "reshape",
      [](nb::handle x, const Shape& s) {
        const Location w = here();
        return either(
            {x}, [&] { return reshape(tensor_from(x, w), s, w); }, [&] { return copied_array(x).reshape(s, w); });
      },
      "x"_a, "shape"_a, "One size may be -1: it is worked out.");
  m.def(
      "flatten",
      [](nb::handle x, int from_axis) {
        const Location w = here();
        return either(
            {x}, [&] { return flatten(tensor_from(x, w), from_axis, w); },
            [&] {
              const Array a = copied_array(x);
              Shape s;
              for (int i = 0; i < from_axis; ++i) s.push_back(a.size(i, w));
              s.push_back(-1);
              return a.reshape(s, w);
            });
      },
      "x"_a, "from_axis"_a = 0);
  m.def(
      "permute",
      [](nb::handle x, const Dims& order) {
        const Location w = here();
        return either(
            {x}, [&] { return permute(tensor_from(x, w), order, w); },
            [&] { return copied_array(x).permute(order, w); });
      },
      "x"_a, "order"_a);
  m.def(
      "transpose",
      [](nb::handle x) {
        const Location w = here();
        return either(
            {x}, [&] { return transpose(tensor_from(x, w), w); }, [&] { return copied_array(x).transpose(-1, -2, w); });
      },
      "x"_a, "The last two axes swapped.");
  m.def(
      "expand_dims",
      [](nb::handle x, int axis) {
        const Location w = here();
        return either(
            {x}, [&] { return expand_dims(tensor_from(x, w), axis, w); },
            [&] { return copied_array(x).expand_dims(axis, w); });
      },
      "x"_a, "axis"_a);
  m.def(
      "squeeze",
      [](nb::handle x, int axis) {
        const Location w = here();
        return either(
            {x}, [&] { return squeeze(tensor_from(x, w), axis, w); }, [&] { return copied_array(x).squeeze(axis, w); });
      },
      "x"_a, "axis"_a);
  m.def(
      "broadcast_to",
      [](nb::handle x, const Shape& s) {
        const Location w = here();
        return either(
            {x}, [&] { return broadcast_to(tensor_from(x, w), s, w); },
            [&] { return copied_array(x).broadcast_to(s, w); });
      },
      "x"_a, "shape"_a);
  m.def(
      "slice",
      [](nb::handle x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
        const Location w = here();
        return either(
            {x}, [&] { return slice(tensor_from(x, w), axis, start, stop, step, w); },
            [&] { return copied_array(x).slice(axis, start, stop, step, w); });
      },
      "x"_a, "axis"_a, "start"_a, "stop"_a, "step"_a = 1,
      "Elements start, start + step, ... before stop along one axis; negative positions count from the end.");
  m.def(
      "flip",
      [](nb::handle x, int axis) {
        const Location w = here();
        return either(
            {x},
            [&] {
              const Tensor t = tensor_from(x, w);
              const std::int64_t size = t.size(axis, w);
              return gather(t, sub({size - 1, w}, {iota({size}, 0, DType::i32, w), w}),
                            axis < 0 ? axis + t.rank() : axis, w);
            },
            [&] { return copied_array(x).slice(axis, {}, {}, -1, w); });
      },
      "x"_a, "axis"_a, "The other way round along one axis.");
#define PARTS(op, doc)                                                           \
  m.def(                                                                         \
      #op,                                                                       \
      [](nb::handle parts, int axis) -> nb::object {                             \
        const Location w = here();                                               \
        if (any_of(parts)) return nb::cast(op(tensors_from(parts, w), axis, w)); \
        return nb::cast(op(Operands(parts, #op, w).get(), axis, w));             \
      },                                                                         \
      "parts"_a, "axis"_a, doc);
  PARTS(concat, "One after the other along an axis.")
  PARTS(stack, "One after the other along a new axis.")
#undef PARTS
  m.def(
      "pad",
      [](nb::handle x, const Dims& before, const Dims& after, double value) {
        const Location w = here();
        return either(
            {x}, [&] { return pad(tensor_from(x, w), before, after, value, w); },
            [&] { return pad(ArrayIn(x, "pad"), before, after, value, w); });
      },
      "x"_a, "before"_a, "after"_a, "value"_a = 0.0, "before[i] and after[i] elements of `value` round axis i.");
  m.def(
      "cast",
      [](nb::handle x, DType dtype) {
        const Location w = here();
        return either(
            {x}, [&] { return cast(tensor_from(x, w), dtype, w); }, [&] { return cast(ArrayIn(x, "cast"), dtype, w); });
      },
      "x"_a, "dtype"_a, "Converted to another element type.");
  m.def(
      "iota", [](const Shape& s, int axis, DType dtype) { return iota(s, axis, dtype, here()); }, "shape"_a, "axis"_a,
      "dtype"_a = Type{DType::i32}, "0, 1, 2, ... along one axis; a Tensor.");
  m.def(
      "full", [](const Shape& s, double value, DType dtype) { return full(s, value, dtype, here()); }, "shape"_a,
      "value"_a, "dtype"_a = Type{DType::f32}, "A fixed value; a Tensor.");
  m.def(
      "where",
      [](nb::handle c, nb::handle yes, nb::handle no) -> nb::object {
        const Location w = here();
        if (any_traced({c, yes, no}))
          return nb::cast(where(tensor_from(c, w), operand_from(yes, w), operand_from(no, w)));
        std::deque<ArrayIn> held;
        const auto operand = [&](nb::handle h) {
          return is_number(h) ? ArrayOperand(number_from(h), w) : ArrayOperand(held.emplace_back(h, "where").get(), w);
        };
        return nb::cast(where(ArrayIn(c, "where"), operand(yes), operand(no)));
      },
      "condition"_a, "yes"_a, "no"_a, "yes where the condition holds, no elsewhere.");
  m.def(
      "logical_not",
      [](nb::handle x) {
        const Location w = here();
        return either(
            {x}, [&] { return logical_not(tensor_from(x, w), w); },
            [&] { return logical_not(ArrayIn(x, "logical_not"), w); });
      },
      "x"_a, "True where x is false.");
}

void bind_indices(nb::module_& m) {
  m.def(
      "gather",
      [](nb::handle x, nb::handle i, int axis) {
        const Location w = here();
        return either(
            {x, i}, [&] { return gather(tensor_from(x, w), tensor_from(i, w), axis, w); },
            [&] { return gather(ArrayIn(x, "gather"), ArrayIn(i, "gather"), axis, w); });
      },
      "x"_a, "indices"_a, "axis"_a = 0,
      "Rows of x along an axis: the axis is replaced by the shape of the indices (i32).");
  m.def(
      "scatter_add",
      [](nb::handle base, nb::handle i, nb::handle updates, int axis) {
        const Location w = here();
        return either(
            {base, i, updates},
            [&] { return scatter_add(tensor_from(base, w), tensor_from(i, w), tensor_from(updates, w), axis, w); },
            [&] {
              return scatter_add(ArrayIn(base, "scatter_add"), ArrayIn(i, "scatter_add"),
                                 ArrayIn(updates, "scatter_add"), axis, w);
            });
      },
      "base"_a, "indices"_a, "updates"_a, "axis"_a = 0,
      "base with updates added at the indices; equal indices add up.");
  m.def(
      "take_along",
      [](nb::handle x, nb::handle i, int axis) {
        const Location w = here();
        return either(
            {x, i}, [&] { return take_along(tensor_from(x, w), tensor_from(i, w), axis, w); },
            [&] { return take_along(ArrayIn(x, "take_along"), ArrayIn(i, "take_along"), axis, w); });
      },
      "x"_a, "indices"_a, "axis"_a, "One pick an output element; indices has x's rank.");
  m.def(
      "one_hot",
      [](nb::handle i, std::int64_t classes, DType dtype) {
        const Location w = here();
        return either(
            {i}, [&] { return one_hot(tensor_from(i, w), classes, dtype, w); },
            [&] { return one_hot(ArrayIn(i, "one_hot"), classes, dtype, w); });
      },
      "indices"_a, "classes"_a, "dtype"_a = Type{DType::f32});
  m.def(
      "embedding_sum",
      [](nb::handle table, nb::handle i) {
        const Location w = here();
        return either(
            {table, i}, [&] { return embedding_sum(tensor_from(table, w), tensor_from(i, w), w); },
            [&] { return embedding_sum(ArrayIn(table, "embedding_sum"), ArrayIn(i, "embedding_sum"), w); });
      },
      "table"_a, "indices"_a, "Sum of rows of the table, a row of indices at a time.");
}

void bind_compositions(nb::module_& m) {
#define ALONG(op, doc)                                                                                          \
  m.def(                                                                                                        \
      #op,                                                                                                      \
      [](nb::handle x, int axis) {                                                                              \
        const Location w = here();                                                                              \
        return either(                                                                                          \
            {x}, [&] { return op(tensor_from(x, w), axis, w); }, [&] { return op(ArrayIn(x, #op), axis, w); }); \
      },                                                                                                        \
      "x"_a, "axis"_a = -1, doc);
  ALONG(softmax, "exp(x) / sum(exp(x)), without overflow.")
  ALONG(log_softmax, "x - logsumexp(x).")
#undef ALONG
  m.def(
      "standardise",
      [](nb::handle x, const Axes& axes, double eps) {
        const Location w = here();
        return standardise(tensor_from(x, w), axes, eps, w);
      },
      "x"_a, "axis"_a, "epsilon"_a = 1e-5, "(x - mean) / sqrt(variance + epsilon) over the axes; traced.");
  const auto optional = [](nb::handle h, Location w) { return h.is_none() ? Tensor() : tensor_from(h, w); };
#define NORM(op, doc)                                                                             \
  m.def(                                                                                          \
      #op,                                                                                        \
      [optional](nb::handle x, nb::handle scale, nb::handle shift, double eps) -> nb::object {    \
        const Location w = here();                                                                \
        if (any_traced({x, scale, shift}) || scale.is_none() || shift.is_none())                  \
          return nb::cast(op(tensor_from(x, w), optional(scale, w), optional(shift, w), eps, w)); \
        return nb::cast(op(ArrayIn(x, #op), ArrayIn(scale, #op), ArrayIn(shift, #op), eps, w));   \
      },                                                                                          \
      "x"_a, "scale"_a.none() = nb::none(), "shift"_a.none() = nb::none(), "epsilon"_a = 1e-5, doc);
  NORM(layer_norm, "Standardised over the last axis, times scale, plus shift.")
  NORM(batch_norm, "Standardised over all axes but the last, times scale, plus shift.")
  NORM(instance_norm, "Each feature of each sample standardised over its positions, times scale, plus shift.")
#undef NORM
  m.def(
      "group_norm",
      [optional](nb::handle x, std::int64_t groups, nb::handle scale, nb::handle shift, double eps) -> nb::object {
        const Location w = here();
        if (any_traced({x, scale, shift}) || scale.is_none() || shift.is_none())
          return nb::cast(group_norm(tensor_from(x, w), groups, optional(scale, w), optional(shift, w), eps, w));
        return nb::cast(group_norm(ArrayIn(x, "group_norm"), groups, ArrayIn(scale), ArrayIn(shift), eps, w));
      },
      "x"_a, "groups"_a, "scale"_a.none() = nb::none(), "shift"_a.none() = nb::none(), "epsilon"_a = 1e-5,
      "Each sample over its positions and the features of a group.");
  m.def(
      "rms_norm",
      [](nb::handle x, nb::handle scale, double eps) {
        const Location w = here();
        return either(
            {x, scale}, [&] { return rms_norm(tensor_from(x, w), tensor_from(scale, w), eps, w); },
            [&] { return rms_norm(ArrayIn(x, "rms_norm"), ArrayIn(scale, "rms_norm"), eps, w); });
      },
      "x"_a, "scale"_a, "epsilon"_a = 1e-5, "x / sqrt(mean of squares + epsilon) over the last axis, times scale.");
  m.def(
      "dropout",
      [](nb::handle x, double p, nb::handle random) -> nb::object {
        const Location w = here();
        if (nb::isinstance<Random>(random))
          return nb::cast(dropout(tensor_from(x, w), p, nb::cast<const Random&>(random), w));
        return nb::cast(dropout(ArrayIn(x, "dropout"), p, nb::cast<std::int32_t>(random), w));
      },
      "x"_a, "probability"_a, "random"_a,
      "Each element 0 with the given probability, the others scaled up. In a step `random` is a Random; at once, a "
      "seed.");
#define LOSS(op, doc)                                                            \
  m.def(                                                                         \
      #op,                                                                       \
      [](nb::handle a, nb::handle b) {                                           \
        const Location w = here();                                               \
        return either(                                                           \
            {a, b}, [&] { return op(tensor_from(a, w), tensor_from(b, w), w); }, \
            [&] { return op(ArrayIn(a, #op), ArrayIn(b, #op), w); });            \
      },                                                                         \
      "prediction"_a, "target"_a, doc);
  LOSS(cross_entropy, "Mean over the batch of -log softmax(logits)[label]; see windrow.loss for options.")
  LOSS(mse, "Mean squared difference.")
#undef LOSS
  m.def(
      "huber",
      [](nb::handle a, nb::handle b, double delta) {
        const Location w = here();
        return either(
            {a, b}, [&] { return huber(tensor_from(a, w), tensor_from(b, w), delta, w); },
            [&] { return huber(ArrayIn(a, "huber"), ArrayIn(b, "huber"), delta, w); });
      },
      "prediction"_a, "target"_a, "delta"_a = 1.0, "Squared below delta, linear beyond; not reduced.");
}

}  // namespace

void bind_ops(nb::module_& m) {
  bind_reductions(m);
  bind_contractions(m);
  bind_shapes(m);
  bind_indices(m);
  bind_compositions(m);
}

}  // namespace wr::python
