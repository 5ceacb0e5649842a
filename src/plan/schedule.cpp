// Forms a schedule for each axis class that may be the one to cut along and for each number of lanes, and keeps the one
// that is estimated to be fastest.
#include "plan/schedule.h"

#include <limits>

#include "plan/form.h"

namespace wr::plan {

Schedule schedule(const ir::Graph& graph, const Options& options) {
  const AxisClasses classes(graph);
  std::vector<int> primaries = classes.heaviest(3);
  primaries.push_back(-1);
  std::vector<int> lane_counts;
  if (options.lanes > 0)
    lane_counts = {options.lanes};
  else if (options.machine.cores > 1)
    lane_counts = {1, static_cast<int>(options.machine.cores)};
  else
    lane_counts = {1};
  Schedule best;
  best.estimate_ns = std::numeric_limits<double>::max();
  for (int lanes : lane_counts)
    for (int primary : primaries) {
      Schedule s = form(graph, classes, primary, lanes);
      share_out(s, options);
      if (s.estimate_ns < best.estimate_ns) best = std::move(s);
    }
  // A few values of a block fit L1, and a kernel's work outweighs its call.
  best.block_bytes = static_cast<std::size_t>(options.machine.l1d / 4);
  return best;
}

}  // namespace wr::plan
