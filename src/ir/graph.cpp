// Graph: interning and building.
#include "ir/graph.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "windrow/said_at.h"

namespace wr {
namespace {
thread_local const SaidAt* innermost = nullptr;
}  // namespace

SaidAt::SaidAt(Location where) : where_(where), outer_(innermost) { innermost = this; }
SaidAt::~SaidAt() { innermost = outer_; }
const Location* SaidAt::current() { return innermost ? &innermost->where_ : nullptr; }

}  // namespace wr

namespace wr::ir {
namespace {

thread_local std::shared_ptr<Graph> traced;
thread_local std::weak_ptr<Graph> ambient;

void mix(std::size_t& seed, std::size_t value) { seed ^= value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2); }

std::size_t hash_of(const Node& node) {
  std::size_t h = static_cast<std::size_t>(node.op);
  for (int i : node.inputs) mix(h, static_cast<std::size_t>(i));
  for (auto i : node.attrs.ints) mix(h, static_cast<std::size_t>(i));
  for (double r : node.attrs.reals) mix(h, std::hash<double>{}(r));
  mix(h, std::hash<std::string>{}(node.attrs.text));
  mix(h, node.attrs.body ? static_cast<std::size_t>(node.attrs.body->size()) : 0);
  mix(h, static_cast<std::size_t>(node.copy));
  mix(h, std::hash<void*>{}(node.variable.get()));
  if (node.value && node.value->count() == 1)
    mix(h, std::hash<std::string_view>{}(
               {static_cast<const char*>(detail::ArrayAccess::read(*node.value)), size_of(node.spec.dtype)}));
  return h;
}

/// Whether sizes and offsets within a value can be counted at all.
bool fits_memory(const Spec& spec) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;  // what addresses reach
  if (spec.shape.contains(0)) return true;
  auto bytes = static_cast<std::int64_t>(size_of(spec.dtype));
  for (auto n : spec.shape) {
    if (bytes > kMost / n) return false;
    bytes *= n;
  }
  return true;
}

bool same_value(const std::shared_ptr<const Array>& a, const std::shared_ptr<const Array>& b) {
  if (a == b) return true;
  return a && b && a->dtype() == b->dtype() && a->shape() == b->shape() && identical(*a, *b);
}

bool same(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.attrs == b.attrs && a.spec == b.spec && a.copy == b.copy &&
         a.variable == b.variable && same_value(a.value, b.value);
}

}  // namespace

bool Attrs::same_body(const Attrs& a, const Attrs& b) {
  if (a.body == b.body) return true;
  if (!a.body || !b.body || a.body->size() != b.body->size()) return false;
  for (int id = 0; id < a.body->size(); ++id)
    if (!same((*a.body)[id], (*b.body)[id])) return false;
  return a.body->inputs == b.body->inputs && a.body->outputs == b.body->outputs;
}

Variable::Variable(std::string n, const Array& initial)
    : name(std::move(n)),
      spec{initial.dtype(), initial.shape()},
      value(initial.clone().window()),
      memory(detail::ArrayAccess::write_shared(value)),
      turn(std::make_shared<Turn>()),
      made_in(traced) {}

int Graph::intern(Node node) {
  const std::size_t h = hash_of(node);
  auto [first, last] = interned_.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (same((*this)[it->second], node)) return it->second;
  const int id = size();
  nodes_.push_back(std::move(node));
  interned_.emplace(h, id);
  return id;
}

int Graph::add(Op op, std::vector<int> ids, Attrs attrs, Location where) {
  Node node;
  node.op = op;
  node.inputs = std::move(ids);
  node.attrs = std::move(attrs);
  try {
    node.spec = infer(*this, node);
  } catch (const Error& error) {
    fail(gradient_of ? *gradient_of : where, std::string(definition(op).name) + ": " + error.what());
  }
  if (!fits_memory(node.spec))
    fail(gradient_of ? *gradient_of : where, std::string(definition(op).name) + ": a result of " +
                                                 to_string(node.spec) + " has more elements than any memory");
  const Location* said = SaidAt::current();
  node.where = gradient_of ? *gradient_of : said ? *said : where;
  node.gradient = gradient_of != nullptr;
  node.scope = scope;
  node.copy = copy;
  return intern(std::move(node));
}

