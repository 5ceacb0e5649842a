// Graphs for tests.
#include "support/graphs.h"

#include <charconv>
#include <cmath>
#include <random>

#include "ir/interpret.h"

namespace wr::test {

using ir::Graph;
using ir::Op;

std::shared_ptr<Graph> trace(const std::vector<Spec>& inputs,
                             const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn) {
  auto graph = std::make_shared<Graph>();
  ir::TraceScope scope(graph);
  std::vector<Tensor> arguments;
  for (const Spec& spec : inputs)
    arguments.emplace_back(graph, graph->add_input(spec, std::source_location::current()));
  for (const Tensor& t : fn(arguments)) graph->outputs.push_back(t.node());
  return graph;
}

// ---- expressions ------------------------------------------------------------------------------------------------
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

std::string expression(const Graph& graph, const std::vector<std::string>& input_names) {
  return expression_of(graph, graph.outputs.at(0), input_names);
}

// ---- numbers ----------------------------------------------------------------------------------------------------

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

// ---- random graphs ----------------------------------------------------------------------------------------------
namespace {

class RandomGraph {
 public:
  RandomGraph(unsigned seed, int ops) : random_(seed), ops_(ops) {}

  std::shared_ptr<Graph> run() {
    std::vector<Spec> specs;
    for (int i = 0; i < 3; ++i) specs.push_back({DType::f64, random_shape()});
    specs.push_back(i32(3));
    return trace(specs, [&](const std::vector<Tensor>& in) { return build(in); });
  }

