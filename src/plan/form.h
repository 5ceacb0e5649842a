// The two halves of scheduling: which values go together, then which lane takes which rows in strips of what size.
#pragma once

#include "plan/classes.h"
#include "plan/schedule.h"

namespace wr::plan {

/// How far values go on in the strips they were made in.
enum class Fusion {
  strips,  // as far as axes match: through all layers
  layers,  // up to the next product, which is cut along the axis that suits it
  none     // nowhere: one op after the other
};

struct Form {
  int primary = -1;  // the class of axes to cut along where it can be; -1: outermost axes
  int lanes = 1;
  Fusion fusion = Fusion::strips;
};

/// Phases, regions and homes. Rows are not shared out yet.
Schedule form(const ir::Graph& graph, const AxisClasses& classes, const Form& form, const Machine& machine);

/// Gives each lane its rows and each region its strip size; estimates the time of the whole.
void share_out(Schedule& schedule, const Options& options);

}  // namespace wr::plan
