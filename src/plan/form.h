// The two halves of scheduling: which values go together, then which lane takes which rows in strips of what size.
#pragma once

#include "plan/classes.h"
#include "plan/schedule.h"

namespace wr::plan {

/// Phases, regions and homes, preferring to cut along the axes of one class (-1: along outermost axes). Rows are not
/// shared out yet.
Schedule form(const ir::Graph& graph, const AxisClasses& classes, int primary, int lanes);

/// Gives each lane its rows and each region its strip size; estimates the time of the whole.
void share_out(Schedule& schedule, const Options& options);

}  // namespace wr::plan
