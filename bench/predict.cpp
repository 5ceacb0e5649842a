// What the planner's cost model says of GPUs that are not here, from their data sheets. Predictions, not measurements:
// arithmetic and memory at the rates on the sheet, which kernels reach a part of.
#include <fmt/format.h>

#include "backend/cpu/measure.h"
#include "backend/device/backend.h"
#include "base/machine.h"
#include "bench/case.h"
#include "plan/schedule.h"
#include "step/inside.h"

namespace wr::bench {
namespace {

/// From the maker's data sheet.
struct Sheet {
  const char* name;
  int units, clock_mhz;  // multiprocessors of 128 f32 lanes each, at boost clock
  std::int64_t l2_bytes;
  double gbs;  // of memory
};
constexpr Sheet kSheets[] = {
    {"GeForce RTX 4090", 128, 2520, std::int64_t{72} << 20, 1008},
    {"GeForce RTX 3060", 28, 1777, std::int64_t{3} << 20, 360},
};

Machine machine_of(const Sheet& sheet) {
  device::Facts facts;
  facts.api = "cuda";
  facts.name = sheet.name;
  facts.units = sheet.units;
  facts.clock_mhz = sheet.clock_mhz;
  facts.lanes = 128;
  facts.f64_times = 64;
  facts.most_items = 1024;
  facts.local_bytes = 48 << 10;
  Machine m = device::machine_of(facts, cpu::machine());
  m.l3 = sheet.l2_bytes;
  m.gbs_memory_all = sheet.gbs;
  m.gbs_memory = m.gbs_cross = m.gbs_l3;  // one group alone; all together have what the sheet says
  return without_contradictions(m);
}

}  // namespace

int predict(const std::vector<std::string>& names) {
  std::vector<std::string> chosen = names;
  if (chosen.empty())
    chosen = {"matmul1000_f32", "add1M", "exp1M", "adam1M", "mlp_step_b64", "dqn_step_b64", "cnn_step_b64"};
  fmt::print(
      "predicted by the cost model from data sheets, in us a run without transfers; nothing was measured\n{:<24}",
      "case");
  for (const Sheet& sheet : kSheets) fmt::print(" {:>28}", sheet.name);
  fmt::print("\n");
  for (const std::string& name : chosen) {
    const Prepared prepared = case_named(name).prepare(1);
    fmt::print("{:<24}", name);
    for (const Sheet& sheet : kSheets) {
      const plan::Schedule plan = plan::schedule(*prepared.step.inside().graph, {machine_of(sheet), 0});
      fmt::print(" {:>10.1f} ({} phases, {:>3} lanes)", plan.estimate_ns / 1e3, plan.phases.size(), plan.lanes);
    }
    fmt::print("\n");
  }
  return 0;
}

}  // namespace wr::bench
