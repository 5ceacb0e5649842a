// Max pooling over NHWC windows: the maximum, what another array holds at the maximum, and the adjoint of that.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/max_pool.cpp"
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

// Whether v replaces the best so far: it is greater, or the first NaN. Ties keep the first.
template <class V>
HWY_INLINE auto takes(V v, V best) {
  return hn::AndNot(hn::IsNaN(best), hn::Or(hn::Gt(v, best), hn::IsNaN(v)));
}
// The same for the value alone, where one NaN is as good as another.
template <class V>
HWY_INLINE V larger(V v, V best) {
  return hn::IfThenElse(hn::Or(hn::Gt(v, best), hn::IsNaN(v)), v, best);
}

// The part of one window inside the image, for one vector of channels. Positions are in elements.
struct Patch {
  int64_t rows, columns;          // positions inside the image
  int64_t row_step, column_step;  // from one to the next in x
};

// What a kernel does with a patch, for one vector of channels: three operations with the same call.
// x, u and dx are at the patch's first position; out and dy at the output pixel.
template <class T>
struct MaxOp {
  T* out;
  const T* x;
  template <class D>
  HWY_INLINE void operator()(D d, const Patch& q, int64_t at, int64_t out_at) const {
    if (q.rows <= 0 || q.columns <= 0) {
      hn::StoreU(hn::Set(d, -std::numeric_limits<T>::infinity()), d, out + out_at);
      return;
    }
    const T* row = x + at;
    auto best = hn::LoadU(d, row);
    for (int64_t r = 0; r < q.rows; ++r, row += q.row_step)
      for (int64_t k = 0; k < q.columns; ++k) best = larger(hn::LoadU(d, row + k * q.column_step), best);
    hn::StoreU(best, d, out + out_at);
  }
  // 2x2 in the image: no loops.
  template <class D>
  HWY_INLINE void square(D d, const Patch& q, int64_t at, int64_t out_at) const {
    const T *a = x + at, *b = a + q.row_step;
    const auto upper = larger(hn::LoadU(d, a + q.column_step), hn::LoadU(d, a));
    const auto lower = larger(hn::LoadU(d, b + q.column_step), hn::LoadU(d, b));
    hn::StoreU(larger(lower, upper), d, out + out_at);
  }
};

template <class T>
struct PickOp {
  T* out;
  const T *x, *u;
  template <class D>
  HWY_INLINE void operator()(D d, const Patch& q, int64_t at, int64_t out_at) const {
    auto picked = hn::Zero(d);
    if (q.rows > 0 && q.columns > 0) {
      auto best = hn::LoadU(d, x + at);
      picked = hn::LoadU(d, u + at);
      for (int64_t r = 0; r < q.rows; ++r)
        for (int64_t k = 0; k < q.columns; ++k) {
          const int64_t i = at + r * q.row_step + k * q.column_step;
          const auto v = hn::LoadU(d, x + i);
          const auto take = takes(v, best);
          best = hn::IfThenElse(take, v, best);
          picked = hn::IfThenElse(take, hn::LoadU(d, u + i), picked);
        }
    }
    hn::StoreU(picked, d, out + out_at);
  }
  template <class D>
  HWY_INLINE void square(D d, const Patch& q, int64_t at, int64_t out_at) const {
    (*this)(d, Patch{2, 2, q.row_step, q.column_step}, at, out_at);
  }
};

