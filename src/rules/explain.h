// Witnesses: why a tuple was derived, as a tree of rules and facts.
#pragma once

#include <functional>
#include <string>

#include "rules/solve.h"

namespace wr::rules {

/// What tuples are worth in real-valued semantics.
struct Worth {
  std::function<double(int predicate, const std::vector<Value>& tuple)> of;
  Semantics semantics = Semantics::boolean;
  /// True where a value is that of one witness, the best: it can be shown.
  bool is_of_one() const {
    return semantics == Semantics::godel || semantics == Semantics::maxprod || semantics == Semantics::minplus;
  }
};

/// The tree for one tuple. The solver has run with ranks kept. With values, a tuple's best witness is shown, and the
/// value before each line.
std::string explain_tuple(const Checked& program, const CoreProgram& core, Solver& solver, int predicate,
                          const std::vector<Value>& tuple, const Worth& worth = {});

}  // namespace wr::rules
