// The state of a simplification, and the rules that text cannot express.
#pragma once

#include <unordered_map>

#include "passes/pattern.h"
#include "passes/rewrite.h"

namespace wr::passes {

/// Copies a graph; each node is rewritten by the rules until none applies, before the nodes that use it are reached.
class Simplifier {
 public:
  /// A rule looks at a node of the new graph and returns the one to use in its place, or -1.
  using Function = int (*)(Simplifier& simplifier, int id);
  using Functions = std::array<std::vector<Function>, ir::kOps>;
  struct Rules {
    Functions functions;
    RuleTable table;
    bool floats_only;  // the table's
  };

  Simplifier(const Graph& from, const Rules& rules);
  std::shared_ptr<Graph> run();
  /// How many times a rule applied.
  int applied() const { return applied_; }

  const Node& operator[](int id) const { return (*rewriter.to)[id]; }
  /// A new node, simplified.
  int make(Op op, std::vector<int> inputs, Attrs attrs = {});
  int reshape(int x, const Shape& shape) { return settle(rewriter.reshape(x, shape)); }
  int permute(int x, const Dims& order) { return settle(rewriter.permute(x, order)); }
  int broadcast(int x, const Shape& shape) { return settle(rewriter.broadcast(x, shape)); }

  /// False if something other than the node now looked at may need it.
  bool used_once(int id) const { return uses_of(id) <= 1; }
  /// The constant of one element that a node is or repeats; -1 if it is something else.
  int number_node(int id) const { return passes::number_node(*rewriter.to, id); }
  /// relu(x), if the new graph has it; -1 otherwise.
  int relu_of(int x) const;
  /// The node that the same op made of the same operands in another order, if there is one; else `id` itself.
  int first_of_commuted(int id);

  Rewriter rewriter;

 private:
  int copy_of(int old_id);
  int settle(int id);
  int apply_once(int id);
  int apply(const Rule& rule, int id);
  int build(const Pattern& pattern, const Bindings& bound, const Spec& whole);
  int uses_of(int id) const { return id < static_cast<int>(uses_.size()) ? uses_[id] : 0; }

  const Rules& rules_;
  int applied_ = 0;
  int depth_ = 0;
  std::vector<int> uses_;  // of new nodes, as the old graph's nodes that became them are used
  std::unordered_map<int, int> relus_;
  std::unordered_map<std::uint64_t, int> commuted_;
};

/// Rules on reshape, permute, broadcast, slice, reductions and so on (simplify_views.cpp) and on einsum
/// (simplify_einsum.cpp).
void add_view_rules(Simplifier::Functions& functions);
void add_einsum_rules(Simplifier::Functions& functions);

/// Several ops as one: what contract() applies.
const RuleTable& contractions();

/// simplify() that also says whether it changed anything.
std::shared_ptr<Graph> simplify_and_count(const Graph& graph, int& applied);

}  // namespace wr::passes
