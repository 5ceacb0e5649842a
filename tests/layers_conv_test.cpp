// Convolutions, pools and attention against plain loops.
#include <gtest/gtest.h>

#include <cmath>

#include "support/gradients.h"
#include "windrow/nn.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using namespace nn;
using test::smooth_array;
using Index = std::int64_t;

Array run(const Module& net, const Array& x) {
  return compile([&](const Tensor& t) { return net(t); }, Spec{x.dtype(), x.shape()})(x);
}

void expect_equal(const Array& ours, const Array& expected, const std::string& what) {
  ASSERT_EQ(to_string(ours.shape()), to_string(expected.shape())) << what;
  EXPECT_TRUE(allclose(ours, expected, 1e-10, 1e-11)) << what << "\n" << ours << "\n" << expected;
}

double pixel(const Array& x, Index b, Index h, Index w, Index c) {
  return h < 0 || w < 0 || h >= x.size(1) || w >= x.size(2) ? 0 : x.at<double>({b, h, w, c});
}

struct Extent {
  Index outputs, before;
};
Extent extent(Index size, Index kernel, const ConvLayerOptions& o) {
  const Index reach = (kernel - 1) * o.dilation + 1;
  if (!(o.padding == Padding::same)) {
    const Index each = o.padding.each_side;
    return {(size + 2 * each - reach) / o.stride + 1, each};
  }
  const Index outputs = (size + o.stride - 1) / o.stride;
  return {outputs, std::max<Index>(0, (outputs - 1) * o.stride + reach - size) / 2};
}

Array plain_conv(const Array& x, const Array& w, const Array& bias, const ConvLayerOptions& o) {
  const Extent rows = extent(x.size(1), w.size(0), o), columns = extent(x.size(2), w.size(1), o);
  const Index in = w.size(2), out = w.size(3), per_group = out / o.groups;
  Array y = Array::zeros({x.size(0), rows.outputs, columns.outputs, out}, DType::f64);
  for (Index b = 0; b < y.size(0); ++b)
    for (Index h = 0; h < y.size(1); ++h)
      for (Index v = 0; v < y.size(2); ++v)
        for (Index k = 0; k < out; ++k) {
          double sum = bias.at<double>({k});
          for (Index i = 0; i < w.size(0); ++i)
            for (Index j = 0; j < w.size(1); ++j)
              for (Index c = 0; c < in; ++c)
                sum += w.at<double>({i, j, c, k}) * pixel(x, b, h * o.stride + i * o.dilation - rows.before,
                                                          v * o.stride + j * o.dilation - columns.before,
                                                          k / per_group * in + c);
          y.at<double>({b, h, v, k}) = sum;
        }
  return y;
}

TEST(Conv2D, AgreesWithALoop) {
  const Array x = smooth_array({2, 7, 6, 4});
  for (const Padding padding : {Padding::valid, Padding::same, Padding(1)})
    for (const Index stride : {1, 2, 3})
      for (const Index dilation : {1, 2})
        for (const Index groups : {1, 2, 4})
          for (const Index size : {1, 2, 3}) {
            const Conv2D layer(4, 8, size,
                               {.padding = padding,
                                .stride = stride,
                                .dilation = dilation,
                                .groups = groups,
                                .biases = init::normal(),
                                .dtype = DType::f64});
            const ConvLayerOptions o{.padding = padding, .stride = stride, .dilation = dilation, .groups = groups};
            expect_equal(run(layer, x), plain_conv(x, layer.w.value(), layer.b.value(), o), layer.kind());
          }
}

TEST(Conv1D, AgreesWithALoop) {
  const Array x = smooth_array({2, 9, 4});
  for (const Padding padding : {Padding::valid, Padding::same, Padding(2)})
    for (const Index stride : {1, 2})
      for (const Index groups : {1, 2}) {
        if (padding == Padding(2) && stride == 2) continue;  // the loop's only row would be one of padding
        const ConvLayerOptions o{.padding = padding,
                                 .stride = stride,
                                 .dilation = 2,
                                 .groups = groups,
                                 .biases = init::normal(),
                                 .dtype = DType::f64};
        const Conv1D layer(4, 6, 3, o);
        const Index above = std::max<Index>(0, o.padding.each_side);  // the loop pads the height, which is 1, too
        const Array expected = plain_conv(x.expand_dims(1), layer.w.value().expand_dims(0), layer.b.value(), o);
        expect_equal(run(layer, x), expected.slice(1, above, above + 1).squeeze(1).contiguous(), layer.kind());
      }
}

/// Each input element adds its weights to the image, where they fall into it.
Array plain_transposed(const Array& x, const Array& w, const ConvLayerOptions& o) {
  const Index size = w.size(1), reach = (size - 1) * o.dilation + 1;
  const auto grown = [&](Index n) {
    return o.padding == Padding::same ? n * o.stride : (n - 1) * o.stride + reach - 2 * o.padding.each_side;
  };
  Array y = Array::zeros({x.size(0), grown(x.size(1)), grown(x.size(2)), w.size(3)}, DType::f64);
  const Index top = extent(y.size(1), size, o).before, left = extent(y.size(2), size, o).before;
  for (Index b = 0; b < x.size(0); ++b)
    for (Index h = 0; h < x.size(1); ++h)
      for (Index v = 0; v < x.size(2); ++v)
        for (Index i = 0; i < size; ++i)
          for (Index j = 0; j < size; ++j)
            for (Index k = 0; k < w.size(3); ++k)
              for (Index c = 0; c < x.size(3); ++c) {
                const Index row = h * o.stride + i * o.dilation - top, column = v * o.stride + j * o.dilation - left;
                if (row < 0 || column < 0 || row >= y.size(1) || column >= y.size(2)) continue;
                y.at<double>({b, row, column, k}) += x.at<double>({b, h, v, c}) * w.at<double>({c, i, j, k});
              }
  return y;
}

