// Rewriter: building a graph from another.
#include "passes/rewrite.h"

namespace wr::passes {

Rewriter::Rewriter(const Graph& graph)
    : from(graph), to(std::make_shared<Graph>()), map_(static_cast<std::size_t>(graph.size()), -1) {
  for (int id : from.inputs) map(id, to->add_node(from[id]));
}

void Rewriter::enter(int old_id) {
  const Node& node = from[old_id];
  where_ = node.where;
  to->scope = node.scope;
  to->copy = node.copy;
  to->gradient_of = node.gradient ? &where_ : nullptr;
}

int Rewriter::copy(int old_id) {
  enter(old_id);
  Node node = from[old_id];
  for (int& input : node.inputs) input = mapped(input);
  return to->add_node(std::move(node));
}

int Rewriter::reshape(int x, const Shape& shape) {
  return (*to)[x].spec.shape == shape ? x : add(Op::reshape, {x}, ir::attrs_of(shape));
}

int Rewriter::permute(int x, const Dims& order) {
  bool same = true;
  for (int i = 0; i < order.rank(); ++i) same = same && order[i] == i;
  return same ? x : add(Op::permute, {x}, ir::attrs_of(order));
}

int Rewriter::broadcast(int x, const Shape& shape) {
  return (*to)[x].spec.shape == shape ? x : add(Op::broadcast, {x}, ir::attrs_of(shape));
}

int Rewriter::number(double value, DType dtype, int rank) {
  return add_constant(Array::full(Shape(rank, 1), value, dtype));
}

std::shared_ptr<Graph> Rewriter::finish() {
  for (int id : from.outputs) to->outputs.push_back(mapped(id));
  for (const ir::Update& update : from.updates) to->updates.push_back({mapped(update.state), mapped(update.value)});
  to->scope = from.scope;
  to->scopes = from.scopes;
  to->copy = from.copy;
  to->gradient_of = nullptr;
  to->random_streams = from.random_streams;
  return to;
}

std::optional<double> number_of(const Node& node) {
  if (node.op != Op::constant || node.spec.shape.count() != 1) return {};
  switch (node.spec.dtype) {
    case DType::f32:
      return *node.value->data<float>();
    case DType::f64:
      return *node.value->data<double>();
    case DType::i32:
      return *node.value->data<std::int32_t>();
    case DType::u8:
      return *node.value->data<std::uint8_t>();
    case DType::boolean:
      return *node.value->data<bool>();
  }
  return {};
}

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(static_cast<std::size_t>(graph.size()));
  auto use = [&](int id) { ++uses[id]; };
  for (int id = 0; id < graph.size(); ++id)
    for (int input : graph[id].inputs) use(input);
  for (int id : graph.outputs) use(id);
  for (const ir::Update& update : graph.updates) use(update.value);
  return uses;
}

}  // namespace wr::passes
