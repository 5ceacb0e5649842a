// Numbers, shapes, types, operands and lines from Python. Arrays of other libraries are in foreign.cpp.
#include "convert.h"

#include <array>
#include <cstring>

#include "casters.h"

namespace wr::python {
namespace {

/// The folder of the package, with its slash: frames of files in it are not the user's.
const std::string& package_folder() {
  static const std::string folder = [] {
    const auto file = nb::cast<std::string>(nb::str(nb::module_::import_("windrow").attr("__file__")));
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

struct Name {
  const char* name;
  DType dtype;
};
constexpr std::array kNames{Name{"f32", DType::f32},       Name{"float32", DType::f32}, Name{"f64", DType::f64},
                            Name{"float64", DType::f64},   Name{"i32", DType::i32},     Name{"int32", DType::i32},
                            Name{"u8", DType::u8},         Name{"uint8", DType::u8},    Name{"bool", DType::boolean},
                            Name{"bool_", DType::boolean}, Name{"float", DType::f32},   Name{"int", DType::i32}};

}  // namespace

namespace {
thread_local Location given_line;
}

void set_line(const std::string& file, unsigned line) { given_line = file.empty() ? Location() : Location(file, line); }

Location here() {
  if (given_line.line() != 0) return given_line;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    const nb::str file(frame.attr("f_code").attr("co_filename"));
    const char* name = file.c_str();
    const std::string& own = package_folder();
    if (std::strncmp(name, own.c_str(), own.size()) != 0)
      return {name, static_cast<unsigned>(PyFrame_GetLineNumber(reinterpret_cast<PyFrameObject*>(frame.ptr())))};
    frame = frame.attr("f_back");
  }
  return {"python", 0};
}

DType dtype_from(nb::handle object) {
  if (nb::isinstance<Type>(object)) return nb::cast<Type>(object).value;
  std::string name;
  if (nb::isinstance<nb::str>(object)) {
    name = nb::cast<std::string>(object);
  } else if (PyType_Check(object.ptr())) {
    name = nb::cast<std::string>(object.attr("__name__"));
  } else {
    name = nb::cast<std::string>(nb::str(nb::getattr(object, "name", object)));
  }
  name = name.substr(name.rfind('.') + 1);  // torch.float32
  for (const Name& n : kNames)
    if (name == n.name) return n.dtype;
  throw nb::type_error(("no element type: '" + name + "'; there are f32, f64, i32, u8 and bool").c_str());
}

Dims dims_from(nb::handle object) {
  Dims dims;
  const auto one = [&](nb::handle item) {
    const nb::object index = nb::steal(PyNumber_Index(item.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    dims.push_back(nb::cast<std::int64_t>(index));
  };
  if (PyIndex_Check(object.ptr())) {
    one(object);
  } else {
    for (nb::handle item : object) one(item);
  }
  return dims;
}

nb::object to_python(const Dims& dims) {
  PyObject* tuple = PyTuple_New(dims.rank());
  for (int i = 0; i < dims.rank(); ++i) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(dims[i]));
  return nb::steal(tuple);
}

Axes axes_from(nb::handle object) {
  if (object.is_none()) return {};
  std::vector<int> axes;
  for (std::int64_t axis : dims_from(object)) axes.push_back(static_cast<int>(axis));
  return {std::move(axes)};
}

AxisList axis_list_from(nb::handle object) {
  AxisList axes;
  if (object.is_none()) return axes;
  axes.list = dims_from(object);
  axes.all = false;
  return axes;
}

bool is_number(nb::handle object) {
  if (PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr())) return true;  // bool is an int
  // numpy's scalars are numbers; arrays, even of one element, are arrays.
  return !PyObject_HasAttrString(object.ptr(), "__dlpack__") && !PyObject_CheckBuffer(object.ptr()) &&
         PyNumber_Check(object.ptr()) && PyObject_HasAttrString(object.ptr(), "__float__") && !is_traced(object);
}

double number_from(nb::handle object) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

bool is_traced(nb::handle object) { return nb::isinstance<Tensor>(object) || nb::isinstance<State>(object); }

bool any_traced(std::initializer_list<nb::handle> objects) {
  for (nb::handle object : objects)
    if (is_traced(object)) return true;
  return false;
}

Tensor tensor_from(nb::handle object, Location where) {
  if (nb::isinstance<Tensor>(object)) return nb::cast<Tensor>(object);
  if (nb::isinstance<State>(object)) return {nb::cast<State>(object), where};
  if (nb::isinstance<Array>(object)) return {nb::cast<const Array&>(object), where};
  return {copied_array(object), where};
}

Operand operand_from(nb::handle object, Location where) {
  if (is_number(object)) return {number_from(object), where};
  return {tensor_from(object, where), where};
}

std::vector<Tensor> tensors_from(nb::handle sequence, Location where) {
  std::vector<Tensor> tensors;
  if (nb::isinstance<Tensor>(sequence) || nb::isinstance<State>(sequence)) {
    tensors.push_back(tensor_from(sequence, where));
    return tensors;
  }
  for (nb::handle item : sequence) tensors.push_back(tensor_from(item, where));
  return tensors;
}

std::vector<State> states_from(nb::handle sequence) {
  std::vector<State> states;
  if (nb::isinstance<State>(sequence)) return {nb::cast<State>(sequence)};
  for (nb::handle item : sequence) {
    if (!nb::isinstance<State>(item)) throw nb::type_error("expected States, as net.parameters() gives them");
    states.push_back(nb::cast<State>(item));
  }
  return states;
}

Array* out_from(nb::handle object) {
  if (object.is_none()) return nullptr;
  if (!nb::isinstance<Array>(object)) throw nb::type_error("out= takes a windrow.Array");
  return nb::cast<Array*>(object);
}

void refuse_out(nb::handle out, const char* op) {
  if (!out.is_none()) throw nb::type_error((std::string(op) + ": out= has no meaning while a step is traced").c_str());
}

}  // namespace wr::python
