// Tensors of a library with DLPack's exchange interface (PyTorch from 2.10 on), without a call of Python.
#pragma once

#include "convert.h"
#include "dlpack.h"

namespace wr::python {

/// That of the object's type; null where it has none.
const dlpack::ExchangeApi* exchange_of(PyObject* object);
/// What the object says of itself; false, without an error, where it cannot.
bool look_at(PyObject* object, dlpack::Tensor& tensor);
/// A tensor of the library that owns the array.
nb::object tensor_over(Array array, const dlpack::ExchangeApi& api);

}  // namespace wr::python
