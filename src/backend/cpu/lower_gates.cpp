// Kernel calls of gate layers and neighbourhoods.
#include <algorithm>
#include <limits>

#include "backend/cpu/gates.h"
#include "backend/cpu/lower.h"

namespace wr::cpu {

using ir::Op;

namespace {

/// A table of turns as a table of numbers.
const GateTurn* kept(Tables& tables, const std::vector<GateTurn>& turns) {
  constexpr auto kNumbers = sizeof(GateTurn) / sizeof(std::int32_t);
  const auto* numbers = reinterpret_cast<const std::int32_t*>(turns.data());
  return reinterpret_cast<const GateTurn*>(tables.keep({numbers, numbers + kNumbers * turns.size()}));
}

/// [rows, cells] with cells one after the other.
bool has_dense_rows(const View& v) { return v.shape[1] <= 1 || v.strides[1] == 1; }

}  // namespace

bool Lowering::makes_both_gate_gradients(const plan::Member& x, const plan::Member& coefficients) const {
  const Node &a = graph_[x.node], &b = graph_[coefficients.node];
  return a.op == Op::gates_grad_x && b.op == Op::gates_grad_coefficients && a.inputs[0] == b.inputs[0] &&
         a.inputs[2] == b.inputs[1] && a.attrs.ints == b.attrs.ints && plan::is_total(coefficients.axis);
}

/// The gradients of a layer by its wires and by its coefficients read the same values: one call makes both.
void Lowering::lower_gate_gradients(const plan::Member& x, const plan::Member& coefficients) {
  emit_.also = coefficients.node;
  local_[coefficients.node] = destination(coefficients.node, coefficients.axis);
  lower(x.node, x.axis);
  emit_.also = -1;
}

void Lowering::lower_gates(int id, const View& to, std::vector<View> in, bool accumulate) {
  const Node& n = graph_[id];
  const bool by_coefficients = n.op == Op::gates_grad_coefficients;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const bool coefficients = !by_coefficients && k == 1;
    if (coefficients || !has_dense_rows(in[k])) in[k] = dense(in[k]);
  }
  const View out = has_dense_rows(to) ? to : emit_.scratch(to.dtype, to.shape);
  const View& x = in[0];
  const View& of_gates = n.op == Op::gates ? out : in.back();
  const std::vector<std::int32_t> wiring(n.attrs.ints.begin() + 1, n.attrs.ints.end());
  const auto wires = x.shape[0];
  GatesParams p;
  p.rows = n.attrs.ints[0];
  p.gates = static_cast<std::int64_t>(wiring.size()) / 2;
  p.cells = x.shape[1];
  p.x_stride = x.strides[0];
  p.gate_stride = of_gates.strides[0];
  p.dx_stride = out.strides[0];
  p.accumulate = accumulate;
  std::vector<View> operands{out};
  operands.insert(operands.end(), in.begin(), in.end());
  GateKernel kind = GateKernel::forward;
  if (n.op == Op::gates) {
    if (wires * p.x_stride > std::numeric_limits<std::int32_t>::max())
      fail(n.where, "gates: " + to_string(graph_[n.inputs[0]].spec) + " is too large");
    p.wiring = emit_.tables().keep(wire_offsets(wiring, p.x_stride));
  } else {
    const GateWalk walk = walk_of(wiring, p.rows, wires);
    p.turns = kept(emit_.tables(), walk.turns);
    p.idle = emit_.tables().keep(walk.idle);
    p.idle_wires = static_cast<std::int64_t>(walk.idle.size());
    kind = by_coefficients ? GateKernel::grad_coefficients : GateKernel::grad_x;
  }
  if (emit_.also >= 0) {
    kind = GateKernel::grad_both;
    operands.push_back(local_.at(emit_.also));
    p.accumulate = adds_to_total(emit_.also);
  }
  emit_.call(find_gates(out.dtype, kind, emit_.target()), p, operands, ir::definition(n.op).name.data());
  if (!has_dense_rows(to)) copy(to, out);
}

void Lowering::lower_neighbours(int id, const View& to, const View& from) {
  const Node& n = graph_[id];
  const bool summed = n.op == Op::neighbours_sum;
  const View in = has_dense_rows(from) ? from : dense(from);
  const View out = has_dense_rows(to) ? to : emit_.scratch(to.dtype, to.shape);
  NeighbourParams p;
  p.channels = summed ? out.shape[0] : in.shape[0];
  p.count = out.shape[1];
  p.height = n.attrs.ints[0];
  p.width = n.attrs.ints[1];
  p.wrap = n.attrs.ints[2] != 0;
  p.in_stride = in.strides[0];
  p.out_stride = out.strides[0];
  const auto kernel = summed ? find_neighbours_sum : find_neighbours;
  emit_.call(kernel(out.dtype, emit_.target()), p, {out, in}, ir::definition(n.op).name.data());
  if (!has_dense_rows(to)) copy(to, out);
}

}  // namespace wr::cpu
