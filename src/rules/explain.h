// Witnesses: why a tuple was derived, as a tree of rules and facts.
#pragma once

#include <functional>
#include <string>

#include "rules/solve.h"

namespace wr::rules {

/// The value of a tuple in the semantics that is asked for.
using ValueOf = std::function<double(int predicate, const std::vector<Value>& tuple)>;

/// The tree for one tuple. The solver has run with ranks kept. With values, a tuple's best witness is shown, and the
/// value behind each line.
std::string explain_tuple(const Checked& program, const CoreProgram& core, Solver& solver, int predicate,
                          const std::vector<Value>& tuple, const ValueOf& value_of = {});

}  // namespace wr::rules
