// Offsets for values that live for a while: greedy best fit by decreasing size; where there are thousands, in the
// order of time.
#pragma once

#include <cstddef>
#include <vector>

namespace wr::plan {

struct Lifetime {
  std::size_t bytes = 0;
  int begin = 0, end = 0;  // both included
  std::size_t offset = 0;  // the answer
};

struct MemoryUse {
  std::size_t bytes = 0;        // what the offsets need
  std::size_t lower_bound = 0;  // the most that is live at one time
};

/// Sets the offsets, each a multiple of 64.
MemoryUse assign_offsets(std::vector<Lifetime>& values);

}  // namespace wr::plan
