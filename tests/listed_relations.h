// What tests of relations kept as lists share.
#pragma once

#include <string>
#include <vector>

#include "windrow/rules.h"

namespace wr::rules {

inline constexpr int kSize = 128;  // 16,384 cells: enough for a list to be worth it
/// The real-valued semantics in which relations may be lists.
inline const std::vector<Semantics> kListing{Semantics::product, Semantics::godel,   Semantics::lukasiewicz,
                                             Semantics::sum,     Semantics::maxprod, Semantics::minplus};
using Rows = std::vector<std::vector<std::string>>;

}  // namespace wr::rules
