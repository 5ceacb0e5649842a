#include "backend/device/prelude.h"

namespace wr::device {
namespace {

// The upper half of a vector element by element: oclgrind 21.10 takes what .hi gives for uninitialised.
// Clang makes two registers of a vector of 512 bits unless it is told that whole ones are wanted.
constexpr const char* kOpenCl = R"text(#pragma OPENCL FP_CONTRACT OFF
#define WR_GLOBAL __global
#define WR_LOCAL __local
#ifdef __has_attribute
#if WR_ITEMS == 1 && __has_attribute(min_vector_width)
#define WR_REGISTERS __attribute__((min_vector_width(8 * WR_VECTOR_BYTES)))
#endif
#if WR_ITEMS == 1 && __has_attribute(noinline)
#define WR_APART __attribute__((noinline))
#endif
#endif
#ifndef WR_REGISTERS
#define WR_REGISTERS
#endif
#ifndef WR_APART
#define WR_APART
#endif
#define WR_FUNCTION static
#define WR_STAGES static WR_REGISTERS WR_APART
#define WR_ROLLED
#define WR_FOURFOLD
#define WR_IN_GLOBAL(p)
#define WR_IN_LOCAL(p)
#define WR_KERNEL __kernel WR_REGISTERS __attribute__((reqd_work_group_size(WR_ITEMS, 1, 1))) void
#define WR_EACH_ITEM
#define WR_F32_NAN NAN
#define WR_F32_INFINITY INFINITY
#define WR_F64_NAN ((double)NAN)
#define WR_F64_INFINITY ((double)INFINITY)
#define WR_SPLAT(type, x) ((type)(x))
#define WR_FOUR(type, a, b, c, d) ((type)(a, b, c, d))
#define WR_LOW(type, v) ((v).lo)
#define WR_HIGH_2(type, v) ((v).s1)
#define WR_HIGH_4(type, v) ((type)((v).s2, (v).s3))
#define WR_HIGH_8(type, v) ((type)((v).s4, (v).s5, (v).s6, (v).s7))
#define WR_HIGH_16(type, v) ((type)((v).s8, (v).s9, (v).sa, (v).sb, (v).sc, (v).sd, (v).se, (v).sf))
#define WR_PART(v, k) ((v).s##k)
#define WR_BITS_OF(x) as_uint(x)
#define WR_FLOAT_OF(x) as_float(x)
#define WR_BITS64_OF(x) as_ulong(x)
#define WR_DOUBLE_OF(x) as_double(x)
#if WR_ITEMS == 1
#define WR_BARRIER
#define WR_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define WR_BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#define WR_VECTORISE
#endif
)text";

// Ops are functions that are called: a kernel has dozens of them, and made one, their values stand in each other's way
// (registers are spilled) and compiling takes minutes. Each has its barriers, beside which a call is little. Without
// the number of groups of a unit, a compiler spills registers so that more groups fit than are ever launched.
constexpr const char* kCuda = R"text(typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
#define WR_GLOBAL
#define WR_LOCAL
#define WR_FUNCTION static __device__ __forceinline__
#define WR_STAGES static __device__ __noinline__
#define WR_ROLLED _Pragma("unroll 1")
#define WR_FOURFOLD _Pragma("unroll 4")
#define WR_IN_GLOBAL(p) __builtin_assume(__isGlobal(p));
#define WR_IN_LOCAL(p) __builtin_assume(__isShared(p));
#define WR_KERNEL extern "C" __global__ void __launch_bounds__(WR_ITEMS, WR_GROUPS)
#define WR_EACH_ITEM
#define WR_F32_NAN __int_as_float(0x7fffffff)
#define WR_F32_INFINITY __int_as_float(0x7f800000)
#define WR_F64_NAN __longlong_as_double(0x7fffffffffffffffll)
#define WR_F64_INFINITY __longlong_as_double(0x7ff0000000000000ll)
#define WR_BITS_OF(x) __float_as_uint(x)
#define WR_FLOAT_OF(x) __uint_as_float(x)
#define WR_BITS64_OF(x) ((ulong)__double_as_longlong(x))
#define WR_DOUBLE_OF(x) __longlong_as_double((long long)(x))
#define WR_BARRIER __syncthreads();
#define WR_VECTORISE
)text";

