// Loops over a row of elements that lie together: one vector after the other, the last of them in part. Included again
// for every target.
#include <hwy/highway.h>

#include <limits>

#include "backend/cpu/simd-inl.h"

#if defined(WINDROW_BACKEND_CPU_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_ROW_INL_H
#undef WINDROW_BACKEND_CPU_ROW_INL_H
#else
#define WINDROW_BACKEND_CPU_ROW_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using std::int64_t;

/// 2^x for x up to 127 (f32) or 1023 (f64), and 0 where that is below the least normal number. Within 2 units.
template <class D, class V>
HWY_INLINE V exp2_or_zero(D d, V x) {
  constexpr int kMantissa = kIsF32<D> ? 23 : 52, kBias = kIsF32<D> ? 127 : 1023;
  x = larger_of(constant(d, -kBias), x);
  const V shift = constant(d, kBias + (kIsF32<D> ? 12582912.0 : 6755399441055744.0));
  const V shifted = hn::Add(x, shift);  // its low bits are the exponent
  const V r = hn::Mul(hn::Sub(x, hn::Sub(shifted, shift)), constant(d, 0.69314718055994530942));
  const V power = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(hn::RebindToUnsigned<D>(), shifted)));
  return hn::Mul(hn::Add(hn::MulAdd(exp_series(d, r), hn::Mul(r, r), r), constant(d, 1)), power);
}

/// All lanes of a vector, or its first n: how the body of a loop over a row loads and stores.
template <class T>
struct FullPart {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  HWY_INLINE V load(const T* from) const { return hn::LoadU(D(), from); }
  HWY_INLINE void store(V v, T* to) const { hn::StoreU(v, D(), to); }
  HWY_INLINE V among(V v, V) const { return v; }
};
template <class T>
struct FirstPart {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  std::size_t n;
  HWY_INLINE V load(const T* from) const { return load_first(D(), from, n); }
  HWY_INLINE void store(V v, T* to) const { store_first(D(), v, to, n); }
  /// v in the lanes that are there, the other elsewhere.
  HWY_INLINE V among(V v, V other) const { return hn::IfThenElse(hn::FirstN(D(), n), v, other); }
};

/// One row of every operand and result; `f` is a functor so that its code has this target's instructions.
template <class T>
struct RowLoops {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr T kLowest = -std::numeric_limits<T>::infinity();

  int64_t n;

  template <class F>
  HWY_INLINE void each(F f) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) f(i, FullPart<T>());
    if (i < n) f(i, FirstPart<T>{static_cast<std::size_t>(n - i)});
  }

  /// Combines what f gives for each vector, four at a time; lanes that are not there count as `identity`.
  template <class F, class Combine>
  HWY_INLINE V fold(F f, Combine combine, V identity) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
    V a = identity, b = identity, c = identity, e = identity;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      a = combine(a, f(i, FullPart<T>()));
      b = combine(b, f(i + lanes, FullPart<T>()));
      c = combine(c, f(i + 2 * lanes, FullPart<T>()));
      e = combine(e, f(i + 3 * lanes, FullPart<T>()));
    }
    for (; i + lanes <= n; i += lanes) a = combine(a, f(i, FullPart<T>()));
    if (i < n) {
      const FirstPart<T> rest{static_cast<std::size_t>(n - i)};
      b = combine(b, rest.among(f(i, rest), identity));
    }
    return combine(combine(a, b), combine(c, e));
  }
  static HWY_INLINE T total_of(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }
  template <class F>
  HWY_INLINE T sum(F f) const {
    return total_of(fold(
        f, [](V x, V y) HWY_ATTR { return hn::Add(x, y); }, hn::Zero(D())));
  }
  template <class F>
  HWY_INLINE T mean(F f) const {
    return n == 0 ? T{0} : sum(f) / static_cast<T>(n);
  }
  /// Of no NaN: one shows in the sums that follow.
  HWY_INLINE T most(const T* x) const {
    return hn::GetLane(
        hn::MaxOfLanes(D(), fold([=](int64_t i, auto part) HWY_ATTR { return part.load(x + i); },
                                 [](V a, V b) HWY_ATTR { return hn::Max(a, b); }, hn::Set(D(), kLowest))));
  }

  static HWY_INLINE T log_of_number(T x) { return hn::GetLane(log_of(D(), hn::Set(D(), x))); }
  static HWY_INLINE T deviation(T spread, double epsilon) {
    return hn::GetLane(rsqrt_of(D(), hn::Set(D(), static_cast<T>(spread + static_cast<T>(epsilon)))));
  }

  /// The sum of exp(x - top).
  HWY_INLINE T exp_sum(const T* x, T top) const {
    const V shift = hn::Set(D(), top);
    return sum([=](int64_t i, auto part) HWY_ATTR { return exp_of(D(), hn::Sub(part.load(x + i), shift)); });
  }
  HWY_INLINE T lse(const T* x) const {
    const T top = most(x);
    return log_of_number(exp_sum(x, top)) + top;
  }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
