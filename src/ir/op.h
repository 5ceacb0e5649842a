// What an op is to the graph: its name, how its result's type follows from its operands', how axes correspond, its
// gradient. The ops themselves are defined in src/ops, one file a family.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/numbers.h"
#include "windrow/spec.h"
#include "windrow/tensor.h"

namespace wr::ir {

/// Elementwise ops come first, in the order of elementwise.def, so that Op and its row there have the same number.
enum class Op : std::uint8_t {
#define WINDROW_UNARY(name, ...) name,
#define WINDROW_BINARY(name, ...) name,
#define WINDROW_TERNARY(name, ...) name,
#define WINDROW_QUINARY(name, ...) name,
#define WINDROW_COMPARE(name, ...) name,
#define WINDROW_LOGIC(name, ...) name,
#include "windrow/elementwise.def"
  where,
  cast,
  input,
  state,
  constant,
  iota,
  reduce_sum,
  reduce_max,
  reduce_min,
  reduce_prod,
  reduce_argmax,
  reduce_argmin,
  einsum,
  reshape,
  permute,
  broadcast,
  slice,
  concat,
  pad,
  gather,
  scatter_add,
  take_along,
  put_along,
  one_hot,
  embedding_sum,
  embedding_grad,
  unfold,
  fold,
  max_pool_pick,
  max_pool_scatter,
  gates,
  gates_grad_x,
  gates_grad_coefficients,
  neighbours,
  neighbours_sum,
  random,
  stop_gradient,
  custom_gradient,
  lane_sum,  // made by the planner: the sum, in fixed order, of what each lane has accumulated
};
inline constexpr int kOps = static_cast<int>(Op::lane_sum) + 1;

/// Fixed numbers and text of a node; each op says what they mean.
struct Attrs {
  Numbers ints;
  std::vector<double> reals;
  std::string text;
  friend bool operator==(const Attrs&, const Attrs&) = default;
};

/// How the axes of one operand correspond to the axes of the result. An entry is the result's axis that this operand's
/// axis runs along one to one, or one of:
inline constexpr int kWhole = -1;  // every result row needs the whole axis
inline constexpr int kReduced =
    -100;  // kReduced - g: summed (or maximised, ...) over together with group g of the others
struct AxisMap {
  std::vector<Dims> operand;
  Dims free = {};  // axes of the result of which any part can be made, though no operand runs along them
};

class Node;
struct Gradient {
  std::vector<Tensor> in;
  Tensor out;
  Tensor g;
  const Attrs& attrs;
};

struct OpDef {
  Op op;
  std::string_view name;
  /// The result's type; throws Error with a message that starts after the op's name.
  Spec (*infer)(std::span<const Spec> in, const Attrs& attrs);
  AxisMap (*axes)(const Spec& out, std::span<const Spec> in, const Attrs& attrs);
  /// One tensor an operand; empty ones where no gradient flows.
  std::vector<Tensor> (*gradient)(const Gradient& of);
  std::string_view doc;
};

/// The definition of an op, and the op of a name (nullptr if there is none).
const OpDef& definition(Op op);
const OpDef* find_op(std::string_view name);

constexpr bool is_elementwise(Op op) { return op <= Op::cast; }
/// One of the rows of elementwise.def.
constexpr bool is_formula(Op op) { return op < Op::where; }
constexpr bool is_leaf(Op op) { return op == Op::input || op == Op::state || op == Op::constant; }
/// Ops that only rearrange how the same elements are addressed.
constexpr bool is_view(Op op) {
  return op == Op::reshape || op == Op::permute || op == Op::broadcast || op == Op::slice || op == Op::stop_gradient;
}

}  // namespace wr::ir
