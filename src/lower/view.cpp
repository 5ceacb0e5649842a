// Views: other ways to address the same elements.
#include "lower/view.h"

#include "ir/attributes.h"

namespace wr::lower {

using ir::Op;

bool View::dense() const {
  std::int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

View dense_view(int base, std::int64_t offset, DType dtype, const Shape& shape) {
  View v;
  v.base = base;
  v.offset = offset;
  v.dtype = dtype;
  v.shape = shape;
  v.strides = contiguous_strides(shape);
  return v;
}

namespace {

/// Strides for the new shape; false where some axes that are to be one are not dense among themselves.
bool reshape_strides(const View& v, const Shape& shape, Strides& strides) {
  strides = Strides(shape.rank(), 0);
  if (v.count() == 0) return v.dense();
  int i = 0, j = 0;
  while (i < v.shape.rank() || j < shape.rank()) {
    // The next axes on both sides that hold equally many elements.
    std::int64_t ni = 1, nj = 1;
    const int i0 = i, j0 = j;
    do {
      if (ni <= nj && i < v.shape.rank())
        ni *= v.shape[i++];
      else if (j < shape.rank())
        nj *= shape[j++];
      else
        break;
    } while (ni != nj);
    std::int64_t inner = 0, span = 1;
    for (int a = i - 1; a >= i0; --a) {
      if (v.shape[a] == 1) continue;
      if (span == 1)
        inner = v.strides[a];
      else if (v.strides[a] != inner * span)
        return false;
      span *= v.shape[a];
    }
    std::int64_t step = inner;
    for (int a = j - 1; a >= j0; --a) {
      strides[a] = step;
      step *= shape[a];
    }
  }
  return true;
}

}  // namespace

bool can_reshape(const View& v, const Shape& shape) {
  Strides strides;
  return reshape_strides(v, shape, strides);
}

View view_through(const ir::Node& op, View v, const Shape& shape) {
  const int rank = shape.rank();
  const View of = v;
  switch (op.op) {
    case Op::reshape:
      if (!reshape_strides(of, shape, v.strides))
        throw Error("internal: a reshape of elements that do not lie together");
      break;
    case Op::permute: {
      const Dims order = ir::list_of(op.attrs);
      for (int j = 0; j < rank; ++j) v.strides[j] = of.strides[static_cast<int>(order[j])];
      break;
    }
    case Op::broadcast:
      for (int i = 0; i < rank; ++i)
        if (of.shape[i] != shape[i]) v.strides[i] = 0;
      break;
    case Op::slice: {
      const ir::Slice slice = ir::Slice::of(op.attrs, rank);
      for (int i = 0; i < rank; ++i) {
        v.offset += slice.starts[i] * of.strides[i] * v.elem();
        v.strides[i] *= slice.steps[i];
      }
      break;
    }
    default:
      break;
  }
  v.shape = shape;
  return v;
}

}  // namespace wr::lower
