// Forms a schedule for each axis class that may be the one to cut along and for each number of lanes, and keeps the one
// that is estimated to be fastest.
#include "plan/schedule.h"

#include <algorithm>
#include <string>
#include <utility>

#include "plan/form.h"

namespace wr::plan {

namespace {

/// The most first: against what they reach, fewer lanes are often hopeless.
std::vector<int> lane_counts(const Options& options) {
  if (options.lanes > 0) return {options.lanes};
  std::vector<int> counts{1};
  for (int lanes = 2; lanes < options.machine.cores; lanes *= 2) counts.push_back(lanes);
  if (options.machine.cores > 1) counts.push_back(static_cast<int>(options.machine.cores));
  std::reverse(counts.begin(), counts.end());
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

std::string name_of(const Form& f) {
  const std::string cut = f.fusion == Fusion::none     ? "one op after the other"
                          : f.fusion == Fusion::layers ? "layer by layer"
                          : f.primary < 0              ? "strips along outermost axes"
                                                       : "strips along class " + std::to_string(f.primary);
  return cut + ", " + std::to_string(f.lanes) + (f.lanes == 1 ? " lane" : " lanes");
}

}  // namespace

std::vector<Schedule> schedules(const ir::Graph& graph, const Options& options, std::size_t most) {
  const AxisClasses classes(graph, options.machine);
  const double one_lane_ns = arithmetic_ns(graph, options.machine);
  std::vector<Schedule> best;
  for (const Form& f : forms(classes, options)) {
    if (best.size() == most && one_lane_ns / f.lanes >= best.back().estimate_ns) continue;
    Schedule s = form(graph, classes, f, options.machine);
    share_out(s, options);
    if (best.size() == most && s.estimate_ns > best.back().estimate_ns) continue;
    s.form = name_of(f);
    s.machine = options.machine.name;
    // A few values of a block fit L1, and a kernel's work outweighs its call.
    s.block_bytes = static_cast<std::size_t>(options.machine.l1d / 4);
    const auto before = [](const Schedule& a, const Schedule& b) {
      return std::pair(a.estimate_ns, a.lanes) < std::pair(b.estimate_ns, b.lanes);
    };
    const auto at = std::upper_bound(best.begin(), best.end(), s, before);
    best.insert(at, std::move(s));
    if (best.size() > most) best.pop_back();
  }
  return best;
}

Schedule schedule(const ir::Graph& graph, const Options& options) {
  return std::move(schedules(graph, options, 1).front());
}

}  // namespace wr::plan