int Graph::add_input(const Spec& spec, Location where) {
  for (auto n : spec.shape)
    if (n < 0) fail(where, "input: negative size in " + to_string(spec));
  if (!fits_memory(spec)) fail(where, "input: " + to_string(spec) + " has more elements than any memory");
  Node node;
  node.op = Op::input;
  node.spec = spec;
  node.attrs.ints = {static_cast<std::int64_t>(inputs.size())};
  node.where = where;
  inputs.push_back(intern(std::move(node)));
  return inputs.back();
}

int Graph::add_state(const std::shared_ptr<Variable>& variable, Location where) {
  Node node;
  node.op = Op::state;
  node.spec = variable->spec;
  node.variable = variable;
  node.where = where;
  return intern(std::move(node));
}

int Graph::add_constant(const Array& value, Location where) {
  Node node;
  node.op = Op::constant;
  node.spec = {value.dtype(), value.shape()};
  node.value = std::make_shared<const Array>(value.contiguous());
  node.where = where;
  return intern(std::move(node));
}

int Graph::add_node(Node node) {
  const bool is_input = node.op == Op::input;
  const int id = intern(std::move(node));
  if (is_input && std::find(inputs.begin(), inputs.end(), id) == inputs.end()) inputs.push_back(id);
  return id;
}

int Graph::capture(int of_outer) {
  const Node& node = (*outer)[of_outer];
  for (const Captured& known : captured)
    if (known.outer == of_outer) return known.input;
  captured.push_back({of_outer, add_input(node.spec, node.where)});
  return captured.back().input;
}

int Graph::current(const std::shared_ptr<Variable>& variable, Location where) {
  for (auto it = updates.rbegin(); it != updates.rend(); ++it)
    if ((*this)[it->state].variable == variable) return it->value;
  return add_state(variable, where);
}

void Graph::assign(const std::shared_ptr<Variable>& variable, int value, Location where) {
  const Spec& have = (*this)[value].spec;
  if (!(have == variable->spec))
    fail(where, "assign: state " + (variable->name.empty() ? "" : "'" + variable->name + "' ") + "is " +
                    to_string(variable->spec) + ", the value is " + to_string(have));
  const int state = add_state(variable, where);
  for (Update& u : updates)
    if (u.state == state) {
      u.value = value;
      return;
    }
  updates.push_back({state, value});
}

namespace {

std::vector<Spec> operand_specs(const Graph& graph, const Node& node) {
  std::vector<Spec> specs;
  specs.reserve(node.inputs.size());
  for (int i : node.inputs) specs.push_back(graph[i].spec);
  return specs;
}

/// Throws where there is no such result.
void expect_result(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || node.attrs.ints.size() != 1)
    throw Error("expected one operand and the number of its result");
  const OpDef& maker = definition(graph[node.inputs[0]].op);
  const auto number = node.attrs.ints[0];
  const int count = maker.further ? maker.further->of(graph[node.inputs[0]].attrs) : 0;
  if (number < 1 || number > count)
    throw Error(std::string(maker.name) + " has " + std::to_string(count) + " further results, " +
                std::to_string(number) + " is none of them");
}

}  // namespace

Spec infer(const Graph& graph, const Node& node) {
  if (node.op != Op::result) return definition(node.op).infer(operand_specs(graph, node), node.attrs);
  expect_result(graph, node);
  return spec_of_result(graph, node.inputs[0], static_cast<int>(node.attrs.ints[0]));
}

Spec spec_of_result(const Graph& graph, int id, int number) {
  const Node& node = graph[id];
  return definition(node.op).further->infer(number, operand_specs(graph, node), node.attrs);
}

