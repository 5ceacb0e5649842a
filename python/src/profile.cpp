// Profiles of steps, the machine, comparisons.
#include "windrow/profile.h"

#include <nanobind/stl/vector.h>

#include "casters.h"

namespace wr::python {

using namespace nb::literals;

void bind_profile(nb::module_& m) {
  nb::class_<Profile::Bottleneck>(m, "Bottleneck", "What bounds a step, and what to do.")
      .def_ro("kind", &Profile::Bottleneck::kind)
      .def_ro("where", &Profile::Bottleneck::where)
      .def_ro("text", &Profile::Bottleneck::text)
      .def_ro("advice", &Profile::Bottleneck::advice)
      .def_ro("gain", &Profile::Bottleneck::gain)
      .def("__repr__", [](const Profile::Bottleneck& b) { return b.kind + " at " + b.where + ": " + b.text; });
  nb::class_<Profile::Kernel>(m, "Kernel", "One kernel of the plan with all its calls. Times in microseconds a run.")
      .def_ro("op", &Profile::Kernel::op)
      .def_ro("detail", &Profile::Kernel::detail)
      .def_ro("kernel", &Profile::Kernel::kernel)
      .def_ro("file", &Profile::Kernel::file)
      .def_ro("line", &Profile::Kernel::line)
      .def_ro("gradient", &Profile::Kernel::gradient)
      .def_ro("calls", &Profile::Kernel::calls)
      .def_ro("us", &Profile::Kernel::us)
      .def_ro("flops", &Profile::Kernel::flops)
      .def_ro("bytes", &Profile::Kernel::bytes)
      .def_ro("roof_us", &Profile::Kernel::roof_us)
      .def_ro("bound", &Profile::Kernel::bound)
      .def("__repr__", [](const Profile::Kernel& k) {
        return k.op + " " + k.detail + " [" + k.kernel + "] " + std::to_string(k.us) + " us";
      });
  nb::class_<Profile>(m, "Profile",
                      "Where a step's time goes: per kernel, per line, per thread, against what this machine can do.")
      .def_ro("name", &Profile::name)
      .def_ro("machine", &Profile::machine)
      .def_ro("simd", &Profile::simd)
      .def_ro("threads", &Profile::threads)
      .def_ro("lanes", &Profile::lanes)
      .def_ro("phases", &Profile::phases)
      .def_ro("runs", &Profile::runs)
      .def_ro("run_us", &Profile::run_us)
      .def_ro("min_us", &Profile::min_us)
      .def_ro("max_us", &Profile::max_us)
      .def_ro("between_us", &Profile::between_us)
      .def_ro("compile_ms", &Profile::compile_ms)
      .def_ro("flops", &Profile::flops)
      .def_ro("kernels", &Profile::kernels)
      .def_ro("bottlenecks", &Profile::bottlenecks)
      .def("table", &Profile::to_table, "top"_a = 20, "For the terminal; `top` kernels at most.")
      .def("report", &Profile::bottleneck_report, "What bounds the step, in sentences.")
      .def("json", &Profile::to_json)
      .def(
          "html", [](const Profile& p) { return to_html(std::span(&p, 1)); },
          "A page that needs nothing else: flame graph, timeline, tables.")
      .def(
          "trace", [](const Profile& p) { return to_trace(std::span(&p, 1)); },
          "For chrome://tracing and ui.perfetto.dev.")
      .def(
          "write", [](const Profile& p, const std::string& path) { write_profiles(path, std::span(&p, 1)); }, "path"_a,
          "The name says what it holds: .json, .trace.json, .html, .txt.")
      .def(
          "difference", [](const Profile& before, const Profile& after) { return difference(before, after); },
          "after"_a, "What became faster and slower, by line and kernel.")
      .def("__repr__", [](const Profile& p) { return p.to_table(); })
      .def("_repr_html_", [](const Profile& p) {
        const nb::object page = nb::module_::import_("html").attr("escape")(to_html(std::span(&p, 1)));
        return "<iframe style='width:100%;height:600px;border:0' srcdoc=\"" + nb::cast<std::string>(page) +
               "\"></iframe>";
      });
  m.def("profile_all_steps", &profile_all_steps, "on"_a = true,
        "While on, every step compiled from now on profiles itself.");
  m.def("collected_profiles", &collected_profiles, "The profiles of those steps, in the order they were compiled.");
}

}  // namespace wr::python
