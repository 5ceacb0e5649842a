// The gradient of scan: a scan in the other direction. It carries the gradients by the carried values; its body
// computes a moment again from the values that were kept before it, then that moment's gradients. What flows into
// values that are the same at every moment adds up over the moments.
#include "ir/scan.h"
#include "ops/scan.h"
#include "windrow/scan.h"

namespace wr::ops {

using ir::Graph;
using ir::ScanForm;

std::vector<Tensor> inlined(const Graph& body, const std::vector<Tensor>& inputs, const std::shared_ptr<Graph>& graph) {
  std::vector<int> made(static_cast<std::size_t>(body.size()), -1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    made[body.inputs[i]] = ir::node_in(graph, inputs[i]);
  }
  for (int id = 0; id < body.size(); ++id) {
    if (body[id].op == Op::input) continue;
    ir::Node node = body[id];
    for (int& input : node.inputs) input = made[input];
    node.scope = graph->scope;
    node.copy = graph->copy;
    made[id] = graph->add_node(std::move(node));
  }
  std::vector<Tensor> outputs;
  for (int id : body.outputs) outputs.emplace_back(graph, made[id]);
  return outputs;
}

namespace {

Tensor plus(const Tensor& a, const Tensor& b) { return a.empty() ? b : b.empty() ? a : add(a, b); }

bool is_zero(const Tensor& t) {
  int id = t.node();
  while (ir::is_view((*t.graph())[id].op)) id = (*t.graph())[id].inputs[0];
  const ir::Node& node = (*t.graph())[id];
  return node.op == Op::constant && node.value->count() == 1 && node.value->astype(DType::f64).item<double>() == 0;
}

/// Moments [from, from + count) of a value that has all of them.
Tensor moments(const Tensor& all, std::int64_t from, std::int64_t count) {
  return slice(all, 0, from, from + count, 1, Location::current());
}

Tensor moment(const Tensor& all, std::int64_t at) {
  return reshape(moments(all, at, 1), Shape(std::span(all.shape()).subspan(1)));
}

/// The gradient by a value that was kept at every moment, taken apart.
struct KeptGradient {
  Tensor first;  // by what it began with
  Tensor last;   // by what it ended as
  Tensor after;  // by it after each moment, [steps, ...]: the last is one of these as well
};

/// Most often only what the value ended as, or all that was made, is used: the rest of the gradient is zeros.
void take_apart(const Tensor& g, const ScanForm& form, KeptGradient& parts) {
  const ir::Node node = (*g.graph())[g.node()];
  const auto operand = [&](std::size_t k) { return Tensor(g.graph(), node.inputs[k]); };
  if (is_zero(g)) return;
  if (node.op == Op::add && operand(0).spec() == operand(1).spec()) {
    take_apart(operand(0), form, parts);
    take_apart(operand(1), form, parts);
    return;
  }
  if (node.op == Op::pad && node.attrs.reals[0] == 0) {
    const ir::Pad pad = ir::Pad::of(node.attrs, g.rank());
    const std::int64_t from = pad.before[0], count = operand(0).shape()[0];
    bool others_whole = true;
    for (int i = 1; i < g.rank(); ++i) others_whole = others_whole && operand(0).shape()[i] == g.shape()[i];
    if (others_whole && count == 1 && from == form.last_slot()) {
      parts.last = plus(parts.last, moment(operand(0), 0));
      return;
    }
    if (others_whole && count == form.steps && from == form.after_slot()) {
      parts.after = plus(parts.after, operand(0));
      return;
    }
  }
  parts.first = plus(parts.first, moment(g, form.first_slot()));
  parts.after = plus(parts.after, moments(g, form.after_slot(), form.steps));
}

class Reverse {
 public:
  explicit Reverse(const Gradient& of) : of_(of), form_(ScanForm::of(of.attrs)), body_(*of.attrs.body) {
    for (int r = 0; r < form_.results(); ++r) {
      Tensor g = r == 0 ? of.g : static_cast<std::size_t>(r) <= of.further.size() ? of.further[at(r - 1)] : Tensor();
      if (!g.empty() && is_zero(g)) g = {};
      gradients_.push_back(g);
    }
  }

