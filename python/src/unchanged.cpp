// Whether all that a compiled PyTorch function depends on is as it was, which is asked before every call. What is
// checked are tuples of Python's own, so that its garbage collector sees what they refer to.
#include "unchanged.h"

#include <array>
#include <cstring>

#include "exchange.h"

namespace wr::python {
namespace {

int s_tracing = 0;  // traces, and computations by torch itself, that are under way; under the GIL

PyObject* part(PyObject* tuple, Py_ssize_t i) { return PyTuple_GetItem(tuple, i); }  // borrowed

/// Takes a new reference, or the error that stands for none.
bool is_same(PyObject* now, PyObject* before) {
  if (now == nullptr) PyErr_Clear();
  const bool same = now == before && now != nullptr;
  Py_XDECREF(now);
  return same;
}

bool is_equal(PyObject* now, PyObject* before) {
  const int equal = now == nullptr ? -1 : PyObject_RichCompareBool(now, before, Py_EQ);
  if (equal < 0) PyErr_Clear();
  Py_XDECREF(now);
  return equal == 1;
}

template <class Holds>
bool all(PyObject* checks, Holds holds) {
  const Py_ssize_t count = PyTuple_Size(checks);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!holds(part(checks, i))) return false;
  return true;
}

/// (descriptor, tensor, value): what is asked of a tensor most, without looking for who answers.
bool has_flag(PyObject* c) {
  PyObject* descriptor = part(c, 0);
  const auto get = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get));
  if (get == nullptr) return false;
  PyObject* tensor = part(c, 1);
  return is_same(get(descriptor, tensor, reinterpret_cast<PyObject*>(Py_TYPE(tensor))), part(c, 2));
}

/// (owner, name, value): the same object, or an equal int.
bool has_attribute(PyObject* c) {
  PyObject *now = PyObject_GetAttr(part(c, 0), part(c, 1)), *before = part(c, 2);
  if (now != nullptr && now != before && PyLong_CheckExact(now) && PyLong_CheckExact(before))
    return is_equal(now, before);
  return is_same(now, before);
}

/// (dict, key, value); None where there is none.
bool has_item(PyObject* c) {
  if (!PyDict_Check(part(c, 0))) return false;
  PyObject* now = PyDict_GetItemWithError(part(c, 0), part(c, 1));  // borrowed
  if (now == nullptr && PyErr_Occurred()) PyErr_Clear();
  return (now == nullptr ? Py_None : now) == part(c, 2);
}

/// (callable, value)
bool gives(PyObject* c) { return is_equal(PyObject_CallNoArgs(part(c, 0)), part(c, 1)); }

/// (list, tuple of its items)
bool has_items(PyObject* c) {
  PyObject *list = part(c, 0), *items = part(c, 1);
  const Py_ssize_t count = PyTuple_Size(items);
  if (PyList_Size(list) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyList_GetItem(list, i) != part(items, i)) return false;
  return true;
}

/// (container, length)
bool has_length(PyObject* c) { return PyObject_Size(part(c, 0)) == PyLong_AsSsize_t(part(c, 1)); }

/// (tensor, the address of its elements), all of one library
bool stand_there(PyObject* checks) {
  const dlpack::ExchangeApi* api = PyTuple_Size(checks) > 0 ? exchange_of(part(part(checks, 0), 0)) : nullptr;
  return all(checks, [&](PyObject* c) {
    dlpack::Tensor tensor;
    if (!api || !api->tensor_from_object) return false;
    if (api->tensor_from_object(part(c, 0), &tensor) != 0) {
      PyErr_Clear();
      return false;
    }
    return static_cast<std::byte*>(tensor.data) + tensor.byte_offset == PyLong_AsVoidPtr(part(c, 1));
  });
}

