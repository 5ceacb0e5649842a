// Ops on rows: a row is read from memory once; the passes over it that follow find it in L1.
#include "backend/cpu/row.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/row.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using ops::RowOp;
using std::int64_t;

/// What the kernel of each op does with a row: `to` and `in` are the row's results and operands.
template <RowOp op, class T>
struct RowBody;

// ---- softmaxes ----

template <class T>
struct RowBody<RowOp::softmax, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const T* x = in[0];
    T* y = to[0];
    const auto shift = hn::Set(D(), this->most(x));
    const T total = this->sum([=](int64_t i, auto part) HWY_ATTR {
      const auto e = exp_of(D(), hn::Sub(part.load(x + i), shift));
      part.store(e, y + i);
      return e;
    });
    const auto factor = reciprocal_of(D(), hn::Set(D(), total));
    this->each([=](int64_t i, auto part) HWY_ATTR { part.store(hn::Mul(part.load(y + i), factor), y + i); });
  }
};

template <class T>
struct RowBody<RowOp::softmax_grad, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const T *y = in[0], *g = in[1];
    T* dx = to[0];
    const auto total = hn::Set(
        D(), this->sum([=](int64_t i, auto part) HWY_ATTR { return hn::Mul(part.load(y + i), part.load(g + i)); }));
    this->each([=](int64_t i, auto part)
                   HWY_ATTR { part.store(hn::Mul(part.load(y + i), hn::Sub(part.load(g + i), total)), dx + i); });
  }
};

template <class T>
struct RowBody<RowOp::log_softmax, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const T* x = in[0];
    T* y = to[0];
    const auto lse = hn::Set(D(), this->lse(x));
    this->each([=](int64_t i, auto part) HWY_ATTR { part.store(hn::Sub(part.load(x + i), lse), y + i); });
  }
};

template <class T>
struct RowBody<RowOp::log_softmax_grad, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const T *y = in[0], *g = in[1];
    T* dx = to[0];
    const auto total = hn::Set(D(), this->sum([=](int64_t i, auto part) HWY_ATTR { return part.load(g + i); }));
    this->each([=](int64_t i, auto part) HWY_ATTR {
      part.store(hn::NegMulAdd(exp_of(D(), part.load(y + i)), total, part.load(g + i)), dx + i);
    });
  }
};

template <class T>
struct RowBody<RowOp::logsumexp, T> : RowLoops<T> {
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const { *to[0] = this->lse(in[0]); }
};

/// g * exp(x - lse).
template <class T>
HWY_INLINE void scaled_softmax(const RowLoops<T>& row, T* dx, const T* x, T lse, T g) {
  using D = hn::ScalableTag<T>;
  const auto shift = hn::Set(D(), lse), factor = hn::Set(D(), g);
  row.each([=](int64_t i, auto part)
               HWY_ATTR { part.store(hn::Mul(factor, exp_of(D(), hn::Sub(part.load(x + i), shift))), dx + i); });
}

template <class T>
struct RowBody<RowOp::logsumexp_grad, T> : RowLoops<T> {
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    scaled_softmax<T>(*this, to[0], in[0], *in[1], *in[2]);
  }
};

// ---- losses ----

/// The label of a row; -1 where there is no such column.
template <class T>
HWY_INLINE int64_t label_of(const T* at, int64_t n) {
  const auto label = *reinterpret_cast<const std::int32_t*>(at);
  return label >= 0 && label < n ? label : -1;
}

template <class T>
struct RowBody<RowOp::cross_entropy, T> : RowLoops<T> {
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const int64_t label = label_of(in[1], this->n);
    const T hit = label < 0 ? std::numeric_limits<T>::quiet_NaN() : in[0][label];
    const T lse = this->lse(in[0]);
    *to[0] = lse - hit;
    *to[1] = lse;
  }
};

template <class T>
struct RowBody<RowOp::cross_entropy_grad, T> : RowLoops<T> {
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const int64_t label = label_of(in[1], this->n);
    const T g = *in[3];
    scaled_softmax<T>(*this, to[0], in[0], *in[2], g);
    if (label >= 0) to[0][label] -= g;
  }
};

// ---- norms ----

template <class T>
struct RowBody<RowOp::layer_norm, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  HWY_INLINE void run(const RowParams& p, T* const* to, T* const* in) const {
    const T *x = in[0], *scale = in[1], *shift = in[2];
    T* y = to[0];
    const T mean = this->mean([=](int64_t i, auto part) HWY_ATTR { return part.load(x + i); });
    const auto middle = hn::Set(D(), mean);
    const T spread = this->mean([=](int64_t i, auto part) HWY_ATTR {
      const auto centred = hn::Sub(part.load(x + i), middle);
      return hn::Mul(centred, centred);
    });
    const T deviation = this->deviation(spread, p.epsilon);
    const auto factor = hn::Set(D(), deviation);
    this->each([=](int64_t i, auto part) HWY_ATTR {
      const auto normal = hn::Mul(hn::Sub(part.load(x + i), middle), factor);
      part.store(hn::MulAdd(normal, part.load(scale + i), part.load(shift + i)), y + i);
    });
    *to[1] = mean;
    *to[2] = deviation;
  }
};

