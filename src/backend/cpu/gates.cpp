// Gate layers. A vector of cells takes two loads, three multiply-adds and a store a gate; wires come from the cache.
#include "backend/cpu/gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gates.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using std::int64_t;

/// The four coefficients of a gate, each in every lane.
template <class D>
struct Coefficients {
  hn::Vec<D> c0, c1, c2, c3;
  HWY_INLINE Coefficients(D d, const hn::TFromD<D>* c)
      : c0(hn::Set(d, c[0])), c1(hn::Set(d, c[1])), c2(hn::Set(d, c[2])), c3(hn::Set(d, c[3])) {}
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> a, hn::Vec<D> b) const {
    return hn::MulAdd(b, hn::MulAdd(c3, a, c2), hn::MulAdd(c1, a, c0));
  }
};

template <class T>
void gates(const GatesParams& p, void* const* ptr, int64_t) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), cells = p.cells;
  const T* HWY_RESTRICT x = static_cast<const T*>(ptr[1]);
  const T* HWY_RESTRICT all = static_cast<const T*>(ptr[2]);
  T* HWY_RESTRICT out = static_cast<T*>(ptr[0]);
  const std::int32_t* wire = p.wiring;
  for (int64_t i = 0, row = 0; i < p.gates; ++i, row = row + 1 == p.rows ? 0 : row + 1, wire += 2) {
    const T* a = x + wire[0] * p.x_stride;
    const T* b = x + wire[1] * p.x_stride;
    const Coefficients<decltype(d)> c(d, all + 4 * row);
    int64_t j = 0;
    for (; j + 4 * lanes <= cells; j += 4 * lanes)
      for (int64_t v = 0; v < 4 * lanes; v += lanes)
        hn::StoreU(c(hn::LoadU(d, a + j + v), hn::LoadU(d, b + j + v)), d, out + j + v);
    for (; j + lanes <= cells; j += lanes) hn::StoreU(c(hn::LoadU(d, a + j), hn::LoadU(d, b + j)), d, out + j);
    if (j < cells) {
      const auto rest = static_cast<std::size_t>(cells - j);
      store_first(d, c(load_first(d, a + j, rest), load_first(d, b + j, rest)), out + j, rest);
    }
    out += p.gate_stride;
  }
}

// ---- gradient by the wires: each is summed in registers over its uses and stored once -----------------------------

template <int kVectors, class T>
HWY_INLINE void grad_x_block(const GatesParams& p, const T* HWY_RESTRICT x, const T* HWY_RESTRICT c,
                             const T* HWY_RESTRICT g, T* HWY_RESTRICT dx, const GateUse* use, const GateUse* end) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (; use < end; ++use) {
    const auto slope = hn::Set(d, c[use->coefficient]), c3 = hn::Set(d, c[use->coefficient | 3]);
    const T* from = g + use->gate * p.gate_stride;
    const T* other = x + use->other * p.x_stride;
    for (int v = 0; v < kVectors; ++v)
      sum[v] =
          hn::MulAdd(hn::LoadU(d, from + v * lanes), hn::MulAdd(c3, hn::LoadU(d, other + v * lanes), slope), sum[v]);
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, dx + v * lanes);
}

template <class T>
HWY_INLINE void grad_x_rest(const GatesParams& p, const T* HWY_RESTRICT x, const T* HWY_RESTRICT c,
                            const T* HWY_RESTRICT g, T* HWY_RESTRICT dx, const GateUse* use, const GateUse* end,
                            std::size_t rest) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for (; use < end; ++use) {
    const auto slope = hn::Set(d, c[use->coefficient]), c3 = hn::Set(d, c[use->coefficient | 3]);
    const auto from = load_first(d, g + use->gate * p.gate_stride, rest);
    sum = hn::MulAdd(from, hn::MulAdd(c3, load_first(d, x + use->other * p.x_stride, rest), slope), sum);
  }
  store_first(d, sum, dx, rest);
}

template <class T>
void grad_x(const GatesParams& p, void* const* ptr, int64_t) {
  const int64_t lanes = hn::Lanes(hn::ScalableTag<T>()), cells = p.cells;
  const T* x = static_cast<const T*>(ptr[1]);
  const T* c = static_cast<const T*>(ptr[2]);
  const T* g = static_cast<const T*>(ptr[3]);
  T* dx = static_cast<T*>(ptr[0]);
  for (int64_t w = 0; w < p.wires; ++w, dx += p.dx_stride) {
    const GateUse *use = p.uses + p.first_use[w], *end = p.uses + p.first_use[w + 1];
    int64_t j = 0;
    for (; j + 4 * lanes <= cells; j += 4 * lanes) grad_x_block<4>(p, x + j, c, g + j, dx + j, use, end);
    for (; j + 2 * lanes <= cells; j += 2 * lanes) grad_x_block<2>(p, x + j, c, g + j, dx + j, use, end);
    if (j + lanes <= cells) grad_x_block<1>(p, x + j, c, g + j, dx + j, use, end), j += lanes;
    if (j < cells) grad_x_rest(p, x + j, c, g + j, dx + j, use, end, static_cast<std::size_t>(cells - j));
  }
}

