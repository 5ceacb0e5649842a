// Convolution kernels on every target against plain sums in double, for windows, groups and strides of all kinds.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/conv.h"
#include "base/machine.h"

namespace wr::cpu {
namespace {

using i64 = std::int64_t;

struct Case {
  i64 batch, height, width, channels, out, groups;
  Window window;
};

i64 windows(i64 size, i64 kernel, i64 stride, i64 dilation, i64 padding) {
  return (size + padding - (kernel - 1) * dilation - 1) / stride + 1;
}

ConvShape shape_of(const Case& c, DType dtype) {
  ConvShape s;
  s.dtype = dtype;
  s.batch = c.batch;
  s.height = c.height;
  s.width = c.width;
  s.channels = c.channels;
  s.out_channels = c.out;
  s.groups = c.groups;
  s.window = c.window;
  const Window& w = c.window;
  s.out_height = windows(c.height, w.height, w.stride_h, w.dilation_h, w.pad_top + w.pad_bottom);
  s.out_width = windows(c.width, w.width, w.stride_w, w.dilation_w, w.pad_left + w.pad_right);
  return with_dense_strides(s);
}

/// f(index in x, index in w, index in y) for every product, by the strides of the shape.
template <class F>
void for_each_product(const ConvShape& s, F f) {
  const Window& w = s.window;
  const i64 in = s.channels / s.groups, out = s.out_channels / s.groups;
  for (i64 b = 0; b < s.batch; ++b)
    for (i64 oy = 0; oy < s.out_height; ++oy)
      for (i64 ox = 0; ox < s.out_width; ++ox)
        for (i64 ky = 0; ky < w.height; ++ky)
          for (i64 kx = 0; kx < w.width; ++kx) {
            const i64 y = oy * w.stride_h - w.pad_top + ky * w.dilation_h;
            const i64 x = ox * w.stride_w - w.pad_left + kx * w.dilation_w;
            if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
            for (i64 o = 0; o < s.out_channels; ++o)
              for (i64 c = 0; c < in; ++c)
                f(b * s.x.batch + y * s.x.row + x * s.x.column + o / out * in + c,
                  ky * s.w[0] + kx * s.w[1] + c * s.w[2] + o * s.w[3],
                  b * s.y.batch + oy * s.y.row + ox * s.y.column + o);
          }
}

template <class T>
std::vector<T> numbers(i64 count, int seed) {
  std::vector<T> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<T>(std::sin(static_cast<double>(i) * 1.7 + seed) + 0.01 * static_cast<double>(i % 7));
  return v;
}

struct Extents {
  i64 x, w, y;
};
Extents extents(const ConvShape& s) {
  const Window& k = s.window;
  return {s.batch * s.x.batch, k.height * s.w[0], s.batch * s.y.batch};
}

template <class T>
void expect_close(const std::vector<double>& want, const std::vector<T>& got, i64 terms, const std::string& what) {
  const double bound = std::numeric_limits<T>::epsilon() * static_cast<double>(4 + terms);
  ASSERT_EQ(want.size(), got.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(want[i], static_cast<double>(got[i]), bound * (1 + std::abs(want[i]))) << what << " at " << i;
}

template <class T>
void check(const ConvShape& s, const std::string& name) {
  const auto [nx, nw, ny] = extents(s);
  const auto x = numbers<T>(nx, 1), w = numbers<T>(nw, 2), g = numbers<T>(ny, 3);
  const auto at = [](const std::vector<T>& v, i64 i) { return static_cast<double>(v[i]); };
  // What the kernel must not touch keeps its mark.
  const T mark = T(7);
  std::vector<double> y(g.size(), 7), dx(x.size(), 7), dw(w.size(), 7), more;
  for (i64 b = 0; b < s.batch; ++b)
    for (i64 r = 0; r < s.height; ++r)
      for (i64 c = 0; c < s.width; ++c)
        for (i64 k = 0; k < s.channels; ++k) dx[b * s.x.batch + r * s.x.row + c * s.x.column + k] = 0;
  for (i64 b = 0; b < s.batch; ++b)
    for (i64 r = 0; r < s.out_height; ++r)
      for (i64 c = 0; c < s.out_width; ++c)
        for (i64 k = 0; k < s.out_channels; ++k) y[b * s.y.batch + r * s.y.row + c * s.y.column + k] = 0;
  for (i64 r = 0; r < s.window.height; ++r)
    for (i64 c = 0; c < s.window.width; ++c)
      for (i64 k = 0; k < s.channels / s.groups; ++k)
        for (i64 o = 0; o < s.out_channels; ++o) dw[r * s.w[0] + c * s.w[1] + k * s.w[2] + o * s.w[3]] = 0;
  more = dw;
  for_each_product(s, [&](i64 i, i64 k, i64 j) {
    y[j] += at(x, i) * at(w, k);
    dx[i] += at(g, j) * at(w, k);
    dw[k] += at(x, i) * at(g, j);
  });
  for (const Target target : available_targets()) {
    const std::string on = name + " on " + std::string(name_of(target));
    const auto run = [&](ConvResult result, const ConvShape& shape, const auto& first, const auto& second,
                         std::vector<T> out) {
      const Conv conv = make_conv(result, shape, target, machine_named("zen3"));
      std::vector<double> scratch(conv.scratch_bytes / 8 + 16, 1e30);  // kernels must not rely on zeros
      conv(first.data(), second.data(), out.data(),
           scratch.data() + (8 - (reinterpret_cast<std::uintptr_t>(scratch.data()) / 8) % 8));
      return out;
    };
    expect_close(y, run(ConvResult::y, s, x, w, std::vector<T>(g.size(), mark)),
                 s.window.height * s.window.width * s.channels, "y " + on);
    expect_close(dx, run(ConvResult::x, s, g, w, std::vector<T>(x.size(), mark)),
                 s.window.height * s.window.width * s.out_channels, "x " + on);
    if (s.w[3] != 1) continue;
    expect_close(dw, run(ConvResult::weights, s, x, g, std::vector<T>(w.size(), mark)),
                 s.batch * s.out_height * s.out_width, "weights " + on);
    ConvShape again = s;
    again.accumulate = true;
    auto twice =
        run(ConvResult::weights, again, x, g, run(ConvResult::weights, s, x, g, std::vector<T>(w.size(), mark)));
    auto doubled = dw;
    for (std::size_t i = 0; i < doubled.size(); ++i) doubled[i] = more[i] == 7 ? 7 : 2 * dw[i];
    expect_close(doubled, twice, 2 * s.batch * s.out_height * s.out_width, "weights again " + on);
  }
}

const Case kCases[] = {
    {2, 8, 8, 16, 16, 1, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},
    {1, 7, 9, 3, 8, 1, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},
    {3, 5, 6, 2, 3, 1, {2, 3, 1, 1, 1, 1, 0, 1, 1, 0}},
    {2, 9, 8, 4, 10, 1, {3, 3, 2, 2, 1, 1, 0, 1, 0, 1}},  // padded as `same` with stride 2
    {2, 10, 11, 5, 24, 1, {3, 5, 2, 3, 1, 1, 1, 1, 2, 2}},
    {1, 12, 12, 3, 40, 1, {3, 3, 1, 1, 2, 2, 2, 2, 2, 2}},  // dilated
    {1, 13, 12, 6, 9, 1, {2, 3, 2, 2, 3, 2, 1, 0, 2, 1}},   // dilated and strided
    {2, 6, 6, 7, 17, 1, {1, 1, 2, 2, 1, 1, 0, 0, 0, 0}},    // taps reach every other pixel only
    {2, 7, 7, 2, 5, 1, {2, 2, 3, 3, 1, 1, 0, 0, 0, 0}},     // pixels that no window covers
    {2, 1, 20, 4, 6, 1, {1, 5, 1, 1, 1, 1, 0, 0, 2, 2}},    // a sequence
    {2, 6, 6, 8, 8, 2, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},     // groups
    {2, 6, 6, 6, 12, 6, {3, 3, 2, 2, 1, 1, 1, 1, 1, 1}},    // depthwise, two a channel
    {2, 7, 9, 13, 13, 13, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},  // depthwise
    {2, 8, 9, 20, 20, 20, {3, 5, 2, 2, 1, 1, 1, 1, 2, 2}},
    {1, 9, 9, 8, 8, 8, {2, 3, 1, 2, 2, 2, 1, 0, 2, 1}},
    {1, 4, 4, 70, 66, 1, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},  // taps in parts
    {1, 3, 3, 1, 1, 1, {3, 3, 1, 1, 1, 1, 0, 0, 0, 0}},
    {0, 4, 4, 2, 3, 1, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}},  // no image at all
};

std::string text(const Case& c) {
  return std::to_string(c.height) + "x" + std::to_string(c.width) + "x" + std::to_string(c.channels) + " to " +
         std::to_string(c.out);
}

TEST(ConvKernel, AgreesWithPlainSums) {
  for (const Case& c : kCases) {
    check<float>(shape_of(c, DType::f32), text(c));
    check<double>(shape_of(c, DType::f64), text(c));
  }
}

TEST(ConvKernel, StepsThroughSlicesOfChannelsAndTurnedWeights) {
  for (const Case& c : kCases) {
    ConvShape s = shape_of(c, DType::f32);
    // Every image stands among others' channels, rows have gaps.
    s.x.column += 3;
    s.x.row = s.width * s.x.column + 5;
    s.x.batch = s.height * s.x.row + 1;
    s.y.column += 2;
    s.y.row = s.out_width * s.y.column;  // what the weights' gradient needs; the chooser copies otherwise
    s.y.batch = s.out_height * s.y.row + 9;
    s.w[2] += 4;
    s.w[1] = s.channels / s.groups * s.w[2] + 1;
    s.w[0] = s.window.width * s.w[1] + 2;
    check<float>(s, text(c) + " in slices");
    s.w[2] = 1;  // as transposed convolutions have them: [kh, kw, out, in]
    s.w[3] = s.channels / s.groups;
    s.w[1] = s.out_channels * s.w[3];
    s.w[0] = s.window.width * s.w[1];
    check<float>(s, text(c) + " turned");
  }
}

TEST(ConvKernel, AnImageGivesTheSameBitsInAnyBatch) {
  const Case c{4, 9, 9, 12, 20, 1, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1}};
  const ConvShape all = shape_of(c, DType::f32);
  ConvShape one = all;
  one.batch = 1;
  const auto x = numbers<float>(extents(all).x, 1), w = numbers<float>(extents(all).w, 2);
  const auto run = [&](const ConvShape& s, const float* from) {
    const Conv conv = make_conv(ConvResult::y, s, available_targets().back(), machine_named("zen3"));
    std::vector<float> out(static_cast<std::size_t>(extents(s).y)), scratch(conv.scratch_bytes / 4 + 16);
    conv(from, w.data(), out.data(), scratch.data());
    return out;
  };
  const auto together = run(all, x.data()), third = run(one, x.data() + 2 * all.x.batch);
  for (std::size_t i = 0; i < third.size(); ++i)
    ASSERT_EQ(third[i], together[static_cast<std::size_t>(2 * all.y.batch) + i]) << i;
}

}  // namespace
}  // namespace wr::cpu
