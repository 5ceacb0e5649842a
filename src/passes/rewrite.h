// What all passes share: building a graph from another, node by node in order.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/graph.h"

namespace wr::passes {

using ir::Attrs;
using ir::Graph;
using ir::Node;
using ir::Op;

class Rewriter {
 public:
  /// Begins with the inputs, so that the step's arguments keep their positions even where nothing uses them.
  explicit Rewriter(const Graph& from);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  const Graph& from;
  const std::shared_ptr<Graph> to;

  /// The new node of an old one that was done before.
  int mapped(int old_id) const { return map_[old_id]; }
  void map(int old_id, int new_id) { map_[old_id] = new_id; }

  /// New nodes made from now on belong to the same line, checkpoint and so on as the old one.
  void enter(int old_id);
  /// Enters the old node, and copies it with its operands mapped.
  int copy(int old_id);
  int add(Op op, std::vector<int> inputs, Attrs attrs = {}) {
    return to->add(op, std::move(inputs), std::move(attrs), where_);
  }
  int add_constant(const Array& value) { return to->add_constant(value, where_); }

  // Ops that rewrites need again and again. None of them adds a node that would change nothing.
  int reshape(int x, const Shape& shape);
  int permute(int x, const Dims& order);
  int broadcast(int x, const Shape& shape);
  /// A number with `rank` axes of size 1.
  int number(double value, DType dtype, int rank);

  /// The outputs and updates; the graph is complete.
  std::shared_ptr<Graph> finish();

 private:
  std::vector<int> map_;
  Location where_;
};

/// The number that a constant of one element holds; nothing for other nodes.
std::optional<double> number_of(const Node& node);
/// The constant of the node's value if its operands are constants and it is small; nothing otherwise.
std::optional<Array> folded(const Graph& graph, const Node& node);
/// How often each node is used, by nodes, outputs and updates.
std::vector<int> count_uses(const Graph& graph);

}  // namespace wr::passes
