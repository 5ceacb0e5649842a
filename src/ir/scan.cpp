// Rows of a scan's body: classes of axes, each checked node by node.
#include "ir/scan.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace wr::ir {
namespace {

class Finder {
 public:
  Finder(const Graph& body, const ScanForm& form) : body_(body), form_(form) {
    int total = 0;
    for (int id = 0; id < body.size(); ++id) {
      first_.push_back(total);
      total += body[id].spec.shape.rank();
    }
    parent_.resize(static_cast<std::size_t>(total));
    std::iota(parent_.begin(), parent_.end(), 0);
    join_axes();
    count_outputs();
  }

  ScanAxes find() {
    ScanAxes axes;
    const int first = body_.outputs[0];
    for (int axis = 0; axis < body_[first].spec.shape.rank(); ++axis)
      if (auto rows = along(root(at(first, axis)))) axes.rows.push_back(std::move(*rows));
    return axes;
  }

 private:
  int at(int id, int axis) const { return first_[id] + axis; }
  int root(int i) {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void join(int a, int b) { parent_[root(b)] = root(a); }

  void join_axes() {
    for (int id = 0; id < body_.size(); ++id) {
      if (body_[id].inputs.empty()) continue;
      const AxisMap& map = axes_of(body_, id);
      for (std::size_t k = 0; k < map.operand.size(); ++k)
        for (int a = 0; a < map.operand[k].rank(); ++a)
          if (map.operand[k][a].is_along() && body_[body_[id].inputs[k]].spec.shape[a] > 1)
            join(at(body_[id].inputs[k], a), at(id, map.operand[k][a].axis()));
    }
    for (int c = 0; c < form_.carries; ++c) {  // what a moment leaves is what the next one begins with
      const int in = body_.inputs[c], out = body_.outputs[c];
      for (int a = 0; a < body_[in].spec.shape.rank(); ++a) join(at(in, a), at(out, a));
    }
  }

  void count_outputs() {
    uses_as_output_.resize(static_cast<std::size_t>(body_.size()));
    for (int id : body_.outputs) ++uses_as_output_[id];
  }

  /// The body cut along the axes of a class, if it can be.
  std::optional<ScanRows> along(int axes) {
    ScanRows rows;
    for (int id = 0; id < body_.size(); ++id) {
      const auto to = cut(id, axes, rows);
      if (!to) return {};
      rows.node.push_back(*to);
    }
    for (int r = 0; r < form_.results(); ++r) {
      const int id = body_.outputs[r];
      const AxisTo to = rows.node[id];
      if (to.is_whole()) return {};
      const bool total = to.is_reduced();
      if (total && (form_.is_carry(r) || r == 0 || uses_as_output_[id] > 1)) return {};
    }
    return rows;
  }

  std::optional<AxisTo> cut(int id, int axes, const ScanRows& rows) {
    const Node& node = body_[id];
    AxisTo own;
    for (int a = 0; a < node.spec.shape.rank(); ++a)
      if (node.spec.shape[a] > 1 && root(at(id, a)) == axes) {
        if (!own.is_whole()) return {};  // two axes of one value, such as all pairs of rows
        own = a;
      }
    if (node.op == Op::random) return {};  // its elements are numbered whole
    if (is_leaf(node.op)) return own;
    // A view of a value that is there whole is one more way to address it.
    if (is_view(node.op) && rows.node[node.inputs[0]].is_whole()) return own;
    const AxisMap& map = axes_of(body_, id);
    bool brought = definition(node.op).traits.any_part || (own.is_along() && map.free.contains(own.axis()));
    AxisTo reduced;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const AxisTo of = rows.node[node.inputs[k]];
      if (of.is_whole()) continue;
      if (of.is_reduced() || k >= map.operand.size()) return {};  // a total is known after the last strip
      const AxisTo to = map.operand[k][of.axis()];
      if (own.is_along() ? !(to == own) : !to.is_reduced()) return {};
      if (to.is_reduced() && !reduced.is_whole() && !(to == reduced)) return {};
      if (to.is_reduced()) reduced = to;
      brought = true;
    }
    if (own.is_along()) return brought ? std::optional(own) : std::nullopt;
    if (reduced.is_whole()) return own;
    return adds_up(node.op == Op::result ? body_[node.inputs[0]].op : node.op) && all_reduced(id, reduced, rows)
               ? std::optional(reduced)
               : std::nullopt;
  }

  /// Are the axes that a group reduces cut in every operand that has one?
  bool all_reduced(int id, AxisTo group, const ScanRows& rows) const {
    const AxisMap& map = axes_of(body_, id);
    for (std::size_t k = 0; k < map.operand.size(); ++k)
      for (int a = 0; a < map.operand[k].rank(); ++a)
        if (map.operand[k][a] == group && !(rows.node[body_[id].inputs[k]] == AxisTo(a))) return false;
    return true;
  }

  const Graph& body_;
  const ScanForm& form_;
  std::vector<int> first_, parent_;
  std::vector<int> uses_as_output_;
};

}  // namespace

bool adds_up(Op op) {
  switch (op) {
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
    case Op::reduce_argmax:
    case Op::reduce_argmin:
      return false;
    default:
      return true;
  }
}

bool can_accumulate(const Graph& graph, int id) {
  const Op op = graph[id].op == Op::result ? graph[graph[id].inputs[0]].op : graph[id].op;
  if (is_leaf(op) || is_view(op) || !adds_up(op)) return false;
  for (const Axes& axes : axes_of(graph, id).operand)
    for (AxisTo to : axes)
      if (to.is_reduced()) return true;
  return false;
}

const ScanAxes& scan_axes(const Attrs& attrs) {
  const Graph& body = *attrs.body;
  if (!body.scan_axes_) body.scan_axes_ = std::make_shared<const ScanAxes>(Finder(body, ScanForm::of(attrs)).find());
  return *body.scan_axes_;
}

const ScanRows* scan_rows(const Attrs& attrs, int axis_of_first) {
  const int moments = ScanForm::of(attrs).has_time(0) ? 1 : 0;
  for (const ScanRows& rows : scan_axes(attrs).rows)
    if (rows.node[static_cast<std::size_t>(attrs.body->outputs[0])] == AxisTo(axis_of_first - moments)) return &rows;
  return nullptr;
}

}  // namespace wr::ir
