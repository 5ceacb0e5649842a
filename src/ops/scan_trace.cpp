// Tracing of scan: the user's body becomes a graph, and that graph is put in order. What is the same at every moment is
// computed before the scan; a carried value that only adds up becomes a sum; an output that is a carried value needs no
// memory of its own.
#include <algorithm>
#include <map>

#include "ir/scan.h"
#include "ops/scan.h"
#include "windrow/scan.h"

namespace wr {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ScanForm;

namespace {

std::string ordinal(std::size_t i) { return std::to_string(i); }

/// A body as the user's function gives it.
struct Traced {
  std::shared_ptr<Graph> graph;
  std::vector<int> carries, moments;      // inputs
  std::vector<int> new_carries, outputs;  // in the order of the user's
};

class Former {
 public:
  Former(std::shared_ptr<Graph> outer, const Traced& traced, std::int64_t steps, bool reverse,
         const std::vector<Tensor>& carry, const std::vector<Tensor>& sequences, Location where)
      : outer_(std::move(outer)),
        traced_(traced),
        from_(*traced.graph),
        initial_(carry),
        sequences_(sequences),
        where_(where),
        varies_(size_of(from_), false),
        outside_(size_of(from_), -1),
        inside_(size_of(from_), -1) {
    form_.steps = steps;
    form_.reverse = reverse;
  }

  Scan form() {
    find_varying();
    find_sums();
    order_carries();
    std::vector<std::function<Tensor()>> outputs;
    for (int id : traced_.outputs) outputs.push_back(stack(id));
    // What is summed may need to be stacked: after the outputs, so that those come in the user's order.
    std::map<std::size_t, std::function<Tensor()>> sums;
    for (auto [k, term] : sum_terms_) sums[k] = summed(term);
    make();
    Scan scan;
    for (std::size_t k = 0; k < initial_.size(); ++k) {
      if (const auto sum = sums.find(k); sum != sums.end())
        scan.carry.push_back(add(Operand(initial_[k], where_), Operand(sum->second(), where_)));
      else
        scan.carry.push_back(position_[k] < 0 ? initial_[k] : moment(states(position_[k]), form_.last_slot()));
    }
    for (const auto& output : outputs) scan.outputs.push_back(output());
    return scan;
  }

 private:
  static std::size_t size_of(const Graph& graph) { return static_cast<std::size_t>(graph.size()); }
  bool varies(int id) const { return varies_[id]; }

  // ---- what varies from moment to moment ----

  void find_varying() {
    for (std::size_t k = 0; k < traced_.carries.size(); ++k) {
      const int in = traced_.carries[k];
      if (traced_.new_carries[k] == in)
        outside_[in] = ir::node_in(outer_, initial_[k]);  // handed on as it is
      else
        varies_[in] = true;
    }
    for (int in : traced_.moments) varies_[in] = true;
    for (const Graph::Captured& c : from_.captured) outside_[c.input] = c.outer;
    for (int id = 0; id < from_.size(); ++id)
      for (int in : from_[id].inputs)
        if (varies(in)) varies_[id] = true;
  }

  /// The node of the outer graph that computes what does not vary.
  int outside(int id) {
    int& made = outside_[id];
    if (made >= 0) return made;
    const Node& node = from_[id];
    if (node.op == Op::state) return made = outer_->current(node.variable, node.where);
    if (ir::is_leaf(node.op)) return made = outer_->add_node(node);
    std::vector<int> inputs;
    for (int in : node.inputs) inputs.push_back(outside(in));
    return outside_[id] = outer_->add(node.op, std::move(inputs), node.attrs, node.where);
  }

  Tensor tensor_outside(int id) { return {outer_, outside(id)}; }

  // ---- sums ----

