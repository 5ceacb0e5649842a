// The interpreter: the walk over the graph, and the elementwise, reducing, contracting and rearranging ops.
#include "ops/interpret.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ir/attributes.h"
#include "ir/elsewhere.h"
#include "ops/formula.h"
#include "ops/update.h"

namespace wr::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- elements and arrays ----
template <class T>
Elements read_as(const Array& array) {
  const auto values = array.to_vector<T>();
  return {values.begin(), values.end()};
}

Elements read(const Array& array) {
  switch (array.dtype()) {
    case DType::f32:
      return read_as<float>(array);
    case DType::f64:
      return read_as<double>(array);
    case DType::i32:
      return read_as<std::int32_t>(array);
    case DType::u8:
      return read_as<std::uint8_t>(array);
    case DType::boolean:
      return read_as<bool>(array);
  }
  return {};
}

template <class T>
Array write_as(const Elements& elements, const Shape& shape) {
  std::vector<T> values;
  values.reserve(elements.size());
  for (double e : elements) values.push_back(static_cast<T>(e));
  return Array::from(values, shape);
}

Array write(const Elements& elements, const Spec& spec) {
  switch (spec.dtype) {
    case DType::f32:
      return write_as<float>(elements, spec.shape);
    case DType::f64:
      return write_as<double>(elements, spec.shape);
    case DType::i32:
      return write_as<std::int32_t>(elements, spec.shape);
    case DType::u8:
      return write_as<std::uint8_t>(elements, spec.shape);
    case DType::boolean:
      return write_as<bool>(elements, spec.shape);
  }
  return {};
}

/// The numbers that an op of this type can have as a result. Integers wrap round.
void round_to(DType dtype, Elements& elements, Rounding rounding) {
  switch (dtype) {
    case DType::f32:
      if (rounding == Rounding::each_node)
        for (double& e : elements) e = static_cast<float>(e);
      return;
    case DType::i32:
      for (double& e : elements)
        e = static_cast<std::int32_t>(
            static_cast<std::uint32_t>(static_cast<std::int64_t>(std::fmod(e, 4294967296.0))));
      return;
    case DType::u8:
      for (double& e : elements) e = static_cast<std::uint8_t>(static_cast<std::int64_t>(std::fmod(e, 256.0)));
      return;
    case DType::f64:
    case DType::boolean:
      return;
  }
}

// ---- elementwise ----
/// The fraction is cut off, what is out of range becomes the nearest number in range, NaN becomes 0.
double to_integer(double x, double low, double high) {
  return std::isnan(x) ? 0 : std::clamp(std::trunc(x), low, high);
}

double cast_to(DType dtype, double x) {
  switch (dtype) {
    case DType::i32:
      return to_integer(x, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
    case DType::u8:
      return to_integer(x, 0, 255);
    case DType::boolean:
      return x != 0;
    case DType::f32:
    case DType::f64:
      return x;
  }
  return x;
}

double apply(const Node& node, const double* x) {
  if (node.op == Op::where) return x[0] != 0 ? x[1] : x[2];
  if (node.op == Op::cast) return cast_to(node.spec.dtype, x[0]);
  return ops::evaluate(static_cast<ops::Elementwise>(node.op), x);
}

/// The index in an operand: 0 along its axes of size 1, which repeat.
Dims repeated(Dims index, const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] == 1) index[i] = 0;
  return index;
}

Elements evaluate_elementwise(const Call& call) {
  Elements out;
  for_each_index(call.out().shape, [&](const Dims& index) {
    double x[ops::kMaxArity];
    for (std::size_t i = 0; i < call.in.size(); ++i)
      x[i] = (*call.in[i])[position(repeated(index, call.shape(i)), call.shape(i))];
    out.push_back(apply(call.node, x));
  });
  return out;
}

Elements evaluate_update(const Call& call) {
  const auto update = ops::update_of(call.node.op);
  const auto values = static_cast<std::size_t>(ops::row_of(update).values);
  Elements out;
  for (std::size_t i = 0; i < call.in[0]->size(); ++i) {
    double x[ops::kMaxUpdateOperands], y[ops::kMaxUpdateResults];
    for (std::size_t k = 0; k < call.in.size(); ++k) x[k] = (*call.in[k])[k < values ? i : 0];
    ops::evaluate(update, x, y);
    out.push_back(y[call.result]);
  }
  return out;
}

/// The gradient of a table, of the rows and the order of where they go; and which entries are reached.
struct TableGradient {
  Elements of;
  std::vector<bool> reached;
};

