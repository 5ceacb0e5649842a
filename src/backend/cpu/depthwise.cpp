// Channel by channel sums over taps, compiled once for each SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/depthwise.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <algorithm>

#include "backend/cpu/depthwise.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using i64 = std::int64_t;

template <class T>
using Tag = hn::ScalableTag<T>;

// Whole vectors of channels, then the rest of them.
struct Whole {
  template <class T>
  HWY_INLINE auto load(const T* p) const {
    return hn::LoadU(Tag<T>(), p);
  }
  template <class T>
  HWY_INLINE void store(hn::Vec<Tag<T>> v, T* p) const {
    hn::StoreU(v, Tag<T>(), p);
  }
};
struct Some {
  std::size_t count;
  template <class T>
  HWY_INLINE auto load(const T* p) const {
    return load_first(Tag<T>(), p, count);
  }
  template <class T>
  HWY_INLINE void store(hn::Vec<Tag<T>> v, T* p) const {
    store_first(Tag<T>(), v, p, count);
  }
};

/// Some neighbouring results of one vector of channels: each weight is read once for all of them.
template <int kResults, class T, class Part>
HWY_INLINE void results_of(const DepthwiseRow<T>& r, i64 first, i64 channel, const Part& part) {
  const Tag<T> d;
  hn::Vec<Tag<T>> sum[kResults];
  for (int i = 0; i < kResults; ++i) sum[i] = hn::Zero(d);
  const T* w = r.weights + channel;
  for (i64 y = 0; y < r.tap_rows; ++y) {
    const T* from = r.source + first * r.move + y * r.tap_row + channel;
    for (i64 x = 0; x < r.tap_columns; ++x, from += r.tap_column, w += r.channels) {
      const auto weight = part.load(w);
      for (int i = 0; i < kResults; ++i) sum[i] = hn::MulAdd(part.load(from + i * r.move), weight, sum[i]);
    }
  }
  for (int i = 0; i < kResults; ++i) part.store(sum[i], r.out + (first + i) * r.out_column + channel);
}

template <class T, class Part>
HWY_INLINE void channels_of(const DepthwiseRow<T>& r, i64 channel, const Part& part) {
  i64 at = 0;
  for (; at + 4 <= r.results; at += 4) results_of<4>(r, at, channel, part);
  for (; at < r.results; ++at) results_of<1>(r, at, channel, part);
}

template <class T>
void run_row(const DepthwiseRow<T>& r) {
  const auto lanes = static_cast<i64>(hn::Lanes(Tag<T>()));
  i64 channel = 0;
  for (; channel + lanes <= r.channels; channel += lanes) channels_of(r, channel, Whole{});
  if (channel < r.channels) channels_of(r, channel, Some{static_cast<std::size_t>(r.channels - channel)});
}

/// Four sums that take turns, added up in the end: one alone would wait for itself.
template <class T, class Part>
HWY_INLINE void sum_of(const DepthwiseSum<T>& s, i64 channel, const Part& part) {
  const Tag<T> d;
  hn::Vec<Tag<T>> sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (i64 y = 0; y < s.rows; ++y) {
    const T* a = s.a + y * s.a_row + channel;
    const T* b = s.b + y * s.b_row + channel;
    i64 x = 0;
    for (; x + 4 <= s.columns; x += 4, a += 4 * s.a_column, b += 4 * s.b_column)
      for (int i = 0; i < 4; ++i)
        sum[i] = hn::MulAdd(part.load(a + i * s.a_column), part.load(b + i * s.b_column), sum[i]);
    for (; x < s.columns; ++x, a += s.a_column, b += s.b_column)
      sum[0] = hn::MulAdd(part.load(a), part.load(b), sum[0]);
  }
  auto all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  if (s.accumulate) all = hn::Add(all, part.load(s.out + channel));
  part.store(all, s.out + channel);
}

template <class T>
void run_sum(const DepthwiseSum<T>& s) {
  const auto lanes = static_cast<i64>(hn::Lanes(Tag<T>()));
  i64 channel = 0;
  for (; channel + lanes <= s.channels; channel += lanes) sum_of(s, channel, Whole{});
  if (channel < s.channels) sum_of(s, channel, Some{static_cast<std::size_t>(s.channels - channel)});
}

}  // namespace

template <class T>
const Depthwise<T>& depthwise_kernels() {
  static constexpr Depthwise<T> all{run_row<T>, run_sum<T>};
  return all;
}
template const Depthwise<float>& depthwise_kernels<float>();
template const Depthwise<double>& depthwise_kernels<double>();

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

template <class T>
const Depthwise<T>& depthwise(Target target) {
  WINDROW_RETURN_FOR(target, depthwise_kernels<T>())
  return HWY_NAMESPACE::depthwise_kernels<T>();  // the baseline, which every machine has
}
template const Depthwise<float>& depthwise<float>(Target target);
template const Depthwise<double>& depthwise<double>(Target target);

}  // namespace wr::cpu
#endif  // HWY_ONCE