double flops_of(const Graph& graph, const Node& node) {
  const auto flops = definition(node.op).traits.flops;
  return flops ? flops(node.spec, operand_specs(graph, node), node.attrs) : 0;
}

namespace {

AxisMap find_axes(const Graph& graph, int id) {
  const Node& node = graph[id];
  if (node.op == Op::result) return {{axes_of_result(graph, node.inputs[0], static_cast<int>(node.attrs.ints[0]))}, {}};
  return definition(node.op).axes(node.spec, operand_specs(graph, node), node.attrs);
}

}  // namespace

const AxisMap& axes_of(const Graph& graph, int id) {
  const auto at = static_cast<std::size_t>(id);
  if (graph.axes_.size() <= at) graph.axes_.resize(static_cast<std::size_t>(graph.size()));
  if (!graph.axes_[at]) graph.axes_[at] = std::make_shared<const AxisMap>(find_axes(graph, id));
  return *graph.axes_[at];
}

/// Two results correspond where the same axes of the operands run along both.
Axes axes_of_result(const Graph& graph, int id, int number) {
  const Node& node = graph[id];
  const OpDef& def = definition(node.op);
  const auto specs = operand_specs(graph, node);
  const AxisMap& first = axes_of(graph, id);
  const AxisMap other = def.further->axes(number, node.spec, specs, node.attrs);
  Axes to(node.spec.shape.rank(), kWhole);
  Dims seen(node.spec.shape.rank(), 0);
  for (std::size_t k = 0; k < specs.size(); ++k)
    for (int a = 0; a < first.operand[k].rank(); ++a) {
      if (!first.operand[k][a].is_along()) continue;
      const int axis = first.operand[k][a].axis();
      const AxisTo entry = other.operand[k][a];
      to[axis] = seen[axis] && !(to[axis] == entry) ? kWhole : entry;
      seen[axis] = 1;
    }
  return to;
}

std::shared_ptr<Graph> current_graph() {
  if (traced) return traced;
  auto graph = ambient.lock();
  if (!graph) ambient = graph = std::make_shared<Graph>();
  return graph;
}

bool tracing() { return traced != nullptr; }

TraceScope::TraceScope(std::shared_ptr<Graph> graph) : previous_(std::move(traced)) { traced = std::move(graph); }
TraceScope::~TraceScope() { traced = std::move(previous_); }

int node_in(const std::shared_ptr<Graph>& graph, const Tensor& tensor) {
  if (tensor.graph() == graph) return tensor.node();
  if (!graph->outer) return -1;
  const int outside = node_in(graph->outer, tensor);
  return outside < 0 ? -1 : graph->capture(outside);
}

namespace {

bool is_round(const std::shared_ptr<Graph>& outer, const std::shared_ptr<Graph>& inner) {
  for (auto graph = inner; graph; graph = graph->outer)
    if (graph == outer) return true;
  return false;
}

}  // namespace

Tensor apply(Op op, const std::vector<Tensor>& inputs, Attrs attrs, Location where) {
  std::shared_ptr<Graph> graph;
  for (const Tensor& t : inputs) {
    if (t.empty()) fail(where, std::string(definition(op).name) + ": an operand is an empty Tensor");
    if (!graph || is_round(graph, t.graph())) graph = t.graph();
  }
  if (!graph) graph = current_graph();
  std::vector<int> ids;
  for (const Tensor& t : inputs) {
    ids.push_back(node_in(graph, t));
    if (ids.back() < 0)
      fail(where,
           std::string(definition(op).name) +
               ": the operands belong to different traces; a tensor made outside compile() cannot be used inside it"
               " (pass it as an argument, a State or an Array), nor one made in the body of scan() outside it (return"
               " it)");
  }
  return {graph, graph->add(op, std::move(ids), std::move(attrs), where)};
}

}  // namespace wr::ir
