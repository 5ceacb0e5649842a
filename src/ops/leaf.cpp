// Where values come from: arguments of the step, states, constants, counting. And Tensor and State themselves.
#include "ir/elsewhere.h"
#include "ops/define.h"
#include "windrow/memory.h"

namespace wr {

using ir::Op;

Tensor::Tensor(const Array& value, Location where) : graph_(ir::current_graph()) {
  node_ = graph_->add_constant(value, where);
}

Tensor::Tensor(const State& state, Location where) : graph_(ir::current_graph()) {
  if (!state) fail(where, "state: an empty State has no value");
  node_ = graph_->current(state.variable(), where);
}

const Spec& Tensor::spec() const {
  if (!graph_) throw Error("an empty Tensor has no type");
  return (*graph_)[node_].spec;
}

Tensor& Tensors::none(std::size_t i) const {
  const std::string count = empty()       ? "there is none"
                            : size() == 1 ? "there is one, number 0"
                                          : "there are 0 to " + std::to_string(size() - 1);
  fail(where_, what_ + " " + std::to_string(i) + " was asked for; " + count);
}

std::int64_t Tensor::size(int axis, Location where) const {
  return shape()[ops::normalise_axis(axis, rank(), "size", where)];
}

bool tracing() { return ir::tracing(); }

namespace {

ir::Variable& variable_of(const State& state, const char* what, Location where) {
  if (!state) fail(where, std::string(what) + ": an empty State has none; it was made by State() or moved from");
  return *state.variable();
}

}  // namespace

State::State(const Array& initial, std::string name)
    : variable_(std::make_shared<ir::Variable>(std::move(name), initial)) {}

const std::string& State::name(Location where) const { return variable_of(*this, "name", where).name; }
void State::rename(const std::string& name, Location where) const { variable_of(*this, "name", where).name = name; }
const Spec& State::spec(Location where) const { return variable_of(*this, "spec", where).spec; }
Array State::value(Location where) const {
  const ir::Variable& variable = variable_of(*this, "value", where);
  const Turn::Hold turn(variable.turn);
  ir::bring_home(variable);
  return variable.value.clone();
}

void State::set(const Array& value, Location where) {
  if (!variable_) fail(where, "set: an empty State has no value");
  if (value.dtype() != spec().dtype || !(value.shape() == shape()))
    fail(where, "set: state " + (name().empty() ? "" : "'" + name() + "' ") + "is " + to_string(spec()) +
                    ", the value is " + to_string(Spec{value.dtype(), value.shape()}));
  const Turn::Hold turn(variable_->turn);
  variable_->value.copy_from(value);
  ir::changed_at_home(*variable_);
}

Array memory_of(const State& state, Location where) {
  ir::Variable& variable = variable_of(state, "memory_of", where);
  const Turn::Hold turn(variable.turn);
  ir::bring_home(variable);
  ir::expose(state.variable());
  return variable.value.window();
}

State state_over(Array window, const std::string& name, Location where) {
  if (!window.is_window() || !window.is_contiguous()) fail(where, "state_over: the memory must be a dense window");
  State state(Array::empty({0}, window.dtype()), name);
  ir::Variable& variable = *state.variable();
  variable.spec = {window.dtype(), window.shape()};
  variable.value = std::move(window);  // moving keeps a window a window
  variable.memory = detail::ArrayAccess::write_shared(variable.value);
  ir::expose(state.variable());
  return state;
}

void State::assign(const Tensor& value, Location where) const {
  if (!variable_) fail(where, "assign: an empty State has no value");
  if (value.empty()) fail(where, "assign: the value is an empty Tensor");
  if (value.graph() != ir::current_graph()) fail(where, "assign: the value belongs to another trace");
  value.graph()->assign(variable_, value.node(), where);
}

Tensor full(const Shape& shape, double value, DType dtype, Location where) try {
  auto graph = ir::current_graph();
  const Tensor scalar(graph, graph->add_constant(Array::full(Shape(shape.rank(), 1), value, dtype), where));
  return scalar.shape() == shape ? scalar : broadcast_to(scalar, shape, where);
} catch (const Error& error) {
  ops::refuse_as("full", where, error);
}

Tensor iota(const Shape& shape, int axis, DType dtype, Location where) {
  std::vector<std::int64_t> ints{ops::normalise_axis(axis, shape.rank(), "iota", where),
                                 static_cast<std::int64_t>(dtype)};
  ints.insert(ints.end(), shape.begin(), shape.end());
  return ir::apply(Op::iota, {}, {std::move(ints), {}, {}}, where);
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
    {Op::iota, "iota", infer_iota, no_axes, no_gradient, "0, 1, 2, ... along one axis", nullptr, {.any_part = true}},
};

}  // namespace

std::span<const OpDef> leaf_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
