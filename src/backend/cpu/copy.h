// Moving elements: strided n-d copy (broadcast, permute, slice, flip, transpose) and fill of a strided region.
// Kernels go by element size, not type. Measured speeds: docs/kernels.md.
#pragma once

#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/shape.h"

namespace wr::cpu {

/// How a copy runs, decided once by make_copy.
enum class CopyKind : std::uint8_t {
  nothing,    // some size is 0
  rows,       // the innermost axis is contiguous on both sides (one row: a plain memcpy)
  broadcast,  // the innermost axis repeats one source element
  reverse,    // the innermost axis runs backwards in the source
  transpose,  // the innermost axes of the destination and of the source differ; both are contiguous
  strided     // anything else, element by element
};

/// Made by make_copy: axes in order of falling destination stride, all of which are positive, merged where they can be.
/// For CopyKind::transpose the last axis is contiguous in the destination, the one before it in the source.
struct CopyParams {
  CopyKind kind = CopyKind::nothing;
  int elem_size = 4;  // 1, 4 or 8; may be wider than what make_copy was given, if elements move in groups
  int rank = 0;       // at least 1 unless kind is nothing
  std::int64_t size[kMaxRank] = {}, dst[kMaxRank] = {}, src[kMaxRank] = {};
  std::int64_t dst_offset = 0,
               src_offset = 0;  // added to the pointers: an axis with a negative stride starts at its end
};

/// Strides are in elements, of any sign; 0 in the source repeats. No two elements of the destination may coincide, and
/// source and destination may not overlap. Allocates nothing.
CopyParams make_copy(const Dims& dims, const Strides& dst_strides, const Strides& src_strides, int elem_size);

/// ptr[0] the destination, ptr[1] the source, both at the element with index 0 on every axis. row0 is ignored.
using CopyKernel = void (*)(const CopyParams& params, void* const* ptr, std::int64_t row0);
CopyKernel find_copy(const CopyParams& params, Target target);

/// Sets every element of a strided region to one value.
struct FillParams {
  CopyParams region;  // a copy from `value`, all source strides 0
  alignas(8) unsigned char value[8] = {};
};

/// `value` points to one element of elem_size (1, 4 or 8) bytes.
FillParams make_fill(const Dims& dims, const Strides& dst_strides, int elem_size, const void* value);

/// ptr[0] the destination. row0 is ignored.
using FillKernel = void (*)(const FillParams& params, void* const* ptr, std::int64_t row0);
FillKernel find_fill(const FillParams& params, Target target);

}  // namespace wr::cpu
