// windrow.doctor(): the program's own report.
#include "doctor.h"

#include "cli/doctor.h"

namespace wr::python {

void bind_doctor(nanobind::module_& m) {
  m.def(
      "doctor", [] { cli::doctor(); }, "Prints what was detected on this machine and what was chosen for it.");
}

}  // namespace wr::python