// kAlone: no pixel is in two windows.
template <class T, bool kAlone>
struct ScatterOp {
  T* dx;
  const T *x, *dy;
  template <class D>
  HWY_INLINE void operator()(D d, const Patch& q, int64_t at, int64_t out_at) const {
    if (q.rows <= 0 || q.columns <= 0) return;
    auto best = hn::LoadU(d, x + at);
    auto where = hn::Zero(d);  // which position won, as a number in each lane
    for (int64_t r = 0; r < q.rows; ++r)
      for (int64_t k = 0; k < q.columns; ++k) {
        const auto v = hn::LoadU(d, x + at + r * q.row_step + k * q.column_step);
        const auto take = takes(v, best);
        best = hn::IfThenElse(take, v, best);
        where = hn::IfThenElse(take, hn::Set(d, static_cast<T>(r * q.columns + k)), where);
      }
    const auto gradient = hn::LoadU(d, dy + out_at);
    for (int64_t r = 0; r < q.rows; ++r)
      for (int64_t k = 0; k < q.columns; ++k) {
        T* to = dx + at + r * q.row_step + k * q.column_step;
        const auto here = hn::Eq(where, hn::Set(d, static_cast<T>(r * q.columns + k)));
        hn::StoreU(hn::Add(hn::LoadU(d, to), hn::IfThenElseZero(here, gradient)), d, to);
      }
  }
  // Pixels that are in no other window are written, not added to, and need no clearing.
  template <class D>
  HWY_INLINE void square(D d, const Patch& q, int64_t at, int64_t out_at) const {
    if constexpr (!kAlone) return (*this)(d, Patch{2, 2, q.row_step, q.column_step}, at, out_at);
    const T *a = x + at, *b = a + q.row_step;
    const auto x0 = hn::LoadU(d, a), x1 = hn::LoadU(d, a + q.column_step);
    const auto x2 = hn::LoadU(d, b), x3 = hn::LoadU(d, b + q.column_step);
    const auto take1 = takes(x1, x0), take3 = takes(x3, x2);
    const auto upper = hn::IfThenElse(take1, x1, x0), lower = hn::IfThenElse(take3, x3, x2);
    const auto take_lower = takes(lower, upper);
    const auto gradient = hn::LoadU(d, dy + out_at);
    const auto zero = hn::Zero(d);
    const auto up = hn::IfThenElse(take_lower, zero, gradient), down = hn::IfThenElse(take_lower, gradient, zero);
    T *to = dx + at, *below = to + q.row_step;
    hn::StoreU(hn::IfThenElse(take1, zero, up), d, to);
    hn::StoreU(hn::IfThenElse(take1, up, zero), d, to + q.column_step);
    hn::StoreU(hn::IfThenElse(take3, zero, down), d, below);
    hn::StoreU(hn::IfThenElse(take3, down, zero), d, below + q.column_step);
  }
};

// Runs an operation over all channels of `count` windows with patches of one shape, `step` and `channels` apart: the
// widest vectors that fit, then narrower ones. Windows are the inner loop, since channels are often one vector or two.
template <bool kSquare, class T, class Op>
HWY_INLINE void over_run(const Op& op, const Patch& q, int64_t channels, int64_t count, int64_t at, int64_t step,
                         int64_t out_at) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 32 / sizeof(T)> d32;
  const hn::FixedTag<T, 16 / sizeof(T)> d16;
  const hn::FixedTag<T, 1> d1;
  const int64_t lanes = hn::Lanes(d), lanes32 = hn::Lanes(d32), lanes16 = hn::Lanes(d16);
  int64_t c = 0;
  const auto each_window = [&](auto tag) HWY_ATTR {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kSquare)
        op.square(tag, q, at + i * step + c, out_at + i * channels + c);
      else
        op(tag, q, at + i * step + c, out_at + i * channels + c);
    }
    c += hn::Lanes(tag);
  };
  while (c + lanes <= channels) each_window(d);
  if (lanes32 < lanes && c + lanes32 <= channels) each_window(d32);
  while (c + lanes16 <= channels) each_window(d16);
  while (c < channels) each_window(d1);
}

// The kernel positions [first, last) inside [0, in) of a window that starts at `start`.
struct Range {
  int64_t first, last;
};
inline Range inside(int64_t start, int64_t in, int64_t kernel, int64_t dilation) {
  Range r{0, kernel};
  while (r.first < kernel && start + r.first * dilation < 0) ++r.first;
  while (r.last > r.first && start + (r.last - 1) * dilation >= in) --r.last;
  return r;
}

