// The interpreter's gate layers and neighbourhoods.
#include "ops/interpret.h"

namespace wr::ir {
namespace {

/// Calls f(gate, row of its coefficients, wire a, wire b, cell) for every gate and cell.
template <class F>
void for_each_gate(const Call& call, F f) {
  const auto& ints = call.ints();
  const auto cells = call.shape(0)[1], rows = ints[0], count = static_cast<std::int64_t>(ints.size() / 2);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto a = ints[1 + 2 * i], b = ints[2 + 2 * i];
    for (std::int64_t cell = 0; cell < cells; ++cell)
      f(static_cast<std::size_t>(i * cells + cell), static_cast<std::size_t>(i % rows * 4),
        static_cast<std::size_t>(a * cells + cell), static_cast<std::size_t>(b * cells + cell));
  }
}

Elements gates(const Call& call) {
  const Elements &x = *call.in[0], &c = *call.in[1];
  Elements out = zeros(call.out().shape);
  for_each_gate(call, [&](std::size_t at, std::size_t row, std::size_t a, std::size_t b) {
    out[at] = c[row] + c[row + 1] * x[a] + c[row + 2] * x[b] + c[row + 3] * x[a] * x[b];
  });
  return out;
}

Elements gates_grad_x(const Call& call) {
  const Elements &x = *call.in[0], &c = *call.in[1], &g = *call.in[2];
  Elements out = zeros(call.out().shape);
  for_each_gate(call, [&](std::size_t at, std::size_t row, std::size_t a, std::size_t b) {
    out[a] += g[at] * (c[row + 1] + c[row + 3] * x[b]);
    out[b] += g[at] * (c[row + 2] + c[row + 3] * x[a]);
  });
  return out;
}

Elements gates_grad_coefficients(const Call& call) {
  const Elements &x = *call.in[0], &g = *call.in.back();
  Elements out = zeros(call.out().shape);
  for_each_gate(call, [&](std::size_t at, std::size_t row, std::size_t a, std::size_t b) {
    out[row] += g[at];
    out[row + 1] += g[at] * x[a];
    out[row + 2] += g[at] * x[b];
    out[row + 3] += g[at] * x[a] * x[b];
  });
  return out;
}

/// Calls f(position in [channels, cells], position in [channels * 9, cells]) for every neighbour there is.
template <class F>
void for_each_neighbour(const Call& call, const Shape& x, F f) {
  const auto height = call.ints()[0], width = call.ints()[1];
  const bool wrap = call.ints()[2] != 0;
  for (std::int64_t channel = 0; channel < x[0]; ++channel)
    for (std::int64_t cell = 0; cell < x[1]; ++cell)
      for (std::int64_t k = 0; k < 9; ++k) {
        auto row = cell / width % height + k / 3 - 1, column = cell % width + k % 3 - 1;
        const bool outside = row < 0 || row >= height || column < 0 || column >= width;
        if (outside && !wrap) continue;
        row = (row + height) % height;
        column = (column + width) % width;
        const auto from = cell / (height * width) * height * width + row * width + column;
        f(static_cast<std::size_t>(channel * x[1] + from), static_cast<std::size_t>((channel * 9 + k) * x[1] + cell));
      }
}

Elements neighbours(const Call& call) {
  Elements out = zeros(call.out().shape);
  for_each_neighbour(call, call.shape(0), [&](std::size_t x, std::size_t patch) { out[patch] = (*call.in[0])[x]; });
  return out;
}

Elements neighbours_sum(const Call& call) {
  Elements out = zeros(call.out().shape);
  for_each_neighbour(call, call.out().shape, [&](std::size_t x, std::size_t patch) { out[x] += (*call.in[0])[patch]; });
  return out;
}

}  // namespace

Elements evaluate_gates(const Call& call) {
  switch (call.node.op) {
    case Op::gates:
      return gates(call);
    case Op::gates_grad_x:
      return gates_grad_x(call);
    case Op::gates_grad_coefficients:
      return gates_grad_coefficients(call);
    case Op::gates_grad:
      return call.result == 0 ? gates_grad_x(call) : gates_grad_coefficients(call);
    case Op::neighbours:
      return neighbours(call);
    default:
      return neighbours_sum(call);
  }
}

}  // namespace wr::ir
