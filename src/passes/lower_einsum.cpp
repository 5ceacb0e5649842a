// Einsum lowering: sums over one operand's own labels first, then products and contractions of two, cheapest order
// first.
#include <algorithm>
#include <array>

#include "ir/attributes.h"
#include "passes/contraction_order.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace wr::passes {
namespace {

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// A value on the way, and the label of each of its axes.
struct Term {
  int node;
  std::string labels;
};

class Lowering {
 public:
  Lowering(Rewriter& rewriter, int old_id)
      : rewriter_(rewriter), labels_(ir::Labels::of(rewriter.from[old_id].attrs.text)) {
    const Node& node = rewriter.from[old_id];
    shape_ = node.spec.shape;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Shape& shape = rewriter.from[node.inputs[i]].spec.shape;
      for (int axis = 0; axis < shape.rank(); ++axis) size(labels_.operands[i][axis]) = shape[axis];
      terms_.push_back({rewriter.mapped(node.inputs[i]), labels_.operands[i]});
    }
  }

  int run() {
    std::erase_if(labels_.result, [&](char c) { return size(c) == 1; });
    for (Term& term : terms_) {
      take_diagonals(term);
      drop_single_axes(term);
    }
    for (std::size_t i = 0; i < terms_.size(); ++i) sum_own_labels(i);
    const std::size_t operands = terms_.size();
    for (const Step step : order()) {
      const Term left = terms_[step.left], right = terms_[step.right];
      used_.push_back(step.left);
      used_.push_back(step.right);
      const bool last = terms_.size() + 1 == 2 * operands - 1;
      terms_.push_back(combine(left, right, last ? labels_.result : kept_labels(left, right)));
    }
    return rewriter_.reshape(in_order(terms_.back(), labels_.result), shape_);
  }

 private:
  std::int64_t& size(char label) { return sizes_[static_cast<std::size_t>(label) & 127]; }
  std::int64_t size(char label) const { return sizes_[static_cast<std::size_t>(label) & 127]; }
  Shape shape_of(const std::string& labels) const {
    Shape shape;
    for (char c : labels) shape.push_back(size(c));
    return shape;
  }

  // ---- one operand ----
  /// "ii": both axes last, seen as one axis of n * n, of which every (n+1)-th element is on the diagonal.
  void take_diagonals(Term& term) {
    for (;;) {
      std::size_t first = 0, second = std::string::npos;
      for (; first < term.labels.size(); ++first)
        if (second = term.labels.find(term.labels[first], first + 1); second != std::string::npos) break;
      if (second == std::string::npos) return;
      const char label = term.labels[first];
      Dims order;
      std::string rest;
      for (std::size_t i = 0; i < term.labels.size(); ++i)
        if (i != first && i != second) {
          order.push_back(static_cast<std::int64_t>(i));
          rest += term.labels[i];
        }
      order.push_back(static_cast<std::int64_t>(first));
      order.push_back(static_cast<std::int64_t>(second));
      const auto n = size(label);
      Shape merged = shape_of(rest);
      merged.push_back(n * n);
      term.node = every(rewriter_.reshape(rewriter_.permute(term.node, order), merged), n, n + 1);
      term.labels = rest + label;
    }
  }

  /// `count` elements of the last axis, `step` apart.
  int every(int x, std::int64_t count, std::int64_t step) {
    Shape counts = (*rewriter_.to)[x].spec.shape;
    Dims starts(counts.rank(), 0), steps(counts.rank(), 1);
    counts[counts.rank() - 1] = count;
    if (count > 1) steps[counts.rank() - 1] = step;
    return rewriter_.add(Op::slice, {x}, ir::Slice{starts, counts, steps}.attrs());
  }

  void drop_single_axes(Term& term) {
    std::erase_if(term.labels, [&](char c) { return size(c) == 1; });
    term.node = rewriter_.reshape(term.node, shape_of(term.labels));
  }

  void sum_own_labels(std::size_t which) {
    Term& term = terms_[which];
    std::string own;
    for (char c : term.labels) {
      bool elsewhere = has(labels_.result, c);
      for (std::size_t i = 0; i < terms_.size(); ++i) elsewhere = elsewhere || (i != which && has(terms_[i].labels, c));
      if (!elsewhere) own += c;
    }
    sum_over(term, own);
  }

  void sum_over(Term& term, const std::string& labels) {
    if (labels.empty()) return;
    std::vector<std::int64_t> axes;
    for (std::size_t i = 0; i < term.labels.size(); ++i)
      if (has(labels, term.labels[i])) axes.push_back(static_cast<std::int64_t>(i));
    std::erase_if(term.labels, [&](char c) { return has(labels, c); });
    const int sum = rewriter_.add(Op::reduce_sum, {term.node}, {std::move(axes), {}, {}});
    term.node = rewriter_.reshape(sum, shape_of(term.labels));
  }

