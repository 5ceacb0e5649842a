// What plans are made for: which SIMD targets there are, and what of a plan another computer must know to make the
// same.
#pragma once

#include <string>
#include <vector>

#include "windrow/step.h"

namespace wr {

/// The SIMD targets this build and this machine can run, weakest first.
std::vector<std::string> simd_targets();

/// CompileOptions with these give the same plan, and so the same bits, wherever the SIMD target is to be had.
struct PlannedFor {
  int lanes = 0;
  std::string machine = {}, simd = {};  // a description, and the name of a target
};
/// Of the plan that ran last; of none (no lanes) while a step with open sizes has not run.
PlannedFor planned_for(const Step& step);

}  // namespace wr
