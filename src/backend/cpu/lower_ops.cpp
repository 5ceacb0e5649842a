// Kernel calls for each op but einsum.
#include <algorithm>
#include <numeric>

#include "backend/cpu/copy.h"
#include "backend/cpu/index.h"
#include "backend/cpu/lower.h"
#include "backend/cpu/map.h"
#include "backend/cpu/random.h"
#include "backend/cpu/reduce.h"
#include "backend/cpu/window.h"

namespace wr::cpu {

using ir::Op;
using plan::kFlat;
using plan::kFlatTotal;
using plan::kOnce;

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

MapKernel map_kernel(const ir::Graph& graph, const ir::Node& n, Target target) {
  const DType in = graph[n.inputs[0]].spec.dtype;
  if (n.op == Op::where) return find_where(n.spec.dtype, target);
  if (n.op == Op::cast) return find_cast(in, n.spec.dtype, target);
  return find_map(static_cast<ops::Elementwise>(n.op), in, target);
}

}  // namespace

void Lowering::lower(int id, int axis) {
  const Node& n = graph_[id];
  const bool total = plan::is_total(axis);
  if (n.op == Op::lane_sum) {
    const View out = destination(id, axis);
    local_[id] = out;
    return lower_lane_sum(id, axis, out);
  }
  std::vector<View> in;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) in.push_back(operand(id, static_cast<int>(k), axis));
  const View out = destination(id, axis);
  local_[id] = out;
  const bool accumulate = total && adds_to_total(id);
  if (ir::is_elementwise(n.op)) return lower_map(id, out, std::move(in));
  switch (n.op) {
    case Op::reduce_sum:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
    case Op::reduce_argmax:
    case Op::reduce_argmin:
      return lower_reduce(id, out, in[0], accumulate);
    case Op::einsum:
      return lower_einsum(id, out, in[0], in[1], accumulate);
    case Op::concat:
      return lower_concat(id, out, in);
    case Op::pad:
      return lower_pad(id, out, in[0]);
    case Op::unfold:
    case Op::fold:
    case Op::max_pool_pick:
    case Op::max_pool_scatter:
      return lower_window(id, out, in);
    case Op::gates:
    case Op::gates_grad_x:
    case Op::gates_grad_coefficients:
      return lower_gates(id, out, std::move(in), accumulate);
    case Op::neighbours:
    case Op::neighbours_sum:
      return lower_neighbours(id, out, in[0]);
    case Op::random:
      return lower_random(id, axis, out, in[0]);
    case Op::iota:
      return lower_iota(id, axis, out);
    default:
      return lower_index(id, out, in, accumulate);
  }
}

void Lowering::lower_map(int id, const View& out, std::vector<View> in) {
  const Node& n = graph_[id];
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
  MapCall call{};
  call.kernel = map_kernel(graph_, n, emit_.target());
  call.operands = static_cast<int>(operands.size());
  const int axes = static_cast<int>(loops.size.size());
  if (axes > 0 && loops.stride.back()[0] != 1) {  // a destination with gaps: through a dense one
    const View d = emit_.scratch(out.dtype, out.shape);
    lower_map(id, d, {operands.begin() + 1, operands.end()});
    return copy(out, d);
  }
  call.params.cols = axes > 0 ? loops.size[static_cast<std::size_t>(axes) - 1] : 1;
  call.rows = axes > 1 ? loops.size[static_cast<std::size_t>(axes) - 2] : 1;
  call.loops = std::max(0, axes - 2);
  unsigned in_place = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    call.params.col_stride[k] = axes > 0 ? loops.stride[static_cast<std::size_t>(axes) - 1][k] : k == 0;
    call.params.row_stride[k] = axes > 1 ? loops.stride[static_cast<std::size_t>(axes) - 2][k] : 0;
    for (int l = 0; l < call.loops; ++l)
      call.step[l][k] = loops.stride[static_cast<std::size_t>(l)][k] * operands[k].elem();
    const bool same_layout = k > 0 && operands[k].shape == out.shape && operands[k].dense() && out.dense() &&
                             operands[k].elem() == out.elem();
    if (same_layout) in_place |= 1u << k;
  }
  for (int l = 0; l < call.loops; ++l) call.size[l] = loops.size[static_cast<std::size_t>(l)];
  emit_.call(run_map, call, operands, ir::definition(n.op).name.data(), in_place);
}

