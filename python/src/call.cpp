// step(x, y): a call by the vectorcall protocol. What stands here, besides the run itself, is what Python costs a step:
// nothing is allocated but the results, and only as much is set up as there are arguments.
#include <array>
#include <chrono>
#include <cstring>
#include <new>

#include "casters.h"
#include "exchange.h"
#include "step.h"
#include "windrow/memory.h"

namespace wr::python {
namespace {

constexpr std::size_t kFewArguments = 8;  // that need no memory of their own

const Shape kScalar{};

/// What an argument is, by its type alone.
enum class Kind { real, truth, whole, array, tensor, state, other };

Kind find_kind(PyObject* object) {
  if (PyFloat_CheckExact(object)) return Kind::real;
  if (PyBool_Check(object)) return Kind::truth;
  if (PyLong_CheckExact(object)) return Kind::whole;
  if (nb::isinstance<Array>(object)) return Kind::array;
  if (nb::isinstance<Tensor>(object)) return Kind::tensor;
  return nb::isinstance<State>(object) ? Kind::state : Kind::other;
}

/// The same from a small table of the types seen last; they are held, so that an address always means the same one.
Kind kind_of(PyObject* object) {
  struct Seen {
    PyTypeObject* type = nullptr;
    Kind kind = Kind::other;
  };
  static std::array<Seen, 16> table;  // under the GIL
  PyTypeObject* type = Py_TYPE(object);
  Seen& seen = table[(reinterpret_cast<std::uintptr_t>(type) >> 6) % table.size()];
  if (seen.type != type) {
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    Py_XDECREF(reinterpret_cast<PyObject*>(seen.type));
    seen = {type, find_kind(object)};
  }
  return seen.kind;
}

void take(Argument& a, const Array& array) {
  a.data = detail::ArrayAccess::read(array);
  a.dtype = array.dtype();
  a.shape = &array.shape();
}

void take_number(Argument& a, DType dtype) {
  a.data = &a.number;
  a.dtype = dtype;
  a.shape = &kScalar;
}

void take_whole(Argument& a, PyObject* object, std::size_t position) {
  const long long value = PyLong_AsLongLong(object);
  if ((value == -1 && PyErr_Occurred()) || value < INT32_MIN || value > INT32_MAX) {
    PyErr_Clear();
    throw Error("argument " + std::to_string(position) + ": the number does not fit i32");
  }
  a.number.whole = static_cast<std::int32_t>(value);
  take_number(a, DType::i32);
}

void take_array(Argument& a, const Array& array) {
  if (array.is_contiguous()) {
    take(a, array);
  } else {
    take(a, a.converted.emplace(array.contiguous()));
  }
}

/// A copy in one of our types; an error says which argument it was.
Array converted(PyObject* object, std::size_t position) {
  const auto named = [&](const char* what) { return "argument " + std::to_string(position) + ": " + what; };
  if (object == Py_None || PyDict_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object))
    throw nb::type_error(
        named(("is a " +
               nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object))).attr("__name__")) +
               "; a step takes arrays and numbers by position, and anything else by keyword, as part of the plan")
                  .c_str())
            .c_str());
  try {
    return copied_array(object);
  } catch (const nb::builtin_exception& error) {
    throw nb::type_error(named(error.what()).c_str());
  } catch (const nb::python_error& error) {  // of the array's own library
    if (!error.matches(PyExc_TypeError)) throw;
    throw nb::type_error(named(nb::str(error.value()).c_str()).c_str());
  } catch (const Error& error) {
    throw Error(named(error.what()));
  }
}

void take_foreign(Argument& a, PyObject* object, std::size_t position) {
  if (a.foreign.read(object) && a.foreign.direct) {
    a.data = a.foreign.data;
    a.dtype = a.foreign.dtype;
    a.shape = &a.foreign.shape;
  } else {
    a.foreign.release();
    take(a, a.converted.emplace(converted(object, position)));
  }
}

/// False for a Tensor: the call is then part of another trace.
bool read(PyObject* object, std::size_t position, Argument& a) {
  switch (kind_of(object)) {
    case Kind::real:
      a.number.real = static_cast<float>(PyFloat_AsDouble(object));
      take_number(a, DType::f32);
      return true;
    case Kind::truth:
      a.number.truth = object == Py_True;
      take_number(a, DType::boolean);
      return true;
    case Kind::whole:
      take_whole(a, object, position);
      return true;
    case Kind::array:
      take_array(a, *nb::inst_ptr<Array>(object));
      return true;
    case Kind::tensor:
      return false;
    case Kind::state:
      take(a, a.converted.emplace(memory_of(*nb::inst_ptr<State>(object))));
      return true;
    case Kind::other:
      take_foreign(a, object, position);
      return true;
  }
  return true;
}

