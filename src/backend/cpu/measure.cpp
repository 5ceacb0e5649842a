// Probes with our own kernels: small products for arithmetic, negations of growing arrays for the levels of memory. The
// best of some short blocks counts: other programs can only make it slower.
#include "backend/cpu/measure.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/map.h"
#include "base/file.h"
#include "base/host.h"
#include "base/thread_team.h"
#include "windrow/error.h"

namespace wr::cpu {
namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<void(int member)>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double seconds_of_thread() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Times pieces of work, and sees how much of the cores it was given meanwhile.
class Stopwatch {
 public:
  /// Seconds of one round of `work` on all threads at once, at best of so many blocks. A busy machine can make a block
  /// take a thousand times as long: after a while there are no more of them.
  double best(int threads, int blocks, int rounds, const Work& work) {
    constexpr double kEnough = 0.03;
    Context context{&work, rounds, std::vector<Share>(static_cast<std::size_t>(threads))};
    double best = 1e9, spent = 0;
    for (int i = 0; i < blocks && spent < kEnough; ++i) {
      const auto start = Clock::now();
      ThreadTeam::shared().run(
          threads, [](void* context, int member, int) { static_cast<Context*>(context)->run(member); }, &context);
      const double taken = seconds_since(start);
      best = std::min(best, taken / rounds);
      spent += taken;
    }
    for (const Share& share : context.shares) all_.passed += share.passed, all_.given += share.given;
    return best;
  }

  /// Did others use the cores while it measured?
  bool was_disturbed() const { return all_.given < 0.85 * all_.passed; }

 private:
  struct Share {
    double passed = 0, given = 0;  // seconds by the clock, and of a processor
  };
  struct Context {
    const Work* work;
    int rounds;
    std::vector<Share> shares;  // of each member

    void run(int member) {
      Share& share = shares[member];
      const double given = seconds_of_thread();
      const auto start = Clock::now();
      for (int r = 0; r < rounds; ++r) (*work)(member);
      share.passed += seconds_since(start);
      share.given += seconds_of_thread() - given;
    }
  };
  Share all_;
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float, Free>;

Floats floats(std::size_t count) {
  const std::size_t bytes = (count * sizeof(float) + 4095) / 4096 * 4096;
  Floats memory(static_cast<float*>(std::aligned_alloc(4096, bytes)));
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, bytes);
  return memory;
}

class Probe {
 public:
  Probe(Target target, int threads) : target_(target), threads_(threads), host_(host()) {
    ThreadTeam::shared().reserve(threads);
  }

  Machine once() {
    Machine m;
    m.name = "this machine";
    m.cpu = host_.cpu;
    m.simd = std::string(name_of(target_));
    m.cores = threads_;
    m.l1d = host_.l1d;
    m.l2 = host_.l2;
    m.l3 = host_.l3;
    m.line = host_.cache_line;
    products(m);
    levels(m);
    calls(m);
    between_cores(m);
    return m;
  }

  bool was_disturbed() const { return watch_.was_disturbed(); }

 private:
  double product_seconds(const Machine& m, DType dtype, std::int64_t rows, std::int64_t size) {
    const auto count = static_cast<std::size_t>(std::max(rows, size) * size * 2);
    const Floats a = floats(count), b = floats(count), c = floats(count);
    const Gemm gemm = make_gemm(row_major(dtype, rows, size, size), target_, m);
    const Floats scratch = floats(gemm.scratch_bytes / sizeof(float) + 16);
    const double flops = 2.0 * static_cast<double>(rows * size * size);
    const int rounds = std::max(1, static_cast<int>(4e6 / flops));
    return watch_.best(1, 20, rounds, [&](int) { gemm(a.get(), b.get(), c.get(), scratch.get()); });
  }