TableGradient table_gradient(const Shape& table, const Elements& order, const Elements& rows, std::int64_t terms) {
  TableGradient g{zeros(table), std::vector<bool>(static_cast<std::size_t>(table[0]), false)};
  const auto count = order.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = static_cast<std::int64_t>(order[i]), row = static_cast<std::int64_t>(order[count + i]) / terms;
    if (entry < 0 || entry >= table[0]) continue;
    g.reached[entry] = true;
    for (std::int64_t k = 0; k < table[1]; ++k) g.of[entry * table[1] + k] += rows[row * table[1] + k];
  }
  return g;
}

Elements evaluate_update_of_rows(const Call& call) {
  const auto update = ops::update_of(call.node.op);
  const auto kept = static_cast<std::size_t>(ops::row_of(update).values) - 1;  // values but the gradient
  const Shape& table = call.shape(0);
  const TableGradient g = table_gradient(table, *call.in[kept], *call.in[kept + 1], call.ints()[0]);
  Elements out;
  for (std::size_t i = 0; i < call.in[0]->size(); ++i) {
    double x[ops::kMaxUpdateOperands], y[ops::kMaxUpdateResults];
    for (std::size_t k = 0; k < kept; ++k) x[k] = (*call.in[k])[i];
    x[kept] = g.of[i];
    for (std::size_t k = kept + 2; k < call.in.size(); ++k) x[k - 1] = (*call.in[k])[0];
    ops::evaluate(update, x, y);
    const bool moves = call.ints()[1] == 0 || g.reached[i / static_cast<std::size_t>(table[1])];
    out.push_back(moves ? y[call.result] : x[call.result]);
  }
  return out;
}

// ---- reductions ----
double start_of(Op op, DType dtype) {
  const double largest = is_floating(dtype) ? kInfinity : std::numeric_limits<std::int32_t>::max();
  const double smallest = is_floating(dtype) ? -kInfinity : std::numeric_limits<std::int32_t>::min();
  return op == Op::reduce_prod ? 1 : op == Op::reduce_max ? smallest : op == Op::reduce_min ? largest : 0;
}

Elements evaluate_reduce(const Call& call) {
  const Op op = call.node.op;
  Elements out(static_cast<std::size_t>(call.out().shape.count()), start_of(op, call.out().dtype));
  for_each_index(call.shape(0), [&](const Dims& index) {
    const double pair[] = {out[position(repeated(index, call.out().shape), call.out().shape)],
                           (*call.in[0])[position(index, call.shape(0))]};
    double& total = out[position(repeated(index, call.out().shape), call.out().shape)];
    if (op == Op::reduce_sum) total = pair[0] + pair[1];
    if (op == Op::reduce_prod) total = pair[0] * pair[1];
    if (op == Op::reduce_max) total = ops::evaluate(ops::Elementwise::maximum, pair);
    if (op == Op::reduce_min) total = ops::evaluate(ops::Elementwise::minimum, pair);
  });
  return out;
}

/// The index of the first largest or smallest, in row-major order over the reduced axes alone.
Elements evaluate_arg(const Call& call) {
  const bool largest = call.node.op == Op::reduce_argmax;
  Elements out = zeros(call.out().shape), best = out;
  std::vector<std::int64_t> seen(out.size());
  for_each_index(call.shape(0), [&](const Dims& index) {
    const std::size_t at = position(repeated(index, call.out().shape), call.out().shape);
    const double x = (*call.in[0])[position(index, call.shape(0))];
    const std::int64_t here = seen[at]++;
    if (here == 0 || (largest ? x > best[at] : x < best[at])) {
      best[at] = x;
      out[at] = static_cast<double>(here);
    }
  });
  return out;
}

// ---- einsum ----
/// A place in an operand or in the result, and how far it moves with the index of each label.
struct LabelWalk {
  LabelWalk(const std::string& names, const Shape& shape, const std::string& all) : steps(all.size()) {
    std::int64_t step = 1;
    for (int k = shape.rank() - 1; k >= 0; step *= shape[k--])
      steps[all.find(names[static_cast<std::size_t>(k)])] += step;
  }
  std::vector<std::int64_t> steps;
  std::int64_t at = 0;
};

