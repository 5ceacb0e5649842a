// Roofs are the machine's rates, for a number of threads.
#include <algorithm>
#include <map>
#include <mutex>

#include "backend/cpu/measure.h"
#include "base/thread_team.h"
#include "windrow/profile.h"

namespace wr {
namespace {

Roofline of(const Machine& m, int threads) {
  const double all = threads;
  Roofline r;
  r.threads = threads;
  r.gflops_f32 = m.gflops_f32;
  r.gflops_f64 = m.gflops_f64;
  r.gflops_f32_all = all * m.gflops_f32;
  r.gflops_f64_all = all * m.gflops_f64;
  r.levels.push_back({"L1", m.l1d, m.gbs_l1, all * m.gbs_l1});
  r.levels.push_back({"L2", m.l2, m.gbs_l2, all * m.gbs_l2});
  if (m.l3 > 0) r.levels.push_back({"L3", m.l3, m.gbs_l3, std::min(all * m.gbs_l3, m.gbs_l3_all)});
  r.levels.push_back({"memory", 0, m.gbs_memory, std::min(all * m.gbs_memory, m.gbs_memory_all)});
  return r;
}

}  // namespace

const Roofline& roofline(int threads) {
  static std::mutex mutex;
  static std::map<int, Roofline> known;
  if (threads <= 0) threads = default_threads();
  const std::lock_guard lock(mutex);
  auto it = known.find(threads);
  if (it == known.end()) it = known.emplace(threads, of(cpu::machine(), threads)).first;
  return it->second;
}

}  // namespace wr