/// The arguments of one call; only as many are made as there are.
class Arguments {
 public:
  explicit Arguments(std::size_t count) {
    if (count > kMostArguments) throw Error("a step takes " + std::to_string(kMostArguments) + " arguments at most");
    if (count > kFewArguments) {
      many_ = std::make_unique<std::byte[]>(count * sizeof(Argument));
      first_ = many_.get();
    }
    for (; count_ < count; ++count_) new (first_ + count_ * sizeof(Argument)) Argument;
  }
  ~Arguments() {
    for (std::size_t i = 0; i < count_; ++i) data()[i].~Argument();
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  Argument* data() { return std::launder(reinterpret_cast<Argument*>(first_)); }

  /// False if one of them is a Tensor.
  bool read_all(PyObject* const* objects) {
    for (std::size_t i = 0; i < count_; ++i)
      if (!read(objects[i], i, data()[i])) return false;
    return true;
  }

 private:
  static_assert(alignof(Argument) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  alignas(Argument) std::byte few_[kFewArguments * sizeof(Argument)];
  std::unique_ptr<std::byte[]> many_;
  std::byte* first_ = few_;
  std::size_t count_ = 0;
};

void bind(Plan& plan, const Argument* a, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (plan.data[i] == a[i].data && a[i].data) continue;
    plan.bound[i] = Array::borrow(a[i].data, *a[i].shape, a[i].dtype);
    plan.data[i] = a[i].data;
    plan.pointers[i] = &plan.bound[i];
  }
}

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

void copy_all_out(Plan& plan, nb::handle out) {
  std::size_t i = 0;
  for (nb::handle item : out) {
    if (i >= plan.outputs) throw Error("out: more arrays than the " + std::to_string(plan.outputs) + " results");
    copy_out(plan.step.output(i++), item);
  }
  if (i != plan.outputs) throw Error("out: fewer arrays than the " + std::to_string(plan.outputs) + " results");
}

/// Results are dense: shorter than clone().
Array copy_of(const Array& result) {
  Array array = Array::empty(result.shape(), result.dtype());
  if (result.bytes() > 0)
    std::memcpy(detail::ArrayAccess::write_shared(array), detail::ArrayAccess::read(result), result.bytes());
  return array;
}

/// A fresh array for Python. Its type is known: shorter than nb::cast.
nb::object fresh(const Array& result) {
  static const nb::handle type = nb::type<Array>();
  nb::object object = nb::inst_alloc(type);
  new (nb::inst_ptr<Array>(object)) Array(copy_of(result));
  nb::inst_mark_ready(object);
  return object;
}

/// Fresh tensors of another library, in the order of the results.
nb::object fresh_tensors(const Plan& plan, const dlpack::ExchangeApi& api) {
  nb::list tensors;
  for (std::size_t i = 0; i < plan.outputs; ++i) tensors.append(tensor_over(copy_of(plan.step.output(i)), api));
  return tensors;
}

/// The function itself, whose ops become part of the trace that it is called from.
nb::object inlined(Function& f, PyObject* const* objects, std::size_t count, PyObject* statics) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(nb::handle(objects[i]));
  nb::object result = nb::steal(PyObject_Call(f.fn.ptr(), nb::tuple(list).ptr(), statics));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

template <class Results>
nb::object run(Function& f, PyObject* const* objects, std::size_t count, PyObject* statics, Results results) {
  Arguments arguments(count);
  if (!arguments.read_all(objects)) return inlined(f, objects, count, statics);
  const Turn turn(f);
  Plan& plan = plan_for(f, arguments.data(), count, statics);
  plan.used = ++f.calls;
  bind(plan, arguments.data(), count);
  run_apart([&] { plan.step.run(plan.pointers, Location()); });
  return results(plan);
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

}  // namespace

nb::object results_of(Plan& plan, nb::handle out) {
  if (out.is_valid() && !out.is_none()) {
    if (plan.single)
      copy_out(plan.step.output(0), out);
    else
      copy_all_out(plan, out);
    return nb::borrow(out);
  }
  if (plan.single) return fresh(plan.step.output(0));
  std::vector<nb::object> values;
  for (std::size_t i = 0; i < plan.outputs; ++i) values.push_back(fresh(plan.step.output(i)));
  return filled(plan.result, values);
}

double fastest_run(Function& f, PyObject* const* objects, std::size_t count, long runs) {
  constexpr long kRound = 10;  // the clock is not free either
  Arguments arguments(count);
  if (!arguments.read_all(objects)) throw Error(f.options.name + ": seconds: takes arrays and numbers");
  const Turn turn(f);
  Plan& plan = plan_for(f, arguments.data(), count, nullptr);
  plan.used = ++f.calls;
  bind(plan, arguments.data(), count);
  double best = 0;
  for (long done = 0; done < runs; done += kRound) {
    {
      const Released released;
      const auto start = std::chrono::steady_clock::now();
      for (long i = 0; i < kRound; ++i) plan.step.run(plan.pointers);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (done == 0 || took.count() / kRound < best) best = took.count() / kRound;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  return best;
}

PyObject* call(Function& f, PyObject* const* args, std::size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    const auto fresh_results = [](Plan& plan) { return results_of(plan); };
    if (!names || PyTuple_Size(names) == 0) return run(f, args, count, nullptr, fresh_results).release().ptr();
    const Keywords k = keywords_of(args + count, names);
    PyObject* statics = k.statics.is_valid() ? k.statics.ptr() : nullptr;
    return run(f, args, count, statics, [&](Plan& plan) { return results_of(plan, k.out); }).release().ptr();
  });
}

nb::object call_for_tensors(Function& f, PyObject* const* args, std::size_t count, const dlpack::ExchangeApi& api) {
  return run(f, args, count, nullptr, [&](Plan& plan) { return fresh_tensors(plan, api); });
}

}  // namespace wr::python
