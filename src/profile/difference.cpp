// Two profiles of the same step side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "profile/text.h"
#include "windrow/profile.h"

namespace wr {
namespace {

struct Pair {
  double before = 0, after = 0;
};

std::string row(const std::string& name, double before, double after) {
  const double change = after - before;
  const std::string ratio = before <= 0  ? "new"
                            : after <= 0 ? "gone"
                                         : fmt::format("{:+.1f} %", 100 * (after / before - 1));
  return fmt::format("{:<44} {:>10.2f} {:>10.2f} {:>+10.2f} {:>9}\n", shortened(name, 44), before, after, change,
                     ratio);
}

/// The greatest changes first; what hardly changed is left out.
std::string table(const char* title, const std::vector<Profile::Group>& before,
                  const std::vector<Profile::Group>& after, double run_us) {
  std::map<std::string, Pair> pairs;
  for (const auto& g : before) pairs[g.name].before = g.us;
  for (const auto& g : after) pairs[g.name].after = g.us;
  std::vector<std::pair<std::string, Pair>> order(pairs.begin(), pairs.end());
  std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) {
    return std::abs(a.second.after - a.second.before) > std::abs(b.second.after - b.second.before);
  });
  std::string out = fmt::format("\n{:<44} {:>10} {:>10} {:>10}\n", title, "before us", "after us", "change");
  std::size_t shown = 0;
  for (const auto& [name, pair] : order) {
    if (shown == 20 || std::abs(pair.after - pair.before) < 0.002 * run_us) break;
    out += row(name, pair.before, pair.after);
    ++shown;
  }
  if (shown == 0) out += "  nothing changed by more than 0.2 % of a run\n";
  return out;
}

double waiting(const Profile& p) {
  double sum = 0;
  for (const auto& t : p.thread_times) {
    sum += t.start_us + t.finish_us;
    for (double us : t.barrier_us) sum += us;
  }
  return sum;
}

}  // namespace

std::string difference(const Profile& before, const Profile& after) {
  std::string out = fmt::format("{} ({}, {} threads, {}) -> {} ({}, {} threads, {})\n", before.name, before.date,
                                before.threads, before.simd, after.name, after.date, after.threads, after.simd);
  if (before.machine != after.machine)
    out += fmt::format("  different machines: {} and {}\n", before.machine, after.machine);
  out += fmt::format("\n{:<44} {:>10} {:>10} {:>10}\n", "a run", "before us", "after us", "change");
  out += row("mean", before.run_us, after.run_us);
  out += row("fastest", before.min_us, after.min_us);
  out += row("between runs", before.between_us, after.between_us);
  out += row("kernels, all threads", before.busy_us(), after.busy_us());
  out += row("waiting, all threads", waiting(before), waiting(after));
  out += table("kind of kernel", before.kinds(), after.kinds(), before.run_us);
  out += table("line", before.lines(), after.lines(), before.run_us);
  return out;
}

}  // namespace wr
