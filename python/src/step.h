// What a compiled Python function holds: the function, and a plan for each shape of arguments it was called with.
// plan.cpp makes plans, call.cpp runs them, step.cpp is the type that Python sees.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "convert.h"

namespace wr::python {

namespace dlpack {
struct ExchangeApi;
}

inline constexpr std::size_t kMostArguments = 32;  // of one call

struct Plan {
  std::vector<Spec> specs;
  nb::object statics;  // keyword arguments, a dict; invalid for none
  wr::Step step;
  nb::object result;  // the shape of what the function returned, tensors by number
  std::size_t outputs = 0;
  bool single = false;            // one tensor
  std::vector<Array> bound;       // the last call's arguments
  std::vector<const void*> data;  // and where they stand
  std::vector<const Array*> pointers;
  std::uint64_t used = 0;  // the call that used it last
};

struct Function {
  nb::object fn;
  CompileOptions options;
  std::vector<std::unique_ptr<Plan>> plans;
  Plan* last = nullptr;
  std::uint64_t calls = 0;
  std::size_t compiled = 0;
  std::recursive_mutex running;  // a function may call itself on arrays while it is traced
};

/// One argument of a call, read where it stands.
struct Argument {
  const void* data = nullptr;
  const Shape* shape = nullptr;
  DType dtype = DType::f32;
  union {
    float real;
    std::int32_t whole;
    bool truth;
  } number;
  Foreign foreign;
  std::optional<Array> converted;  // where it could not be read in place
};

/// The plan for such arguments and static keywords (a dict, or null), compiled if it is not there yet.
Plan& plan_for(Function& f, const Argument* arguments, std::size_t count, PyObject* statics);
/// What the function returned, with these values where its tensors were.
nb::object filled(nb::handle shape, const std::vector<nb::object>& values);

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

/// The interpreter is free for other threads while this lives.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  ~Released() { PyEval_RestoreThread(state_); }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};

/// Runs without the interpreter, and without a Location: what is thrown gets the line of Python that called.
template <class Fn>
void run_apart(Fn fn) {
  try {
    const Released released;
    fn();
  } catch (const Error& error) {
    fail(here(), error.what());
  }
}

/// Fresh arrays of the last run's results in the shape of what the function returned; or `out`, written to.
nb::object results_of(Plan& plan, nb::handle out = {});
/// The seconds of the fastest of `runs` runs on these arguments, without Python's part in a call.
double fastest_run(Function& f, PyObject* const* objects, std::size_t count, long runs);
/// step(*args, **keywords), by the vectorcall protocol.
PyObject* call(Function& f, PyObject* const* args, std::size_t flags, PyObject* names);

/// The same on positional arguments; gives a list of fresh tensors of the library whose interface it is.
nb::object call_for_tensors(Function& f, PyObject* const* args, std::size_t count, const dlpack::ExchangeApi& api);

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

}  // namespace wr::python
