// Gate layers. A vector of cells takes two loads, three multiply-adds and a store a gate; wires come from the cache.
#include "backend/cpu/gates.h"

#include <algorithm>

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

/// One layer on strips of exactly kVectors vectors: no loops but the one over gates.
template <int kVectors, class T>
void gates_of(const GatesParams& p, const T* HWY_RESTRICT x, const T* HWY_RESTRICT all, T* HWY_RESTRICT out) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const std::int32_t* wire = p.wiring;
  for (int64_t first = 0; first < p.gates; first += p.rows)
    for (int64_t row = 0; row < p.rows; ++row, wire += 2, out += p.gate_stride) {
      const Coefficients<decltype(d)> c(d, all + 4 * row);
      for (int64_t v = 0; v < kVectors; ++v)
        hn::StoreU(c(hn::LoadU(d, x + wire[0] + v * lanes), hn::LoadU(d, x + wire[1] + v * lanes)), d, out + v * lanes);
    }
}

template <class T>
void gates(const GatesParams& p, void* const* ptr, int64_t) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d), cells = p.cells;
  const T* HWY_RESTRICT x = static_cast<const T*>(ptr[1]);
  const T* HWY_RESTRICT all = static_cast<const T*>(ptr[2]);
  T* HWY_RESTRICT out = static_cast<T*>(ptr[0]);
  if (cells == lanes) return gates_of<1>(p, x, all, out);
  if (cells == 2 * lanes) return gates_of<2>(p, x, all, out);
  if (cells == 4 * lanes) return gates_of<4>(p, x, all, out);
  const std::int32_t* wire = p.wiring;
  for (int64_t i = 0; i < p.gates; ++i, wire += 2, out += p.gate_stride) {
    const T *a = x + wire[0], *b = x + wire[1];
    const Coefficients<decltype(d)> c(d, all + 4 * (i % p.rows));
    int64_t j = 0;
    for (; j + lanes <= cells; j += lanes) hn::StoreU(c(hn::LoadU(d, a + j), hn::LoadU(d, b + j)), d, out + j);
    if (j < cells) {
      const auto rest = static_cast<std::size_t>(cells - j);
      store_first(d, c(load_first(d, a + j, rest), load_first(d, b + j, rest)), out + j, rest);
    }
  }
}

// ---- gradient by the wires: each is summed in registers over its uses and stored once -----------------------------

template <int kVectors, class T>
HWY_INLINE void grad_x_block(const T* HWY_RESTRICT x, const T* HWY_RESTRICT c, const T* HWY_RESTRICT g,
                             T* HWY_RESTRICT dx, const GateUse* use, const GateUse* end) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (; use < end; ++use) {
    const auto slope = hn::Set(d, c[use->coefficient]), c3 = hn::Set(d, c[use->coefficient | 3]);
    const T *from = g + use->gate, *other = x + use->other;
    for (int v = 0; v < kVectors; ++v)
      sum[v] =
          hn::MulAdd(hn::LoadU(d, from + v * lanes), hn::MulAdd(c3, hn::LoadU(d, other + v * lanes), slope), sum[v]);
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, dx + v * lanes);
}

template <class T>
HWY_INLINE void grad_x_rest(const T* HWY_RESTRICT x, const T* HWY_RESTRICT c, const T* HWY_RESTRICT g,
                            T* HWY_RESTRICT dx, const GateUse* use, const GateUse* end, std::size_t rest) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for (; use < end; ++use) {
    const auto slope = hn::Set(d, c[use->coefficient]), c3 = hn::Set(d, c[use->coefficient | 3]);
    const auto other = load_first(d, x + use->other, rest);
    sum = hn::MulAdd(load_first(d, g + use->gate, rest), hn::MulAdd(c3, other, slope), sum);
  }
  store_first(d, sum, dx, rest);
}

template <int kVectors, class T>
void grad_x_of(const GatesParams& p, const T* x, const T* c, const T* g, T* dx) {
  for (const WireUses* w = p.used; w < p.used + p.wires; ++w)
    grad_x_block<kVectors>(x, c, g, dx + w->dx, p.uses + w->first, p.uses + w->end);
}

