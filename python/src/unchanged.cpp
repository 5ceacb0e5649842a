// windrow._core._unchanged(): whether all that a compiled PyTorch function depends on is as it was, which is asked
// before every call. What is checked are tuples of Python's own, so that its garbage collector sees what they refer to.
#include "convert.h"

namespace wr::python {
namespace {

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

/// (owner, name, value)
bool has_attribute(PyObject* c) { return is_same(PyObject_GetAttr(part(c, 0), part(c, 1)), part(c, 2)); }

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

struct Names {
  PyObject* dtype = PyUnicode_InternFromString("dtype");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
};

/// A plain tensor of (dtype, shape), through which no gradient is wanted.
bool is_like(PyObject* a, PyTypeObject* kind, PyObject* c) {
  static const Names names;
  return Py_TYPE(a) == kind && is_same(PyObject_GetAttr(a, names.dtype), part(c, 0)) &&
         is_same(PyObject_GetAttr(a, names.requires_grad), Py_False) &&
         is_equal(PyObject_GetAttr(a, names.shape), part(c, 1));
}

}  // namespace

void bind_unchanged(nb::module_& m) {
  m.def("_unchanged", [](nb::tuple args, nb::handle kind, nb::tuple arguments, nb::tuple attributes, nb::tuple items,
                         nb::tuple results, nb::tuple lists, nb::tuple lengths) {
    if (args.size() != arguments.size()) return false;
    auto* type = reinterpret_cast<PyTypeObject*>(kind.ptr());
    for (std::size_t i = 0; i < args.size(); ++i) {
      const auto at = static_cast<Py_ssize_t>(i);
      if (!is_like(part(args.ptr(), at), type, part(arguments.ptr(), at))) return false;
    }
    return all(attributes.ptr(), has_attribute) && all(items.ptr(), has_item) && all(results.ptr(), gives) &&
           all(lists.ptr(), has_items) && all(lengths.ptr(), has_length);
  });
}

}  // namespace wr::python
