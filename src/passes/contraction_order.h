// In which order to contract the operands of an einsum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace wr::passes {

/// Labels as bits; sizes[i] is the size of label i.
struct Contraction {
  std::vector<std::uint64_t> operands;
  std::uint64_t result = 0;
  std::span<const std::int64_t> sizes;
};

/// Which two values to combine next. Values 0, 1, ... are the operands; each step appends one.
struct Step {
  int left, right;
};

/// The cheapest order by arithmetic, then by the size of what lies between: exactly for a few operands, greedily for
/// many. Empty if every order needs a value of more than kMaxRank axes.
std::vector<Step> contraction_order(const Contraction& contraction);

}  // namespace wr::passes
