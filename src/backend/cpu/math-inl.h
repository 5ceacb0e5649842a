// SIMD elementary functions in f32 and f64, one copy per Highway target. Each states the greatest error that
// tests/map_kernel_test.cpp has met on any target (the bounds it enforces are those of elementwise.def), relative to
// the result in units of 2^-24 (f32) or 2^-53 (f64, the oracle's own rounding included). All are right for zeros,
// infinities and NaN. Included again for every target: no #pragma once.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#if defined(WINDROW_BACKEND_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_MATH_INL_H
#undef WINDROW_BACKEND_CPU_MATH_INL_H
#else
#define WINDROW_BACKEND_CPU_MATH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
inline constexpr bool kIsF32 = sizeof(hn::TFromD<D>) == 4;
// getexp, getmant, scalef, rcp14 and rsqrt14 exist for full 512-bit vectors only as far as we use them.
#undef WINDROW_HAVE_AVX512
#if HWY_TARGET <= HWY_AVX3
#define WINDROW_HAVE_AVX512 1
#else
#define WINDROW_HAVE_AVX512 0
#endif

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

/// The larger and the smaller of two: the second if either is NaN, so that a NaN in the second stays. Highway's own
/// drop a NaN on NEON.
template <class V>
HWY_INLINE V larger_of(V a, V b) {
#if HWY_TARGET == HWY_NEON
  return hn::IfThenElse(hn::IsNaN(b), b, hn::Max(a, b));
#else
  return hn::Max(a, b);
#endif
}
template <class V>
HWY_INLINE V smaller_of(V a, V b) {
#if HWY_TARGET == HWY_NEON
  return hn::IfThenElse(hn::IsNaN(b), b, hn::Min(a, b));
#else
  return hn::Min(a, b);
#endif
}

/// Horner's scheme, lowest coefficient first: the fewest instructions; independent vectors hide its latency.
template <class D, class V>
HWY_INLINE V polynomial(D d, V, double c0) {
  return constant(d, c0);
}
template <class D, class V, class... More>
HWY_INLINE V polynomial(D d, V x, double c0, More... more) {
  return hn::MulAdd(polynomial(d, x, more...), x, constant(d, c0));
}

// ---- powers of two ----

/// 1.5 * 2^mantissa bits: adding it to a small number leaves the nearest integer in the low bits.
template <class D>
HWY_INLINE hn::Vec<D> rounding_shift(D d) {
  return constant(d, kIsF32<D> ? 12582912.0 : 6755399441055744.0);
}

/// 2^n for an integral n within the normal exponents.
template <class D, class V>
HWY_INLINE V exact_power_of_two(D d, V n) {
  constexpr int kMantissa = kIsF32<D> ? 23 : 52, kBias = kIsF32<D> ? 127 : 1023;
  const auto shifted = hn::Add(n, hn::Add(rounding_shift(d), constant(d, kBias)));
  return hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::BitCast(hn::RebindToUnsigned<D>(), shifted)));
}

/// y * 2^n for an integral n, with overflow to infinity and gradual underflow.
template <class D, class V>
HWY_INLINE V scale(D d, V y, V n) {
#if WINDROW_HAVE_AVX512
  (void)d;
  if constexpr (kIsF32<D>) return V{_mm512_scalef_ps(y.raw, n.raw)};
  if constexpr (!kIsF32<D>) return V{_mm512_scalef_pd(y.raw, n.raw)};
#else
  const V half = hn::Round(hn::Mul(n, constant(d, 0.5)));  // two factors, as 2^n itself may be out of range
  return hn::Mul(hn::Mul(y, exact_power_of_two(d, half)), exact_power_of_two(d, hn::Sub(n, half)));
#endif
}

// ---- reciprocal, quotient, inverse square root ----

