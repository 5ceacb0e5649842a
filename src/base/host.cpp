// Detection by sysconf, /sys and /proc, each with a fall-back: containers and virtual machines often hide some of them.
#include "base/host.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace wr {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number a text begins with, after blanks; 0 if none ("max").
std::int64_t leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The text after "key   :" in a file of such lines (/proc/cpuinfo, /proc/meminfo).
std::string field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int affinity_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// Cores' worth of time a container may use, rounded up; 0: no limit. Threads beyond it would spin away each other's
// quota.
int quota_cores() {
  std::int64_t quota = 0, period = 0;
  if (const std::string max = first_line("/sys/fs/cgroup/cpu.max"); !max.empty()) {
    quota = leading_number(max);
    period = leading_number(std::string_view(max).substr(std::min(max.find(' '), max.size())));
  } else {
    quota = leading_number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
    period = leading_number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  }
  return quota > 0 && period > 0 ? static_cast<int>((quota + period - 1) / period) : 0;
}

// "48K", "2M" as /sys writes sizes.
std::int64_t parse_size(const std::string& text) {
  const std::int64_t number = leading_number(text);
  if (text.find('K') != std::string::npos) return number << 10;
  if (text.find('M') != std::string::npos) return number << 20;
  return number;
}

std::int64_t cache_from_sys(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (leading_number(first_line(folder + "level")) != level || first_line(folder + "type") == "Instruction") continue;
    return parse_size(first_line(folder + "size"));
  }
  return 0;
}

std::int64_t cache_size(int level, int sysconf_name) {
  if (const std::int64_t bytes = cache_from_sys(level); bytes > 0) return bytes;
  return std::max<std::int64_t>(sysconf(sysconf_name), 0);
}

void detect_caches(Host& m) {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  m.l1d = cache_size(1, _SC_LEVEL1_DCACHE_SIZE);
  m.l2 = cache_size(2, _SC_LEVEL2_CACHE_SIZE);
  m.l3 = cache_size(3, _SC_LEVEL3_CACHE_SIZE);
  if (const long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE); line > 0) m.cache_line = line;
#endif
  if (m.l1d > 0 && m.l2 > 0) return;
  m.caches_assumed = true;
  m.l1d = 32 << 10;
  m.l2 = 512 << 10;
  m.l3 = 8 << 20;
}

std::int64_t memory_limit() {
  const std::int64_t limit = leading_number(first_line("/sys/fs/cgroup/memory.max"));
  return limit > 0 ? limit : leading_number(first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

Host detect() {
  Host m;
  for (const char* key : {"model name", "Model", "Hardware", "cpu model"}) {
    if (m.cpu.empty()) m.cpu = field("/proc/cpuinfo", key);
  }
  if (m.cpu.empty()) m.cpu = "unknown";
  if (utsname names{}; uname(&names) == 0) {
    m.system = std::string(names.sysname) + " " + names.release + " " + names.machine;
  }
  m.cores_online = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  m.cores = std::max(1, affinity_cores());
  if (const int quota = quota_cores(); quota > 0) m.cores = std::min(m.cores, quota);
  detect_caches(m);
  m.page = std::max<std::int64_t>(sysconf(_SC_PAGESIZE), 1);
  m.memory = std::max<std::int64_t>(sysconf(_SC_PHYS_PAGES), 0) * m.page;
  if (const std::int64_t limit = memory_limit(); limit > 0) m.memory = std::min(m.memory, limit);
  return m;
}

}  // namespace

const Host& host() {
  static const Host detected = detect();
  return detected;
}

std::int64_t memory_available() {
  std::int64_t bytes = leading_number(field("/proc/meminfo", "MemAvailable")) << 10;
#if defined(_SC_AVPHYS_PAGES)
  if (bytes == 0) bytes = std::max<std::int64_t>(sysconf(_SC_AVPHYS_PAGES), 0) * host().page;
#endif
  if (const std::int64_t limit = memory_limit(); limit > 0) {
    const std::int64_t used = leading_number(first_line("/sys/fs/cgroup/memory.current"));
    bytes = std::min(bytes, std::max<std::int64_t>(limit - used, 0));
  }
  return bytes;
}

}  // namespace wr