void Lowering::lower_reduce(int id, const View& out, const View& in, bool accumulate) {
  static constexpr Reduce kinds[] = {Reduce::sum,  Reduce::max,    Reduce::min,
                                     Reduce::prod, Reduce::argmax, Reduce::argmin};
  const Node& n = graph_[id];
  Dims axes;
  Strides out_strides;
  if (in.shape.rank() != out.shape.rank()) {  // flat rows
    axes = {0};
  } else {
    for (auto a : n.attrs.ints) axes.push_back(a);
    for (int i = 0; i < out.shape.rank(); ++i)
      if (!axes.contains(i)) out_strides.push_back(out.strides[i]);
  }
  ReduceCall call{};
  call.params = make_reduce(in.shape, in.strides, axes, out_strides, accumulate);
  call.kernel = find_reduce(kinds[static_cast<int>(n.op) - static_cast<int>(Op::reduce_sum)], in.dtype, emit_.target());
  emit_.call(run_reduce, call, {out, in}, ir::definition(n.op).name.data());
}

void Lowering::lower_lane_sum(int id, int axis, const View& out) {
  const int total = graph_[id].inputs[0];
  const auto& place = schedule_.place[static_cast<std::size_t>(total)];
  const plan::Region& from =
      schedule_.phases[static_cast<std::size_t>(place.phase)].regions[static_cast<std::size_t>(place.region)];
  View parts = homes_.partial[static_cast<std::size_t>(total)];
  parts.base = kPartials;
  if (axis != kOnce) parts = rows_of(parts, axis);
  SumLanesCall call{};
  call.kernel = find_sum_lanes(out.dtype, emit_.target());
  call.params.lanes = from.lanes();
  call.params.lane_stride = homes_.lane_bytes / out.elem();
  parts.offset += from.first_lane * call.params.lane_stride * out.elem();
  call.count = out.count();
  emit_.call(run_sum_lanes, call, {out, parts}, "lane_sum");
}

void Lowering::lower_concat(int id, const View& out, const std::vector<View>& in) {
  const int axis = static_cast<int>(graph_[id].attrs.ints[0]);
  View part = out;
  for (const View& v : in) {
    part.shape[axis] = v.shape[axis];
    if (v.count() > 0) copy(part, v);
    part.offset += v.shape[axis] * part.strides[axis] * part.elem();
  }
}

void Lowering::lower_pad(int id, const View& out, const View& in) {
  const Node& n = graph_[id];
  union {
    float f32;
    double f64;
    std::int32_t i32;
    std::uint8_t u8;
  } value{};
  const double v = n.attrs.reals[0];
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
  emit_.call(find_fill(fill, emit_.target()), fill, {out}, "fill");
  View inner = out;
  inner.shape = in.shape;
  for (int i = 0; i < in.shape.rank(); ++i)
    if (in.shape[i] != out.shape[i])
      inner.offset += n.attrs.ints[static_cast<std::size_t>(i)] * out.strides[i] * out.elem();
  if (in.count() > 0) copy(inner, in);
}

