// What lowering asks of a device: which kernels make a node's results of some operands.
#pragma once

#include <vector>

#include "lower/emitter.h"
#include "plan/cut.h"

namespace wr::lower {

/// Where a result goes.
struct Destination {
  View view;
  bool accumulate = false;  // added to what stands there: a total that was begun before
};

/// A node's results, of a strip's rows or whole.
struct Work {
  const ir::Graph& graph;
  int id;
  plan::Cut cut;
  std::vector<Destination> out;  // the first result, then the further ones
  std::vector<View> in;
  // Of lane_sum: the only operand is the first lane's part; the others follow at this distance.
  int lanes = 1;
  std::int64_t lane_bytes = 0;

  const ir::Node& node() const { return graph[id]; }
};

class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Emits the calls that do the work, with copies and scratch as its kernels need them.
  virtual void make(const Work& work, Emitter& emit) = 0;
  /// Emits a copy between views of one type and shape.
  virtual void copy(const View& to, const View& from, Emitter& emit) = 0;
};

}  // namespace wr::lower
