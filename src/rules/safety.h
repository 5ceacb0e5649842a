// Safe rules: every variable of the head, of a negation and of a comparison is bound by a positive literal.
#pragma once

#include "rules/check.h"

namespace wr::rules {

/// Throws Error where the statement, a rule, query or constraint, is not safe.
void check_safety(const Checked& program, const Statement& statement);

}  // namespace wr::rules