  /// Carried values that only have something added to them: c + v, read nowhere else.
  void find_sums() {
    std::vector<int> uses(size_of(from_), 0);
    for (int id = 0; id < from_.size(); ++id)
      for (int in : from_[id].inputs) ++uses[in];
    for (int id : traced_.new_carries) ++uses[id];
    for (int id : traced_.outputs) ++uses[id];
    for (std::size_t k = 0; k < traced_.carries.size(); ++k) {
      const int in = traced_.carries[k], out = traced_.new_carries[k];
      const Node& node = from_[out];
      if (in == out || node.op != Op::add || uses[in] != 1) continue;
      if (uses[out] != 1) continue;
      const int other = node.inputs[0] == in ? node.inputs[1] : node.inputs[0];
      if (from_[other].spec == from_[in].spec && other != in && is_sum(other)) sum_terms_[k] = other;
    }
  }

  static bool is_rearranging(const Node& n) { return ir::is_view(n.op) || (n.op == Op::pad && n.attrs.reals[0] == 0); }

  /// Made of sums by what may as well be done after the last moment?
  bool is_sum(int id) const {
    const Node& n = from_[id];
    if (!is_floating(n.spec.dtype)) return false;
    if (!varies(id)) return true;
    if (is_rearranging(n) || n.op == Op::neg) return is_sum(n.inputs[0]);
    if (n.op == Op::add || n.op == Op::sub) return is_sum(n.inputs[0]) && is_sum(n.inputs[1]);
    if (n.op == Op::div) return !varies(n.inputs[1]) && is_sum(n.inputs[0]);
    if (n.op == Op::mul) {
      const int factor = varies(n.inputs[0]) ? 1 : 0;
      return !varies(n.inputs[factor]) && is_sum(n.inputs[1 - factor]);
    }
    return ir::can_accumulate(from_, id);
  }

  /// The sum over the moments of a value for which is_sum() holds.
  std::function<Tensor()> summed(int id) {
    const Node& n = from_[id];
    if (!varies(id)) return [this, id] { return mul(tensor_outside(id), static_cast<double>(form_.steps)); };
    const bool linear = is_rearranging(n) || n.op == Op::neg || n.op == Op::add || n.op == Op::sub || n.op == Op::mul ||
                        n.op == Op::div;
    if (!linear) return total(id);
    std::vector<std::function<Tensor()>> operands;
    const bool scales = n.op == Op::mul || n.op == Op::div;  // by what does not vary
    for (int in : n.inputs)
      operands.push_back(scales && !varies(in) ? [this, in] { return tensor_outside(in); } : summed(in));
    return [&n, operands] {
      std::vector<Tensor> in;
      for (const auto& operand : operands) in.push_back(operand());
      return ir::apply(n.op, in, n.attrs, n.where);
    };
  }

  /// A product at every moment, added up, is one product over all moments; the others add up in the body.
  std::function<Tensor()> total(int id) {
    const Node& n = from_[id];
    if (n.op == Op::einsum && is_better_after(n)) return product_of_all(n);
    const auto [at, fresh] = sums_.try_emplace(id, static_cast<int>(sums_.size()));
    if (fresh) sum_nodes_.push_back(id);
    const int number = at->second;
    return [this, number] { return result(form_.carries + form_.stacked + number); };
  }

  /// Is what would have to be stacked for it not much more than its result? Every moment reads and writes that.
  bool is_better_after(const Node& product) const {
    constexpr std::int64_t kMost = 8;
    std::int64_t stacked = 0;
    for (int in : product.inputs) {
      if (varies(in) && from_[in].spec.shape.rank() == kMaxRank) return false;
      stacked += is_there_at_all_moments(in) ? 0 : from_[in].spec.shape.count();
    }
    return stacked <= kMost * product.spec.shape.count();
  }