 private:
  int draw(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  const Tensor& any() { return pool_[static_cast<std::size_t>(draw(static_cast<int>(pool_.size())))]; }

  Shape random_shape() {
    Shape shape;
    for (int rank = draw(4); rank > 0; --rank) shape.push_back(1 + draw(3));
    return shape;
  }

  std::vector<Tensor> build(const std::vector<Tensor>& in) {
    leaves_.assign(in.begin(), in.begin() + 3);
    indices_ = in[3];
    state_ = State(random_array(f64(2, 3), 9), "w");
    leaves_.emplace_back(state_);
    pool_ = leaves_;
    for (int i = 0; i < ops_; ++i) {
      const Tensor made = op();
      if (made.shape().count() > 300) continue;
      pool_.push_back(made);
    }
    std::vector<Tensor> outputs;
    for (int i = 0; i < 3; ++i) outputs.push_back(i ? any() : pool_.back());
    for (const Tensor& t : pool_)
      if (t.spec() == state_.spec()) last_ = t;
    state_.assign(last_);
    return outputs;
  }

  Tensor op() {
    switch (draw(12)) {
      case 0:
      case 1:
        return unary(any());
      case 2:
        return with_number(any());
      case 3:
      case 4:
        return binary();
      case 5:
      case 6:
        return view(any());
      case 7:
        return reduction(any());
      case 8:
      case 9:
        return contraction();
      case 10:
        return choice();
      default:
        return indexed(any());
    }
  }

  Tensor unary(const Tensor& x) {
    switch (draw(10)) {
      case 0:
        return -x;
      case 1:
        return abs(x);
      case 2:
        return tanh(x * x);
      case 3:
        return relu(x);
      case 4:
        return sigmoid(x);
      case 5:
        return exp(-abs(x));
      case 6:
        return stop_gradient(x);
      case 7:
        return relu_grad(x, tanh(x));
      case 8:
        return pow(abs(tanh(x)) + 1, draw(4) - 1);
      default:
        return tanh(x);
    }
  }

  Tensor with_number(const Tensor& x) {
    const double numbers[] = {0, 1, -1, 2, 0.5, 3, 0.1};
    const double n = numbers[draw(7)];
    switch (draw(5)) {
      case 0:
        return x + n;
      case 1:
        return n - x;
      case 2:
        return n * x;
      case 3:
        return n == 0 ? maximum(x, n) : x / n;
      default:
        return full(x.shape(), n, DType::f64) * x;
    }
  }

  /// Two tensors that broadcast against each other.
  std::pair<Tensor, Tensor> pair() {
    const Tensor a = any();
    for (int i = 0; i < 10; ++i) {
      const Tensor b = any();
      bool fits = true;
      for (int k = 1; k <= std::min(a.rank(), b.rank()); ++k)
        fits = fits && (a.size(-k) == b.size(-k) || a.size(-k) == 1 || b.size(-k) == 1);
      if (fits) return {a, b};
    }
    return {a, sum(a)};
  }

  Tensor binary() {
    const auto [a, b] = pair();
    switch (draw(7)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return tanh(a) * b;
      case 3:
        return a / (1 + abs(b));
      case 4:
        return maximum(a, b);
      case 5:
        return tanh(a) * tanh(b) + a;
      default:
        return minimum(a, -b);
    }
  }

  Tensor view(const Tensor& x) {
    if (x.rank() == 0) return broadcast_to(x, {2, 3});
    const int axis = draw(x.rank());
    switch (draw(8)) {
      case 0:
        return flatten(x);
      case 1:
        return x.rank() < 5 ? expand_dims(x, axis) : x;
      case 2:
        return permute(x, random_order(x.rank()));
      case 3: {
        Shape shape = x.shape();
        for (auto& n : shape)
          if (n == 1) n = 1 + draw(3);
        if (shape.rank() < 4) shape.insert(0, 2);
        return broadcast_to(x, shape);
      }
      case 4:
        return slice(x, axis, draw(static_cast<int>(x.size(axis))), x.size(axis), 1 + draw(2));
      case 5:
        return slice(x, axis, x.size(axis) - 1, -x.size(axis) - 1, -1);
      case 6:
        return concat({x, tanh(x)}, axis);
      default: {
        Dims before(x.rank(), 0), after(x.rank(), 0);
        before[axis] = draw(2);
        after[axis] = draw(2);
        return pad(x, before, after, 0.5);
      }
    }
  }

  Dims random_order(int rank) {
    Dims order;
    for (int i = 0; i < rank; ++i) order.insert(draw(i + 1), i);
    return order;
  }

  Tensor reduction(const Tensor& x) {
    std::vector<int> axes;
    for (int i = 0; i < x.rank(); ++i)
      if (draw(2)) axes.push_back(i);
    const Keep keep = draw(2) ? Keep::yes : Keep::no;
    switch (draw(4)) {
      case 0:
        return max(x, axes, keep);
      case 1:
        return mean(x, axes, keep);
      case 2:
        return min(x, axes, keep);
      default:
        return sum(x, axes, keep);
    }
  }

  /// Labels follow sizes, so that equal sizes are often contracted or, inside one operand, a diagonal.
  Tensor contraction() {
    std::string spec, seen;
    std::vector<Tensor> operands;
    for (int n = 1 + draw(3); n > 0; --n) {
      const Tensor x = tanh(any());
      if (!operands.empty()) spec += ',';
      for (auto size : x.shape()) {
        spec += static_cast<char>('a' + 3 * (size % 8) + draw(3));
        if (seen.find(spec.back()) == std::string::npos) seen += spec.back();
        if (size >= 8) return x;
      }
      operands.push_back(x);
    }
    std::shuffle(seen.begin(), seen.end(), random_);
    return einsum(spec + "->" + seen.substr(0, std::min<std::size_t>(4, static_cast<std::size_t>(draw(5)))), operands);
  }

  /// Conditions compare the inputs, which no pass changes by a rounding.
  Tensor choice() {
    const Tensor& leaf = leaves_[static_cast<std::size_t>(draw(4))];
    const Tensor condition = draw(2) ? gt(leaf, 0) : logical_not(gt(leaf, 0.5));
    return where(condition, leaf, draw(2) ? unary(leaf) : leaf) + cast(condition, DType::f64);
  }

  Tensor indexed(const Tensor& x) {
    switch (draw(4)) {
      case 0:
        return x.rank() ? gather(x, indices_ - 1, 0) : x;
      case 1:
        return cast(one_hot(indices_, 3), DType::f64);
      case 2:
        return x.rank() == 2 ? embedding_sum(x, minimum(reshape(indices_, {1, 3}), static_cast<double>(x.size(0) - 1)))
                             : x;
      default:
        return x.rank() == 1 && x.size(0) == 3 ? take_along(x, minimum(indices_, 2), 0) : x;
    }
  }

  std::mt19937 random_;
  int ops_;
  std::vector<Tensor> leaves_, pool_;
  Tensor indices_, last_;
  State state_;
};

}  // namespace

std::shared_ptr<Graph> random_graph(unsigned seed, int ops) { return RandomGraph(seed, ops).run(); }

}  // namespace wr::test
