// windrow.Step as a type: what it can be asked besides being called.
#include "step.h"

#include <nanobind/stl/vector.h>
#include <structmember.h>

#include <cstddef>

#include "casters.h"
#include "exchange.h"
#include "unchanged.h"

namespace wr::python {
namespace {

struct StepObject {
  PyObject_HEAD vectorcallfunc call;
  Function* function;
  PyObject* dict;
  PyObject* weak;
};

Function& function_of(PyObject* self) { return *reinterpret_cast<StepObject*>(self)->function; }

PyObject* call_step(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  return call(function_of(self), args, flags, names);
}

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
    else if (name == "machine")
      o.machine = nb::cast<std::string>(value);
    else if (name == "device")
      o.device = nb::cast<std::string>(value);
    else if (name == "tune")
      o.tune = nb::cast<bool>(value);
    else if (name == "check" && !value.is_none())
      o.check = nb::cast<bool>(value);
    else if (name != "check")
      throw nb::type_error(("compile: no option '" + name +
                            "'; there are name, threads, lanes, simd, machine, device, tune, check and profile")
                               .c_str());
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

/// Seconds a run takes on these arguments; runs the step, which trains where it trains.
PyObject* seconds(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* given = kwargs ? PyDict_GetItemString(kwargs, "runs") : nullptr;
    const long runs = given ? PyLong_AsLong(given) : 1000;
    if (PyErr_Occurred()) throw nb::python_error();
    if ((kwargs && PyDict_Size(kwargs) != (given ? 1 : 0)) || runs < 1)
      throw nb::type_error("seconds(*arguments, runs=1000)");
    std::vector<PyObject*> objects;
    for (Py_ssize_t i = 0; i < PyTuple_Size(args); ++i) objects.push_back(PyTuple_GetItem(args, i));
    return PyFloat_FromDouble(fastest_run(function_of(self), objects.data(), objects.size(), runs));
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
      run_apart([&] { plan.step.again(Location()); });
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    if (PyErr_Occurred()) throw nb::python_error();
    return results_of(plan).release().ptr();
  });
}

/// _repeat(args, numbers, checks): a call like the last one of windrow.torch, with a list of tensors as its result;
/// None where something is not as it was, and then nothing has run. Without numbers (None) it is only compared: True.
PyObject* repeat(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 3) throw nb::type_error("_repeat: takes arguments, numbers and checks");
    const auto [arguments, numbers, checks] = std::tuple(given[0], given[1], given[2]);
    if (!unchanged(arguments, checks)) Py_RETURN_NONE;
    if (numbers == Py_None) Py_RETURN_TRUE;
    PyObject* objects[kMostArguments];
    std::size_t total = 0;
    for (PyObject* tuple : {arguments, numbers})
      for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i) {
        if (total == kMostArguments) Py_RETURN_NONE;
        objects[total++] = PyTuple_GetItem(tuple, i);
      }
    const dlpack::ExchangeApi* api = exchange_of(objects[0]);
    if (!api || !api->managed_to_object) Py_RETURN_NONE;
    return call_for_tensors(function_of(self), objects, total, *api).release().ptr();
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
    {"seconds", reinterpret_cast<PyCFunction>(seconds), METH_VARARGS | METH_KEYWORDS,
     "seconds(*arguments, runs=1000): the seconds of a run, the best of several rounds, without Python's part in a "
     "call. "
     "The step runs: it trains where it trains."},
    {"set_threads", set_threads, METH_O, "Threads to use at most, from the next call on. Results do not depend on it."},
    {"_repeat", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(repeat)), METH_FASTCALL, nullptr},
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
