// Kernel calls for each op but einsum, gates, attention and ops on rows.
#include <algorithm>

#include "backend/cpu/choose.h"
#include "backend/cpu/copy.h"
#include "backend/cpu/index.h"
#include "backend/cpu/map.h"
#include "backend/cpu/random.h"
#include "backend/cpu/reduce.h"
#include "backend/cpu/update.h"
#include "backend/cpu/window.h"
#include "ir/attributes.h"

namespace wr::cpu {

using ir::Op;

namespace {

/// A map kernel over a strided n-d region: the two inner axes are the kernel's, the others are loops round it.
struct MapCall {
  MapKernel kernel;
  MapParams params;
  std::int64_t rows;
  int operands;
  int loops;
  std::int64_t size[kMaxRank];
  std::int64_t step[kMaxRank][kMaxOperands];  // bytes
};

void run_map(const MapCall& call, void* const* ptr, std::int64_t) {
  if (call.loops == 0) return call.kernel(call.params, ptr, call.rows);
  void* at[kMaxOperands];
  std::copy(ptr, ptr + call.operands, at);
  std::int64_t index[kMaxRank] = {};
  while (true) {
    call.kernel(call.params, at, call.rows);
    int axis = call.loops - 1;
    for (; axis >= 0; --axis) {
      const bool more = ++index[axis] < call.size[axis];
      const std::int64_t steps = more ? 1 : -(call.size[axis] - 1);
      for (int k = 0; k < call.operands; ++k) at[k] = static_cast<char*>(at[k]) + steps * call.step[axis][k];
      if (more) break;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

struct ReduceCall {
  ReduceKernel kernel;
  ReduceParams params;
};

void run_reduce(const ReduceCall& call, void* const* ptr, std::int64_t) {
  call.kernel(call.params, ptr, call.params.kept_size[0]);
}

Reduce reduce_of(Op op) {
  switch (op) {
    case Op::reduce_max:
      return Reduce::max;
    case Op::reduce_min:
      return Reduce::min;
    case Op::reduce_prod:
      return Reduce::prod;
    case Op::reduce_argmax:
      return Reduce::argmax;
    case Op::reduce_argmin:
      return Reduce::argmin;
    default:
      return Reduce::sum;
  }
}

struct SumLanesCall {
  SumLanesKernel kernel;
  SumLanesParams params;
  std::int64_t count;
};

void run_sum_lanes(const SumLanesCall& call, void* const* ptr, std::int64_t) {
  call.kernel(call.params, ptr, call.count);
}

/// Axes of an elementwise call, outermost first, merged where every operand allows it.
struct Loops {
  std::vector<std::int64_t> size;
  std::vector<std::vector<std::int64_t>> stride;  // [axis][operand], in elements
};

Loops merged_axes(const Shape& shape, const std::vector<View>& operands) {
  Loops loops;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    std::vector<std::int64_t> strides;
    for (const View& v : operands)
      strides.push_back(v.shape.rank() == shape.rank() && v.shape[axis] == shape[axis] ? v.strides[axis] : 0);
    bool merge = !loops.size.empty();
    for (std::size_t k = 0; merge && k < strides.size(); ++k)
      merge = loops.stride.back()[k] == strides[k] * shape[axis];
    if (merge) {
      loops.size.back() *= shape[axis];
      loops.stride.back() = strides;
    } else {
      loops.size.push_back(shape[axis]);
      loops.stride.push_back(strides);
    }
  }
  return loops;
}

MapKernel map_kernel(const lower::Work& work, Target target) {
  const ir::Node& n = work.node();
  const DType in = work.in[0].dtype;
  if (n.op == Op::where) return find_where(n.spec.dtype, target);
  if (n.op == Op::cast) return find_cast(in, n.spec.dtype, target);
  return find_map(static_cast<ops::Elementwise>(n.op), in, target);
}

}  // namespace

void Chooser::run() {
  if (ir::is_elementwise(node_.op)) return map(work_.out[0].view, work_.in);
  if (ir::is_update(node_.op)) return update();
  if (ir::is_update_of_rows(node_.op)) return update_rows();
  if (ir::is_row_op(node_.op)) return rows();
  if (ir::definition(node_.op).traits.reduction) return reduce();
  switch (node_.op) {
    case Op::lane_sum:
      return lane_sum();
    case Op::einsum:
      return einsum();
    case Op::contract:
    case Op::contract_share:
    case Op::contract_grad:
      return contract();
    case Op::concat:
      return concat();
    case Op::pad:
      return pad();
    case Op::unfold:
    case Op::fold:
    case Op::max_pool_pick:
    case Op::max_pool_scatter:
      return window();
    case Op::conv:
    case Op::conv_grad_x:
    case Op::conv_grad_w:
      return conv();
    case Op::gates:
    case Op::gates_grad_x:
    case Op::gates_grad_coefficients:
    case Op::gates_grad:
      return gates();
    case Op::neighbours:
    case Op::neighbours_sum:
      return neighbours();
    case Op::lstm:
    case Op::lstm_grad:
    case Op::gru:
    case Op::gru_grad:
      return recurrent();
    case Op::attention:
    case Op::attention_grad:
      return attention();
    case Op::random:
      return random();
    case Op::iota:
      return iota();
    default:
      return index();
  }
}

void Chooser::map(const View& out, std::vector<View> in) {
  if (out.count() == 0) return;
  std::vector<View> operands{out};
  operands.insert(operands.end(), in.begin(), in.end());
  // Kernels step by 0 or 1 along the innermost axis; an operand that cannot is copied first.
  const Loops probe = merged_axes(out.shape, operands);
  if (!probe.size.empty())
    for (std::size_t k = 1; k < operands.size(); ++k)
      if (probe.stride.back()[k] != 0 && probe.stride.back()[k] != 1) {
        const View d = emit_.scratch(operands[k].dtype, operands[k].shape);
        copy(d, operands[k]);
        operands[k] = d;
      }
  const Loops loops = merged_axes(out.shape, operands);
  MapCall made{};
  made.kernel = map_kernel(work_, target());
  made.operands = static_cast<int>(operands.size());
  const int axes = static_cast<int>(loops.size.size());
  if (axes > 0 && loops.stride.back()[0] != 1) {  // a destination with gaps: through a dense one
    const View d = emit_.scratch(out.dtype, out.shape);
    map(d, {operands.begin() + 1, operands.end()});
    return copy(out, d);
  }
  made.params.cols = axes > 0 ? loops.size[static_cast<std::size_t>(axes) - 1] : 1;
  made.rows = axes > 1 ? loops.size[static_cast<std::size_t>(axes) - 2] : 1;
  made.loops = std::max(0, axes - 2);
  unsigned in_place = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    made.params.col_stride[k] = axes > 0 ? loops.stride[static_cast<std::size_t>(axes) - 1][k] : k == 0;
    made.params.row_stride[k] = axes > 1 ? loops.stride[static_cast<std::size_t>(axes) - 2][k] : 0;
    for (int l = 0; l < made.loops; ++l) made.step[l][k] = loops.stride[l][k] * operands[k].elem();
    const bool same_layout = k > 0 && operands[k].shape == out.shape && operands[k].dense() && out.dense() &&
                             operands[k].elem() == out.elem();
    if (same_layout) in_place |= 1u << k;
  }
  for (int l = 0; l < made.loops; ++l) made.size[l] = loops.size[l];
  call(run_map, made, operands, name(), in_place);
}

void Chooser::update() {
  const View& out = work_.out[0].view;
  const std::vector<View>& in = work_.in;
  const auto row_number = ops::update_of(node_.op);
  const ops::UpdateRow& row = ops::row_of(row_number);
  std::vector<View> results;
  for (const lower::Destination& to : work_.out) results.push_back(to.view);
  if (out.count() == 0) return;
  std::vector<View> operands = results;
  operands.insert(operands.end(), in.begin(), in.begin() + row.values);
  const auto in_rows = [](const Loops& l) {
    return l.size.size() < 3 && (l.size.empty() || std::all_of(l.stride.back().begin(), l.stride.back().end(),
                                                               [](auto stride) { return stride == 1; }));
  };
  Loops loops = merged_axes(out.shape, operands);
  const bool direct = in_rows(loops);
  if (!direct) {  // gaps, or more than rows of elements: through dense ones
    for (std::size_t k = 0; k < operands.size(); ++k)
      operands[k] = k < results.size() ? emit_.scratch(out.dtype, out.shape) : dense(operands[k]);
    loops = merged_axes(out.shape, operands);
  }
  UpdateParams params;
  const bool rows = loops.size.size() == 2;
  params.rows = rows ? loops.size[0] : 1;
  params.cols = loops.size.empty() ? 1 : loops.size.back();
  for (std::size_t k = 0; rows && k < operands.size(); ++k) params.row_stride[k] = loops.stride[0][k];
  const std::vector<View> made(operands.begin(), operands.begin() + row.result_count);
  operands.insert(operands.end(), in.begin() + row.values, in.end());
  call(find_update(row_number, out.dtype, target()), params, operands, row.name.data());
  for (std::size_t k = 0; !direct && k < results.size(); ++k) copy(results[k], made[k]);
}

/// Views of tables whose rows lie together; others go through copies.
void Chooser::update_rows() {
  const auto row_number = ops::update_of(node_.op);
  const ops::UpdateRow& row = ops::row_of(row_number);
  const auto kept = static_cast<std::size_t>(row.values) - 1;
  const View& table = work_.out[0].view;
  std::vector<View> operands;
  for (const lower::Destination& to : work_.out)
    operands.push_back(to.view.dense() ? to.view : emit_.scratch(to.view.dtype, to.view.shape));
  for (std::size_t k = 0; k < kept + 2; ++k) operands.push_back(dense(work_.in[k]));
  operands.insert(operands.end(), work_.in.begin() + static_cast<std::ptrdiff_t>(kept) + 2, work_.in.end());
  const std::vector<View> made(operands.begin(), operands.begin() + row.result_count);
  operands.push_back(emit_.scratch(table.dtype, {std::max<std::int64_t>(table.shape[1], 1)}));
  const UpdateRowsParams params{table.shape[0], table.shape[1], node_.attrs.ints[0], work_.in[kept].shape[1],
                                node_.attrs.ints[1] != 0};
  call(find_update_rows(row_number, table.dtype, target()), params, operands, name());
  for (std::size_t k = 0; k < made.size(); ++k)
    if (!work_.out[k].view.dense()) copy(work_.out[k].view, made[k]);
}

void Chooser::reduce() {
  const auto& [out, accumulate] = work_.out[0];
  const View& in = work_.in[0];
  Dims axes;
  Strides out_strides;
  if (in.shape.rank() != out.shape.rank()) {  // flat rows
    axes = {0};
  } else {
    axes = ir::list_of(node_.attrs);
    for (int i = 0; i < out.shape.rank(); ++i)
      if (!axes.contains(i)) out_strides.push_back(out.strides[i]);
  }
  ReduceCall made{};
  made.params = make_reduce(in.shape, in.strides, axes, out_strides, accumulate);
  made.kernel = find_reduce(reduce_of(node_.op), in.dtype, target());
  call(run_reduce, made, {out, in}, name());
}

void Chooser::lane_sum() {
  const View& out = work_.out[0].view;
  SumLanesCall sum{};
  sum.kernel = find_sum_lanes(out.dtype, target());
  sum.params.lanes = work_.lanes;
  sum.params.lane_stride = work_.lane_bytes / out.elem();
  sum.count = out.count();
  call(run_sum_lanes, sum, {out, work_.in[0]}, "lane_sum");
}

void Chooser::concat() {
  const int axis = static_cast<int>(node_.attrs.ints[0]);
  View part = work_.out[0].view;
  for (const View& v : work_.in) {
    part.shape[axis] = v.shape[axis];
    if (v.count() > 0) copy(part, v);
    part.offset += v.shape[axis] * part.strides[axis] * part.elem();
  }
}

void Chooser::pad() {
  const View &out = work_.out[0].view, &in = work_.in[0];
  union {
    float f32;
    double f64;
    std::int32_t i32;
    std::uint8_t u8;
  } value{};
  const ir::Pad around = ir::Pad::of(node_.attrs, out.shape.rank());
  const double v = around.value;
  switch (out.dtype) {
    case DType::f32:
      value.f32 = static_cast<float>(v);
      break;
    case DType::f64:
      value.f64 = v;
      break;
    case DType::i32:
      value.i32 = static_cast<std::int32_t>(v);
      break;
    case DType::u8:
    case DType::boolean:
      value.u8 = static_cast<std::uint8_t>(v);
      break;
  }
  const FillParams fill = make_fill(out.shape, out.strides, static_cast<int>(out.elem()), &value);
  call(find_fill(fill, target()), fill, {out}, "fill");
  View inner = out;
  inner.shape = in.shape;
  for (int i = 0; i < in.shape.rank(); ++i)
    if (in.shape[i] != out.shape[i]) inner.offset += around.before[i] * out.strides[i] * out.elem();
  if (in.count() > 0) copy(inner, in);
}

void Chooser::index() {
  const auto& [to, accumulate] = work_.out[0];
  const std::vector<View>& in = work_.in;
  const ir::Node& n = node_;
  const Target t = target();
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  auto around = [](const Shape& shape, int axis, IndexParams& p) {
    for (int i = 0; i < axis; ++i) p.outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) p.inner *= shape[i];
    p.axis_size = shape[axis];
    p.x_outer_stride = p.axis_size * p.inner;
  };
  IndexParams p;
  const int axis = n.attrs.ints.empty() ? 0 : static_cast<int>(n.attrs.ints[0]);
  switch (n.op) {
    case Op::gather:
      around(in[0].shape, axis, p);
      p.count = in[1].count();
      call(find_gather(out.dtype, t), p, {out, dense(in[0]), dense(in[1])}, "gather");
      break;
    case Op::scatter_add:
      around(out.shape, axis, p);
      p.count = in[1].count();
      copy(out, in[0]);
      call(find_scatter_add(out.dtype, t), p, {out, dense(in[2]), dense(in[1])}, "scatter_add");
      break;
    case Op::take_along:
      around(in[0].shape, axis, p);
      p.count = in[1].shape[axis];
      call(find_take_along(out.dtype, t), p, {out, dense(in[0]), dense(in[1])}, "take_along");
      break;
    case Op::put_along:
      around(out.shape, axis, p);
      p.count = in[0].shape[axis];
      p.clear = true;
      call(find_put_along_add(out.dtype, t), p, {out, dense(in[1]), dense(in[0])}, "put_along");
      break;
    case Op::one_hot: {
      const OneHotParams o{in[0].count(), n.attrs.ints[0]};
      call(find_one_hot(out.dtype, t), o, {out, dense(in[0])}, "one_hot");
      break;
    }
    case Op::embedding_sum: {
      const auto terms = in[1].shape.back();
      const EmbeddingParams e{terms ? in[1].count() / terms : out.count() / std::max<std::int64_t>(out.shape.back(), 1),
                              terms, in[0].shape[0], in[0].shape[1], false};
      call(find_embedding_sum(out.dtype, t), e, {out, dense(in[0]), dense(in[1])}, "embedding_sum");
      break;
    }
    case Op::embedding_grad: {
      const EmbeddingParams e{in[0].shape[0], in[0].shape[1], out.shape[0],
                              out.shape[1],   !accumulate,    work_.cut == plan::Cut::along(0)};
      call(find_embedding_scatter(out.dtype, t), e, {out, dense(in[1]), dense(in[0])}, "embedding_grad");
      break;
    }
    case Op::index_order:
      call(index_order, OrderParams{in[0].count()}, {out, dense(in[0]), emit_.scratch(out.dtype, out.shape)},
           "index_order");
      break;
    default:
      throw Error("internal: no CPU kernel for " + std::string(ir::definition(n.op).name));
  }
  if (!to.dense()) copy(to, out);
}

void Chooser::window() {
  const View& to = work_.out[0].view;
  const std::vector<View>& in = work_.in;
  const ir::Node& n = node_;
  const Target t = target();
  const Window w = ir::window_of(n.attrs);
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  WindowParams p;
  p.kernel_h = w.height;
  p.kernel_w = w.width;
  p.stride_h = w.stride_h;
  p.stride_w = w.stride_w;
  p.dilation_h = w.dilation_h;
  p.dilation_w = w.dilation_w;
  p.pad_top = w.pad_top;
  p.pad_left = w.pad_left;
  const Shape& image = n.op == Op::fold || n.op == Op::max_pool_scatter ? out.shape : in[0].shape;
  const Shape& grid = n.op == Op::fold ? in[0].shape : n.op == Op::max_pool_scatter ? in[1].shape : out.shape;
  p.batch = image[0];
  p.in_h = image[1];
  p.in_w = image[2];
  p.channels = image[3];
  p.out_h = grid[1];
  p.out_w = grid[2];
  switch (n.op) {
    case Op::unfold:
      call(find_unfold(out.dtype, t), with_dense_columns(p), {out, dense(in[0])}, "unfold");
      break;
    case Op::fold:
      call(find_fold(out.dtype, t), with_dense_columns(p), {out, dense(in[0])}, "fold");
      break;
    case Op::max_pool_pick:
      if (n.inputs[0] == n.inputs[1])
        call(find_max_pool(out.dtype, t), with_dense_pool(p), {out, dense(in[0])}, "max_pool");
      else
        call(find_max_pool_pick(out.dtype, t), with_dense_pool(p), {out, dense(in[0]), dense(in[1])}, "max_pool_pick");
      break;
    default:
      call(find_max_pool_scatter(out.dtype, t), with_dense_pool(p), {out, dense(in[0]), dense(in[1])},
           "max_pool_scatter");
  }
  if (!to.dense()) copy(to, out);
}

namespace {

/// A strip of an array as [outer, rows, inner] round the axis it is cut along.
struct Around {
  std::int64_t outer = 1, extent = 1, rows = 1, inner = 1;
};

Around around_axis(const Shape& whole, const Shape& strip, int axis) {
  Around a;
  if (axis < 0) {
    a.inner = whole.count();
    return a;
  }
  for (int i = 0; i < axis; ++i) a.outer *= whole[i];
  for (int i = axis + 1; i < whole.rank(); ++i) a.inner *= whole[i];
  a.extent = whole[axis];
  a.rows = strip[axis];
  return a;
}

}  // namespace

void Chooser::random() {
  const View &to = work_.out[0].view, &counter = work_.in[0];
  const ir::Node& n = node_;
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  const Around a = around_axis(n.spec.shape, to.shape, work_.cut.is_along() ? work_.cut.axis() : -1);
  RandomParams p;
  p.seed = static_cast<std::uint64_t>(n.attrs.ints[0]);
  p.stream = static_cast<std::uint32_t>(n.attrs.ints[1]);
  p.probability = n.attrs.reals[0];
  p.outer = a.outer;
  p.extent = a.extent;
  p.rows = a.rows;
  p.inner = a.inner;
  const auto kind = n.attrs.text == "uniform"  ? Distribution::uniform
                    : n.attrs.text == "normal" ? Distribution::normal
                                               : Distribution::bernoulli;
  call(find_random(kind, out.dtype, target()), p, {out, counter}, "random");
  if (!to.dense()) copy(to, out);
}

void Chooser::iota() {
  const View& to = work_.out[0].view;
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  const int counted = static_cast<int>(node_.attrs.ints[0]);
  const Around a = around_axis(to.shape, to.shape, counted);
  IotaParams p;
  p.outer = a.outer;
  p.rows = a.rows;
  p.inner = a.inner;
  p.strip_axis = work_.cut == plan::Cut::along(counted);
  call(find_iota(out.dtype, target()), p, {out}, "iota");
  if (!to.dense()) copy(to, out);
}

}  // namespace wr::cpu
