// Kernels of logic-gate layers on [wires, cells] and of cells' neighbourhoods. Vectors run over cells; wires and
// coefficients are the same for a whole vector. f32 and f64; other types have no kernel (nullptr).
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"

namespace wr::cpu {

/// One place where a gate reads a wire.
struct GateUse {
  std::int32_t gate;         // where its gradients stand
  std::int32_t other;        // where the values of its other wire stand
  std::int32_t coefficient;  // where c1 stands if the wire is a, c2 if it is b; c3 is at `coefficient | 3`
};

/// A wire's uses: uses[first] to uses[end - 1].
struct WireUses {
  std::int32_t dx;  // where its gradients stand
  std::int32_t first, end;
};

/// Rows of cells are dense; from one wire (gate) to the next is a stride, in elements. Gate i has row i % rows of the
/// coefficients [rows, 4].
struct GatesParams {
  std::int64_t gates = 0, rows = 0, wires = 0, cells = 0;
  std::int64_t x_stride = 0, gate_stride = 0, dx_stride = 0;
  const std::int32_t* wiring = nullptr;  // where a and b of every gate stand: wire_offsets()
  const WireUses* used = nullptr;        // of every wire; those with as many uses stand together, so that the
                                         // processor guesses the number right
  const GateUse* uses = nullptr;
  bool accumulate = false;
};
using GatesKernel = void (*)(const GatesParams& params, void* const* ptr, std::int64_t row0);  // row0 is ignored

/// out[gate] = c0 + c1 a + c2 b + c3 ab. ptr: out, x, coefficients. Reads `wiring`.
GatesKernel find_gates(DType dtype, Target target);
/// dx[wire] = the sum over its uses of g (c1 + c3 b) or g (c2 + c3 a), in order. ptr: dx, x, coefficients, g. Reads
/// `uses`.
GatesKernel find_gates_grad_x(DType dtype, Target target);
/// dc[row] = the sums over cells and over the row's gates of g, ga, gb, gab, or that added to it. ptr: dc, x, g. Reads
/// `wiring`.
GatesKernel find_gates_grad_coefficients(DType dtype, Target target);

/// From numbers of wires to where their values stand; offsets must fit in 32 bits.
std::vector<std::int32_t> wire_offsets(const std::vector<std::int32_t>& wiring, std::int64_t stride);
/// Every wire's uses in order of the gates, as `used` and `uses` have them. The other parameters must be set.
struct GateUses {
  std::vector<WireUses> used;
  std::vector<GateUse> uses;
};
GateUses uses_of(const std::vector<std::int32_t>& wiring, const GatesParams& params);

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