  std::function<Tensor()> product_of_all(const Node& n) {
    ir::Labels labels = ir::Labels::of(n.attrs.text);
    const std::string used = labels.all();
    char time = 'a';
    while (used.find(time) != std::string::npos) ++time;
    std::vector<std::function<Tensor()>> operands;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      const int in = n.inputs[k];
      if (varies(in)) labels.operands[k].insert(labels.operands[k].begin(), time);
      operands.push_back(varies(in) ? stack(in) : [this, in] { return tensor_outside(in); });
    }
    return [labels, operands, where = n.where] {
      std::vector<Tensor> in;
      for (const auto& operand : operands) in.push_back(operand());
      return ir::apply(Op::einsum, in, {{}, {}, labels.text()}, where);
    };
  }

  // ---- carried and stacked values ----

  /// The largest first: strips are cut along its axes.
  void order_carries() {
    position_.assign(traced_.carries.size(), -1);
    for (std::size_t k = 0; k < traced_.carries.size(); ++k)
      if (varies(traced_.carries[k]) && !sum_terms_.contains(k)) carried_.push_back(k);
    const auto count = [&](std::size_t k) { return from_[traced_.carries[k]].spec.shape.count(); };
    const auto largest = std::max_element(carried_.begin(), carried_.end(),
                                          [&](std::size_t a, std::size_t b) { return count(a) < count(b); });
    if (largest != carried_.end()) std::rotate(carried_.begin(), largest, largest + 1);
    for (std::size_t i = 0; i < carried_.size(); ++i) position_[carried_[i]] = static_cast<int>(i);
    form_.carries = static_cast<int>(carried_.size());
    form_.kept.assign(carried_.size(), true);
  }

  /// The carried value of which a node is the one before, or after, a moment; -1 for none.
  int carried_as(int id, bool before) const {
    for (std::size_t k : carried_)
      if ((before ? traced_.carries : traced_.new_carries)[k] == id) return position_[k];
    return -1;
  }
  int sequence_of(int id) const {
    const auto at = std::find(traced_.moments.begin(), traced_.moments.end(), id);
    return at == traced_.moments.end() ? -1 : static_cast<int>(at - traced_.moments.begin());
  }
  bool is_there_at_all_moments(int id) const {
    return !varies(id) || sequence_of(id) >= 0 || carried_as(id, true) >= 0 || carried_as(id, false) >= 0;
  }

  /// The values of a node at all moments, [steps, ...], once the scan is made.
  std::function<Tensor()> stack(int id) {
    if (!varies(id)) return [this, id] { return repeated(tensor_outside(id)); };
    if (const int s = sequence_of(id); s >= 0) return [this, s] { return sequences_[s]; };
    for (const bool before : {false, true})
      if (const int c = carried_as(id, before); c >= 0)
        return [this, c, before] {
          const auto from = before ? form_.before_slot() : form_.after_slot();
          return slice(states(c), 0, from, from + form_.steps, 1, where_);
        };
    if (is_late(id) && !ir::can_accumulate(from_, id)) return late(id);
    const auto [at, fresh] = stacked_.try_emplace(id, static_cast<int>(stacked_.size()));
    if (fresh) stacked_nodes_.push_back(id);
    const int number = at->second;
    return [this, number] { return result(form_.carries + number); };
  }

  /// Made of sums by elementwise ops, such as a mean? Rows of a batch add to the sums, so the sums are what is stacked,
  /// and the rest is done for all moments at once.
  bool is_late(int id) const {
    const Node& n = from_[id];
    if (!varies(id) || ir::can_accumulate(from_, id)) return n.spec.shape.rank() < kMaxRank;
    if (n.op == Op::reshape || n.op == Op::permute) return is_late(n.inputs[0]);
    return ir::is_elementwise(n.op) &&
           std::all_of(n.inputs.begin(), n.inputs.end(), [&](int in) { return is_late(in); });
  }