#if WINDROW_HAVE_AVX512
// Infinity or NaN: where a Newton step met 0 * infinity and the approximate instruction's result is already final.
HWY_INLINE __mmask16 not_finite(__m512 x) { return _mm512_fpclass_ps_mask(x, 0x01 | 0x80 | 0x08 | 0x10); }
#endif

/// 1 / x: f32 within 2 units, f64 correctly rounded.
template <class D, class V>
HWY_INLINE V reciprocal_of(D d, V x) {
#if WINDROW_HAVE_AVX512
  if constexpr (kIsF32<D>) {
    const __m512 y = _mm512_rcp14_ps(x.raw);
    const __m512 error = _mm512_fnmadd_ps(x.raw, y, _mm512_set1_ps(1.0f));
    return V{_mm512_mask_fmadd_ps(y, _knot_mask16(not_finite(error)), error, y)};
  }
#endif
  return hn::Div(constant(d, 1), x);
}

/// a / b for a finite b with a normal reciprocal: f32 about as good as a division, f64 a division.
template <class D, class V>
HWY_INLINE V quotient(D d, V a, V b) {
  (void)d;
#if WINDROW_HAVE_AVX512
  if constexpr (kIsF32<D>) {
    const __m512 r = _mm512_rcp14_ps(b.raw);
    const __m512 q = _mm512_mul_ps(a.raw, r);
    return V{_mm512_fmadd_ps(_mm512_fnmadd_ps(q, b.raw, a.raw), r, q)};
  }
#endif
  return hn::Div(a, b);
}

/// 1 / sqrt(x): f32 within 2 units.
template <class D, class V>
HWY_INLINE V rsqrt_of(D d, V x) {
#if WINDROW_HAVE_AVX512
  if constexpr (kIsF32<D>) {
    const __m512 y = _mm512_rsqrt14_ps(x.raw);
    const __m512 half = _mm512_mul_ps(y, _mm512_set1_ps(0.5f));
    const __m512 error = _mm512_fnmadd_ps(_mm512_mul_ps(x.raw, y), half, _mm512_set1_ps(0.5f));
    return V{_mm512_mask_fmadd_ps(y, _knot_mask16(not_finite(error)), error, y)};
  }
#endif
  return hn::Div(constant(d, 1), hn::Sqrt(x));
}

/// sqrt(x), as fast as the target can: f32 within 2 units, denormals as they are.
template <class D, class V>
HWY_INLINE V root_of(D d, V x) {
  (void)d;
#if WINDROW_HAVE_AVX512
  if constexpr (kIsF32<D>) {
    const __mmask16 is_its_own_root = _mm512_fpclass_ps_mask(x.raw, 0x02 | 0x04 | 0x08 | 0x20);  // 0, -0, inf, denormal
    return V{_mm512_mask_mov_ps(hn::Mul(x, rsqrt_of(d, x)).raw, is_its_own_root, x.raw)};
  }
#endif
  return hn::Sqrt(x);
}

// ---- exponentials ----

/// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
template <class D, class V>
HWY_INLINE V exp_series(D d, V r) {
  if constexpr (kIsF32<D>) return polynomial(d, r, 0.5, 0.1666657631, 0.04166655376, 0.008363292753, 0.001392632562);
  return polynomial(d, r, 0.50000000000000010417, 0.16666666666666667468, 0.041666666666623476764,
                    0.0083333333333300117609, 0.0013888888917538295848, 0.00019841269863303223296,
                    0.000024801520792572692843, 2.7557268072890098263e-6, 2.762032742826823816e-7,
                    2.5100569275813682631e-8);
}

/// x = n ln 2 + r with |r| <= ln 2 / 2; returns exp(r) - 1 - r over r^2.
template <class D, class V>
HWY_INLINE V reduce_exponent(D d, V x, V& n, V& r) {
  const V shift = rounding_shift(d);
  n = hn::Sub(hn::MulAdd(x, constant(d, 1.4426950408889634), shift), shift);
  // ln 2 in two parts, the first short enough that n times it is exact.
  r = hn::NegMulAdd(n, constant(d, kIsF32<D> ? 0.693145751953125 : 0.69314718055966295651), x);
  r = hn::NegMulAdd(n, constant(d, kIsF32<D> ? 1.428606765330187045e-6 : 2.8235290563031577e-13), r);
  return exp_series(d, r);
}

