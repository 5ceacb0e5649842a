// A search among hard circuits that changes wires too.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/automaton/rollout.h"
#include "windrow/logic.h"

namespace wr::apps {

struct MendOptions {
  std::int64_t tries = 5000;  // at most
  std::uint64_t seed = 1;
};
struct Mended {
  std::int64_t wrong = 0;           // cells that are left
  std::vector<GateChange> changes;  // one after the other
};
/// A wrong cell is mended by a correction: somewhere on the way to it a gate that passes on one wire gets a second one
/// to read, which says "here", and changes what it passes on just there. Gates that nothing shown depends on are wired
/// to say it: each adds the value of one more wire, until no cell in no step is left in which the change would break
/// something. That works wherever a cell can be told from the others at all and some gate on the way passes on one
/// wire. Where none does, what a gate makes of two wires is made a layer lower, by idle gates, and it passes that on.
/// Where a cell cannot be told, idle gates are wired at random, which makes new signals. A correction is kept if fewer
/// cells are wrong with it. The rollout has the changes then.
Mended mend(BitRollout& rollout, const MendOptions& options = {});

/// Gives an automaton these gates: a gate's new function and its old one exchange logits.
void change_gates(logic::Automaton& automaton, const std::vector<GateChange>& changes);

}  // namespace wr::apps
