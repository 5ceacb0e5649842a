// windrow.Step: a Python function compiled once for each shape of its arguments. The call is written by hand, on the
// vectorcall protocol: what it costs is the difference between Python and C++.
#include "step.h"

#include <nanobind/stl/vector.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "casters.h"
#include "windrow/memory.h"

namespace wr::python {
namespace {

using namespace nb::literals;

constexpr std::size_t kMostPlans = 32;  // of one function; the least recently used goes
constexpr std::size_t kManyPlans = 8;   // worth a word
constexpr std::size_t kMostArguments = 32;

/// One argument of a call, read where it stands.
struct Argument {
  const void* data = nullptr;
  DType dtype = DType::f32;
  const Shape* shape = nullptr;
  Foreign foreign;
  Array converted;  // where it could not be read in place
  union {
    float real;
    std::int32_t whole;
    bool truth;
  } number{};

  void take(const Array& array) {
    data = detail::ArrayAccess::read(array);
    dtype = array.dtype();
    shape = &array.shape();
  }
};

const Shape kScalar{};

/// False for a Tensor: the call is then part of another trace.
bool read(PyObject* object, std::size_t position, Argument& a) {
  if (PyFloat_CheckExact(object)) {
    a.number.real = static_cast<float>(PyFloat_AsDouble(object));
    a.data = &a.number.real;
    a.dtype = DType::f32;
    a.shape = &kScalar;
    return true;
  }
  if (PyBool_Check(object)) {
    a.number.truth = object == Py_True;
    a.data = &a.number.truth;
    a.dtype = DType::boolean;
    a.shape = &kScalar;
    return true;
  }
  if (PyLong_CheckExact(object)) {
    const long long value = PyLong_AsLongLong(object);
    if ((value == -1 && PyErr_Occurred()) || value < INT32_MIN || value > INT32_MAX) {
      PyErr_Clear();
      throw Error("argument " + std::to_string(position) + ": the number does not fit i32");
    }
    a.number.whole = static_cast<std::int32_t>(value);
    a.data = &a.number.whole;
    a.dtype = DType::i32;
    a.shape = &kScalar;
    return true;
  }
  if (nb::isinstance<Array>(object)) {
    const Array& array = *nb::inst_ptr<Array>(object);
    if (array.is_contiguous()) {
      a.take(array);
    } else {
      a.converted = array.contiguous();
      a.take(a.converted);
    }
    return true;
  }
  if (nb::isinstance<Tensor>(object)) return false;
  if (nb::isinstance<State>(object)) {
    a.converted = memory_of(*nb::inst_ptr<State>(object));
    a.take(a.converted);
    return true;
  }
  if (a.foreign.read(object) && a.foreign.direct) {
    a.data = a.foreign.data;
    a.dtype = a.foreign.dtype;
    a.shape = &a.foreign.shape;
    return true;
  }
  a.foreign.release();
  a.converted = copied_array(object);
  a.take(a.converted);
  return true;
}

// ---- what a function returned
// ----------------------------------------------------------------------------------------

/// Collects the tensors of a result and gives its shape with their numbers in their places.
nb::object shape_of_result(nb::handle result, std::vector<Tensor>& tensors, Location where) {
  if (result.is_none()) return nb::none();
  if (is_traced(result)) {
    tensors.push_back(tensor_from(result, where));
    return nb::int_(tensors.size() - 1);
  }
  if (nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result)) {
    nb::list parts;
    for (nb::handle item : result) parts.append(shape_of_result(item, tensors, where));
    if (nb::isinstance<nb::list>(result)) return parts;
    if (PyObject_HasAttrString(result.ptr(), "_make"))
      return nb::make_tuple(nb::borrow(result.type()).attr("_make"), nb::tuple(parts), nb::none());
    return nb::tuple(parts);
  }
  if (nb::isinstance<nb::dict>(result)) {
    nb::dict parts;
    for (auto [key, item] : nb::borrow<nb::dict>(result)) parts[key] = shape_of_result(item, tensors, where);
    return parts;
  }
  throw nb::type_error((to_string(where) + ": a step returns tensors, or tuples, lists or dicts of them; not " +
                        nb::cast<std::string>(result.type().attr("__name__")))
                           .c_str());
}

nb::object filled(nb::handle shape, const std::vector<nb::object>& values) {
  if (PyLong_Check(shape.ptr())) return values[nb::cast<std::size_t>(shape)];
  if (nb::isinstance<nb::list>(shape)) {
    nb::list out;
    for (nb::handle item : shape) out.append(filled(item, values));
    return out;
  }
  if (nb::isinstance<nb::dict>(shape)) {
    nb::dict out;
    for (auto [key, item] : nb::borrow<nb::dict>(shape)) out[key] = filled(item, values);
    return out;
  }
  if (nb::isinstance<nb::tuple>(shape)) {
    const auto parts = nb::borrow<nb::tuple>(shape);
    const bool named = parts.size() == 3 && parts[2].is_none() && PyCallable_Check(parts[0].ptr());
    nb::list out;
    if (named) {
      for (nb::handle item : parts[1]) out.append(filled(item, values));
      return parts[0](out);
    }
    for (nb::handle item : parts) out.append(filled(item, values));
    return nb::tuple(out);
  }
  return nb::none();
}

// ---- plans
// -----------------------------------------------------------------------------------------------------------

bool fits(const Plan& plan, const Argument* arguments, std::size_t count, PyObject* statics) {
  if (plan.specs.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Spec& spec = plan.specs[i];
    if (arguments[i].dtype != spec.dtype || !(*arguments[i].shape == spec.shape)) return false;
  }
  if (!statics) return !plan.statics.is_valid();
  if (!plan.statics.is_valid()) return false;
  const int equal = PyObject_RichCompareBool(plan.statics.ptr(), statics, Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal == 1;
}

void warn_of_many_plans(const Function& f) {
  const std::string text = f.options.name + ": " + std::to_string(f.plans.size()) +
                           " plans, one for each shape it was called with; each is compiled on its own. Pad to a few "
                           "shapes if there are to be many more";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) throw nb::python_error();
}

Plan& make_plan(Function& f, const Argument* arguments, std::size_t count, PyObject* statics) {
  auto plan = std::make_unique<Plan>();
  for (std::size_t i = 0; i < count; ++i) plan->specs.push_back({arguments[i].dtype, *arguments[i].shape});
  if (statics) plan->statics = nb::steal(PyDict_Copy(statics));
  const Location where = here();
  plan->step = wr::compile(
      [&](const std::vector<Tensor>& tensors) {
        nb::list list;
        for (const Tensor& t : tensors) list.append(nb::cast(t));
        const nb::object result = nb::steal(PyObject_Call(f.fn.ptr(), nb::tuple(list).ptr(), statics));
        if (!result.is_valid()) throw nb::python_error();
        std::vector<Tensor> outputs;
        plan->result = shape_of_result(result, outputs, where);
        plan->outputs = outputs.size();
        return outputs;
      },
      plan->specs, f.options, where);
  plan->bound.resize(count);
  plan->data.resize(count, nullptr);
  plan->pointers.resize(count);
  plan->single = plan->result.is_valid() && PyLong_Check(plan->result.ptr());
  if (f.plans.size() >= kMostPlans) {
    const auto oldest = std::min_element(f.plans.begin(), f.plans.end(),
                                         [](const auto& a, const auto& b) { return a->used < b->used; });
    f.plans.erase(oldest);
  }
  f.plans.push_back(std::move(plan));
  ++f.compiled;
  if (f.compiled == kManyPlans + 1) warn_of_many_plans(f);
  return *f.plans.back();
}

Plan& plan_for(Function& f, const Argument* arguments, std::size_t count, PyObject* statics) {
  if (f.last && fits(*f.last, arguments, count, statics)) return *f.last;
  for (const auto& plan : f.plans)
    if (fits(*plan, arguments, count, statics)) return *(f.last = plan.get());
  f.last = nullptr;
  return *(f.last = &make_plan(f, arguments, count, statics));
}

// ---- the call
// --------------------------------------------------------------------------------------------------------

/// The step's turn: waits, without holding the interpreter, while another thread runs it.
class Turn {
 public:
  explicit Turn(Function& f) : f_(f) {
    if (f.running.try_lock()) return;
    PyThreadState* state = PyEval_SaveThread();
    f.running.lock();
    PyEval_RestoreThread(state);
  }
  ~Turn() { f_.running.unlock(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Function& f_;
};

void copy_out(const Array& result, nb::handle out) {
  const auto check = [&](DType dtype, const Shape& shape) {
    if (dtype != result.dtype() || !(shape == result.shape()))
      throw Error("out: is " + to_string(Spec{dtype, shape}) + ", the result is " +
                  to_string(Spec{result.dtype(), result.shape()}));
  };
  if (nb::isinstance<Array>(out)) {
    Array& array = *nb::inst_ptr<Array>(out);
    check(array.dtype(), array.shape());
    array.copy_from(result);
    return;
  }
  Foreign foreign;
  foreign.read_writable(out);
  check(foreign.dtype, foreign.shape);
  std::memcpy(foreign.data, detail::ArrayAccess::read(result), result.bytes());
}

nb::object results_of(Plan& plan, nb::handle out) {
  if (out.is_valid() && !out.is_none()) {
    if (plan.single) {
      copy_out(plan.step.output(0), out);
      return nb::borrow(out);
    }
    std::size_t i = 0;
    for (nb::handle item : out) {
      if (i >= plan.outputs) throw Error("out: more arrays than the " + std::to_string(plan.outputs) + " results");
      copy_out(plan.step.output(i++), item);
    }
    if (i != plan.outputs) throw Error("out: fewer arrays than the " + std::to_string(plan.outputs) + " results");
    return nb::borrow(out);
  }
  if (plan.single) return nb::cast(plan.step.output(0).clone());
  std::vector<nb::object> values;
  for (std::size_t i = 0; i < plan.outputs; ++i) values.push_back(nb::cast(plan.step.output(i).clone()));
  return filled(plan.result, values);
}

nb::object run(Function& f, PyObject* const* objects, std::size_t count, PyObject* statics, nb::handle out) {
  if (count > kMostArguments) throw Error("a step takes " + std::to_string(kMostArguments) + " arguments at most");
  Argument arguments[kMostArguments > 8 ? 8 : kMostArguments];
  std::vector<Argument> many;
  Argument* a = arguments;
  if (count > 8) {
    many = std::vector<Argument>(count);
    a = many.data();
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!read(objects[i], i, a[i])) {  // part of another trace: its ops go into that one
      nb::list list;
      for (std::size_t j = 0; j < count; ++j) list.append(nb::handle(objects[j]));
      nb::object result = nb::steal(PyObject_Call(f.fn.ptr(), nb::tuple(list).ptr(), statics));
      if (!result.is_valid()) throw nb::python_error();
      return result;
    }
  const Turn turn(f);
  Plan& plan = plan_for(f, a, count, statics);
  plan.used = ++f.calls;
  for (std::size_t i = 0; i < count; ++i) {
    if (plan.data[i] == a[i].data && a[i].data) continue;
    plan.bound[i] = Array::borrow(a[i].data, *a[i].shape, a[i].dtype);
    plan.data[i] = a[i].data;
    plan.pointers[i] = &plan.bound[i];
  }
  PyThreadState* state = PyEval_SaveThread();
  try {
    plan.step.run(plan.pointers);
  } catch (...) {
    PyEval_RestoreThread(state);
    throw;
  }
  PyEval_RestoreThread(state);
  return results_of(plan, out);
}

/// What keywords mean: out, and static arguments, which are part of the plan.
struct Keywords {
  nb::object statics;
  nb::object out;
};

Keywords keywords_of(PyObject* const* values, PyObject* names) {
  Keywords k;
  for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i) {
    const nb::str name(nb::borrow(PyTuple_GetItem(names, i)));
    const nb::handle value = values[i];
    if (std::strcmp(name.c_str(), "out") == 0) {
      k.out = nb::borrow(value);
      continue;
    }
    if (PyObject_HasAttrString(value.ptr(), "__dlpack__") || nb::isinstance<Tensor>(value))
      throw nb::type_error(
          (std::string(name.c_str()) + ": keyword arguments are static, part of the plan; pass arrays by position")
              .c_str());
    if (!k.statics.is_valid()) k.statics = nb::dict();
    k.statics[name] = value;
  }
  return k;
}

/// What is thrown, as Python's exception.
template <class Fn>
PyObject* guarded(Fn fn) {
  try {
    return fn();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(error.type() == nb::exception_type::type_error    ? PyExc_TypeError
                    : error.type() == nb::exception_type::index_error ? PyExc_IndexError
                    : error.type() == nb::exception_type::key_error   ? PyExc_KeyError
                                                                      : PyExc_ValueError,
                    error.what());
  } catch (const Error& error) {
    PyErr_SetString(nb::module_::import_("windrow._core").attr("Error").ptr(), error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

struct StepObject {
  PyObject_HEAD vectorcallfunc call;
  Function* function;
  PyObject* dict;
  PyObject* weak;
};

Function& function_of(PyObject* self) { return *reinterpret_cast<StepObject*>(self)->function; }

PyObject* call_step(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    Function& f = function_of(self);
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    if (!names || PyTuple_Size(names) == 0) return run(f, args, count, nullptr, {}).release().ptr();
    const Keywords k = keywords_of(args + count, names);
    return run(f, args, count, k.statics.is_valid() ? k.statics.ptr() : nullptr, k.out).release().ptr();
  });
}

// ---- the type
// --------------------------------------------------------------------------------------------------------

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* s = reinterpret_cast<StepObject*>(self);
  Py_VISIT(s->dict);
  if (s->function) {
    Py_VISIT(s->function->fn.ptr());
    for (const auto& plan : s->function->plans) {
      Py_VISIT(plan->statics.ptr());
      Py_VISIT(plan->result.ptr());
    }
  }
  Py_VISIT(Py_TYPE(self));
  return 0;
}

int clear(PyObject* self) {
  auto* s = reinterpret_cast<StepObject*>(self);
  Py_CLEAR(s->dict);
  if (s->function) {
    s->function->last = nullptr;
    s->function->plans.clear();
    s->function->fn = nb::none();
  }
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  auto* s = reinterpret_cast<StepObject*>(self);
  if (s->weak) PyObject_ClearWeakRefs(self);
  Py_CLEAR(s->dict);
  delete s->function;
  auto* free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(self);
  Py_DECREF(type);
}

CompileOptions options_from(nb::handle object) {
  CompileOptions o;
  for (auto [key, value] : nb::borrow<nb::dict>(object)) {
    const auto name = nb::cast<std::string>(key);
    if (name == "name")
      o.name = nb::cast<std::string>(value);
    else if (name == "threads")
      o.threads = nb::cast<int>(value);
    else if (name == "lanes")
      o.lanes = nb::cast<int>(value);
    else if (name == "profile")
      o.profile = nb::cast<bool>(value);
    else if (name == "simd")
      o.simd = nb::cast<std::string>(value);
    else
      throw nb::type_error(
          ("compile: no option '" + name + "'; there are name, threads, lanes, profile and simd").c_str());
  }
  return o;
}

PyObject* new_step(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    if (PyTuple_Size(args) != 1 || !PyCallable_Check(PyTuple_GetItem(args, 0)))
      throw nb::type_error("Step: takes one function; see windrow.compile");
    auto function = std::make_unique<Function>();
    function->fn = nb::borrow(PyTuple_GetItem(args, 0));
    if (kwargs) function->options = options_from(kwargs);
    if (function->options.name.empty())
      function->options.name = nb::cast<std::string>(nb::str(nb::getattr(function->fn, "__name__", nb::str("step"))));
    auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    auto* self = reinterpret_cast<StepObject*>(allocate(type, 0));
    if (!self) throw nb::python_error();
    self->call = call_step;
    self->function = function.release();
    return reinterpret_cast<PyObject*>(self);
  });
}

