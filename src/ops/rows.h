// The rows of rows.def as something to iterate.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/graph.h"

namespace wr::ops {

/// One value a row, in the order of rows.def.
enum class RowOp : std::uint8_t {
#define WINDROW_ROW(name, ...) name,
#include "ir/rows.def"
};

/// What an operand or a result is to the rows.
enum class RowPart : char { value = 'v', number = 'r', label = 'l', column = 'c', total = 't' };

/// The facts of a row.
struct RowFacts {
  std::string_view name, doc;
  std::string_view operands;        ///< by name, separated by commas
  std::string_view parts, results;  ///< what each operand and each result is: a RowPart a letter
  int flops = 0;                    ///< an element
  bool exponential = false;

  RowPart part(std::size_t operand) const { return static_cast<RowPart>(parts[operand]); }
  RowPart result(std::size_t number) const { return static_cast<RowPart>(results[number]); }
};

std::span<const RowFacts> row_ops_facts();
inline const RowFacts& facts_of(RowOp op) { return row_ops_facts()[static_cast<std::size_t>(op)]; }
inline RowOp row_op(ir::Op op) { return static_cast<RowOp>(static_cast<int>(op) - static_cast<int>(ir::kFirstRowOp)); }

/// Norms have it in attrs.reals[0].
inline double epsilon_of(const ir::Attrs& attrs) { return attrs.reals.empty() ? 0 : attrs.reals[0]; }

}  // namespace wr::ops