// Clamping with the constant first keeps NaN: x86 min and max return their second operand then.
template <class D, class V>
HWY_INLINE V clamp_keep_nan(D d, V x, double low, double high) {
  return larger_of(constant(d, low), smaller_of(constant(d, high), x));
}

/// Within 2 units.
template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
  V n, r;
  x = clamp_keep_nan(d, x, kIsF32<D> ? -105.0 : -746.0, kIsF32<D> ? 89.0 : 710.0);
  const V q = reduce_exponent(d, x, n, r);
  return scale(d, hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), constant(d, 1)), n);
}

/// The same for |x| <= 80 (f32) or 700 (f64) alone, and NaN: no end to look after.
template <class D, class V>
HWY_INLINE V exp_inside(D d, V x) {
  V n, r;
  const V q = reduce_exponent(d, x, n, r);
  return hn::Mul(hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), constant(d, 1)), exact_power_of_two(d, n));
}

/// Within 3 units.
template <class D, class V>
HWY_INLINE V expm1_of(D d, V x) {
  V n, r;
  x = clamp_keep_nan(d, x, -40.0, kIsF32<D> ? 89.0 : 710.0);
  const V q = reduce_exponent(d, x, n, r);
  const V p = hn::MulAdd(q, hn::Mul(r, r), r);
  // 2^n itself may overflow where the result does not.
  const V half_power = exact_power_of_two(d, hn::Sub(n, constant(d, 1)));
  const V half = hn::MulAdd(p, half_power, hn::Sub(half_power, constant(d, 0.5)));
  return hn::Add(half, half);
}

/// `magnitude` with the sign of x: exactly 1 where |x| >= limit (there it is 1 within 2 units), and never beyond 1.
template <class D, class V>
HWY_INLINE V saturated(D d, V x, V magnitude, double limit) {
  const V one = constant(d, 1);
  const V y = hn::IfThenElse(hn::Ge(hn::Abs(x), constant(d, limit)), one, smaller_of(one, magnitude));
  return hn::CopySign(y, x);
}

/// From here on tanh is 1 within 2 units.
template <class D>
inline constexpr double kTanhEnd = kIsF32<D> ? 8.4 : 22;

/// tanh(x) = p / q for |x| <= kTanhEnd: f32 within 6 units by a rational fit, f64 within 4 by expm1.
template <class D, class V>
HWY_INLINE void tanh_fraction(D d, V x, V& p, V& q) {
  if constexpr (kIsF32<D>) {
    const V z = hn::Mul(x, x);
    p = hn::Mul(x,
                polynomial(d, z, 0.99999998075, 0.133799205392, 0.00349425756752, 2.05864951891e-5, 1.33221034845e-8));
    q = polynomial(d, z, 1.0, 0.46713236645, 0.0258719665753, 0.000328342862527, 7.76349787476e-7);
  } else {
    const V t = expm1_of(d, hn::Add(hn::Abs(x), hn::Abs(x)));
    p = hn::CopySign(t, x);
    q = hn::Add(t, constant(d, 2));
  }
}

/// As good as its fraction, and never beyond -1 or 1.
template <class D, class V>
HWY_INLINE V tanh_of(D d, V x) {
  V p, q;
  tanh_fraction(d, smaller_of(constant(d, kTanhEnd<D>), hn::Abs(x)), p, q);
  if constexpr (kIsF32<D>) return saturated(d, x, quotient(d, p, q), kTanhEnd<D>);
  return hn::CopySign(hn::Div(p, q), x);
}

// ---- logarithms ----