const Plan& last_plan(PyObject* self, const char* what) {
  const Function& f = function_of(self);
  if (!f.last)
    throw Error(f.options.name + ": " + what +
                ": the step has no plan yet; call it once, or compile it with prepare()");
  return *f.last;
}

PyObject* describe(PyObject* self, PyObject*) {
  return guarded([&] { return nb::cast(last_plan(self, "describe").step.describe()).release().ptr(); });
}
PyObject* graph(PyObject* self, PyObject*) {
  return guarded([&] { return nb::cast(last_plan(self, "graph").step.graph()).release().ptr(); });
}
PyObject* facts(PyObject* self, PyObject*) {
  return guarded([&] { return nb::cast(last_plan(self, "facts").step.facts()).release().ptr(); });
}

PyObject* profile(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Function& f = function_of(self);
    const Turn turn(f);
    PyObject* on = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : nullptr;
    if (!on) return nb::cast(last_plan(self, "profile").step.profile()).release().ptr();
    f.options.profile = PyObject_IsTrue(on) == 1;
    for (const auto& plan : f.plans) plan->step.profile(f.options.profile);
    Py_RETURN_NONE;
  });
}

/// Compiles for arguments of these types and shapes without running: prepare(wr.f32(64, 784), wr.i32(64)).
PyObject* prepare(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Function& f = function_of(self);
    const Turn turn(f);
    const auto count = static_cast<std::size_t>(PyTuple_Size(args));
    std::vector<Argument> arguments(count);
    std::vector<Spec> specs(count);
    for (std::size_t i = 0; i < count; ++i) {
      specs[i] = nb::cast<Spec>(nb::handle(PyTuple_GetItem(args, static_cast<Py_ssize_t>(i))));
      arguments[i].dtype = specs[i].dtype;
      arguments[i].shape = &specs[i].shape;
    }
    plan_for(f, arguments.data(), count, nullptr);
    Py_INCREF(self);
    return self;
  });
}

