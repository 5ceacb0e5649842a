// Probes with our own kernels: small products for arithmetic, negations of growing arrays for the levels of memory. The
// best of some short blocks counts: other programs can only make it slower.
#include "backend/cpu/measure.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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

/// Seconds of one round of `work` on all threads at once, at best.
double best_seconds(int threads, int blocks, int rounds, const Work& work) {
  struct Context {
    const Work* work;
    int rounds;
  } context{&work, rounds};
  double best = 1e9;
  for (int i = 0; i < blocks; ++i) {
    const auto start = Clock::now();
    ThreadTeam::shared().run(
        threads,
        [](void* c, int member, int) {
          const auto& given = *static_cast<Context*>(c);
          for (int r = 0; r < given.rounds; ++r) (*given.work)(member);
        },
        &context);
    best = std::min(best, seconds_since(start) / rounds);
  }
  return best;
}

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

 private:
  double product_seconds(const Machine& m, DType dtype, std::int64_t rows, std::int64_t size) {
    const auto count = static_cast<std::size_t>(std::max(rows, size) * size * 2);
    const Floats a = floats(count), b = floats(count), c = floats(count);
    const Gemm gemm = make_gemm(row_major(dtype, rows, size, size), target_, m);
    const Floats scratch = floats(gemm.scratch_bytes / sizeof(float) + 16);
    const double flops = 2.0 * static_cast<double>(rows * size * size);
    const int rounds = std::max(1, static_cast<int>(4e6 / flops));
    return best_seconds(1, 20, rounds, [&](int) { gemm(a.get(), b.get(), c.get(), scratch.get()); });
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
    const double seconds = best_seconds(threads, touched > 8e6 ? 3 : 12, rounds, [&](int member) {
      // Not a multiple of 4096 bytes apart: loads would wait for stores that only seem to be theirs.
      void* pointers[kMaxOperands] = {to[static_cast<std::size_t>(member)].get() + 512,
                                      from[static_cast<std::size_t>(member)].get()};
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
    m.call_ns = 1e9 * best_seconds(1, 10, 2000, [&](int) { negate(params, pointers, 1); });
    params.cols = kElements;
    const MapKernel exp = find_map(ops::Elementwise::exp, DType::f32, target_);
    m.exp_ns = 1e9 * best_seconds(1, 10, 20, [&](int) { exp(params, pointers, 1); }) / kElements;
  }

  void between_cores(Machine& m) {
    m.barrier_ns = 300;
    m.gbs_cross = m.gbs_l3;
    if (threads_ < 2) return;
    constexpr int kBarriers = 200;
    m.barrier_ns = 1e9 *
                   best_seconds(threads_, 10, 1,
                                [&](int) {
                                  for (int i = 0; i < kBarriers; ++i) ThreadTeam::shared().barrier(threads_);
                                }) /
                   kBarriers;
    constexpr std::size_t kCount = 8192;  // 32 KB, what a small layer's activations are
    const Floats shared = floats(kCount), own = floats(kCount);
    MapParams params;
    params.cols = kCount;
    params.col_stride[0] = params.col_stride[1] = 1;
    const MapKernel negate = find_map(ops::Elementwise::neg, DType::f32, target_);
    double best = 1e9;
    best_seconds(threads_, 10, 4, [&](int member) {
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
  if (value <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  return std::round(value / unit) * unit;
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

/// A built-in machine that this one cannot be told from: its plans are then the same wherever they are made.
Machine settled(const Machine& measured) {
  for (const Machine& known : built_in_machines())
    if (is_like(measured, known)) {
      Machine m = known;
      m.cpu = measured.cpu;
      m.l3 = measured.l3;
      return m;
    }
  return measured;
}

}  // namespace

Machine measure(Target target) {
  constexpr int kAtLeast = 2, kAtMost = 5;
  Probe probe(target, std::min(host().cores, kMaxThreads));
  Machine m = probe.once();
  for (int times = 1; times < kAtMost && (times < kAtLeast || !contradiction(m).empty()); ++times)
    m = better(m, probe.once());
  return without_contradictions(rounded(m));
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

KnownMachine find_machine(Target target, const std::string& folder, bool again) {
  const int cores = std::min(host().cores, kMaxThreads);
  KnownMachine known;
  std::string file;
  if (!folder.empty())
    file = folder + "/machine-" + std::string(name_of(target)) + "-" + std::to_string(cores) + ".txt";
  std::error_code ignored;
  if (!again && !file.empty() && std::filesystem::exists(file, ignored)) {
    try {
      Machine m = machine_named(file);
      if (is_this_host(m, target, cores)) {
        known.machine = std::move(m);
        known.origin = "measured earlier, remembered in " + file;
        return known;
      }
      known.problem = file + " describes another machine (" + m.cpu + ")";
    } catch (const Error& error) {
      known.problem = error.what();
    }
  }
  const auto start = Clock::now();
  known.machine = settled(measure(target));
  char took[64];
  std::snprintf(took, sizeof took, "measured in %.2f s", seconds_since(start));
  known.origin = took;
  if (!known.problem.empty()) known.origin += " because " + known.problem;
  if (file.empty()) {
    known.problem = "neither WINDROW_CACHE_DIR, XDG_CACHE_HOME nor HOME says where to remember it";
    return known;
  }
  try {
    std::filesystem::create_directories(folder, ignored);
    FileWriter writer(file);
    writer.write(to_text(known.machine));
    writer.commit();
    known.origin += ", remembered in " + file;
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