  int in_order(const Term& term, const std::string& wanted) {
    Dims order;
    for (char c : wanted)
      if (const auto at = term.labels.find(c); at != std::string::npos) order.push_back(static_cast<std::int64_t>(at));
    return rewriter_.permute(term.node, order);
  }

  // ---- two operands ----
  std::vector<Step> order() const {
    std::string names;
    std::vector<std::int64_t> sizes;
    auto bits = [&](const std::string& labels) {
      std::uint64_t out = 0;
      for (char c : labels) {
        if (!has(names, c)) {
          names += c;
          sizes.push_back(size(c));
        }
        out |= std::uint64_t{1} << names.find(c);
      }
      return out;
    };
    Contraction contraction;
    for (const Term& term : terms_) contraction.operands.push_back(bits(term.labels));
    contraction.result = bits(labels_.result);
    contraction.sizes = sizes;
    auto steps = contraction_order(contraction);
    if (steps.size() + 1 != terms_.size())
      throw Error("einsum: '" + labels_.text() + "' needs an intermediate value of more than " +
                  std::to_string(kMaxRank) + " axes");
    return steps;
  }

  /// What something else needs: labels of both, then those of the left, then those of the right operand.
  std::string kept_labels(const Term& left, const Term& right) const {
    auto needed = [&](char c) {
      bool is = has(labels_.result, c);
      for (std::size_t i = 0; i < terms_.size(); ++i)
        is = is ||
             (std::find(used_.begin(), used_.end(), static_cast<int>(i)) == used_.end() && has(terms_[i].labels, c));
      return is;
    };
    std::string both, own;
    for (char c : left.labels)
      if (needed(c)) (has(right.labels, c) ? both : own) += c;
    for (char c : right.labels)
      if (needed(c) && !has(left.labels, c)) own += c;
    return both + own;
  }

  Term combine(const Term& left, const Term& right, const std::string& kept) {
    std::string all = kept, summed;
    bool own = false;
    for (const std::string& labels : {left.labels, right.labels})
      for (char c : labels) {
        own = own || has(left.labels, c) != has(right.labels, c);
        if (has(all, c)) continue;
        all += c;
        summed += c;
      }
    // No sum is a product; a sum without rows or columns of its own is a product and a sum: both fuse, a gemm of one
    // row and one column would be slow.
    if (summed.empty() || !own) {
      Term product{rewriter_.add(Op::mul, {spread(left, all), spread(right, all)}), all};
      sum_over(product, summed);
      return product;
    }
    const int made =
        rewriter_.add(Op::einsum, {left.node, right.node}, {{}, {}, left.labels + "," + right.labels + "->" + kept});
    return {made, kept};
  }

  /// With the axes in the order of `all`, and axes of size 1 for labels that the term does not have.
  int spread(const Term& term, const std::string& all) {
    Shape shape;
    for (char c : all) shape.push_back(has(term.labels, c) ? size(c) : 1);
    return rewriter_.reshape(in_order(term, all), shape);
  }

  Rewriter& rewriter_;
  ir::Labels labels_;
  Shape shape_;
  std::vector<Term> terms_;
  std::vector<int> used_;
  std::array<std::int64_t, 128> sizes_{};
};

}  // namespace

bool is_lowered(const Graph& graph, int id) {
  const Node& node = graph[id];
  if (node.op != Op::einsum) return true;
  if (node.inputs.size() != 2) return false;
  const ir::Labels all = ir::Labels::of(node.attrs.text);
  bool sums = false, own = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const Shape& shape = graph[node.inputs[i]].spec.shape;
    const std::string& labels = all.operands[i];
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      const char label = labels[axis];
      const bool shared = all.holders(label) == 2, kept = has(all.result, label);
      const bool twice = labels.find(label, axis + 1) != std::string::npos;
      if (shape[static_cast<int>(axis)] == 1 || twice || (!shared && !kept)) return false;
      sums = sums || !kept;
      own = own || !shared;
    }
  }
  return sums && own;
}

std::shared_ptr<Graph> lower_einsum(const Graph& graph) {
  Rewriter rewriter(graph);
  for (int id = 0; id < graph.size(); ++id) {
    if (graph[id].op == Op::input) continue;
    if (is_lowered(graph, id)) {
      rewriter.map(id, rewriter.copy(id));
      continue;
    }
    rewriter.enter(id);
    rewriter.map(id, Lowering(rewriter, id).run());
  }
  return rewriter.finish();
}

}  // namespace wr::passes