template <class T, class Op>
HWY_INLINE void over_windows(const WindowParams& p, const Op& op, int64_t image, int64_t out_image) {
  const int64_t c = p.channels, row_step = p.dilation_h * p.in_w * c, column_step = p.dilation_w * c;
  // Windows [first, last) of a row cross neither the left nor the right border.
  const int64_t room = p.in_w - 1 + p.pad_left - (p.kernel_w - 1) * p.dilation_w;
  const int64_t first = std::min(p.out_w, (std::max<int64_t>(0, p.pad_left) + p.stride_w - 1) / p.stride_w);
  const int64_t last = std::max(first, room < 0 ? 0 : std::min(p.out_w, room / p.stride_w + 1));
  for (int64_t oh = 0; oh < p.out_h; ++oh) {
    const int64_t ih = oh * p.stride_h - p.pad_top, out_row = out_image + oh * p.out_w * c;
    const Range high = inside(ih, p.in_h, p.kernel_h, p.dilation_h);
    const int64_t rows = high.last - high.first, top = image + (ih + high.first * p.dilation_h) * p.in_w * c;
    const auto border = [&](int64_t from, int64_t to) HWY_ATTR {
      for (int64_t ow = from; ow < to; ++ow) {
        const int64_t iw = ow * p.stride_w - p.pad_left;
        const Range wide = inside(iw, p.in_w, p.kernel_w, p.dilation_w);
        const Patch q{rows, wide.last - wide.first, row_step, column_step};
        over_run<false, T>(op, q, c, 1, top + (iw + wide.first * p.dilation_w) * c, 0, out_row + ow * c);
      }
    };
    border(0, first);
    const Patch whole{rows, p.kernel_w, row_step, column_step};
    const int64_t at = top + (first * p.stride_w - p.pad_left) * c;
    if (rows == 2 && p.kernel_h == 2 && p.kernel_w == 2)
      over_run<true, T>(op, whole, c, last - first, at, p.stride_w * c, out_row + first * c);
    else
      over_run<false, T>(op, whole, c, last - first, at, p.stride_w * c, out_row + first * c);
    border(last, p.out_w);
  }
}

template <class T>
void max_pool(const WindowParams& p, void* const* ptr, int64_t) {
  const MaxOp<T> op{static_cast<T*>(ptr[0]), static_cast<const T*>(ptr[1])};
  for (int64_t b = 0; b < p.batch; ++b) over_windows<T>(p, op, b * p.x_batch_stride, b * p.out_batch_stride);
}

template <class T>
void max_pool_pick(const WindowParams& p, void* const* ptr, int64_t) {
  const PickOp<T> op{static_cast<T*>(ptr[0]), static_cast<const T*>(ptr[1]), static_cast<const T*>(ptr[2])};
  for (int64_t b = 0; b < p.batch; ++b) over_windows<T>(p, op, b * p.x_batch_stride, b * p.out_batch_stride);
}

template <class T>
void max_pool_scatter(const WindowParams& p, void* const* ptr, int64_t) {
  T* const dx = static_cast<T*>(ptr[0]);
  const T *const x = static_cast<const T*>(ptr[1]), *const dy = static_cast<const T*>(ptr[2]);
  const int64_t size = p.in_h * p.in_w * p.channels;
  const bool alone = p.stride_h > (p.kernel_h - 1) * p.dilation_h && p.stride_w > (p.kernel_w - 1) * p.dilation_w;
  const bool tiled = alone && p.kernel_h == 2 && p.kernel_w == 2 && p.stride_h == 2 && p.stride_w == 2 &&
                     p.pad_top == 0 && p.pad_left == 0 && p.in_h == 2 * p.out_h && p.in_w == 2 * p.out_w;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t image = b * p.x_batch_stride, out_image = b * p.out_batch_stride;
    if (!tiled) std::memset(dx + image, 0, size * sizeof(T));
    if (alone)
      over_windows<T>(p, ScatterOp<T, true>{dx, x, dy}, image, out_image);
    else
      over_windows<T>(p, ScatterOp<T, false>{dx, x, dy}, image, out_image);
  }
}

}  // namespace

WindowKernel find_max_pool(DType dtype) { return dtype == DType::f32 ? max_pool<float> : max_pool<double>; }
WindowKernel find_max_pool_pick(DType dtype) {
  return dtype == DType::f32 ? max_pool_pick<float> : max_pool_pick<double>;
}
WindowKernel find_max_pool_scatter(DType dtype) {
  return dtype == DType::f32 ? max_pool_scatter<float> : max_pool_scatter<double>;
}

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

WindowKernel find_max_pool(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_max_pool(dtype))
  return nullptr;
}

WindowKernel find_max_pool_pick(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_max_pool_pick(dtype))
  return nullptr;
}

WindowKernel find_max_pool_scatter(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_max_pool_scatter(dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
