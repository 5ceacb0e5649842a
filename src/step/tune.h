// Choosing a plan by measuring: the few that are estimated to be fastest are timed, and the winner is remembered.
#pragma once

#include <string>
#include <string_view>

#include "backend/backend.h"
#include "plan/schedule.h"

namespace wr {

/// WINDROW_TUNE=1.
bool tune_by_environment();

/// The schedule whose runs take least, on memory of its own: states keep their values. What was found for the same
/// graph, machine, target and number of threads is taken from the folder; one that cannot be read or written is done
/// without.
plan::Schedule tuned(const ir::Graph& graph, const plan::Options& options, const backend::Backend& backend,
                     std::string_view target, int threads, const std::string& folder);

}  // namespace wr
