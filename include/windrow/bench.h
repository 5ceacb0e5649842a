// Benchmarks of a user's own: variants of the same work side by side, and which batch size a step likes.
//
//   auto fast = wr::compile({.simd = "avx512"}, net, wr::f32(64, 784)), slow = wr::compile({.simd = "sse4"}, ...);
//   std::cout << wr::bench::compare("net", {{"sse4", [&] { slow.again(); }}, {"avx512", [&] { fast.again();
//   }}}).to_table();
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace wr::bench {

struct Variant {
  std::string name;
  std::function<void()> run;
};

struct CompareOptions {
  double seconds = 1;  // for all variants together
  int blocks = 21;     // timed blocks of each; variants take turns, block by block
};

/// One variant's times in microseconds a call.
struct Measured {
  std::string name;
  double median_us = 0, best_us = 0;
  double low_us = 0, high_us = 0;  // quartiles: half the blocks lie between them
  double ratio = 1;                // how much faster than the first variant: its median by this one's
  double p = 1;                // how likely so large a difference from the first is by chance (Mann-Whitney, two-sided)
  bool differs = false;        // p < 0.01 and more than 1 % apart
  std::vector<double> blocks;  // in the order they were timed
};

struct Comparison {
  std::string name;
  std::vector<Measured> variants;
  std::string to_table() const;
  std::string to_json() const;
};

/// Runs the variants in turns, so that what else the machine does hits all alike. The first one is the measure.
Comparison compare(const std::string& name, const std::vector<Variant>& variants, const CompareOptions& options = {});

/// Several comparisons of the same variants: one row each, variants side by side.
std::string to_table(std::span<const Comparison> comparisons);

/// How likely it is that two sets of times differ by so much by chance: two-sided Mann-Whitney U, normal approximation.
double mann_whitney(std::span<const double> a, std::span<const double> b);

// ---- which batch size
struct BatchPoint {
  std::int64_t batch = 0;
  double us = 0;          // a run
  double per_second = 0;  // rows
  std::int64_t bytes = 0;
};
struct BatchAdvice {
  std::vector<BatchPoint> points;
  std::int64_t batch = 0;  // the smallest with nine tenths of the best rate
  std::string reason;
  std::string to_table() const;
};
/// Work on batches of one size: how to run it once, and what memory it takes.
struct BatchWork {
  std::function<void()> run;
  std::int64_t bytes = 0;
};
/// Measures rows a second over the batch sizes; stops where memory or the time of one run would be too much.
BatchAdvice tune_batch(const std::function<BatchWork(std::int64_t batch)>& make,
                       const std::vector<std::int64_t>& batches, double seconds_each = 0.2);
/// 1, 2, 4, ... up to the given size.
std::vector<std::int64_t> powers_of_two(std::int64_t from, std::int64_t to);

}  // namespace wr::bench
