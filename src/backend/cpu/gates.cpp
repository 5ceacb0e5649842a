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

// ---- gradients: one walk over the gates that reads a, b and g once ----

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

/// Whole vectors, or the first `count` lanes of one.
template <class D>
struct Whole {
  D d;
  HWY_INLINE hn::Vec<D> load(const hn::TFromD<D>* from) const { return hn::LoadU(d, from); }
  HWY_INLINE void store(hn::Vec<D> v, hn::TFromD<D>* to) const { hn::StoreU(v, d, to); }
};
template <class D>
struct First {
  D d;
  std::size_t count;
  HWY_INLINE hn::Vec<D> load(const hn::TFromD<D>* from) const { return load_first(d, from, count); }
  HWY_INLINE void store(hn::Vec<D> v, hn::TFromD<D>* to) const { store_first(d, v, to, count); }
};

/// One gate on its way back, for one gradient or both.
template <bool kByX, bool kByC, class D>
struct GateBack {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  const T *a, *b, *g;
  T *da, *db;
  bool first_of_a, first_of_b;
  V c1, c2, c3;
  V sum[4];

  template <class Access>
  HWY_INLINE void operator()(const Access& at, int64_t j) {
    const V va = at.load(a + j), vb = at.load(b + j), vg = at.load(g + j);
    if constexpr (kByC) {
      const V gb = hn::Mul(vg, vb);
      sum[0] = hn::Add(sum[0], vg);
      sum[1] = hn::MulAdd(vg, va, sum[1]);
      sum[2] = hn::Add(sum[2], gb);
      sum[3] = hn::MulAdd(gb, va, sum[3]);
    }
    if constexpr (kByX) {  // b may be a: its sum is read after a's is written
      const V by_a = hn::MulAdd(c3, vb, c1), by_b = hn::MulAdd(c3, va, c2);
      at.store(first_of_a ? hn::Mul(vg, by_a) : hn::MulAdd(vg, by_a, at.load(da + j)), da + j);
      at.store(first_of_b ? hn::Mul(vg, by_b) : hn::MulAdd(vg, by_b, at.load(db + j)), db + j);
    }
  }
};

/// kVectors is how many vectors a strip has, 0 for any number of cells.
template <bool kByX, bool kByC, int kVectors, class T>
void walk_back(const GatesParams& p, const T* HWY_RESTRICT x, const T* HWY_RESTRICT c, const T* HWY_RESTRICT g,
               T* HWY_RESTRICT dx, T* HWY_RESTRICT dc) {
  const hn::ScalableTag<T> d;
  using D = decltype(d);
  const int64_t lanes = hn::Lanes(d);
  for (const GateTurn* turn = p.turns; turn < p.turns + p.gates; ++turn) {
    GateBack<kByX, kByC, D> back;
    back.a = x + turn->a * p.x_stride;
    back.b = x + turn->b * p.x_stride;
    back.g = g + turn->gate * p.gate_stride;
    if constexpr (kByX) {
      back.da = dx + turn->a * p.dx_stride;
      back.db = dx + turn->b * p.dx_stride;
      back.first_of_a = turn->first & GateTurn::kOfA;
      back.first_of_b = turn->first & GateTurn::kOfB;
      const T* of = c + 4 * turn->row;
      back.c1 = hn::Set(d, of[1]);
      back.c2 = hn::Set(d, of[2]);
      back.c3 = hn::Set(d, of[3]);
    }
    if constexpr (kByC)
      for (auto& sum : back.sum) sum = hn::Zero(d);
    if constexpr (kVectors > 0) {
      for (int64_t v = 0; v < kVectors; ++v) back(Whole<D>{d}, v * lanes);
    } else {
      int64_t j = 0;
      for (; j + lanes <= p.cells; j += lanes) back(Whole<D>{d}, j);
      if (j < p.cells) back(First<D>{d, static_cast<std::size_t>(p.cells - j)}, j);
    }
    if constexpr (kByC) store_sums(back.sum, dc + 4 * turn->row, p.accumulate || !(turn->first & GateTurn::kOfRow));
  }
  if constexpr (kByX)
    for (int64_t i = 0; i < p.idle_wires; ++i) std::fill_n(dx + p.idle[i] * p.dx_stride, p.cells, T(0));
}

template <bool kByX, bool kByC, class T>
void walk_back(const GatesParams& p, const void* x, const void* c, const void* g, void* dx, void* dc) {
  const int64_t lanes = hn::Lanes(hn::ScalableTag<T>());
  const auto walk = p.cells == lanes       ? walk_back<kByX, kByC, 1, T>
                    : p.cells == 2 * lanes ? walk_back<kByX, kByC, 2, T>
                    : p.cells == 4 * lanes ? walk_back<kByX, kByC, 4, T>
                                           : walk_back<kByX, kByC, 0, T>;
  walk(p, static_cast<const T*>(x), static_cast<const T*>(c), static_cast<const T*>(g), static_cast<T*>(dx),
       static_cast<T*>(dc));
}

