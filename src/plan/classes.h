// Axes that run along one another through the graph: the batch axis of every activation is one class.
#pragma once

#include <vector>

#include "base/machine.h"
#include "ir/graph.h"

namespace wr::plan {

class AxisClasses {
 public:
  AxisClasses(const ir::Graph& graph, const Machine& machine);
  /// The class of a node's axis; -1 for axes of size 1.
  int of(int node, int axis) const { return class_[first_[node] + axis]; }
  /// The classes whose strips would hold most of the work, most first; at most `most`.
  std::vector<int> heaviest(int most) const;

 private:
  std::vector<int> first_;  // of each node's axes in class_
  std::vector<int> class_;
  std::vector<double> weight_;  // by class
};

}  // namespace wr::plan
