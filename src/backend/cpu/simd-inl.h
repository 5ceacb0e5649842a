// The SIMD math policy of the elementwise formulas: a vector with operators, a mask, and the same formulas as
// ops/formula.h compiled for this Highway target. Also loads and stores of part of a vector. Included again for every
// target.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cpu/math-inl.h"
#include "ops/formula.h"

#if defined(WINDROW_BACKEND_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_SIMD_INL_H
#undef WINDROW_BACKEND_CPU_SIMD_INL_H
#else
#define WINDROW_BACKEND_CPU_SIMD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A condition per lane.
template <class T>
struct Truth {
  hn::Mask<hn::ScalableTag<T>> mask;
};

/// The number type the formulas see: a full vector of T.
template <class T>
struct Simd {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  V v;

  HWY_INLINE Simd(V raw) : v(raw) {}  // NOLINT(google-explicit-constructor): formulas mix in numbers
  HWY_INLINE Simd(double number) : v(hn::Set(D(), static_cast<T>(number))) {}  // NOLINT(google-explicit-constructor)

  HWY_INLINE friend Simd operator-(Simd a) { return hn::Neg(a.v); }
  HWY_INLINE friend Simd operator+(Simd a, Simd b) { return hn::Add(a.v, b.v); }
  HWY_INLINE friend Simd operator-(Simd a, Simd b) { return hn::Sub(a.v, b.v); }
  HWY_INLINE friend Simd operator*(Simd a, Simd b) { return hn::Mul(a.v, b.v); }
  HWY_INLINE friend Simd operator/(Simd a, Simd b) { return hn::Div(a.v, b.v); }
  HWY_INLINE friend Simd operator&(Simd a, Simd b) { return hn::And(a.v, b.v); }
  HWY_INLINE friend Simd operator|(Simd a, Simd b) { return hn::Or(a.v, b.v); }
  HWY_INLINE friend Simd operator^(Simd a, Simd b) { return hn::Xor(a.v, b.v); }
  HWY_INLINE friend Truth<T> operator==(Simd a, Simd b) { return {hn::Eq(a.v, b.v)}; }
  // Not hn::Ne, which is false for NaN on some targets.
  HWY_INLINE friend Truth<T> operator!=(Simd a, Simd b) { return {hn::Not(hn::Eq(a.v, b.v))}; }
  HWY_INLINE friend Truth<T> operator<(Simd a, Simd b) { return {hn::Lt(a.v, b.v)}; }
  HWY_INLINE friend Truth<T> operator>(Simd a, Simd b) { return {hn::Gt(a.v, b.v)}; }
  HWY_INLINE friend Truth<T> operator<=(Simd a, Simd b) {
    if constexpr (kFloat) return {hn::Le(a.v, b.v)};
    if constexpr (!kFloat) return {hn::Not(hn::Gt(a.v, b.v))};
  }
  HWY_INLINE friend Truth<T> operator>=(Simd a, Simd b) { return b <= a; }

  HWY_INLINE friend Simd number(Simd, double value) { return value; }
  HWY_INLINE friend Simd select(Truth<T> condition, Simd yes, Simd no) {
    return hn::IfThenElse(condition.mask, yes.v, no.v);
  }
  HWY_INLINE friend Simd abs(Simd a) { return hn::Abs(a.v); }
  // NaN if either operand is: `larger_of` alone gives its second operand if one is NaN.
  HWY_INLINE friend Simd max(Simd a, Simd b) {
    if constexpr (kFloat) return hn::IfThenElse(hn::IsNaN(a.v), a.v, larger_of(a.v, b.v));
    return hn::Max(a.v, b.v);
  }
  HWY_INLINE friend Simd min(Simd a, Simd b) {
    if constexpr (kFloat) return hn::IfThenElse(hn::IsNaN(a.v), a.v, smaller_of(a.v, b.v));
    return hn::Min(a.v, b.v);
  }
  HWY_INLINE friend Simd muladd(Simd a, Simd b, Simd c) { return hn::MulAdd(a.v, b.v, c.v); }
  HWY_INLINE friend Simd sqrt(Simd a) { return hn::Sqrt(a.v); }
  HWY_INLINE friend Simd root(Simd a) { return root_of(D(), a.v); }
  HWY_INLINE friend Simd rsqrt(Simd a) { return rsqrt_of(D(), a.v); }
  HWY_INLINE friend Simd reciprocal(Simd a) { return reciprocal_of(D(), a.v); }
  HWY_INLINE friend Simd exp(Simd a) { return exp_of(D(), a.v); }
  HWY_INLINE friend Simd expm1(Simd a) { return expm1_of(D(), a.v); }
  HWY_INLINE friend Simd log(Simd a) { return log_of(D(), a.v); }
  HWY_INLINE friend Simd log1p(Simd a) { return log1p_of(D(), a.v); }
  HWY_INLINE friend Simd log1p_unit(Simd a) { return log1p_unit_of(D(), a.v); }
  HWY_INLINE friend Simd sin(Simd a) { return sin_of(D(), a.v); }
  HWY_INLINE friend Simd cos(Simd a) { return cos_of(D(), a.v); }
  HWY_INLINE friend Simd tanh(Simd a) { return tanh_of(D(), a.v); }
  HWY_INLINE friend Simd erf(Simd a) { return erf_of(D(), a.v); }
  HWY_INLINE friend Simd pow(Simd a, Simd b) { return pow_of(D(), a.v, b.v); }
  HWY_INLINE friend Simd floor(Simd a) { return hn::Floor(a.v); }
  HWY_INLINE friend Simd ceil(Simd a) { return hn::Ceil(a.v); }
  HWY_INLINE friend Simd round(Simd a) { return hn::Round(a.v); }
};