constexpr const char* kCpp = R"text(#include <cmath>
#include <cstring>
typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long ulong;
using std::exp; using std::expm1; using std::log; using std::log1p; using std::sin; using std::cos; using std::tanh;
using std::erf; using std::pow; using std::floor; using std::ceil; using std::rint; using std::sqrt; using std::fabs;
using std::fma;
#define WR_GLOBAL
#define WR_LOCAL
#define WR_FUNCTION static
#define WR_STAGES static
#define WR_ROLLED
#define WR_FOURFOLD
#define WR_IN_GLOBAL(p)
#define WR_IN_LOCAL(p)
#define WR_EACH_ITEM for (int item = WR_ITEMS - 1; item >= 0; --item)
#define WR_F32_NAN __builtin_nanf("")
#define WR_F32_INFINITY __builtin_inff()
#define WR_F64_NAN __builtin_nan("")
#define WR_F64_INFINITY __builtin_inf()
#define WR_BARRIER
#define WR_VECTORISE
#define WR_SPLAT(type, x) wr_splat<type>(x)
#define WR_FOUR(type, a, b, c, d) (type{a, b, c, d})
#define WR_LOW(type, v) wr_half<type>(v, 0)
#define WR_HIGH_2(type, v) wr_half<type>(v, 1)
#define WR_HIGH_4(type, v) wr_half<type>(v, 1)
#define WR_HIGH_8(type, v) wr_half<type>(v, 1)
#define WR_HIGH_16(type, v) wr_half<type>(v, 1)
#define WR_PART(v, k) ((v)[k])
template <class To, class From> static To wr_same_bits(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
#define WR_BITS_OF(x) wr_same_bits<uint>(x)
#define WR_FLOAT_OF(x) wr_same_bits<float>(x)
#define WR_BITS64_OF(x) wr_same_bits<ulong>(x)
#define WR_DOUBLE_OF(x) wr_same_bits<double>(x)
#define WR_VECTORS(T, n) \
  typedef T T##n __attribute__((vector_size(sizeof(T) * n))); \
  static inline T##n vload##n(int, const T* p) { T##n v; std::memcpy(&v, p, sizeof v); return v; } \
  static inline void vstore##n(T##n v, int, T* p) { std::memcpy(p, &v, sizeof v); }
#define WR_FLOAT_VECTORS(T, n) WR_VECTORS(T, n) \
  static inline T##n fma(T##n a, T##n b, T##n c) { for (int i = 0; i < n; ++i) a[i] = fma(a[i], b[i], c[i]); return a; }
WR_FLOAT_VECTORS(float, 2) WR_FLOAT_VECTORS(float, 4) WR_FLOAT_VECTORS(float, 8) WR_FLOAT_VECTORS(float, 16)
WR_FLOAT_VECTORS(double, 2) WR_FLOAT_VECTORS(double, 4) WR_FLOAT_VECTORS(double, 8)
WR_VECTORS(int, 2) WR_VECTORS(int, 4) WR_VECTORS(int, 8) WR_VECTORS(int, 16)
template <class To, class V> static inline To wr_half(V v, int which) {
  To half;
  std::memcpy(&half, reinterpret_cast<const char*>(&v) + which * sizeof half, sizeof half);
  return half;
}
template <class V, class T> static inline V wr_splat(T x) {
  V v;
  for (unsigned i = 0; i < sizeof(V) / sizeof(v[0]); ++i) v[i] = x;
  return v;
}
)text";