  std::vector<Tensor> run() {
    const Location where = Location::current();
    find_carried();
    const Scan made = scan([&](const auto& carry, const auto& x) { return step(carry, x); }, initial_, sequences_,
                           {form_.steps, 0, !form_.reverse}, where);
    std::vector<Tensor> result(of_.in.size());
    std::size_t at_carry = 0, at_output = 0;
    for (std::size_t k = 0; k < of_.in.size(); ++k) {
      if (!is_floating(of_.in[k].dtype())) continue;
      result[k] = is_sequence(k) ? made.outputs[at_output++] : made.carry[at_carry++];
      if (k < at(form_.carries)) result[k] = plus(result[k], kept_[k].first);
    }
    return result;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  bool is_sequence(std::size_t k) const { return k >= at(form_.carries) && k < at(form_.carries + form_.sequences); }
  Tensor result(int r) const {
    return r == 0 ? of_.out : ir::apply(Op::result, {of_.out}, {{r}, {}, {}}, Location::current());
  }

  /// What the scan back begins with, and its sequences: what was there at each moment, and the gradients that come in.
  void find_carried() {
    for (int c = 0; c < form_.carries; ++c) {
      if (!form_.kept[at(c)]) refuse("can be differentiated only before it is optimised");
      KeptGradient parts;
      if (!gradients_[at(c)].empty()) take_apart(gradients_[at(c)], form_, parts);
      kept_.push_back(parts);
      sequences_.push_back(moments(result(c), form_.before_slot(), form_.steps));
    }
    for (int s = 0; s < form_.sequences; ++s) sequences_.push_back(of_.in[at(form_.carries + s)]);
    for (std::size_t k = 0; k < of_.in.size(); ++k) {
      if (is_sequence(k) || !is_floating(of_.in[k].dtype())) continue;
      const bool ends = k < kept_.size() && !kept_[k].last.empty();
      initial_.push_back(ends ? kept_[k].last : full(of_.in[k].shape(), 0, of_.in[k].dtype()));
    }
    for (int r = 0; r < form_.carries + form_.stacked; ++r) {
      const Tensor& g = form_.is_carry(r) ? kept_[at(r)].after : gradients_[at(r)];
      if (!g.empty()) sequences_.push_back(g);
    }
  }

  /// One moment back. Its gradients are those of a sum in which each output counts as much as the gradient by it says.
  Scan step(const std::vector<Tensor>& carry, const std::vector<Tensor>& x) const {
    const auto graph = ir::current_graph();
    std::vector<Tensor> inputs(x.begin(), x.begin() + form_.carries + form_.sequences);
    for (std::size_t k = inputs.size(); k < of_.in.size(); ++k)
      inputs.emplace_back(graph, ir::node_in(graph, of_.in[k]));
    const std::vector<Tensor> outputs = inlined(body_, inputs, graph);
    Tensor loss;
    std::size_t at_carry = 0, at_sequence = at(form_.carries + form_.sequences);
    for (int r = 0; r < form_.results(); ++r) {
      const Tensor& made = outputs[at(r)];
      if (!is_floating(made.dtype())) continue;
      Tensor g;
      if (form_.is_carry(r)) g = carry[at_carry++];
      if (form_.is_sum(r)) g = gradients_[at(r)];
      const bool comes_in = !form_.is_sum(r) && !(form_.is_carry(r) ? kept_[at(r)].after : gradients_[at(r)]).empty();
      if (comes_in) g = plus(g, x[at_sequence++]);
      if (g.empty()) continue;
      const Tensor term = sum(mul(made, g));
      loss = plus(loss, loss.empty() || loss.dtype() == term.dtype() ? term : cast(term, loss.dtype()));
    }
    return gradients(loss, inputs, carry);
  }

  Scan gradients(const Tensor& loss, const std::vector<Tensor>& inputs, const std::vector<Tensor>& carry) const {
    std::vector<Tensor> wrt;
    for (const Tensor& t : inputs)
      if (is_floating(t.dtype())) wrt.push_back(t);
    const std::vector<Tensor> made = grad(loss, wrt, allow_unused);
    Scan back;
    std::size_t next = 0;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!is_floating(inputs[k].dtype())) continue;
      const Tensor& g = made[next++];
      if (is_sequence(k))
        back.outputs.push_back(g);
      else if (k < at(form_.carries))
        back.carry.push_back(g);
      else
        back.carry.push_back(is_zero(g) ? carry[back.carry.size()] : add(carry[back.carry.size()], g));
    }
    return back;
  }

  const Gradient& of_;
  const ScanForm form_;
  const Graph& body_;
  std::vector<Tensor> gradients_;  // by the results; empty where none flows
  std::vector<KeptGradient> kept_;
  std::vector<Tensor> initial_, sequences_;
};

}  // namespace

std::vector<Tensor> gradient_of_scan(const Gradient& of) { return Reverse(of).run(); }

}  // namespace wr::ops