  std::function<Tensor()> late(int id) {
    if (!varies(id)) return [this, id] { return reshape(tensor_outside(id), timed(from_[id].spec.shape, 1), where_); };
    if (ir::can_accumulate(from_, id)) return stack(id);
    const Node& n = from_[id];
    std::vector<std::function<Tensor()>> operands;
    for (int in : n.inputs) operands.push_back(late(in));
    ir::Attrs attrs = n.attrs;
    if (n.op == Op::reshape) attrs = ir::attrs_of(timed(n.spec.shape, form_.steps));
    if (n.op == Op::permute) {
      Dims order{0};
      for (auto axis : ir::list_of(n.attrs)) order.push_back(axis + 1);
      attrs = ir::attrs_of(order);
    }
    return [&n, operands, attrs] {
      std::vector<Tensor> in;
      for (const auto& operand : operands) in.push_back(operand());
      return ir::apply(n.op, in, attrs, n.where);
    };
  }

  static Shape timed(const Shape& shape, std::int64_t moments) {
    Shape all{moments};
    for (auto n : shape) all.push_back(n);
    return all;
  }
  Tensor repeated(const Tensor& t) const {
    return broadcast_to(reshape(t, timed(t.shape(), 1), where_), timed(t.shape(), form_.steps), where_);
  }

  // ---- the op ----

  void make() {
    form_.stacked = static_cast<int>(stacked_nodes_.size());
    form_.sums = static_cast<int>(sum_nodes_.size());
    if (form_.results() == 0) return;
    std::vector<int> wanted;
    for (std::size_t k : carried_) wanted.push_back(traced_.new_carries[k]);
    wanted.insert(wanted.end(), stacked_nodes_.begin(), stacked_nodes_.end());
    wanted.insert(wanted.end(), sum_nodes_.begin(), sum_nodes_.end());
    std::vector<bool> needed(size_of(from_), false);
    for (int id : wanted) needed[id] = true;
    for (int id = from_.size() - 1; id >= 0; --id)
      if (needed[id])
        for (int in : from_[id].inputs) needed[in] = true;

    std::vector<int> operands;
    const auto add_input = [&](int id, const Tensor& operand) {
      inside_[id] = body_->add_input(from_[id].spec, from_[id].where);
      operands.push_back(ir::node_in(outer_, operand));
    };
    for (std::size_t k : carried_) add_input(traced_.carries[k], initial_[k]);
    for (std::size_t s = 0; s < traced_.moments.size(); ++s)
      if (needed[traced_.moments[s]]) {
        add_input(traced_.moments[s], sequences_[s]);
        ++form_.sequences;
      }
    std::vector<bool> read(size_of(from_), false);  // in the body
    for (int id : wanted) read[id] = true;
    for (int id = 0; id < from_.size(); ++id)
      if (needed[id] && is_in_body(id))
        for (int in : from_[id].inputs) read[in] = true;
    for (int id = 0; id < from_.size(); ++id)
      if (read[id] && !is_in_body(id)) add_input(id, tensor_outside(id));
    for (int id = 0; id < from_.size(); ++id)
      if (needed[id] && inside_[id] < 0 && is_in_body(id)) copy(id);
    for (int id : wanted) body_->outputs.push_back(inside_[id]);
    body_->random_streams = from_.random_streams;
    made_ = Tensor(outer_, outer_->add(Op::scan, operands, form_.attrs(body_), where_));
  }

  /// What is repeated along an axis is repeated in the body, so that its gradient there is a sum along that axis.
  bool is_in_body(int id) const {
    const Node& node = from_[id];
    if (varies(id) || node.op == Op::constant || node.op == Op::broadcast) return true;
    return ir::is_view(node.op) && is_in_body(node.inputs[0]);
  }

  void copy(int id) {
    Node node = from_[id];
    for (int& in : node.inputs) in = inside_[in];
    node.scope = 0;
    node.copy = 0;
    inside_[id] = body_->add_node(std::move(node));
  }

