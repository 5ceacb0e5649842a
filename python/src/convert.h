// Between Python's values and Windrow's: numbers, shapes, element types, arrays of any library, and the user's line.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "windrow/ops.h"
#include "windrow/step.h"
#include "windrow/windrow.h"

namespace wr::python {

namespace nb = nanobind;

/// The innermost line of Python that is not the package's own.
Location here();
/// Until it is called with an empty name, here() is this line: for front ends that trace what was written elsewhere.
void set_line(const std::string& file, unsigned line);

/// An element type as Python sees it: wr.f32, which also makes specs, wr.f32(64, 784).
struct Type {
  DType value;
  friend bool operator==(Type, Type) = default;
};
/// wr.f32, "f32", "float32", np.float32, np.dtype(...), torch.float32.
DType dtype_from(nb::handle object);
/// An int, or a sequence of them.
Dims dims_from(nb::handle object);
nb::object to_python(const Dims& dims);
/// None is all axes.
Axes axes_from(nb::handle object);
AxisList axis_list_from(nb::handle object);

bool is_number(nb::handle object);
double number_from(nb::handle object);
/// True for a Tensor and a State: an op on one of them is traced.
bool is_traced(nb::handle object);
bool any_traced(std::initializer_list<nb::handle> objects);

/// What another library's array says of itself, without its elements being copied. The object is held until release().
class Foreign {
 public:
  Foreign() {}  // NOLINT(modernize-use-equals-default): nothing is cleared that is not read
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  ~Foreign() { release(); }

  /// False, with nothing held, if the object is no array of a kind that is read in place; elements that are not of a
  /// type of ours, strided or not on the CPU leave `direct` false.
  bool read(PyObject* object);
  /// The same for writing into; throws where that cannot be.
  void read_writable(nb::handle object);
  void release();

  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  bool direct = false;  // dense, of one of our types
  bool wide = false;    // dense int64, which copied_array() narrows

 private:
  bool read_buffer(PyObject* object, bool writable);
  bool read_exchange(PyObject* object, const void* api);
  bool read_dlpack(PyObject* object);
  void describe(const void* tensor);

  Py_buffer view_;  // where buffered_
  bool buffered_ = false;
  void* managed_ = nullptr;  // a DLManagedTensorVersioned
  void* old_managed_ = nullptr;
};

/// An array operand: one of ours, or another library's read in place for as long as this lives, or a copy.
class ArrayIn {
 public:
  explicit ArrayIn(nb::handle object, const char* what = "operand");
  const Array& get() const { return *array_; }
  operator const Array&() const { return *array_; }

 private:
  const Array* array_ = nullptr;
  Array own_;
  Foreign foreign_;
};

/// Memory of its own. Integers of other widths become i32 if every value fits, f16 becomes f32.
Array copied_array(nb::handle object, std::optional<DType> dtype = std::nullopt);

Tensor tensor_from(nb::handle object, Location where);
Operand operand_from(nb::handle object, Location where);
std::vector<Tensor> tensors_from(nb::handle sequence, Location where);
std::vector<State> states_from(nb::handle sequence);
/// Where an op writes: out=, an Array.
Array* out_from(nb::handle object);

/// Calls `traced` or `eager`, as the operands are.
template <class Traced, class Eager>
nb::object either(std::initializer_list<nb::handle> operands, Traced traced, Eager eager) {
  if (any_traced(operands)) return nb::cast(traced());
  return nb::cast(eager());
}

void refuse_out(nb::handle out, const char* op);

// One function a file of bindings.
void bind_array(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_window_ops(nb::module_& m);
void bind_sequence_ops(nb::module_& m);
void bind_step(nb::module_& m);
void bind_profile(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_transformer(nb::module_& nn_module);  // called by bind_nn
void bind_loss(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_data(nb::module_& m);
void bind_rl(nb::module_& m);
void bind_agents(nb::module_& rl);
void bind_logic(nb::module_& m);
void bind_rules(nb::module_& m);
void bind_doctor(nb::module_& m);
void bind_unchanged(nb::module_& m);

/// a + b and its like, for whatever the operands are; used by the operators of Array and Tensor.
nb::object elementwise(const char* name, nb::handle a, nb::handle b);
nb::object elementwise(const char* name, nb::handle x);

}  // namespace wr::python
