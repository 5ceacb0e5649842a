// The oracle of the whole project: every op evaluated in double by plain loops, one node after the other. Slow, and as
// close to the definitions as it can be; it shares nothing with the kernels but the elementwise formulas.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace wr::ir {

/// Whether each node's value is rounded to its type, as a kernel would, or floats stay double from end to end.
enum class Rounding : bool { none = false, each_node = true };

struct Interpretation {
  std::vector<Array> outputs;  // of the nodes' types; f64 for all floats if nothing was rounded
  std::vector<Array> updates;  // what each of the graph's updates leaves in its state; the states are not written
};

/// Runs the graph. States have the values that their variables hold now. Throws for op random.
Interpretation interpret(const Graph& graph, const std::vector<Array>& inputs, Rounding rounding = Rounding::each_node);

/// The value of one node whose operands are constants or iotas, rounded to its type.
Array evaluate(const Graph& graph, const Node& node);

// ---- for the families of ops, in interpret_*.cpp ----
using Elements = std::vector<double>;

/// An op to be evaluated: the specs and elements of its operands, which of its results is wanted and the spec of that.
struct Call {
  const Node& node;
  std::vector<Spec> specs;
  std::vector<const Elements*> in;
  Spec spec = node.spec;
  int result = 0;
  Rounding rounding = Rounding::each_node;  // of what stands inside a body

  const Spec& out() const { return spec; }
  const Shape& shape(std::size_t operand) const { return specs[operand].shape; }
  const std::vector<std::int64_t>& ints() const { return node.attrs.ints; }
};

Elements evaluate_op(const Call& call);         // any op that is no leaf, unrounded
Elements evaluate_index(const Call& call);      // gather ... embedding_grad
Elements evaluate_window(const Call& call);     // unfold ... conv_grad_w
Elements evaluate_gates(const Call& call);      // gates ... neighbours_sum
Elements evaluate_recurrent(const Call& call);  // lstm ... gru_grad
Elements evaluate_rows(const Call& call);       // the rows of rows.def
Elements evaluate_attention(const Call& call);
Elements evaluate_contract(const Call& call);           // contract ... contract_grad
std::vector<Elements> evaluate_scan(const Call& call);  // all results

/// The outputs of a scan's body, of the elements of its inputs.
std::vector<Elements> evaluate_body(const Graph& body, const std::vector<const Elements*>& inputs, Rounding rounding);

/// Calls f(index) for every index of the shape, in row-major order.
template <class F>
void for_each_index(const Shape& shape, F f) {
  if (shape.count() == 0) return;
  Dims index(shape.rank(), 0);
  for (;;) {
    f(static_cast<const Dims&>(index));
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

/// Where an element stands in row-major order.
inline std::size_t position(const Dims& index, const Shape& shape) {
  std::int64_t at = 0;
  for (int i = 0; i < shape.rank(); ++i) at = at * shape[i] + index[i];
  return static_cast<std::size_t>(at);
}

/// All elements zero.
inline Elements zeros(const Shape& shape) { return Elements(static_cast<std::size_t>(shape.count())); }

}  // namespace wr::ir
