// Rules on einsum: views next to it become other labels.
#include <algorithm>

#include "ir/attributes.h"
#include "passes/simplify.h"

namespace wr::passes {
namespace {

/// einsum("ij,jk->ik", permute(x), y): the labels of x in x's own order.
int permuted_operand(Simplifier& s, int id) {
  std::vector<int> inputs = s[id].inputs;
  if (std::none_of(inputs.begin(), inputs.end(), [&](int i) { return s[i].op == Op::permute; })) return -1;
  ir::Labels labels = ir::Labels::of(s[id].attrs.text);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& x = s[inputs[i]];
    if (x.op != Op::permute) continue;
    std::string own = labels.operands[i];
    for (std::size_t axis = 0; axis < own.size(); ++axis) own[x.attrs.ints[axis]] = labels.operands[i][axis];
    labels.operands[i] = own;
    inputs[i] = x.inputs[0];
  }
  return s.make(Op::einsum, inputs, {{}, {}, labels.text()});
}

/// permute(einsum("ij,jk->ik")): the result's labels in the other order.
int permuted_result(Simplifier& s, int id) {
  const int x = s[id].inputs[0];
  if (s[x].op != Op::einsum || !s.used_once(x)) return -1;
  ir::Labels labels = ir::Labels::of(s[x].attrs.text);
  std::string result;
  for (auto axis : s[id].attrs.ints) result += labels.result[axis];
  labels.result = result;
  return s.make(Op::einsum, s[x].inputs, {{}, {}, labels.text()});
}

/// A sum over labels of the result: they are not computed at all.
int summed_result(Simplifier& s, int id) {
  const int x = s[id].inputs[0];
  if (s[x].op != Op::einsum || !s.used_once(x)) return -1;
  ir::Labels labels = ir::Labels::of(s[x].attrs.text);
  const std::vector<std::int64_t>& axes = s[id].attrs.ints;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) labels.result.erase(static_cast<std::size_t>(*axis), 1);
  const Shape whole = s[id].spec.shape;
  return s.reshape(s.make(Op::einsum, s[x].inputs, {{}, {}, labels.text()}), whole);
}

/// A repeated operand loses the labels along which it repeats. Where no other operand has the label, the result is
/// repeated instead, or, if the label is summed over, multiplied.
int repeated_operand(Simplifier& s, int id) {
  std::vector<int> inputs = s[id].inputs;
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](int i) { return s[i].op == Op::broadcast; });
  if (found == inputs.end()) return -1;
  const auto which = static_cast<std::size_t>(found - inputs.begin());
  ir::Labels labels = ir::Labels::of(s[id].attrs.text);
  const int source = s[*found].inputs[0];
  const Shape small = s[source].spec.shape, large = s[*found].spec.shape;
  const Spec whole = s[id].spec;

  const std::string own = labels.operands[which];
  Shape kept, kept_result = whole.shape;
  std::string rest;
  std::int64_t times = 1;
  for (int i = 0; i < small.rank(); ++i) {
    const char label = own[i];
    if (small[i] == large[i]) {
      kept.push_back(small[i]);
      rest += label;
      continue;
    }
    if (std::count(own.begin(), own.end(), label) > 1) return -1;  // a diagonal: left to the lowering
    if (labels.holders(label) > 1) continue;
    if (const auto at = labels.result.find(label); at == std::string::npos)
      times *= large[i];
    else
      kept_result[static_cast<int>(at)] = 1;
  }
  if (large.count() == 0) return -1;
  labels.operands[which] = rest;
  inputs[which] = s.reshape(source, kept);
  for (std::size_t at = labels.result.size(); at-- > 0;)
    if (labels.holders(labels.result[at]) == 0) labels.result.erase(at, 1);
  int made = s.make(Op::einsum, inputs, {{}, {}, labels.text()});
  if (times != 1)
    made =
        s.make(Op::mul, {made, s.rewriter.number(static_cast<double>(times), whole.dtype, s[made].spec.shape.rank())});
  return s.broadcast(s.reshape(made, kept_result), whole.shape);
}

}  // namespace

void add_einsum_rules(Simplifier::Functions& functions) {
  auto on = [&](Op op, Simplifier::Function rule) { functions[static_cast<std::size_t>(op)].push_back(rule); };
  on(Op::einsum, permuted_operand);
  on(Op::einsum, repeated_operand);
  on(Op::permute, permuted_result);
  on(Op::reduce_sum, summed_result);
}

}  // namespace wr::passes
