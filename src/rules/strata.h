// The order in which predicates can be computed.
#pragma once

#include "rules/check.h"

namespace wr::rules {

/// Fills components and component_of. Throws Error where a cycle goes through a negation.
void find_strata(Checked& program);
/// True if `?r` in a rule for `head` may be this relation: the same domains, given by facts or data.
bool matches_choice(const Checked& program, const Atom& choice, int predicate, int head);

}  // namespace wr::rules
