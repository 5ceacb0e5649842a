// The same case on several backends, side by side.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "backend/cpu/target.h"
#include "backend/device/devices.h"
#include "base/thread_team.h"
#include "bench/case.h"
#include "ops/interpret.h"
#include "step/inside.h"
#include "windrow/bench.h"
#include "windrow/chart.h"
#include "windrow/files.h"

namespace wr::bench {
namespace {

struct Backend {
  std::string name;
  std::string simd;  // empty: the active target
  int threads = 1;
  bool scalar = false;   // the oracle: one element after the other, in double
  bool profile = false;  // with profiling on
  std::string device = "cpu";
  bool found = false;  // by us, not named: left out where it cannot run a case
};

bool is_device(const std::string& name) { return name.starts_with("opencl") || name.starts_with("cuda"); }

std::vector<Backend> all_backends(int threads) {
  std::vector<Backend> list{{"scalar", "", 1, true}};
  for (const cpu::Target t : cpu::available_targets())
    list.push_back({fmt::format("{}:1", cpu::name_of(t)), std::string(cpu::name_of(t)), 1});
  const std::string best(cpu::name_of(cpu::available_targets().back()));
  for (int n = 2; n < threads; n *= 2) list.push_back({fmt::format("{}:{}", best, n), best, n});
  if (threads > 1) list.push_back({fmt::format("{}:{}", best, threads), best, threads});
  for (const auto& listed : {device::list_opencl(), device::list_cuda()})
    for (const device::Facts& facts : listed.devices) {
      const std::string name = fmt::format("{}:{}", facts.api, facts.index);
      list.push_back({name, "", threads, false, false, name, true});
    }
  return list;
}

/// "avx2", "avx2:1", "scalar", "profile", "opencl:0"; "all" for one of each and 1..N threads.
std::vector<Backend> parse(const std::vector<std::string>& names, int threads) {
  std::vector<Backend> list;
  for (const std::string& name : names) {
    if (name == "all") {
      for (Backend& b : all_backends(threads)) list.push_back(std::move(b));
    } else if (name == "scalar") {
      list.push_back({name, "", 1, true});
    } else if (is_device(name)) {
      list.push_back({name, "", threads, false, false, name});
    } else if (name == "profile") {
      list.push_back({name, "", threads, false, true});
    } else {
      const auto colon = name.find(':');
      Backend b{name, name.substr(0, colon), threads};
      if (colon != std::string::npos) {
        const char* end = name.data() + name.size();
        const auto [stop, problem] = std::from_chars(name.data() + colon + 1, end, b.threads);
        if (problem != std::errc() || stop != end || b.threads < 1 || b.threads > kMaxThreads)
          throw Error("bench: backend '" + name + "': expected TARGET:THREADS, such as avx2:1");
      }
      cpu::target_named(b.simd);  // throws for one that is not there
      list.push_back(std::move(b));
    }
  }
  return list;
}

/// Makes another SIMD target the active one while it lives.
class ForcedTarget {
 public:
  explicit ForcedTarget(const std::string& name) : before_(cpu::active_target()) {
    if (!name.empty()) cpu::set_target(name);
  }
  ~ForcedTarget() { cpu::set_target(before_); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

 private:
  cpu::Target before_;
};

/// The same for the device that steps are compiled for.
class ForcedDevice {
 public:
  explicit ForcedDevice(const std::string& name) {
    if (const char* text = std::getenv("WINDROW_DEVICE")) before_ = text;  // NOLINT(concurrency-mt-unsafe)
    ::setenv("WINDROW_DEVICE", name.c_str(), 1);                           // NOLINT(concurrency-mt-unsafe)
  }
  ~ForcedDevice() { ::setenv("WINDROW_DEVICE", before_.c_str(), 1); }  // NOLINT(concurrency-mt-unsafe)
  ForcedDevice(const ForcedDevice&) = delete;
  ForcedDevice& operator=(const ForcedDevice&) = delete;

 private:
  std::string before_;
};

/// The case, compiled for the backend; nothing, and the reason, where a device that nobody named cannot run it.
std::optional<Prepared> prepared(const Case& c, const Backend& backend, std::string& reasons) try {
  return c.prepare(backend.threads);
} catch (const Error& error) {
  if (!backend.found) throw;
  reasons += fmt::format("{} on {}: {}\n", c.name, backend.name, error.what());
  return std::nullopt;
}

std::optional<Variant> variant_of(const Case& c, const Backend& backend, std::map<std::string, Prepared>& kept,
                                  std::string& reasons) {
  const ForcedTarget forced(backend.simd);
  const ForcedDevice device(backend.device);
  std::optional<Prepared> made = prepared(c, backend, reasons);
  if (!made) return std::nullopt;
  Prepared& p = kept.emplace(backend.name, std::move(*made)).first->second;
  if (backend.scalar)
    return Variant{backend.name, [&p] { ir::interpret(*p.step.inside().graph, p.arguments, ir::Rounding::none); }};
  if (const std::string wrong = p.check(p.step, p.arguments); !wrong.empty())
    throw Error(fmt::format("{} on {}: {}", c.name, backend.name, wrong));
  if (backend.profile) p.step.profile(true);
  return Variant{backend.name, [&p] { p.step.again(); }};
}

std::string bars_of(std::span<const Comparison> comparisons) {
  chart::Bars bars;
  bars.title = "windrow bench, by backend";
  bars.y_label = "microseconds (median), logarithmic";
  bars.log_y = true;
  for (const Comparison& c : comparisons) {
    bars.groups.push_back(c.name);
    std::vector<double> values;
    for (const Measured& m : c.variants) values.push_back(m.median_us);
    bars.values.push_back(std::move(values));
  }
  if (!comparisons.empty())
    for (const Measured& m : comparisons[0].variants) bars.kinds.push_back(m.name);
  bars.width = std::max(420.0, 190 + 14.0 * static_cast<double>(comparisons.size() * bars.kinds.size()));
  return chart::bars(bars);
}

}  // namespace

int compare_backends(const RunOptions& options, const std::vector<Case>& cases) {
  const std::vector<Backend> backends = parse(options.backends, options.threads);
  std::vector<Comparison> done;
  std::string reasons;  // why devices were left out
  for (const Case& c : cases) {
    if (isatty(2)) fmt::print(stderr, "\r\033[K[{}/{}] {} ...", done.size() + 1, cases.size(), c.name);
    std::map<std::string, Prepared> kept;
    std::vector<Variant> variants;
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < backends.size(); ++i) {
      if (auto variant = variant_of(c, backends[i], kept, reasons))
        variants.push_back(std::move(*variant));
      else
        missing.push_back(i);
    }
    done.push_back(compare(c.name, variants, {.seconds = options.seconds * static_cast<double>(variants.size())}));
    for (const std::size_t i : missing) {
      Measured none;
      none.name = backends[i].name;
      auto& list = done.back().variants;
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), std::move(none));
    }
    if (options.json) {
      fmt::print("{}\n", done.back().to_json());
      std::fflush(stdout);
    }
  }
  if (isatty(2)) fmt::print(stderr, "\r\033[K");
  if (!options.json) fmt::print("{}", to_table(done));
  fmt::print(stderr, "{}", reasons);
  if (!options.svg.empty()) write_file(options.svg, bars_of(done));
  return 0;
}

}  // namespace wr::bench
