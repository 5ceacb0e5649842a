// Ops that walk over the same values become one op with several results: the two gradients of a gate layer, and the
// updates of parameters as updates.def lists them. The last pass: nothing is differentiated or simplified after it.
#include <algorithm>
#include <map>
#include <optional>

#include "ops/update.h"
#include "passes/passes.h"
#include "passes/pattern.h"
#include "passes/rewrite.h"

namespace wr::passes {
namespace {

// ---- updates ----

/// A row of updates.def, read.
struct UpdateRule {
  Op op;
  std::size_t values, operands;
  std::vector<Pattern> results;
  std::ptrdiff_t ops;  // of the results
};

const std::vector<UpdateRule>& update_rules() {
  static const auto rules = [] {
    std::vector<UpdateRule> list;
    for (const ops::UpdateRow& row : ops::update_rows())
      list.push_back({ir::find_op(row.name)->op, static_cast<std::size_t>(row.values),
                      static_cast<std::size_t>(row.values + row.numbers), read_patterns(row.operands, row.results),
                      std::count(row.results.begin(), row.results.end(), '(')});
    // Those of most ops first: what a small one calls a parameter or a velocity may be made by ops of a large one.
    std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.ops > b.ops; });
    return list;
  }();
  return rules;
}

/// What stands for a row in a graph.
struct FoundUpdate {
  Op op;
  std::vector<int> operands, results;
  int gradient;  // of the operands, and how often it is read in the place of which the row comes
  std::ptrdiff_t reads;
};

class UpdateFinder {
 public:
  explicit UpdateFinder(const Graph& graph) : graph_(graph) {}

  std::optional<FoundUpdate> at(int id) {
    for (const UpdateRule& rule : update_rules()) {
      bound_.fill(-1);
      inside_.clear();
      if (!match(rule.results[0], id) || !fits(rule, id)) continue;
      FoundUpdate found{rule.op,
                        {bound_.begin(), bound_.begin() + static_cast<std::ptrdiff_t>(rule.operands)},
                        {id},
                        static_cast<int>(rule.values) - 1,
                        0};
      found.reads = reads_inside(found.operands[rule.values - 1]);
      for (std::size_t k = 1; k < rule.results.size(); ++k)
        if (const int result = inside(rule.results[k]); result >= 0 && readable_from(result, id))
          found.results.push_back(result);
      if (found.results.size() == rule.results.size()) return found;
    }
    return {};
  }

 private:
  bool match(const Pattern& pattern, int id) {
    if (pattern.kind != Pattern::Kind::op) {
      int& known = bound_[pattern.variable];
      if (known < 0) known = id;
      return known == id;
    }
    const Node& node = graph_[id];
    if (node.op != pattern.op) return false;
    inside_.push_back(id);
    const auto before = bound_;
    const auto operands = [&](bool swapped) {
      for (std::size_t i = 0; i < pattern.operands.size(); ++i)
        if (!match(pattern.operands[i], node.inputs[swapped ? 1 - i : i])) return false;
      return true;
    };
    if (operands(false)) return true;
    bound_ = before;
    return is_commutative(node.op) && operands(true);
  }

  /// Values like the result, numbers of one element.
  bool fits(const UpdateRule& rule, int id) const {
    const Spec& spec = graph_[id].spec;
    if (!is_floating(spec.dtype)) return false;
    for (std::size_t k = 0; k < rule.operands; ++k) {
      const Spec& operand = graph_[bound_[k]].spec;
      if (k < rule.values ? !(operand == spec) : operand.dtype != spec.dtype || operand.shape.count() != 1)
        return false;
    }
    return true;
  }

  /// The node inside the first result that the pattern describes.
  int inside(const Pattern& pattern) {
    for (int id : std::vector<int>(inside_)) {
      const auto before = bound_;
      const bool same = match(pattern, id) && bound_ == before;
      bound_ = before;
      if (same) return id;
    }
    return -1;
  }

  /// The result comes into being with the first one, at `root`: nobody else may have read it before.
  bool readable_from(int result, int root) const {
    for (int id = result + 1; id < root; ++id)
      if (const auto& in = graph_[id].inputs; std::find(in.begin(), in.end(), result) != in.end())
        if (std::find(inside_.begin(), inside_.end(), id) == inside_.end()) return false;
    return true;
  }

