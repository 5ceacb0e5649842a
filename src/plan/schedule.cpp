// Forms a schedule for each axis class that may be the one to cut along and for each number of lanes, and keeps the one
// that is estimated to be fastest.
#include "plan/schedule.h"

#include <limits>

#include "plan/form.h"

namespace wr::plan {

namespace {

std::vector<int> lane_counts(const Options& options) {
  if (options.lanes > 0) return {options.lanes};
  std::vector<int> counts{1};
  for (int lanes = 2; lanes < options.machine.cores; lanes *= 2) counts.push_back(lanes);
  if (options.machine.cores > 1) counts.push_back(static_cast<int>(options.machine.cores));
  return counts;
}

std::vector<Form> forms(const AxisClasses& classes, const Options& options) {
  constexpr int kClasses = 3;
  std::vector<Form> list;
  for (int lanes : lane_counts(options)) {
    for (int primary : classes.heaviest(kClasses)) list.push_back({primary, lanes});
    for (Fusion fusion : {Fusion::strips, Fusion::layers, Fusion::none}) list.push_back({-1, lanes, fusion});
  }
  return list;
}

}  // namespace

Schedule schedule(const ir::Graph& graph, const Options& options) {
  const AxisClasses classes(graph, options.machine);
  Schedule best;
  best.estimate_ns = std::numeric_limits<double>::max();
  for (const Form& f : forms(classes, options)) {
    Schedule s = form(graph, classes, f, options.machine);
    share_out(s, options);
    if (s.estimate_ns < best.estimate_ns) best = std::move(s);
  }
  // A few values of a block fit L1, and a kernel's work outweighs its call.
  best.block_bytes = static_cast<std::size_t>(options.machine.l1d / 4);
  return best;
}

}  // namespace wr::plan
