#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/host.h"
#include "windrow/bench.h"
#include "windrow/error.h"

namespace wr::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGoodEnough = 0.9;     // of the best rate
constexpr double kLongestRun = 2;       // seconds
constexpr double kShareOfMemory = 0.5;  // that a step may take

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Seconds a run: the best of some blocks, for what disturbs only slows down.
double best_seconds(const std::function<void()>& run, double seconds) {
  run();
  auto start = Clock::now();
  run();
  double best = std::max(seconds_since(start), 1e-8);
  constexpr int kBlocks = 7;
  const int turns = std::max(1, static_cast<int>(seconds / kBlocks / best));
  for (int b = 0; b < kBlocks && best < kLongestRun; ++b) {
    start = Clock::now();
    for (int i = 0; i < turns; ++i) run();
    best = std::min(best, seconds_since(start) / turns);
  }
  return best;
}

}  // namespace

std::vector<std::int64_t> powers_of_two(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> list;
  for (std::int64_t b = from; b <= to; b *= 2) list.push_back(b);
  return list;
}

BatchAdvice tune_batch(const std::function<BatchWork(std::int64_t)>& make, const std::vector<std::int64_t>& batches,
                       double seconds_each) {
  if (batches.empty()) throw Error("tune_batch: no batch sizes given");
  BatchAdvice advice;
  const auto free = static_cast<double>(memory_available());
  std::string stopped;
  for (const std::int64_t batch : batches) {
    if (batch < 1) throw Error(fmt::format("tune_batch: a batch of {}", batch));
    if (!advice.points.empty()) {
      const BatchPoint& last = advice.points.back();
      const double growth = static_cast<double>(batch) / static_cast<double>(last.batch);
      if (free > 0 && growth * static_cast<double>(last.bytes) > kShareOfMemory * free) {
        stopped = fmt::format("; a batch of {} would take more than half the free memory", batch);
        break;
      }
      if (growth * last.us > kLongestRun * 1e6) {
        stopped = fmt::format("; a batch of {} would take more than {} s a run", batch, kLongestRun);
        break;
      }
    }
    const BatchWork work = make(batch);
    const double seconds = best_seconds(work.run, seconds_each);
    advice.points.push_back({batch, seconds * 1e6, static_cast<double>(batch) / seconds, work.bytes});
  }
  double best = 0;
  for (const BatchPoint& p : advice.points) best = std::max(best, p.per_second);
  for (const BatchPoint& p : advice.points)
    if (p.per_second >= kGoodEnough * best) {
      advice.batch = p.batch;
      advice.reason =
          fmt::format("the smallest batch with {:.0f} % of the best rate ({:.0f} rows a second of {:.0f}){}",
                      100 * p.per_second / best, p.per_second, best, stopped);
      break;
    }
  return advice;
}

std::string BatchAdvice::to_table() const {
  std::string out =
      fmt::format("{:>8} {:>12} {:>14} {:>10} {:>12}\n", "batch", "us a run", "rows/s", "of best", "memory KB");
  double best = 0;
  for (const BatchPoint& p : points) best = std::max(best, p.per_second);
  for (const BatchPoint& p : points)
    out += fmt::format("{:>8} {:>12.1f} {:>14.0f} {:>8.0f} % {:>12.0f}{}\n", p.batch, p.us, p.per_second,
                       100 * p.per_second / best, static_cast<double>(p.bytes) / 1024,
                       p.batch == batch ? "  <- suggested" : "");
  return out + fmt::format("suggested batch: {}, {}\n", batch, reason) +
         "Rows a second is not learning a second: a larger batch takes fewer, larger steps; change the learning rate "
         "with it.\n";
}

}  // namespace wr::bench
