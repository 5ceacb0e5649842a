#include "cli/doctor.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "backend/cpu/measure.h"
#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "base/host.h"
#include "base/json.h"
#include "base/thread_team.h"
#include "bench/case.h"
#include "cli/options.h"
#include "windrow/doctor.h"

namespace wr::cli {
namespace {

std::string size_text(std::int64_t bytes) {
  if (bytes <= 0) return "none";
  if (bytes < (1 << 20)) return fmt::format("{} KiB", bytes >> 10);
  return bytes < (std::int64_t{1} << 30) ? fmt::format("{} MiB", bytes >> 20)
                                         : fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

void row(const char* name, const std::string& value) { fmt::print("  {:<14} {}\n", name, value); }

std::string rates_text(const Machine& m) {
  return fmt::format("L1 {}, L2 {}, L3 {}, memory {} GB/s ({} all cores)", m.gbs_l1, m.gbs_l2, m.gbs_l3, m.gbs_memory,
                     m.gbs_memory_all);
}

int list_machines() {
  for (const Machine& m : built_in_machines()) {
    fmt::print("{}\n", m.name);
    row("cpu", m.cpu);
    row("caches", fmt::format("L1d {}, L2 {}, L3 {}", size_text(m.l1d), size_text(m.l2), size_text(m.l3)));
    row("arithmetic",
        fmt::format("{} GFLOP/s f32, {} f64 a core ({}), {} cores", m.gflops_f32, m.gflops_f64, m.simd, m.cores));
    row("copies", rates_text(m));
  }
  fmt::print(
      "WINDROW_MACHINE=NAME plans for one of them; doctor --describe > FILE writes this machine's description\n");
  return 0;
}

Json json_of(const cpu::KnownMachine& known) {
  const Machine& m = known.machine;
  return {{"name", m.name},
          {"from", known.origin},
          {"gflops_f32", m.gflops_f32},
          {"gflops_f64", m.gflops_f64},
          {"gbs_l1", m.gbs_l1},
          {"gbs_l2", m.gbs_l2},
          {"gbs_l3", m.gbs_l3},
          {"gbs_memory", m.gbs_memory},
          {"gbs_memory_all", m.gbs_memory_all},
          {"gbs_cross", m.gbs_cross},
          {"barrier_ns", m.barrier_ns},
          {"call_ns", m.call_ns},
          {"exp_ns", m.exp_ns}};
}

/// This computer, and the device that WINDROW_DEVICE names.
void measure_again() {
  cpu::find_machine(cpu::active_target(), cpu::cache_folder(), true);
  const char* name = std::getenv("WINDROW_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  if (!name || !*name || std::string_view(name) == "cpu") return;
  const device::Found found = device::find(name);
  if (found.device) device::Backend(found.device).machine(cpu::machine(), true);
}

/// What the first owner of a device runs: every op and the usual steps, each checked against the oracle, then timed.
int selftest() {
  const char* name = std::getenv("WINDROW_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  if (!name || !*name) throw UsageError("--selftest", "name a device: --device opencl, --device cuda");
  fmt::print("{}\n", wr::doctor());
  bench::RunOptions options;
  options.seconds = 0.2;
  options.names = {"ops"};
  const int ops = bench::run(options);
  options.names = {"matmul1000_f32",
                   "add1M",
                   "exp1M",
                   "adam1M",
                   "mlp_step_b64",
                   "dqn_step_b64",
                   "cnn_step_b64",
                   "logic_ca_checkerboard_update",
                   "cell_step_b16",
                   "lstm_step_b32",
                   "transformer_step_b16"};
  const int steps = bench::run(options);
  fmt::print("wanted of a GPU: a product of 1000 x 1000 in 1 ms, an op on a million elements in 0.1 ms\n{}\n",
             ops == 0 && steps == 0 ? "everything agrees with the oracle" : "NOT everything agrees with the oracle");
  return ops != 0 ? ops : steps;
}

}  // namespace

int doctor(const DoctorOptions& options) {
  if (options.selftest) return selftest();
  if (options.machines) return list_machines();
  if (options.measure) measure_again();
  const cpu::KnownMachine& known = cpu::known_machine(cpu::active_target());
  if (options.describe) {
    fmt::print("{}", to_text(known.machine));
    return 0;
  }
  const Host& m = host();
  if (options.json) {
    Json targets = Json::list();
    for (cpu::Target t : cpu::available_targets()) targets.push_back(std::string(cpu::name_of(t)));
    Json line{{"cpu", m.cpu},
              {"system", m.system},
              {"cores", m.cores},
              {"cores_online", m.cores_online},
              {"l1d", m.l1d},
              {"l2", m.l2},
              {"l3", m.l3},
              {"memory", m.memory},
              {"memory_available", memory_available()},
              {"simd", targets},
              {"simd_in_use", std::string(cpu::name_of(cpu::active_target()))},
              {"threads", default_threads()}};
    line["machine"] = json_of(known);
    fmt::print("{}\n", line.dump());
    return 0;
  }
  fmt::print("{}", wr::doctor());
  return 0;
}

}  // namespace wr::cli
