// unfold (im2col) and fold (col2im). Pooling is in max_pool.cpp.
#include "backend/cpu/window.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/window.cpp"
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

// Segments are moved 32 bytes at a time (16 on SSE4): most are shorter than a 512-bit vector, and unaligned 64-byte
// stores always cross a cache line.
template <class T>
using SegmentTag = hn::CappedTag<T, 32 / sizeof(T)>;
template <class T>
using SmallTag = hn::FixedTag<T, 16 / sizeof(T)>;

template <class T>
HWY_INLINE void clear_exactly(T* dst, int64_t n) {
  const SegmentTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Zero(d), d, dst + i);
  for (; i < n; ++i) dst[i] = 0;
}

template <class T>
HWY_INLINE void copy_exactly(T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t n) {
  const SegmentTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, src + i), d, dst + i);
  for (; i < n; ++i) dst[i] = src[i];
}

// One output pixel whose window crosses the left or right border, or reaches the end of an array.
template <class T>
void unfold_exactly(const WindowParams& p, T* HWY_RESTRICT dst, const T* HWY_RESTRICT image, int64_t ih0, int64_t iw0) {
  const int64_t c = p.channels;
  int64_t left = 0, right = p.kernel_w;  // the kernel columns inside the image
  while (left < right && iw0 + left * p.dilation_w < 0) ++left;
  while (right > left && iw0 + (right - 1) * p.dilation_w >= p.in_w) --right;
  for (int64_t kh = 0; kh < p.kernel_h; ++kh, dst += p.kernel_w * c) {
    const int64_t ih = ih0 + kh * p.dilation_h;
    if (ih < 0 || ih >= p.in_h || left == right) {
      clear_exactly(dst, p.kernel_w * c);
      continue;
    }
    const T* const src = image + (ih * p.in_w + iw0) * c;
    clear_exactly(dst, left * c);
    if (p.dilation_w == 1)
      copy_exactly(dst + left * c, src + left * c, (right - left) * c);
    else
      for (int64_t kw = left; kw < right; ++kw) copy_exactly(dst + kw * c, src + kw * p.dilation_w * c, c);
    clear_exactly(dst + right * c, (p.kernel_w - right) * c);
  }
}

// How the windows of one kernel shape move: the same for every output pixel away from the left and right border.
struct Moves {
  int64_t rows, row_step;    // kernel rows, and from one to the next in the image
  int64_t parts, part_step;  // contiguous segments of a row, and from one to the next in the image
  int64_t segment;           // elements of one
  int64_t pixel_step;        // from one output pixel's window to the next in the image
};

