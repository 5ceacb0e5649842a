// Ops that walk over the same values become one op with several results: the two gradients of a gate layer, and the
// updates of parameters as updates.def lists them. The last pass: nothing is differentiated or simplified after it.
#include <algorithm>
#include <map>
#include <optional>

#include "ops/update.h"
#include "passes/passes.h"
#include "passes/pattern.h"
#include "passes/rewrite.h"
#include "passes/simplify.h"

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

/// What a rule would make, and why it does not.
struct Missed {
  Op op;
  std::string_view why;
};

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
      if (!meets(rule.results[0], id) || !fits(rule, id)) continue;
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

  /// The row that would stand for what ends in a node, but for one thing.
  std::optional<Missed> missed_at(int id) {
    for (const UpdateRule& rule : update_rules())
      if (meets(rule.results[0], id) && graph_[bound_[0]].op == Op::state)
        return Missed{rule.op, fits(rule, id) ? "a next value is read before" : "an operand has another shape or type"};
    return {};
  }

 private:
  bool meets(const Pattern& pattern, int id) {
    bound_.fill(-1);
    inside_.clear();
    return matches(pattern, id);
  }
  bool matches(const Pattern& pattern, int id) {
    return match(graph_, pattern, id, bound_, [&](const Pattern&, int inside) {
      inside_.push_back(inside);
      return true;
    });
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
      const bool same = matches(pattern, id) && bound_ == before;
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
  Bindings bound_{};
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

// ---- what was not fused ----

bool is_contraction(Op op) {
  static const auto made = [] {
    std::array<bool, ir::kOps> list{};
    for (int root = 0; root < ir::kOps; ++root)
      for (const Rule& rule : contractions().of(static_cast<Op>(root)))
        list[static_cast<std::size_t>(rule.replacement.op)] = true;
    return list;
  }();
  return made[static_cast<std::size_t>(op)];
}

/// The rule that describes what ends in a node, but for a value inside that does not go away: then one loop would do
/// some of the work twice.
std::optional<Missed> missed_contraction(const Graph& graph, int id, const std::vector<int>& uses) {
  for (const Rule& rule : contractions().of(graph[id].op)) {
    std::string_view why;
    Bindings bound;
    bound.fill(-1);
    const bool same = match(graph, rule.pattern, id, bound, [&](const Pattern& pattern, int inside) {
      if (!pattern.consumed) return true;
      if (uses[inside] > 1) why = "a value inside is read elsewhere too";
      if (graph[inside].spec.shape != graph[id].spec.shape) why = "a value inside is smaller than the whole";
      return true;
    });
    if (same && !why.empty()) return Missed{rule.replacement.op, why};
  }
  return {};
}

}  // namespace

Fused what_was_fused(const Graph& graph) {
  Fused found;
  UpdateFinder updates(graph);
  const std::vector<int> uses = count_uses(graph);
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.attrs.body) {
      const Fused inside = what_was_fused(*node.attrs.body);
      for (const auto& [op, count] : inside.made) found.made[op] += count;
      found.missed.insert(found.missed.end(), inside.missed.begin(), inside.missed.end());
    }
    const ir::OpDef& op = ir::definition(node.op);
    if (op.further || ir::is_row_op(node.op) || is_contraction(node.op)) ++found.made[op.name];
    if (!is_floating(node.spec.dtype)) continue;
    auto missed = updates.missed_at(id);
    if (!missed) missed = missed_contraction(graph, id, uses);
    if (missed) found.missed.push_back({ir::definition(missed->op).name, node.where, missed->why});
  }
  return found;
}

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
