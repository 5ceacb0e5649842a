// From schedule to program, for any device: homes of values, views of operands, blocks, scratch memory, commits.
#pragma once

#include "lower/kernels.h"
#include "lower/program.h"
#include "plan/schedule.h"

namespace wr::lower {

/// The schedule may go afterwards: the program holds all it needs.
Program lower(const plan::Schedule& schedule, Kernels& kernels);

}  // namespace wr::lower
