// Parameters of reductions, and the look-up over the element types.
#include "backend/cpu/reduce.h"

#include "backend/cpu/reduce_types.h"

namespace wr::cpu {

ReduceParams make_reduce(const Shape& shape, const Strides& in_strides, const Dims& axes, const Strides& out_strides,
                         bool accumulate) {
  ReduceParams p;
  p.accumulate = accumulate;
  int kept_axis = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t size = shape[axis], in = in_strides[axis];
    if (axes.contains(axis)) {
      const int last = p.reduced - 1;
      if (size == 1) continue;
      if (last >= 0 && p.reduced_in[last] == in * size) {
        p.reduced_size[last] *= size;
        p.reduced_in[last] = in;
      } else {
        p.reduced_size[p.reduced] = size;
        p.reduced_in[p.reduced++] = in;
      }
      continue;
    }
    const std::int64_t out = out_strides[kept_axis++];
    const int last = p.kept - 1;
    if (p.kept > 0 && size == 1) continue;
    if (last > 0 && p.kept_in[last] == in * size && p.kept_out[last] == out * size) {
      p.kept_size[last] *= size;
      p.kept_in[last] = in;
      p.kept_out[last] = out;
    } else {
      p.kept_size[p.kept] = size;
      p.kept_in[p.kept] = in;
      p.kept_out[p.kept++] = out;
    }
  }
  if (p.kept == 0) p.kept_size[p.kept++] = 1;
  return p;
}

ReduceKernel find_reduce(Reduce op, DType dtype, Target target) {
  switch (dtype) {
    case DType::f32:
      return find_reduce_f32(op, target);
    case DType::f64:
      return find_reduce_f64(op, target);
    case DType::i32:
      return find_reduce_i32(op, target);
    case DType::u8:
    case DType::boolean:
      return find_reduce_u8(op, target);
  }
  return nullptr;
}

}  // namespace wr::cpu
