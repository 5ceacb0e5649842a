#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/json.h"
#include "windrow/bench.h"
#include "windrow/error.h"

namespace wr::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& run, int turns) {
  const auto start = Clock::now();
  for (int i = 0; i < turns; ++i) run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Between the sorted values, as usual.
double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<std::size_t>(at);
  const std::size_t j = std::min(i + 1, sorted.size() - 1);
  return sorted[i] + (at - static_cast<double>(i)) * (sorted[j] - sorted[i]);
}

Measured summarise(const std::string& name, const std::vector<double>& blocks) {
  std::vector<double> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  Measured m;
  m.name = name;
  m.best_us = sorted.front();
  m.median_us = quantile(sorted, 0.5);
  m.low_us = quantile(sorted, 0.25);
  m.high_us = quantile(sorted, 0.75);
  m.blocks = blocks;
  return m;
}

std::string cell(const Measured& m, bool first) {
  if (m.blocks.empty()) return fmt::format("{:>10}{:>18}", "-", "");  // it could not run the case
  return fmt::format("{:>10.2f} ±{:<7.2g}{:>9}", m.median_us, (m.high_us - m.low_us) / 2,
                     first ? "" : fmt::format("{:.2f}x{}", m.ratio, m.differs ? "*" : " "));
}

}  // namespace

double mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  struct Value {
    double x;
    bool first;
  };
  std::vector<Value> all;
  for (double x : a) all.push_back({x, true});
  for (double x : b) all.push_back({x, false});
  std::sort(all.begin(), all.end(), [](auto& p, auto& q) { return p.x < q.x; });
  const auto n = static_cast<double>(all.size()), na = static_cast<double>(a.size()),
             nb = static_cast<double>(b.size());
  double ranks = 0, ties = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t j = i;
    while (j < all.size() && all[j].x == all[i].x) ++j;
    const double same = static_cast<double>(j - i), rank = (static_cast<double>(i + j) + 1) / 2;
    ties += same * same * same - same;
    for (; i < j; ++i)
      if (all[i].first) ranks += rank;
  }
  const double u = ranks - na * (na + 1) / 2;
  const double variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
  if (!(variance > 0)) return 1;
  const double z = std::max(0.0, std::abs(u - na * nb / 2) - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

Comparison compare(const std::string& name, const std::vector<Variant>& variants, const CompareOptions& options) {
  if (variants.empty()) throw Error("compare: " + name + " has no variants");
  if (options.blocks < 3 || !(options.seconds > 0)) throw Error("compare: at least 3 blocks and some time are needed");
  const double each = options.seconds / options.blocks / static_cast<double>(variants.size());
  std::vector<int> turns;
  for (const Variant& v : variants) {
    if (!v.run) throw Error("compare: variant " + v.name + " has nothing to run");
    v.run();
    const double one = std::max(std::min(seconds_of(v.run, 1), seconds_of(v.run, 1)), 1e-8);
    turns.push_back(static_cast<int>(std::clamp(each / one, 1.0, 1e8)));
  }
  std::vector<std::vector<double>> blocks(variants.size());
  for (int b = 0; b < options.blocks; ++b)
    for (std::size_t i = 0; i < variants.size(); ++i)
      blocks[i].push_back(seconds_of(variants[i].run, turns[i]) / turns[i] * 1e6);
  Comparison c;
  c.name = name;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    Measured m = summarise(variants[i].name, blocks[i]);
    if (i > 0) {
      m.ratio = c.variants[0].median_us / m.median_us;
      m.p = mann_whitney(c.variants[0].blocks, m.blocks);
      m.differs = m.p < 0.01 && std::abs(m.ratio - 1) > 0.01;
    }
    c.variants.push_back(std::move(m));
  }
  return c;
}

std::string Comparison::to_table() const { return bench::to_table(std::span<const Comparison>(this, 1)); }

std::string Comparison::to_json() const {
  Json list = Json::list();
  for (const Measured& m : variants)
    list.push_back({{"variant", m.name},
                    {"us", m.median_us},
                    {"best_us", m.best_us},
                    {"low_us", m.low_us},
                    {"high_us", m.high_us},
                    {"ratio", m.ratio},
                    {"p", m.p},
                    {"differs", m.differs}});
  return Json{{"case", name}, {"variants", std::move(list)}}.dump();
}

std::string to_table(std::span<const Comparison> comparisons) {
  if (comparisons.empty()) return "";
  std::string out = fmt::format("{:<26}", "median us ± half quartiles");
  for (const Measured& m : comparisons[0].variants) out += fmt::format(" {:>28}", m.name);
  out += "\n";
  for (const Comparison& c : comparisons) {
    out += fmt::format("{:<26}", c.name);
    for (std::size_t i = 0; i < c.variants.size(); ++i) out += " " + cell(c.variants[i], i == 0);
    out += "\n";
  }
  return out + "times faster than the first; *: certainly different (Mann-Whitney p < 0.01, more than 1 %)\n";
}

}  // namespace wr::bench
