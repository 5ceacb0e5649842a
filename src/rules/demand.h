// Queries that derive only what they ask for: rules are rewritten so that a relation is computed for the constants that
// are demanded of it ("magic sets").
#pragma once

#include "rules/core.h"

namespace wr::rules {

/// A program with the same answers to its query. What is negated or counted, and what is asked without any constant, is
/// still derived whole.
CoreProgram demanded(const CoreProgram& program);

}  // namespace wr::rules
