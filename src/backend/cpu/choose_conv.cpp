// Convolutions: operands that a kernel cannot step through are copied first.
#include "backend/cpu/choose.h"
#include "backend/cpu/conv.h"
#include "ir/attributes.h"

namespace wr::cpu {

using ir::Op;

namespace {

void run_conv(const Conv& conv, void* const* ptr, std::int64_t) { conv(ptr[1], ptr[2], ptr[0], ptr[3]); }

ImageStrides image_strides(const View& v) { return {v.strides[0], v.strides[1], v.strides[2]}; }
bool has_contiguous_channels(const View& v) { return v.strides[3] == 1 || v.shape[3] == 1; }
bool has_contiguous_rows(const View& v) { return v.strides[1] == v.shape[2] * v.strides[2] || v.shape[1] == 1; }

}  // namespace

void Chooser::conv() {
  const auto& [to, accumulate] = work_.out[0];
  const ir::Convolution attrs = ir::Convolution::of(node_.attrs);
  const auto result = node_.op == Op::conv          ? ConvResult::y
                      : node_.op == Op::conv_grad_x ? ConvResult::x
                                                    : ConvResult::weights;
  View first = has_contiguous_channels(work_.in[0]) ? work_.in[0] : dense(work_.in[0]);
  View second = work_.in[1];
  if (result == ConvResult::weights && (!has_contiguous_channels(second) || !has_contiguous_rows(second)))
    second = dense(second);
  const bool direct = has_contiguous_channels(to);
  const View out = direct ? to : emit_.scratch(to.dtype, to.shape);

  const View& x = result == ConvResult::x ? out : first;
  const View& y = result == ConvResult::x ? first : result == ConvResult::y ? out : second;
  const View& w = result == ConvResult::weights ? out : second;
  ConvShape s;
  s.dtype = out.dtype;
  s.batch = x.shape[0];
  s.height = x.shape[1];
  s.width = x.shape[2];
  s.channels = x.shape[3];
  s.out_height = y.shape[1];
  s.out_width = y.shape[2];
  s.out_channels = y.shape[3];
  s.groups = attrs.groups;
  s.window = attrs.window;
  s.x = image_strides(x);
  s.y = image_strides(y);
  for (int i = 0; i < 4; ++i) s.w[i] = w.strides[i];
  s.accumulate = accumulate && direct;
  const Conv made = make_conv(result, s, target(), kernels_.machine());
  const View scratch = made.scratch_bytes ? emit_.scratch_bytes(made.scratch_bytes) : out;
  call(run_conv, made, {out, first, second, scratch}, made.kernel);
  if (direct) return;
  if (accumulate) throw Error("internal: a sum of convolutions whose channels are apart");
  copy(to, out);
}

}  // namespace wr::cpu
