// A profile for the terminal.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "profile/text.h"
#include "windrow/profile.h"

namespace wr {
namespace {

using Group = Profile::Group;
using Kernel = Profile::Kernel;

void add_to(Group& g, const Kernel& k) {
  g.min_us = g.calls == 0 ? k.min_us : std::min(g.min_us, k.min_us);
  g.max_us = std::max(g.max_us, k.max_us);
  g.calls += k.calls;
  g.us += k.us;
  (k.gradient ? g.gradient_us : g.forward_us) += k.us;
  g.flops += k.flops;
  g.bytes += k.bytes;
  g.roof_us += k.roof_us;
}

std::vector<Group> longest_first(std::map<std::string, Group>& groups) {
  std::vector<Group> list;
  for (auto& [name, g] : groups) {
    g.name = name;
    g.mean_us = g.calls > 0 ? g.us / g.calls : 0;
    list.push_back(std::move(g));
  }
  std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.us > b.us; });
  return list;
}

std::string kind_of(const Kernel& k) { return k.kernel == k.op ? k.op : fmt::format("{} [{}]", k.op, k.kernel); }

double per(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string rate_columns(double us, double flops, double bytes, double roof_us) {
  return fmt::format("{:>7.1f} {:>7.1f} {:>5.0f} %", us > 0 ? flops / us / 1e3 : 0, us > 0 ? bytes / us / 1e3 : 0,
                     per(roof_us, us));
}

std::string group_table(const char* title, const std::vector<Group>& groups, double busy, std::size_t top) {
  std::string out = fmt::format("\n{:<34} {:>6} {:>9} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7}\n", title, "calls",
                                "us", "mean", "min", "max", "share", "GFLOP/s", "GB/s", "roof");
  for (std::size_t i = 0; i < std::min(top, groups.size()); ++i) {
    const Group& g = groups[i];
    out += fmt::format("{:<34} {:>6.4g} {:>9.2f} {:>8.3f} {:>8.3f} {:>8.2f} {:>5.1f} % {}\n", shortened(g.name, 34),
                       g.calls, g.us, g.mean_us, g.min_us, g.max_us, per(g.us, busy),
                       rate_columns(g.us, g.flops, g.bytes, g.roof_us));
    if (!g.text.empty())
      out += fmt::format("    {}{}\n", shortened(g.text, 84),
                         g.gradient_us > 0 ? fmt::format("   (gradient {:.0f} %)", per(g.gradient_us, g.us)) : "");
  }
  if (groups.size() > top) out += fmt::format("  and {} more\n", groups.size() - top);
  return out;
}

std::string header(const Profile& p) {
  std::string out =
      fmt::format("{}: {:.2f} us a run (min {:.2f}, max {:.1f}) over {} runs; {} thread{}, {} lane{}, {}, {}\n", p.name,
                  p.run_us, p.min_us, p.max_us, p.runs, p.threads, p.threads == 1 ? "" : "s", p.lanes,
                  p.lanes == 1 ? "" : "s", p.simd, p.machine);
  out += fmt::format("  {:.2f} us between runs, {:.2g} array allocations each time; {:.1f} GFLOP/s; ", p.between_us,
                     p.memory.allocations_per_run, p.run_us > 0 ? p.flops / p.run_us / 1e3 : 0);
  out += p.every > 1 ? fmt::format("one run in {} recorded in full ({})", p.every, p.recorded)
                     : fmt::format("{} runs recorded in full", p.recorded);
  out +=
      p.rows.empty() ? fmt::format(", which takes about {:.1f} %\n", 100 * p.overhead) : "; they wait for their end\n";
  if (!p.rows.empty()) return out;
  out += fmt::format("  this machine, one core: {:.0f} GFLOP/s f32, {:.0f} f64", p.roof.gflops_f32, p.roof.gflops_f64);
  for (const auto& level : p.roof.levels) out += fmt::format(", {} {:.0f} GB/s", level.name, level.gbs);
  return out + "\n";
}

std::string kernel_table(const Profile& p, std::size_t top) {
  std::vector<const Kernel*> order;
  for (const Kernel& k : p.kernels) order.push_back(&k);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->us > b->us; });
  const double busy = p.busy_us();
  std::string out = fmt::format("\n{:<54} {:>6} {:>9} {:>8} {:>7} {:>7} {:>7} {:>7} {:<9} {}\n", "kernel", "calls",
                                "us", "mean", "share", "GFLOP/s", "GB/s", "roof", "bound", "rows");
  for (std::size_t i = 0; i < std::min(top, order.size()); ++i) {
    const Kernel& k = *order[i];
    const std::string what =
        fmt::format("{}{} {} {}", k.gradient ? "d " : "", line_text(k.file, k.line), kind_of(k), k.detail);
    out += fmt::format("{:<54} {:>6.4g} {:>9.2f} {:>8.3f} {:>5.1f} % {} {:<9} {}\n", shortened(what, 54), k.calls, k.us,
                       k.mean_us, per(k.us, busy), rate_columns(k.us, k.flops, k.bytes, k.roof_us), k.bound, k.rows);
  }
  if (order.size() > top) out += fmt::format("  and {} more\n", order.size() - top);
  return out;
}

