// Rules on ops that rearrange or reduce: views of views become one, views that change nothing go away, and a broadcast
// moves behind what is done to it, so that less is computed and, in the end, an op that repeats of itself takes it in.
// A permute moves behind it too, until it meets its inverse: nets whose channels come second are computed with channels
// last, as convolutions have them. A reshape moves behind ops on rows: a loss of [batch * time, classes] is then one of
// [batch, time, classes], whose rows go along with the net's.
#include <algorithm>

#include "ops/rows.h"
#include "passes/simplify.h"

namespace wr::passes {
namespace {

using ir::Slice;

int operand(const Simplifier& s, int id) { return s[id].inputs[0]; }

bool is_arg(Op op) { return op == Op::reduce_argmax || op == Op::reduce_argmin; }

int drop(Simplifier& s, int id) { return operand(s, id); }

int drop_if_same(Simplifier& s, int id) {
  const int x = operand(s, id);
  return s[x].spec.shape == s[id].spec.shape ? x : -1;
}

// ---- reshape ----
int reshape_of_reshape(Simplifier& s, int id) {
  const int x = operand(s, id);
  return s[x].op == Op::reshape ? s.reshape(operand(s, x), s[id].spec.shape) : -1;
}

/// For a reshape that only adds or drops axes of size 1: the operand's axis of each axis of the result, -1 for new
/// ones.
std::optional<Dims> kept_axes(const Shape& from, const Shape& to) {
  Dims axes(to.rank(), -1);
  int i = 0;
  for (int j = 0; j < to.rank(); ++j) {
    if (to[j] == 1) continue;
    while (i < from.rank() && from[i] == 1) ++i;
    if (i == from.rank() || from[i] != to[j]) return {};
    axes[j] = i++;
  }
  while (i < from.rank() && from[i] == 1) ++i;
  if (i < from.rank()) return {};
  return axes;
}

int reshape_of_broadcast(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::broadcast) return -1;
  const int source = operand(s, x);
  const Shape from = s[source].spec.shape, repeated = s[x].spec.shape, to = s[id].spec.shape;
  Shape small(to.rank(), 1);
  if (from.count() != 1) {
    const auto axes = kept_axes(repeated, to);
    if (!axes) return -1;
    for (int j = 0; j < to.rank(); ++j)
      if ((*axes)[j] >= 0) small[j] = from[static_cast<int>((*axes)[j])];
  }
  return s.broadcast(s.reshape(source, small), to);
}

/// An op on rows does not ask how they are arranged.
int rows_before_reshape(Simplifier& s, int id) {
  const Node node = s[id];
  const int x = node.inputs[0];
  if (s[x].op != Op::reshape) return -1;
  const Shape before = s[operand(s, x)].spec.shape;
  if (before.rank() == 0 || before[before.rank() - 1] != s[x].spec.shape[s[x].spec.shape.rank() - 1]) return -1;
  Shape a_row = before;
  a_row[a_row.rank() - 1] = 1;
  const ops::RowFacts& facts = ops::facts_of(ops::row_op(node.op));
  std::vector<int> sources;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const ops::RowPart part = facts.part(k);
    const bool column = part == ops::RowPart::column;
    sources.push_back(column ? node.inputs[k]
                             : s.reshape(node.inputs[k], part == ops::RowPart::value ? before : a_row));
  }
  return s.reshape(s.make(node.op, sources, node.attrs), node.spec.shape);
}

/// What is reduced to one number is so in any shape. Leaves are as well read in the shape they are asked for.
int reduce_before_reshape(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::reshape || is_arg(s[id].op) || s[id].spec.shape.count() != 1) return -1;
  const int source = operand(s, x);
  if (ir::is_leaf(s[source].op) || s[source].spec.shape.count() == 0) return -1;
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < s[source].spec.shape.rank(); ++axis) axes.push_back(axis);
  const Shape shape = s[id].spec.shape;
  return s.reshape(s.make(s[id].op, {source}, {axes, {}, {}}), shape);
}

// ---- permute ----
Dims order_of(const Simplifier& s, int id) { return ir::list_of(s[id].attrs); }

int drop_identity_permute(Simplifier& s, int id) {
  const Dims order = order_of(s, id);
  for (int i = 0; i < order.rank(); ++i)
    if (order[i] != i) return -1;
  return operand(s, id);
}

int permute_of_permute(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::permute) return -1;
  const Dims outer = order_of(s, id), inner = order_of(s, x);
  Dims order;
  for (auto axis : outer) order.push_back(inner[static_cast<int>(axis)]);
  return s.permute(operand(s, x), order);
}