  void products(Machine& m) {
    constexpr std::int64_t n = 96, rows = 64, width = 64;
    m.gflops_f32 = 2.0 * n * n * n / product_seconds(m, DType::f32, n, n) / 1e9;
    m.gflops_f64 = 2.0 * n * n * n / product_seconds(m, DType::f64, n, n) / 1e9;
    // Seconds as a + b * rows: how many rows is a?
    const double one = product_seconds(m, DType::f32, 1, width), many = product_seconds(m, DType::f32, rows, width);
    const double row = std::max((many - one) / (rows - 1), 1e-12);
    m.product_ramp = std::clamp(one / row - 1, 0.1, 64.0);
  }

  /// GB/s, read and written, of negating arrays that touch `bytes` in all, on each of the threads.
  double stream_gbs(double bytes, int threads) {
    const auto count = static_cast<std::size_t>(bytes / 2 / sizeof(float)) / 16 * 16;
    std::vector<Floats> from, to;
    for (int i = 0; i < threads; ++i) {
      from.push_back(floats(count + 1024));
      to.push_back(floats(count + 1024));
    }
    MapParams params;
    params.cols = static_cast<std::int64_t>(count);
    params.col_stride[0] = params.col_stride[1] = 1;
    const MapKernel negate = find_map(ops::Elementwise::neg, DType::f32, target_);
    const double touched = static_cast<double>(count) * 2 * sizeof(float);
    const int rounds = std::max(1, static_cast<int>(2e6 / touched));
    const double seconds = watch_.best(threads, touched > 8e6 ? 5 : 12, rounds, [&](int member) {
      // Not a multiple of 4096 bytes apart: loads would wait for stores that only seem to be theirs.
      void* pointers[kMaxOperands] = {to[member].get() + 512, from[member].get()};
      negate(params, pointers, 1);
    });
    return touched * threads / seconds / 1e9;
  }

  void levels(Machine& m) {
    const auto l1 = static_cast<double>(m.l1d), l2 = static_cast<double>(m.l2), l3 = static_cast<double>(m.l3);
    m.gbs_l1 = stream_gbs(l1 / 2, 1);
    m.gbs_l2 = stream_gbs(l2 / 2, 1);
    // A virtual machine often reports the whole socket's L3 but has a share of it: probe not far above L2.
    const double in_l3 = std::min(l3 / 2 / threads_, std::max(3 * l2, 3e6));
    const double in_memory = std::clamp(1.5 * l3 / threads_, 24e6, 64e6);
    m.gbs_memory = stream_gbs(in_memory, 1);
    m.gbs_memory_all = threads_ > 1 ? stream_gbs(in_memory, threads_) : m.gbs_memory;
    m.gbs_l3 = m.l3 > m.l2 ? stream_gbs(in_l3, 1) : m.gbs_memory;
    m.gbs_l3_all = m.l3 > m.l2 ? (threads_ > 1 ? stream_gbs(in_l3, threads_) : m.gbs_l3) : m.gbs_memory_all;
  }

  void calls(Machine& m) {
    constexpr std::int64_t kElements = 2048;
    const Floats from = floats(kElements), to = floats(kElements);
    void* pointers[kMaxOperands] = {to.get(), from.get()};
    MapParams params;
    params.cols = 1;
    params.col_stride[0] = params.col_stride[1] = 1;
    const MapKernel negate = find_map(ops::Elementwise::neg, DType::f32, target_);
    m.call_ns = 1e9 * watch_.best(1, 10, 2000, [&](int) { negate(params, pointers, 1); });
    params.cols = kElements;
    const MapKernel exp = find_map(ops::Elementwise::exp, DType::f32, target_);
    m.exp_ns = 1e9 * watch_.best(1, 10, 20, [&](int) { exp(params, pointers, 1); }) / kElements;
  }