  Tensor result(int number) const {
    return number == 0 ? made_ : ir::apply(Op::result, {made_}, {{number}, {}, {}}, where_);
  }
  Tensor states(int carry) const { return result(carry); }
  Tensor moment(const Tensor& all, std::int64_t at) const {
    return reshape(slice(all, 0, at, at + 1, 1, where_), Shape(std::span(all.shape()).subspan(1)), where_);
  }

  std::shared_ptr<Graph> outer_;
  const Traced& traced_;
  const Graph& from_;
  const std::vector<Tensor>& initial_;
  const std::vector<Tensor>& sequences_;
  Location where_;
  ScanForm form_;
  std::vector<bool> varies_;              // by node of the traced body
  std::vector<int> outside_, inside_;     // by node: in the outer graph and in the body, -1 where it is not
  std::map<std::size_t, int> sum_terms_;  // by carried value that is a sum: what is added
  std::vector<std::size_t> carried_;      // the others, in the order of the op
  std::vector<int> position_;             // by carried value: in carried_, or -1
  std::map<int, int> stacked_, sums_;     // by node: which of the op's it is
  std::vector<int> stacked_nodes_, sum_nodes_;
  std::shared_ptr<Graph> body_ = std::make_shared<Graph>();
  Tensor made_;
};

// ---- what is given ----

/// The sequences with the moments along axis 0, and how many there are.
std::int64_t steps_of(const std::vector<Tensor>& sequences, const ScanOptions& options, Location where) {
  std::int64_t steps = options.steps;
  if (steps < 0) fail(where, "scan: " + std::to_string(steps) + " steps");
  if (steps == 0 && sequences.empty()) fail(where, "scan: without sequences the number of steps must be given");
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const auto n = sequences[s].shape()[0];
    if (steps == 0 && s == 0) steps = n;
    if (n != steps)
      fail(where, "scan: sequence " + ordinal(s) + " has " + std::to_string(n) + " moments, " +
                      (options.steps > 0 ? "the options say " : "sequence 0 has ") + std::to_string(steps));
  }
  if (steps == 0) fail(where, "scan: there are no moments in the sequences");
  return steps;
}

std::vector<Tensor> time_first(const std::vector<Tensor>& sequences, int axis, Location where) {
  std::vector<Tensor> out;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const Tensor& t = sequences[s];
    if (t.empty()) fail(where, "scan: sequence " + ordinal(s) + " is an empty Tensor");
    if (t.rank() == 0) fail(where, "scan: sequence " + ordinal(s) + " is " + to_string(t.spec()) + ", it has no axis");
    const int time = ops::normalise_axis(axis, t.rank(), "scan", where);
    Dims order{time};
    for (int a = 0; a < t.rank(); ++a)
      if (a != time) order.push_back(a);
    out.push_back(time == 0 ? t : permute(t, order, where));
  }
  return out;
}

Tensor time_at(const Tensor& output, int axis, Location where) {
  const int time = ops::normalise_axis(axis, output.rank(), "scan", where);
  Dims order;
  for (int a = 1; a < output.rank(); ++a) order.push_back(a);
  Dims placed;
  for (int a = 0; a < output.rank(); ++a) placed.push_back(a == time ? 0 : order[a < time ? a : a - 1]);
  return time == 0 ? output : permute(output, placed, where);
}

void expect_pure(const Graph& body, Location where) {
  if (body.updates.empty()) return;
  const auto& name = body[body.updates[0].state].variable->name;
  if (name == "random counter")
    fail(where, "scan: the body draws random numbers; draw them for all steps before, and give them as a sequence");
  fail(where, "scan: the body assigns to state '" + name + "'; carry its value, and assign it after the scan");
}

int expect_inside(const std::shared_ptr<Graph>& body, const Tensor& t, const std::string& what, Location where) {
  if (t.empty()) fail(where, "scan: the body returns an empty Tensor as " + what);
  const int id = ir::node_in(body, t);
  if (id < 0) fail(where, "scan: the body returns a tensor of another trace as " + what);
  return id;
}

