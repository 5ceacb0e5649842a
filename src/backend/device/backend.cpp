#include "backend/device/backend.h"

#include <algorithm>

#include "backend/device/executor.h"
#include "backend/device/measure.h"
#include "lower/lower.h"

namespace wr::device {

Form Backend::form(bool local) const {
  // On a CPU a work-group is a loop over its items: it has one, and its loops become vectors.
  constexpr int kItems = 256;
  constexpr std::size_t kLocal = 48 << 10;
  const Facts& f = facts();
  Form form{device_->dialect(), items_, 0};
  if (f.vector_bytes > 0) form.vector_bytes = f.vector_bytes;
  if (items_ == 0) form.items = f.cpu ? 1 : std::min(kItems, f.most_items);
  if (local && !form.vectors() && f.own_local) form.local_bytes = std::min(kLocal, f.local_bytes);
  return form;
}

std::unique_ptr<backend::Executor> Backend::prepare(const plan::Schedule& schedule) const {
  auto kernels = std::make_unique<Kernels>(form(true));
  lower::Program program = lower::lower(schedule, *kernels);
  if (kernels->form().local_bytes > 0 && program.scratch_bytes > kernels->form().local_bytes) {
    kernels = std::make_unique<Kernels>(form(false));
    program = lower::lower(schedule, *kernels);
  }
  if (kernels->wide() && !facts().f64) throw NotKnown("the step has f64, the device has none");
  Source source = write_source(program, *kernels, *schedule.graph, schedule.states);
  for (const Launch& launch : source.launches)
    if (launch.slots.size() * sizeof(void*) > facts().argument_bytes)
      throw NotKnown(cat("a phase uses ", launch.slots.size(), " pieces of memory, a kernel of the device takes ",
                         facts().argument_bytes / sizeof(void*)));
  return std::make_unique<Executor>(std::move(program), std::move(source), device_, schedule);
}

cpu::KnownMachine Backend::machine(const Machine& host, bool again) const {
  return find_machine(*device_, form(true), host, again);
}

Source source_of(const plan::Schedule& schedule, const Form& form) {
  Kernels kernels(form);
  lower::Program program = lower::lower(schedule, kernels);
  if (form.local_bytes > 0 && program.scratch_bytes > form.local_bytes) {
    Form global = form;
    global.local_bytes = 0;
    return source_of(schedule, global);
  }
  return write_source(program, kernels, *schedule.graph, schedule.states);
}

Machine machine_of(const Facts& facts, const Machine& host) {
  // A launch costs this much; it is what a barrier between phases is.
  constexpr double kLaunchNs = 8000;
  Machine m = host;
  m.name = facts.api + ": " + facts.name;
  m.barrier_ns = kLaunchNs;
  if (facts.cpu) {
    m.cores = std::max(1, facts.units);
    return m;
  }
  // Of a group, one of those that share a unit: an operation a lane (and two where it is fma), and a share of a memory
  // that all units have together. Where nobody says what a unit has: as little as most GPUs.
  constexpr int kLanes = 64, kF64Times = 16;
  const int lanes = facts.lanes > 0 ? facts.lanes : kLanes,
            f64_times = facts.f64_times > 0 ? facts.f64_times : kF64Times;
  const double clock = std::max(facts.clock_mhz, 500) / 1e3;
  constexpr int kMostLanes = 256;
  m.cores = std::clamp(Form::kGroupsOfAUnit * facts.units, 1, kMostLanes);
  m.l1d = static_cast<std::int64_t>(std::max<std::size_t>(facts.local_bytes, 16 << 10));
  m.l2 = m.l1d;
  m.l3 = 4 << 20;
  m.line = 128;
  m.gflops_f32 = 2.0 * lanes / Form::kGroupsOfAUnit * clock;
  m.gflops_f64 = m.gflops_f32 / f64_times;
  m.product_ramp = 16;
  m.gbs_l1 = 64 * clock;
  m.gbs_l2 = m.gbs_l1;
  m.gbs_l3 = 16 * clock;
  m.gbs_l3_all = m.gbs_l3 * static_cast<double>(m.cores);
  m.gbs_memory = 4 * clock;
  m.gbs_memory_all = m.gbs_memory * static_cast<double>(m.cores);
  m.gbs_cross = m.gbs_memory;
  m.call_ns = 200;
  m.exp_ns = 0.1;
  return without_contradictions(m);
}

}  // namespace wr::device