// ---- gradient by the coefficients ---------------------------------------------------------------------------------

/// Adds up the 128-bit blocks of a vector.
template <class V>
HWY_INLINE auto block_sum(V v) {
  if constexpr (sizeof(v) <= 16) {
    return v;
  } else {
    const hn::Half<hn::DFromV<V>> half;
    return block_sum(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

/// [sum of the lanes of a, sum of the lanes of b] in every block, for 64-bit lanes.
template <class D>
HWY_INLINE hn::Vec<D> pair_sums(D d, hn::Vec<D> a, hn::Vec<D> b) {
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

/// The four sums over the lanes of four vectors, written to dst, or added to it.
HWY_INLINE void store_sums(const hn::Vec<hn::ScalableTag<float>>* s, float* dst, bool add) {
  const hn::ScalableTag<float> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  const auto ab = hn::BitCast(wide, pair_sums(d, s[0], s[1])), cd = hn::BitCast(wide, pair_sums(d, s[2], s[3]));
  const auto sums = block_sum(
      hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, ab, cd)), hn::BitCast(d, hn::InterleaveUpper(wide, ab, cd))));
  const hn::DFromV<decltype(sums)> block;
  hn::StoreU(add ? hn::Add(sums, hn::LoadU(block, dst)) : sums, block, dst);
}

HWY_INLINE void store_sums(const hn::Vec<hn::ScalableTag<double>>* s, double* dst, bool add) {
  const hn::ScalableTag<double> d;
  for (int k = 0; k < 4; k += 2) {
    const auto sums = block_sum(pair_sums(d, s[k], s[k + 1]));
    const hn::DFromV<decltype(sums)> block;
    hn::StoreU(add ? hn::Add(sums, hn::LoadU(block, dst + k)) : sums, block, dst + k);
  }
}

template <class V>
HWY_INLINE void add_terms(V* sum, V g, V a, V b) {
  const V gb = hn::Mul(g, b);
  sum[0] = hn::Add(sum[0], g);
  sum[1] = hn::MulAdd(g, a, sum[1]);
  sum[2] = hn::Add(sum[2], gb);
  sum[3] = hn::MulAdd(gb, a, sum[3]);
}

template <class T>
void grad_coefficients(const GatesParams& p, void* const* ptr, int64_t) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), cells = p.cells;
  const T* HWY_RESTRICT x = static_cast<const T*>(ptr[1]);
  const T* HWY_RESTRICT g = static_cast<const T*>(ptr[2]);
  T* dc = static_cast<T*>(ptr[0]);
  for (int64_t row = 0; row < p.rows; ++row) {
    hn::Vec<decltype(d)> sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t i = row; i < p.gates; i += p.rows) {
      const T* a = x + p.wiring[2 * i] * p.x_stride;
      const T* b = x + p.wiring[2 * i + 1] * p.x_stride;
      const T* from = g + i * p.gate_stride;
      int64_t j = 0;
      for (; j + lanes <= cells; j += lanes)
        add_terms(sum, hn::LoadU(d, from + j), hn::LoadU(d, a + j), hn::LoadU(d, b + j));
      if (j < cells) {
        const auto rest = static_cast<std::size_t>(cells - j);
        add_terms(sum, load_first(d, from + j, rest), load_first(d, a + j, rest), load_first(d, b + j, rest));
      }
    }
    store_sums(sum, dc + 4 * row, p.accumulate);
  }
}

}  // namespace

GatesKernel find_gates(DType dtype) { return dtype == DType::f32 ? gates<float> : gates<double>; }
GatesKernel find_grad_x(DType dtype) { return dtype == DType::f32 ? grad_x<float> : grad_x<double>; }
GatesKernel find_grad_coefficients(DType dtype) {
  return dtype == DType::f32 ? grad_coefficients<float> : grad_coefficients<double>;
}

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

GatesKernel find_gates(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_gates(dtype))
  return nullptr;
}

GatesKernel find_gates_grad_x(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_grad_x(dtype))
  return nullptr;
}

GatesKernel find_gates_grad_coefficients(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_grad_coefficients(dtype))
  return nullptr;
}

GateUses uses_of(const std::vector<std::int32_t>& wiring, std::int64_t wires, std::int64_t rows) {
  GateUses u;
  u.first_use.assign(static_cast<std::size_t>(wires) + 1, 0);
  for (auto wire : wiring) ++u.first_use[static_cast<std::size_t>(wire) + 1];
  for (std::size_t w = 1; w < u.first_use.size(); ++w) u.first_use[w] += u.first_use[w - 1];
  u.uses.resize(wiring.size());
  std::vector<std::int32_t> next(u.first_use.begin(), u.first_use.end() - 1);
  for (std::size_t i = 0; i < wiring.size(); ++i) {
    const auto gate = static_cast<std::int32_t>(i / 2), side = static_cast<std::int32_t>(i % 2);
    const auto row = static_cast<std::int32_t>(gate % rows);
    auto& at = next[static_cast<std::size_t>(wiring[i])];
    u.uses[static_cast<std::size_t>(at++)] = {gate, wiring[i ^ 1], 4 * row + 1 + side};
  }
  return u;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
