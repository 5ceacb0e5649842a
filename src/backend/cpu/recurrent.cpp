// LSTM and GRU, forwards and backwards: see recurrent.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/recurrent.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/recurrent.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using i64 = std::int64_t;

/// The values of gates as fractions, of which two share a division. A sigmoid beyond 40 on either side counts
/// as there, 1 or 4e-18, so that no divisor is infinite.
template <class T>
struct Fraction {
  using D = hn::ScalableTag<T>;
  using V = Simd<T>;
  V p, q;

  HWY_INLINE static Fraction sigmoid(V x) {
    return {V(1.0), 1.0 + V(exp_inside(D(), clamp_keep_nan(D(), hn::Neg(x.v), -40, 40)))};
  }
  HWY_INLINE static Fraction tanh(V x) {
    hn::Vec<D> p, q;
    tanh_fraction(D(), clamp_keep_nan(D(), x.v, -kTanhEnd<D>, kTanhEnd<D>), p, q);
    return {V(p), V(q)};
  }
};

/// Both at the price of one.
template <class T>
struct Pair {
  HWY_INLINE Pair(Fraction<T> a, Fraction<T> b) : Pair(a, b, reciprocal(a.q * b.q)) {}
  Simd<T> first, second;

 private:
  HWY_INLINE Pair(Fraction<T> a, Fraction<T> b, Simd<T> inverse)
      : first(a.p * b.q * inverse), second(b.p * a.q * inverse) {}
};

/// Some units of a row: a full vector of them, or the first n.
template <class T, bool kFull>
struct Units {
  using V = Simd<T>;
  i64 at;
  std::size_t n = 0;

  HWY_INLINE V load(const T* row) const {
    const hn::ScalableTag<T> d;
    if constexpr (kFull) return V(hn::LoadU(d, row + at));
    if constexpr (!kFull) return V(load_first(d, row + at, n));
  }
  HWY_INLINE void store(V v, T* row) const {
    const hn::ScalableTag<T> d;
    if constexpr (kFull) hn::StoreU(v.v, d, row + at);
    if constexpr (!kFull) store_first(d, v.v, row + at, n);
  }
};

/// Calls f for all units of a row. A long chain of operations is better cut into several walks: the processor begins
/// further units only as far as it looks ahead.
template <class T, class F>
HWY_INLINE void for_units(i64 hidden, F f) {
  const auto lanes = static_cast<i64>(hn::Lanes(hn::ScalableTag<T>()));
  i64 i = 0;
  for (; i + lanes <= hidden; i += lanes) f(Units<T, true>{i});
  if (i < hidden) f(Units<T, false>{i, static_cast<std::size_t>(hidden - i)});
}

/// What the four have in common: which rows and moments there are, and where they stand.
template <class T>
struct Net {
  const RecurrentParams& p;
  const std::int32_t* lengths;

  i64 moment(i64 step) const { return p.reverse ? p.time - 1 - step : step; }
  bool held(i64 row, i64 t) const { return p.has_lengths && t >= lengths[row]; }
  /// Of a sequence of so many units.
  template <class P>
  P* at(P* sequence, i64 row, i64 t, i64 units) const {
    return sequence + (row * p.time + t) * units;
  }
  void set(T* to, const T* from, i64 count) const {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }
  void clear(T* to, i64 count) const { std::memset(to, 0, static_cast<std::size_t>(count) * sizeof(T)); }

  /// Calls f(first row, rows, product) for each block, product(a, c) being the one with these weights.
  template <class F>
  void for_blocks(const void* weights, void* scratch, F f) const {
    const Gemm* begun = nullptr;
    for (i64 row = 0; row < p.rows; row += p.block) {
      const Gemm& product = row + p.block >= p.rows ? p.last_product : p.product;
      if (!begun || begun->prepare != product.prepare) product.begin(weights, scratch);
      begun = &product;
      f(row, std::min(p.block, p.rows - row), [&](const void* a, void* c) { product(a, weights, c, scratch); });
    }
  }
};

