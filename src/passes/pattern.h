// Rewrite rules as text: "add(x, 0)" -> "x". Read once, then matched against nodes.
//
//   x, a, b     any value; the same letter twice must be the same node
//   k, k1, k2   a number: a constant of one element, perhaps broadcast
//   0, 0.5      that number
//   mul(a, b)   an op; the operands of commutative ops match in either order
//   mul'(a, b)  the same, but used once and as large as the whole: it goes away
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace wr::passes {

inline constexpr int kMaxVariables = 12;

struct Pattern {
  enum class Kind { value, number, literal, op };
  Kind kind = Kind::value;
  int variable = -1;   // of value and number
  double literal = 0;  // of literal
  ir::Op op{};
  bool consumed = false;  // marked by '
  std::vector<Pattern> operands;
};

struct Rule {
  Pattern pattern, replacement;
};

/// A row of a table of rules.
struct RuleText {
  const char* pattern;
  const char* replacement;
};

/// Several patterns with the same variables, separated by commas. Variables are numbered in the order of `names`.
std::vector<Pattern> read_patterns(std::string_view names, std::string_view text);

/// Rules by the op at the root of their pattern.
class RuleTable {
 public:
  explicit RuleTable(std::span<const RuleText> rows);
  const std::vector<Rule>& of(ir::Op op) const { return rules_[static_cast<std::size_t>(op)]; }

 private:
  std::array<std::vector<Rule>, ir::kOps> rules_;
};

/// add, mul, maximum, ...: the order of the operands makes no difference.
inline bool is_commutative(ir::Op op) { return ir::definition(op).traits.commutative; }

}  // namespace wr::passes
