// Random steps, planned, fused and run, against the interpreter on the graph as it was traced: results, gradients and
// what is left in the states. WINDROW_RANDOM_GRAPHS sets how many, WINDROW_RANDOM_SEED replays one seed.
#pragma once

#include "backend/backend.h"

namespace wr::test {

/// Expects that all of them are right, on a device or (null) on the CPU.
void run_random_steps(unsigned first, unsigned count, const backend::Backend* device = nullptr);

}  // namespace wr::test
