// Reverse-mode differentiation as a graph rewrite: each op's gradient rule adds ops, walking back from the loss.
#include <unordered_map>

#include "ir/graph.h"

namespace wr {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;

class Backward {
 public:
  Backward(std::shared_ptr<Graph> graph, const Tensor& loss, const std::vector<Tensor>& wrt)
      : graph_(std::move(graph)), leads_(static_cast<std::size_t>(loss.node()) + 1, false), adjoint_(leads_.size()) {
    for (const Tensor& t : wrt)
      if (t.node() <= loss.node()) leads_[t.node()] = true;
    for (int i = 0; i <= loss.node(); ++i)
      for (int in : (*graph_)[i].inputs)
        if (leads_[in]) leads_[i] = true;
  }

  void run(const Tensor& loss) {
    adjoint(loss.node()) = full(loss.shape(), 1, loss.dtype());
    for (int i = loss.node(); i >= 0; --i) {
      if (!leads_[i] || (adjoint(i).empty() && !further_.contains(i))) continue;
      visit(i);
    }
  }

  Tensor& adjoint(int node) { return adjoint_[node]; }
  bool reaches(const Tensor& t) const {
    const auto id = static_cast<std::size_t>(t.node());
    return id < adjoint_.size() && !adjoint_[id].empty();
  }

  /// Why no gradient reaches a tensor.
  std::string obstacle(const Tensor& t, const Tensor& loss) const {
    std::vector<bool> depends(adjoint_.size(), false);  // on t
    if (t.node() <= loss.node()) depends[t.node()] = true;
    for (int i = t.node() + 1; i <= loss.node(); ++i)
      for (int in : (*graph_)[i].inputs)
        if (depends[in]) depends[i] = true;
    for (int i = loss.node(); i > t.node(); --i) {
      if (!depends[i] || adjoint_[i].empty()) continue;
      for (int in : (*graph_)[i].inputs)
        if (depends[in] && adjoint_[in].empty()) return "none flows through " + stop(i, in);
    }
    return "the loss does not depend on it";
  }

 private:
  /// The op that ends a gradient which comes to a node and does not leave it towards one of its operands.
  std::string stop(int node, int operand) const {
    int at = node;
    // Where the operand is no float, the op that left the floats is the one to blame: argmax, not what reads its index.
    while (!is_floating((*graph_)[operand].spec.dtype) && !ir::is_leaf((*graph_)[operand].op)) {
      at = operand;
      operand = (*graph_)[operand].inputs[0];
    }
    return std::string(ir::definition((*graph_)[at].op).name) + " (" + to_string((*graph_)[at].where) + ")";
  }

  void visit(int id) {
    const Node node = (*graph_)[id];  // a copy: rules add nodes
    if (ir::is_leaf(node.op)) return;
    if (node.op == Op::result) return collect(node, adjoint(id));
    graph_->gradient_of = &node.where;
    std::vector<Tensor> in;
    for (int i : node.inputs) in.push_back(value(i, node.scope));
    if (adjoint(id).empty()) adjoint(id) = full(node.spec.shape, 0, node.spec.dtype);
    const auto gradients =
        ir::definition(node.op).gradient({in, value(id, node.scope), adjoint(id), node.attrs, further_[id]});
    graph_->gradient_of = &node.where;  // a rule may have differentiated by itself
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      const int i = node.inputs[k];
      if (gradients[k].empty() || !leads_[i]) continue;
      Tensor& sum = adjoint(i);
      sum = sum.empty() ? gradients[k] : add(sum, gradients[k]);
    }
    graph_->gradient_of = nullptr;
  }

  /// A further result's gradient is for the op that makes it, which comes before all its results.
  void collect(const Node& result, const Tensor& g) {
    std::vector<Tensor>& of = further_[result.inputs[0]];
    const Node& maker = (*graph_)[result.inputs[0]];
    of.resize(static_cast<std::size_t>(ir::definition(maker.op).further->of(maker.attrs)));
    of[static_cast<std::size_t>(result.attrs.ints[0]) - 1] = g;
  }

  /// What the backward pass of a node sees: the value itself, or, inside a checkpoint, one computed again.
  Tensor value(int id, int scope) {
    const Node node = (*graph_)[id];
    if (scope == 0 || node.scope != scope || ir::is_leaf(node.op)) return {graph_, id};
    if (auto it = again_.find(id); it != again_.end()) return {graph_, it->second};
    Node copy = node;
    for (int& i : copy.inputs) i = value(i, scope).node();
    copy.scope = 0;
    copy.copy = scope;
    const int made = graph_->add_node(std::move(copy));
    again_[id] = made;
    return {graph_, made};
  }

  std::shared_ptr<Graph> graph_;
  std::vector<bool> leads_;  // does the node depend on one of wrt?
  std::vector<Tensor> adjoint_;
  std::unordered_map<int, std::vector<Tensor>> further_;  // gradients by the further results of a node
  std::unordered_map<int, int> again_;
};

std::string name_of(const Tensor& t, std::size_t i) {
  const auto& variable = (*t.graph())[t.node()].variable;
  const std::string what = variable && !variable->name.empty() ? "'" + variable->name + "', " : "tensor ";
  return what + std::to_string(i) + " of those to differentiate by";
}

}  // namespace

Tensors grad(const Tensor& loss, const std::vector<Tensor>& wrt, Location where) {
  return grad(loss, wrt, Unused::refuse, where);
}

Tensors grad(const Tensor& loss, const std::vector<Tensor>& wrt, Unused unused, Location where) {
  if (loss.empty()) fail(where, "grad: the loss is an empty Tensor");
  if (loss.shape().count() != 1)
    fail(where, "grad: the loss must have one element, is " + to_string(loss.spec()) + "; sum or mean it");
  if (!is_floating(loss.dtype())) fail(where, "grad: the loss must be f32 or f64, is " + to_string(loss.spec()));
  for (const Tensor& t : wrt) {
    if (t.empty() || t.graph() != loss.graph())
      fail(where, "grad: a tensor to differentiate by is not part of the loss's trace");
    if (!is_floating(t.dtype())) fail(where, "grad: cannot differentiate by " + to_string(t.spec()));
  }
  struct Restore {
    Graph& graph;
    int scope;
    const Location* gradient_of;
    ~Restore() {
      graph.scope = scope;
      graph.gradient_of = gradient_of;
    }
  } restore{*loss.graph(), loss.graph()->scope, loss.graph()->gradient_of};
  loss.graph()->scope = 0;
  const ir::TraceScope same_trace(loss.graph());
  Backward backward(loss.graph(), loss, wrt);
  backward.run(loss);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const Tensor& t = wrt[i];
    const bool reached = backward.reaches(t);
    if (!reached && unused == Unused::refuse)
      fail(where, "grad: no gradient reaches " + name_of(t, i) + ": " + backward.obstacle(t, loss) +
                      " (allow_unused takes it as 0)");
    gradients.push_back(reached ? backward.adjoint(t.node()) : full(t.shape(), 0, t.dtype(), where));
  }
  return {std::move(gradients), "grad: gradient", where};
}

}  // namespace wr
