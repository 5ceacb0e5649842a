// Contractions in semirings: einsum of two operands with other operations in place of product and sum.
#pragma once

#include <optional>
#include <string_view>

#include "windrow/ops.h"
#include "windrow/tensor.h"

namespace wr {

/// What takes the place of product and sum.
enum class Semiring {
  sum_product,
  max_product,  // the likeliest of chains of independent parts
  max_plus,     // the longest path
  min_plus,     // the shortest path
  max_min,      // the widest path; Goedel's logic
  lukasiewicz,  // sum of max(0, a + b - 1), 1 at most
  noisy_or      // 1 - product of (1 - ab): at least one of independent chances
};
std::string_view to_string(Semiring semiring);
std::optional<Semiring> semiring_called(std::string_view name);

/// contract("xy,yz->xz", p, q, Semiring::max_product). Of equal winners each has an equal part of the gradient; where
/// something is clipped it is 0. Nothing of the size of all labels is made.
Tensor contract(std::string_view spec, const Tensor& a, const Tensor& b, Semiring semiring,
                Location where = Location::current());
/// The same at once, on arrays.
void contract(Destination dst, std::string_view spec, const Array& a, const Array& b, Semiring semiring,
              Location where = Location::current());
Array contract(std::string_view spec, const Array& a, const Array& b, Semiring semiring,
               Location where = Location::current());

}  // namespace wr
