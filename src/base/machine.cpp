// One table of fields serves printing, reading, checking and comparing.
#include "base/machine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/file.h"
#include "windrow/error.h"

namespace wr {
namespace {

struct Size {
  const char* key;
  std::int64_t Machine::*value;
  std::int64_t least, most;
  const char* what;
};

struct Rate {
  const char* key;
  double Machine::*value;
  double least, most;
  double nearly;  // from one measurement to the next it differs by such a factor
  const char* what;
};

constexpr std::int64_t kKilo = 1 << 10, kMega = 1 << 20, kGiga = 1 << 30;

constexpr Size kSizes[] = {
    {"cores", &Machine::cores, 1, 1024, "that a plan may use"},
    {"l1d", &Machine::l1d, 256, 16 * kMega, "bytes of a core's first-level data cache"},
    {"l2", &Machine::l2, kKilo, kGiga, "bytes of a core's second-level cache, or its share of it"},
    {"l3", &Machine::l3, 0, 64 * kGiga, "bytes of the cache all cores share; 0: there is none"},
    {"line", &Machine::line, 16, 1024, "bytes of a cache line"},
};

constexpr Rate kRates[] = {
    {"gflops_f32", &Machine::gflops_f32, 0.01, 1e5, 1.4, "GFLOP/s of one core, products in cache"},
    {"gflops_f64", &Machine::gflops_f64, 0.01, 1e5, 1.4, "the same in f64"},
    {"product_ramp", &Machine::product_ramp, 0.01, 64, 8, "rows by which a product of few rows is dearer"},
    {"gbs_l1", &Machine::gbs_l1, 0.01, 1e5, 1.6, "GB/s of one core's copies (read + written) in L1"},
    {"gbs_l2", &Machine::gbs_l2, 0.01, 1e5, 1.6, "in L2"},
    {"gbs_l3", &Machine::gbs_l3, 0.01, 1e5, 2.5, "in L3"},
    {"gbs_memory", &Machine::gbs_memory, 0.01, 1e5, 2.5, "in memory"},
    {"gbs_l3_all", &Machine::gbs_l3_all, 0.01, 1e6, 2.5, "in L3, all cores together"},
    {"gbs_memory_all", &Machine::gbs_memory_all, 0.01, 1e6, 3, "in memory, all cores together"},
    {"gbs_cross", &Machine::gbs_cross, 0.01, 1e5, 4, "GB/s of reading what another core has just written"},
    {"barrier_ns", &Machine::barrier_ns, 1, 1e7, 4, "ns of a barrier of all cores"},
    {"call_ns", &Machine::call_ns, 0.1, 1e5, 2, "ns of calling a kernel"},
    {"exp_ns", &Machine::exp_ns, 0.001, 1e4, 1.6, "ns an f32 element of exp"},
};

constexpr std::array kTexts{std::pair{"name", &Machine::name}, std::pair{"cpu", &Machine::cpu},
                            std::pair{"simd", &Machine::simd}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r").find(text.front()) != text.npos) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r").find(text.back()) != text.npos) text.remove_suffix(1);
  return text;
}

/// "48K", "2M", "1G" or plain bytes, as few characters as say it exactly.
std::string size_text(std::int64_t bytes) {
  for (auto [unit, letter] : {std::pair{kGiga, 'G'}, {kMega, 'M'}, {kKilo, 'K'}})
    if (bytes >= unit && bytes % unit == 0) return std::to_string(bytes / unit) + letter;
  return std::to_string(bytes);
}

