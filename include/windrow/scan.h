// Loops in a step: recurrent cells, rollouts and the like, whose body is traced and compiled once, whatever the number
// of steps.
#pragma once

#include "windrow/tensor.h"

namespace wr {

/// What a step of scan() hands on and gives; what scan() hands back.
struct Scan {
  Tensors carry;    // the new ones; of scan(): those after the last step
  Tensors outputs;  // of one step; of scan(): of all steps, stacked along the axis of time
};
using ScanBody = std::function<Scan(const Tensors& carry, const Tensors& x)>;
struct ScanOptions {
  std::int64_t steps = 0;  // where there are no sequences that say it
  int axis = 0;            // of time, in sequences and outputs
  bool reverse = false;    // from the last moment to the first; outputs stand where the inputs of their moment stood
};
/// The body is given the carried tensors and one moment of each sequence; it returns new carried tensors, of the same
/// types, and outputs. It may use tensors, states and arrays from outside. Going back, carried tensors are kept and the
/// inside of a step is computed again. A body that draws from Random or assigns to a state is refused: give random
/// numbers as a sequence, and states as carried tensors. A scan in the body of another is written out step by step.
Scan scan(const ScanBody& body, const std::vector<Tensor>& carry, const std::vector<Tensor>& sequences = {},
          const ScanOptions& options = {}, WINDROW_WHERE);

/// repeat() whose turns are all alike: a scan, so that a thousand turns are compiled as fast as ten.
Tensors repeat(int n, const std::function<std::vector<Tensor>(const Tensors&)>& body, std::vector<Tensor> carry,
               WINDROW_WHERE);

}  // namespace wr
