// Arrays of other libraries: numpy and everything with a buffer, PyTorch, JAX and everything that speaks DLPack. Dense
// memory of our element types is read where it stands.
#include <cstring>
#include <unordered_map>

#include "convert.h"
#include "exchange.h"

namespace wr::python {
namespace {

std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  if (!format) return size == 1 ? std::optional(DType::u8) : std::nullopt;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (format[0]) {
    case 'f':
      return DType::f32;
    case 'd':
      return DType::f64;
    case 'i':
    case 'l':
      return size == 4 ? std::optional(DType::i32) : std::nullopt;
    case 'B':
      return DType::u8;
    case '?':
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

std::optional<DType> dtype_of_tensor(const dlpack::Tensor& tensor) {
  if (tensor.dtype.lanes != 1) return std::nullopt;
  const int bits = tensor.dtype.bits;
  switch (tensor.dtype.code) {
    case dlpack::kFloat:
      return bits == 32 ? std::optional(DType::f32) : bits == 64 ? std::optional(DType::f64) : std::nullopt;
    case dlpack::kInt:
      return bits == 32 ? std::optional(DType::i32) : std::nullopt;
    case dlpack::kUnsigned:
      return bits == 8 ? std::optional(DType::u8) : std::nullopt;
    case dlpack::kBool:
      return bits == 8 ? std::optional(DType::boolean) : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// How a type's objects are read. Types are few and are kept alive, so that an address always means the same one.
enum class Way { none, buffer, exchange, dlpack };
struct Known {
  Way way = Way::none;
  const void* api = nullptr;
};

const Known& way_of(PyObject* object) {
  static std::unordered_map<PyTypeObject*, Known> known;  // under the GIL
  static PyTypeObject* last = nullptr;
  static Known last_known;
  PyTypeObject* type = Py_TYPE(object);
  if (type == last) return last_known;
  auto found = known.find(type);
  if (found == known.end()) {
    Known k;
    if (PyObject_CheckBuffer(object)) {
      k.way = Way::buffer;
    } else if (PyObject* capsule =
                   PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__")) {
      const auto* api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
      if (api && api->header.version.major == 1) k = {Way::exchange, api};
      PyErr_Clear();
      Py_DECREF(capsule);
    } else {
      PyErr_Clear();
    }
    if (k.way == Way::none && PyObject_HasAttrString(object, "__dlpack__")) k.way = Way::dlpack;
    Py_INCREF(reinterpret_cast<PyObject*>(type));
    found = known.emplace(type, k).first;
  }
  last = type;
  last_known = found->second;
  return last_known;
}

}  // namespace

const dlpack::ExchangeApi* exchange_of(PyObject* object) {
  const Known& known = way_of(object);
  return known.way == Way::exchange ? static_cast<const dlpack::ExchangeApi*>(known.api) : nullptr;
}

bool look_at(PyObject* object, dlpack::Tensor& tensor) {
  const dlpack::ExchangeApi* api = exchange_of(object);
  if (!api || !api->tensor_from_object) return false;
  if (api->tensor_from_object(object, &tensor) == 0) return true;
  PyErr_Clear();
  return false;
}

nb::object tensor_over(Array array, const dlpack::ExchangeApi& api) {
  struct Owned : dlpack::ManagedVersioned {
    Array array;
    std::int64_t sizes[kMaxRank];
  };
  auto owned = std::make_unique<Owned>();
  owned->array = std::move(array);
  const Array& a = owned->array;
  for (int i = 0; i < a.rank(); ++i) owned->sizes[i] = a.shape()[i];
  owned->version = {1, 0};
  owned->flags = 0;
  owned->tensor = dlpack::dense(detail::ArrayAccess::write_shared(owned->array), a.dtype(), a.rank(), owned->sizes);
  owned->context = nullptr;
  owned->deleter = [](dlpack::ManagedVersioned* m) { delete static_cast<Owned*>(m); };
  void* object = nullptr;
  if (api.managed_to_object(owned.get(), &object) != 0) throw nb::python_error();
  owned.release();  // NOLINT(bugprone-unused-return-value): the tensor has it now
  return nb::steal(static_cast<PyObject*>(object));
}

void Foreign::release() {
  if (buffered_) PyBuffer_Release(&view_);
  buffered_ = false;
  if (managed_) {
    auto* tensor = static_cast<dlpack::ManagedVersioned*>(managed_);
    if (tensor->deleter) tensor->deleter(tensor);
  }
  if (old_managed_) {
    auto* tensor = static_cast<dlpack::Managed*>(old_managed_);
    if (tensor->deleter) tensor->deleter(tensor);
  }
  managed_ = old_managed_ = nullptr;
  direct = wide = false;
}

bool Foreign::read(PyObject* object) {
  release();
  const Known& known = way_of(object);
  switch (known.way) {
    case Way::buffer:
      return read_buffer(object, false);
    case Way::exchange:
      return read_exchange(object, known.api);
    case Way::dlpack:
      return read_dlpack(object);
    case Way::none:
      return false;
  }
  return false;
}

bool Foreign::read_buffer(PyObject* object, bool writable) {
  if (PyObject_GetBuffer(object, &view_,
                         writable ? PyBUF_FORMAT | PyBUF_STRIDES | PyBUF_WRITABLE : PyBUF_FORMAT | PyBUF_STRIDES) !=
      0) {
    PyErr_Clear();
    return false;
  }
  buffered_ = true;
  data = view_.buf;
  if (view_.ndim > kMaxRank) return true;
  shape = Shape();
  for (int i = 0; i < view_.ndim; ++i) shape.push_back(view_.shape[i]);
  std::int64_t dense = view_.itemsize;
  bool is_dense = reinterpret_cast<std::uintptr_t>(data) % static_cast<std::size_t>(view_.itemsize) == 0;
  for (int i = view_.ndim - 1; i >= 0; --i) {
    if (view_.shape[i] != 1 && view_.strides[i] != dense) is_dense = false;
    dense *= view_.shape[i];
  }
  if (const auto type = dtype_of_format(view_.format, view_.itemsize)) {
    dtype = *type;
    direct = is_dense;
  } else {
    wide = is_dense && view_.itemsize == 8 && view_.format && std::strpbrk(view_.format, "lq") &&
           std::strlen(view_.format) == 1;
  }
  return true;
}

void Foreign::describe(const void* description) {
  const auto& tensor = *static_cast<const dlpack::Tensor*>(description);
  data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (tensor.ndim > kMaxRank) return;
  shape = Shape();
  std::int64_t dense = 1;
  bool is_dense = true;
  for (int i = 0; i < tensor.ndim; ++i) shape.push_back(tensor.shape[i]);
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.strides && tensor.shape[i] != 1 && tensor.strides[i] != dense) is_dense = false;
    dense *= tensor.shape[i];
  }
  if (tensor.device.type != dlpack::kCpu) return;
  const std::size_t size = tensor.dtype.bits / 8;
  is_dense = is_dense && size > 0 && reinterpret_cast<std::uintptr_t>(data) % size == 0;
  if (const auto type = dtype_of_tensor(tensor)) {
    dtype = *type;
    direct = is_dense;
  } else {
    wide = is_dense && tensor.dtype.code == dlpack::kInt && tensor.dtype.bits == 64 && tensor.dtype.lanes == 1;
  }
}

bool Foreign::read_exchange(PyObject* object, const void* api_pointer) {
  const auto& api = *static_cast<const dlpack::ExchangeApi*>(api_pointer);
  dlpack::Tensor tensor;
  if (!api.tensor_from_object || api.tensor_from_object(object, &tensor) != 0) {
    PyErr_Clear();
    return read_dlpack(object);
  }
  describe(&tensor);
  return true;
}

bool Foreign::read_dlpack(PyObject* object) {
  PyObject* capsule = PyObject_CallMethod(object, "__dlpack__", nullptr);
  if (!capsule) {
    PyErr_Clear();
    return false;
  }
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    managed_ = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    describe(&static_cast<dlpack::ManagedVersioned*>(managed_)->tensor);
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    old_managed_ = PyCapsule_GetPointer(capsule, "dltensor");
    PyCapsule_SetName(capsule, "used_dltensor");
    describe(&static_cast<dlpack::Managed*>(old_managed_)->tensor);
  }
  Py_DECREF(capsule);
  return managed_ || old_managed_;
}

void Foreign::read_writable(nb::handle object) {
  release();
  const Known& known = way_of(object.ptr());
  const bool found = known.way == Way::buffer ? read_buffer(object.ptr(), true) : read(object.ptr());
  const bool read_only = managed_ && (static_cast<dlpack::ManagedVersioned*>(managed_)->flags & dlpack::kReadOnly);
  if (!found || !direct || read_only)
    throw nb::type_error("out= must be a writable, contiguous array of f32, f64, i32, u8 or bool");
}

ArrayIn::ArrayIn(nb::handle object, const char* what) {
  if (nb::isinstance<Array>(object)) {
    array_ = nb::cast<const Array*>(object);
    return;
  }
  if (is_traced(object)) throw nb::type_error((std::string(what) + ": expected an array, not a traced value").c_str());
  array_ = &own_;
  if (foreign_.read(object.ptr()) && foreign_.direct) {
    own_ = Array::borrow(static_cast<const void*>(foreign_.data), foreign_.shape, foreign_.dtype);
    return;
  }
  foreign_.release();
  own_ = copied_array(object);
}

namespace {

/// 64-bit integers, as labels and actions mostly are, without asking numpy.
Array narrowed(const Foreign& foreign) {
  Array array = Array::empty(foreign.shape, DType::i32);
  std::int32_t* to = array.mutable_data<std::int32_t>();
  const auto* from = static_cast<const std::int64_t*>(foreign.data);
  const std::int64_t count = array.count();
  std::uint64_t outside = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<std::int32_t>(from[i]);
    outside |= static_cast<std::uint64_t>(from[i] ^ to[i]);
  }
  if (outside == 0) return array;
  for (std::int64_t i = 0; i < count; ++i)
    if (from[i] != to[i])
      throw Error("array: element " + std::to_string(i) + " of the int64 array, " + std::to_string(from[i]) +
                  ", does not fit i32");
  return array;
}

/// What numpy makes of anything else: lists, strided or half-precision arrays, 64-bit integers.
Array through_numpy(nb::handle object) {
  nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array;
  if (PyObject_HasAttrString(object.ptr(), "detach"))
    array = numpy.attr("asarray")(object.attr("detach")().attr("cpu")());
  else
    array = numpy.attr("asarray")(object);
  if (!nb::cast<bool>(array.attr("dtype").attr("isnative")))  // bytes in another machine's order
    array = array.attr("astype")(array.attr("dtype").attr("newbyteorder")("="));
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const auto name = nb::cast<std::string>(array.attr("dtype").attr("name"));
  const bool list = nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object) || is_number(object);
  if (kind == "i" || kind == "u") {
    if (name != "int32" && name != "uint8") {
      if (nb::cast<std::int64_t>(array.attr("size")) > 0) {
        const auto low = nb::cast<std::int64_t>(nb::int_(array.attr("min")()));
        const nb::int_ high(array.attr("max")());
        if (low < INT32_MIN || nb::cast<double>(nb::float_(high)) > INT32_MAX)
          throw Error("array: a value of the " + name + " array does not fit i32: from " + std::to_string(low) +
                      " to " + nb::cast<std::string>(nb::str(high)));
      }
      array = array.attr("astype")("int32");
    }
  } else if (name == "float16" || (kind == "f" && list)) {
    array = array.attr("astype")("float32");
  } else if (name != "float32" && name != "float64" && kind != "b") {
    throw nb::type_error(("array: no element type for " + name + "; there are f32, f64, i32, u8 and bool").c_str());
  }
  array = numpy.attr("ascontiguousarray")(array).attr("reshape")(array.attr("shape"));
  Foreign foreign;
  if (!foreign.read(array.ptr()) || !foreign.direct)
    throw nb::type_error(("array: cannot read " + name + " with " + std::to_string(nb::cast<int>(array.attr("ndim"))) +
                          " axes (8 at most)")
                             .c_str());
  return Array::borrow(static_cast<const void*>(foreign.data), foreign.shape, foreign.dtype).clone();
}

}  // namespace

Array copied_array(nb::handle object, std::optional<DType> dtype) {
  Array array;
  if (nb::isinstance<Array>(object)) {
    array = nb::cast<const Array&>(object).clone();
  } else if (nb::isinstance<State>(object)) {
    array = nb::cast<const State&>(object).value();
  } else if (nb::isinstance<Tensor>(object)) {
    throw nb::type_error("array: a Tensor has no value while it is traced; return it from the step, or use wr.eval()");
  } else {
    Foreign foreign;
    if (foreign.read(object.ptr()) && foreign.direct)
      array = Array::borrow(static_cast<const void*>(foreign.data), foreign.shape, foreign.dtype).clone();
    else if (foreign.wide)
      array = narrowed(foreign);
    else
      array = through_numpy(object);
  }
  return dtype ? array.astype(*dtype) : array;
}

}  // namespace wr::python
