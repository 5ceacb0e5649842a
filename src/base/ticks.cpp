#include "base/ticks.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace wr {
namespace {

using Clock = std::chrono::steady_clock;

double calibrate() {
  constexpr auto kSpan = std::chrono::milliseconds(5);
  const auto start = Clock::now();
  const std::uint64_t first = ticks();
  auto now = start;
  while (now - start < kSpan) now = Clock::now();
  const auto passed = static_cast<double>(ticks() - first);
  return std::chrono::duration<double, std::nano>(now - start).count() / passed;
}

/// The best of some blocks: an interruption must not look like an expensive clock.
double measure_cost() {
  std::array<std::uint64_t, 256> stored{};
  double best = 1e9;
  for (int block = 0; block < 20; ++block) {
    const std::uint64_t start = ticks();
    for (auto& place : stored) {
      place = ticks();
      asm volatile("" : : "r"(&place) : "memory");
    }
    best = std::min(best, static_cast<double>(ticks() - start) / static_cast<double>(stored.size()));
  }
  return best * ns_per_tick();
}

}  // namespace

double ns_per_tick() {
  static const double ns = calibrate();
  return ns;
}

double tick_cost_ns() {
  static const double ns = measure_cost();
  return ns;
}

}  // namespace wr
