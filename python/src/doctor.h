// What was detected on this machine.
#pragma once

#include <nanobind/nanobind.h>

namespace wr::python {

void bind_doctor(nanobind::module_& m);

}  // namespace wr::python
