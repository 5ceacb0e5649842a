// Kernels of logic-gate layers on [wires, cells] and of cells' neighbourhoods. Vectors run over cells; wires and
// coefficients are the same for a whole vector. f32 and f64; other types have no kernel (nullptr).
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"

namespace wr::cpu {

/// A gate's turn on the way back. Gates that share a wire follow one another where that can be, so that its values and
/// the sum of its gradients are still at hand.
struct GateTurn {
  static constexpr std::int32_t kOfA = 1, kOfB = 2, kOfRow = 4;
  std::int32_t a, b;  // wires
  std::int32_t gate;
  std::int32_t row;    // of the coefficients
  std::int32_t first;  // the sums that begin here, others go on
};

/// Rows of cells are dense; from one wire (gate) to the next is a stride, in elements. Gate i has row i % rows of the
/// coefficients [rows, 4].
struct GatesParams {
  std::int64_t gates = 0, rows = 0, cells = 0;
  std::int64_t x_stride = 0, gate_stride = 0, dx_stride = 0;
  const std::int32_t* wiring = nullptr;  // forward: where a and b of every gate stand, wire_offsets()
  const GateTurn* turns = nullptr;       // gradients: of every gate, walk_of()
  const std::int32_t* idle = nullptr;    // grad_x, grad_both: the wires that no gate reads
  std::int64_t idle_wires = 0;
  bool accumulate = false;  // to the coefficients' gradients
};
using GatesKernel = void (*)(const GatesParams& params, void* const* ptr, std::int64_t row0);  // row0 is ignored

enum class GateKernel {
  forward,  // out[gate] = c0 + c1 a + c2 b + c3 ab. ptr: out, x, coefficients
  grad_x,   // dx[wire] = the sum over its readers of g (c1 + c3 b) or g (c2 + c3 a). ptr: dx, x, coefficients, g
  grad_coefficients,  // dc[row] = the sums over cells and over the row's gates of g, ga, gb, gab. ptr: dc, x, g
  grad_both,          // ptr: dx, x, coefficients, g, dc. The same bits as one by one
};
GatesKernel find_gates(DType dtype, GateKernel kind, Target target);

/// From numbers of wires to where their values stand; offsets must fit in 32 bits.
std::vector<std::int32_t> wire_offsets(const std::vector<std::int32_t>& wiring, std::int64_t stride);

struct GateWalk {
  std::vector<GateTurn> turns;
  std::vector<std::int32_t> idle;
};
GateWalk walk_of(const std::vector<std::int32_t>& wiring, std::int64_t rows, std::int64_t wires);

/// Grids of height x width cells one after the other; a call makes cells [row0, row0 + count).
struct NeighbourParams {
  std::int64_t channels = 0, count = 0, height = 1, width = 1;
  std::int64_t in_stride = 0, out_stride = 0;  // from one channel, or neighbour, to the next
  bool wrap = false;
};
using NeighbourKernel = void (*)(const NeighbourParams& params, void* const* ptr, std::int64_t row0);

/// out[channel * 9 + k] = neighbour k of each cell, 0 outside unless the border wraps. ptr: out (from row0), x (whole).
NeighbourKernel find_neighbours(DType dtype, Target target);
/// out[channel] = the sum, in order of k, of what the neighbourhoods that a cell is in hold for it. ptr: out (from
/// row0), patches (whole).
NeighbourKernel find_neighbours_sum(DType dtype, Target target);

}  // namespace wr::cpu
