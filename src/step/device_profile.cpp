// The profile of a step on a device: a kernel a launch, which is a phase of the plan, and transfers. What happens
// inside a launch the device does not say.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "profile/text.h"
#include "step/profile.h"

namespace wr {
namespace {

using backend::DeviceRecord;

constexpr double kToUs = 1e-3;
constexpr int kHost = 0, kDevice = 1;  // rows of the timeline

void fill(Profile::Kernel& kernel, const DeviceRecord::Sum& sum, std::uint64_t runs) {
  if (sum.calls == 0) return;
  kernel.calls = static_cast<double>(sum.calls) / static_cast<double>(runs);
  kernel.us = kToUs * sum.ns / static_cast<double>(runs);
  kernel.mean_us = kToUs * sum.ns / static_cast<double>(sum.calls);
  kernel.min_us = kToUs * sum.min;
  kernel.max_us = kToUs * sum.max;
}

/// What a phase computes: its ops, the most frequent first, and the line that has most of its arithmetic.
Profile::Kernel kernel_of(const plan::Schedule& schedule, const DeviceRecord::Launch& launch, std::uint64_t runs) {
  Profile::Kernel kernel;
  kernel.kernel = launch.kernel;
  kernel.phase = std::max(launch.phase, 0);
  kernel.region = launch.phase < 0 ? -2 : 0;
  kernel.bound = "device";
  fill(kernel, launch.sum, runs);
  kernel.op = launch.phase < 0 ? "copies" : fmt::format("phase {}", launch.phase);
  if (launch.phase < 0) return kernel;
  std::map<std::string_view, int> ops;
  double most = -1;
  const ir::Graph& graph = *schedule.graph;
  for (const plan::Region& region : schedule.phases[launch.phase].regions)
    for (const plan::Member& member : region.members) {
      const ir::Node& node = graph[member.node];
      if (ir::is_view(node.op) || node.op == ir::Op::result) continue;
      ++ops[ir::definition(node.op).name];
      const double flops = plan::flops(graph, member.node);
      kernel.flops += flops;
      kernel.rows = std::max(kernel.rows, region.strip);
      if (flops <= most) continue;
      most = flops;
      kernel.file = node.where.file_name();
      kernel.line = static_cast<int>(node.where.line());
    }
  std::vector<std::pair<int, std::string_view>> order;
  for (const auto& [name, count] : ops) order.emplace_back(-count, name);
  std::sort(order.begin(), order.end());
  for (const auto& [count, name] : order)
    kernel.detail +=
        fmt::format("{}{}{}", kernel.detail.empty() ? "" : ", ", name, count < -1 ? fmt::format(" x{}", -count) : "");
  return kernel;
}

Profile::Kernel transfer(const char* name, const std::string& detail, const DeviceRecord::Sum& sum, std::uint64_t bytes,
                         std::uint64_t runs) {
  Profile::Kernel kernel;
  kernel.op = kernel.kernel = name;
  kernel.detail = detail;
  kernel.region = -2;
  kernel.bound = "transfer";
  fill(kernel, sum, runs);
  kernel.bytes = static_cast<double>(bytes) / static_cast<double>(runs);
  return kernel;
}

}  // namespace

Profile make_device_profile(Step::Inside& step) {
  const DeviceRecord& record = *step.executor->device_record();
  Profile p = profile_of_plan(step);
  p.rows = {"host", "device"};
  p.threads = 1;
  p.runs = static_cast<std::int64_t>(record.runs);
  p.recorded = static_cast<std::int64_t>(record.recorded);
  p.every = record.every;
  p.cuts = find_cuts(step.schedule);
  if (record.recorded == 0) return p;
  p.run_us = kToUs * record.whole.ns / static_cast<double>(record.whole.calls);
  p.min_us = kToUs * record.whole.min;
  p.max_us = kToUs * record.whole.max;
  if (record.between.calls > 0) p.between_us = kToUs * record.between.ns / static_cast<double>(record.between.calls);
  for (const DeviceRecord::Launch& launch : record.launches)
    p.kernels.push_back(kernel_of(step.schedule, launch, record.recorded));
  const int send = static_cast<int>(p.kernels.size());
  p.kernels.push_back(
      transfer("send", "arguments and changed states", record.send, record.sent_bytes, record.recorded));
  p.kernels.push_back(transfer("fetch", "results that were read", record.fetch, record.fetched_bytes, record.recorded));
  double busy = 0;
  for (const DeviceRecord::Launch& launch : record.launches) busy += launch.sum.ns;
  // What the host waits for beside kernels: the driver.
  DeviceRecord::Sum driver = record.launching;
  driver.ns = std::max(0.0, driver.ns - busy);
  p.kernels.push_back(transfer("launch", fmt::format("{} launches, the driver's part", record.launches.size()), driver,
                               0, record.recorded));

  const std::size_t filled = std::min(record.next, record.timeline.size());
  const auto event = [&](std::size_t i) {
    return record.timeline[(record.next - filled + i) % record.timeline.size()];
  };
  for (std::size_t i = 0; i < filled; ++i) {
    const DeviceRecord::Event e = event(i);
    const int kernel = e.what >= 0                      ? e.what
                       : e.what == DeviceRecord::kSend  ? send
                       : e.what == DeviceRecord::kFetch ? send + 1
                                                        : send + 2;
    p.timeline.push_back({e.what >= 0 ? kDevice : kHost, 0, kernel, kToUs * (e.begin_ns - event(0).begin_ns),
                          kToUs * (e.end_ns - event(0).begin_ns)});
  }
  return p;
}

}  // namespace wr