  void between_cores(Machine& m) {
    m.barrier_ns = 300;
    m.gbs_cross = m.gbs_l3;
    if (threads_ < 2) return;
    // The best of few barriers at a time: on a busy machine hardly any long row of them is left alone.
    constexpr int kBarriers = 5, kRows = 4;
    double row = 1e9;
    watch_.best(threads_, 100, kRows, [&](int member) {
      const auto start = Clock::now();
      for (int i = 0; i < kBarriers; ++i) ThreadTeam::shared().barrier(threads_);
      if (member == 0) row = std::min(row, seconds_since(start));
    });
    m.barrier_ns = 1e9 * row / kBarriers;
    constexpr std::size_t kCount = 8192;  // 32 KB, what a small layer's activations are
    const Floats shared = floats(kCount), own = floats(kCount);
    MapParams params;
    params.cols = kCount;
    params.col_stride[0] = params.col_stride[1] = 1;
    const MapKernel negate = find_map(ops::Elementwise::neg, DType::f32, target_);
    double best = 1e9;
    watch_.best(threads_, 10, 4, [&](int member) {
      void* write[kMaxOperands] = {shared.get(), shared.get()};
      void* read[kMaxOperands] = {own.get(), shared.get()};
      if (member == 1) negate(params, write, 1);
      ThreadTeam::shared().barrier(threads_);
      const auto start = Clock::now();
      if (member == 0) {
        negate(params, read, 1);
        best = std::min(best, seconds_since(start));
      }
      ThreadTeam::shared().barrier(threads_);
    });
    m.gbs_cross = kCount * sizeof(float) / best / 1e9;
  }

  Target target_;
  int threads_;
  const Host& host_;
  Stopwatch watch_;
};

/// The better of two measurements, probe by probe: whatever disturbed one made it slower.
Machine better(Machine a, const Machine& b) {
  for (auto rate : {&Machine::gflops_f32, &Machine::gflops_f64, &Machine::gbs_l1, &Machine::gbs_l2, &Machine::gbs_l3,
                    &Machine::gbs_memory, &Machine::gbs_l3_all, &Machine::gbs_memory_all, &Machine::gbs_cross})
    a.*rate = std::max(a.*rate, b.*rate);
  for (auto cost : {&Machine::product_ramp, &Machine::barrier_ns, &Machine::call_ns, &Machine::exp_ns})
    a.*cost = std::min(a.*cost, b.*cost);
  return a;
}

/// Two digits say all there is to know.
double rounded(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, std::max(value, 0.0), std::chars_format::general, 2).ptr;
  double two_digits = 0;
  std::from_chars(text, end, two_digits);
  return two_digits;
}

Machine rounded(Machine m) {
  for (auto rate :
       {&Machine::gflops_f32, &Machine::gflops_f64, &Machine::product_ramp, &Machine::gbs_l1, &Machine::gbs_l2,
        &Machine::gbs_l3, &Machine::gbs_memory, &Machine::gbs_l3_all, &Machine::gbs_memory_all, &Machine::gbs_cross,
        &Machine::barrier_ns, &Machine::call_ns, &Machine::exp_ns})
    m.*rate = rounded(m.*rate);
  return m;
}

bool is_this_host(const Machine& m, Target target, int cores) {
  const Host& h = host();
  return m.cpu == h.cpu && m.simd == name_of(target) && m.cores == cores && m.l1d == h.l1d && m.l2 == h.l2 &&
         m.l3 == h.l3 && m.line == h.cache_line;
}

/// A built-in machine that this one cannot be told from: its plans are then the same wherever they are made. Rates that
/// were disturbed tell nothing; sizes still do.
Machine settled(const Measurement& measured) {
  const Machine& m = measured.machine;
  for (const Machine& known : built_in_machines())
    if (measured.disturbed ? has_sizes_of(m, known) : is_like(m, known)) {
      Machine taken = known;
      taken.cpu = m.cpu;
      taken.l3 = m.l3;
      return taken;
    }
  return m;
}

}  // namespace