std::string rate_text(double rate) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, rate).ptr;
  return {text, end};
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Machine read() {
    Machine m;
    std::vector<std::string_view> seen;
    for (line_ = 1; !text_.empty(); ++line_) {
      const auto end = std::min(text_.find('\n'), text_.size());
      std::string_view line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      line = trimmed(line.substr(0, line.find('#')));
      if (line.empty()) continue;
      const auto equals = line.find('=');
      if (equals == line.npos) refuse("expected \"key = value\"");
      const auto key = trimmed(line.substr(0, equals));
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) refuse(std::string(key) + " is given twice");
      seen.push_back(key);
      take(m, key, trimmed(line.substr(equals + 1)));
    }
    for (const auto& [key, value] : kTexts) require(seen, key);
    for (const Size& f : kSizes) require(seen, f.key);
    for (const Rate& f : kRates) require(seen, f.key);
    if (const std::string wrong = contradiction(m); !wrong.empty()) throw Error(source_ + ": " + wrong);
    return m;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(source_ + ":" + std::to_string(line_) + ": " + why);
  }

  void require(const std::vector<std::string_view>& seen, std::string_view key) const {
    if (std::find(seen.begin(), seen.end(), key) == seen.end())
      throw Error(source_ + ": a machine needs \"" + std::string(key) + " = ...\"");
  }

  void take(Machine& m, std::string_view key, std::string_view value) const {
    for (const auto& [name, member] : kTexts)
      if (key == name) {
        if (value.empty() || value.size() > 200) refuse(std::string(key) + " must have 1 to 200 characters");
        m.*member = value;
        return;
      }
    for (const Size& f : kSizes)
      if (key == f.key) {
        m.*f.value = size(key, value);
        if (m.*f.value < f.least || m.*f.value > f.most)
          refuse(std::string(key) + " must be " + size_text(f.least) + " to " + size_text(f.most) + ", is " +
                 std::string(value));
        return;
      }
    for (const Rate& f : kRates)
      if (key == f.key) {
        m.*f.value = number<double>(key, value);
        if (!(m.*f.value >= f.least && m.*f.value <= f.most))
          refuse(std::string(key) + " must be " + rate_text(f.least) + " to " + rate_text(f.most) + ", is " +
                 std::string(value));
        return;
      }
    refuse("\"" + std::string(key) + "\" is nothing a machine has");
  }

  template <class Number>
  Number number(std::string_view key, std::string_view value) const {
    Number n{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc() || end != value.data() + value.size())
      refuse(std::string(key) + " must be a number, is \"" + std::string(value) + "\"");
    return n;
  }

  std::int64_t size(std::string_view key, std::string_view value) const {
    std::int64_t unit = 1;
    for (auto [bytes, letter] : {std::pair{kGiga, 'G'}, {kMega, 'M'}, {kKilo, 'K'}})
      if (!value.empty() && value.back() == letter) unit = bytes;
    if (unit > 1) value.remove_suffix(1);
    const auto n = number<std::int64_t>(key, value);
    if (n < 0 || n > 64 * kGiga / unit) refuse(std::string(key) + " is out of range");
    return n * unit;
  }

  std::string_view text_;
  const std::string& source_;
  int line_ = 1;
};

// Copies at the speed of the nearer level up to this part of it, of the next from this many times its size on.
constexpr double kFits = 0.6, kGone = 2.0;

}  // namespace

double Machine::ns_byte(double working_set, double busy) const {
  struct Level {
    double bytes, ns;
  };
  const Level levels[] = {{static_cast<double>(l1d), 1 / gbs_l1},
                          {static_cast<double>(l2), 1 / gbs_l2},
                          {static_cast<double>(l3) / busy, 1 / std::min(gbs_l3, gbs_l3_all / busy)}};
  double ns = levels[0].ns;
  for (int i = 0; i < 3; ++i) {
    if (levels[i].bytes <= 0) continue;
    const double next =
        i < 2 && levels[i + 1].bytes > 0 ? levels[i + 1].ns : 1 / std::min(gbs_memory, gbs_memory_all / busy);
    const double full = working_set / levels[i].bytes;
    if (full <= kFits) break;
    ns = levels[i].ns + (next - levels[i].ns) * std::min(1.0, (full - kFits) / (kGone - kFits));
    if (full < kGone) break;
  }
  return ns;
}

