// Where values come from: arguments of the step, states, constants, counting. And Tensor and State themselves.
#include "ops/define.h"

namespace wr {

using ir::Op;

Tensor::Tensor(const Array& value) : graph_(ir::current_graph()) {
  node_ = graph_->add_constant(value, std::source_location::current());
}

Tensor::Tensor(const State& state) : graph_(ir::current_graph()) {
  if (!state) throw Error("an empty State has no value");
  node_ = graph_->current(state.variable(), std::source_location::current());
}

const Spec& Tensor::spec() const {
  if (!graph_) throw Error("an empty Tensor has no type");
  return (*graph_)[node_].spec;
}

std::int64_t Tensor::size(int axis) const {
  return shape()[ops::normalise_axis(axis, rank(), "size", std::source_location::current())];
}

State::State(const Array& initial, std::string name)
    : variable_(std::make_shared<ir::Variable>(std::move(name), initial)) {}

const std::string& State::name() const { return variable_->name; }
const Spec& State::spec() const { return variable_->spec; }
Array State::value() const { return variable_->value.clone(); }

void State::set(const Array& value, std::source_location where) {
  if (value.dtype() != spec().dtype || !(value.shape() == shape()))
    fail(where, "set: state " + (name().empty() ? "" : "'" + name() + "' ") + "is " + to_string(spec()) +
                    ", the value is " + to_string(Spec{value.dtype(), value.shape()}));
  variable_->value.copy_from(value);
}

void State::assign(const Tensor& value, std::source_location where) const {
  if (!value) fail(where, "assign: the value is an empty Tensor");
  value.graph()->assign(variable_, value.node(), where);
}

Tensor full(const Shape& shape, double value, DType dtype, std::source_location where) {
  auto graph = ir::current_graph();
  const Tensor scalar(graph, graph->add_constant(Array::full(Shape(shape.rank(), 1), value, dtype), where));
  return shape.count() == 1 ? scalar : broadcast_to(scalar, shape, where);
}

Tensor iota(const Shape& shape, int axis, DType dtype, std::source_location where) {
  ir::Attrs attrs;
  attrs.ints = {ops::normalise_axis(axis, shape.rank(), "iota", where), static_cast<std::int64_t>(dtype)};
  for (auto n : shape) attrs.ints.push_back(n);
  return ir::apply(Op::iota, {}, std::move(attrs), where);
}

namespace ops {
namespace {

// Leaves are added by Graph::add_input and its like, never through add().
Spec infer_leaf(std::span<const Spec>, const Attrs&) { refuse("is not an op to be applied"); }
AxisMap no_axes(const Spec&, std::span<const Spec>, const Attrs&) { return {}; }

// ints: axis, type, sizes
Spec infer_iota(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 0);
  if (attrs.ints.size() < 3) refuse("needs an axis, a type and a shape");
  const Spec spec{expect_dtype(attrs.ints[1]), expect_sizes(Shape(std::span(attrs.ints).subspan(2)))};
  expect_axis(attrs.ints[0], spec.shape.rank());
  return spec;
}

const OpDef kOpDefs[] = {
    {Op::input, "input", infer_leaf, no_axes, no_gradient, "an argument of the step"},
    {Op::state, "state", infer_leaf, no_axes, no_gradient, "memory that lives from step to step"},
    {Op::constant, "constant", infer_leaf, no_axes, no_gradient, "a fixed value"},
    {Op::iota, "iota", infer_iota, no_axes, no_gradient, "0, 1, 2, ... along one axis"},
};

}  // namespace

std::span<const OpDef> leaf_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
