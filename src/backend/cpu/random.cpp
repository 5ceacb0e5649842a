// Philox4x32-10 over vectors of blocks, and what the distributions make of its words.
#include "backend/cpu/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/random.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "backend/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;

using D64 = hn::ScalableTag<uint64_t>;
using D32 = hn::Repartition<uint32_t, D64>;
using F32 = hn::RebindToFloat<D32>;
using F64 = hn::RebindToFloat<D64>;
using V64 = hn::Vec<D64>;
using V32 = hn::Vec<D32>;
using VF32 = hn::Vec<F32>;
using VF64 = hn::Vec<F64>;
constexpr int kBlocks = HWY_MAX_BYTES / 8;  // Philox blocks made at once, one a 64-bit lane

// The words of kBlocks Philox blocks: word k of a block in the low half of a lane of w[k]; the high halves are noise.
struct Words {
  V64 w[4];
};

// Lane 2k holds block k and lane 2k + 1 block kBlocks / 2 + k: interleaving the lower, then the upper halves of the
// 128-bit parts then gives the numbers in order, without any further shuffle.
HWY_INLINE V64 block_numbers(uint64_t first) {
  const D64 d;
  HWY_ALIGN uint64_t lanes[kBlocks];
  for (int k = 0; k < kBlocks / 2; ++k) lanes[2 * k] = k, lanes[2 * k + 1] = kBlocks / 2 + k;
  return hn::Add(hn::Set(d, first), hn::Load(d, lanes));
}

