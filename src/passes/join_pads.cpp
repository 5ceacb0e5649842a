// Sums of pads. What was cut into slices has as its gradient the sum of their gradients, each with zeros put round it
// until it is as large as the whole: for the T moments of a sequence T sums over T moments. Where the slices do not
// overlap that sum is a concatenation.
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace wr::passes {
namespace {

/// A node with zeros put round it along one axis: the elements [start, stop) of the whole.
struct Piece {
  int part;  // old node
  int axis;
  std::int64_t start, stop;
};

std::optional<Piece> piece_of(const Graph& graph, int id) {
  const Node& node = graph[id];
  if (node.op != Op::pad) return {};
  const int rank = node.spec.shape.rank();
  const auto [before, after, value] = ir::Pad::of(node.attrs, rank);
  if (value != 0) return {};
  int axis = -1;
  for (int i = 0; i < rank; ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    if (axis >= 0) return {};
    axis = i;
  }
  if (axis < 0) return {};
  const int part = node.inputs[0];
  return Piece{part, axis, before[axis], before[axis] + graph[part].spec.shape[axis]};
}

/// Whether a sum is only a term of the one sum that uses it.
bool is_term(const Graph& graph, const Node& sum, int id, const std::vector<int>& uses) {
  return graph[id].op == Op::add && uses[id] == 1 && graph[id].spec == sum.spec;
}

/// What a tree of sums adds up, from left to right.
std::vector<int> terms_of(const Graph& graph, int root, const std::vector<int>& uses) {
  std::vector<int> terms, left{root};
  while (!left.empty()) {
    const int id = left.back();
    left.pop_back();
    if (id == root || is_term(graph, graph[root], id, uses))
      left.insert(left.end(), graph[id].inputs.rbegin(), graph[id].inputs.rend());
    else
      terms.push_back(id);
  }
  return terms;
}

/// Pieces along one axis as few rows of pieces that do not overlap.
std::vector<std::vector<Piece>> rows_of(std::vector<Piece> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.axis, a.start) < std::pair(b.axis, b.start);
  });
  std::vector<std::vector<Piece>> rows;
  for (const Piece& piece : pieces) {
    const auto fits = [&](const auto& row) { return row.back().axis == piece.axis && row.back().stop <= piece.start; };
    const auto row = std::find_if(rows.begin(), rows.end(), fits);
    if (row == rows.end())
      rows.push_back({piece});
    else
      row->push_back(piece);
  }
  return rows;
}

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : rewriter_(graph), uses_(count_uses(graph)) {}

  std::shared_ptr<Graph> run() {
    const Graph& graph = rewriter_.from;
    std::vector<bool> inner(static_cast<std::size_t>(graph.size()));
    for (int id = 0; id < graph.size(); ++id)
      if (graph[id].op == Op::add)
        for (int in : graph[id].inputs)
          if (is_term(graph, graph[id], in, uses_)) inner[in] = true;
    for (int id = 0; id < graph.size(); ++id) {
      if (graph[id].op == Op::input) continue;
      const bool root = graph[id].op == Op::add && !inner[id];
      const int joined = root ? join(id) : -1;
      rewriter_.map(id, joined >= 0 ? joined : rewriter_.copy(id));
    }
    return rewriter_.finish();
  }

 private:
  /// The sum with its pieces put together, or -1 if no two of them can be.
  int join(int root) {
    const Graph& graph = rewriter_.from;
    std::vector<Piece> pieces;
    std::vector<int> others;
    for (int term : terms_of(graph, root, uses_)) {
      const auto piece = graph[term].spec == graph[root].spec ? piece_of(graph, term) : std::nullopt;
      if (piece)
        pieces.push_back(*piece);
      else
        others.push_back(term);
    }
    const std::size_t count = pieces.size();
    const auto rows = rows_of(std::move(pieces));
    if (rows.size() == count) return -1;
    rewriter_.enter(root);
    int sum = -1;
    const auto plus = [&](int id) { sum = sum < 0 ? id : rewriter_.add(Op::add, {sum, id}); };
    for (int other : others) plus(rewriter_.mapped(other));
    for (const auto& row : rows) plus(joined(row, graph[root].spec));
    return sum;
  }

  int joined(const std::vector<Piece>& row, const Spec& whole) {
    const int axis = row[0].axis;
    std::vector<int> parts;
    std::int64_t at = 0;
    const auto zeros_up_to = [&](std::int64_t stop) {
      if (stop == at) return;
      Shape gap = whole.shape;
      gap[axis] = stop - at;
      parts.push_back(rewriter_.broadcast(rewriter_.number(0, whole.dtype, gap.rank()), gap));
    };
    for (const Piece& piece : row) {
      zeros_up_to(piece.start);
      parts.push_back(rewriter_.mapped(piece.part));
      at = piece.stop;
    }
    zeros_up_to(whole.shape[axis]);
    return rewriter_.add(Op::concat, std::move(parts), {{axis}, {}, {}});
  }

  Rewriter rewriter_;
  std::vector<int> uses_;
};

}  // namespace

std::shared_ptr<Graph> join_pads(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace wr::passes
