// Kernel calls of gate layers and neighbourhoods.
#include <algorithm>
#include <limits>

#include "backend/cpu/gates.h"
#include "backend/cpu/lower.h"

namespace wr::cpu {

using ir::Op;

namespace {

/// A table of entries that are each three numbers.
template <class Entry>
const Entry* kept(Tables& tables, const std::vector<Entry>& entries) {
  static_assert(sizeof(Entry) == 3 * sizeof(std::int32_t));
  const auto* numbers = reinterpret_cast<const std::int32_t*>(entries.data());
  return reinterpret_cast<const Entry*>(tables.keep({numbers, numbers + 3 * entries.size()}));
}

/// [rows, cells] with cells one after the other.
bool has_dense_rows(const View& v) { return v.shape[1] <= 1 || v.strides[1] == 1; }

}  // namespace

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
  GatesParams p;
  p.rows = n.attrs.ints[0];
  p.gates = static_cast<std::int64_t>(wiring.size()) / 2;
  p.wires = x.shape[0];
  p.cells = x.shape[1];
  p.x_stride = x.strides[0];
  p.gate_stride = of_gates.strides[0];
  p.dx_stride = out.strides[0];
  p.accumulate = accumulate;
  if (std::max({p.wires * p.x_stride, p.gates * p.gate_stride, p.wires * p.dx_stride}) >
      std::numeric_limits<std::int32_t>::max())
    fail(n.where, "gates: " + to_string(graph_[n.inputs[0]].spec) + " is too large");
  std::vector<View> operands{out};
  operands.insert(operands.end(), in.begin(), in.end());
  if (n.op == Op::gates_grad_x) {
    const GateUses uses = uses_of(wiring, p);
    p.used = kept(emit_.tables(), uses.used);
    p.uses = kept(emit_.tables(), uses.uses);
    emit_.call(find_gates_grad_x(out.dtype, emit_.target()), p, operands, "gates_grad_x");
  } else {
    p.wiring = emit_.tables().keep(wire_offsets(wiring, p.x_stride));
    const auto kernel = by_coefficients ? find_gates_grad_coefficients : find_gates;
    emit_.call(kernel(out.dtype, emit_.target()), p, operands, ir::definition(n.op).name.data());
  }
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
