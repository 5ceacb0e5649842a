// What cells know: which of them no rule could tell apart.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/automaton/rollout.h"

namespace wr::apps {

/// For each step and each bit of a plane a number that says what the update's first layer reads there: the same for two
/// cells that nothing tells apart. 64 of each word, those outside of the grid are 0.
std::vector<std::uint64_t> kinds_of(const BitRollout& rollout);
/// Shown bits that are wrong however the last step's gates are chosen: the least there can be where cells that read the
/// same are to show different things.
std::int64_t untold_cells(const BitRollout& rollout);

}  // namespace wr::apps