/// x = 2^e m with m around 1, for positive x (denormals too).
template <class D, class V>
HWY_INLINE V split_exponent(D d, V x, V& e) {
#if WINDROW_HAVE_AVX512
  if constexpr (kIsF32<D>) {
    const __m512 m = _mm512_getmant_ps(x.raw, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
    e = V{_mm512_sub_ps(_mm512_getexp_ps(x.raw), _mm512_getexp_ps(m))};
    return V{m};
  }
#endif
  using Bits = hn::RebindToSigned<D>;
  constexpr Bits bits;
  using TI = hn::TFromD<Bits>;
  constexpr int kMantissa = kIsF32<D> ? 23 : 52;
  const auto tiny = hn::Lt(x, constant(d, std::numeric_limits<hn::TFromD<D>>::min()));
  x = hn::IfThenElse(tiny, hn::Mul(x, constant(d, 18014398509481984.0)), x);  // 2^54
  const auto raw = hn::BitCast(bits, x);
  const auto sqrt_half = hn::Set(bits, kIsF32<D> ? static_cast<TI>(0x3F3504F3) : static_cast<TI>(0x3FE6A09E667F3BCDLL));
  const auto exponent = hn::ShiftRight<kMantissa>(hn::Sub(raw, sqrt_half));
  // Integer to float by putting it under the rounding shift's bits.
  const V shift = rounding_shift(d);
  e = hn::Sub(hn::BitCast(d, hn::Add(exponent, hn::BitCast(bits, shift))), shift);
  e = hn::Sub(e, hn::IfThenElseZero(tiny, constant(d, 54)));
  return hn::BitCast(d, hn::Sub(raw, hn::ShiftLeft<kMantissa>(exponent)));
}

/// e ln 2 + log(1 + f) for f in [-0.293, 0.5] (f32) or [-0.293, 0.415] (f64).
template <class D, class V>
HWY_INLINE V log_core(D d, V e, V f) {
  const V half_square = hn::Mul(hn::Mul(f, f), constant(d, 0.5));
  if constexpr (kIsF32<D>) {
    const V p = polynomial(d, f, 0.3333333022, -0.2500007377, 0.200009572, -0.1666120022, 0.1423610965, -0.1256621371,
                           0.1195000397, -0.1061849129, 0.05217906194);
    const V cubic = hn::MulAdd(p, hn::Mul(hn::Mul(f, f), f), hn::Mul(e, constant(d, 9.0580006145e-6)));
    return hn::MulAdd(e, constant(d, 0.69313812256), hn::Add(f, hn::Sub(cubic, half_square)));
  }
  // musl's log: in s = f / (2 + f) the series has even powers only.
  const V s = hn::Div(f, hn::Add(f, constant(d, 2)));
  const V z = hn::Mul(s, s);
  const V p = hn::Mul(
      z, polynomial(d, z, 0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396,
                    0.1818357216161805012, 0.1531383769920937332, 0.1479819860511658591));
  const V low = hn::MulAdd(s, hn::Add(half_square, p), hn::Mul(e, constant(d, 1.90821492927058770002e-10)));
  return hn::Sub(hn::Mul(e, constant(d, 0.693147180369123816490)), hn::Sub(hn::Sub(half_square, low), f));
}

/// Within 2 units.
template <class D, class V>
HWY_INLINE V log_of(D d, V x) {
  V e;
  const V m = split_exponent(d, x, e);
  V y = log_core(d, e, hn::Sub(m, constant(d, 1)));
  if constexpr (WINDROW_HAVE_AVX512 && kIsF32<D>) return y;  // getexp and getmant bring the special values with them
  const double infinity = std::numeric_limits<double>::infinity();
  y = hn::IfThenElse(hn::Lt(x, constant(d, infinity)), y, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), constant(d, -infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, hn::NaN(d));
}

/// Within 2 units.
template <class D, class V>
HWY_INLINE V log1p_of(D d, V x) {
  const V one = constant(d, 1), y = hn::Add(x, one);
  const V back = hn::Sub(y, one);
  const V lost = hn::Add(hn::Sub(one, hn::Sub(y, back)), hn::Sub(x, back));  // exactly 1 + x - y
  V e;
  const V m = split_exponent(d, y, e);
#if WINDROW_HAVE_AVX512
  const V rest = scale(d, lost, hn::Neg(e));
#else
  // What the sum lost matters only below 2^60, and 2^-e must stay a normal number.
  const V rest = hn::Mul(lost, exact_power_of_two(d, hn::Neg(smaller_of(e, constant(d, 100)))));
#endif
  V r = log_core(d, e, hn::Add(rest, hn::Sub(m, one)));
  const double infinity = std::numeric_limits<double>::infinity();
  r = hn::IfThenElse(hn::Lt(x, constant(d, infinity)), r, x);
  const V pole = hn::IfThenElse(hn::Eq(x, constant(d, -1)), constant(d, -infinity), hn::NaN(d));
  return hn::IfThenElse(hn::Gt(x, constant(d, -1)), r, pole);
}

/// log(1 + x) for x from 0 to 1, and NaN: f32 within 4 units by a polynomial.
template <class D, class V>
HWY_INLINE V log1p_unit_of(D d, V x) {
  if constexpr (kIsF32<D>)
    return hn::Mul(x,
                   polynomial(d, x, 0.999999995287, -0.499999024197, 0.33329962343, -0.249541330544, 0.196759368336,
                              -0.153055871486, 0.106036479074, -0.0569594839461, 0.0198514441538, -0.00324402281565));
  return log1p_of(d, x);
}

// ---- error function ----

/// f32 within 6 units by a rational fit; f64 within 3: a polynomial below 1, exp(-x^2) times one above.
template <class D, class V>
HWY_INLINE V erf_of(D d, V x) {
  if constexpr (kIsF32<D>) {
    const V a = smaller_of(constant(d, 3.76), hn::Abs(x)), z = hn::Mul(a, a);
    const V p = hn::Mul(a, polynomial(d, z, 1.12837914546, 0.191439212603, 0.052859248458, 0.00380296690199,
                                      0.000284500545188, 2.02586013098e-6));
    const V q =
        polynomial(d, z, 1.0, 0.502991291884, 0.114512333246, 0.015044766135, 0.00116933316517, 3.78214592028e-5);
    return saturated(d, x, quotient(d, p, q), 3.76);
  }
  const V a = smaller_of(constant(d, 6), hn::Abs(x)), z = hn::Mul(a, a);
  const V near = hn::Mul(a, polynomial(d, z, 1.1283791670955125738, -0.37612638903183748056, 0.11283791670954878666,
                                       -0.026866170645076793248, 0.0052239776248180144672, -0.00085483269808337899044,
                                       0.00012055331111642710898, -0.000014925595266831181034, 1.6461000484121360226e-6,
                                       -1.6350312701054618379e-7, 1.4659775274046954509e-8, -1.1372848856789924735e-9,
                                       5.9571761477461149605e-11));
  // erfc(a) = exp(-a^2) F(t) / (1 + 2a) with t = (a - 3) / (a + 3); one division serves both quotients.
  const V a3 = hn::Add(a, constant(d, 3)), a2 = hn::MulAdd(a, constant(d, 2), constant(d, 1));
  const V inverse = hn::Div(constant(d, 1), hn::Mul(a3, a2));
  const V t = hn::Mul(hn::Sub(a, constant(d, 3)), hn::Mul(a2, inverse));
  const V f = polynomial(d, t, 1.2530080582697296862, -0.13562110612459169243, -0.047562294353479973074,
                         0.12964515870509552965, -0.11927366341021058, 0.068308027196510705874,
                         -0.023770515261309677252, 0.0025293957510214501229, 0.0018887009479258937136,
                         -0.0007798808709370723501, -0.00010532092840074129314, 0.00012533633056551770221,
                         6.1214745102888424714e-6, -0.000019952144121369160978, -3.9473172524904871639e-6);
  const V tail = hn::Mul(exp_of(d, hn::Neg(z)), hn::Mul(f, hn::Mul(a3, inverse)));
  const V y = hn::IfThenElse(hn::Lt(a, constant(d, 1)), near, hn::Sub(constant(d, 1), tail));
  return hn::CopySign(y, x);
}

// ---- sine, cosine ----

// Beyond this the vector range reduction loses digits; such lanes go one by one through the C library.
inline constexpr double kTrigonometricLimit = 30000;

template <class D, class V, double (*Function)(double)>
HWY_NOINLINE V patch_large(D d, V x, V y) {
  using T = hn::TFromD<D>;
  alignas(64) T in[hn::MaxLanes(D())], out[hn::MaxLanes(D())];
  hn::Store(x, d, in);
  hn::Store(y, d, out);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i)
    if (!(std::fabs(in[i]) <= kTrigonometricLimit)) out[i] = static_cast<T>(Function(in[i]));
  return hn::Load(d, out);
}