template <class T>
void lstm(const RecurrentParams& p, void* const* ptr, i64) {
  const auto in = [&](int k) { return static_cast<const T*>(ptr[k]); };
  const auto out = [&](int k) { return static_cast<T*>(ptr[k]); };
  const Net<T> net{p, static_cast<const std::int32_t*>(ptr[8])};
  const i64 n = p.hidden;
  T *const from_h = out(9), *const now = out(10);
  net.for_blocks(ptr[5], ptr[11], [&](i64 first, i64 rows, auto product) HWY_ATTR {
    net.set(now, in(6) + first * n, rows * n);
    for (i64 step = 0; step < p.time; ++step) {
      const i64 t = net.moment(step);
      product(now, from_h);
      for (i64 r = 0; r < rows; ++r) {
        const i64 row = first + r;
        T* const h = now + r * n;
        const T* const c0 = step == 0 ? in(7) + row * n : net.at(in(3), row, net.moment(step - 1), n);
        T* const c = net.at(out(3), row, t, n);
        T* const acts = net.at(out(0), row, t, 4 * n);
        net.set(net.at(out(1), row, t, n), h, n);
        if (HWY_UNLIKELY(net.held(row, t))) {
          net.set(c, c0, n);
          net.clear(acts, 4 * n);
        } else {
          const T* const x = net.at(in(4), row, t, 4 * n);
          const T* const y = from_h + r * 4 * n;
          const auto given = [&](auto u, i64 gate) HWY_ATTR { return u.load(x + gate * n) + u.load(y + gate * n); };
          for_units<T>(n, [&](auto u) HWY_ATTR {
            const Pair<T> of(Fraction<T>::sigmoid(given(u, 0)), Fraction<T>::sigmoid(given(u, 1)));
            u.store(of.first, acts);
            u.store(of.second, acts + n);
          });
          for_units<T>(n, [&](auto u) HWY_ATTR {
            const Pair<T> of(Fraction<T>::tanh(given(u, 2)), Fraction<T>::sigmoid(given(u, 3)));
            u.store(of.first, acts + 2 * n);
            u.store(of.second, acts + 3 * n);
          });
          for_units<T>(n, [&](auto u) HWY_ATTR {
            const auto next = muladd(u.load(acts + n), u.load(c0), u.load(acts) * u.load(acts + 2 * n));
            u.store(next, c);
            u.store(u.load(acts + 3 * n) * tanh(next), h);
          });
        }
        net.set(net.at(out(2), row, t, n), h, n);
      }
    }
  });
}

template <class T>
void lstm_grad(const RecurrentParams& p, void* const* ptr, i64) {
  const auto in = [&](int k) { return static_cast<const T*>(ptr[k]); };
  const auto out = [&](int k) { return static_cast<T*>(ptr[k]); };
  const Net<T> net{p, static_cast<const std::int32_t*>(ptr[9])};
  const i64 n = p.hidden;
  T* const scratch = out(10);
  net.clear(out(1), p.rows * n);
  net.clear(out(2), p.rows * n);
  net.for_blocks(ptr[7], ptr[11], [&](i64 first, i64 rows, auto product) HWY_ATTR {
    for (i64 step = p.time - 1; step >= 0; --step) {
      const i64 t = net.moment(step);
      for (i64 r = 0; r < rows; ++r) {
        const i64 row = first + r;
        T *const dh = out(1) + row * n, *const dc = out(2) + row * n, *const d = scratch + r * 4 * n;
        const T* const g = net.at(in(3), row, t, n);
        const T* const by_c = p.by_c ? net.at(in(8), row, t, n) : nullptr;
        T* const made = net.at(out(0), row, t, 4 * n);
        if (HWY_UNLIKELY(net.held(row, t))) {
          net.clear(d, 4 * n);
          net.clear(made, 4 * n);
          for_units<T>(n, [&](auto u) HWY_ATTR {
            u.store(u.load(dh) + u.load(g), dh);
            if (by_c) u.store(u.load(dc) + u.load(by_c), dc);
          });
          continue;
        }
        const T* const acts = net.at(in(4), row, t, 4 * n);
        const T* const c = net.at(in(5), row, t, n);
        const T* const c0 = step == 0 ? in(6) + row * n : net.at(in(5), row, net.moment(step - 1), n);
        for_units<T>(n, [&](auto u) HWY_ATTR {
          using V = Simd<T>;
          const V one(1.0), gi = u.load(acts), gf = u.load(acts + n), gg = u.load(acts + 2 * n);
          const V go = u.load(acts + 3 * n), y = tanh(u.load(c)), by_h = u.load(dh) + u.load(g);
          V by = muladd(by_h * go, one - y * y, u.load(dc));
          if (by_c) by = by + u.load(by_c);
          const V di = by * gg * (gi * (one - gi)), df = by * u.load(c0) * (gf * (one - gf));
          const V dg = by * gi * (one - gg * gg), d_o = by_h * y * (go * (one - go));
          u.store(by * gf, dc);
          u.store(V(0.0), dh);
          u.store(di, d);
          u.store(df, d + n);
          u.store(dg, d + 2 * n);
          u.store(d_o, d + 3 * n);
          u.store(di, made);
          u.store(df, made + n);
          u.store(dg, made + 2 * n);
          u.store(d_o, made + 3 * n);
        });
      }
      product(scratch, out(1) + first * n);
    }
  });
}