/// The product of the operands' elements at every combination of the labels' indices, added to the result's element.
Elements evaluate_einsum(const Call& call) {
  const auto [labels, result] = Labels::of(call.node.attrs.text);
  const std::string all = Labels{labels, result}.all();  // more of them than a shape has axes, perhaps
  std::vector<std::int64_t> sizes(all.size()), index(all.size());
  std::vector<LabelWalk> walks{{result, call.out().shape, all}};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    walks.emplace_back(labels[i], call.shape(i), all);
    for (std::size_t k = 0; k < labels[i].size(); ++k)
      sizes[all.find(labels[i][k])] = call.shape(i)[static_cast<int>(k)];
  }

  Elements out = zeros(call.out().shape);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return out;
  const std::size_t last = all.empty() ? 0 : all.size() - 1;  // the label of the inner loop
  const std::int64_t length = all.empty() ? 1 : sizes[last];
  const auto step = [&](const LabelWalk& walk) { return all.empty() ? 0 : walk.steps[last]; };
  Elements products(static_cast<std::size_t>(length));
  for (;;) {
    std::fill(products.begin(), products.end(), 1);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const double* from = call.in[i]->data() + walks[i + 1].at;
      const std::int64_t by = step(walks[i + 1]);
      for (double& product : products) product *= *from, from += by;
    }
    double* to = out.data() + walks[0].at;
    const std::int64_t by = step(walks[0]);
    for (const double product : products) *to += product, to += by;
    std::size_t axis = last;
    for (; axis > 0; --axis) {
      const std::int64_t size = sizes[axis - 1], is = ++index[axis - 1];
      for (LabelWalk& walk : walks) walk.at += walk.steps[axis - 1] * (is < size ? 1 : 1 - size);
      if (is < size) break;
      index[axis - 1] = 0;
    }
    if (axis == 0) return out;
  }
}

// ---- rearranging: each result element is one operand element ----
Elements evaluate_rearranging(const Call& call) {
  const int rank = call.out().shape.rank();
  const Shape& x = call.shape(0);
  const Op op = call.node.op;
  const Dims order = op == Op::permute ? list_of(call.node.attrs) : Dims();
  const Slice slice = op == Op::slice ? Slice::of(call.node.attrs, rank) : Slice();
  Elements out;
  for_each_index(call.out().shape, [&](const Dims& index) {
    Dims source = index;
    for (int i = 0; i < rank; ++i) {
      if (op == Op::permute) source[static_cast<int>(order[i])] = index[i];
      if (op == Op::slice) source[i] = slice.starts[i] + index[i] * slice.steps[i];
    }
    out.push_back((*call.in[0])[position(repeated(source, x), x)]);
  });
  return out;
}

Elements evaluate_pad(const Call& call) {
  const Pad pad = Pad::of(call.node.attrs, call.out().shape.rank());
  Elements out(static_cast<std::size_t>(call.out().shape.count()), cast_to(call.out().dtype, pad.value));
  for_each_index(call.shape(0), [&](Dims index) {
    const std::size_t from = position(index, call.shape(0));
    for (int i = 0; i < index.rank(); ++i) index[i] += pad.before[i];
    out[position(index, call.out().shape)] = (*call.in[0])[from];
  });
  return out;
}

Elements evaluate_concat(const Call& call) {
  const int axis = static_cast<int>(call.ints()[0]);
  Elements out = zeros(call.out().shape);
  std::int64_t start = 0;
  for (std::size_t part = 0; part < call.in.size(); ++part) {
    for_each_index(call.shape(part), [&](Dims index) {
      const std::size_t from = position(index, call.shape(part));
      index[axis] += start;
      out[position(index, call.out().shape)] = (*call.in[part])[from];
    });
    start += call.shape(part)[axis];
  }
  return out;
}

Elements evaluate_iota(const Call& call) {
  Elements out;
  for_each_index(call.out().shape, [&](const Dims& index) {
    out.push_back(static_cast<double>(index[static_cast<int>(call.ints()[0])]));
  });
  return out;
}

// ---- all ----
}  // namespace

Elements evaluate_op(const Call& call) {
  const Op op = call.node.op;
  if (is_elementwise(op)) return evaluate_elementwise(call);
  if (is_update(op)) return evaluate_update(call);
  if (is_update_of_rows(op)) return evaluate_update_of_rows(call);
  if (is_row_op(op)) return evaluate_rows(call);
  switch (op) {
    case Op::iota:
      return evaluate_iota(call);
    case Op::reduce_sum:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
      return evaluate_reduce(call);
    case Op::reduce_argmax:
    case Op::reduce_argmin:
      return evaluate_arg(call);
    case Op::einsum:
      return evaluate_einsum(call);
    case Op::contract:
    case Op::contract_share:
    case Op::contract_grad:
      return evaluate_contract(call);
    case Op::permute:
    case Op::broadcast:
    case Op::slice:
      return evaluate_rearranging(call);
    case Op::reshape:
    case Op::stop_gradient:
    case Op::custom_gradient:
    case Op::lane_sum:  // here there is one lane
      return *call.in[0];
    case Op::concat:
      return evaluate_concat(call);
    case Op::pad:
      return evaluate_pad(call);
    case Op::gather:
    case Op::scatter_add:
    case Op::take_along:
    case Op::put_along:
    case Op::one_hot:
    case Op::embedding_sum:
    case Op::embedding_grad:
    case Op::index_order:
      return evaluate_index(call);
    case Op::unfold:
    case Op::fold:
    case Op::max_pool_pick:
    case Op::max_pool_scatter:
    case Op::conv:
    case Op::conv_grad_x:
    case Op::conv_grad_w:
      return evaluate_window(call);
    case Op::gates:
    case Op::gates_grad_x:
    case Op::gates_grad_coefficients:
    case Op::gates_grad:
    case Op::neighbours:
    case Op::neighbours_sum:
      return evaluate_gates(call);
    case Op::lstm:
    case Op::lstm_grad:
    case Op::gru:
    case Op::gru_grad:
      return evaluate_recurrent(call);
    case Op::attention:
    case Op::attention_grad:
      return evaluate_attention(call);
    case Op::scan:
      return evaluate_scan(call)[call.result];
    default:
      fail(call.node.where, "the interpreter cannot evaluate " + std::string(definition(op).name));
  }
}

