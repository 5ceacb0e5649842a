// windrow.Array: concrete data. numpy and DLPack see its memory without a copy.
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "dlpack.h"

namespace wr::python {
namespace {

using namespace nb::literals;

const char* format_of(DType dtype) {
  constexpr const char* formats[] = {"f", "d", "i", "B", "?"};
  return formats[static_cast<int>(dtype)];
}

/// What a buffer or a DLPack capsule holds while somebody sees the memory: a window, so that writes are seen both ways
/// and copies of the array are not touched by them.
struct Shown {
  Array window;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
};

Shown* show(Array& array, std::int64_t unit) {
  auto* shown = new Shown{array.window(), {}, {}};
  for (int i = 0; i < array.rank(); ++i) {
    shown->shape[i] = shown->window.shape()[i];
    shown->strides[i] = shown->window.strides()[i] * unit;
  }
  return shown;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    Array& array = *nb::inst_ptr<Array>(self);
    if (!(flags & PyBUF_STRIDES) && !array.is_contiguous()) {
      PyErr_SetString(PyExc_BufferError, "the array is a strided view");
      return -1;
    }
    const auto size = static_cast<Py_ssize_t>(size_of(array.dtype()));
    Shown* shown = show(array, size);
    view->buf = detail::ArrayAccess::write_shared(shown->window);
    view->obj = self;
    Py_INCREF(self);
    view->len = static_cast<Py_ssize_t>(array.bytes());
    view->readonly = 0;
    view->itemsize = size;
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format_of(array.dtype())) : nullptr;
    view->ndim = array.rank();
    view->shape = flags & PyBUF_ND ? reinterpret_cast<Py_ssize_t*>(shown->shape) : nullptr;
    view->strides = flags & PyBUF_STRIDES ? reinterpret_cast<Py_ssize_t*>(shown->strides) : nullptr;
    view->suboffsets = nullptr;
    view->internal = shown;
    return 0;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    view->obj = nullptr;
    return -1;
  }
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Shown*>(view->internal); }

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                        {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                        {0, nullptr}};

nb::object dlpack_of(Array& array) {
  auto* managed = new dlpack::Managed{};
  Shown* shown = show(array, 1);
  managed->tensor =
      dlpack::dense(detail::ArrayAccess::write_shared(shown->window), array.dtype(), array.rank(), shown->shape);
  managed->tensor.strides = shown->strides;
  managed->context = shown;
  managed->deleter = [](dlpack::Managed* m) {
    delete static_cast<Shown*>(m->context);
    delete m;
  };
  return nb::steal(PyCapsule_New(managed, "dltensor", [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // somebody took it
    auto* m = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
    m->deleter(m);
  }));
}

double number_of(const Array& array, const char* op) {
  if (array.count() != 1)
    throw nb::type_error((std::string(op) + ": the array has " + std::to_string(array.count()) +
                          " elements, not one: " + to_string(Spec{array.dtype(), array.shape()}))
                             .c_str());
  switch (array.dtype()) {
    case DType::f32:
      return array.item<float>();
    case DType::f64:
      return array.item<double>();
    case DType::i32:
      return array.item<std::int32_t>();
    case DType::u8:
      return array.item<std::uint8_t>();
    case DType::boolean:
      return array.item<bool>();
  }
  return 0;
}

nb::object item_of(const Array& array) {
  const double value = number_of(array, "item");
  if (is_floating(array.dtype())) return nb::float_(value);
  if (array.dtype() == DType::boolean) return nb::bool_(value != 0);
  return nb::int_(static_cast<std::int64_t>(value));
}