/// The formulas again: a function template takes the instruction set of the place where it is written.
template <ops::Elementwise>
struct VectorFormula;

// clang-format off
#define WINDROW_FORMULA_1(name, formula) \
  template <> struct VectorFormula<ops::Elementwise::name> { \
    static constexpr int kCost = ops::row_of(ops::Elementwise::name).cost; \
    template <class T> HWY_INLINE static auto evaluate(T x) { return formula; } \
  };
#define WINDROW_FORMULA_2(name, formula) \
  template <> struct VectorFormula<ops::Elementwise::name> { \
    static constexpr int kCost = ops::row_of(ops::Elementwise::name).cost; \
    template <class T> HWY_INLINE static auto evaluate(T a, T b) { return formula; } \
  };
#define WINDROW_FORMULA_3(name, formula) \
  template <> struct VectorFormula<ops::Elementwise::name> { \
    static constexpr int kCost = ops::row_of(ops::Elementwise::name).cost; \
    template <class T> HWY_INLINE static auto evaluate(T a, T b, T c) { return formula; } \
  };
#define WINDROW_FORMULA_5(name, formula) \
  template <> struct VectorFormula<ops::Elementwise::name> { \
    static constexpr int kCost = ops::row_of(ops::Elementwise::name).cost; \
    template <class T> HWY_INLINE static auto evaluate(T a, T b, T c, T d, T e) { return formula; } \
  };
#define WINDROW_UNARY(name, types, doc, formula, ...) WINDROW_FORMULA_1(name, (formula))
#define WINDROW_BINARY(name, types, doc, formula, ...) WINDROW_FORMULA_2(name, (formula))
#define WINDROW_TERNARY(name, types, doc, formula, ...) WINDROW_FORMULA_3(name, (formula))
#define WINDROW_QUINARY(name, types, doc, formula, ...) WINDROW_FORMULA_5(name, (formula))
#define WINDROW_COMPARE(name, doc, formula) WINDROW_FORMULA_2(name, (formula))
#define WINDROW_LOGIC(name, doc, formula) WINDROW_FORMULA_2(name, (formula))
#include "windrow/elementwise.def"
#undef WINDROW_FORMULA_1
#undef WINDROW_FORMULA_2
#undef WINDROW_FORMULA_3
#undef WINDROW_FORMULA_5
// clang-format on

// ---- part of a vector ----

/// Whether the target loads and stores under a mask without touching the lanes outside it.
template <class T>
inline constexpr bool kMasksSafe = HWY_TARGET <= HWY_AVX3 || (HWY_TARGET == HWY_AVX2 && sizeof(T) >= 4);

/// The first n lanes, the others 0; reads nothing beyond them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* from, std::size_t n) {
  if constexpr (kMasksSafe<T>) return hn::MaskedLoad(hn::FirstN(d, n), d, from);
  alignas(64) T buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, from, n * sizeof(T));
  return hn::Load(d, buffer);
}

/// Stores the first n lanes.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D d, hn::Vec<D> v, T* to, std::size_t n) {
  if constexpr (kMasksSafe<T>) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, to);
  } else {
    alignas(64) T buffer[hn::MaxLanes(D())];
    hn::Store(v, d, buffer);
    std::memcpy(to, buffer, n * sizeof(T));
  }
}

/// Lanes of T from as many bytes (a mask where they are not 0), and back (1 where true).
template <class T>
using Bytes = hn::Rebind<std::uint8_t, hn::ScalableTag<T>>;

template <class T>
HWY_INLINE Truth<T> truth_of_bytes(hn::Vec<Bytes<T>> bytes) {
#if WINDROW_HAVE_AVX512
  using Mask = hn::Mask<hn::ScalableTag<T>>;
  return {Mask{static_cast<decltype(Mask::raw)>(_mm_test_epi8_mask(bytes.raw, bytes.raw))}};
#endif
  const hn::ScalableTag<T> d;
  if constexpr (sizeof(T) == 4) {
    const hn::RebindToSigned<decltype(d)> lanes;
    return {hn::RebindMask(d, hn::Ne(hn::PromoteTo(lanes, bytes), hn::Zero(lanes)))};
  } else {
    const hn::RebindToSigned<decltype(d)> lanes;
    const auto words = hn::PromoteTo(hn::Rebind<std::int32_t, decltype(d)>(), bytes);
    return {hn::RebindMask(d, hn::Ne(hn::PromoteTo(lanes, words), hn::Zero(lanes)))};
  }
}

template <class T>
HWY_INLINE hn::Vec<Bytes<T>> bytes_of_truth(Truth<T> truth) {
#if WINDROW_HAVE_AVX512
  return {_mm_maskz_set1_epi8(static_cast<__mmask16>(truth.mask.raw), 1)};
#endif
  const hn::ScalableTag<T> d;
  const hn::Rebind<std::int32_t, decltype(d)> words;
  if constexpr (sizeof(T) == 8) {
    return hn::DemoteTo(Bytes<T>(), hn::DemoteTo(words, hn::IfThenElseZero(truth.mask, hn::Set(d, T{1}))));
  } else {
    return hn::DemoteTo(Bytes<T>(), hn::IfThenElseZero(hn::RebindMask(words, truth.mask), hn::Set(words, 1)));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
