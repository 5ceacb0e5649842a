// How a value is cut into strips, and how the cut of a node says what each of its operands brings to a strip.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.h"

namespace wr::plan {

class Cut {
 public:
  /// Not at all: computed whole, in a region of one row.
  constexpr Cut() = default;
  static constexpr Cut once() { return {}; }
  /// Rows along an axis of the value.
  static constexpr Cut along(int axis) { return {Kind::along, axis}; }
  /// A row is an element: all axes taken as one.
  static constexpr Cut flat() { return {Kind::flat, 0}; }
  /// The value is a sum (or maximum, ...) over the strips, along the operands' axes of a group; each lane has its own
  /// part.
  static constexpr Cut total(int group) { return {Kind::total, group}; }
  /// The same over flat strips: the sum of all elements.
  static constexpr Cut flat_total() { return {Kind::flat_total, 0}; }

  constexpr bool is_once() const { return kind_ == Kind::once; }
  constexpr bool is_along() const { return kind_ == Kind::along; }
  constexpr bool is_flat() const { return kind_ == Kind::flat; }
  constexpr bool is_total() const { return kind_ == Kind::total || kind_ == Kind::flat_total; }
  /// Are the strips flat?
  constexpr bool has_flat_strips() const { return kind_ == Kind::flat || kind_ == Kind::flat_total; }
  /// Of along.
  constexpr int axis() const { return index_; }
  /// Of total.
  constexpr int group() const { return index_; }

  friend constexpr bool operator==(Cut, Cut) = default;

 private:
  enum class Kind : std::uint8_t { once, along, flat, total, flat_total };
  constexpr Cut(Kind kind, int index) : kind_(kind), index_(index) {}

  Kind kind_ = Kind::once;
  int index_ = 0;
};

/// How an operand's value is cut into the rows that a strip of the node needs; nothing: every strip needs it whole.
std::optional<Cut> cut_of_operand(const ir::Graph& graph, int node, int operand, Cut cut);
/// How a further result of the node is cut; nothing: such strips cannot make it.
std::optional<Cut> cut_of_result(const ir::Graph& graph, int node, int number, Cut cut);
/// The cut that goes on along an operand's axis, by the entry of the node's axis map.
std::optional<Cut> cut_of(ir::AxisTo to);
/// Of a value that is cut along an axis, flat or not at all.
std::int64_t rows_of(const Shape& shape, Cut cut);

}  // namespace wr::plan