// Unfolds `count` output pixels; only rows [top, bottom) of the kernel lie inside the image, the others are cleared.
// Each segment is written in kVectors (0: as many as it takes) whole vectors that may run over its end, which the next
// segment then overwrites; the caller makes sure that both arrays go on for so long.
template <int kVectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void unfold_run(D d, const Moves& m, T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t count,
                           int64_t top, int64_t bottom) {
  const int64_t lanes = hn::Lanes(d), segment = m.segment, row_step = m.row_step, pixel_step = m.pixel_step;
  const int64_t vectors = kVectors > 0 ? kVectors : (segment + lanes - 1) / lanes;
  const auto move = [=](T* to, const T* from) HWY_ATTR {
    for (int64_t v = 0; v < vectors; ++v) hn::StoreU(hn::LoadU(d, from + v * lanes), d, to + v * lanes);
  };
  if (m.rows == 3 && m.parts == 1 && top == 0 && bottom == 3) {  // most pixels of most networks: no inner loops
    for (int64_t i = 0; i < count; ++i, src += pixel_step, dst += 3 * segment) {
      move(dst, src);
      move(dst + segment, src + row_step);
      move(dst + 2 * segment, src + 2 * row_step);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i, src += pixel_step) {
    for (int64_t r = 0; r < m.rows; ++r) {
      if (r < top || r >= bottom) {
        for (int64_t k = 0; k < m.parts; ++k, dst += segment)
          for (int64_t v = 0; v < vectors; ++v) hn::StoreU(hn::Zero(d), d, dst + v * lanes);
        continue;
      }
      const T* part = src + r * row_step;
      for (int64_t k = 0; k < m.parts; ++k, part += m.part_step, dst += segment) move(dst, part);
    }
  }
}

template <class T>
using UnfoldRun = void (*)(const Moves& m, T* dst, const T* src, int64_t count, int64_t top, int64_t bottom);
template <int kVectors, class D, class T = hn::TFromD<D>>
void unfold_run_of(const Moves& m, T* dst, const T* src, int64_t count, int64_t top, int64_t bottom) {
  unfold_run<kVectors>(D(), m, dst, src, count, top, bottom);
}

// The outputs [first, last) along one axis whose windows lie inside [0, in).
struct Interior {
  int64_t first, last;
};
inline Interior interior(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  const int64_t first = std::min(out, (std::max<int64_t>(pad, 0) + stride - 1) / stride);
  const int64_t room = in - 1 + pad - (kernel - 1) * dilation;  // the largest o * stride
  const int64_t last = room < 0 ? 0 : std::min(out, room / stride + 1);
  return {first, std::max(first, last)};
}

// Moves the end of a row's fast pixels back to where whole vectors stay inside both arrays: it matters at the end of
// the image only.
template <class T>
HWY_INLINE int64_t fast_end(int64_t first, int64_t last, const T* read_end, int64_t read_step, const T* x_end,
                            const T* write_end, int64_t write_step, const T* cols_end) {
  while (last > first && (read_end > x_end || write_end > cols_end))
    --last, read_end -= read_step, write_end -= write_step;
  return last;
}

template <class T>
HWY_INLINE void unfold_image(const WindowParams& p, const Moves& m, UnfoldRun<T> run, int64_t overrun, T* cols,
                             const T* image, const T* image_end) {
  const int64_t window = p.kernel_h * p.kernel_w * p.channels, out_row = p.out_w * window;
  const Interior wide = interior(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_left, p.dilation_w);
  for (int64_t oh = 0; oh < p.out_h; ++oh) {
    T* const dst = cols + oh * out_row;
    const int64_t ih0 = oh * p.stride_h - p.pad_top, first = wide.first;
    int64_t top = 0, bottom = p.kernel_h;  // the kernel rows inside the image
    while (top < bottom && ih0 + top * p.dilation_h < 0) ++top;
    while (bottom > top && ih0 + (bottom - 1) * p.dilation_h >= p.in_h) --bottom;
    const T* const src = image + (ih0 * p.in_w + first * p.stride_w - p.pad_left) * p.channels;
    const int64_t reach = (wide.last - 1 - first) * m.pixel_step + (bottom - 1) * m.row_step +
                          (m.parts - 1) * m.part_step + m.segment + overrun;
    const int64_t last = fast_end(first, wide.last, bottom > top ? src + reach : image, m.pixel_step, image_end,
                                  static_cast<const T*>(dst) + wide.last * window + overrun, window,
                                  static_cast<const T*>(cols) + p.out_h * out_row);
    const auto border = [&](int64_t from, int64_t to) HWY_ATTR {
      for (int64_t ow = from; ow < to; ++ow)
        unfold_exactly(p, dst + ow * window, image, ih0, ow * p.stride_w - p.pad_left);
    };
    border(0, first);
    if (last > first) run(m, dst + first * window, src, last - first, top, bottom);
    border(last, p.out_w);
  }
}

// The image with its padding round it, as far as the windows reach.
WindowParams padded(WindowParams p) {
  p.in_h = (p.out_h - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1;
  p.in_w = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1;
  p.pad_top = p.pad_left = 0;
  return p;
}

// Copies the image into the middle of a padded one.
template <class T>
HWY_INLINE void copy_inside(const WindowParams& p, const WindowParams& q, T* HWY_RESTRICT room,
                            const T* HWY_RESTRICT image) {
  const int64_t left = std::max<int64_t>(0, p.pad_left), skip = std::max<int64_t>(0, -p.pad_left);
  const int64_t columns = std::min(p.in_w - skip, q.in_w - left);
  if (columns <= 0) return;
  for (int64_t h = std::max<int64_t>(0, p.pad_top); h < std::min(q.in_h, p.in_h + p.pad_top); ++h)
    copy_exactly(room + (h * q.in_w + left) * p.channels, image + ((h - p.pad_top) * p.in_w + skip) * p.channels,
                 columns * p.channels);
}

template <class T>
Moves moves_of(const WindowParams& p) {
  const bool joined = p.dilation_w == 1;  // then a window's row is one segment
  const int64_t c = p.channels;
  return {p.kernel_h,       p.dilation_h * p.in_w * c,   joined ? 1 : p.kernel_w,
          p.dilation_w * c, joined ? p.kernel_w * c : c, p.stride_w * c};
}

template <class T>
void unfold(const WindowParams& p, void* const* ptr, int64_t) {
  if (p.out_h == 0 || p.out_w == 0 || p.channels == 0) return;
  const int64_t small = hn::Lanes(SmallTag<T>()), segment = moves_of<T>(p).segment;
  const int64_t lanes = segment <= small ? small : hn::Lanes(SegmentTag<T>());
  const int64_t vectors = (segment + lanes - 1) / lanes, overrun = vectors * lanes - segment;
  const UnfoldRun<T> run = segment <= small ? unfold_run_of<1, SmallTag<T>>
                           : vectors == 1   ? unfold_run_of<1, SegmentTag<T>>
                           : vectors == 2   ? unfold_run_of<2, SegmentTag<T>>
                           : vectors == 3   ? unfold_run_of<3, SegmentTag<T>>
                                            : unfold_run_of<0, SegmentTag<T>>;
  // A small image is first copied into the middle of a cleared one, so that no window crosses a border: in small images
  // many would. In large ones few do.
  constexpr int64_t kRoom = 16384 / sizeof(T), kSlack = 64 / sizeof(T);
  HWY_ALIGN T room[kRoom];
  const WindowParams q = padded(p);
  const int64_t size = q.in_h * q.in_w * q.channels;
  const bool inside =
      p.pad_top <= 0 && p.pad_left <= 0 && q.in_h - p.pad_top <= p.in_h && q.in_w - p.pad_left <= p.in_w;
  const bool use_room = !inside && size <= kRoom - kSlack;
  if (use_room) clear_exactly(room, size + kSlack);
  const Moves m = moves_of<T>(use_room ? q : p);
  for (int64_t b = 0; b < p.batch; ++b) {
    T* const cols = static_cast<T*>(ptr[0]) + b * p.out_batch_stride;
    const T* const image = static_cast<const T*>(ptr[1]) + b * p.x_batch_stride;
    if (use_room) {
      copy_inside(p, q, room, image);
      unfold_image(q, m, run, overrun, cols, static_cast<const T*>(room), static_cast<const T*>(room) + size + kSlack);
    } else {
      unfold_image(p, m, run, overrun, cols, image, image + p.in_h * p.in_w * p.channels);
    }
  }
}

// The windows that cover one pixel, along one axis: output `first - i * out_step` at kernel position
// `kernel + i * kernel_step`, for i < count.
struct Cover {
  int64_t count, first, kernel, kernel_step, out_step;
};
inline Cover cover(int64_t at, int64_t out, int64_t kernel, int64_t stride, int64_t dilation) {  // at = pixel + padding
  if (stride == 1 && dilation == 1) {
    const int64_t low = std::max<int64_t>(0, at - out + 1), high = std::min(kernel - 1, at);
    if (high < low) return {0, 0, 0, 1, 1};
    return {high - low + 1, at - low, low, 1, 1};
  }
  // A kernel position k meets the pixel where (at - k * dilation) is a multiple of the stride in range: an arithmetic
  // sequence of k. Its step is found by trying, since strides are small.
  const auto meets = [&](int64_t k) {
    const int64_t o = at - k * dilation;
    return o >= 0 && o % stride == 0 && o / stride < out;
  };
  int64_t k = 0;
  while (k < kernel && !meets(k)) ++k;
  if (k >= kernel) return {0, 0, 0, 1, 1};
  int64_t step = 1;
  while (step * dilation % stride) ++step;
  const int64_t first = (at - k * dilation) / stride, out_step = step * dilation / stride;
  return {std::min((kernel - 1 - k) / step, first / out_step) + 1, first, k, step, out_step};
}

// Adds up kVectors vectors of channels of one pixel.
template <int kVectors, class D, class T = hn::TFromD<D>>
HWY_INLINE void fold_channels(D d, T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t rows, int64_t row_step,
                              int64_t columns, int64_t column_step) {
  const int64_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < columns; ++k)
      for (int v = 0; v < kVectors; ++v)
        sum[v] = hn::Add(sum[v], hn::LoadU(d, src + r * row_step + k * column_step + v * lanes));
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, dst + v * lanes);
}