/// Runs again on the last arguments, n times; Ctrl-C is heard between runs.
PyObject* again(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    Function& f = function_of(self);
    const Turn turn(f);
    last_plan(self, "again");
    Plan& plan = *f.last;
    // Arguments of the last call may be gone by now.
    if (!plan.specs.empty()) throw Error(f.options.name + ": again: only for steps without arguments");
    for (long n = PyTuple_Size(args) > 0 ? PyLong_AsLong(PyTuple_GetItem(args, 0)) : 1; n > 0; --n) {
      PyThreadState* state = PyEval_SaveThread();
      plan.step.again();
      PyEval_RestoreThread(state);
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    if (PyErr_Occurred()) throw nb::python_error();
    return results_of(plan, {}).release().ptr();
  });
}

PyObject* set_threads(PyObject* self, PyObject* threads) {
  return guarded([&]() -> PyObject* {
    Function& f = function_of(self);
    const Turn turn(f);
    const int n = nb::cast<int>(nb::handle(threads));
    for (const auto& plan : f.plans) plan->step.set_threads(n, here());
    f.options.threads = n;
    Py_RETURN_NONE;
  });
}

PyObject* get_plans(PyObject* self, void*) { return PyLong_FromSize_t(function_of(self).plans.size()); }
PyObject* get_compiled(PyObject* self, void*) { return PyLong_FromSize_t(function_of(self).compiled); }
PyObject* get_calls(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(function_of(self).calls); }
PyObject* get_function(PyObject* self, void*) { return nb::object(function_of(self).fn).release().ptr(); }
PyObject* repr(PyObject* self) {
  const Function& f = function_of(self);
  return PyUnicode_FromFormat("<windrow.Step %s, %zu plans>", f.options.name.c_str(), f.plans.size());
}
PyObject* reduce(PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "a compiled step is not pickled: pickle the States (or a net's state_dict()) and "
                  "compile again, which takes milliseconds");
  return nullptr;
}
PyObject* html(PyObject* self, PyObject*) {
  return guarded([&] {
    const nb::object text = nb::module_::import_("html").attr("escape")(last_plan(self, "describe").step.describe());
    return nb::cast("<pre style='line-height:1.2'>" + nb::cast<std::string>(text) + "</pre>").release().ptr();
  });
}
/// A step that is a class attribute becomes a method, as a function does.
PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  PyErr_SetString(PyExc_TypeError,
                  "windrow.compile: decorate a function, not a method; in __init__ write "
                  "self.step = windrow.compile(self.step)");
  return nullptr;
}

