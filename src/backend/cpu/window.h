// Kernels over sliding windows of NHWC images: unfold (im2col), its adjoint fold (col2im), and max pooling.
// f32 and f64; other types have no kernel (nullptr). Measured speeds: docs/kernels.md.
#pragma once

#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"

namespace wr::cpu {

/// Window (oh, ow) covers x[oh * stride_h - pad_top + kh * dilation_h, ow * stride_w - pad_left + kw * dilation_w] for
/// kh < kernel_h, kw < kernel_w. What lies outside x is padding; bottom and right padding follow from out_h and out_w.
/// Arrays are dense but for the batch strides, in elements.
struct WindowParams {
  std::int64_t batch = 0, in_h = 0, in_w = 0, channels = 0, out_h = 0, out_w = 0;
  std::int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0, dilation_h = 1, dilation_w = 1;
  std::int64_t x_batch_stride = 0;    // of x[batch, in_h, in_w, channels], also of dx and of pick's u
  std::int64_t out_batch_stride = 0;  // of cols[batch, out_h, out_w, kernel_h, kernel_w, channels] in unfold and fold,
                                      // of out and dy[batch, out_h, out_w, channels] in pooling
};
/// Sets both batch strides to those of dense arrays.
WindowParams with_dense_columns(WindowParams params);
WindowParams with_dense_pool(WindowParams params);

using WindowKernel = void (*)(const WindowParams& params, void* const* ptr, std::int64_t row0);  // row0 is ignored

/// cols = the windows of x, zero in the padding. ptr: cols, x.
WindowKernel find_unfold(DType dtype, Target target);
/// x = the sum of what the windows hold at each pixel (overwrites x), added in order of kh, then kw: the same bits on
/// every target. ptr: x, cols.
WindowKernel find_fold(DType dtype, Target target);

/// out = the maximum of each window; padding never wins, NaN always does. A window all in the padding gives -inf.
/// ptr: out, x.
WindowKernel find_max_pool(DType dtype, Target target);
/// out = u at the position of the first maximum of x in each window; the first NaN counts as the maximum. A window all
/// in the padding gives 0. ptr: out, x, u.
WindowKernel find_max_pool_pick(DType dtype, Target target);
/// dx = 0, then dx[position of the first maximum of x] += dy, in order of oh, then ow. The adjoint of pick in u.
/// ptr: dx, x, dy.
WindowKernel find_max_pool_scatter(DType dtype, Target target);

}  // namespace wr::cpu
