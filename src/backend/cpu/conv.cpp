// Convolutions as products of shifted images with the weights of each tap. Along a row of an image the taps of a window
// are neighbours, so a product sums over taps and channels at once; over the rows of the window it goes on in segments.
#include "backend/cpu/conv.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "backend/cpu/depthwise.h"
#include "backend/cpu/gemm_kernel.h"
#include "base/machine.h"
#include "windrow/error.h"

namespace wr::cpu {
namespace {

using i64 = std::int64_t;

// ---- which pixels a result reads ----

/// Results along one axis, and the taps each reads: result i reads, for tap t, the source at at + i * move + t *
/// advance, and multiplies with the weight tap + t * step.
struct Side {
  i64 results, first, stride;  // result i stands at first + i * stride
  i64 taps, tap, step;
  i64 at, move, advance;

  i64 lowest() const { return at; }
  i64 highest() const { return at + (results - 1) * move + (taps - 1) * advance; }
};

Side of_window(i64 results, i64 kernel, i64 stride, i64 dilation, i64 pad) {
  return {results, 0, 1, kernel, 0, 1, -pad, stride, dilation};
}

/// The image's gradient: pixel first + i * stride is reached by every step-th tap, from windows one after the other.
Side of_pixels(i64 size, i64 residue, i64 kernel, i64 stride, i64 dilation, i64 pad) {
  const i64 step = stride / std::gcd(stride, dilation);
  i64 tap = 0;
  while (tap < step && (residue + pad - tap * dilation) % stride != 0) ++tap;
  const i64 taps = tap < step && tap < kernel ? (kernel - 1 - tap) / step + 1 : 0;
  const i64 last = tap + (taps - 1) * step;  // first here, so that windows are read in their order
  const i64 results = residue < size ? (size - 1 - residue) / stride + 1 : 0;
  return {results,
          residue,
          stride,
          taps,
          last,
          -step,
          (residue + pad - last * dilation) / stride,
          1,
          dilation * step / stride};
}

struct Sides {
  Side rows, columns;
};

/// y is one such set of results; x is one a remainder by the stride, as different taps reach them.
i64 sets(const Conv& conv, bool pixels) {
  const Window& w = conv.shape.window;
  return pixels ? w.stride_h * w.stride_w : 1;
}

Sides sides(const ConvShape& s, bool pixels, i64 set) {
  const Window& w = s.window;
  if (!pixels)
    return {of_window(s.out_height, w.height, w.stride_h, w.dilation_h, w.pad_top),
            of_window(s.out_width, w.width, w.stride_w, w.dilation_w, w.pad_left)};
  return {of_pixels(s.height, set / w.stride_w, w.height, w.stride_h, w.dilation_h, w.pad_top),
          of_pixels(s.width, set % w.stride_w, w.width, w.stride_w, w.dilation_w, w.pad_left)};
}

// ---- the image with zeros round it ----

struct Source {
  i64 height, width, channels;
  ImageStrides strides;
};

/// Images one at a time, in scratch with a border of zeros, or as they lie.
template <class T>
class Padded {
 public:
  Padded(const Conv& conv, const Source& source, const void* first, void* room)
      : conv_(conv), source_(source), first_(static_cast<const T*>(first)), room_(static_cast<T*>(room)) {
    if (!copies(conv, source)) return;
    row_ = (source.width + conv.left + conv.right) * source.channels;
    const i64 left = conv.left * source.channels, right = conv.right * source.channels;
    clear(room_, conv.top * row_ + left);
    T* line = room_ + conv.top * row_ + left + source.width * source.channels;
    for (i64 y = 1; y < source.height; ++y, line += row_) clear(line, right + left);
    clear(line, right + conv.bottom * row_);
  }

  static bool copies(const Conv& conv, const Source& s) {
    return conv.top || conv.bottom || conv.left || conv.right || s.strides.column != s.channels;
  }
  static i64 elements(const Conv& conv, const Source& s) {
    if (!copies(conv, s)) return 0;
    return (s.height + conv.top + conv.bottom) * (s.width + conv.left + conv.right) * s.channels;
  }