/// If only axes of size 1 change places, the elements stay where they are.
int permute_to_reshape(Simplifier& s, int id) {
  const Dims order = order_of(s, id);
  const Shape shape = s[id].spec.shape;
  std::int64_t last = -1;
  for (int j = 0; j < order.rank(); ++j) {
    if (shape[j] == 1) continue;
    if (order[j] < last) return -1;
    last = order[j];
  }
  return s.reshape(operand(s, id), shape);
}

int permute_of_broadcast(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::broadcast) return -1;
  const Shape shape = s[id].spec.shape;
  return s.broadcast(s.permute(operand(s, x), order_of(s, id)), shape);
}

Dims inverse_of(const Dims& order) {
  Dims inverse(order.rank(), 0);
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  return inverse;
}

/// An elementwise op on values permuted alike is done before the permute. What is repeated over them follows.
int permute_later(Simplifier& s, int id) {
  const std::vector<int> inputs = s[id].inputs;
  const Shape whole = s[id].spec.shape;
  const auto permuted = std::find_if(inputs.begin(), inputs.end(),
                                     [&](int i) { return s[i].op == Op::permute && s[i].spec.shape == whole; });
  if (permuted == inputs.end()) return -1;
  const Dims order = order_of(s, *permuted);
  const auto alike = [&](int i) { return s[i].op == Op::permute && order_of(s, i) == order; };
  const auto repeated = [&](int i) { return s[i].spec.shape.count() < whole.count(); };
  if (!std::all_of(inputs.begin(), inputs.end(), [&](int i) { return alike(i) || repeated(i); })) return -1;
  std::vector<int> sources;
  for (int i : inputs) sources.push_back(alike(i) ? operand(s, i) : s.permute(i, inverse_of(order)));
  return s.permute(s.make(s[id].op, sources, s[id].attrs), order);
}

/// Axes of the permuted value as axes of the operand.
std::vector<std::int64_t> axes_before(const Dims& order, const std::vector<std::int64_t>& axes) {
  std::vector<std::int64_t> before;
  for (auto axis : axes) before.push_back(order[static_cast<int>(axis)]);
  std::sort(before.begin(), before.end());
  return before;
}

int reduce_before_permute(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::permute || (is_arg(s[id].op) && s[id].attrs.ints.size() != 1)) return -1;
  const Dims order = order_of(s, x);
  const ir::Attrs axes{axes_before(order, s[id].attrs.ints), {}, {}};
  return s.permute(s.make(s[id].op, {operand(s, x)}, axes), order);
}

int concat_before_permute(Simplifier& s, int id) {
  const std::vector<int> inputs = s[id].inputs;
  if (s[inputs[0]].op != Op::permute) return -1;
  const Dims order = order_of(s, inputs[0]);
  std::vector<int> sources;
  for (int i : inputs) {
    if (s[i].op != Op::permute || !(order_of(s, i) == order)) return -1;
    sources.push_back(operand(s, i));
  }
  const ir::Attrs axis{axes_before(order, s[id].attrs.ints), {}, {}};
  return s.permute(s.make(Op::concat, sources, axis), order);
}

// ---- broadcast and slice ----
int broadcast_of_broadcast(Simplifier& s, int id) {
  const int x = operand(s, id);
  return s[x].op == Op::broadcast ? s.broadcast(operand(s, x), s[id].spec.shape) : -1;
}

Slice slice_of(const Node& node) { return Slice::of(node.attrs, node.spec.shape.rank()); }

int drop_identity_slice(Simplifier& s, int id) {
  const int x = operand(s, id);
  const Slice slice = slice_of(s[id]);
  if (!(s[x].spec.shape == s[id].spec.shape)) return -1;
  for (int i = 0; i < slice.steps.rank(); ++i)
    if (slice.starts[i] != 0 || (slice.steps[i] != 1 && slice.counts[i] > 1)) return -1;
  return x;
}

int slice_of_slice(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::slice) return -1;
  Slice slice = slice_of(s[id]);
  const Slice inner = slice_of(s[x]);
  for (int i = 0; i < slice.starts.rank(); ++i) {
    slice.starts[i] = slice.counts[i] ? inner.starts[i] + slice.starts[i] * inner.steps[i] : 0;
    slice.steps[i] = slice.counts[i] > 1 ? slice.steps[i] * inner.steps[i] : 1;
  }
  return s.make(Op::slice, {operand(s, x)}, slice.attrs());
}

