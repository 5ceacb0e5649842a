// Queries that derive only what they ask for: rules are rewritten so that a relation is computed for the constants that
// are demanded of it ("magic sets").
#pragma once

#include <set>

#include "rules/core.h"

namespace wr::rules {

/// A program with the same answers to its query. What is negated or counted, what is asked without any constant, and
/// `whole` are still derived whole.
CoreProgram demanded(const CoreProgram& program, const std::set<int>& whole = {});

}  // namespace wr::rules