namespace {

class Interpreter {
 public:
  Interpreter(const Graph& graph, const std::vector<Array>& inputs, Rounding rounding)
      : graph_(graph), inputs_(inputs), rounding_(rounding) {}

  /// Of elements that are there already.
  std::vector<Elements> run_on(const std::vector<const Elements*>& inputs) {
    for (int id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_[id];
      values_.push_back(node.op == Op::input ? *inputs[node.attrs.ints[0]] : value_of(node));
    }
    std::vector<Elements> outputs;
    for (int id : graph_.outputs) outputs.push_back(values_[id]);
    return outputs;
  }

  Interpretation run() {
    if (inputs_.size() != graph_.inputs.size())
      throw Error("the graph has " + std::to_string(graph_.inputs.size()) + " inputs, " +
                  std::to_string(inputs_.size()) + " arrays are given");
    for (int id = 0; id < graph_.size(); ++id) values_.push_back(value_of(graph_[id]));
    Interpretation result;
    for (int id : graph_.outputs) result.outputs.push_back(array_of(id));
    for (const Update& update : graph_.updates) result.updates.push_back(array_of(update.value));
    return result;
  }

 private:
  Elements value_of(const Node& node) {
    switch (node.op) {
      case Op::input: {
        const auto at = static_cast<std::size_t>(node.attrs.ints[0]);
        return checked(node, inputs_[at], "input " + std::to_string(at));
      }
      case Op::state:
        bring_home(*node.variable);
        return checked(node, node.variable->value, "state '" + node.variable->name + "'");
      case Op::constant:
        return read(*node.value);
      default: {
        // A further result: its op once more, with the same operands.
        const bool further = node.op == Op::result;
        const Node& op = further ? graph_[node.inputs[0]] : node;
        Call call{op, {}, {}, node.spec, further ? static_cast<int>(node.attrs.ints[0]) : 0, rounding_};
        for (int input : op.inputs) {
          call.specs.push_back(graph_[input].spec);
          call.in.push_back(&values_[input]);
        }
        Elements out = op.op == Op::scan ? scanned(call) : evaluate_op(call);
        round_to(node.spec.dtype, out, rounding_);
        return out;
      }
    }
  }

  /// A scan is long, so all its results are computed at once.
  Elements scanned(const Call& call) {
    auto& results = scans_[&call.node];
    if (results.empty()) results = evaluate_scan(call);
    return results[call.result];
  }

  static Elements checked(const Node& node, const Array& array, const std::string& what) {
    if (const Spec have{array.dtype(), array.shape()}; !(have == node.spec))
      throw Error(what + " is " + to_string(have) + ", the graph expects " + to_string(node.spec));
    return read(array);
  }

  Array array_of(int id) const {
    Spec spec = graph_[id].spec;
    if (rounding_ == Rounding::none && is_floating(spec.dtype)) spec.dtype = DType::f64;
    return write(values_[id], spec);
  }

  const Graph& graph_;
  const std::vector<Array>& inputs_;
  Rounding rounding_;
  std::vector<Elements> values_;
  std::map<const Node*, std::vector<Elements>> scans_;
};

}  // namespace

Interpretation interpret(const Graph& graph, const std::vector<Array>& inputs, Rounding rounding) {
  return Interpreter(graph, inputs, rounding).run();
}

std::vector<Elements> evaluate_body(const Graph& body, const std::vector<const Elements*>& inputs, Rounding rounding) {
  return Interpreter(body, {}, rounding).run_on(inputs);
}

Array evaluate(const Graph& graph, const Node& node) {
  std::vector<Elements> values;
  values.reserve(node.inputs.size());
  Call call{node, {}, {}, node.spec};
  for (int input : node.inputs) {
    const Node& operand = graph[input];
    values.push_back(operand.op == Op::constant ? read(*operand.value) : evaluate_op({operand, {}, {}, operand.spec}));
    call.specs.push_back(operand.spec);
    call.in.push_back(&values.back());
  }
  Elements out = evaluate_op(call);
  round_to(node.spec.dtype, out, Rounding::each_node);
  return write(out, node.spec);
}

}  // namespace wr::ir
