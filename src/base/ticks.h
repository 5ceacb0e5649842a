// The cheapest clock there is, for timing single kernel calls: the processor's time stamp counter where it has one.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

namespace wr {

/// Counts at a constant rate on all cores; meaningful as differences only.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Nanoseconds a tick, measured once against the system's clock (takes 5 ms the first time).
double ns_per_tick();

/// What reading and storing the time costs, in nanoseconds; measured once.
double tick_cost_ns();

}  // namespace wr
