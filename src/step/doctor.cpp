// doctor(): a report for people, from what the backend knows of this computer.
#include "windrow/doctor.h"

#include <fmt/format.h>

#include <cstdlib>

#include "backend/cpu/gemm.h"
#include "backend/cpu/measure.h"
#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "backend/device/measure.h"
#include "base/host.h"
#include "base/thread_team.h"

namespace wr {
namespace {

/// Lines of a report: headings, and names with what was found.
class Report {
 public:
  void heading(std::string_view title) { text_ += fmt::format("{}\n", title); }
  void row(std::string_view name, std::string_view value) { text_ += fmt::format("  {:<14} {}\n", name, value); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string size_text(std::int64_t bytes) {
  if (bytes <= 0) return "none";
  if (bytes < (1 << 20)) return fmt::format("{} KiB", bytes >> 10);
  return bytes < (std::int64_t{1} << 30) ? fmt::format("{} MiB", bytes >> 20)
                                         : fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string rates_text(const Machine& m) {
  return fmt::format("L1 {}, L2 {}, L3 {}, memory {} GB/s ({} all cores)", m.gbs_l1, m.gbs_l2, m.gbs_l3, m.gbs_memory,
                     m.gbs_memory_all);
}

void show_machine(Report& report, const cpu::KnownMachine& known) {
  const Machine& m = known.machine;
  report.heading(fmt::format("planned for: {}", m.name));
  report.row("from", known.origin);
  if (!known.problem.empty()) report.row("note", known.problem);
  report.row("arithmetic", fmt::format("{} GFLOP/s f32, {} f64 a core; products of few rows cost {} rows more",
                                       m.gflops_f32, m.gflops_f64, m.product_ramp));
  report.row("copies", rates_text(m));
  report.row("between cores", fmt::format("{} GB/s, barrier {} ns", m.gbs_cross, m.barrier_ns));
  report.row("kernels", fmt::format("{} ns a call, {} ns an element of exp", m.call_ns, m.exp_ns));
}

void show_computer(Report& report) {
  const Host& m = host();
  report.heading("this computer");
  report.row("cpu", m.cpu);
  report.row("system", m.system);
  report.row("cores", fmt::format("{} usable of {} online", m.cores, m.cores_online));
  report.row("caches", fmt::format("L1d {}, L2 {}, L3 {}{}", size_text(m.l1d), size_text(m.l2), size_text(m.l3),
                                   m.caches_assumed ? " (assumed: the system does not say)" : ""));
  report.row("memory", fmt::format("{} in all, {} free", size_text(m.memory), size_text(memory_available())));
}

void show_choices(Report& report) {
  report.heading("choices");
  std::string targets;
  for (cpu::Target t : cpu::available_targets())
    targets += fmt::format("{}{}{}", targets.empty() ? "" : " ", cpu::name_of(t), t == cpu::active_target() ? "*" : "");
  report.row("SIMD", targets + "   (* in use; WINDROW_SIMD forces one)");
  report.row("threads", fmt::format("{}   (WINDROW_THREADS sets it)", default_threads()));
}

void show_products(Report& report) {
  report.heading("matrix products (kernel chosen first, then those that could serve)");
  struct Size {
    std::int64_t m, k, n;
  };
  for (const Size s :
       {Size{1, 144, 128}, {16, 16, 16}, {32, 144, 128}, {64, 64, 6}, {32, 784, 128}, {1000, 1000, 1000}}) {
    const auto shape = cpu::row_major(DType::f32, s.m, s.n, s.k);
    std::string all;
    for (auto name : cpu::gemm_kernels(shape, cpu::active_target()))
      all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
    report.row(fmt::format("{}x{}x{}", s.m, s.k, s.n),
               fmt::format("{:<12} of {}", cpu::make_gemm(shape, cpu::active_target(), cpu::machine()).kernel, all));
  }
}

std::string facts_text(const device::Facts& f) {
  return fmt::format(
      "{}{} ({}, driver {}): {} units, {} MHz, {} memory ({} at most at once), {} local, groups of {}{}{}", f.name,
      f.cpu ? ", a CPU" : "", f.platform, f.driver, f.units, f.clock_mhz,
      size_text(static_cast<std::int64_t>(f.global_bytes)), size_text(static_cast<std::int64_t>(f.most_bytes)),
      size_text(static_cast<std::int64_t>(f.local_bytes)), f.most_items, f.f64 ? ", f64" : ", no f64",
      f.unified ? ", the host's memory" : "");
}

std::string rates_of_device(const Machine& m) {
  return fmt::format(
      "{:.3g} GFLOP/s f32, {:.3g} f64 a lane of {}; copies {:.3g} GB/s; a launch {:.3g} us, an op {:.3g} ns, an "
      "element of exp {:.3g} ns",
      m.gflops_f32, m.gflops_f64, m.cores, m.gbs_l1, m.barrier_ns / 1e3, m.call_ns, m.exp_ns);
}

/// Which devices there are, and which one a step would run on.
void show_devices(Report& report) {
  report.heading("devices (WINDROW_DEVICE chooses one; docs/devices.md)");
  for (const auto& [api, listed] : {std::pair{"opencl", device::list_opencl()}, {"cuda", device::list_cuda()}}) {
    if (listed.devices.empty()) report.row(api, listed.reason.empty() ? "none" : listed.reason);
    for (const device::Facts& f : listed.devices) {
      report.row(fmt::format("{}:{}", api, f.index), facts_text(f));
      const auto measured = device::remembered_machine(f, cpu::machine());
      report.row("", measured ? "measured: " + rates_of_device(*measured)
                              : "not measured yet: the first step that is compiled for it does");
    }
  }
  const char* wanted = std::getenv("WINDROW_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  if (!wanted || !*wanted || std::string_view(wanted) == "cpu") return report.row("in use", "the CPU");
  const device::Found found = device::find(wanted);
  if (!found.device) return report.row("in use", fmt::format("the CPU: {}", found.reason));
  report.row("in use", found.device->facts().name);
  const cpu::KnownMachine known = device::Backend(found.device).machine(cpu::machine());
  report.row("planned as", rates_of_device(known.machine));
  report.row("from", known.origin);
  if (!known.problem.empty()) report.row("note", known.problem);
}

}  // namespace

std::string doctor() {
  Report report;
  show_computer(report);
  show_machine(report, cpu::known_machine(cpu::active_target()));
  show_choices(report);
  show_products(report);
  show_devices(report);
  return report.text();
}

}  // namespace wr
