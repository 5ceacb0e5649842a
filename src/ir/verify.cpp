// What must hold of every graph. Run after each pass in debug builds: a pass that breaks a rule is found at once, by
// name.
#include "ir/graph.h"

namespace wr::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    for (int id = 0; id < graph_.size(); ++id) node(id);
    for (int id : graph_.outputs) in_range(id, "an output");
    inputs();
    updates();
  }

 private:
  [[noreturn]] void wrong(int id, const std::string& message) const {
    throw Error("invalid graph: " + message + "\n  " + print_node(graph_, id));
  }
  void in_range(int id, const char* what) const {
    if (id < 0 || id >= graph_.size())
      throw Error(std::string("invalid graph: ") + what + " is %" + std::to_string(id) + ", there are " +
                  std::to_string(graph_.size()) + " nodes");
  }

  void node(int id) const {
    const Node& node = graph_[id];
    for (auto n : node.spec.shape)
      if (n < 0) wrong(id, "negative size");
    if (is_leaf(node.op)) return leaf(id);
    if (node.variable || node.value) wrong(id, "only a leaf has a variable or a value");
    std::vector<Spec> in;
    for (int input : node.inputs) {
      if (input < 0 || input >= id) wrong(id, "operand %" + std::to_string(input) + " does not stand before its use");
      in.push_back(graph_[input].spec);
    }
    if (node.attrs.body) {
      try {
        verify(*node.attrs.body);
      } catch (const Error& problem) {
        wrong(id, std::string("in its body: ") + problem.what());
      }
    }
    Spec inferred;
    try {
      inferred = infer(graph_, node);
    } catch (const Error& problem) {
      wrong(id, problem.what());
    }
    if (!(inferred == node.spec)) wrong(id, "the op gives " + to_string(inferred));
    axes(id, in);
  }

  void leaf(int id) const {
    const Node& node = graph_[id];
    if (!node.inputs.empty()) wrong(id, "a leaf has no operands");
    if ((node.op == Op::state) != (node.variable != nullptr)) wrong(id, "a state and no other node has a variable");
    if ((node.op == Op::constant) != (node.value != nullptr)) wrong(id, "a constant and no other node has a value");
    if (node.op == Op::state && !(node.variable->spec == node.spec))
      wrong(id, "its variable is " + to_string(node.variable->spec));
    if (node.op == Op::constant && !(Spec{node.value->dtype(), node.value->shape()} == node.spec))
      wrong(id, "its value is " + to_string(Spec{node.value->dtype(), node.value->shape()}));
    if (node.op == Op::constant && !node.value->is_contiguous()) wrong(id, "its value is not contiguous");
    if (node.op == Op::input && node.attrs.ints.size() != 1) wrong(id, "an input has one position");
  }

  /// An operand's axis that runs along an axis of the result has its size; no two run along the same one, and axes that
  /// are reduced together are of one size.
  void axes(int id, const std::vector<Spec>& in) const {
    const Node& node = graph_[id];
    const AxisMap& map = axes_of(graph_, id);
    if (map.operand.size() != in.size())
      wrong(id, "the axis map covers " + std::to_string(map.operand.size()) + " operands");
    std::vector<std::int64_t> group_sizes;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Axes& axes = map.operand[i];
      const std::string which = "the axis map of operand " + std::to_string(i);
      if (axes.rank() != in[i].shape.rank()) wrong(id, which + " covers " + std::to_string(axes.rank()) + " axes");
      Axes seen;
      for (int axis = 0; axis < axes.rank(); ++axis) {
        const AxisTo to = axes[axis];
        const auto n = in[i].shape[axis];
        if (to.is_whole()) continue;
        if (seen.contains(to)) wrong(id, which + " goes to axis or group " + std::to_string(to.axis()) + " twice");
        seen.push_back(to);
        if (to.is_reduced()) {
          const auto group = static_cast<std::size_t>(to.group());
          if (group_sizes.size() <= group) group_sizes.resize(group + 1, -1);
          if (group_sizes[group] >= 0 && group_sizes[group] != n) wrong(id, which + " reduces axes of different sizes");
          group_sizes[group] = n;
        } else if (to.axis() < 0 || to.axis() >= node.spec.shape.rank() || node.spec.shape[to.axis()] != n) {
          wrong(id, which + " does not fit axis " + std::to_string(axis));
        }
      }
    }
  }

  void inputs() const {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const int id = graph_.inputs[i];
      in_range(id, "an input");
      if (graph_[id].op != Op::input || graph_[id].attrs.ints[0] != static_cast<std::int64_t>(i))
        wrong(id, "argument " + std::to_string(i) + " is not the input of that position");
    }
  }

  void updates() const {
    for (const Update& update : graph_.updates) {
      in_range(update.state, "an updated state");
      in_range(update.value, "an update's value");
      if (graph_[update.state].op != Op::state) wrong(update.state, "only a state can be updated");
      if (!(graph_[update.state].spec == graph_[update.value].spec))
        wrong(update.value, "it updates a state that is " + to_string(graph_[update.state].spec));
    }
  }

  const Graph& graph_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace wr::ir