Measurement measure(Target target) {
  constexpr int kAtLeast = 2, kAtMost = 5;
  constexpr double kEnough = 0.5;
  const auto start = Clock::now();
  Probe probe(target, std::min(host().cores, kMaxThreads));
  Machine m = probe.once();
  for (int times = 1; times < kAtMost && seconds_since(start) < kEnough; ++times) {
    if (times >= kAtLeast && contradiction(m).empty()) break;
    m = better(m, probe.once());
  }
  return {without_contradictions(rounded(m)), probe.was_disturbed()};
}

std::string cache_folder() {
  auto variable = [](const char* name) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return std::string(text ? text : "");
  };
  if (const std::string folder = variable("WINDROW_CACHE_DIR"); !folder.empty()) return folder;
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty()) return folder + "/windrow";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/windrow";
}

namespace {

/// What a measurement left in a file, if it is of this computer; else why not, where there is one.
std::optional<Machine> remembered(const std::string& file, Target target, int cores, std::string& problem) {
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return {};
  try {
    Machine m = machine_named(file);
    if (is_this_host(m, target, cores)) return m;
    problem = file + " describes another machine (" + m.cpu + ")";
  } catch (const Error& error) {
    problem = error.what();
  }
  return {};
}

bool is_recent(const std::string& file) {
  std::error_code none;
  const auto written = std::filesystem::last_write_time(file, none);
  return !none && std::filesystem::file_time_type::clock::now() - written < std::chrono::hours(1);
}

}  // namespace

KnownMachine find_machine(Target target, const std::string& folder, bool again) {
  const int cores = std::min(host().cores, kMaxThreads);
  KnownMachine known;
  const std::string stem =
      folder.empty() ? "" : folder + "/machine-" + std::string(name_of(target)) + "-" + std::to_string(cores);
  const std::string file = stem.empty() ? "" : stem + ".txt", of_busy = stem.empty() ? "" : stem + "-busy.txt";
  for (const std::string& from : {file, of_busy}) {
    if (again || (from == of_busy && !is_recent(from))) continue;
    if (std::optional<Machine> m = remembered(from, target, cores, known.problem)) {
      known.machine = std::move(*m);
      known.origin = "measured earlier, remembered in " + from;
      return known;
    }
  }
  const auto start = Clock::now();
  const Measurement measured = measure(target);
  known.machine = settled(measured);
  char took[64];
  std::snprintf(took, sizeof took, "measured in %.2f s", seconds_since(start));
  known.origin = took;
  if (measured.disturbed) known.origin += " while others used the cores";
  if (!known.problem.empty()) known.origin += " because " + std::exchange(known.problem, "");
  if (file.empty()) {
    known.problem = "neither WINDROW_CACHE_DIR, XDG_CACHE_HOME nor HOME says where to remember it";
    return known;
  }
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    FileWriter writer(measured.disturbed ? of_busy : file);
    writer.write(to_text(known.machine));
    writer.commit();
    known.origin += measured.disturbed ? ", remembered for an hour in " + of_busy : ", remembered in " + file;
  } catch (const Error& error) {
    known.problem = std::string(error.what()) + "; it will be measured again next time";
  }
  return known;
}

const KnownMachine& known_machine(Target target) {
  static std::mutex mutex;
  static std::map<Target, KnownMachine> machines;
  const std::lock_guard lock(mutex);
  if (const auto it = machines.find(target); it != machines.end()) return it->second;
  const char* given = std::getenv("WINDROW_MACHINE");  // NOLINT(concurrency-mt-unsafe)
  KnownMachine known;
  if (given != nullptr && *given != '\0') {
    known.machine = machine_named(given);
    known.origin = std::string("WINDROW_MACHINE=") + given;
  } else {
    known = find_machine(target, cache_folder());
  }
  return machines.emplace(target, std::move(known)).first->second;
}

const Machine& machine(Target target) { return known_machine(target).machine; }

}  // namespace wr::cpu
