// The graph of a step: interned nodes in topological order. Equal expressions are one node. Passes read one graph and
// build another; a node's inputs always have smaller numbers than itself.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/turn.h"
#include "ir/op.h"
#include "windrow/array.h"
#include "windrow/location.h"

namespace wr::ir {

class Graph;
struct ScanAxes;  // scan.h

/// Memory of a State: shared by every step compiled with it. It never moves, so that plans can hold its address.
struct Variable {
  Variable(std::string name, const Array& initial);
  std::string name;
  Spec spec;
  Array value;
  void* memory;
  std::shared_ptr<Turn> turn;          // to be had by whoever reads or writes the memory
  std::weak_ptr<const Graph> made_in;  // the trace it was made in, if any
};

class Node {
 public:
  Op op{};
  Spec spec;
  std::vector<int> inputs;
  Attrs attrs;  // of input: ints[0] is its position
  Location where;
  int scope = 0;  // the checkpoint it was made in; 0 for none
  int copy = 0;   // nonzero for nodes computed again for a checkpoint: they are not merged with the first
  std::shared_ptr<Variable> variable;  // of state
  std::shared_ptr<const Array> value;  // of constant
  bool gradient = false;               // made by the gradient pass, for what `where` says
};

struct Update {
  int state;  // node
  int value;  // node
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  const Node& operator[](int id) const { return nodes_[id]; }
  int size() const { return static_cast<int>(nodes_.size()); }

  /// Adds a node, or finds the equal one. Infers its type; an Error names the caller's line, the op and the sizes.
  int add(Op op, std::vector<int> inputs, Attrs attrs, Location where);
  int add_input(const Spec& spec, Location where);
  int add_state(const std::shared_ptr<Variable>& variable, Location where);
  int add_constant(const Array& value, Location where);
  /// Adds a node as it is, with inputs renumbered by the caller: how passes copy.
  int add_node(Node node);

  std::vector<int> inputs;   // nodes, in the order of the step's arguments
  std::vector<int> outputs;  // nodes
  std::vector<Update> updates;

  /// What a state holds at this point of the trace.
  int current(const std::shared_ptr<Variable>& variable, Location where);
  void assign(const std::shared_ptr<Variable>& variable, int value, Location where);

  int scope = 0;   // the checkpoint new nodes belong to
  int scopes = 0;  // how many checkpoints there are
  int copy = 0;    // see Node::copy
  /// While set, new nodes are gradients of what this line computed.
  const Location* gradient_of = nullptr;
  int random_streams = 0;
  /// Of the custom_gradient nodes; attrs.ints[0] is the number. Only the traced graph has them: what the passes build
  /// is not differentiated.
  std::vector<GradientRule> gradient_rules;

  /// Of a body while it is traced: the graph round it, and the values of that graph which the body reads, each with the
  /// input that stands for it.
  std::shared_ptr<Graph> outer;
  struct Captured {
    int outer, input;
  };
  std::vector<Captured> captured;
  /// The input that stands for a value of the outer graph.
  int capture(int of_outer);
  /// The outermost graph of the trace: it has the gradient rules.
  Graph& root() { return outer ? outer->root() : *this; }

 private:
  friend const AxisMap& axes_of(const Graph& graph, int id);
  friend const ScanAxes& scan_axes(const Attrs& attrs);
  int intern(Node node);
  std::deque<Node> nodes_;  // references to nodes stay valid while nodes are added
  std::unordered_multimap<std::size_t, int> interned_;
  mutable std::vector<std::shared_ptr<const AxisMap>> axes_;  // by node, as far as asked for
  mutable std::shared_ptr<const ScanAxes> scan_axes_;         // of a scan's body, once asked for
};

/// The graph that ops called now add to: the innermost trace, else one that lives as long as a tensor refers to it.
std::shared_ptr<Graph> current_graph();
/// Whether this thread is in a trace.
bool tracing();
/// Makes a graph the current one for this thread while it lives.
class TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Graph> graph);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::shared_ptr<Graph> previous_;
};

/// The type of a node as its op gives it; throws Error with a message that starts after the op's name.
Spec infer(const Graph& graph, const Node& node);
/// How the axes of a node's operands correspond to its own. Computed once: planning asks again and again.
const AxisMap& axes_of(const Graph& graph, int id);
/// How the axes of a node's first result correspond to those of a further one: one entry an axis of the first.
Axes axes_of_result(const Graph& graph, int id, int number);
/// Floating-point operations of one evaluation of a node.
double flops_of(const Graph& graph, const Node& node);
/// The type of a further result.
Spec spec_of_result(const Graph& graph, int id, int number);

/// The node of a graph that has the tensor's value: its own, or, for a value of a graph round it, what captures it. -1
/// where the tensor belongs to another trace.
int node_in(const std::shared_ptr<Graph>& graph, const Tensor& tensor);
/// Adds an op to the innermost graph that its operands belong to. Throws where they belong to different traces.
Tensor apply(Op op, const std::vector<Tensor>& inputs, Attrs attrs, Location where);

/// One line a node; parse() reads it back to an equal graph. With lines: each node is followed by the user's source
/// line.
std::string print(const Graph& graph, bool with_lines = false);
/// The line of one node, for messages: with its source line, and a long constant cut short.
std::string print_node(const Graph& graph, int id);
std::shared_ptr<Graph> parse(std::string_view text);
/// Checks every node against its op's definition; throws Error naming the node.
void verify(const Graph& graph);

}  // namespace wr::ir