int slice_of_broadcast(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != Op::broadcast) return -1;
  const int source = operand(s, x);
  const Shape from = s[source].spec.shape, repeated = s[x].spec.shape, shape = s[id].spec.shape;
  Slice slice = slice_of(s[id]);
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] == 1 && repeated[i] != 1) slice.starts[i] = 0, slice.counts[i] = 1, slice.steps[i] = 1;
  return s.broadcast(s.make(Op::slice, {source}, slice.attrs()), shape);
}

int drop_empty_pad(Simplifier& s, int id) {
  for (auto n : s[id].attrs.ints)
    if (n != 0) return -1;
  return operand(s, id);
}

int drop_concat_of_one(Simplifier& s, int id) { return s[id].inputs.size() == 1 ? operand(s, id) : -1; }

// ---- reductions ----
/// Nothing is to be reduced along an axis of size 1.
int drop_single_axes(Simplifier& s, int id) {
  const int x = operand(s, id);
  const Shape& shape = s[x].spec.shape;
  std::vector<std::int64_t> axes;
  for (auto axis : s[id].attrs.ints)
    if (shape[static_cast<int>(axis)] != 1) axes.push_back(axis);
  const Spec spec = s[id].spec;
  if (axes.empty() && is_arg(s[id].op))
    return s.broadcast(s.rewriter.number(0, DType::i32, spec.shape.rank()), spec.shape);
  if (axes.empty()) return x;
  return axes.size() == s[id].attrs.ints.size() ? -1 : s.make(s[id].op, {x}, {axes, {}, {}});
}

int reduce_of_reduce(Simplifier& s, int id) {
  const int x = operand(s, id);
  if (s[x].op != s[id].op || is_arg(s[id].op) || !s.used_once(x)) return -1;
  std::vector<std::int64_t> axes = s[id].attrs.ints;
  axes.insert(axes.end(), s[x].attrs.ints.begin(), s[x].attrs.ints.end());
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return s.make(s[id].op, {operand(s, x)}, {axes, {}, {}});
}

/// Equal elements: their sum is a multiple, the largest of them is any. What stays repeated is repeated afterwards.
int reduce_of_broadcast(Simplifier& s, int id) {
  const int x = operand(s, id);
  const Op op = s[id].op;
  if (s[x].op != Op::broadcast || is_arg(op) || op == Op::reduce_prod) return -1;
  const int source = operand(s, x);
  const Shape from = s[source].spec.shape, repeated = s[x].spec.shape;
  const Spec whole = s[id].spec;
  if (repeated.count() == 0) return -1;
  std::int64_t times = 1;
  for (auto axis : s[id].attrs.ints)
    if (from[static_cast<int>(axis)] == 1) times *= repeated[static_cast<int>(axis)];
  int made = s.make(op, {source}, s[id].attrs);
  if (op == Op::reduce_sum && times != 1)
    made = s.make(Op::mul, {made, s.rewriter.number(static_cast<double>(times), whole.dtype, whole.shape.rank())});
  return s.broadcast(made, whole.shape);
}

}  // namespace

void add_view_rules(Simplifier::Functions& functions) {
  auto on = [&](Op op, std::initializer_list<Simplifier::Function> rules) {
    auto& list = functions[static_cast<std::size_t>(op)];
    list.insert(list.end(), rules);
  };
  on(Op::stop_gradient, {drop});
  on(Op::custom_gradient, {drop});
  on(Op::reshape, {drop_if_same, reshape_of_reshape, reshape_of_broadcast});
  on(Op::permute, {drop_identity_permute, permute_of_permute, permute_of_broadcast, permute_to_reshape});
  on(Op::broadcast, {drop_if_same, broadcast_of_broadcast});
  on(Op::slice, {drop_identity_slice, slice_of_slice, slice_of_broadcast});
  on(Op::pad, {drop_empty_pad});
  on(Op::concat, {drop_concat_of_one, concat_before_permute});
  for (int op = 0; op <= static_cast<int>(Op::cast); ++op) on(static_cast<Op>(op), {permute_later});
  for (std::size_t row = 0; row < ops::row_ops_facts().size(); ++row)
    on(static_cast<Op>(static_cast<std::size_t>(ir::kFirstRowOp) + row), {rows_before_reshape});
  for (Op op : {Op::reduce_sum, Op::reduce_max, Op::reduce_min, Op::reduce_prod, Op::reduce_argmax, Op::reduce_argmin})
    on(op, {drop_single_axes, reduce_of_broadcast, reduce_before_permute, reduce_before_reshape, reduce_of_reduce});
}

}  // namespace wr::passes