template <class T>
void grad_x(const GatesParams& p, void* const* ptr, int64_t) {
  const int64_t lanes = hn::Lanes(hn::ScalableTag<T>()), cells = p.cells;
  const T* x = static_cast<const T*>(ptr[1]);
  const T* c = static_cast<const T*>(ptr[2]);
  const T* g = static_cast<const T*>(ptr[3]);
  T* const all = static_cast<T*>(ptr[0]);
  if (cells == lanes) return grad_x_of<1>(p, x, c, g, all);
  if (cells == 2 * lanes) return grad_x_of<2>(p, x, c, g, all);
  if (cells == 4 * lanes) return grad_x_of<4>(p, x, c, g, all);
  for (const WireUses* w = p.used; w < p.used + p.wires; ++w) {
    const GateUse *use = p.uses + w->first, *end = p.uses + w->end;
    T* const dx = all + w->dx;
    int64_t j = 0;
    for (; j + 4 * lanes <= cells; j += 4 * lanes) grad_x_block<4>(x + j, c, g + j, dx + j, use, end);
    for (; j + lanes <= cells; j += lanes) grad_x_block<1>(x + j, c, g + j, dx + j, use, end);
    if (j < cells) grad_x_rest(x + j, c, g + j, dx + j, use, end, static_cast<std::size_t>(cells - j));
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

/// The sums over the gates of one row; kVectors is how many vectors a strip has, 0 for any number of cells.
template <int kVectors, class T>
HWY_INLINE void add_row(const GatesParams& p, const T* HWY_RESTRICT x, const T* HWY_RESTRICT g, int64_t row,
                        hn::Vec<hn::ScalableTag<T>>* sum) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  for (int k = 0; k < 4; ++k) sum[k] = hn::Zero(d);
  for (int64_t i = row; i < p.gates; i += p.rows) {
    const T *a = x + p.wiring[2 * i], *b = x + p.wiring[2 * i + 1], *from = g + i * p.gate_stride;
    if constexpr (kVectors > 0) {
      for (int v = 0; v < kVectors; ++v)
        add_terms(sum, hn::LoadU(d, from + v * lanes), hn::LoadU(d, a + v * lanes), hn::LoadU(d, b + v * lanes));
    } else {
      int64_t j = 0;
      for (; j + lanes <= p.cells; j += lanes)
        add_terms(sum, hn::LoadU(d, from + j), hn::LoadU(d, a + j), hn::LoadU(d, b + j));
      if (j < p.cells) {
        const auto rest = static_cast<std::size_t>(p.cells - j);
        add_terms(sum, load_first(d, from + j, rest), load_first(d, a + j, rest), load_first(d, b + j, rest));
      }
    }
  }
}

template <int kVectors, class T>
void grad_coefficients_of(const GatesParams& p, const T* x, const T* g, T* dc) {
  for (int64_t row = 0; row < p.rows; ++row) {
    hn::Vec<hn::ScalableTag<T>> sum[4];
    add_row<kVectors>(p, x, g, row, sum);
    store_sums(sum, dc + 4 * row, p.accumulate);
  }
}

template <class T>
void grad_coefficients(const GatesParams& p, void* const* ptr, int64_t) {
  const int64_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const T* x = static_cast<const T*>(ptr[1]);
  const T* g = static_cast<const T*>(ptr[2]);
  T* dc = static_cast<T*>(ptr[0]);
  if (p.cells == lanes) return grad_coefficients_of<1>(p, x, g, dc);
  if (p.cells == 2 * lanes) return grad_coefficients_of<2>(p, x, g, dc);
  if (p.cells == 4 * lanes) return grad_coefficients_of<4>(p, x, g, dc);
  grad_coefficients_of<0>(p, x, g, dc);
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

std::vector<std::int32_t> wire_offsets(const std::vector<std::int32_t>& wiring, std::int64_t stride) {
  std::vector<std::int32_t> offsets;
  offsets.reserve(wiring.size());
  for (auto wire : wiring) offsets.push_back(static_cast<std::int32_t>(wire * stride));
  return offsets;
}

GateUses uses_of(const std::vector<std::int32_t>& wiring, const GatesParams& p) {
  GateUses u;
  std::vector<std::int32_t> next(static_cast<std::size_t>(p.wires) + 1, 0);  // where a wire's next use goes
  for (auto wire : wiring) ++next[static_cast<std::size_t>(wire) + 1];
  for (std::size_t w = 1; w < next.size(); ++w) next[w] += next[w - 1];
  for (std::size_t w = 0; w + 1 < next.size(); ++w)
    u.used.push_back({static_cast<std::int32_t>(static_cast<std::int64_t>(w) * p.dx_stride), next[w], next[w + 1]});
  std::stable_sort(u.used.begin(), u.used.end(),
                   [](const WireUses& a, const WireUses& b) { return a.end - a.first < b.end - b.first; });
  u.uses.resize(wiring.size());
  for (std::size_t i = 0; i < wiring.size(); ++i) {
    const auto gate = static_cast<std::int64_t>(i / 2), side = static_cast<std::int64_t>(i % 2);
    auto& at = next[static_cast<std::size_t>(wiring[i])];
    u.uses[static_cast<std::size_t>(at++)] = {static_cast<std::int32_t>(gate * p.gate_stride),
                                              static_cast<std::int32_t>(wiring[i ^ 1] * p.x_stride),
                                              static_cast<std::int32_t>(4 * (gate % p.rows) + 1 + side)};
  }
  return u;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