  std::ptrdiff_t reads_inside(int value) const {
    std::vector<int> nodes = inside_;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    std::ptrdiff_t reads = 0;
    for (int id : nodes) reads += std::count(graph_[id].inputs.begin(), graph_[id].inputs.end(), value);
    return reads;
  }

  const Graph& graph_;
  std::array<int, kMaxVariables> bound_{};
  std::vector<int> inside_;  // nodes that the pattern's ops have met
};

/// Is the update's gradient one of lookups that nobody else reads, of fewer rows than the table has?
bool is_of_rows(const Graph& graph, const FoundUpdate& update, const std::vector<int>& uses) {
  const int id = update.operands[update.gradient];
  const Node& g = graph[id];
  return g.op == Op::embedding_grad && uses[id] == update.reads && graph[g.inputs[0]].spec.shape[1] > 0 &&
         graph[g.inputs[0]].spec.shape.count() + graph[g.inputs[1]].spec.shape.count() < g.spec.shape.count();
}

/// The update with rows in the place of its gradient.
int add_update_of_rows(Rewriter& rewriter, const FoundUpdate& update) {
  const Graph& graph = rewriter.from;
  const Node& g = graph[update.operands[update.gradient]];
  const int order = rewriter.add(Op::index_order, {rewriter.mapped(g.inputs[0])});
  std::vector<int> operands;
  for (std::size_t k = 0; k < update.operands.size(); ++k) {
    const bool gradient = static_cast<int>(k) == update.gradient;
    if (gradient) operands.push_back(order);
    operands.push_back(rewriter.mapped(gradient ? g.inputs[1] : update.operands[k]));
  }
  return rewriter.add(ir::update_of_rows(update.op), operands, {{graph[g.inputs[0]].spec.shape[1], 0}, {}, {}});
}

// ---- gates ----

/// The two gradients of a gate layer: of each pair the node of the first, by that of the second, which comes later.
std::map<int, int> gate_gradients(const Graph& graph) {
  std::map<std::pair<int, int>, std::vector<int>> by_wires;  // by x and g
  std::map<int, int> pairs;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op == Op::gates_grad_x) by_wires[{node.inputs[0], node.inputs[2]}].push_back(id);
    if (node.op != Op::gates_grad_coefficients) continue;
    for (int first : by_wires[{node.inputs[0], node.inputs[1]}])
      if (graph[first].attrs == node.attrs && graph[first].copy == node.copy) pairs.emplace(id, first);
  }
  return pairs;
}

}  // namespace

std::shared_ptr<Graph> fuse(const Graph& graph) {
  const std::map<int, int> gates = gate_gradients(graph);
  std::vector<bool> both(static_cast<std::size_t>(graph.size()), false);
  for (auto [second, first] : gates) both[first] = true;
  UpdateFinder updates(graph);
  const std::vector<int> uses = count_uses(graph);
  Rewriter rewriter(graph);
  const auto mapped = [&](const std::vector<int>& ids) {
    std::vector<int> list;
    for (int id : ids) list.push_back(rewriter.mapped(id));
    return list;
  };
  for (int id = 0; id < graph.size(); ++id) {
    if (graph[id].op == Op::input) continue;
    rewriter.enter(id);
    if (both[id]) {
      rewriter.map(id, rewriter.add(Op::gates_grad, mapped(graph[id].inputs), graph[id].attrs));
    } else if (const auto pair = gates.find(id); pair != gates.end()) {
      rewriter.map(id, rewriter.add(Op::result, {rewriter.mapped(pair->second)}, {{1}, {}, {}}));
    } else if (const auto update = updates.at(id)) {
      const int made = is_of_rows(graph, *update, uses) ? add_update_of_rows(rewriter, *update)
                                                        : rewriter.add(update->op, mapped(update->operands));
      rewriter.map(id, made);
      for (std::size_t k = 1; k < update->results.size(); ++k)
        rewriter.map(update->results[k], rewriter.add(Op::result, {made}, {{static_cast<std::int64_t>(k)}, {}, {}}));
    } else {
      rewriter.map(id, rewriter.copy(id));
    }
  }
  return rewriter.finish();
}

}  // namespace wr::passes
