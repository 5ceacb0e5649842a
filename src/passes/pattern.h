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

#include "ir/graph.h"

namespace wr::passes {

inline constexpr int kMaxVariables = 12;

/// The node that each variable of a pattern stands for; -1: none yet.
using Bindings = std::array<int, kMaxVariables>;

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

/// The constant of one element that a node is or repeats; -1 if it is something else.
int number_node(const ir::Graph& graph, int id);
/// Does the node hold that number?
bool is_number(const ir::Graph& graph, int id, double value);

/// Whether a pattern describes a node, and which nodes its variables stand for. `accept(pattern, id)` is asked of every
/// op that the pattern meets.
template <typename Accept>
bool match(const ir::Graph& graph, const Pattern& pattern, int id, Bindings& bound, const Accept& accept) {
  switch (pattern.kind) {
    case Pattern::Kind::literal:
      return is_number(graph, id, pattern.literal);
    case Pattern::Kind::number:
      if (id = number_node(graph, id); id < 0) return false;
      [[fallthrough]];
    case Pattern::Kind::value: {
      int& known = bound[pattern.variable];
      if (known < 0) known = id;
      return known == id;
    }
    case Pattern::Kind::op:
      break;
  }
  const ir::Node& node = graph[id];
  if (node.op != pattern.op || !accept(pattern, id)) return false;
  const Bindings before = bound;
  const auto operands = [&](bool swapped) {
    for (std::size_t i = 0; i < pattern.operands.size(); ++i)
      if (!match(graph, pattern.operands[i], node.inputs[swapped ? 1 - i : i], bound, accept)) return false;
    return true;
  };
  if (operands(false)) return true;
  bound = before;
  return is_commutative(node.op) && operands(true);
}

}  // namespace wr::passes