// The larger and the smaller one are NaN if either is. exp is within 2 units of 2^-24, tanh within 4: polynomials
// without branches, so that loops over them become vectors. What is added to round, and taken away, is 1.5 * 2^23: rint
// is a dozen instructions where a driver brings its own.
constexpr const char* kFunctions = R"text(
#define wr_max(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define wr_min(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define wr_abs(a) ((a) < 0 ? -(a) : (a))
WR_FUNCTION float wr_exp(float x) {
  const float limited = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  const float n = (limited * 1.44269504f + 12582912.0f) - 12582912.0f;
  const float r = fma(n, -1.42860677e-6f, fma(n, -0.693145752f, limited));
  float y = 1.98412698e-4f;
  y = fma(y, r, 1.38888889e-3f);
  y = fma(y, r, 8.33333333e-3f);
  y = fma(y, r, 4.16666667e-2f);
  y = fma(y, r, 1.66666667e-1f);
  y = fma(y, r, 0.5f);
  y = fma(y, r, 1.0f);
  y = fma(y, r, 1.0f);
  const int whole = (int)(x == x ? n : 0.0f), halved = whole / 2;
  return y * WR_FLOAT_OF((uint)(halved + 127) << 23) * WR_FLOAT_OF((uint)(whole - halved + 127) << 23);
}
WR_FUNCTION float wr_tanh(float x) {
  const float a = fabs(x), z = x * x;
  float y = -5.70498872745e-3f;
  y = fma(y, z, 2.06390887954e-2f);
  y = fma(y, z, -5.37397155531e-2f);
  y = fma(y, z, 1.33314422036e-1f);
  y = fma(y, z, -3.33332819422e-1f);
  const float near = fma(y * z, x, x);
  const float far = 1.0f - 2.0f / (wr_exp(2.0f * a) + 1.0f);
  return a < 0.625f ? near : x < 0.0f ? -far : far;
}
WR_FUNCTION int wr_to_i32_float(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? (-2147483647 - 1) : (int)x;
}
WR_FUNCTION uchar wr_to_u8_float(float x) { return (uchar)(x != x ? 0 : x >= 255.0f ? 255 : x <= 0.0f ? 0 : (int)x); }
typedef struct { uint w[4]; } wr_words;
WR_FUNCTION wr_words wr_philox(ulong block, uint step, uint stream, uint k0, uint k1) {
  uint c0 = (uint)block, c1 = (uint)(block >> 32), c2 = step, c3 = stream;
  for (int round = 0; round < 10; ++round) {
    const ulong low = (ulong)0xD2511F53u * c0, top = (ulong)0xCD9E8D57u * c2;
    c0 = (uint)(top >> 32) ^ c1 ^ k0;
    c2 = (uint)(low >> 32) ^ c3 ^ k1;
    c1 = (uint)top;
    c3 = (uint)low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  wr_words made;
  made.w[0] = c0; made.w[1] = c1; made.w[2] = c2; made.w[3] = c3;
  return made;
}
WR_FUNCTION uint wr_random_word(uint step, uint stream, uint k0, uint k1, ulong e) {
  const wr_words made = wr_philox(e / 4, step, stream, k0, k1);
  return made.w[e % 4];
}
WR_FUNCTION float wr_uniform_float(uint step, uint stream, uint k0, uint k1, ulong e) {
  return (float)(wr_random_word(step, stream, k0, k1, e) >> 8) * 0x1p-24f;
}
WR_FUNCTION float wr_log_of(float x) {
  const uint bits = WR_BITS_OF(x) + (0x3f800000u - 0x3f3504f3u);
  const float k = (float)(int)(bits >> 23) - 127.0f;
  const float t = WR_FLOAT_OF((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float s = t / (2.0f + t), z = s * s, w = z * z;
  const float odd = z * (0xaaaaaa.0p-24f + w * 0x91e9ee.0p-25f);
  const float even = w * (0xccce13.0p-25f + w * 0xf89e26.0p-26f);
  const float halved = 0.5f * (t * t);
  const float inner = s * (halved + (odd + even)) + k * 9.0580006145e-06f;
  return (t - (halved - inner)) + k * 6.9313812256e-01f;
}
WR_FUNCTION float wr_normal_float(uint step, uint stream, uint k0, uint k1, ulong e) {
  const wr_words made = wr_philox(e / 4, step, stream, k0, k1);
  const uint pair = (uint)(e % 4) / 2, a = made.w[2 * pair], phase = made.w[2 * pair + 1];
  const float u = ((float)(int)(a >> 16) * 65536.0f + ((float)(int)(a & 0xFFFFu) + 0.5f)) * 0x1p-32f;
  const float squared = -2.0f * wr_log_of(u);
  const float radius = sqrt(squared > 0.0f ? squared : 0.0f);
  const uint quarter = (phase + (1u << 29)) >> 30;
  const float angle = (float)(int)(phase - (quarter << 30)) * 1.46291807926716e-9f, z = angle * angle;
  const float sin_tail = -1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f);
  const float s = angle + angle * z * sin_tail;
  const float cos_tail = 4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f);
  const float c = (1.0f - 0.5f * z) + z * z * cos_tail;
  const uint odd = (uint)(e % 2), turned = (quarter & 1u) ^ odd;
  const uint sign = ((quarter + (odd ? 0u : 1u)) << 30) & 0x80000000u;
  return radius * WR_FLOAT_OF(WR_BITS_OF(turned ? s : c) ^ sign);
}
)text";