template <class T>
void grad_x(const GatesParams& p, void* const* ptr, int64_t) {
  walk_back<true, false, T>(p, ptr[1], ptr[2], ptr[3], ptr[0], nullptr);
}

template <class T>
void grad_coefficients(const GatesParams& p, void* const* ptr, int64_t) {
  walk_back<false, true, T>(p, ptr[1], nullptr, ptr[2], nullptr, ptr[0]);
}

template <class T>
void grad_both(const GatesParams& p, void* const* ptr, int64_t) {
  walk_back<true, true, T>(p, ptr[1], ptr[2], ptr[3], ptr[0], ptr[4]);
}

}  // namespace

GatesKernel find_gates(DType dtype, GateKernel kind) {
  const bool f32 = dtype == DType::f32;
  switch (kind) {
    case GateKernel::forward:
      return f32 ? gates<float> : gates<double>;
    case GateKernel::grad_x:
      return f32 ? grad_x<float> : grad_x<double>;
    case GateKernel::grad_coefficients:
      return f32 ? grad_coefficients<float> : grad_coefficients<double>;
    case GateKernel::grad_both:
      return f32 ? grad_both<float> : grad_both<double>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

GatesKernel find_gates(DType dtype, GateKernel kind, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_gates(dtype, kind))
  return nullptr;
}

std::vector<std::int32_t> wire_offsets(const std::vector<std::int32_t>& wiring, std::int64_t stride) {
  std::vector<std::int32_t> offsets;
  offsets.reserve(wiring.size());
  for (auto wire : wiring) offsets.push_back(static_cast<std::int32_t>(wire * stride));
  return offsets;
}

namespace {

/// Walks that go from a wire by any gate not yet taken to the gate's other wire, until there is none.
class Walks {
 public:
  Walks(const std::vector<std::int32_t>& wiring, std::int64_t rows, std::int64_t wires)
      : wiring_(wiring), rows_(rows), readers_(static_cast<std::size_t>(wires)), odd_(readers_.size()) {
    for (std::size_t i = 0; i < wiring.size(); ++i) {
      const auto wire = static_cast<std::size_t>(wiring[i]);
      readers_[wire].push_back(static_cast<std::int32_t>(i));
      odd_[wire] = !odd_[wire];
    }
    taken_.resize(wiring.size() / 2);
    wire_seen_.resize(readers_.size());
    row_seen_.resize(static_cast<std::size_t>(rows));
  }

  GateWalk all() {
    for (const bool odd : {true, false})  // a walk that does not begin at an odd end cuts another in two
      for (std::size_t wire = 0; wire < readers_.size(); ++wire)
        if (odd == odd_[wire])
          while (walk_from(wire)) {
          }
    for (std::size_t wire = 0; wire < readers_.size(); ++wire)
      if (!wire_seen_[wire]) walk_.idle.push_back(static_cast<std::int32_t>(wire));
    return std::move(walk_);
  }

 private:
  bool walk_from(std::size_t wire) {
    bool any = false;
    while (!readers_[wire].empty()) {
      const auto place = static_cast<std::size_t>(readers_[wire].back());
      readers_[wire].pop_back();
      if (taken_[place / 2]) continue;
      taken_[place / 2] = true;
      take(place / 2);
      wire = static_cast<std::size_t>(wiring_[place ^ 1]);
      any = true;
    }
    return any;
  }

  void take(std::size_t gate) {
    const auto row = gate % static_cast<std::size_t>(rows_);
    GateTurn t{wiring_[2 * gate], wiring_[2 * gate + 1], static_cast<std::int32_t>(gate),
               static_cast<std::int32_t>(row), 0};
    const auto begin = [&t](std::vector<bool>& seen, std::size_t at, std::int32_t sum) {
      if (!seen[at]) t.first |= sum;
      seen[at] = true;
    };
    begin(wire_seen_, static_cast<std::size_t>(t.a), GateTurn::kOfA);
    begin(wire_seen_, static_cast<std::size_t>(t.b), GateTurn::kOfB);
    begin(row_seen_, row, GateTurn::kOfRow);
    walk_.turns.push_back(t);
  }

  const std::vector<std::int32_t>& wiring_;
  std::int64_t rows_;
  std::vector<std::vector<std::int32_t>> readers_;  // by wire: places in the wiring
  std::vector<bool> odd_, taken_, wire_seen_, row_seen_;
  GateWalk walk_;
};

}  // namespace

GateWalk walk_of(const std::vector<std::int32_t>& wiring, std::int64_t rows, std::int64_t wires) {
  return Walks(wiring, rows, wires).all();
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
