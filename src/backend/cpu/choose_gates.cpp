// Kernel calls of gate layers and neighbourhoods.
#include <algorithm>
#include <limits>

#include "backend/cpu/choose.h"
#include "backend/cpu/gates.h"

namespace wr::cpu {

using ir::Op;

namespace {

/// A table of turns as a table of numbers.
const GateTurn* kept(Kernels& kernels, const std::vector<GateTurn>& turns) {
  constexpr auto kNumbers = sizeof(GateTurn) / sizeof(std::int32_t);
  const auto* numbers = reinterpret_cast<const std::int32_t*>(turns.data());
  return reinterpret_cast<const GateTurn*>(kernels.keep({numbers, numbers + kNumbers * turns.size()}));
}

/// [rows, cells] with cells one after the other.
bool has_dense_rows(const View& v) { return v.shape[1] <= 1 || v.strides[1] == 1; }

}  // namespace

void Chooser::gates() {
  const auto& [to, accumulate] = work_.out[0];
  std::vector<View> in = work_.in;
  const ir::Node& n = node_;
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
      fail(n.where, "gates: " + to_string(work_.graph[n.inputs[0]].spec) + " is too large");
    p.wiring = kernels_.keep(wire_offsets(wiring, p.x_stride));
  } else {
    const GateWalk walk = walk_of(wiring, p.rows, wires);
    p.turns = kept(kernels_, walk.turns);
    p.idle = kernels_.keep(walk.idle);
    p.idle_wires = static_cast<std::int64_t>(walk.idle.size());
    kind = by_coefficients ? GateKernel::grad_coefficients : GateKernel::grad_x;
  }
  if (n.op == Op::gates_grad) {
    kind = GateKernel::grad_both;
    operands.push_back(work_.out[1].view);
    p.accumulate = work_.out[1].accumulate;
  }
  call(find_gates(out.dtype, kind, target()), p, operands, name());
  if (!has_dense_rows(to)) copy(to, out);
}

void Chooser::neighbours() {
  const View &to = work_.out[0].view, &from = work_.in[0];
  const ir::Node& n = node_;
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
  call(kernel(out.dtype, target()), p, {out, in}, name());
  if (!has_dense_rows(to)) copy(to, out);
}

}  // namespace wr::cpu