template <class T>
void gru(const RecurrentParams& p, void* const* ptr, i64) {
  const auto in = [&](int k) { return static_cast<const T*>(ptr[k]); };
  const auto out = [&](int k) { return static_cast<T*>(ptr[k]); };
  const Net<T> net{p, static_cast<const std::int32_t*>(ptr[7])};
  const i64 n = p.hidden;
  T *const from_h = out(8), *const now = out(9);
  const T* const b = in(6);
  net.for_blocks(ptr[4], ptr[10], [&](i64 first, i64 rows, auto product) HWY_ATTR {
    net.set(now, in(5) + first * n, rows * n);
    for (i64 step = 0; step < p.time; ++step) {
      const i64 t = net.moment(step);
      product(now, from_h);
      for (i64 r = 0; r < rows; ++r) {
        const i64 row = first + r;
        T* const h = now + r * n;
        T* const acts = net.at(out(2), row, t, 4 * n);
        net.set(net.at(out(1), row, t, n), h, n);
        if (HWY_UNLIKELY(net.held(row, t))) {
          net.clear(acts, 4 * n);
        } else {
          const T* const x = net.at(in(3), row, t, 3 * n);
          const T* const y = from_h + r * 3 * n;
          const auto from = [&](auto u, i64 gate) HWY_ATTR { return u.load(y + gate * n) + u.load(b + gate * n); };
          for_units<T>(n, [&](auto u) HWY_ATTR {
            const Pair<T> of(Fraction<T>::sigmoid(u.load(x) + from(u, 0)),
                             Fraction<T>::sigmoid(u.load(x + n) + from(u, 1)));
            u.store(of.first, acts);
            u.store(of.second, acts + n);
          });
          for_units<T>(n, [&](auto u) HWY_ATTR {
            const auto of_h = from(u, 2);
            const auto fresh = tanh(muladd(u.load(acts), of_h, u.load(x + 2 * n)));
            u.store(fresh, acts + 2 * n);
            u.store(of_h, acts + 3 * n);
            u.store(muladd(u.load(acts + n), u.load(h) - fresh, fresh), h);
          });
        }
        net.set(net.at(out(0), row, t, n), h, n);
      }
    }
  });
}

template <class T>
void gru_grad(const RecurrentParams& p, void* const* ptr, i64) {
  const auto in = [&](int k) { return static_cast<const T*>(ptr[k]); };
  const auto out = [&](int k) { return static_cast<T*>(ptr[k]); };
  const Net<T> net{p, static_cast<const std::int32_t*>(ptr[7])};
  const i64 n = p.hidden;
  T* const scratch = out(8);
  net.clear(out(2), p.rows * n);
  net.for_blocks(ptr[6], ptr[9], [&](i64 first, i64 rows, auto product) HWY_ATTR {
    for (i64 step = p.time - 1; step >= 0; --step) {
      const i64 t = net.moment(step);
      for (i64 r = 0; r < rows; ++r) {
        const i64 row = first + r;
        T *const dh = out(2) + row * n, *const d = scratch + r * 3 * n;
        const T* const g = net.at(in(3), row, t, n);
        T *const by_x = net.at(out(0), row, t, 3 * n), *const by_h = net.at(out(1), row, t, 3 * n);
        if (HWY_UNLIKELY(net.held(row, t))) {
          net.clear(d, 3 * n);
          net.clear(by_x, 3 * n);
          net.clear(by_h, 3 * n);
          for_units<T>(n, [&](auto u) HWY_ATTR { u.store(u.load(dh) + u.load(g), dh); });
          continue;
        }
        const T* const acts = net.at(in(4), row, t, 4 * n);
        const T* const before = net.at(in(5), row, t, n);
        for_units<T>(n, [&](auto u) HWY_ATTR {
          using V = Simd<T>;
          const V one(1.0), reset = u.load(acts), z = u.load(acts + n), fresh = u.load(acts + 2 * n);
          const V by = u.load(dh) + u.load(g);
          const V dn = by * (one - z) * (one - fresh * fresh), dz = by * (u.load(before) - fresh) * (z * (one - z));
          const V dr = dn * u.load(acts + 3 * n) * (reset * (one - reset)), dn_h = dn * reset;
          u.store(by * z, dh);
          u.store(dr, d);
          u.store(dz, d + n);
          u.store(dn_h, d + 2 * n);
          u.store(dr, by_x);
          u.store(dz, by_x + n);
          u.store(dn, by_x + 2 * n);
          u.store(dr, by_h);
          u.store(dz, by_h + n);
          u.store(dn_h, by_h + 2 * n);
        });
      }
      product(scratch, out(2) + first * n);
    }
  });
}

}  // namespace

template <class T>
RecurrentKernel kernel_of(RecurrentNet net) {
  switch (net) {
    case RecurrentNet::lstm:
      return lstm<T>;
    case RecurrentNet::lstm_grad:
      return lstm_grad<T>;
    case RecurrentNet::gru:
      return gru<T>;
    default:
      return gru_grad<T>;
  }
}

RecurrentKernel find_recurrent(RecurrentNet net, DType dtype) {
  return dtype == DType::f32 ? kernel_of<float>(net) : kernel_of<double>(net);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

RecurrentKernel find_recurrent(RecurrentNet net, DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_recurrent(net, dtype))
  return nullptr;
}

GemmShape recurrent_product(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t gates, bool adjoint) {
  if (!adjoint) return row_major(dtype, rows, gates, hidden);
  GemmShape shape = row_major(dtype, rows, hidden, gates, true);
  shape.b_row = 1;  // w_h as it lies, [hidden, gates]
  shape.b_col = gates;
  return shape;
}

}  // namespace wr::cpu
#endif
