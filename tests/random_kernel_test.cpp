// Random kernels: known answers of Philox, every element against the scalar definition, the same bits at every split
// and on every SIMD target, and the moments of each distribution.
#include "backend/cpu/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernel_speed.h"

namespace wr::cpu {
namespace {

using std::int64_t;

void expect_philox(const std::uint32_t (&counter)[4], const std::uint32_t (&key)[2], const std::uint32_t (&want)[4]) {
  std::uint32_t out[4];
  philox4x32(counter, key, out);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], want[i]) << i;
}

// From Random123's kat_vectors.
TEST(RandomKernel, PhiloxKnownAnswers) {
  expect_philox({0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  expect_philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// The definition in random.h, element by element.
struct Plain {
  const RandomParams& p;
  std::int32_t step;
  std::uint32_t word(int64_t block, int lane) const {
    const std::uint32_t counter[4] = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                                      static_cast<std::uint32_t>(step), p.stream};
    const std::uint32_t key[2] = {static_cast<std::uint32_t>(p.seed), static_cast<std::uint32_t>(p.seed >> 32)};
    std::uint32_t out[4];
    philox4x32(counter, key, out);
    return out[lane];
  }
  std::uint32_t bits32(int64_t e) const { return word(e / 4, static_cast<int>(e % 4)); }
  std::uint64_t bits64(int64_t e) const {
    const int lane = 2 * static_cast<int>(e % 2);
    return static_cast<std::uint64_t>(word(e / 2, lane)) << 32 | word(e / 2, lane + 1);
  }
  template <class T>
  double value(Distribution distribution, int64_t e) const {
    constexpr bool f64 = sizeof(T) == 8;
    constexpr double kTurn = 6.283185307179586;
    switch (distribution) {
      case Distribution::uniform:
        return f64 ? (bits64(e) >> 11) * 0x1p-53 : (bits32(e) >> 8) * 0x1p-24;
      case Distribution::bernoulli:
        return bits32(e) < p.probability * 0x1p32 ? 1 : 0;
      case Distribution::integer:
        return static_cast<double>(std::uint64_t{bits32(e)} * p.bound >> 32);
      case Distribution::normal: {
        const int64_t even = e & ~int64_t{1};
        const double u = f64 ? static_cast<double>((bits64(even) >> 11) + 1) * 0x1p-53 : (bits32(even) + 0.5) * 0x1p-32;
        const double angle = kTurn * (f64 ? bits64(even + 1) * 0x1p-64 : bits32(even + 1) * 0x1p-32);
        return std::sqrt(-2 * std::log(u)) * (e % 2 ? std::sin(angle) : std::cos(angle));
      }
    }
    return 0;
  }
};

template <class T>
std::vector<T> draw(Distribution distribution, const RandomParams& p, std::int32_t step, int64_t row0, Target target) {
  constexpr int64_t kGuard = 70;
  const int64_t n = p.outer * p.rows * p.inner;
  std::vector<T> out(n + 2 * kGuard, T(1));
  std::fill(out.begin(), out.end(), T(99));
  void* ptr[] = {out.data() + kGuard, &step};
  find_random(distribution, dtype_of<T>, target)(p, ptr, row0);
  for (int64_t i = 0; i < kGuard; ++i)
    EXPECT_TRUE(out[i] == T(99) && out[kGuard + n + i] == T(99)) << "guard " << i << " of " << n;
  return {out.begin() + kGuard, out.end() - kGuard};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void check_elements(Distribution distribution, double tolerance) {
  for (int64_t inner : {0, 1, 3, 4, 7, 16, 33, 130})
    for (int64_t rows : {0, 1, 2, 5})
      for (int64_t outer : {1, 3})
        for (int64_t row0 : {0, 3}) {
          const RandomParams p{.seed = 0x123456789abcdefu,
                               .stream = 7,
                               .outer = outer,
                               .extent = row0 == 0 ? rows : 9,
                               .rows = rows,
                               .inner = inner,
                               .probability = 0.3,
                               .bound = 100};
          const Plain plain{p, -5};
          for (Target target : available_targets()) {
            const auto got = draw<T>(distribution, p, -5, row0, target);
            for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
              const int64_t e = (i / (rows * inner) * p.extent + row0) * inner + i % (rows * inner);
              ASSERT_NEAR(static_cast<double>(got[i]), plain.value<T>(distribution, e), tolerance)
                  << name_of(target) << " " << name_of(dtype_of<T>) << " inner " << inner << " rows " << rows << " at "
                  << i;
            }
          }
        }
}

TEST(RandomKernel, ElementsFollowTheDefinition) {
  check_elements<float>(Distribution::uniform, 0);
  check_elements<double>(Distribution::uniform, 0);
  check_elements<float>(Distribution::bernoulli, 0);
  check_elements<double>(Distribution::bernoulli, 0);
  check_elements<std::int32_t>(Distribution::bernoulli, 0);
  check_elements<std::uint8_t>(Distribution::bernoulli, 0);
  check_elements<std::int32_t>(Distribution::integer, 0);
  check_elements<std::uint8_t>(Distribution::integer, 0);
  check_elements<float>(Distribution::normal, 4e-6);
  check_elements<double>(Distribution::normal, 4e-14);
}

// Block numbers beyond 32 bits carry into the second counter word.
TEST(RandomKernel, LargeElementNumbers) {
  const RandomParams p{.seed = 3, .extent = int64_t{1} << 40, .rows = 50, .inner = 1};
  const int64_t row0 = (int64_t{1} << 34) - 21;
  for (Target target : available_targets()) {
    const auto got = draw<float>(Distribution::uniform, p, 0, row0, target);
    for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(got[i], (Plain{p, 0}.value<float>(Distribution::uniform, row0 + i)));
  }
}

template <class T>
void check_same_everywhere(Distribution distribution) {
  const RandomParams whole{
      .seed = 99, .stream = 1, .outer = 3, .extent = 61, .rows = 61, .inner = 37, .probability = 0.7, .bound = 200};
  const auto want = draw<T>(distribution, whole, 12, 0, available_targets().front());
  for (Target target : available_targets()) {
    ASSERT_TRUE(same_bits(draw<T>(distribution, whole, 12, 0, target), want)) << name_of(target);
    for (int64_t strip : {1, 2, 7, 8, 60}) {
      std::vector<T> joined(want.size());
      for (int64_t row0 = 0; row0 < 61; row0 += strip) {
        RandomParams p = whole;
        p.rows = std::min(strip, 61 - row0);
        const auto part = draw<T>(distribution, p, 12, row0, target);
        for (int64_t o = 0; o < 3; ++o)
          std::copy_n(part.begin() + o * p.rows * 37, p.rows * 37, joined.begin() + (o * 61 + row0) * 37);
      }
      ASSERT_TRUE(same_bits(joined, want)) << name_of(target) << " strips of " << strip;
    }
  }
}

TEST(RandomKernel, SameBitsAtEverySplitAndOnEveryTarget) {
  for (Distribution d : {Distribution::uniform, Distribution::normal, Distribution::bernoulli}) {
    check_same_everywhere<float>(d);
    check_same_everywhere<double>(d);
  }
  check_same_everywhere<std::uint8_t>(Distribution::bernoulli);
  check_same_everywhere<std::int32_t>(Distribution::integer);
  check_same_everywhere<std::uint8_t>(Distribution::integer);
}

TEST(RandomKernel, SeedStreamAndStepGiveOtherNumbers) {
  const Target t = active_target();
  const RandomParams p{.seed = 1, .stream = 1, .extent = 64, .rows = 64};
  const auto base = draw<float>(Distribution::uniform, p, 0, 0, t);
  RandomParams seed = p, high = p, stream = p;
  seed.seed = 2, high.seed = p.seed | std::uint64_t{1} << 40, stream.stream = 2;
  EXPECT_FALSE(same_bits(base, draw<float>(Distribution::uniform, seed, 0, 0, t)));
  EXPECT_FALSE(same_bits(base, draw<float>(Distribution::uniform, high, 0, 0, t)));
  EXPECT_FALSE(same_bits(base, draw<float>(Distribution::uniform, stream, 0, 0, t)));
  EXPECT_FALSE(same_bits(base, draw<float>(Distribution::uniform, p, 1, 0, t)));
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, low = 1e30, high = -1e30;
};
template <class T>
Moments moments(const std::vector<T>& v) {
  Moments m;
  const double n = static_cast<double>(v.size());
  for (double x : v) m.mean += x / n, m.low = std::min(m.low, x), m.high = std::max(m.high, x);
  for (double x : v) {
    const double d = x - m.mean;
    m.variance += d * d / n, m.skew += d * d * d / n, m.kurtosis += d * d * d * d / n;
  }
  return m;
}

constexpr int64_t kMany = 1 << 20;

template <class T>
void check_uniform() {
  const RandomParams p{.seed = 5, .extent = kMany, .rows = kMany};
  const auto v = draw<T>(Distribution::uniform, p, 0, 0, active_target());
  const Moments m = moments(v);
  EXPECT_GE(m.low, 0);
  EXPECT_LT(m.high, 1);
  EXPECT_NEAR(m.mean, 0.5, 5 * std::sqrt(1.0 / 12 / kMany));
  EXPECT_NEAR(m.variance, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kMany));
  std::vector<double> bins(256);
  for (double x : v) ++bins[static_cast<int>(x * 256)];
  double chi = 0;
  for (double b : bins) chi += (b - kMany / 256.0) * (b - kMany / 256.0) / (kMany / 256.0);
  EXPECT_NEAR(chi, 255, 5 * std::sqrt(2 * 255.0));
}

template <class T>
void check_normal() {
  const RandomParams p{.seed = 6, .extent = kMany, .rows = kMany};
  const auto v = draw<T>(Distribution::normal, p, 0, 0, active_target());
  const Moments m = moments(v);
  const double unit = 5 / std::sqrt(static_cast<double>(kMany));
  EXPECT_NEAR(m.mean, 0, unit);
  EXPECT_NEAR(m.variance, 1, unit * std::sqrt(2.0));
  EXPECT_NEAR(m.skew, 0, unit * std::sqrt(15.0));
  EXPECT_NEAR(m.kurtosis, 3, unit * std::sqrt(96.0));
  // Equal-probability bins by the distribution function.
  std::vector<double> bins(100);
  double neighbours = 0;
  for (int64_t i = 0; i < kMany; ++i) {
    ++bins[std::min(99, static_cast<int>(50 * std::erfc(-static_cast<double>(v[i]) / std::sqrt(2.0))))];
    if (i % 2) neighbours += static_cast<double>(v[i]) * v[i - 1];
  }
  double chi = 0;
  for (double b : bins) chi += (b - kMany / 100.0) * (b - kMany / 100.0) / (kMany / 100.0);
  EXPECT_NEAR(chi, 99, 5 * std::sqrt(2 * 99.0));
  EXPECT_NEAR(neighbours / (kMany / 2), 0, 5 / std::sqrt(kMany / 2.0));  // the two of a pair are independent
}

TEST(RandomKernel, UniformMoments) {
  check_uniform<float>();
  check_uniform<double>();
}
TEST(RandomKernel, NormalMoments) {
  check_normal<float>();
  check_normal<double>();
}

TEST(RandomKernel, BernoulliRateAndItsEnds) {
  for (double rate : {0.0, 1e-9, 0.1, 0.5, 0.9, 1.0}) {
    const RandomParams p{.seed = 8, .extent = kMany, .rows = kMany, .probability = rate};
    const double mean = moments(draw<std::uint8_t>(Distribution::bernoulli, p, 0, 0, active_target())).mean;
    EXPECT_NEAR(mean, rate, 5 * std::sqrt(rate * (1 - rate) / kMany) + 1e-7) << rate;
    if (rate == 0 || rate == 1) {
      EXPECT_NEAR(mean, rate, 1e-9);  // a mean of many ones is summed with rounding
    }
  }
}

TEST(RandomKernel, IntegersCoverTheirRange) {
  for (std::int32_t bound : {1, 2, 7, 1000}) {
    const RandomParams p{.seed = 9, .extent = 40000, .rows = 40000, .bound = bound};
    std::vector<int> seen(bound);
    for (std::int32_t x : draw<std::int32_t>(Distribution::integer, p, 0, 0, active_target())) {
      ASSERT_TRUE(x >= 0 && x < bound) << x;
      ++seen[x];
    }
    for (int n : seen) EXPECT_NEAR(n, 40000.0 / bound, 6 * std::sqrt(40000.0 / bound));
  }
}

TEST(RandomKernel, TypesThatDoNotFit) {
  EXPECT_EQ(find_random(Distribution::uniform, DType::i32, active_target()), nullptr);
  EXPECT_EQ(find_random(Distribution::normal, DType::boolean, active_target()), nullptr);
  EXPECT_EQ(find_random(Distribution::integer, DType::f32, active_target()), nullptr);
  EXPECT_NE(find_random(Distribution::bernoulli, DType::boolean, active_target()), nullptr);
}

template <class T>
void check_iota(const IotaParams& p, int64_t row0) {
  std::vector<T> out(p.outer * p.rows * p.inner + 2, T(99));
  void* ptr[] = {out.data() + 1};
  find_iota(dtype_of<T>, active_target())(p, ptr, row0);
  EXPECT_EQ(out.front(), T(99));
  EXPECT_EQ(out.back(), T(99));
  for (int64_t i = 0; i < p.outer * p.rows * p.inner; ++i) {
    const int64_t r = i / p.inner % p.rows + (p.strip_axis ? row0 : 0);
    ASSERT_EQ(out[1 + i], static_cast<T>(p.start + p.step * static_cast<double>(r)));
  }
}

TEST(RandomKernel, Iota) {
  for (int64_t outer : {0, 1, 3})
    for (int64_t rows : {0, 1, 9})
      for (int64_t inner : {0, 1, 5})
        for (bool strip : {false, true}) {
          check_iota<float>({outer, rows, inner, 0.5, 0.1, strip}, 4);
          check_iota<double>({outer, rows, inner, 2, -3, strip}, 4);
          check_iota<std::int32_t>({outer, rows, inner, -2, 3, strip}, 4);
          check_iota<std::uint8_t>({outer, rows, inner, 1, 2, strip}, 4);
        }
}

TEST(RandomKernel, DISABLED_Speed) {
  SpeedArray<double> out(8192);
  std::int32_t step = 1;
  void* ptr[] = {out.data(), &step};
  const RandomParams p{.seed = 1, .extent = 8192, .rows = 8192, .bound = 10};
  const auto row = [&](const std::string& name, Distribution distribution, DType dtype) {
    print_speed(name + " " + std::string(name_of(dtype)) + ", 8192 numbers",
                8192.0 * static_cast<double>(size_of(dtype)),
                [&](Target t) { find_random(distribution, dtype, t)(p, ptr, 0); });
  };
  row("uniform", Distribution::uniform, DType::f32);
  row("uniform", Distribution::uniform, DType::f64);
  row("normal", Distribution::normal, DType::f32);
  row("normal", Distribution::normal, DType::f64);
  row("bernoulli", Distribution::bernoulli, DType::f32);
  row("bernoulli", Distribution::bernoulli, DType::u8);
  row("integer", Distribution::integer, DType::i32);
}

}  // namespace
}  // namespace wr::cpu