std::string to_text(const Machine& m) {
  std::string out = "# A machine as Windrow plans for it: sizes, and rates measured with its own kernels.\n";
  auto add = [&](const std::string& key, const std::string& value, const std::string& what) {
    std::string line = key + std::string(std::max<std::size_t>(16, key.size() + 1) - key.size(), ' ') + "= " + value;
    if (!what.empty()) line += std::string(line.size() < 32 ? 32 - line.size() : 1, ' ') + "# " + what;
    out += line + "\n";
  };
  for (const auto& [key, value] : kTexts) add(key, m.*value, "");
  for (const Size& f : kSizes) add(f.key, size_text(m.*f.value), f.what);
  for (const Rate& f : kRates) add(f.key, rate_text(m.*f.value), f.what);
  return out;
}

Machine machine_from_text(std::string_view text, const std::string& source) { return Reader(text, source).read(); }

std::string contradiction(const Machine& m) {
  auto below = [](const char* near, double near_gbs, const char* far, double far_gbs) {
    return near_gbs < far_gbs ? std::string(far) + " is faster than " + near + " (" + rate_text(far_gbs) + " and " +
                                    rate_text(near_gbs) + " GB/s)"
                              : std::string();
  };
  if (m.l2 < m.l1d) return "l2 is smaller than l1d";
  if (m.l3 != 0 && m.l3 < m.l2) return "l3 is smaller than l2";
  for (const std::string& wrong :
       {below("L1", m.gbs_l1, "L2", m.gbs_l2), below("L2", m.gbs_l2, "L3", m.gbs_l3),
        below("L3", m.gbs_l3, "memory", m.gbs_memory), below("L3 of all cores", m.gbs_l3_all, "of one", m.gbs_l3),
        below("memory of all cores", m.gbs_memory_all, "of one", m.gbs_memory),
        below("L2", m.gbs_l2, "another core's cache", m.gbs_cross)})
    if (!wrong.empty()) return wrong;
  if (m.gflops_f32 < m.gflops_f64) return "gflops_f64 is larger than gflops_f32";
  return "";
}

Machine without_contradictions(Machine m) {
  // Longer than it takes to wake a thread: its core was another program's, and nothing is known of the barrier. A plan
  // that believed it would keep to one core for good.
  constexpr double kWaking = 20e3, kOrdinary = 300;
  if (m.barrier_ns > kWaking) m.barrier_ns = kOrdinary;
  for (const Rate& f : kRates) m.*f.value = std::clamp(m.*f.value, f.least, f.most);
  if (m.l3 != 0) m.l3 = std::max(m.l3, m.l2);
  m.gbs_l3 = std::max(m.gbs_l3, m.gbs_memory);
  m.gbs_l2 = std::max({m.gbs_l2, m.gbs_l3, m.gbs_cross});
  m.gbs_l1 = std::max(m.gbs_l1, m.gbs_l2);
  m.gbs_l3_all = std::max(m.gbs_l3_all, m.gbs_l3);
  m.gbs_memory_all = std::max(m.gbs_memory_all, m.gbs_memory);
  m.gflops_f32 = std::max(m.gflops_f32, m.gflops_f64);
  return m;
}

bool has_sizes_of(const Machine& a, const Machine& b) {
  return a.simd == b.simd && a.cores == b.cores && a.l1d == b.l1d && a.l2 == b.l2 && a.line == b.line;
}

bool is_like(const Machine& a, const Machine& b) {
  return has_sizes_of(a, b) && std::all_of(std::begin(kRates), std::end(kRates), [&](const Rate& f) {
           const double more = std::max(a.*f.value, b.*f.value), less = std::min(a.*f.value, b.*f.value);
           return more <= f.nearly * less;
         });
}

Machine machine_named(const std::string& given) {
  if (given.find('\n') != given.npos) return machine_from_text(given, "the machine's description");
  std::string names;
  for (const Machine& m : built_in_machines()) {
    if (m.name == given) return m;
    names += (names.empty() ? "" : ", ") + m.name;
  }
  constexpr std::uint64_t kMost = 64 << 10;
  if (given.find('/') == given.npos && given.find('.') == given.npos)
    throw Error("there is no machine \"" + given + "\"; expected one of " + names + ", or a file");
  const Source source = Source::open(given);
  if (source.size() > kMost) source.refuse(0, "too long for a machine's description");
  std::string text(static_cast<std::size_t>(source.size()), '\0');
  source.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  return machine_from_text(text, given);
}

