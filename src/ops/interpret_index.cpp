// The interpreter's ops with indices and windows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/attributes.h"
#include "ops/interpret.h"

namespace wr::ir {
namespace {

/// The index, or nothing (-1) if it is out of range.
std::int64_t checked_index(double index, std::int64_t size) {
  const auto i = static_cast<std::int64_t>(index);
  return i >= 0 && i < size ? i : -1;
}

double missing(const Spec& spec) { return is_floating(spec.dtype) ? std::numeric_limits<double>::quiet_NaN() : 0; }

Elements gather(const Call& call) {
  const int axis = static_cast<int>(call.ints()[0]), index_rank = call.shape(1).rank();
  Elements out;
  for_each_index(call.out().shape, [&](const Dims& index) {
    Dims where, source;
    for (int i = 0; i < index_rank; ++i) where.push_back(index[axis + i]);
    const auto row = checked_index((*call.in[1])[position(where, call.shape(1))], call.shape(0)[axis]);
    for (int i = 0; i < call.shape(0).rank(); ++i)
      source.push_back(i < axis ? index[i] : i == axis ? row : index[i + index_rank - 1]);
    out.push_back(row < 0 ? missing(call.out()) : (*call.in[0])[position(source, call.shape(0))]);
  });
  return out;
}

Elements scatter_add(const Call& call) {
  const int axis = static_cast<int>(call.ints()[0]);
  Elements out = *call.in[0];
  for_each_index(call.shape(2), [&](const Dims& index) {
    Dims target = index;
    target[axis] = checked_index((*call.in[1])[index[axis]], call.shape(0)[axis]);
    if (target[axis] >= 0) out[position(target, call.shape(0))] += (*call.in[2])[position(index, call.shape(2))];
  });
  return out;
}

Elements take_along(const Call& call) {
  const int axis = static_cast<int>(call.ints()[0]);
  Elements out;
  for_each_index(call.out().shape, [&](const Dims& index) {
    Dims source = index;
    source[axis] = checked_index((*call.in[1])[position(index, call.shape(1))], call.shape(0)[axis]);
    out.push_back(source[axis] < 0 ? missing(call.out()) : (*call.in[0])[position(source, call.shape(0))]);
  });
  return out;
}

Elements put_along(const Call& call) {
  const int axis = static_cast<int>(call.ints()[0]);
  Elements out = zeros(call.out().shape);
  for_each_index(call.shape(0), [&](const Dims& index) {
    Dims target = index;
    target[axis] = checked_index((*call.in[0])[position(index, call.shape(0))], call.out().shape[axis]);
    if (target[axis] >= 0) out[position(target, call.out().shape)] += (*call.in[1])[position(index, call.shape(1))];
  });
  return out;
}

Elements one_hot(const Call& call) {
  Elements out;
  for (double index : *call.in[0])
    for (std::int64_t c = 0; c < call.ints()[0]; ++c) out.push_back(index == static_cast<double>(c) ? 1 : 0);
  return out;
}

Elements embedding_sum(const Call& call) {
  const auto rows = call.shape(0)[0], width = call.shape(0)[1], picks = call.shape(1).back();
  Elements out = zeros(call.out().shape);
  for (std::size_t at = 0; at < call.in[1]->size(); ++at) {
    const auto row = checked_index((*call.in[1])[at], rows);
    const auto first = static_cast<std::int64_t>(at) / picks * width;
    for (std::int64_t k = 0; k < width; ++k)
      out[first + k] += row < 0 ? missing(call.out()) : (*call.in[0])[row * width + k];
  }
  return out;
}

Elements embedding_grad(const Call& call) {
  const auto rows = call.out().shape[0], width = call.out().shape[1], picks = call.shape(0)[1];
  Elements out = zeros(call.out().shape);
  for (std::size_t at = 0; at < call.in[0]->size(); ++at) {
    const auto row = checked_index((*call.in[0])[at], rows);
    const auto from = static_cast<std::int64_t>(at) / picks * width;
    for (std::int64_t k = 0; row >= 0 && k < width; ++k) out[row * width + k] += (*call.in[1])[from + k];
  }
  return out;
}

Elements index_order(const Call& call) {
  const Elements& indices = *call.in[0];
  std::vector<std::size_t> order(indices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return indices[a] < indices[b]; });
  Elements out;
  for (auto at : order) out.push_back(indices[at]);
  for (auto at : order) out.push_back(static_cast<double>(at));
  return out;
}

// ---- windows ----
/// Where element (y, x) of window (row, column) stands in the image; false if that is outside.
bool in_image(const Call& call, const Shape& image, std::int64_t row, std::int64_t column, std::int64_t y,
              std::int64_t x, Dims& at) {
  const Window w = window_of(call.node.attrs);
  at[1] = row * w.stride_h + y * w.dilation_h - w.pad_top;
  at[2] = column * w.stride_w + x * w.dilation_w - w.pad_left;
  return at[1] >= 0 && at[1] < image[1] && at[2] >= 0 && at[2] < image[2];
}

/// Patches are [batch, row, column, y, x, channel].
template <class F>
void for_each_patch_element(const Call& call, const Shape& patches, const Shape& image, F f) {
  for_each_index(patches, [&](const Dims& p) {
    Dims at{p[0], 0, 0, p[5]};
    if (in_image(call, image, p[1], p[2], p[3], p[4], at)) f(position(p, patches), position(at, image));
  });
}

Elements unfold(const Call& call) {
  Elements out = zeros(call.out().shape);
  for_each_patch_element(call, call.out().shape, call.shape(0),
                         [&](std::size_t patch, std::size_t pixel) { out[patch] = (*call.in[0])[pixel]; });
  return out;
}

Elements fold(const Call& call) {
  Elements out = zeros(call.out().shape);
  for_each_patch_element(call, call.shape(0), call.out().shape,
                         [&](std::size_t patch, std::size_t pixel) { out[pixel] += (*call.in[0])[patch]; });
  return out;
}

/// Calls f(window's position among the results, position of the first largest pixel of x in it).
template <class F>
void for_each_largest(const Call& call, const Shape& results, F f) {
  const Shape& image = call.shape(0);
  const Window w = window_of(call.node.attrs);
  for_each_index(results, [&](const Dims& r) {
    bool found = false;
    std::size_t best = 0;
    for (std::int64_t y = 0; y < w.height; ++y)
      for (std::int64_t x = 0; x < w.width; ++x) {
        Dims at{r[0], 0, 0, r[3]};
        if (!in_image(call, image, r[1], r[2], y, x, at)) continue;
        const std::size_t pixel = position(at, image);
        if (found && !((*call.in[0])[pixel] > (*call.in[0])[best])) continue;
        found = true;
        best = pixel;
      }
    if (found) f(position(r, results), best);
  });
}

Elements max_pool_pick(const Call& call) {
  Elements out = zeros(call.out().shape);
  for_each_largest(call, call.out().shape,
                   [&](std::size_t window, std::size_t pixel) { out[window] = (*call.in[1])[pixel]; });
  return out;
}

Elements max_pool_scatter(const Call& call) {
  Elements out = zeros(call.out().shape);
  for_each_largest(call, call.shape(1),
                   [&](std::size_t window, std::size_t pixel) { out[pixel] += (*call.in[1])[window]; });
  return out;
}

// ---- convolutions ----
/// Calls f(pixel, weight, result) for every product that a convolution adds up.
template <class F>
void for_each_product(const Call& call, const Shape& image, const Shape& weights, const Shape& results, F f) {
  const auto in = static_cast<std::size_t>(weights[2]), out = static_cast<std::size_t>(weights[3]);
  const std::size_t group = out / static_cast<std::size_t>(Convolution::of(call.node.attrs).groups);
  for_each_index({results[0], results[1], results[2], weights[0], weights[1]}, [&](const Dims& at) {
    Dims place{at[0], 0, 0, 0};
    if (!in_image(call, image, at[1], at[2], at[3], at[4], place)) return;
    const std::size_t pixel = position(place, image), result = position({at[0], at[1], at[2], 0}, results);
    const std::size_t weight = position({at[3], at[4], 0, 0}, weights);
    for (std::size_t c = 0; c < in; ++c)
      for (std::size_t o = 0; o < out; ++o) f(pixel + o / group * in + c, weight + c * out + o, result + o);
  });
}

Elements conv(const Call& call) {
  Elements out = zeros(call.out().shape);
  const Elements &x = *call.in[0], &w = *call.in[1];
  for_each_product(
      call, call.shape(0), call.shape(1), call.out().shape,
      [&](std::size_t pixel, std::size_t weight, std::size_t result) { out[result] += x[pixel] * w[weight]; });
  return out;
}

Elements conv_grad_x(const Call& call) {
  Elements out = zeros(call.out().shape);
  const Elements &g = *call.in[0], &w = *call.in[1];
  for_each_product(
      call, call.out().shape, call.shape(1), call.shape(0),
      [&](std::size_t pixel, std::size_t weight, std::size_t result) { out[pixel] += g[result] * w[weight]; });
  return out;
}

Elements conv_grad_w(const Call& call) {
  Elements out = zeros(call.out().shape);
  const Elements &x = *call.in[0], &g = *call.in[1];
  for_each_product(
      call, call.shape(0), call.out().shape, call.shape(1),
      [&](std::size_t pixel, std::size_t weight, std::size_t result) { out[weight] += x[pixel] * g[result]; });
  return out;
}

}  // namespace

Elements evaluate_index(const Call& call) {
  switch (call.node.op) {
    case Op::gather:
      return gather(call);
    case Op::scatter_add:
      return scatter_add(call);
    case Op::take_along:
      return take_along(call);
    case Op::put_along:
      return put_along(call);
    case Op::one_hot:
      return one_hot(call);
    case Op::embedding_sum:
      return embedding_sum(call);
    case Op::index_order:
      return index_order(call);
    default:
      return embedding_grad(call);
  }
}

Elements evaluate_window(const Call& call) {
  switch (call.node.op) {
    case Op::unfold:
      return unfold(call);
    case Op::fold:
      return fold(call);
    case Op::max_pool_pick:
      return max_pool_pick(call);
    case Op::max_pool_scatter:
      return max_pool_scatter(call);
    case Op::conv:
      return conv(call);
    case Op::conv_grad_x:
      return conv_grad_x(call);
    default:
      return conv_grad_w(call);
  }
}

}  // namespace wr::ir
