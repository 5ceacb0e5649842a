// What the layers' constructors share: checks of sizes and initial values of the layer's type.
#pragma once

#include "windrow/nn.h"

namespace wr::nn {

inline void expect_positive(const std::string& layer, const char* what, std::int64_t value, const Where& where) {
  if (value < 1) fail(where, layer + ": " + what + " must be at least 1, is " + std::to_string(value));
}

inline Array initial(const Initialiser& fill, const Shape& shape, const Fans& fans, DType dtype, const Where& where) {
  // Initialisers draw in f64. What no memory holds is refused here, where the user's line is known.
  static_cast<void>(Array::empty(shape, DType::f64, where));
  return fill(shape, fans, next_seed()).astype(dtype);
}

/// The layer's input: its least rank, what its last axis must be and its type.
inline void expect_features(const std::string& layer, const Tensor& x, int least_rank, std::int64_t features,
                            DType dtype, const Where& where) {
  if (x.rank() < least_rank || x.size(-1) != features)
    fail(where, layer + ": the input is " + to_string(x.shape()) + ", its last axis must be " +
                    std::to_string(features) +
                    (x.rank() < least_rank ? " and its rank at least " + std::to_string(least_rank) : ""));
  if (x.dtype() != dtype)
    fail(where, layer + ": the input is " + to_string(x.spec()) + ", the layer's type is " +
                    std::string(name_of(dtype)) + "; cast the input or make the layer with .dtype");
}

inline void expect_rank(const std::string& layer, const Tensor& x, int rank, const char* axes, const Where& where) {
  if (x.rank() != rank) fail(where, layer + ": the input must be " + axes + ", is " + to_string(x.shape()));
}

}  // namespace wr::nn