std::span<const Machine> built_in_machines() {
  // sapphire, zen3 and zen5 were measured by `windrow doctor --measure`; desktop and pi4 are from data sheets and
  // published measurements of their kind.
  static const std::vector<Machine> machines = [] {
    std::vector<Machine> list(5);
    list[0] = {.name = "sapphire",
               .cpu = "Intel Xeon (Sapphire or Emerald Rapids), 2 cores of a server",
               .simd = "avx512",
               .cores = 2,
               .l1d = 48 * kKilo,
               .l2 = 2 * kMega,
               .l3 = 260 * kMega,
               .line = 64,
               .gflops_f32 = 210,
               .gflops_f64 = 105,
               .product_ramp = 0.6,
               .gbs_l1 = 300,
               .gbs_l2 = 97,
               .gbs_l3 = 31,
               .gbs_memory = 16,
               .gbs_l3_all = 60,
               .gbs_memory_all = 20,
               .gbs_cross = 18,
               .barrier_ns = 160,
               .call_ns = 15,
               .exp_ns = 0.15};
    list[1] = {.name = "zen3",
               .cpu = "AMD EPYC (Zen 3), 2 cores of a server",
               .simd = "avx2",
               .cores = 2,
               .l1d = 32 * kKilo,
               .l2 = 512 * kKilo,
               .l3 = 32 * kMega,
               .line = 64,
               .gflops_f32 = 92,
               .gflops_f64 = 46,
               .product_ramp = 0.8,
               .gbs_l1 = 160,
               .gbs_l2 = 95,
               .gbs_l3 = 50,
               .gbs_memory = 24,
               .gbs_l3_all = 90,
               .gbs_memory_all = 33,
               .gbs_cross = 20,
               .barrier_ns = 150,
               .call_ns = 22,
               .exp_ns = 0.43};
    list[2] = {.name = "zen5",
               .cpu = "AMD EPYC (Zen 5), 2 cores of a server",
               .simd = "avx512",
               .cores = 2,
               .l1d = 48 * kKilo,
               .l2 = kMega,
               .l3 = 32 * kMega,
               .line = 64,
               .gflops_f32 = 230,
               .gflops_f64 = 120,
               .product_ramp = 0.66,
               .gbs_l1 = 260,
               .gbs_l2 = 190,
               .gbs_l3 = 110,
               .gbs_memory = 61,
               .gbs_l3_all = 200,
               .gbs_memory_all = 74,
               .gbs_cross = 56,
               .barrier_ns = 46,
               .call_ns = 14,
               .exp_ns = 0.15};
    list[3] = {.name = "desktop",
               .cpu = "Intel Core (Skylake to Comet Lake), 4 cores",
               .simd = "avx2",
               .cores = 4,
               .l1d = 32 * kKilo,
               .l2 = 256 * kKilo,
               .l3 = 8 * kMega,
               .line = 64,
               .gflops_f32 = 110,
               .gflops_f64 = 55,
               .product_ramp = 2,
               .gbs_l1 = 180,
               .gbs_l2 = 75,
               .gbs_l3 = 35,
               .gbs_memory = 18,
               .gbs_l3_all = 120,
               .gbs_memory_all = 28,
               .gbs_cross = 14,
               .barrier_ns = 350,
               .call_ns = 15,
               .exp_ns = 0.3};
    list[4] = {.name = "pi4",
               .cpu = "Raspberry Pi 4 (Cortex-A72), 4 cores",
               .simd = "neon",
               .cores = 4,
               .l1d = 32 * kKilo,
               .l2 = 256 * kKilo,
               .l3 = 0,
               .line = 64,
               .gflops_f32 = 9,
               .gflops_f64 = 4,
               .product_ramp = 2,
               .gbs_l1 = 12,
               .gbs_l2 = 7,
               .gbs_l3 = 3,
               .gbs_memory = 3,
               .gbs_l3_all = 4,
               .gbs_memory_all = 4,
               .gbs_cross = 2.5,
               .barrier_ns = 900,
               .call_ns = 50,
               .exp_ns = 5};
    return list;
  }();
  return machines;
}

}  // namespace wr