// Multiplying 32-bit words in 64-bit lanes gives both halves of the product at once; the unused halves of the lanes
// need no cleaning, since the multiplication ignores them.
HWY_INLINE Words philox(const RandomParams& p, uint32_t step, uint64_t first_block) {
  const D64 d;
  const D32 d32;
  const auto mul = [=](V64 a, uint32_t b) HWY_ATTR { return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b)); };
  const auto high = [=](V64 a) HWY_ATTR { return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, a))); };
  V64 c0 = block_numbers(first_block), c1 = hn::ShiftRight<32>(c0);
  V64 c2 = hn::Set(d, step), c3 = hn::Set(d, p.stream);
  uint32_t k0 = static_cast<uint32_t>(p.seed), k1 = static_cast<uint32_t>(p.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const V64 low = mul(c0, 0xD2511F53u), top = mul(c2, 0xCD9E8D57u);
    c0 = hn::Xor3(high(top), c1, hn::Set(d, k0));
    c2 = hn::Xor3(high(low), c3, hn::Set(d, k1));
    c1 = top, c3 = low;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// low half of a, low half of b, in each 64-bit lane
HWY_INLINE V64 join(V64 a, V64 b) {
  const D64 d;
  return hn::Or(hn::And(a, hn::Set(d, 0xFFFFFFFFu)), hn::ShiftLeft<32>(b));
}

struct Pair32 {
  V32 first, second;
};
HWY_INLINE Pair32 in_order(const Words& words) {
  const D64 d;
  const D32 d32;
  const V64 a = join(words.w[0], words.w[1]), b = join(words.w[2], words.w[3]);
  return {hn::BitCast(d32, hn::InterleaveLower(d, a, b)), hn::BitCast(d32, hn::InterleaveUpper(d, a, b))};
}

// ---- f32 ----
HWY_INLINE VF32 to_float(V32 small) {  // below 2^31
  const F32 f;
  return hn::ConvertTo(f, hn::BitCast(hn::RebindToSigned<D32>(), small));
}

// ln x for normal x > 0, after fdlibm's logf, within 1 ULP or so.
HWY_INLINE VF32 log_of(VF32 x) {
  const F32 f;
  const D32 d;
  const auto c = [=](float value) HWY_ATTR { return hn::Set(f, value); };
  const V32 bits = hn::Add(hn::BitCast(d, x), hn::Set(d, 0x3f800000u - 0x3f3504f3u));
  const VF32 k = hn::Sub(to_float(hn::ShiftRight<23>(bits)), c(127.0f));
  const V32 mantissa = hn::Add(hn::And(bits, hn::Set(d, 0x007fffffu)), hn::Set(d, 0x3f3504f3u));
  const VF32 t = hn::Sub(hn::BitCast(f, mantissa), c(1.0f));
  const VF32 s = hn::Div(t, hn::Add(c(2.0f), t));
  const VF32 z = hn::Mul(s, s), w = hn::Mul(z, z);
  const VF32 odd = hn::Mul(z, hn::Add(c(0xaaaaaa.0p-24f), hn::Mul(w, c(0x91e9ee.0p-25f))));
  const VF32 even = hn::Mul(w, hn::Add(c(0xccce13.0p-25f), hn::Mul(w, c(0xf89e26.0p-26f))));
  const VF32 half = hn::Mul(c(0.5f), hn::Mul(t, t));
  const VF32 inner = hn::Add(hn::Mul(s, hn::Add(half, hn::Add(odd, even))), hn::Mul(k, c(9.0580006145e-06f)));
  return hn::Add(hn::Sub(t, hn::Sub(half, inner)), hn::Mul(k, c(6.9313812256e-01f)));
}

// cos and sin of 2 pi phase / 2^32: the quarter turn nearest to the phase is taken off in integers, exactly.
HWY_INLINE void circle(V32 phase, VF32& cosine, VF32& sine) {
  const F32 f;
  const D32 d;
  const hn::RebindToSigned<D32> i;
  const auto c = [=](float value) HWY_ATTR { return hn::Set(f, value); };
  const V32 quarter = hn::ShiftRight<30>(hn::Add(phase, hn::Set(d, 1u << 29)));
  const V32 rest = hn::Sub(phase, hn::ShiftLeft<30>(quarter));
  const VF32 a = hn::Mul(hn::ConvertTo(f, hn::BitCast(i, rest)), c(1.46291807926716e-9f));  // 2 pi / 2^32
  const VF32 z = hn::Mul(a, a);
  const VF32 sin_tail =
      hn::Add(c(-1.6666654611e-1f), hn::Mul(z, hn::Add(c(8.3321608736e-3f), hn::Mul(z, c(-1.9515295891e-4f)))));
  const VF32 s = hn::Add(a, hn::Mul(hn::Mul(a, z), sin_tail));
  const VF32 cos_tail = hn::Add(c(4.166664568298827e-2f),
                                hn::Mul(z, hn::Add(c(-1.388731625493765e-3f), hn::Mul(z, c(2.443315711809948e-5f)))));
  const VF32 co = hn::Add(hn::Sub(c(1.0f), hn::Mul(c(0.5f), z)), hn::Mul(hn::Mul(z, z), cos_tail));
  const auto swap = hn::MaskFromVec(hn::BitCast(f, hn::Sub(hn::Zero(d), hn::And(quarter, hn::Set(d, 1u)))));
  const V32 sign = hn::Set(d, 0x80000000u);
  const V32 sin_sign = hn::And(hn::ShiftLeft<30>(quarter), sign);
  const V32 cos_sign = hn::And(hn::ShiftLeft<30>(hn::Add(quarter, hn::Set(d, 1u))), sign);
  cosine = hn::Xor(hn::IfThenElse(swap, s, co), hn::BitCast(f, cos_sign));
  sine = hn::Xor(hn::IfThenElse(swap, co, s), hn::BitCast(f, sin_sign));
}

struct Uniform32 {
  using T = float;
  static constexpr int kPerBlock = 4;
  HWY_INLINE void operator()(const Words& words, float* out) const {
    const F32 f;
    const Pair32 v = in_order(words);
    hn::StoreU(hn::Mul(to_float(hn::ShiftRight<8>(v.first)), hn::Set(f, 0x1p-24f)), f, out);
    hn::StoreU(hn::Mul(to_float(hn::ShiftRight<8>(v.second)), hn::Set(f, 0x1p-24f)), f, out + 2 * kBlocks);
  }
};

struct Normal32 {
  using T = float;
  static constexpr int kPerBlock = 4;
  HWY_INLINE void operator()(const Words& words, float* out) const {
    const F32 f;
    const D32 d;
    const V32 a = hn::BitCast(d, join(words.w[0], words.w[2])), b = hn::BitCast(d, join(words.w[1], words.w[3]));
    // (a + 1/2) / 2^32, rounded once: small values keep their precision, which is what the tails are made of.
    const VF32 upper = hn::Mul(to_float(hn::ShiftRight<16>(a)), hn::Set(f, 65536.0f));
    const VF32 lower = hn::Add(to_float(hn::And(a, hn::Set(d, 0xFFFFu))), hn::Set(f, 0.5f));
    const VF32 u = hn::Mul(hn::Add(upper, lower), hn::Set(f, 0x1p-32f));
    const VF32 radius = hn::Sqrt(hn::Max(hn::Zero(f), hn::Mul(hn::Set(f, -2.0f), log_of(u))));
    VF32 cosine, sine;
    circle(b, cosine, sine);
    const VF32 x = hn::Mul(radius, cosine), y = hn::Mul(radius, sine);
    hn::StoreU(hn::InterleaveLower(f, x, y), f, out);
    hn::StoreU(hn::InterleaveUpper(f, x, y), f, out + 2 * kBlocks);
  }
};

// ---- f64 ----
HWY_INLINE VF64 to_double(V64 small) {  // below 2^52; there is no such instruction before AVX-512
  const D64 d;
  const F64 f;
  return hn::Sub(hn::BitCast(f, hn::Or(small, hn::Set(d, 0x4330000000000000u))), hn::Set(f, 0x1p52));
}

HWY_INLINE VF64 log_of(VF64 x) {  // fdlibm's log
  const F64 f;
  const D64 d;
  const auto c = [=](double value) HWY_ATTR { return hn::Set(f, value); };
  const V64 bits = hn::Add(hn::BitCast(d, x), hn::Set(d, uint64_t{0x3ff00000u - 0x3fe6a09eu} << 32));
  const VF64 k = hn::Sub(to_double(hn::ShiftRight<52>(bits)), c(1023.0));
  const V64 mantissa = hn::Add(hn::And(bits, hn::Set(d, 0x000fffffffffffffu)), hn::Set(d, uint64_t{0x3fe6a09eu} << 32));
  const VF64 t = hn::Sub(hn::BitCast(f, mantissa), c(1.0));
  const VF64 s = hn::Div(t, hn::Add(c(2.0), t));
  const VF64 z = hn::Mul(s, s), w = hn::Mul(z, z);
  const auto step = [=](double a, VF64 rest) HWY_ATTR { return hn::Add(c(a), hn::Mul(w, rest)); };
  const VF64 even =
      hn::Mul(w, step(3.999999999940941908e-01, step(2.222219843214978396e-01, c(1.531383769920937332e-01))));
  const VF64 odd =
      hn::Mul(z, step(6.666666666666735130e-01,
                      step(2.857142874366239149e-01, step(1.818357216161805012e-01, c(1.479819860511658591e-01)))));
  const VF64 half = hn::Mul(c(0.5), hn::Mul(t, t));
  const VF64 inner = hn::Add(hn::Mul(s, hn::Add(half, hn::Add(odd, even))), hn::Mul(k, c(1.90821492927058770002e-10)));
  return hn::Add(hn::Sub(t, hn::Sub(half, inner)), hn::Mul(k, c(6.93147180369123816490e-01)));
}

HWY_INLINE void circle(V64 phase, VF64& cosine, VF64& sine) {  // fdlibm's sin and cos on [-pi/4, pi/4]
  const F64 f;
  const D64 d;
  const auto c = [=](double value) HWY_ATTR { return hn::Set(f, value); };
  const V64 moved = hn::Add(phase, hn::Set(d, uint64_t{1} << 61)), quarter = hn::ShiftRight<62>(moved);
  const V64 rest = hn::ShiftRight<10>(hn::And(moved, hn::Set(d, (uint64_t{1} << 62) - 1)));
  const VF64 a = hn::Mul(hn::Sub(to_double(rest), c(0x1p51)), c(6.283185307179586476925 * 0x1p-54));
  const VF64 z = hn::Mul(a, a);
  const auto step = [=](double first, VF64 more) HWY_ATTR { return hn::Add(c(first), hn::Mul(z, more)); };
  const VF64 sin_tail = step(
      -1.66666666666666324348e-01,
      step(8.33333333332248946124e-03,
           step(-1.98412698298579493134e-04,
                step(2.75573137070700676789e-06, step(-2.50507602534068634195e-08, c(1.58969099521155010221e-10))))));
  const VF64 s = hn::Add(a, hn::Mul(hn::Mul(a, z), sin_tail));
  const VF64 cos_tail = step(
      4.16666666666666019037e-02,
      step(-1.38888888888741095749e-03,
           step(2.48015872894767294178e-05,
                step(-2.75573143513906633035e-07, step(2.08757232129817482790e-09, c(-1.13596475577881948265e-11))))));
  const VF64 co = hn::Add(hn::Sub(c(1.0), hn::Mul(c(0.5), z)), hn::Mul(hn::Mul(z, z), cos_tail));
  const auto swap = hn::MaskFromVec(hn::BitCast(f, hn::Sub(hn::Zero(d), hn::And(quarter, hn::Set(d, 1u)))));
  const V64 sign = hn::Set(d, uint64_t{1} << 63);
  const V64 sin_sign = hn::And(hn::ShiftLeft<62>(quarter), sign);
  const V64 cos_sign = hn::And(hn::ShiftLeft<62>(hn::Add(quarter, hn::Set(d, 1u))), sign);
  cosine = hn::Xor(hn::IfThenElse(swap, s, co), hn::BitCast(f, cos_sign));
  sine = hn::Xor(hn::IfThenElse(swap, co, s), hn::BitCast(f, sin_sign));
}

// The top 53 bits of a word as a double below 2^53.
HWY_INLINE VF64 top53(V64 word) {
  const D64 d;
  const F64 f;
  const VF64 upper = hn::Mul(to_double(hn::ShiftRight<32>(word)), hn::Set(f, 0x1p21));
  return hn::Add(upper, to_double(hn::And(hn::ShiftRight<11>(word), hn::Set(d, 0x1FFFFFu))));
}

struct Uniform64 {
  using T = double;
  static constexpr int kPerBlock = 2;
  HWY_INLINE void operator()(const Words& words, double* out) const {
    const F64 f;
    const VF64 scale = hn::Set(f, 0x1p-53);
    const VF64 x = hn::Mul(top53(join(words.w[1], words.w[0])), scale);
    const VF64 y = hn::Mul(top53(join(words.w[3], words.w[2])), scale);
    hn::StoreU(hn::InterleaveLower(f, x, y), f, out);
    hn::StoreU(hn::InterleaveUpper(f, x, y), f, out + kBlocks);
  }
};

struct Normal64 {
  using T = double;
  static constexpr int kPerBlock = 2;
  HWY_INLINE void operator()(const Words& words, double* out) const {
    const F64 f;
    const VF64 u =
        hn::Mul(hn::Add(top53(join(words.w[1], words.w[0])), hn::Set(f, 1.0)), hn::Set(f, 0x1p-53));  // (0, 1]
    const VF64 radius = hn::Sqrt(hn::Max(hn::Zero(f), hn::Mul(hn::Set(f, -2.0), log_of(u))));
    VF64 cosine, sine;
    circle(join(words.w[3], words.w[2]), cosine, sine);
    const VF64 x = hn::Mul(radius, cosine), y = hn::Mul(radius, sine);
    hn::StoreU(hn::InterleaveLower(f, x, y), f, out);
    hn::StoreU(hn::InterleaveUpper(f, x, y), f, out + kBlocks);
  }
};

// ---- 0 or 1, and small integers ----
template <class Number>
HWY_INLINE void store_small(Pair32 v, Number* out) {  // values below 2^31
  const hn::RebindToSigned<D32> i;
  const auto first = hn::BitCast(i, v.first), second = hn::BitCast(i, v.second);
  if constexpr (sizeof(Number) == 1) {
    const hn::Rebind<Number, decltype(i)> narrow;
    hn::StoreU(hn::DemoteTo(narrow, first), narrow, out);
    hn::StoreU(hn::DemoteTo(narrow, second), narrow, out + 2 * kBlocks);
  } else if constexpr (std::is_same_v<Number, double>) {
    HWY_ALIGN std::int32_t lanes[4 * kBlocks];
    hn::Store(first, i, lanes);
    hn::Store(second, i, lanes + 2 * kBlocks);
    for (int k = 0; k < 4 * kBlocks; ++k) out[k] = lanes[k];
  } else if constexpr (std::is_same_v<Number, float>) {
    hn::StoreU(to_float(v.first), F32(), out);
    hn::StoreU(to_float(v.second), F32(), out + 2 * kBlocks);
  } else {
    hn::StoreU(first, i, out);
    hn::StoreU(second, i, out + 2 * kBlocks);
  }
}

template <class Number>
struct Bernoulli {
  using T = Number;
  static constexpr int kPerBlock = 4;
  uint32_t last;  // the largest word that gives 1
  uint32_t one;   // 0 if none does
  explicit Bernoulli(const RandomParams& p) {
    const double words = std::nearbyint(std::min(std::max(p.probability, 0.0), 1.0) * 0x1p32);
    one = words > 0;
    last = static_cast<uint32_t>(static_cast<uint64_t>(words) - one);
  }
  HWY_INLINE V32 choose(V32 word) const {
    const D32 d;
    return hn::IfThenZeroElse(hn::Gt(word, hn::Set(d, last)), hn::Set(d, one));
  }
  HWY_INLINE void operator()(const Words& words, T* out) const {
    const Pair32 v = in_order(words);
    store_small(Pair32{choose(v.first), choose(v.second)}, out);
  }
};

template <class Number>
struct Integer {
  using T = Number;
  static constexpr int kPerBlock = 4;
  uint32_t bound;
  explicit Integer(const RandomParams& p) : bound(static_cast<uint32_t>(p.bound)) {}
  HWY_INLINE void operator()(const Words& words, T* out) const {
    const D32 d;
    Words scaled;
    for (int k = 0; k < 4; ++k)
      scaled.w[k] = hn::ShiftRight<32>(hn::MulEven(hn::BitCast(d, words.w[k]), hn::Set(d, bound)));
    store_small(in_order(scaled), out);
  }
};

// Elements [first, first + n) of the whole array. A start or an end inside a group of blocks goes through a buffer.
template <class Make, class T = typename Make::T>
HWY_INLINE void generate(const RandomParams& p, uint32_t step, const Make& make, T* out, int64_t first, int64_t n) {
  constexpr int64_t kGroup = kBlocks * Make::kPerBlock;
  HWY_ALIGN T buffer[kGroup];
  int64_t block = first / Make::kPerBlock, skip = first % Make::kPerBlock;
  while (n > 0) {
    const int64_t take = std::min(n, kGroup - skip);
    if (take == kGroup) {
      make(philox(p, step, block), out);
    } else {
      make(philox(p, step, block), buffer);
      std::copy_n(buffer + skip, take, out);
    }
    out += take, n -= take;
    block += kBlocks;
    skip = 0;
  }
}

template <class Make>
HWY_INLINE void run(const RandomParams& p, void* const* ptr, int64_t row0, const Make& make) {
  typename Make::T* out = static_cast<typename Make::T*>(ptr[0]);
  const uint32_t step = static_cast<uint32_t>(*static_cast<const std::int32_t*>(ptr[1]));
  const int64_t part = p.rows * p.inner;
  if (p.rows == p.extent) return generate(p, step, make, out, row0 * p.inner, p.outer * part);
  for (int64_t o = 0; o < p.outer; ++o) generate(p, step, make, out + o * part, (o * p.extent + row0) * p.inner, part);
}

template <class Make>
void random_plain(const RandomParams& p, void* const* ptr, int64_t row0) {
  run(p, ptr, row0, Make());
}
template <class Make>
void random_with(const RandomParams& p, void* const* ptr, int64_t row0) {
  run(p, ptr, row0, Make(p));
}

}  // namespace

