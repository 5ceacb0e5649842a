// Whether a call of a compiled PyTorch function is like the one before it.
#pragma once

#include <nanobind/nanobind.h>

namespace wr::python {

/// Whether such arguments, and all that `checks` (windrow/torch/_known.py makes it) names, are as they were. The
/// numbers of optimizers are read on the way: they may be others.
bool unchanged(PyObject* arguments, PyObject* checks);

}  // namespace wr::python