std::string thread_table(const Profile& p) {
  std::string out = "\nthread      busy  start";
  for (int phase = 1; phase < p.phases; ++phase) out += fmt::format("  barrier{}", phase);
  out += "  finish   idle\n";
  for (std::size_t i = 0; i < p.thread_times.size(); ++i) {
    const auto& t = p.thread_times[i];
    out += fmt::format("{:>6} {:>9.2f} {:>6.2f}", i, t.busy_us, t.start_us);
    for (std::size_t phase = 1; phase < t.barrier_us.size(); ++phase)
      out += fmt::format(" {:>9.2f}", t.barrier_us[phase]);
    out += fmt::format(" {:>7.2f} {:>4.0f} %\n", t.finish_us,
                       p.run_us > 0 ? std::max(0.0, 100 - per(t.busy_us, p.run_us)) : 0);
  }
  return out;
}

std::string region_table(const Profile& p) {
  std::string out = "\nregion      rows  strip  strips  lanes         us  share   scratch a lane\n";
  for (const auto& r : p.regions)
    out += fmt::format("{:>2}.{:<3} {:>9} {:>6} {:>7} {:>6} {:>10.2f} {:>4.0f} %   {}{}\n", r.phase, r.index, r.extent,
                       r.strip, r.strips, r.lanes, r.us, per(r.us, p.busy_us()),
                       bytes_text(static_cast<double>(r.scratch_bytes)), r.flat ? " (rows are elements)" : "");
  const auto& m = p.memory;
  out += fmt::format("memory: states {}, arguments {}, results {}, arena {}, lane sums {} and scratch {} a lane",
                     bytes_text(double(m.state_bytes)), bytes_text(double(m.argument_bytes)),
                     bytes_text(double(m.result_bytes)), bytes_text(double(m.arena_bytes)),
                     bytes_text(double(m.partial_bytes)), bytes_text(double(m.scratch_bytes)));
  if (!m.samples.empty())
    out += fmt::format("; the process {} at the end", bytes_text(double(m.samples.back().resident_bytes)));
  return out + "\n";
}

}  // namespace

double Profile::busy_us() const {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.us;
  return sum;
}

std::vector<Group> Profile::lines() const {
  std::map<std::string, Group> groups;
  for (const Kernel& k : kernels) {
    Group& g = groups[line_text(k.file, k.line)];
    if (g.calls == 0 && g.text.empty()) g.text = source_line(k.file, k.line);
    add_to(g, k);
  }
  return longest_first(groups);
}

std::vector<Group> Profile::kinds() const {
  std::map<std::string, Group> groups;
  for (const Kernel& k : kernels) add_to(groups[kind_of(k)], k);
  return longest_first(groups);
}

std::string Profile::to_table(int top) const {
  if (recorded == 0) return name + ": has not run since profiling began\n";
  const auto rows = static_cast<std::size_t>(std::max(top, 1));
  return header(*this) + group_table("kind of kernel", kinds(), busy_us(), rows) +
         group_table("line", lines(), busy_us(), rows) + kernel_table(*this, rows) +
         (thread_times.empty() ? "" : thread_table(*this)) + region_table(*this);
}

std::string Profile::bottleneck_report() const {
  std::string out = fmt::format("\nwhat bounds {}\n", name);
  if (bottlenecks.empty()) out += "  nothing stands out\n";
  for (const Bottleneck& b : bottlenecks)
    out +=
        fmt::format("  {:<12} {}\n               {}\n               {} Estimated gain: {}.\n", b.kind, b.where, b.text,
                    b.advice, b.gain < 0.005 ? "none" : fmt::format("{:.0f} % of a run's time", 100 * b.gain));
  if (cuts.empty() || lanes == 1) return out;
  out += "what ended strips (a barrier stands before what reads it)\n";
  std::size_t shown = 0;
  for (const Cut& c : cuts) {
    if (shown++ == 8) break;
    out +=
        fmt::format("  phase {}: {} ({}) needs {} of {} whole, {}: {}{}.\n", c.phase, c.reader, c.reader_op, c.maker_op,
                    c.maker, bytes_text(c.bytes), c.why, c.needed ? "" : "; rows of the same batch wait for it");
  }
  if (cuts.size() > 8) out += fmt::format("  and {} more\n", cuts.size() - 8);
  return out;
}

}  // namespace wr