/// Within 3 units.
template <class D, class V>
HWY_INLINE V sin_of(D d, V x) {
  const auto fine = hn::Le(hn::Abs(x), constant(d, kTrigonometricLimit));
  const V y = hn::Sin(d, hn::IfThenElseZero(fine, x));
  return HWY_LIKELY(hn::AllTrue(d, fine)) ? y : patch_large<D, V, std::sin>(d, x, y);
}

/// Within 3 units.
template <class D, class V>
HWY_INLINE V cos_of(D d, V x) {
  const auto fine = hn::Le(hn::Abs(x), constant(d, kTrigonometricLimit));
  const V y = hn::Cos(d, hn::IfThenElseZero(fine, x));
  return HWY_LIKELY(hn::AllTrue(d, fine)) ? y : patch_large<D, V, std::cos>(d, x, y);
}

// ---- power ----

/// a^b in f64: the error grows with |b log a|; within 8 units where that is below 5. Signs, zeros and infinities as in
/// C.
template <class D, class V>
HWY_INLINE V pow_f64(D d, V a, V b) {
  const V one = constant(d, 1), zero = hn::Zero(d), magnitude = hn::Abs(a);
  const auto unit = hn::Or(hn::Eq(magnitude, one), hn::Eq(b, zero));
  const V y = hn::IfThenElse(unit, one, exp_of(d, hn::Mul(b, log_of(d, magnitude))));
  const V half = hn::Mul(b, constant(d, 0.5));
  const auto whole = hn::Eq(b, hn::Floor(b));
  const auto odd = hn::AndNot(hn::Eq(half, hn::Floor(half)), whole);
  const V signed_y = hn::IfThenElse(odd, hn::CopySign(y, a), y);
  const auto negative =
      hn::And(hn::Lt(a, zero), hn::Lt(magnitude, constant(d, std::numeric_limits<double>::infinity())));
  return hn::IfThenElse(hn::AndNot(whole, negative), hn::NaN(d), signed_y);
}

/// f32 by way of f64, within 2 units; f64 as above.
template <class D, class V>
HWY_INLINE V pow_of(D d, V a, V b) {
  if constexpr (kIsF32<D>) {
    const hn::Repartition<double, D> wide;
    const hn::Half<D> half;
    const auto low = pow_f64(wide, hn::PromoteTo(wide, hn::LowerHalf(a)), hn::PromoteTo(wide, hn::LowerHalf(b)));
    const auto high =
        pow_f64(wide, hn::PromoteTo(wide, hn::UpperHalf(half, a)), hn::PromoteTo(wide, hn::UpperHalf(half, b)));
    return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
  } else {
    return pow_f64(d, a, b);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
