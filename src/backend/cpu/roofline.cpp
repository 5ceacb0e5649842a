// Probes of what this machine can do: a small matrix product in cache for arithmetic, copies of growing size for the
// levels of memory. The best of some short blocks counts: other programs can only make it slower.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cpu/gemm.h"
#include "base/machine.h"
#include "base/thread_team.h"
#include "windrow/profile.h"

namespace wr {
namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<void(int member)>;

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
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / rounds);
  }
  return best;
}

double gflops(DType dtype, int threads) {
  constexpr std::int64_t n = 96;
  const std::vector<double> a(n * n, 0), b(n * n, 0);
  std::vector<std::vector<double>> c(static_cast<std::size_t>(threads), std::vector<double>(n * n + 64));
  const cpu::Gemm gemm = cpu::make_gemm(cpu::row_major(dtype, n, n, n), cpu::active_target());
  const double seconds = best_seconds(threads, 20, 40, [&](int member) {
    gemm(a.data(), b.data(), c[static_cast<std::size_t>(member)].data(), nullptr);
  });
  return 2.0 * n * n * n * threads / seconds / 1e9;
}

/// GB/s of copies that touch `bytes` in all, on each thread.
double copy_gbs(double bytes, int threads) {
  const auto half = static_cast<std::size_t>(bytes / 2);
  std::vector<std::unique_ptr<char[]>> from, to;
  for (int i = 0; i < threads; ++i) {
    from.push_back(std::make_unique<char[]>(half));
    to.push_back(std::make_unique<char[]>(half));
  }
  const int rounds = static_cast<int>(std::max<std::size_t>(1, 2'000'000 / half));
  const double seconds = best_seconds(threads, half > 16'000'000 ? 4 : 12, rounds, [&](int member) {
    const auto m = static_cast<std::size_t>(member);
    std::memcpy(to[m].get(), from[m].get(), half);
  });
  return static_cast<double>(half) * 2 * threads / seconds / 1e9;
}

Roofline measure(int threads) {
  ThreadTeam::shared().reserve(threads);
  const Machine& m = machine();
  Roofline r;
  r.threads = threads;
  r.gflops_f32 = gflops(DType::f32, 1);
  r.gflops_f64 = gflops(DType::f64, 1);
  r.gflops_f32_all = threads > 1 ? gflops(DType::f32, threads) : r.gflops_f32;
  r.gflops_f64_all = threads > 1 ? gflops(DType::f64, threads) : r.gflops_f64;
  auto add = [&](const char* name, std::int64_t size, double touched) {
    const double one = copy_gbs(touched, 1);
    r.levels.push_back({name, size, one, threads > 1 ? copy_gbs(touched, threads) : one});
  };
  const auto l1 = static_cast<double>(m.l1d), l2 = static_cast<double>(m.l2), l3 = static_cast<double>(m.l3);
  add("L1", m.l1d, l1 / 2);
  add("L2", m.l2, l2 / 2);
  // A virtual machine often reports the whole socket's L3 but has a share of it: probe not far above L2.
  if (m.l3 > m.l2) add("L3", m.l3, std::min(l3 / 2 / threads, 4 * l2));
  add("memory", 0, std::clamp(l3, 64e6, 160e6));
  return r;
}

}  // namespace

const Roofline& roofline(int threads) {
  static std::mutex mutex;
  static std::map<int, Roofline> known;
  if (threads <= 0) threads = default_threads();
  const std::lock_guard lock(mutex);
  auto it = known.find(threads);
  if (it == known.end()) it = known.emplace(threads, measure(threads)).first;
  return it->second;
}

}  // namespace wr
