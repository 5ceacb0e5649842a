// Graphs for tests.
#include "support/graphs.h"

#include <charconv>
#include <cmath>
#include <random>

#include "ops/interpret.h"

namespace wr::test {

using ir::Graph;
using ir::Op;

std::shared_ptr<Graph> trace(const std::vector<Spec>& inputs,
                             const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn) {
  auto graph = std::make_shared<Graph>();
  ir::TraceScope scope(graph);
  std::vector<Tensor> arguments;
  for (const Spec& spec : inputs) arguments.emplace_back(graph, graph->add_input(spec, Location::current()));
  for (const Tensor& t : fn(arguments)) graph->outputs.push_back(t.node());
  return graph;
}

// ---- expressions ----
namespace {

std::string joined(const std::vector<std::int64_t>& ints, const char* separator) {
  std::string out;
  for (std::size_t i = 0; i < ints.size(); ++i) out += (i ? separator : "") + std::to_string(ints[i]);
  return out;
}

std::string constant(const Array& value) {
  std::string out;
  for (float f : value.astype(DType::f32).to_vector<float>()) {
    char digits[32];
    out += (out.empty() ? "" : ", ") + std::string(digits, std::to_chars(digits, digits + 32, f).ptr);
  }
  return value.count() == 1 ? out : "[" + out + "]";
}

std::string attributes(const ir::Node& node) {
  const auto& ints = node.attrs.ints;
  switch (node.op) {
    case Op::reshape:
    case Op::broadcast:
      return to_string(node.spec.shape);
    case Op::cast:
      return ":" + std::string(name_of(node.spec.dtype));
    case Op::slice: {
      const auto rank = static_cast<std::ptrdiff_t>(ints.size() / 3);
      std::string out;
      for (std::ptrdiff_t i = 0; i < 3; ++i)
        out += (i ? ", " : "{") + joined({ints.begin() + i * rank, ints.begin() + (i + 1) * rank}, " ");
      return out + "}";
    }
    default:
      return node.attrs == ir::Attrs{} ? ""
                                       : "{" + (node.attrs.text.empty() ? joined(ints, ",") : node.attrs.text) + "}";
  }
}

std::string expression_of(const Graph& graph, int id, const std::vector<std::string>& names) {
  const ir::Node& node = graph[id];
  if (node.op == Op::input) {
    const auto position = static_cast<std::size_t>(node.attrs.ints[0]);
    return position < names.size() ? names[position] : "input " + std::to_string(position);
  }
  if (node.op == Op::state) return node.variable->name;
  if (node.op == Op::constant) return constant(*node.value);
  std::string out = std::string(ir::definition(node.op).name) + "(";
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    out += (i ? ", " : "") + expression_of(graph, node.inputs[i], names);
  return out + ")" + attributes(node);
}

}  // namespace

Tensor by_patches(const Tensor& x, const Tensor& w) {
  const Shape k = w.shape();
  const Tensor p = unfold(x, Window{k[0], k[1]});
  return einsum("bhwyxc,yxco->bhwo", {p, w});
}

std::string expression(const Graph& graph, const std::vector<std::string>& input_names) {
  return expression_of(graph, graph.outputs.at(0), input_names);
}

// ---- numbers ----

Array random_array(const Spec& spec, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-2, 2);
  std::vector<double> values(static_cast<std::size_t>(spec.shape.count()));
  for (double& v : values)
    v = is_floating(spec.dtype) ? real(random) : static_cast<double>(random() % (spec.dtype == DType::boolean ? 2 : 4));
  return Array::from(values, spec.shape).astype(spec.dtype);
}

std::vector<Array> random_inputs(const Graph& graph, unsigned seed) {
  std::vector<Array> inputs;
  for (int id : graph.inputs)
    inputs.push_back(random_array(graph[id].spec, seed + 1000 * static_cast<unsigned>(inputs.size())));
  return inputs;
}

bool nearly_equal(const Array& a, const Array& b, double tolerance) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const auto x = a.astype(DType::f64).to_vector<double>(), y = b.astype(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) && !std::isfinite(y[i])) continue;
    if (!(std::abs(x[i] - y[i]) <= tolerance * std::max(1.0, std::abs(x[i])))) return false;
  }
  return true;
}

bool same_results(const Graph& a, const Graph& b, unsigned seed) {
  const auto inputs = random_inputs(a, seed);
  const auto first = ir::interpret(a, inputs, ir::Rounding::none),
             second = ir::interpret(b, inputs, ir::Rounding::none);
  auto same = [](const std::vector<Array>& x, const std::vector<Array>& y, auto&& dtype_of_result) {
    if (x.size() != y.size()) return false;
    for (std::size_t i = 0; i < x.size(); ++i)  // folded constants are rounded to the type even here
      if (!nearly_equal(x[i], y[i], dtype_of_result(i) == DType::f32 ? 1e-5 : 1e-9)) return false;
    return true;
  };
  return same(first.outputs, second.outputs, [&](std::size_t i) { return a[a.outputs[i]].spec.dtype; }) &&
         same(first.updates, second.updates, [&](std::size_t i) { return a[a.updates[i].value].spec.dtype; });
}

// ---- random graphs ----

std::shared_ptr<Graph> random_graph(const Recipe& recipe) {
  RandomStep step(recipe);
  return trace(step.specs(), [&](const std::vector<Tensor>& in) { return step(in); });
}

}  // namespace wr::test
