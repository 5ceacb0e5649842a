// Timing for the DISABLED_Speed tests of the kernels, whose figures are in docs/kernels.md. They assert nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "backend/cpu/target.h"

namespace wr::cpu {

/// The best of many timings of one call, in microseconds.
template <class F>
double best_microseconds(F call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  std::int64_t repeat = 1;
  for (int trial = 0; trial < 40; ++trial) {
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < repeat; ++i) call();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    best = std::min(best, us / static_cast<double>(repeat));
    if (us < 300) repeat *= 2;
  }
  return best;
}

/// Prints one row of a table: the time of `call(target)` on every target, and GB/s of `bytes` read and written on the
/// last.
template <class F>
void print_speed(const std::string& name, double bytes, F call) {
  std::printf("| %-34s |", name.c_str());
  double us = 0;
  for (Target target : available_targets()) {
    us = best_microseconds([&] { call(target); });
    std::printf(" %9.2f |", us);
  }
  std::printf(" %6.1f |\n", bytes / us / 1e3);
}

// Kernels see memory of an arena, which is aligned to cache lines; std::vector's own is not.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{64}); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};
template <class T>
using SpeedArray = std::vector<T, LineAllocator<T>>;

template <class T>
SpeedArray<T> speed_input(std::int64_t n) {
  SpeedArray<T> v(n);
  for (std::int64_t i = 0; i < n; ++i) v[i] = static_cast<T>((i * 2654435761 >> 7) % 97);
  return v;
}

}  // namespace wr::cpu