Traced trace(const std::shared_ptr<Graph>& outer, const ScanBody& body, const std::vector<Tensor>& carry,
             const std::vector<Tensor>& sequences, Location where) {
  Traced traced{std::make_shared<Graph>(), {}, {}, {}, {}};
  traced.graph->outer = outer;
  traced.graph->gradient_of = outer->gradient_of;
  std::vector<Tensor> carried, moments;
  for (const Tensor& t : carry) {
    traced.carries.push_back(traced.graph->add_input(t.spec(), where));
    carried.emplace_back(traced.graph, traced.carries.back());
  }
  for (const Tensor& t : sequences) {
    const Spec spec{t.dtype(), Shape(std::span(t.shape()).subspan(1))};
    traced.moments.push_back(traced.graph->add_input(spec, where));
    moments.emplace_back(traced.graph, traced.moments.back());
  }
  Scan made;
  {
    const ir::TraceScope scope(traced.graph);
    made = body({std::move(carried), "scan: carried tensor", where}, {std::move(moments), "scan: sequence", where});
  }
  expect_pure(*traced.graph, where);
  if (made.carry.size() != carry.size())
    fail(where, "scan: the body takes " + std::to_string(carry.size()) + " carried tensors and returns " +
                    std::to_string(made.carry.size()));
  for (std::size_t k = 0; k < carry.size(); ++k) {
    traced.new_carries.push_back(expect_inside(traced.graph, made.carry[k], "carried tensor " + ordinal(k), where));
    if (!(made.carry[k].spec() == carry[k].spec()))
      fail(where, "scan: carried tensor " + ordinal(k) + " is " + to_string(carry[k].spec()) + " before a step and " +
                      to_string(made.carry[k].spec()) + " after it");
  }
  for (std::size_t k = 0; k < made.outputs.size(); ++k)
    traced.outputs.push_back(expect_inside(traced.graph, made.outputs[k], "output " + ordinal(k), where));
  return traced;
}

}  // namespace

Scan scan(const ScanBody& body, const std::vector<Tensor>& carry, const std::vector<Tensor>& sequences,
          const ScanOptions& options, Location where) {
  if (!body) fail(where, "scan: the body is empty");
  for (std::size_t k = 0; k < carry.size(); ++k)
    if (carry[k].empty()) fail(where, "scan: carried tensor " + ordinal(k) + " is an empty Tensor");
  const std::vector<Tensor> moments = time_first(sequences, options.axis, where);
  const std::int64_t steps = steps_of(moments, options, where);
  const auto outer = ir::current_graph();
  for (const auto* list : {&carry, &moments})
    for (const Tensor& t : *list)
      if (ir::node_in(outer, t) < 0) fail(where, "scan: the operands belong to different traces");
  const Traced traced = trace(outer, body, carry, moments, where);
  struct Release {
    Graph& graph;
    ~Release() { graph.outer.reset(); }
  } release{*traced.graph};
  Scan made = Former(outer, traced, steps, options.reverse, carry, moments, where).form();
  for (Tensor& output : made.outputs) output = time_at(output, options.axis, where);
  return {{std::move(made.carry), "scan: carried tensor", where}, {std::move(made.outputs), "scan: output", where}};
}

Tensors repeat(int n, const std::function<std::vector<Tensor>(const Tensors&)>& body, std::vector<Tensor> carry,
               Location where) {
  if (n < 0) fail(where, "repeat: " + std::to_string(n) + " turns");
  if (!body) fail(where, "repeat: the body is empty");
  const auto named = [&](std::vector<Tensor> list) {
    return Tensors(std::move(list), "repeat: carried tensor", where);
  };
  if (n == 0) return named(std::move(carry));
  const ScanBody turn = [&](const Tensors& c, const Tensors&) { return Scan{body(named(c)), {}}; };
  return named(scan(turn, carry, {}, {.steps = n}, where).carry);
}

}  // namespace wr
