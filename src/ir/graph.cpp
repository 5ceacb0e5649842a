// Graph: interning and building.
#include "ir/graph.h"

#include <algorithm>
#include <cstring>
#include <functional>

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
  mix(h, static_cast<std::size_t>(node.copy));
  mix(h, std::hash<void*>{}(node.variable.get()));
  if (node.value && node.value->count() == 1)
    mix(h, std::hash<std::string_view>{}(
               {static_cast<const char*>(detail::ArrayAccess::read(*node.value)), size_of(node.spec.dtype)}));
  return h;
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

Variable::Variable(std::string n, const Array& initial)
    : name(std::move(n)),
      spec{initial.dtype(), initial.shape()},
      value(initial.clone().window()),
      memory(detail::ArrayAccess::write_shared(value)) {}

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
  std::vector<Spec> specs;
  specs.reserve(ids.size());
  for (int i : ids) specs.push_back((*this)[i].spec);
  Node node;
  node.op = op;
  try {
    node.spec = definition(op).infer(specs, attrs);
  } catch (const Error& error) {
    fail(gradient_of ? *gradient_of : where, std::string(definition(op).name) + ": " + error.what());
  }
  node.inputs = std::move(ids);
  node.attrs = std::move(attrs);
  node.where = gradient_of ? *gradient_of : where;
  node.gradient = gradient_of != nullptr;
  node.scope = scope;
  node.copy = copy;
  return intern(std::move(node));
}

int Graph::add_input(const Spec& spec, Location where) {
  for (auto n : spec.shape)
    if (n < 0) fail(where, "input: negative size in " + to_string(spec));
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

std::shared_ptr<Graph> current_graph() {
  if (traced) return traced;
  auto graph = ambient.lock();
  if (!graph) ambient = graph = std::make_shared<Graph>();
  return graph;
}

TraceScope::TraceScope(std::shared_ptr<Graph> graph) : previous_(std::move(traced)) { traced = std::move(graph); }
TraceScope::~TraceScope() { traced = std::move(previous_); }

Tensor apply(Op op, const std::vector<Tensor>& inputs, Attrs attrs, Location where) {
  std::shared_ptr<Graph> graph;
  std::vector<int> ids;
  for (const Tensor& t : inputs) {
    if (!t) fail(where, std::string(definition(op).name) + ": an operand is an empty Tensor");
    if (graph && t.graph() != graph)
      fail(where,
           std::string(definition(op).name) +
               ": the operands belong to different traces; a tensor made outside compile() cannot be used inside it"
               " (pass it as an argument, a State or an Array)");
    graph = t.graph();
    ids.push_back(t.node());
  }
  if (!graph) graph = current_graph();
  return {graph, graph->add(op, std::move(ids), std::move(attrs), where)};
}

}  // namespace wr::ir
