// Along which axes a scan can be cut: those along which all of its body can, at every moment.
#pragma once

#include <vector>

#include "ir/attributes.h"
#include "ir/graph.h"

namespace wr::ir {

/// Axes of the body's values that run along one another. Rows of them need nothing of other rows, so a strip of rows
/// can go through all moments.
struct ScanRows {
  /// How each node of the body is cut: along one of its axes, reduced over the rows of its operands by that group of
  /// its op (then it is an output and nothing else), or not at all.
  std::vector<AxisTo> node;
};

struct ScanAxes {
  std::vector<ScanRows> rows;
};

/// Those of a scan with these attributes. Computed once.
const ScanAxes& scan_axes(const Attrs& attrs);

/// The rows that a cut along an axis of the first result stands for; null where it is none.
const ScanRows* scan_rows(const Attrs& attrs, int axis_of_first);

/// Whether what an op reduces adds up, as sums and products do and maxima do not.
bool adds_up(Op op);
/// Whether a node's value is such a sum: its kernel can add it to what stands in its place.
bool can_accumulate(const Graph& graph, int id);

}  // namespace wr::ir