TEST(ConvTranspose2D, AgreesWithALoop) {
  const Array x = smooth_array({2, 4, 3, 3});
  for (const Padding padding : {Padding::valid, Padding::same, Padding(1)})
    for (const Index stride : {1, 2, 3})
      for (const Index dilation : {1, 2})
        for (const Index size : {1, 2, 3, 4}) {
          if (padding == Padding(1) && size == 1 && stride == 1) continue;  // a border of zeros would be taken away
          const ConvLayerOptions o{.padding = padding, .stride = stride, .dilation = dilation, .dtype = DType::f64};
          const ConvTranspose2D layer(3, 2, size, o);
          expect_equal(run(layer, x), plain_transposed(x, layer.w.value(), o), layer.kind());
        }
}

TEST(Pools, AgreeWithALoop) {
  const Array x = smooth_array({2, 6, 5, 3});
  for (const Index size : {1, 2, 3})
    for (const Index stride : {1, 2, 3}) {
      const Index rows = (6 - size) / stride + 1, columns = (5 - size) / stride + 1;
      Array top = Array::zeros({2, rows, columns, 3}, DType::f64), mean = top;
      for (Index b = 0; b < 2; ++b)
        for (Index h = 0; h < rows; ++h)
          for (Index w = 0; w < columns; ++w)
            for (Index c = 0; c < 3; ++c) {
              double most = -INFINITY, sum = 0;
              for (Index i = 0; i < size; ++i)
                for (Index j = 0; j < size; ++j) {
                  const double v = x.at<double>({b, h * stride + i, w * stride + j, c});
                  most = std::max(most, v);
                  sum += v;
                }
              top.at<double>({b, h, w, c}) = most;
              mean.at<double>({b, h, w, c}) = sum / static_cast<double>(size * size);
            }
      expect_equal(run(MaxPool(size, stride), x), top, "max");
      expect_equal(run(AvgPool(size, stride), x), mean, "mean");
    }
}

TEST(Pools, SequencesAndGlobal) {
  const Array x = Array::from<double>({1, 5, 2, 4, 0, 9, 7, 3, 8, 6}).reshape({1, 5, 2});
  expect_equal(run(MaxPool(2), x), Array::from<double>({2, 5, 7, 9}).reshape({1, 2, 2}), "max");
  expect_equal(run(AvgPool(3, 2), x), Array::from<double>({1, 6, 5, 6}).reshape({1, 2, 2}), "mean");
  expect_equal(run(GlobalMaxPool(), x), Array::from<double>({{8, 9}}), "global max");
  expect_equal(run(GlobalAvgPool(), x), Array::from<double>({{3.6, 5.4}}), "global mean");
  expect_equal(run(GlobalAvgPool(), x.reshape({1, 1, 5, 2})), Array::from<double>({{3.6, 5.4}}), "of an image");
}

TEST(Attention, AgreesWithALoop) {
  const Index batch = 2, times = 3, sources = 4, heads = 2, width = 3;
  const Array q = smooth_array({batch, times, heads, width}, 0), k = smooth_array({batch, sources, heads, width}, 1);
  const Array v = smooth_array({batch, sources, heads, width}, 2);
  for (const Causal causal : {Causal::no, Causal::yes}) {
    Array y = Array::zeros(q.shape(), DType::f64);
    for (Index b = 0; b < batch; ++b)
      for (Index t = 0; t < times; ++t)
        for (Index h = 0; h < heads; ++h) {
          double total = 0;
          for (Index s = 0; s < sources; ++s) {
            if (causal == Causal::yes && s > t) continue;
            double dot = 0;
            for (Index d = 0; d < width; ++d) dot += q.at<double>({b, t, h, d}) * k.at<double>({b, s, h, d});
            const double weight = std::exp(dot / std::sqrt(3.0));
            total += weight;
            for (Index d = 0; d < width; ++d) y.at<double>({b, t, h, d}) += weight * v.at<double>({b, s, h, d});
          }
          for (Index d = 0; d < width; ++d) y.at<double>({b, t, h, d}) /= total;
        }
    expect_equal(eval(attention(Tensor(q), Tensor(k), Tensor(v), causal)), y, "attention");
  }
}

TEST(Attention, ToAnotherSequence) {
  const Attention layer(4, 2, {.dtype = DType::f64});
  const Array x = smooth_array({2, 3, 4}), source = smooth_array({2, 5, 4}, 1);
  const Array y = eval(layer.attend(Tensor(x), Tensor(source)));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  expect_equal(eval(layer.attend(Tensor(x), Tensor(x))), run(layer, x), "to itself");
}

}  // namespace
}  // namespace wr
