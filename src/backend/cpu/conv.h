// Convolutions on one core, on the image itself: sums of products over the taps of the window, on the register tile of
// matrix products. Nothing is unfolded; an image is copied only where a border of zeros is needed. A plan makes a Conv
// once and runs it every step; lanes call it on their own images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"
#include "windrow/tensor.h"

namespace wr {
struct Machine;
}

namespace wr::cpu {

/// Strides of an image, or of what stands in its place, in elements. Channels are contiguous.
struct ImageStrides {
  std::int64_t batch = 0, row = 0, column = 0;
};

/// x[batch, height, width, channels] with w[window.height, window.width, channels / groups, out_channels] gives
/// y[batch, out_height, out_width, out_channels].
struct ConvShape {
  DType dtype = DType::f32;  // f32 or f64
  std::int64_t batch = 0, height = 0, width = 0, channels = 0;
  std::int64_t out_height = 0, out_width = 0, out_channels = 0;
  std::int64_t groups = 1;
  Window window;
  ImageStrides x, y;
  std::int64_t w[4] = {};   // strides of the weights; the last is 1 where they are written
  bool accumulate = false;  // added to what stands there; only of `weights`
};

/// Strides of dense operands.
ConvShape with_dense_strides(ConvShape shape);

enum class ConvResult { y, x, weights };

/// A convolution ready to run: a plain value. Running neither allocates, locks nor throws, and gives the same bits
/// every time and for every division of the batch into calls, but for sums over the batch.
struct Conv {
  using Run = void (*)(const Conv& conv, const void* first, const void* second, void* out, void* scratch);

  /// Of y: x and w; of x: y and w; of weights: x and y.
  void operator()(const void* first, const void* second, void* out, void* scratch) const {
    run(*this, first, second, out, scratch);
  }

  Run run = nullptr;
  const char* kernel = "";
  std::size_t scratch_bytes = 0;  // of 64-byte aligned memory the caller gives each run
  ConvShape shape;
  Target target = Target::sse4;
  // The kernels' own: zeros round the image that is read, rows of taps at a time, rows of y at a time.
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  std::int64_t tap_rows = 1, y_rows = 1;
};

/// Throws Error if the dtype is not f32 or f64.
Conv make_conv(ConvResult result, const ConvShape& shape, Target target, const Machine& machine);

}  // namespace wr::cpu
