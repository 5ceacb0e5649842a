// How much work a node is: what the planner's choices rest on.
#include <algorithm>
#include <map>

#include "plan/schedule.h"

namespace wr::plan {

using ir::Op;

namespace {

double einsum_flops(const ir::Graph& graph, const ir::Node& node) {
  std::map<char, std::int64_t> sizes;
  std::size_t at = 0;
  for (int in : node.inputs) {
    for (auto n : graph[in].spec.shape) sizes[node.attrs.text[at++]] = n;
    ++at;  // the comma
  }
  double product = 2;
  for (auto [label, n] : sizes) product *= static_cast<double>(n);
  return product;
}

}  // namespace

bool is_transcendental(Op op) {
  switch (op) {
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::log1p:
    case Op::sin:
    case Op::cos:
    case Op::tanh:
    case Op::erf:
    case Op::sigmoid:
    case Op::softplus:
    case Op::elu:
    case Op::silu:
    case Op::gelu:
    case Op::pow:
    case Op::adam_step:
    case Op::random:
      return true;
    default:
      return false;
  }
}

double flops(const ir::Graph& graph, int id) {
  const ir::Node& node = graph[id];
  if (ir::is_leaf(node.op) || ir::is_view(node.op)) return 0;
  if (node.op == Op::einsum) return einsum_flops(graph, node);
  if (node.op == Op::gates || node.op == Op::gates_grad_x || node.op == Op::gates_grad_coefficients) {
    const auto cells = static_cast<double>(graph[node.inputs[0]].spec.shape[1]);
    const double each = node.op == Op::gates ? 6 : node.op == Op::gates_grad_x ? 8 : 7;
    return each * cells * static_cast<double>(node.attrs.ints.size() / 2);
  }
  double elements = static_cast<double>(node.spec.shape.count());
  if (node.op >= Op::reduce_sum && node.op <= Op::reduce_argmin)
    elements = static_cast<double>(graph[node.inputs[0]].spec.shape.count());
  if (!ir::is_elementwise(node.op) && !(node.op >= Op::reduce_sum && node.op <= Op::reduce_argmin)) return 0;
  return elements;
}

double bytes_of(const ir::Graph& g, int id) {
  return static_cast<double>(g[id].spec.shape.count()) * static_cast<double>(size_of(g[id].spec.dtype));
}

double work_ns(const ir::Graph& graph, int id, const Machine& machine) {
  const ir::Node& node = graph[id];
  if (ir::is_leaf(node.op) || ir::is_view(node.op)) return 0;
  double bytes = bytes_of(graph, id), elements = static_cast<double>(node.spec.shape.count());
  for (int in : node.inputs) {
    bytes += bytes_of(graph, in);
    elements = std::max(elements, static_cast<double>(graph[in].spec.shape.count()));
  }
  const bool wide = node.spec.dtype == DType::f64;
  if (node.op == Op::einsum) {
    // With few rows, what does not stay near the core takes as long as it takes to come.
    const double arithmetic = einsum_flops(graph, node) / (wide ? machine.gflops_f64 : machine.gflops_f32);
    return machine.call_ns + std::max(arithmetic, bytes * machine.ns_byte(bytes));
  }
  const double heavy = is_transcendental(node.op) ? machine.exp_ns * elements * (wide ? 2 : 1) : 0;
  return machine.call_ns + heavy + bytes / machine.gbs_l1;
}

int aligned_axis(const ir::Graph& graph, int id, int operand, int axis) {
  const ir::Node& node = graph[id];
  const auto& in = graph[node.inputs[static_cast<std::size_t>(operand)]].spec;
  if (axis == kOnce) return kNotAligned;
  if (axis == kFlatTotal) return kFlat;
  if (axis == kFlat) return in.shape.count() == node.spec.shape.count() ? kFlat : kNotAligned;
  std::vector<Spec> specs;
  for (int i : node.inputs) specs.push_back(graph[i].spec);
  const auto map = ir::definition(node.op).axes(node.spec, specs, node.attrs);
  if (static_cast<std::size_t>(operand) >= map.operand.size()) return kNotAligned;
  const Dims& axes = map.operand[static_cast<std::size_t>(operand)];
  const int wanted = is_total(axis) ? ir::kReduced - (kTotal - axis) : axis;
  for (int k = 0; k < axes.rank(); ++k)
    if (axes[k] == wanted && (is_total(axis) || in.shape[k] == node.spec.shape[axis])) return k;
  return kNotAligned;
}

}  // namespace wr::plan
