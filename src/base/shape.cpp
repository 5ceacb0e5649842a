// Dims: the parts that need not be inline.
#include "windrow/shape.h"

#include "windrow/error.h"
#include "windrow/spec.h"

namespace wr {

void Dims::too_many_axes(Location where) { fail(where, "a shape has at most " + std::to_string(kMaxRank) + " axes"); }

void Dims::insert(int at, std::int64_t x) {
  push_back(0);
  for (int i = rank_ - 1; i > at; --i) v_[i] = v_[i - 1];
  v_[at] = x;
}

void Dims::erase(int at) {
  for (int i = at; i + 1 < rank_; ++i) v_[i] = v_[i + 1];
  --rank_;
}

std::string to_string(const Dims& dims) {
  std::string s = "[";
  for (int i = 0; i < dims.rank(); ++i) s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

std::string to_string(const Spec& spec) {
  std::string s(name_of(spec.dtype));
  for (int i = 0; i < spec.shape.rank(); ++i) {
    const std::int64_t size = spec.shape[i];
    s += i ? "," : "[";
    if (!is_open(size))
      s += std::to_string(size);
    else if (size == any.code)
      s += "any";
    else
      s += static_cast<char>(size - any('\0').code);
  }
  return s + (spec.shape.empty() ? "[]" : "]");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

}  // namespace wr