template <class T>
HWY_INLINE void fold_pixel(T* HWY_RESTRICT dst, const T* HWY_RESTRICT src, int64_t channels, int64_t rows,
                           int64_t row_step, int64_t columns, int64_t column_step) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 32 / sizeof(T)> d32;
  const hn::FixedTag<T, 16 / sizeof(T)> d16;
  const hn::FixedTag<T, 1> d1;
  const int64_t lanes = hn::Lanes(d), lanes32 = hn::Lanes(d32), lanes16 = hn::Lanes(d16);
  int64_t c = 0;
  for (; c + 2 * lanes <= channels; c += 2 * lanes)
    fold_channels<2>(d, dst + c, src + c, rows, row_step, columns, column_step);
  if (c + lanes <= channels) fold_channels<1>(d, dst + c, src + c, rows, row_step, columns, column_step), c += lanes;
  if (lanes32 < lanes && c + lanes32 <= channels)
    fold_channels<1>(d32, dst + c, src + c, rows, row_step, columns, column_step), c += lanes32;
  for (; c + lanes16 <= channels; c += lanes16)
    fold_channels<1>(d16, dst + c, src + c, rows, row_step, columns, column_step);
  for (; c < channels; ++c) fold_channels<1>(d1, dst + c, src + c, rows, row_step, columns, column_step);
}

