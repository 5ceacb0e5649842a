// Gather, scatter and embedding kernels.
#include "backend/cpu/index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/index.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "backend/cpu/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using std::int32_t;
using std::int64_t;
using std::uint8_t;

// What reading at an index out of range gives.
template <class T>
constexpr T missing() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
  return T(0);
}

HWY_INLINE bool in_range(int32_t index, int64_t size) { return index >= 0 && index < size; }

// Rows are often short; a call of memcpy would then dominate.
template <class T>
HWY_INLINE void copy_row(T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, src + i), d, dst + i);
  for (; i < n; ++i) dst[i] = src[i];
}

template <class T>
HWY_INLINE T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, int32_t>)  // wraps, like the vectors
    return static_cast<int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  else
    return static_cast<T>(a + b);
}

template <class T>
HWY_INLINE void add_row(T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, dst + i), hn::LoadU(d, src + i)), d, dst + i);
  const hn::CappedTag<T, 16 / sizeof(T)> small;
  const int64_t few = hn::Lanes(small);
  for (; i + few <= n; i += few)
    hn::StoreU(hn::Add(hn::LoadU(small, dst + i), hn::LoadU(small, src + i)), small, dst + i);
  for (; i < n; ++i) dst[i] = sum_of(dst[i], src[i]);
}

template <class T>
void gather(const IndexParams& p, void* const* ptr, int64_t) {
  T* HWY_RESTRICT out = static_cast<T*>(ptr[0]);
  const int32_t* HWY_RESTRICT idx = static_cast<const int32_t*>(ptr[2]);
  for (int64_t o = 0; o < p.outer; ++o) {
    const T* x = static_cast<const T*>(ptr[1]) + o * p.x_outer_stride;
    if (p.inner == 1) {
      for (int64_t j = 0; j < p.count; ++j) *out++ = in_range(idx[j], p.axis_size) ? x[idx[j]] : missing<T>();
      continue;
    }
    for (int64_t j = 0; j < p.count; ++j, out += p.inner) {
      if (in_range(idx[j], p.axis_size))
        copy_row(out, x + idx[j] * p.inner, p.inner);
      else
        std::fill_n(out, p.inner, missing<T>());
    }
  }
}

template <class T>
void clear_target(const IndexParams& p, T* dst) {
  for (int64_t o = 0; o < p.outer; ++o) std::memset(dst + o * p.x_outer_stride, 0, p.axis_size * p.inner * sizeof(T));
}

template <class T>
void scatter_add(const IndexParams& p, void* const* ptr, int64_t) {
  T* const dst = static_cast<T*>(ptr[0]);
  const T* updates = static_cast<const T*>(ptr[1]);
  const int32_t* const idx = static_cast<const int32_t*>(ptr[2]);
  if (p.clear) clear_target(p, dst);
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t j = 0; j < p.count; ++j, updates += p.inner)
      if (in_range(idx[j], p.axis_size)) add_row(dst + o * p.x_outer_stride + idx[j] * p.inner, updates, p.inner);
}

template <class T>
void take_along(const IndexParams& p, void* const* ptr, int64_t) {
  T* HWY_RESTRICT out = static_cast<T*>(ptr[0]);
  const int32_t* HWY_RESTRICT idx = static_cast<const int32_t*>(ptr[2]);
  const int64_t inner = p.inner, size = p.axis_size;
  for (int64_t o = 0; o < p.outer; ++o) {
    const T* const x = static_cast<const T*>(ptr[1]) + o * p.x_outer_stride;
    for (int64_t j = 0; j < p.count; ++j, out += inner, idx += inner)
      for (int64_t i = 0; i < inner; ++i) out[i] = in_range(idx[i], size) ? x[idx[i] * inner + i] : missing<T>();
  }
}