/// Writes a number of an optimizer where the plan reads it. False where it has become 0, or is 0 no longer: that may be
/// another plan.
bool write(double& to, PyObject* value, PyObject* seen) {
  if (!PyFloat_CheckExact(value)) return false;
  const double now = PyFloat_AsDouble(value);
  if (now == to) return true;
  if ((now == 0) != (to == 0)) return false;
  PyList_SetSlice(seen, 0, PyList_Size(seen), nullptr);  // Slot.is_current() is to read them anew
  to = now;
  return true;
}

/// (group, key, place, whether it is a pair)
bool read_number(PyObject* c, double* numbers, PyObject* seen) {
  PyObject* value = PyDict_GetItemWithError(part(c, 0), part(c, 1));  // borrowed
  if (value == nullptr) {
    PyErr_Clear();
    return false;
  }
  double* to = numbers + PyLong_AsSsize_t(part(c, 2));
  if (part(c, 3) == Py_False) return write(*to, value, seen);
  return PyTuple_CheckExact(value) && PyTuple_Size(value) == 2 && write(to[0], part(value, 0), seen) &&
         write(to[1], part(value, 1), seen);
}

/// (array of the plan's numbers, list of the values seen last, tuple of numbers)
bool read_numbers(PyObject* c) {
  Py_buffer view;
  if (PyObject_GetBuffer(part(c, 0), &view, PyBUF_WRITABLE) != 0) {
    PyErr_Clear();
    return false;
  }
  const bool read = all(
      part(c, 2), [&](PyObject* number) { return read_number(number, static_cast<double*>(view.buf), part(c, 1)); });
  PyBuffer_Release(&view);
  return read;
}

/// Element type, device and sizes of a tensor as bytes; empty where it does not say.
struct Looks {
  std::array<std::int64_t, kMaxRank + 2> words;
  std::size_t count = 0;

  explicit Looks(PyObject* object) {
    dlpack::Tensor tensor;
    if (!look_at(object, tensor) || tensor.ndim > kMaxRank) return;
    words[count++] = (tensor.dtype.lanes << 16) | (tensor.dtype.bits << 8) | tensor.dtype.code;
    words[count++] = tensor.device.type;
    for (int i = 0; i < tensor.ndim; ++i) words[count++] = tensor.shape[i];
  }
  std::size_t bytes() const { return count * sizeof(std::int64_t); }
};

/// A plain tensor that looks so, through which no gradient is wanted.
bool is_like(PyObject* a, PyTypeObject* kind, PyObject* looks) {
  static PyObject* const requires_grad = PyUnicode_InternFromString("requires_grad");
  if (Py_TYPE(a) != kind || !is_same(PyObject_GetAttr(a, requires_grad), Py_False)) return false;
  const Looks now(a);
  return now.count > 0 && static_cast<std::size_t>(PyBytes_Size(looks)) == now.bytes() &&
         std::memcmp(PyBytes_AsString(looks), now.words.data(), now.bytes()) == 0;
}

}  // namespace

bool unchanged(PyObject* arguments, PyObject* checks) {
  constexpr Py_ssize_t kParts = 10;
  if (s_tracing > 0) return false;
  if (!PyTuple_Check(checks) || PyTuple_Size(checks) != kParts) return false;
  auto* kind = reinterpret_cast<PyTypeObject*>(part(checks, 0));
  PyObject* looks = part(checks, 1);
  const Py_ssize_t count = PyTuple_Size(arguments);
  if (count != PyTuple_Size(looks)) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!is_like(part(arguments, i), kind, part(looks, i))) return false;
  return all(part(checks, 2), has_attribute) && all(part(checks, 3), has_item) && all(part(checks, 4), gives) &&
         all(part(checks, 5), has_items) && all(part(checks, 6), has_length) && stand_there(part(checks, 7)) &&
         all(part(checks, 9), has_flag) && all(part(checks, 8), read_numbers);
}

void bind_unchanged(nb::module_& m) {
  m.def("_count_traces", [](int change) { s_tracing += change; });
  m.def("_looks", [](nb::handle tensor) {
    const Looks looks(tensor.ptr());
    return nb::bytes(looks.words.data(), looks.bytes());
  });
}

}  // namespace wr::python