/// a[2, 1:3, ..., None, ::2]: what Python's indices make of a layout.
Layout indexed(const Layout& all, nb::handle key, Location where) {
  std::vector<nb::object> parts;
  if (nb::isinstance<nb::tuple>(key))
    for (nb::handle part : key) parts.push_back(nb::borrow(part));
  else
    parts.push_back(nb::borrow(key));
  int named = 0;
  for (const auto& part : parts) named += !part.is_none() && part.ptr() != Py_Ellipsis;
  Layout layout = all;
  int axis = 0;
  for (const auto& part : parts) {
    if (part.is_none()) {
      layout = layout.expand_dims(axis++, where);
    } else if (part.ptr() == Py_Ellipsis) {
      axis += all.shape.rank() - named;
    } else if (PySlice_Check(part.ptr())) {
      if (axis >= layout.shape.rank()) fail(where, "index: more indices than axes in " + to_string(all.shape));
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
      const auto size = static_cast<Py_ssize_t>(layout.shape[axis]);
      const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
      if (count == 0) {
        layout = layout.slice(axis, 0, 0, 1, where);
      } else {
        const std::int64_t end = start + count * step;
        layout = layout.slice(axis, start, end < 0 ? Layout::Bound{} : Layout::Bound{end}, step, where);
      }
      ++axis;
    } else if (PyIndex_Check(part.ptr())) {
      if (axis >= layout.shape.rank()) throw nb::index_error("index: more indices than axes");
      const std::int64_t size = layout.shape[axis], index = nb::cast<std::int64_t>(nb::int_(part));
      if (index < -size || index >= size)
        throw nb::index_error(
            ("index " + std::to_string(index) + " is outside an axis of " + std::to_string(size)).c_str());
      layout = layout.select(axis, index, where);
    } else {
      throw nb::type_error("index: ints, slices, ... and None; for arrays of indices use gather() or take_along()");
    }
  }
  return layout;
}

nb::object nested_list(const Array& array) {
  if (array.rank() == 0) return item_of(array);
  nb::list out;
  for (std::int64_t i = 0; i < array.shape()[0]; ++i) out.append(nested_list(array.select(0, i)));
  return out;
}

nb::tuple pickled(const Array& array) {
  const Array dense = array.contiguous();
  return nb::make_tuple(std::string(name_of(array.dtype())), to_python(array.shape()),
                        nb::bytes(static_cast<const char*>(detail::ArrayAccess::read(dense)), dense.bytes()));
}

Array unpickled(const nb::tuple& state) {
  const DType dtype = dtype_from(state[0]);
  const Shape shape = dims_from(state[1]);
  const nb::bytes bytes(state[2]);
  if (bytes.size() != static_cast<std::size_t>(shape.count()) * size_of(dtype))
    throw Error("pickle: the bytes do not fit " + to_string(Spec{dtype, shape}));
  return Array::borrow(static_cast<const void*>(bytes.c_str()), shape, dtype).clone();
}

void bind_types(nb::module_& m) {
  nb::class_<Type>(m, "DType", "An element type; wr.f32(64, 784) is the type and shape of an argument.")
      .def_prop_ro("name", [](const Type& t) { return std::string(name_of(t.value)); })
      .def_prop_ro("itemsize", [](const Type& t) { return size_of(t.value); })
      .def("__call__",
           [](const Type& t, const nb::args& sizes) {
             Spec spec{t.value, {}};
             for (nb::handle size : sizes) spec.shape.push_back(nb::cast<std::int64_t>(size));
             return spec;
           })
      .def("__eq__",
           [](const Type& t, nb::handle other) {
             try {
               return dtype_from(other) == t.value;
             } catch (...) {
               PyErr_Clear();
               return false;
             }
           })
      .def("__hash__", [](const Type& t) { return static_cast<int>(t.value) + 1; })
      .def(
          "__reduce__",
          [](const Type& t) { return nb::make_tuple(nb::type<Type>(), nb::make_tuple(std::string(name_of(t.value)))); })
      .def(
          "__init__", [](Type* t, nb::handle like) { new (t) Type{dtype_from(like)}; }, "like"_a)
      .def("__repr__", [](const Type& t) {
        return "windrow." + std::string(t.value == DType::boolean ? "boolean" : name_of(t.value));
      });
  m.attr("f32") = Type{DType::f32};
  m.attr("f64") = Type{DType::f64};
  m.attr("i32") = Type{DType::i32};
  m.attr("u8") = Type{DType::u8};
  m.attr("boolean") = Type{DType::boolean};
  nb::class_<Spec>(m, "Spec", "The element type and shape of a value.")
      .def(
          "__init__",
          [](Spec* s, DType dtype, const Shape& shape) {
            new (s) Spec{dtype, shape};
          },
          "dtype"_a, "shape"_a)
      .def_ro("dtype", &Spec::dtype)
      .def_ro("shape", &Spec::shape)
      .def(nb::self == nb::self)
      .def("__repr__", [](const Spec& s) { return to_string(s); });
}