  i64 row() const { return row_ ? row_ : source_.strides.row; }

  /// Its pixel (0, 0); what is above and left of it, up to the border, can be read.
  const T* image(i64 number) {
    const T* const from = first_ + number * source_.strides.batch;
    if (!row_) return from;
    T* const inner = room_ + conv_.top * row_ + conv_.left * source_.channels;
    const auto line = static_cast<std::size_t>(source_.channels) * sizeof(T);
    for (i64 y = 0; y < source_.height; ++y) {
      const T* const pixels = from + y * source_.strides.row;
      if (source_.strides.column == source_.channels) {
        std::memcpy(inner + y * row_, pixels, line * static_cast<std::size_t>(source_.width));
      } else {
        for (i64 x = 0; x < source_.width; ++x)
          std::memcpy(inner + y * row_ + x * source_.channels, pixels + x * source_.strides.column, line);
      }
    }
    return inner;
  }

 private:
  static void clear(T* from, i64 count) { std::memset(from, 0, static_cast<std::size_t>(count) * sizeof(T)); }

  const Conv& conv_;
  Source source_;
  const T* first_;
  T* room_;
  i64 row_ = 0;  // of the copy; 0 if there is none
};

/// Zeros that the image needs round it, so that every tap of every result can be read.
void set_border(Conv& conv, const Source& source, bool pixels) {
  for (i64 set = 0; set < sets(conv, pixels); ++set) {
    const auto [down, across] = sides(conv.shape, pixels, set);
    if (!down.results || !across.results || !down.taps || !across.taps) continue;
    conv.top = std::max(conv.top, -down.lowest());
    conv.bottom = std::max(conv.bottom, down.highest() - source.height + 1);
    conv.left = std::max(conv.left, -across.lowest());
    conv.right = std::max(conv.right, across.highest() - source.width + 1);
  }
}

// ---- panels of weights ----

/// Panels as wide as tiles take them; where registers are few, an odd number of vectors makes one of three.
template <class T>
Panels panels_of(i64 n, const HwyGemm<T>& hwy) {
  const i64 vectors = (n + hwy.lanes - 1) / hwy.lanes;
  if (hwy.most_vectors > 2 || vectors < 2) return {n, hwy.lanes, hwy.most_vectors};
  return {n, hwy.lanes, Parts::into(vectors / 2, vectors)};
}
template <class T>
i64 padded(i64 n, const HwyGemm<T>& hwy) {
  return (n + hwy.lanes - 1) / hwy.lanes * hwy.lanes;
}

/// How the weights are read: a tap's matrix from the channels of the source to those of the result.
struct Weights {
  i64 tap_row, tap_column, k, n;  // strides
};

/// The weights of one set of results, panel by panel: all taps and channels of the source, as lines of the panel.
template <class T>
void pack_weights(const HwyGemm<T>& hwy, const T* w, const Weights& by, const Sides& on, i64 channels,
                  const Panels& panels, T* out) {
  for (i64 p = 0, j = 0; p < panels.count(); j += panels.width(p++)) {
    const i64 width = panels.width(p), here = std::min(width, panels.size - j);
    for (i64 y = 0; y < on.rows.taps; ++y)
      for (i64 x = 0; x < on.columns.taps; ++x, out += channels * width)
        hwy.pack(w + (on.rows.tap + y * on.rows.step) * by.tap_row +
                     (on.columns.tap + x * on.columns.step) * by.tap_column + j * by.n,
                 by.n, by.k, here, channels, out, width);
  }
}

// ---- results that are images: y and x ----

/// One group of channels of y or x.
template <class T>
struct ImageWork {
  const HwyGemm<T>& hwy;
  i64 channels;  // of the source, in this group
  i64 source_channels, source_row;
  ImageStrides out;
  i64 tap_rows;
};

/// One image's results of one set, of a panel of channels, with some rows of taps.
template <class T>
void run_panel(const ImageWork<T>& work, const Sides& on, const T* source, const T* b, i64 width, i64 here, i64 first,
               i64 rows, T* out) {
  const auto& [down, across] = on;
  const i64 vectors = width / work.hwy.lanes;
  const bool neighbours = across.advance == 1 && work.channels == work.source_channels;
  const Parts strips(across.results, work.hwy.most_rows[vectors - 1]);
  Tile<T> tile;
  tile.a_row = across.move * work.source_channels;
  tile.a_col = 1;
  tile.b = b;
  tile.b_row = width;
  tile.c_row = across.stride * work.out.column;
  tile.k = neighbours ? across.taps * work.channels : work.channels;
  tile.last = here - (vectors - 1) * work.hwy.lanes;
  tile.accumulate = first > 0;
  tile.segments = neighbours ? 1 : across.taps;
  tile.a_segment = across.advance * work.source_channels;
  tile.groups = across.taps ? rows : 0;
  tile.a_group = down.advance * work.source_row;
  for (i64 y = 0; y < down.results; ++y) {
    const T* const line =
        source + (down.at + y * down.move + first * down.advance) * work.source_row + across.at * work.source_channels;
    T* const to = out + (down.first + y * down.stride) * work.out.row + across.first * work.out.column;
    for (i64 strip = 0, x = 0; strip < strips.count; x += strips.length(strip++)) {
      tile.a = line + x * tile.a_row;
      tile.c = to + x * tile.c_row;
      work.hwy.tile(false, strips.length(strip), vectors)(tile);
    }
  }
}

template <class T>
void run_set(const ImageWork<T>& work, const Sides& on, const T* source, const T* b, const Panels& panels, T* out) {
  if (on.rows.results == 0 || on.columns.results == 0) return;
  const i64 line = on.columns.taps * work.channels;  // of packed weights a row of taps
  for (i64 p = 0, j = 0; p < panels.count(); j += panels.width(p++)) {
    const i64 width = panels.width(p), here = std::min(width, panels.size - j);
    const T* const panel = b + j * on.rows.taps * line;
    i64 first = 0;
    do {
      const i64 rows = std::min(work.tap_rows, on.rows.taps - first);
      run_panel(work, on, source, panel + first * line * width, width, here, first, rows, out + j);
      first += rows;
    } while (first < on.rows.taps);
  }
}

/// Of x (`pixels`) or y: the source is the other one.
struct ImageRoles {
  Source source;
  ImageStrides out;
  i64 out_channels;
  Weights weights;
  i64 source_group, out_group, weight_group;  // from one group to the next
};

ImageRoles roles(const ConvShape& s, bool pixels) {
  const i64 in = s.channels / s.groups, out = s.out_channels / s.groups;
  if (pixels)
    return {{s.out_height, s.out_width, s.out_channels, s.y},
            s.x,
            in,
            {s.w[0], s.w[1], s.w[3], s.w[2]},
            out,
            in,
            out * s.w[3]};
  return {{s.height, s.width, s.channels, s.x}, s.y, out, {s.w[0], s.w[1], s.w[2], s.w[3]}, in, out, out * s.w[3]};
}

template <class T, bool pixels>
void run_images(const Conv& conv, const void* first, const void* second, void* out_in, void* scratch) {
  const ConvShape& s = conv.shape;
  const HwyGemm<T>& hwy = hwy_gemm<T>(conv.target);
  const ImageRoles r = roles(s, pixels);
  const T* const w = static_cast<const T*>(second);
  T* const out = static_cast<T*>(out_in);
  T* const packed = static_cast<T*>(scratch);
  const i64 channels = r.source.channels / s.groups;
  const i64 group_size = s.window.height * s.window.width * channels * padded(r.out_channels, hwy);
  const Panels panels = panels_of(r.out_channels, hwy);
  const i64 count = sets(conv, pixels);
  for (i64 group = 0; group < s.groups; ++group) {
    T* to = packed + group * group_size;
    for (i64 set = 0; set < count; ++set) {
      const Sides on = sides(s, pixels, set);
      pack_weights(hwy, w + group * r.weight_group, r.weights, on, channels, panels, to);
      to += on.rows.taps * on.columns.taps * channels * padded(r.out_channels, hwy);
    }
  }
  Padded<T> images(conv, r.source, first, packed + s.groups * group_size);
  const ImageWork<T> work{hwy, channels, r.source.channels, images.row(), r.out, conv.tap_rows};
  for (i64 b = 0; b < s.batch; ++b) {
    const T* const image = images.image(b);
    for (i64 group = 0; group < s.groups; ++group) {
      const T* panel = packed + group * group_size;
      for (i64 set = 0; set < count; ++set) {
        const Sides on = sides(s, pixels, set);
        run_set(work, on, image + group * r.source_group, panel, panels, out + b * r.out.batch + group * r.out_group);
        panel += on.rows.taps * on.columns.taps * channels * padded(r.out_channels, hwy);
      }
    }
  }
}

// ---- the gradient by the weights ----

/// The product of a few rows of one image with those of y, for all taps of a group.
template <class T>
void add_rows(const Conv& conv, const HwyGemm<T>& hwy, const T* image, i64 row, const T* y, i64 y_rows, bool accumulate,
              T* out) {
  const ConvShape& s = conv.shape;
  const Window& w = s.window;
  const i64 in = s.channels / s.groups, n = s.out_channels / s.groups;
  // Taps of a row are neighbours in the image, and so in memory on both sides.
  const bool neighbours = s.groups == 1 && w.dilation_w == 1 && s.w[1] == in * s.w[2];
  const i64 taps = neighbours ? 1 : w.width, m = neighbours ? w.width * in : in;
  const Panels panels = panels_of(n, hwy);
  Tile<T> tile;
  tile.a_row = 1;
  tile.a_col = w.stride_w * s.channels;
  tile.b_row = s.y.column;
  tile.c_row = s.w[2];
  tile.k = s.out_width;
  tile.accumulate = accumulate;
  tile.segments = y_rows;
  tile.a_segment = w.stride_h * row;
  for (i64 p = 0, j = 0; p < panels.count(); j += panels.width(p++)) {
    const i64 width = panels.width(p), here = std::min(width, n - j), vectors = width / hwy.lanes;
    const Parts strips(m, hwy.most_rows[vectors - 1]);
    tile.b = y + j;
    tile.last = here - (vectors - 1) * hwy.lanes;
    for (i64 ky = 0; ky < w.height; ++ky)
      for (i64 kx = 0; kx < taps; ++kx)
        for (i64 strip = 0, i = 0; strip < strips.count; i += strips.length(strip++)) {
          tile.a = image + ky * w.dilation_h * row + kx * w.dilation_w * s.channels + i;
          tile.c = out + ky * s.w[0] + kx * s.w[1] + i * s.w[2] + j;
          hwy.tile(here != width, strips.length(strip), vectors)(tile);
        }
  }
}

template <class T>
void run_weights(const Conv& conv, const void* first, const void* second, void* out_in, void* scratch) {
  const ConvShape& s = conv.shape;
  const HwyGemm<T>& hwy = hwy_gemm<T>(conv.target);
  const T* const y = static_cast<const T*>(second);
  T* const out = static_cast<T*>(out_in);
  const i64 in = s.channels / s.groups, n = s.out_channels / s.groups;
  if (s.batch == 0 && !s.accumulate)
    for (i64 tap = 0; tap < s.window.height * s.window.width; ++tap)
      for (i64 c = 0; c < in; ++c)
        std::memset(out + tap / s.window.width * s.w[0] + tap % s.window.width * s.w[1] + c * s.w[2], 0,
                    static_cast<std::size_t>(s.out_channels) * sizeof(T));
  Padded<T> images(conv, {s.height, s.width, s.channels, s.x}, first, scratch);
  const Parts rows(s.out_height, conv.y_rows);
  for (i64 b = 0; b < s.batch; ++b) {
    const T* const image = images.image(b) - s.window.pad_top * images.row() - s.window.pad_left * s.channels;
    for (i64 part = 0, at = 0; part < rows.count; at += rows.length(part++))
      for (i64 group = 0; group < s.groups; ++group)
        add_rows(conv, hwy, image + at * s.window.stride_h * images.row() + group * in, images.row(),
                 y + b * s.y.batch + at * s.y.row + group * n, rows.length(part), s.accumulate || b > 0 || part > 0,
                 out + group * n);
  }
}

// ---- a channel a group ----

bool is_depthwise(const ConvShape& s) { return s.channels == s.groups && s.out_channels == s.groups; }

/// The weights of one set of results as lines of channels, in the order of its taps.
template <class T>
void gather_weights(const ConvShape& s, const T* w, const Sides& on, T* out) {
  for (i64 y = 0; y < on.rows.taps; ++y)
    for (i64 x = 0; x < on.columns.taps; ++x) {
      const T* const tap =
          w + (on.rows.tap + y * on.rows.step) * s.w[0] + (on.columns.tap + x * on.columns.step) * s.w[1];
      for (i64 c = 0; c < s.channels; ++c) *out++ = tap[c * s.w[3]];
    }
}

template <class T, bool pixels>
void run_depthwise(const Conv& conv, const void* first, const void* second, void* out_in, void* scratch) {
  const ConvShape& s = conv.shape;
  const Depthwise<T>& kernels = depthwise<T>(conv.target);
  const ImageRoles r = roles(s, pixels);
  T* const weights = static_cast<T*>(scratch);
  Padded<T> images(conv, r.source, first, weights + s.window.height * s.window.width * s.channels);
  for (i64 set = 0; set < sets(conv, pixels); ++set) {
    const Sides on = sides(s, pixels, set);
    gather_weights(s, static_cast<const T*>(second), on, weights);
    DepthwiseRow<T> row;
    row.move = on.columns.move * s.channels;
    row.tap_rows = on.rows.taps;
    row.tap_columns = on.columns.taps;
    row.tap_row = on.rows.advance * images.row();
    row.tap_column = on.columns.advance * s.channels;
    row.weights = weights;
    row.out_column = on.columns.stride * r.out.column;
    row.results = on.columns.results;
    row.channels = s.channels;
    for (i64 b = 0; b < s.batch; ++b) {
      const T* const image = images.image(b);
      T* const out = static_cast<T*>(out_in) + b * r.out.batch + on.columns.first * r.out.column;
      for (i64 y = 0; y < on.rows.results; ++y) {
        row.source = image + (on.rows.at + y * on.rows.move) * images.row() + on.columns.at * s.channels;
        row.out = out + (on.rows.first + y * on.rows.stride) * r.out.row;
        kernels.row(row);
      }
    }
  }
}

template <class T>
void run_depthwise_weights(const Conv& conv, const void* first, const void* second, void* out_in, void* scratch) {
  const ConvShape& s = conv.shape;
  const Window& w = s.window;
  const Depthwise<T>& kernels = depthwise<T>(conv.target);
  Padded<T> images(conv, {s.height, s.width, s.channels, s.x}, first, scratch);
  DepthwiseSum<T> sum;
  sum.rows = s.batch ? s.out_height : 0;
  sum.columns = s.out_width;
  sum.a_row = w.stride_h * images.row();
  sum.a_column = w.stride_w * s.channels;
  sum.b_row = s.y.row;
  sum.b_column = s.y.column;
  sum.channels = s.channels;
  for (i64 b = 0; b < std::max<i64>(s.batch, 1); ++b) {
    const T* const image = s.batch ? images.image(b) - w.pad_top * images.row() - w.pad_left * s.channels : nullptr;
    sum.b = static_cast<const T*>(second) + b * s.y.batch;
    sum.accumulate = s.accumulate || b > 0;
    for (i64 y = 0; y < w.height; ++y)
      for (i64 x = 0; x < w.width; ++x) {
        sum.a = image + y * w.dilation_h * images.row() + x * w.dilation_w * s.channels;
        sum.out = static_cast<T*>(out_in) + y * s.w[0] + x * s.w[1];
        kernels.sum(sum);
      }
  }
}

template <class T>
void make_depthwise(Conv& conv, ConvResult result) {
  const ConvShape& s = conv.shape;
  const bool pixels = result == ConvResult::x;
  const Source source =
      result == ConvResult::weights ? Source{s.height, s.width, s.channels, s.x} : roles(s, pixels).source;
  conv.kernel = "depthwise";
  set_border(conv, source, pixels);
  conv.run = result == ConvResult::weights ? run_depthwise_weights<T>
             : pixels                      ? run_depthwise<T, true>
                                           : run_depthwise<T, false>;
  const i64 weights = s.window.height * s.window.width * s.channels;
  conv.scratch_bytes = sizeof(T) * static_cast<std::size_t>(weights + Padded<T>::elements(conv, source));
}

// ---- making one ----

template <class T>
void make_images(Conv& conv, bool pixels, const Machine& machine) {
  const ConvShape& s = conv.shape;
  const HwyGemm<T>& hwy = hwy_gemm<T>(conv.target);
  const ImageRoles r = roles(s, pixels);
  conv.run = pixels ? run_images<T, true> : run_images<T, false>;
  set_border(conv, r.source, pixels);
  // A panel's weights stay in L1 while the image streams by.
  const i64 channels = r.source.channels / s.groups;
  const auto row_bytes = s.window.width * channels * hwy.panel * static_cast<i64>(sizeof(T));
  conv.tap_rows = std::max<i64>(1, static_cast<i64>(machine.l1d) * 3 / 4 / std::max<i64>(row_bytes, 1));
  const i64 weights = s.groups * s.window.height * s.window.width * channels * padded(r.out_channels, hwy);
  conv.scratch_bytes = sizeof(T) * static_cast<std::size_t>(weights + Padded<T>::elements(conv, r.source));
}

template <class T>
void make_weights(Conv& conv, const Machine& machine) {
  const ConvShape& s = conv.shape;
  conv.run = run_weights<T>;
  const Source source{s.height, s.width, s.channels, s.x};
  set_border(conv, source, false);
  // The rows of y and of the image that a few rows of results need stay in L1 while the taps go over them.
  const i64 row_bytes = static_cast<i64>(sizeof(T)) * (s.out_width * s.out_channels + s.width * s.channels);
  conv.y_rows = std::clamp<i64>(static_cast<i64>(machine.l1d) * 3 / 4 / std::max<i64>(row_bytes, 1), 1,
                                std::max<i64>(s.out_height, 1));
  conv.scratch_bytes = sizeof(T) * static_cast<std::size_t>(Padded<T>::elements(conv, source));
}

void run_nothing(const Conv&, const void*, const void*, void*, void*) {}

bool is_empty(ConvResult result, const ConvShape& s) {
  const bool y = s.batch == 0 || s.out_channels == 0, x = s.batch == 0 || s.height * s.width * s.channels == 0;
  return result == ConvResult::y ? y : result == ConvResult::x ? x : s.channels == 0 || s.out_channels == 0;
}

}  // namespace

ConvShape with_dense_strides(ConvShape s) {
  s.x = {s.height * s.width * s.channels, s.width * s.channels, s.channels};
  s.y = {s.out_height * s.out_width * s.out_channels, s.out_width * s.out_channels, s.out_channels};
  s.w[3] = 1;
  s.w[2] = s.out_channels;
  s.w[1] = s.channels / s.groups * s.w[2];
  s.w[0] = s.window.width * s.w[1];
  return s;
}

Conv make_conv(ConvResult result, const ConvShape& shape, Target target, const Machine& machine) {
  if (!is_floating(shape.dtype))
    throw Error("conv: the type must be f32 or f64, it is " + std::string(name_of(shape.dtype)));
  Conv conv;
  conv.kernel = "direct";
  conv.shape = shape;
  conv.target = target;
  if (is_empty(result, shape)) {
    conv.run = run_nothing;
    return conv;
  }
  const bool wide = shape.dtype == DType::f64;
  if (is_depthwise(shape))
    wide ? make_depthwise<double>(conv, result) : make_depthwise<float>(conv, result);
  else if (result == ConvResult::weights)
    wide ? make_weights<double>(conv, machine) : make_weights<float>(conv, machine);
  else
    wide ? make_images<double>(conv, result == ConvResult::x, machine)
         : make_images<float>(conv, result == ConvResult::x, machine);
  return conv;
}

}  // namespace wr::cpu
