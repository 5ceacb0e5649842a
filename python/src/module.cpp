// windrow._core: the library as a Python module. The package's own Python files make the public names of it.
#include <nanobind/nanobind.h>

#include "convert.h"

NB_MODULE(_core, m) {
  using namespace wr::python;
  // A traceback that somebody keeps holds tensors until the interpreter ends; that is no fault of the program's.
  nanobind::set_leak_warnings(false);
  m.doc() = "Windrow's C++ library. Import windrow, not this.";
  nanobind::exception<wr::Error>(m, "Error", PyExc_ValueError);
  m.attr("__version__") = WINDROW_VERSION;
  bind_array(m);
  bind_tensor(m);
  bind_elementwise(m);
  bind_ops(m);
  bind_window_ops(m);
  bind_sequence_ops(m);
  bind_step(m);
  bind_profile(m);
  bind_nn(m);
  bind_loss(m);
  bind_optim(m);
  bind_data(m);
  bind_rl(m);
  bind_logic(m);
  bind_rules(m);
  bind_doctor(m);
  bind_unchanged(m);
}