template <class T>
void put_along_add(const IndexParams& p, void* const* ptr, int64_t) {
  T* const target = static_cast<T*>(ptr[0]);
  const T* HWY_RESTRICT updates = static_cast<const T*>(ptr[1]);
  const int32_t* HWY_RESTRICT idx = static_cast<const int32_t*>(ptr[2]);
  const int64_t inner = p.inner, size = p.axis_size;
  if (p.clear) clear_target(p, target);
  for (int64_t o = 0; o < p.outer; ++o) {
    T* HWY_RESTRICT dst = target + o * p.x_outer_stride;
    for (int64_t j = 0; j < p.count; ++j, updates += inner, idx += inner)
      for (int64_t i = 0; i < inner; ++i)
        if (in_range(idx[i], size)) dst[idx[i] * inner + i] = sum_of(dst[idx[i] * inner + i], updates[i]);
  }
}

template <class T>
void one_hot(const OneHotParams& p, void* const* ptr, int64_t) {
  T* const out = static_cast<T*>(ptr[0]);
  const int32_t* const idx = static_cast<const int32_t*>(ptr[1]);
  if (p.rows * p.classes == 0) return;
  std::memset(out, 0, p.rows * p.classes * sizeof(T));
  for (int64_t r = 0; r < p.rows; ++r)
    if (in_range(idx[r], p.classes)) out[r * p.classes + idx[r]] = T(1);
}

// Columns [0, kVectors * lanes) of one row: the sums stay in registers while the terms are read.
template <int kVectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void sum_terms(D d, const EmbeddingParams& p, T* HWY_RESTRICT out, const T* HWY_RESTRICT table,
                          const int32_t* HWY_RESTRICT idx) {
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t j = 0; j < p.terms; ++j) {
    if (HWY_UNLIKELY(!in_range(idx[j], p.entries))) {
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::Set(d, missing<T>()));
      continue;
    }
    const T* const entry = table + idx[j] * p.width;
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::LoadU(d, entry + v * lanes));
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, out + v * lanes);
}

template <class T>
void embedding_sum(const EmbeddingParams& p, void* const* ptr, int64_t) {
  T* out = static_cast<T*>(ptr[0]);
  const T* const table = static_cast<const T*>(ptr[1]);
  const int32_t* idx = static_cast<const int32_t*>(ptr[2]);
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> d16;
  const hn::CappedTag<T, 1> d1;
  const int64_t lanes = hn::Lanes(d), lanes16 = hn::Lanes(d16);
  for (int64_t r = 0; r < p.rows; ++r, out += p.width, idx += p.terms) {
    int64_t c = 0;
    for (; c + 8 * lanes <= p.width; c += 8 * lanes) sum_terms<8>(d, p, out + c, table + c, idx);
    for (; c + 2 * lanes <= p.width; c += 2 * lanes) sum_terms<2>(d, p, out + c, table + c, idx);
    for (; c + lanes <= p.width; c += lanes) sum_terms<1>(d, p, out + c, table + c, idx);
    for (; c + lanes16 <= p.width; c += lanes16) sum_terms<1>(d16, p, out + c, table + c, idx);
    for (; c < p.width; ++c) sum_terms<1>(d1, p, out + c, table + c, idx);
  }
}

template <class T>
void embedding_scatter(const EmbeddingParams& p, void* const* ptr, int64_t row0) {
  T* const table = static_cast<T*>(ptr[0]);
  const T* row = static_cast<const T*>(ptr[1]);
  const int32_t* idx = static_cast<const int32_t*>(ptr[2]);
  if (p.clear && p.entries * p.width > 0) std::memset(table, 0, p.entries * p.width * sizeof(T));
  const int64_t first = p.from_row0 ? row0 : 0;
  for (int64_t r = 0; r < p.rows; ++r, row += p.width, idx += p.terms)
    for (int64_t j = 0; j < p.terms; ++j)
      if (const int64_t entry = idx[j] - first; entry >= 0 && entry < p.entries)
        add_row(table + entry * p.width, row, p.width);
}

}  // namespace

