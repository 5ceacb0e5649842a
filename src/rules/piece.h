// Tensors whose axes have names, the variables of a rule or equation; and what the semantics make of them.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "windrow/rules.h"
#include "windrow/tensor.h"

namespace wr::rules {

using Axis = std::string;

struct Piece {
  Tensor tensor;
  std::vector<Axis> axes;
  std::int64_t size_of(const Axis& axis) const;  // -1 if it has no such axis
};

/// The union of axes, in the order of first use.
std::vector<Axis> all_axes(const std::vector<Piece>& pieces);
/// The piece with its axes in that order; those it lacks have size 1.
Tensor aligned(const Piece& piece, const std::vector<Axis>& axes);
/// The piece with exactly these axes, repeated along those it lacks; sizes as in `like`.
Tensor broadcast(const Piece& piece, const std::vector<Axis>& axes, const Shape& shape);
/// Summed over every axis that is not in `out`.
Piece einsum_of(const std::vector<Piece>& parts, const std::vector<Axis>& out);
/// Elementwise, over the union of axes.
template <class Op>
Piece elementwise(const Piece& a, const Piece& b, Op op) {
  const std::vector<Axis> axes = all_axes({a, b});
  return {op(aligned(a, axes), aligned(b, axes)), axes};
}
/// Positions of axes.
std::vector<int> positions(const Piece& piece, const std::vector<Axis>& axes);
std::vector<Axis> without(const std::vector<Axis>& axes, const std::vector<Axis>& gone);

/// Thrown where a join has to be held in memory and is larger than allowed.
struct TooManyCells {
  double cells;
};

/// Thrown where a formula or an expression asks for what its semantics, or tensors, cannot do; who traces the statement
/// knows its place.
struct Misuse {
  std::string what;
};

/// The connectives of one semantics.
class Logic {
 public:
  Logic(Semantics semantics, DType dtype, double most_cells = std::numeric_limits<double>::infinity())
      : semantics_(semantics), dtype_(dtype), most_cells_(most_cells) {}
  Semantics semantics() const { return semantics_; }
  /// The value of what is false: 0, or infinity where values are costs.
  double falsehood() const;
  double truth() const { return semantics_ == Semantics::minplus ? 0 : 1; }
  /// True where "or" is a sum, perhaps clipped.
  bool adds_up() const { return semantics_ == Semantics::sum || semantics_ == Semantics::lukasiewicz; }
  Tensor clipped(const Tensor& sum) const;

  Piece both(const Piece& a, const Piece& b) const;
  Piece either(const Piece& a, const Piece& b) const;
  Piece negation(const Piece& a) const;
  Piece weighted(const Piece& a, const Tensor& weight) const;
  /// Implication by name; "" is the semantics' own.
  Piece implies(const Piece& a, const Piece& b, const std::string& name) const;
  /// exists y.. : all of the parts; the y.. are the axes that are not in `out`. No join is built that is not needed.
  Piece exists(std::vector<Piece> parts, const std::vector<Axis>& out) const;
  Piece forall(const Piece& a, const std::vector<Axis>& gone) const;

 private:
  Tensor meet(const Tensor& a, const Tensor& b) const;
  Tensor join(const Tensor& a, const Tensor& b) const;
  Tensor some(const Tensor& a, const std::vector<int>& axes) const;
  Piece joint(std::vector<Piece> parts, const std::vector<Axis>& out) const;
  Piece one_by_one(std::vector<Piece> parts, const std::vector<Axis>& out) const;
  Piece contracted(const Piece& a, const Piece& b, const std::vector<Axis>& out) const;
  Piece p_mean(const std::vector<Piece>& parts, const std::vector<Axis>& out) const;

  Semantics semantics_;
  DType dtype_;
  double most_cells_;
};

}  // namespace wr::rules
