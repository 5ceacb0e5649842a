// What tests of rules share.
#pragma once

#include <string>
#include <vector>

#include "windrow/rules.h"

namespace wr::rules {

inline constexpr int kListed = 128;  // 16,384 cells: enough for a list to be worth it
/// The real-valued semantics in which relations may be lists.
inline const std::vector<Semantics> kListing{Semantics::product, Semantics::godel,   Semantics::lukasiewicz,
                                             Semantics::sum,     Semantics::maxprod, Semantics::minplus};
/// Solved in these semantics.
inline SolveOptions in(Semantics semantics, double tolerance = SolveOptions().tolerance) {
  SolveOptions options;
  options.semantics = semantics;
  options.tolerance = tolerance;
  return options;
}

using Rows = std::vector<std::vector<std::string>>;

}  // namespace wr::rules