constexpr const char* kWideFunctions = R"text(
WR_FUNCTION int wr_to_i32_double(double x) {
  return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? (-2147483647 - 1) : (int)x;
}
WR_FUNCTION uchar wr_to_u8_double(double x) { return (uchar)(x != x ? 0 : x >= 255.0 ? 255 : x <= 0.0 ? 0 : (int)x); }
WR_FUNCTION ulong wr_random_words(uint step, uint stream, uint k0, uint k1, ulong e, ulong first) {
  const wr_words made = wr_philox(e / 2, step, stream, k0, k1);
  return ((ulong)made.w[2 * first] << 32) | made.w[2 * first + 1];
}
WR_FUNCTION double wr_top53(ulong word) { return (double)(word >> 32) * 0x1p21 + (double)((word >> 11) & 0x1FFFFFu); }
WR_FUNCTION double wr_uniform_double(uint step, uint stream, uint k0, uint k1, ulong e) {
  return wr_top53(wr_random_words(step, stream, k0, k1, e, e % 2)) * 0x1p-53;
}
WR_FUNCTION double wr_log_of_double(double x) {
  const ulong bits = WR_BITS64_OF(x) + ((ulong)(0x3ff00000u - 0x3fe6a09eu) << 32);
  const double k = (double)(bits >> 52) - 1023.0;
  const double t = WR_DOUBLE_OF((bits & 0x000fffffffffffffUL) + ((ulong)0x3fe6a09eu << 32)) - 1.0;
  const double s = t / (2.0 + t), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd = z * (6.666666666666735130e-01 + w * (2.857142874366239149e-01 +
                     w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double halved = 0.5 * (t * t);
  const double inner = s * (halved + (odd + even)) + k * 1.90821492927058770002e-10;
  return (t - (halved - inner)) + k * 6.93147180369123816490e-01;
}
WR_FUNCTION double wr_normal_double(uint step, uint stream, uint k0, uint k1, ulong e) {
  const double u = (wr_top53(wr_random_words(step, stream, k0, k1, e, 0)) + 1.0) * 0x1p-53;
  const double squared = -2.0 * wr_log_of_double(u);
  const double radius = sqrt(squared > 0.0 ? squared : 0.0);
  const ulong moved = wr_random_words(step, stream, k0, k1, e, 1) + (1UL << 61), quarter = moved >> 62;
  const double angle = ((double)((moved & ((1UL << 62) - 1)) >> 10) - 0x1p51) * (6.283185307179586476925 * 0x1p-54);
  const double z = angle * angle;
  const double sin_tail = -1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 +
      z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10))));
  const double s = angle + angle * z * sin_tail;
  const double cos_tail = 4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 +
      z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))));
  const double c = (1.0 - 0.5 * z) + z * z * cos_tail;
  const ulong odd = e % 2, turned = (quarter & 1UL) ^ odd;
  const ulong sign = ((quarter + (odd ? 0UL : 1UL)) << 62) & (1UL << 63);
  return radius * WR_DOUBLE_OF(WR_BITS64_OF(turned ? s : c) ^ sign);
}
)text";

const char* names_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::opencl:
      return kOpenCl;
    case Dialect::cuda:
      return kCuda;
    case Dialect::cpp:
      return kCpp;
  }
  return "";
}

}  // namespace

std::string prelude(const Form& form, bool wide) {
  std::string text;
  if (wide && form.dialect == Dialect::opencl) text += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  text += cat("#define WR_ITEMS ", form.items, "\n#define WR_GROUPS ", int{Form::kGroupsOfAUnit},
              "\n#define WR_VECTOR_BYTES ", form.vector_bytes, "\n", names_of(form.dialect), kFunctions);
  if (wide) text += kWideFunctions;
  return text;
}

}  // namespace wr::device