PyMethodDef kMethods[] = {
    {"describe", describe, METH_NOARGS, "The plan of the last call, for people: regions, strips, kernels, memory."},
    {"graph", graph, METH_NOARGS, "The optimised graph of the last call's plan, as text."},
    {"facts", facts, METH_NOARGS, "Sizes and times of the last call's plan."},
    {"profile", profile, METH_VARARGS,
     "profile(True) writes down where the time of the runs to come goes, profile() gives what was found, "
     "profile(False) "
     "stops and forgets."},
    {"prepare", prepare, METH_VARARGS, "Compiles for these Specs without running: prepare(wr.f32(64, 784))."},
    {"again", again, METH_VARARGS, "Runs a step without arguments n times; Ctrl-C is heard between runs."},
    {"set_threads", set_threads, METH_O, "Threads to use at most, from the next call on. Results do not depend on it."},
    {"_repr_html_", html, METH_NOARGS, nullptr},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef kProperties[] = {
    {"plans", get_plans, nullptr, "How many plans it has: one for each shape it was called with.", nullptr},
    {"compiled", get_compiled, nullptr, "How often it was compiled.", nullptr},
    {"calls", get_calls, nullptr, "How often it was run.", nullptr},
    {"__wrapped__", get_function, nullptr, "The function.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef kMembers[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(StepObject, call), READONLY, nullptr},
                          {"__dictoffset__", T_PYSSIZET, offsetof(StepObject, dict), READONLY, nullptr},
                          {"__weaklistoffset__", T_PYSSIZET, offsetof(StepObject, weak), READONLY, nullptr},
                          {nullptr, 0, 0, 0, nullptr}};

template <class F>
void* slot(F f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

void bind_step(nb::module_& m) {
  nb::class_<StepFacts>(m, "StepFacts", "Sizes and times of a plan.")
      .def_ro("regions", &StepFacts::regions)
      .def_ro("phases", &StepFacts::phases)
      .def_ro("lanes", &StepFacts::lanes)
      .def_ro("instructions", &StepFacts::instructions)
      .def_ro("flops", &StepFacts::flops)
      .def_ro("compile_ms", &StepFacts::compile_ms)
      .def_ro("scratch_bytes", &StepFacts::scratch_bytes)
      .def_ro("arena_bytes", &StepFacts::arena_bytes)
      .def_ro("state_bytes", &StepFacts::state_bytes)
      .def_prop_ro("peak_bytes", &StepFacts::peak_bytes);
  static PyType_Slot slots[] = {{Py_tp_new, slot(new_step)},
                                {Py_tp_dealloc, slot(dealloc)},
                                {Py_tp_traverse, slot(traverse)},
                                {Py_tp_clear, slot(clear)},
                                {Py_tp_call, slot(PyVectorcall_Call)},
                                {Py_tp_repr, slot(repr)},
                                {Py_tp_descr_get, slot(bind_method)},
                                {Py_tp_methods, kMethods},
                                {Py_tp_getset, kProperties},
                                {Py_tp_members, kMembers},
                                {Py_tp_doc, const_cast<char*>("A function compiled once for each shape of its "
                                                              "arguments; made by windrow.compile.")},
                                {0, nullptr}};
  static PyType_Spec spec = {"windrow._core.Step", static_cast<int>(sizeof(StepObject)), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  m.attr("Step") = nb::steal(PyType_FromSpec(&spec));
}

}  // namespace wr::python