template <class T>
struct RowBody<RowOp::layer_norm_grad, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  using typename RowLoops<T>::V;
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const T *x = in[0], *scale = in[1], *g = in[4];
    T *dx = to[0], *dscale = to[1], *dshift = to[2];
    const D d;
    const V middle = hn::Set(d, *in[2]), factor = hn::Set(d, *in[3]);
    V of_g = hn::Zero(d), of_normal = of_g;
    this->each([&](int64_t i, auto part) HWY_ATTR {
      const V normal = hn::Mul(hn::Sub(part.load(x + i), middle), factor), gi = part.load(g + i);
      const V h = hn::Mul(gi, part.load(scale + i));
      part.store(hn::MulAdd(gi, normal, part.load(dscale + i)), dscale + i);
      part.store(hn::Add(gi, part.load(dshift + i)), dshift + i);
      of_g = hn::Add(of_g, h);
      of_normal = hn::MulAdd(h, normal, of_normal);
    });
    const T share = this->n == 0 ? T{0} : T{1} / static_cast<T>(this->n);
    const V a = hn::Set(d, this->total_of(of_g) * share), b = hn::Set(d, this->total_of(of_normal) * share);
    this->each([=](int64_t i, auto part) HWY_ATTR {
      const V normal = hn::Mul(hn::Sub(part.load(x + i), middle), factor);
      const V h = hn::MulSub(part.load(g + i), part.load(scale + i), a);
      part.store(hn::Mul(factor, hn::NegMulAdd(normal, b, h)), dx + i);
    });
  }
};

template <class T>
struct RowBody<RowOp::rms_norm, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  HWY_INLINE void run(const RowParams& p, T* const* to, T* const* in) const {
    const T *x = in[0], *scale = in[1];
    T* y = to[0];
    const T power = this->mean([=](int64_t i, auto part) HWY_ATTR {
      const auto v = part.load(x + i);
      return hn::Mul(v, v);
    });
    const T deviation = this->deviation(power, p.epsilon);
    const auto factor = hn::Set(D(), deviation);
    this->each([=](int64_t i, auto part)
                   HWY_ATTR { part.store(hn::Mul(hn::Mul(part.load(x + i), factor), part.load(scale + i)), y + i); });
    *to[1] = deviation;
  }
};

template <class T>
struct RowBody<RowOp::rms_norm_grad, T> : RowLoops<T> {
  using typename RowLoops<T>::D;
  using typename RowLoops<T>::V;
  HWY_INLINE void run(const RowParams&, T* const* to, T* const* in) const {
    const T *x = in[0], *scale = in[1], *g = in[3];
    T *dx = to[0], *dscale = to[1];
    const D d;
    const V factor = hn::Set(d, *in[2]);
    const T along = this->mean([=](int64_t i, auto part) HWY_ATTR {
      const V normal = hn::Mul(part.load(x + i), factor), gi = part.load(g + i);
      part.store(hn::MulAdd(gi, normal, part.load(dscale + i)), dscale + i);
      return hn::Mul(hn::Mul(gi, part.load(scale + i)), normal);
    });
    const V b = hn::Set(d, along);
    this->each([=](int64_t i, auto part) HWY_ATTR {
      const V normal = hn::Mul(part.load(x + i), factor), h = hn::Mul(part.load(g + i), part.load(scale + i));
      part.store(hn::Mul(factor, hn::NegMulAdd(normal, b, h)), dx + i);
    });
  }
};

// ---- all ----

struct RowShape {
  int results, operands;
  int totals;  // they are the last results
};
template <RowOp op>
constexpr RowShape row_shape(std::string_view parts, std::string_view results) {
  return {static_cast<int>(results.size()), static_cast<int>(parts.size()),
          static_cast<int>(std::count(results.begin(), results.end(), 't'))};
}

template <RowOp op, class T>
void run_rows(const RowParams& p, void* const* ptr, RowShape shape) {
  T* at[kMaxOperands];
  for (int k = 0; k < shape.results + shape.operands; ++k) at[k] = static_cast<T*>(ptr[k]);
  for (int k = shape.results - shape.totals; k < shape.results; ++k)
    if (!p.accumulate[k]) std::fill_n(at[k], p.cols, T{0});
  const RowBody<op, T> body{{p.cols}};
  for (int64_t row = 0; row < p.rows; ++row) {
    body.run(p, at, at + shape.results);
    for (int k = 0; k < shape.results + shape.operands; ++k)
      at[k] = reinterpret_cast<T*>(reinterpret_cast<char*>(at[k]) + p.row_stride[k]);
  }
}

#define WINDROW_ROW(name, doc, operands, parts, results, ...)                 \
  template <class T>                                                          \
  void run_##name(const RowParams& p, void* const* ptr, int64_t) {            \
    run_rows<RowOp::name, T>(p, ptr, row_shape<RowOp::name>(parts, results)); \
  }
#include "ir/rows.def"

RowKernel find_row(RowOp op, DType dtype) {
  switch (op) {
#define WINDROW_ROW(name, ...) \
  case RowOp::name:            \
    return dtype == DType::f32 ? &run_##name<float> : &run_##name<double>;
#include "ir/rows.def"
  }
  return nullptr;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

RowKernel find_row(ops::RowOp op, DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_row(op, dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif
