// What an op is to the graph: its name, how its result's type follows from its operands', how axes correspond, its
// gradient. The ops themselves are defined in src/ops, one file a family.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
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
#define WINDROW_UPDATE(name, ...) name,
#include "ir/updates.def"
#define WINDROW_UPDATE(name, ...) name##_rows,
#include "ir/updates.def"
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
  contract,
  contract_share,
  contract_grad,
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
  index_order,
  unfold,
  fold,
  max_pool_pick,
  max_pool_scatter,
  conv,
  conv_grad_x,
  conv_grad_w,
  gates,
  gates_grad_x,
  gates_grad_coefficients,
  gates_grad,
  neighbours,
  neighbours_sum,
  lstm,
  lstm_grad,
  gru,
  gru_grad,
#define WINDROW_ROW(name, ...) name,
#include "ir/rows.def"
  attention,
  attention_grad,
  random,
  stop_gradient,
  custom_gradient,
  scan,
  result,    // a further result of an op that has several
  lane_sum,  // made by the planner: the sum, in fixed order, of what each lane has accumulated
};
inline constexpr int kOps = static_cast<int>(Op::lane_sum) + 1;

class Graph;

/// Fixed numbers and text of a node; each op says what they mean. An op that repeats something has the graph of it.
struct Attrs {
  Numbers ints;
  std::vector<double> reals;
  std::string text;
  std::shared_ptr<const Graph> body = nullptr;
  friend bool operator==(const Attrs& a, const Attrs& b) {
    return a.ints == b.ints && a.reals == b.reals && a.text == b.text && same_body(a, b);
  }
  static bool same_body(const Attrs& a, const Attrs& b);
};

/// Where an axis of an operand goes.
class AxisTo {
 public:
  /// Nowhere: every row of the result needs the whole axis.
  constexpr AxisTo() = default;
  /// One to one along an axis of the result.
  constexpr AxisTo(std::int64_t axis)  // NOLINT(google-explicit-constructor): maps are lists of axes
      : kind_(Kind::along), index_(static_cast<std::int16_t>(axis)) {}
  /// Away: summed (or maximised, ...) over together with the axes of the same group of other operands.
  static constexpr AxisTo reduced(int group = 0) { return {Kind::reduced, group}; }

  constexpr bool is_whole() const { return kind_ == Kind::whole; }
  constexpr bool is_along() const { return kind_ == Kind::along; }
  constexpr bool is_reduced() const { return kind_ == Kind::reduced; }
  constexpr int axis() const { return index_; }
  constexpr int group() const { return index_; }
  friend constexpr bool operator==(AxisTo, AxisTo) = default;

 private:
  enum class Kind : std::uint8_t { whole, along, reduced };
  constexpr AxisTo(Kind kind, int index) : kind_(kind), index_(static_cast<std::int16_t>(index)) {}
  Kind kind_ = Kind::whole;
  std::int16_t index_ = 0;
};
inline constexpr AxisTo kWhole;

/// Where each axis of an operand goes; held in place.
class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<AxisTo> axes) {
    for (AxisTo to : axes) push_back(to);
  }
  constexpr Axes(int rank, AxisTo to) {
    for (int i = 0; i < rank; ++i) push_back(to);
  }
  constexpr int rank() const { return rank_; }
  constexpr AxisTo operator[](int axis) const { return to_[axis]; }
  constexpr AxisTo& operator[](int axis) { return to_[axis]; }
  constexpr const AxisTo* begin() const { return to_.data(); }
  constexpr const AxisTo* end() const { return to_.data() + rank_; }
  constexpr void push_back(AxisTo to) { to_[rank_++] = to; }
  constexpr bool contains(AxisTo to) const { return std::find(begin(), end(), to) != end(); }
  friend constexpr bool operator==(const Axes& a, const Axes& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<AxisTo, kMaxRank> to_{};
  int rank_ = 0;
};

/// How the axes of the operands correspond to the axes of the result.
struct AxisMap {
  std::vector<Axes> operand;
  Dims free = {};  // axes of the result of which any part can be made, though no operand runs along them
};

class Node;
struct Gradient {
  std::vector<Tensor> in;
  Tensor out;
  Tensor g;  // by `out`; zeros where only further results lead to the loss
  const Attrs& attrs;
  std::vector<Tensor> further = {};  // by the further results; empty ones where none flows
};

/// The results of an op beside its first, numbered from 1. Each is a node of its own, an Op::result whose operand is
/// the op's node and whose attrs.ints[0] is its number; the call that makes the first result makes them all.
struct FurtherResults {
  int count;  // or as `counted` says
  Spec (*infer)(int number, std::span<const Spec> in, const Attrs& attrs);
  /// `out` is the first result's type. A further one may be summed over an axis that it is cut along, not the reverse.
  AxisMap (*axes)(int number, const Spec& out, std::span<const Spec> in, const Attrs& attrs);
  int (*counted)(const Attrs& attrs) = nullptr;

  int of(const Attrs& attrs) const { return counted ? counted(attrs) : count; }
};

/// What planner and passes need to know of an op beside its axes.
struct Traits {
  bool commutative = false;  // the two operands may be exchanged
  bool any_part = false;     // any part of the result can be made along any axis, whatever the operands
  bool reduction = false;    // over the axes in attrs.ints, of the only operand
  bool sweep = false;        // costs about as much as reading its operands
  bool in_place = false;     // a row of a result may be written over the row of an operand that it is made of
  bool by_row = false;       // an element needs its whole row, the last axis
  bool heavy = false;        // an element takes a polynomial or more, not one or two operations
  bool arithmetic = false;   // its time is arithmetic; operands that are needed whole are read again by every strip
  /// Kernels whose vectors run along the rows: strips of a multiple of so many rows, and of so many at most (0: any).
  int rows_together = 1, most_rows = 0;
  /// Floating-point operations of one evaluation; null for none worth counting.
  double (*flops)(const Spec& out, std::span<const Spec> in, const Attrs& attrs) = nullptr;
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
  const FurtherResults* further = nullptr;
  Traits traits = {};
};

/// The definition of an op, and the op of a name (nullptr if there is none).
const OpDef& definition(Op op);
const OpDef* find_op(std::string_view name);

constexpr bool is_elementwise(Op op) { return op <= Op::cast; }
/// One of the rows of elementwise.def.
constexpr bool is_formula(Op op) { return op < Op::where; }
/// One of the rows of updates.def, with a gradient for every element or (the op's number plus kUpdates) for some rows.
inline constexpr int kUpdates = (static_cast<int>(Op::input) - static_cast<int>(Op::cast) - 1) / 2;
constexpr bool is_update(Op op) {
  return op > Op::cast && static_cast<int>(op) <= static_cast<int>(Op::cast) + kUpdates;
}
constexpr bool is_update_of_rows(Op op) { return op < Op::input && op > Op::cast && !is_update(op); }
constexpr Op update_of_rows(Op update) { return static_cast<Op>(static_cast<int>(update) + kUpdates); }
/// One of the rows of rows.def.
inline constexpr Op kFirstRowOp = static_cast<Op>(static_cast<int>(Op::gru_grad) + 1);
constexpr bool is_row_op(Op op) { return op >= kFirstRowOp && op < Op::attention; }
constexpr bool is_leaf(Op op) { return op == Op::input || op == Op::state || op == Op::constant; }
/// Ops that only rearrange how the same elements are addressed.
constexpr bool is_view(Op op) {
  return op == Op::reshape || op == Op::permute || op == Op::broadcast || op == Op::slice || op == Op::stop_gradient;
}

}  // namespace wr::ir