// bool is stored as one byte, 0 or 1, and moves as u8.
#define WINDROW_PICK(kernel, dtype)          \
  ((dtype) == DType::f32   ? kernel<float>   \
   : (dtype) == DType::f64 ? kernel<double>  \
   : (dtype) == DType::i32 ? kernel<int32_t> \
                           : kernel<uint8_t>)

IndexKernel find_gather(DType dtype) { return WINDROW_PICK(gather, dtype); }
IndexKernel find_scatter_add(DType dtype) { return WINDROW_PICK(scatter_add, dtype); }
IndexKernel find_take_along(DType dtype) { return WINDROW_PICK(take_along, dtype); }
IndexKernel find_put_along_add(DType dtype) { return WINDROW_PICK(put_along_add, dtype); }
OneHotKernel find_one_hot(DType dtype) { return WINDROW_PICK(one_hot, dtype); }
EmbeddingKernel find_embedding_sum(DType dtype) { return WINDROW_PICK(embedding_sum, dtype); }
EmbeddingKernel find_embedding_scatter(DType dtype) { return WINDROW_PICK(embedding_scatter, dtype); }
#undef WINDROW_PICK

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

#define WINDROW_FIND(Kernel, find, supported) \
  Kernel find(DType dtype, Target target) {   \
    if (!(supported)) return nullptr;         \
    WINDROW_RETURN_FOR(target, find(dtype))   \
    return nullptr;                           \
  }
WINDROW_FIND(IndexKernel, find_gather, true)
WINDROW_FIND(IndexKernel, find_scatter_add, dtype != DType::boolean)
WINDROW_FIND(IndexKernel, find_take_along, true)
WINDROW_FIND(IndexKernel, find_put_along_add, dtype != DType::boolean)
WINDROW_FIND(OneHotKernel, find_one_hot, true)
WINDROW_FIND(EmbeddingKernel, find_embedding_sum, size_of(dtype) >= 4)
WINDROW_FIND(EmbeddingKernel, find_embedding_scatter, size_of(dtype) >= 4)
#undef WINDROW_FIND

namespace {

struct Ordered {
  std::int32_t *index, *at;
};

/// One pass of a radix sort, by eight bits of the key; stable.
void sort_by_digit(const Ordered& from, const Ordered& to, std::int64_t count, int shift, std::uint32_t flip) {
  std::int64_t place[257] = {};
  const auto digit = [&](std::int64_t i) {
    return ((static_cast<std::uint32_t>(from.index[i]) ^ flip) >> shift) & 255u;
  };
  for (std::int64_t i = 0; i < count; ++i) ++place[digit(i) + 1];
  for (int d = 0; d < 256; ++d) place[d + 1] += place[d];
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t p = place[digit(i)]++;
    to.index[p] = from.index[i];
    to.at[p] = from.at[i];
  }
}

}  // namespace

void index_order(const OrderParams& params, void* const* ptr, std::int64_t) {
  const std::int64_t count = params.count;
  auto* const idx = static_cast<const std::int32_t*>(ptr[1]);
  Ordered out{static_cast<std::int32_t*>(ptr[0]), static_cast<std::int32_t*>(ptr[0]) + count};
  Ordered other{static_cast<std::int32_t*>(ptr[2]), static_cast<std::int32_t*>(ptr[2]) + count};
  std::uint32_t differ = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out.index[i] = idx[i];
    out.at[i] = static_cast<std::int32_t>(i);
    differ |= static_cast<std::uint32_t>(idx[i] ^ idx[0]);
  }
  constexpr std::uint32_t kSign = 0x80000000u;  // negative ones come first
  bool swapped = false;
  for (int shift = 0; shift < 32; shift += 8) {
    if (((differ >> shift) & 255u) == 0) continue;
    sort_by_digit(swapped ? other : out, swapped ? out : other, count, shift, kSign);
    swapped = !swapped;
  }
  if (!swapped) return;
  std::copy_n(other.index, count, out.index);
  std::copy_n(other.at, count, out.at);
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
