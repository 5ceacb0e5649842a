// windrow.Tensor, State and Random; gradients and control.
#include "windrow/tensor.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "windrow/memory.h"
#include "windrow/scan.h"

namespace wr::python {
namespace {

using namespace nb::literals;

/// x[2, 1:3, ..., None, ::2] in a trace.
/// A whole number; numpy's arrays look like one until they are asked.
std::optional<std::int64_t> whole_number(nb::handle part) {
  if (!PyIndex_Check(part.ptr()) || nb::isinstance<Tensor>(part)) return std::nullopt;
  const nb::object number = nb::steal(PyNumber_Index(part.ptr()));
  if (number.is_valid()) return nb::cast<std::int64_t>(number);
  PyErr_Clear();
  return std::nullopt;
}

Tensor indexed(const Tensor& all, nb::handle key, Location where) {
  std::vector<nb::object> parts;
  if (nb::isinstance<nb::tuple>(key))
    for (nb::handle part : key) parts.push_back(nb::borrow(part));
  else
    parts.push_back(nb::borrow(key));
  int named = 0;
  for (const auto& part : parts) named += !part.is_none() && part.ptr() != Py_Ellipsis;
  if (named > all.rank()) fail(where, "index: " + std::to_string(named) + " indices for " + to_string(all.spec()));
  Tensor x = all;
  int axis = 0;
  for (const auto& part : parts) {
    if (part.is_none()) {
      x = expand_dims(x, axis++, where);
    } else if (part.ptr() == Py_Ellipsis) {
      axis += all.rank() - named;
    } else if (PySlice_Check(part.ptr())) {
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
      const auto size = static_cast<Py_ssize_t>(x.shape()[axis]);
      const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
      if (step < 0) fail(where, "index: a step of " + std::to_string(step) + "; use wr.flip(x, axis)");
      if (count != size) x = slice(x, axis, start, start + count * step, step, where);
      ++axis;
    } else if (const auto number = whole_number(part)) {
      std::int64_t index = *number;
      const std::int64_t size = x.shape()[axis];
      if (index < -size || index >= size)
        fail(where, "index " + std::to_string(index) + " is outside axis " + std::to_string(axis) + " of " +
                        to_string(all.spec()));
      if (index < 0) index += size;
      x = squeeze(slice(x, axis, index, index + 1, 1, where), axis, where);
    } else if (parts.size() == 1) {
      const Tensor index = tensor_from(part, where);
      if (index.dtype() == DType::boolean)
        fail(
            where,
            "index: what a mask picks has a shape that depends on values; use wr.where(mask, x, 0), or multiply by it");
      x = gather(x, index, 0, where);
    } else {
      fail(where, "index: ints, slices, ... and None; for arrays of indices beside them use gather() or take_along()");
    }
  }
  return x;
}

[[noreturn]] void no_value(const char* what) {
  throw nb::type_error((to_string(here()) + ": " + what + ": a Tensor has no value while the step is traced. " +
                        "Instead of a condition use wr.where(condition, yes, no); return what you want to see from the "
                        "step, or compute it now with wr.eval()")
                           .c_str());
}

void bind_tensor_class(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor",
                     "One value of a step that is being traced. Nothing is computed until the step runs; wr.eval(t) "
                     "computes one now.")
      .def(
          "__init__", [](Tensor* self, nb::handle value) { new (self) Tensor(tensor_from(value, here())); }, "value"_a)
      .def_prop_ro("shape", [](const Tensor& t) { return t.shape(); })
      .def_prop_ro("dtype", [](const Tensor& t) { return t.dtype(); })
      .def_prop_ro("spec", [](const Tensor& t) { return t.spec(); })
      .def_prop_ro("ndim", [](const Tensor& t) { return t.rank(); })
      .def_prop_ro("size", [](const Tensor& t) { return t.shape().count(); })
      .def(
          "__getitem__", [](const Tensor& t, nb::handle key) { return indexed(t, key, here()); }, "key"_a)
      .def("__len__",
           [](const Tensor& t) {
             if (t.rank() == 0) throw nb::type_error("len() of a tensor without axes");
             return t.shape()[0];
           })
      .def(
          "__matmul__",
          [](const Tensor& a, nb::handle b) {
            const Location where = here();
            return matmul(a, tensor_from(b, where), where);
          },
          nb::is_operator())
      .def(
          "__rmatmul__",
          [](const Tensor& b, nb::handle a) {
            const Location where = here();
            return matmul(tensor_from(a, where), b, where);
          },
          nb::is_operator())
      .def("__bool__", [](const Tensor&) -> bool { no_value("if tensor"); })
      .def("__float__", [](const Tensor&) -> double { no_value("float(tensor)"); })
      .def("__int__", [](const Tensor&) -> int { no_value("int(tensor)"); })
      .def("__index__", [](const Tensor&) -> int { no_value("an index from a tensor"); })
      .def("item", [](const Tensor&) -> double { no_value("tensor.item()"); })
      .def("numpy", [](const Tensor&) -> nb::object { no_value("tensor.numpy()"); })
      .def("__array__",
           [](const Tensor&, const nb::args&, const nb::kwargs&) -> nb::object { no_value("numpy.asarray(tensor)"); })
      .def("__repr__",
           [](const Tensor& t) { return "Tensor(" + (t.empty() ? std::string("empty") : to_string(t.spec())) + ")"; });
}

void bind_state(nb::module_& m) {
  nb::class_<State>(m, "State",
                    "Memory that lives from step to step: parameters, moments, counters. Steps compiled with the same "
                    "State share it.")
      .def(
          "__init__",
          [](State* self, nb::handle initial, const std::string& name) {
            new (self) State(copied_array(initial), name);
          },
          "initial"_a, "name"_a = "")
      .def_prop_rw(
          "name", [](const State& s) { return s.name(); }, [](const State& s, const std::string& n) { s.rename(n); })
      .def_prop_ro("shape", [](const State& s) { return s.shape(); })
      .def_prop_ro("dtype", [](const State& s) { return s.spec().dtype; })
      .def_prop_ro("spec", [](const State& s) { return s.spec(); })
      .def_prop_ro("ndim", [](const State& s) { return s.shape().rank(); })
      .def_prop_ro("size", [](const State& s) { return s.shape().count(); })
      .def(
          "value", [](const State& s) { return s.value(); }, "A copy of the current value.")
      .def(
          "memory", [](const State& s) { return memory_of(s); },
          "The state's own memory: np.asarray(s.memory()) sees what steps write, and steps see what is written to it.")
      .def(
          "numpy", [](const State& s) { return nb::module_::import_("numpy").attr("array")(nb::cast(memory_of(s))); },
          "A numpy copy of the current value.")
      .def(
          "set", [](State& s, nb::handle value) { s.set(ArrayIn(value), here()); }, "value"_a,
          "Overwrites the current value; shape and type must match.")
      .def(
          "assign",
          [](const State& s, nb::handle value) {
            const Location where = here();
            s.assign(tensor_from(value, where), where);
          },
          "value"_a, "In a trace: the step leaves this value in the state.")
      .def(
          "tensor", [](const State& s) { return Tensor(s, here()); }, "In a trace: the state's value.")
      .def(
          "__getitem__",
          [](const State& s, nb::handle key) {
            const Location where = here();
            return indexed(Tensor(s, where), key, where);
          },
          "key"_a)
      .def(
          "__matmul__",
          [](const State& a, nb::handle b) {
            const Location where = here();
            return matmul(Tensor(a, where), tensor_from(b, where), where);
          },
          nb::is_operator())
      .def(
          "__rmatmul__",
          [](const State& b, nb::handle a) {
            const Location where = here();
            return matmul(tensor_from(a, where), Tensor(b, where), where);
          },
          nb::is_operator())
      .def("__eq__",
           [](const State& a, nb::handle b) {
             return nb::isinstance<State>(b) && nb::cast<State>(b).variable() == a.variable();
           })
      .def("__hash__", [](const State& s) { return std::hash<const void*>()(s.variable().get()); })
      .def("__repr__",
           [](const State& s) {
             return "State(" + (s.name().empty() ? "" : "'" + s.name() + "', ") + to_string(s.spec()) + ")";
           })
      .def("__getstate__", [](const State& s) { return nb::make_tuple(s.name(), nb::cast(s.value())); })
      .def("__setstate__", [](State& s, const nb::tuple& state) {
        new (&s) State(nb::cast<const Array&>(state[1]), nb::cast<std::string>(state[0]));
      });
  m.def(
      "state_over",
      [](nb::handle memory, const std::string& name) {
        Foreign foreign;
        foreign.read_writable(memory);
        return state_over(Array::borrow(foreign.data, foreign.shape, foreign.dtype), name, here());
      },
      "memory"_a, "name"_a = "",
      "A State on another library's memory (a numpy array, a torch tensor), which must stay alive and in its place.");
  nb::class_<Random>(m, "Random", "A stream of random numbers: each run of a step that uses it draws new ones.")
      .def(nb::init<std::uint64_t>(), "seed"_a = 0)
      .def(
          "uniform", [](const Random& r, const Shape& s, DType t) { return r.uniform(s, t, here()); }, "shape"_a,
          "dtype"_a = Type{DType::f32}, "In [0, 1).")
      .def(
          "normal", [](const Random& r, const Shape& s, DType t) { return r.normal(s, t, here()); }, "shape"_a,
          "dtype"_a = Type{DType::f32})
      .def(
          "bernoulli", [](const Random& r, double p, const Shape& s) { return r.bernoulli(p, s, here()); },
          "probability"_a, "shape"_a, "bool: true with the given probability.")
      .def_prop_ro("counter", [](const Random& r) { return r.counter(); })
      .def_prop_ro("seed", &Random::seed);
}

/// A Python function of tensors as one of C++, for the length of a trace.
std::vector<Tensor> listed(nb::handle result, Location where) {
  if (result.is_none()) return {};
  return tensors_from(result, where);
}

nb::tuple tuple_of(const std::vector<Tensor>& tensors) { return nb::tuple(nb::cast(tensors)); }

void bind_control(nb::module_& m) {
  m.def(
      "grad",
      [](const Tensor& loss, nb::handle wrt, bool allow_unused) -> nb::object {
        const Location where = here();
        const bool one = nb::isinstance<Tensor>(wrt) || nb::isinstance<State>(wrt);
        std::vector<Tensor> g =
            wr::grad(loss, tensors_from(wrt, where), allow_unused ? Unused::allow : Unused::refuse, where);
        return one ? nb::cast(g[0]) : nb::cast(g);
      },
      "loss"_a, "wrt"_a, nb::kw_only(), "allow_unused"_a = false,
      "In a trace: d loss / d each of wrt (Tensors or States). The results are tensors like any other: gradients of "
      "gradients work. One that no gradient reaches is refused by name; with allow_unused its gradient is 0.");
  m.def(
      "stop_gradient",
      [](nb::handle x) {
        const Location w = here();
        return stop_gradient(tensor_from(x, w), w);
      },
      "x"_a, "x, through which no gradient flows.");
  m.def(
      "custom_gradient",
      [](const Tensor& value, nb::handle arguments, nb::callable rule) {
        const Location where = here();
        return custom_gradient(
            value, tensors_from(arguments, where),
            [rule, where](const std::vector<Tensor>& x, const Tensor& y, const Tensor& g) {
              const nb::object result = rule(x, y, g);
              std::vector<Tensor> list;
              if (nb::isinstance<Tensor>(result)) return std::vector<Tensor>{nb::cast<Tensor>(result)};
              for (nb::handle item : result) list.push_back(item.is_none() ? Tensor() : tensor_from(item, where));
              return list;
            },
            where);
      },
      "value"_a, "arguments"_a, "rule"_a,
      "value, with rule(arguments, value, g) -> gradients in place of the ops' own.");
  m.def(
      "checkpoint",
      [](nb::callable fn, const nb::args& arguments) -> nb::object {
        const Location where = here();
        bool one = false;
        auto out = checkpoint(
            [&](const std::vector<Tensor>& x) {
              nb::list list;
              for (const Tensor& t : x) list.append(nb::cast(t));
              const nb::object result = fn(*list);
              one = nb::isinstance<Tensor>(result);
              return listed(result, where);
            },
            tensors_from(arguments, where), where);
        return one ? nb::cast(out[0]) : nb::object(tuple_of(out));
      },
      "fn"_a, "arguments"_a,
      "What fn computes is not kept for the backward pass but computed again there: less memory, more arithmetic.");
  m.def(
      "repeat",
      [](int n, nb::callable body, nb::handle carry, bool recompute) {
        const Location where = here();
        return tuple_of(repeat(
            n,
            [&](int i, const std::vector<Tensor>& x) {
              nb::list list;
              for (const Tensor& t : x) list.append(nb::cast(t));
              return listed(body(i, *list), where);
            },
            tensors_from(carry, where), recompute ? Recompute::yes : Recompute::no, where));
      },
      "n"_a, "body"_a, "carry"_a, "recompute"_a = false,
      "body(i, *carry) -> carry, n times. With recompute each turn is a checkpoint.");
  m.def(
      "scan",
      [](nb::callable body, nb::handle carry, nb::handle sequences, std::int64_t steps, int axis, bool reverse) {
        const Location where = here();
        const auto step = [&](const std::vector<Tensor>& c, const std::vector<Tensor>& x) {
          const nb::object made = body(tuple_of(c), tuple_of(x));
          if (!nb::isinstance<nb::tuple>(made) || nb::len(made) != 2)
            fail(where, "scan: the body must return a pair: what it hands on, and what it gives");
          return Scan{listed(made[0], where), listed(made[1], where)};
        };
        const Scan made =
            scan(step, tensors_from(carry, where), tensors_from(sequences, where), {steps, axis, reverse}, where);
        return nb::make_tuple(tuple_of(made.carry), tuple_of(made.outputs));
      },
      "body"_a, "carry"_a, "sequences"_a = nb::make_tuple(), "steps"_a = 0, "axis"_a = 0, "reverse"_a = false,
      "A loop compiled once: body(carry, x) -> (carry, outputs), once a moment of the sequences (or `steps` times). "
      "Gives "
      "the last carry and the outputs of all steps, stacked along `axis`.");
  m.def(
      "eval",
      [](nb::handle what) -> nb::object {
        const Location where = here();
        if (is_traced(what)) return nb::cast(eval(tensor_from(what, where), where));
        return nb::cast(eval(tensors_from(what, where), where));
      },
      "what"_a, "Computes one expression, or several, now.");
}

}  // namespace

void bind_tensor(nb::module_& m) {
  m.def(
      "_set_line", [](const std::string& file, unsigned line) { set_line(file, line); }, "file"_a, "line"_a,
      "For front ends: what is traced from here on was said there; an empty name ends it.");
  bind_tensor_class(m);
  bind_state(m);
  bind_control(m);
}

}  // namespace wr::python
