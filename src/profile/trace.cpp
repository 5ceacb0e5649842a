// The timeline in the format of chrome://tracing, which Perfetto reads too.
#include <fmt/format.h>

#include "base/json.h"
#include "profile/text.h"
#include "windrow/profile.h"

namespace wr {
namespace {

std::string wait_name(int kernel) { return kernel == -1 ? "barrier" : kernel == -2 ? "start" : "wait for the others"; }

Json event_of(const Profile& p, const Profile::Event& e, int process) {
  Json j{{"ph", "X"}, {"pid", process}, {"tid", e.thread}, {"ts", e.begin_us}, {"dur", e.end_us - e.begin_us}};
  if (e.kernel < 0) {
    j["name"] = wait_name(e.kernel);
    j["cat"] = "wait";
    return j;
  }
  const auto& k = p.kernels[e.kernel];
  j["name"] = k.op;
  j["cat"] = k.gradient ? "gradient" : "forward";
  j["args"] = Json{{"line", line_text(k.file, k.line)},
                   {"kernel", k.kernel},
                   {"shape", k.detail},
                   {"lane", e.lane},
                   {"phase", k.phase},
                   {"region", k.region},
                   {"strip rows", k.rows},
                   {"bound", k.bound}};
  return j;
}

}  // namespace

std::string to_trace(std::span<const Profile> profiles) {
  Json events = Json::list();
  int process = 0;
  for (const Profile& p : profiles) {
    ++process;
    events.push_back({{"ph", "M"}, {"pid", process}, {"name", "process_name"}, {"args", {{"name", p.name}}}});
    const int rows = p.rows.empty() ? p.threads : static_cast<int>(p.rows.size());
    for (int t = 0; t < rows; ++t)
      events.push_back({{"ph", "M"},
                        {"pid", process},
                        {"tid", t},
                        {"name", "thread_name"},
                        {"args", {{"name", p.rows.empty() ? fmt::format("thread {}", t) : p.rows[t]}}}});
    for (const auto& e : p.timeline) events.push_back(event_of(p, e, process));
    for (const auto& point : p.memory.live)
      events.push_back({{"ph", "C"},
                        {"pid", process},
                        {"name", "live bytes"},
                        {"ts", point.us},
                        {"args", {{"bytes", point.bytes}}}});
  }
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace wr