void Lowering::lower_index(int id, const View& to, const std::vector<View>& in, bool accumulate) {
  const Node& n = graph_[id];
  const Target t = emit_.target();
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
      emit_.call(find_gather(out.dtype, t), p, {out, dense(in[0]), dense(in[1])}, "gather");
      break;
    case Op::scatter_add:
      around(out.shape, axis, p);
      p.count = in[1].count();
      copy(out, in[0]);
      emit_.call(find_scatter_add(out.dtype, t), p, {out, dense(in[2]), dense(in[1])}, "scatter_add");
      break;
    case Op::take_along:
      around(in[0].shape, axis, p);
      p.count = in[1].shape[axis];
      emit_.call(find_take_along(out.dtype, t), p, {out, dense(in[0]), dense(in[1])}, "take_along");
      break;
    case Op::put_along:
      around(out.shape, axis, p);
      p.count = in[0].shape[axis];
      p.clear = true;
      emit_.call(find_put_along_add(out.dtype, t), p, {out, dense(in[1]), dense(in[0])}, "put_along");
      break;
    case Op::one_hot: {
      const OneHotParams o{in[0].count(), n.attrs.ints[0]};
      emit_.call(find_one_hot(out.dtype, t), o, {out, dense(in[0])}, "one_hot");
      break;
    }
    case Op::embedding_sum: {
      const auto terms = in[1].shape.back();
      const EmbeddingParams e{terms ? in[1].count() / terms : out.count() / std::max<std::int64_t>(out.shape.back(), 1),
                              terms, in[0].shape[0], in[0].shape[1], false};
      emit_.call(find_embedding_sum(out.dtype, t), e, {out, dense(in[0]), dense(in[1])}, "embedding_sum");
      break;
    }
    case Op::embedding_grad: {
      const EmbeddingParams e{in[0].shape[0], in[0].shape[1], out.shape[0], out.shape[1], !accumulate};
      emit_.call(find_embedding_scatter(out.dtype, t), e, {out, dense(in[1]), dense(in[0])}, "embedding_grad");
      break;
    }
    default:
      throw Error("internal: no CPU kernel for " + std::string(ir::definition(n.op).name));
  }
  if (!to.dense()) copy(to, out);
}

void Lowering::lower_window(int id, const View& to, const std::vector<View>& in) {
  const Node& n = graph_[id];
  const Target t = emit_.target();
  const auto& i = n.attrs.ints;
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  WindowParams p;
  p.kernel_h = i[0];
  p.kernel_w = i[1];
  p.stride_h = i[2];
  p.stride_w = i[3];
  p.dilation_h = i[4];
  p.dilation_w = i[5];
  p.pad_top = i[6];
  p.pad_left = i[8];
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
      emit_.call(find_unfold(out.dtype, t), with_dense_columns(p), {out, dense(in[0])}, "unfold");
      break;
    case Op::fold:
      emit_.call(find_fold(out.dtype, t), with_dense_columns(p), {out, dense(in[0])}, "fold");
      break;
    case Op::max_pool_pick:
      if (n.inputs[0] == n.inputs[1])
        emit_.call(find_max_pool(out.dtype, t), with_dense_pool(p), {out, dense(in[0])}, "max_pool");
      else
        emit_.call(find_max_pool_pick(out.dtype, t), with_dense_pool(p), {out, dense(in[0]), dense(in[1])},
                   "max_pool_pick");
      break;
    default:
      emit_.call(find_max_pool_scatter(out.dtype, t), with_dense_pool(p), {out, dense(in[0]), dense(in[1])},
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

void Lowering::lower_random(int id, int axis, const View& to, const View& counter) {
  const Node& n = graph_[id];
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  const Around a = around_axis(n.spec.shape, to.shape, axis);
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
  emit_.call(find_random(kind, out.dtype, emit_.target()), p, {out, counter}, "random");
  if (!to.dense()) copy(to, out);
}

void Lowering::lower_iota(int id, int axis, const View& to) {
  const Node& n = graph_[id];
  const View out = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  const int counted = static_cast<int>(n.attrs.ints[0]);
  const Around a = around_axis(to.shape, to.shape, counted);
  IotaParams p;
  p.outer = a.outer;
  p.rows = a.rows;
  p.inner = a.inner;
  p.strip_axis = axis == counted;
  emit_.call(find_iota(out.dtype, emit_.target()), p, {out}, "iota");
  if (!to.dense()) copy(to, out);
}

}  // namespace wr::cpu
