// Kernels that read or write where an i32 index array says: gather, scatter_add, take_along, put_along_add, one_hot,
// embedding_sum and its adjoint. Measured speeds: docs/kernels.md.
//
// An index outside [0, axis_size) never touches memory: reading there gives NaN (floats) or 0 (the other types),
// writing there is left out. Sums are in a fixed order, the same bits on every target.
// Arrays are dense but for the outer strides named below, in elements. row0 is ignored but where it is named.
#pragma once

#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/dtype.h"

namespace wr::cpu {

/// x[outer, axis_size, inner] and idx[count] (gather, scatter_add) or idx[outer, count, inner] (take_along,
/// put_along_add).
struct IndexParams {
  std::int64_t outer = 1, axis_size = 0, inner = 1, count = 0;
  std::int64_t x_outer_stride = 0;  // of x, and of dst in scatter_add and put_along_add; dense: axis_size * inner
  bool clear = false;               // scatter_add and put_along_add: set dst to zero first
};
using IndexKernel = void (*)(const IndexParams& params, void* const* ptr, std::int64_t row0);

/// out[o, j, :] = x[o, idx[j], :]. ptr: out[outer, count, inner], x, idx. Any type.
IndexKernel find_gather(DType dtype, Target target);
/// dst[o, idx[j], :] += updates[o, j, :], in order of j. ptr: dst, updates[outer, count, inner], idx. Not bool
/// (nullptr).
IndexKernel find_scatter_add(DType dtype, Target target);
/// out[o, j, i] = x[o, idx[o, j, i], i]. ptr: out[outer, count, inner], x, idx. Any type.
IndexKernel find_take_along(DType dtype, Target target);
/// dst[o, idx[o, j, i], i] += updates[o, j, i], in order of j. ptr: dst, updates, idx. Not bool (nullptr).
IndexKernel find_put_along_add(DType dtype, Target target);

/// out[r, :] = 1 at idx[r], 0 elsewhere. ptr: out[rows, classes], idx[rows]. Any type.
struct OneHotParams {
  std::int64_t rows = 0, classes = 0;
};
using OneHotKernel = void (*)(const OneHotParams& params, void* const* ptr, std::int64_t row0);
OneHotKernel find_one_hot(DType dtype, Target target);

/// table[entries, width], idx[rows, terms], and out or d_out[rows, width].
struct EmbeddingParams {
  std::int64_t rows = 0, terms = 0, entries = 0, width = 0;
  bool clear = false;      // the adjoint: set d_table to zero first
  bool from_row0 = false;  // the adjoint: d_table is a part that begins with entry row0
};
using EmbeddingKernel = void (*)(const EmbeddingParams& params, void* const* ptr, std::int64_t row0);
/// out[r, :] = sum over j of table[idx[r, j], :], in order of j. ptr: out, table, idx. f32, f64, i32.
EmbeddingKernel find_embedding_sum(DType dtype, Target target);
/// d_table[idx[r, j], :] += d_out[r, :], in order of r, then j. ptr: d_table, d_out, idx. f32, f64, i32.
EmbeddingKernel find_embedding_scatter(DType dtype, Target target);

/// The indices in ascending order, then where each stood; equal ones in the order they stood in. ptr: out[2, count],
/// idx, scratch as large as out.
struct OrderParams {
  std::int64_t count = 0;
};
void index_order(const OrderParams& params, void* const* ptr, std::int64_t row0);

}  // namespace wr::cpu
