// windrow.doctor(): the library's own report.
#include "windrow/doctor.h"

#include "convert.h"

namespace wr::python {

void bind_doctor(nb::module_& m) {
  m.def(
      "doctor", [] { nb::print(doctor().c_str(), nb::str("")); },
      "Prints what was detected on this machine and what was chosen for it.");
}

}  // namespace wr::python