void bind_creation(nb::module_& m) {
  m.def(
      "array",
      [](nb::handle values, nb::handle dtype) {
        return copied_array(values, dtype.is_none() ? std::nullopt : std::optional(dtype_from(dtype)));
      },
      "values"_a, "dtype"_a = nb::none(),
      "An Array with memory of its own from numbers, lists or any library's array. Lists of floats become f32, "
      "integers i32.");
  m.def(
      "zeros", [](const Shape& s, DType t) { return Array::zeros(s, t, here()); }, "shape"_a,
      "dtype"_a = Type{DType::f32});
  m.def(
      "ones", [](const Shape& s, DType t) { return Array::ones(s, t, here()); }, "shape"_a,
      "dtype"_a = Type{DType::f32});
  m.def(
      "empty", [](const Shape& s, DType t) { return Array::empty(s, t, here()); }, "shape"_a,
      "dtype"_a = Type{DType::f32});
  m.def(
      "arange",
      [](double start, std::optional<double> stop, double step, DType t) {
        return stop ? Array::arange(start, *stop, step, t, here()) : Array::arange(0, start, step, t, here());
      },
      "start"_a, "stop"_a = nb::none(), "step"_a = 1.0, "dtype"_a = Type{DType::f32});
  m.def(
      "linspace", [](double a, double b, std::int64_t n, DType t) { return Array::linspace(a, b, n, t, here()); },
      "start"_a, "stop"_a, "count"_a, "dtype"_a = Type{DType::f32});
  m.def(
      "eye", [](std::int64_t n, DType t) { return Array::eye(n, t, here()); }, "size"_a, "dtype"_a = Type{DType::f32});
  m.def(
      "identical", [](nb::handle a, nb::handle b) { return identical(ArrayIn(a), ArrayIn(b)); }, "a"_a, "b"_a,
      "Same type, shape and bits of every element.");
  m.def(
      "allclose",
      [](nb::handle a, nb::handle b, double rtol, double atol) {
        return allclose(ArrayIn(a), ArrayIn(b), rtol, atol, here());
      },
      "a"_a, "b"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8);
}

void bind_views(nb::class_<Array>& array) {
  array
      .def("reshape",
           [](const Array& a, const nb::args& sizes) {
             return a.reshape(dims_from(sizes.size() == 1 ? nb::object(sizes[0]) : nb::object(sizes)), here());
           })
      .def("flatten", [](const Array& a) { return a.flatten(here()); })
      .def("permute",
           [](const Array& a, const nb::args& axes) {
             return a.permute(dims_from(axes.size() == 1 ? nb::object(axes[0]) : nb::object(axes)), here());
           })
      .def(
          "transpose", [](const Array& a) { return a.transpose(here()); }, "All axes in reverse order.")
      .def_prop_ro("T", [](const Array& a) { return a.transpose(here()); })
      .def(
          "expand_dims", [](const Array& a, int axis) { return a.expand_dims(axis, here()); }, "axis"_a)
      .def(
          "squeeze",
          [](const Array& a, std::optional<int> axis) { return axis ? a.squeeze(*axis, here()) : a.squeeze(here()); },
          "axis"_a = nb::none())
      .def(
          "broadcast_to", [](const Array& a, const Shape& s) { return a.broadcast_to(s, here()); }, "shape"_a)
      .def("contiguous", [](const Array& a) { return a.contiguous(here()); })
      .def("copy", [](const Array& a) { return a.clone(here()); })
      .def("__copy__", [](const Array& a) { return a.clone(here()); })
      .def(
          "__deepcopy__", [](const Array& a, nb::handle) { return a.clone(here()); }, "memo"_a)
      .def(
          "astype", [](const Array& a, DType dtype) { return a.astype(dtype, here()); }, "dtype"_a)
      .def(
          "fill", [](Array& a, double value) { a.fill(value, here()); }, "value"_a)
      .def(
          "copy_from", [](Array& a, nb::handle source) { a.copy_from(ArrayIn(source), here()); }, "source"_a,
          "Writes source's elements, broadcast and converted, to this array's.")
      .def(
          "__getitem__",
          [](const Array& a, nb::handle key) {
            // Array has no constructor from a layout: a window makes one, and its copy is a value again.
            Array& all = const_cast<Array&>(a);
            const Location where = here();
            const Array window = all.window([&](const Layout& layout) { return indexed(layout, key, where); }, where);
            return Array(window);
          },
          "key"_a)
      .def(
          "__setitem__",
          [](Array& a, nb::handle key, nb::handle value) {
            const Location where = here();
            Array window = a.window([&](const Layout& layout) { return indexed(layout, key, where); }, where);
            if (is_number(value))
              window.fill(number_from(value), where);
            else
              window.copy_from(ArrayIn(value), where);
          },
          "key"_a, "value"_a);
}

}  // namespace