// One row of pixels [0, count) of x; `wide` says which windows cover each.
template <class T>
HWY_INLINE void fold_row(T* HWY_RESTRICT dst, const T* HWY_RESTRICT cols, const Cover* wide, int64_t count,
                         int64_t channels, int64_t window, int64_t rows, int64_t row_step) {
  for (int64_t w = 0; w < count; ++w, dst += channels) {
    const T* const src = cols + wide[w].first * window + wide[w].kernel * channels;
    const int64_t column_step = wide[w].kernel_step * channels - wide[w].out_step * window;
    if (rows == 3 && wide[w].count == 3)  // constants here unroll the loops below
      fold_pixel(dst, src, channels, 3, row_step, 3, column_step);
    else
      fold_pixel(dst, src, channels, rows, row_step, wide[w].count, column_step);
  }
}

// Gathers: each pixel is summed in registers and written once. Adding window after window into x would wait on every
// store that the next load overlaps.
template <class T>
void fold(const WindowParams& p, void* const* ptr, int64_t) {
  const int64_t c = p.channels, kernel_row = p.kernel_w * c, window = p.kernel_h * kernel_row,
                out_row = p.out_w * window;
  constexpr int64_t kBlock = 64;  // columns whose covering windows are worked out once for all rows and images
  Cover wide[kBlock];
  for (int64_t w0 = 0; w0 < p.in_w; w0 += kBlock) {
    const int64_t count = std::min(kBlock, p.in_w - w0);
    for (int64_t w = 0; w < count; ++w)
      wide[w] = cover(w0 + w + p.pad_left, p.out_w, p.kernel_w, p.stride_w, p.dilation_w);
    for (int64_t b = 0; b < p.batch; ++b) {
      T* const x = static_cast<T*>(ptr[0]) + b * p.x_batch_stride + w0 * c;
      const T* const cols = static_cast<const T*>(ptr[1]) + b * p.out_batch_stride;
      for (int64_t h = 0; h < p.in_h; ++h) {
        const Cover high = cover(h + p.pad_top, p.out_h, p.kernel_h, p.stride_h, p.dilation_h);
        fold_row(x + h * p.in_w * c, cols + high.first * out_row + high.kernel * kernel_row, wide, count, c, window,
                 high.count, high.kernel_step * kernel_row - high.out_step * out_row);
      }
    }
  }
}

}  // namespace

WindowKernel find_unfold(DType dtype) { return dtype == DType::f32 ? unfold<float> : unfold<double>; }
WindowKernel find_fold(DType dtype) { return dtype == DType::f32 ? fold<float> : fold<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace wr::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wr::cpu {

WindowParams with_dense_columns(WindowParams p) {
  p.x_batch_stride = p.in_h * p.in_w * p.channels;
  p.out_batch_stride = p.out_h * p.out_w * p.kernel_h * p.kernel_w * p.channels;
  return p;
}

WindowParams with_dense_pool(WindowParams p) {
  p.x_batch_stride = p.in_h * p.in_w * p.channels;
  p.out_batch_stride = p.out_h * p.out_w * p.channels;
  return p;
}

WindowKernel find_unfold(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_unfold(dtype))
  return nullptr;
}

WindowKernel find_fold(DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_fold(dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