RandomKernel find_random(Distribution distribution, DType dtype) {
  const bool f32 = dtype == DType::f32, f64 = dtype == DType::f64, i32 = dtype == DType::i32;
  switch (distribution) {
    case Distribution::uniform:
      return f32 ? random_plain<Uniform32> : f64 ? random_plain<Uniform64> : nullptr;
    case Distribution::normal:
      return f32 ? random_plain<Normal32> : f64 ? random_plain<Normal64> : nullptr;
    case Distribution::bernoulli:
      return f32   ? random_with<Bernoulli<float>>
             : f64 ? random_with<Bernoulli<double>>
             : i32 ? random_with<Bernoulli<std::int32_t>>
                   : random_with<Bernoulli<std::uint8_t>>;
    case Distribution::integer:
      return i32                  ? random_with<Integer<std::int32_t>>
             : dtype == DType::u8 ? random_with<Integer<std::uint8_t>>
                                  : nullptr;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {
namespace {

// Compiled once, for the weakest target: memory is the limit, and the values are the same everywhere.
template <class T>
void iota(const IotaParams& p, void* const* ptr, std::int64_t row0) {
  T* const out = static_cast<T*>(ptr[0]);
  const std::int64_t part = p.rows * p.inner, shift = p.strip_axis ? row0 : 0;
  if (p.outer == 0 || part == 0) return;
  T* at = out;
  for (std::int64_t r = 0; r < p.rows; ++r, at += p.inner)
    std::fill_n(at, p.inner, static_cast<T>(p.start + p.step * static_cast<double>(r + shift)));
  for (std::int64_t o = 1; o < p.outer; ++o) std::memcpy(out + o * part, out, part * sizeof(T));
}

}  // namespace

RandomKernel find_random(Distribution distribution, DType dtype, Target target) {
  WINDROW_RETURN_FOR(target, find_random(distribution, dtype))
  return nullptr;
}

void philox4x32(const std::uint32_t counter[4], const std::uint32_t key[2], std::uint32_t out[4]) {
  std::uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t low = std::uint64_t{0xD2511F53u} * c[0], top = std::uint64_t{0xCD9E8D57u} * c[2];
    const std::uint32_t c0 = static_cast<std::uint32_t>(top >> 32) ^ c[1] ^ k0;
    const std::uint32_t c2 = static_cast<std::uint32_t>(low >> 32) ^ c[3] ^ k1;
    c[0] = c0, c[1] = static_cast<std::uint32_t>(top), c[2] = c2, c[3] = static_cast<std::uint32_t>(low);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  std::copy_n(c, 4, out);
}

IotaKernel find_iota(DType dtype, Target) {
  switch (dtype) {
    case DType::f32:
      return iota<float>;
    case DType::f64:
      return iota<double>;
    case DType::i32:
      return iota<std::int32_t>;
    case DType::u8:
      return iota<std::uint8_t>;
    case DType::boolean:
      return iota<bool>;
  }
  return nullptr;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