void bind_array(nb::module_& m) {
  bind_types(m);
  nb::class_<Array> array(m, "Array", nb::type_slots(kSlots),
                          "N-d data of one element type. np.asarray(a) and torch.from_dlpack(a) share its memory.");
  array
      .def(
          "__init__",
          [](Array* self, nb::handle values, nb::handle dtype) {
            new (self) Array(copied_array(values, dtype.is_none() ? std::nullopt : std::optional(dtype_from(dtype))));
          },
          "values"_a, "dtype"_a = nb::none())
      .def_prop_ro("shape", [](const Array& a) { return a.shape(); })
      .def_prop_ro("dtype", [](const Array& a) { return a.dtype(); })
      .def_prop_ro("ndim", [](const Array& a) { return a.rank(); })
      .def_prop_ro("size", [](const Array& a) { return a.count(); })
      .def_prop_ro("nbytes", [](const Array& a) { return a.bytes(); })
      .def("item", item_of, "The only element, as a Python number.")
      .def("tolist", nested_list)
      .def(
          "numpy", [](nb::handle self) { return nb::module_::import_("numpy").attr("asarray")(self); },
          "A numpy array of the same memory.")
      .def(
          "__array__",
          [](nb::handle self, nb::handle dtype, nb::handle copy) {
            nb::module_ numpy = nb::module_::import_("numpy");
            nb::object view =
                numpy.attr("frombuffer")(nb::steal(PyMemoryView_FromObject(self.ptr())), "dtype"_a = dtype);
            return copy.is_none() ? view : numpy.attr("array")(view, "copy"_a = copy);
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", [](Array& a, const nb::kwargs&) { return dlpack_of(a); })
      .def("__dlpack_device__", [](const Array&) { return nb::make_tuple(dlpack::kCpu, 0); })
      .def("__float__", [](const Array& a) { return number_of(a, "float"); })
      .def("__int__", [](const Array& a) { return static_cast<std::int64_t>(number_of(a, "int")); })
      .def("__bool__", [](const Array& a) { return number_of(a, "bool") != 0; })
      .def("__len__",
           [](const Array& a) {
             if (a.rank() == 0) throw nb::type_error("len() of an array without axes");
             return a.shape()[0];
           })
      .def("__format__",
           [](nb::handle self, const std::string& spec) -> nb::object {
             const Array& a = nb::cast<const Array&>(self);
             if (spec.empty()) return nb::str(self);
             return item_of(a).attr("__format__")(spec);
           })
      .def("__repr__", [](const Array& a) { return to_string(a); })
      .def("__getstate__", pickled)
      .def("__setstate__", [](Array& a, const nb::tuple& state) { new (&a) Array(unpickled(state)); });
  bind_views(array);
  bind_creation(m);
}

}  // namespace wr::python
