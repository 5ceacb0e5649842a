// Rules in the small form that the solver runs: conjunctions of atoms, negated atoms and conditions, with variables and
// constants as numbers. Disjunctions have become several rules, quantifiers and counts predicates of their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rules/check.h"
#include "rules/rows.h"

namespace wr::rules {

struct CoreTerm {
  bool constant = false;
  int index = 0;  // the constant's number, or the variable's
};

struct CoreAtom {
  int predicate = 0;
  std::vector<CoreTerm> terms;
};

/// value(left) + left_shift  compare  value(right) + right_shift
struct Condition {
  enum class Compare { eq, ne, lt, le, gt, ge };
  Compare compare = Compare::eq;
  CoreTerm left, right;
  double left_shift = 0, right_shift = 0;
  bool by_number = false;                    // compares the constants' values, not their identity
  double left_number = 0, right_number = 0;  // of constants, where by_number
};

template <class Number>
bool holds(Number a, Condition::Compare compare, Number b) {
  switch (compare) {
    case Condition::Compare::eq:
      return a == b;
    case Condition::Compare::ne:
      return a != b;
    case Condition::Compare::lt:
      return a < b;
    case Condition::Compare::le:
      return a <= b;
    case Condition::Compare::gt:
      return a > b;
    case Condition::Compare::ge:
      return a >= b;
  }
  return false;
}

struct CoreRule {
  CoreAtom head;
  std::vector<CoreAtom> body, negated;
  /// Negated too, but by degrees: they exclude nothing. Only explanations know them.
  std::vector<CoreAtom> doubted;
  std::vector<Condition> conditions;
  std::vector<int> domains;        // of the variables
  std::vector<std::string> names;  // of the variables, as written
  int statement = -1;              // the one it came from
};

/// head(x..) holds where the number of tuples (x.., y..) of `source` compares as asked.
struct CoreCount {
  int head = 0, source = 0;
  Condition::Compare compare = Condition::Compare::ge;
  std::int64_t number = 0;
};

struct CorePredicate {
  std::string name;
  std::vector<int> domains;
  bool hidden = false;  // made here
  int facts_of = -1;    // holds the facts of that predicate, without what its rules derive
  int part_of = -1;     // holds those of that predicate's tuples that are demanded
};

struct Core {
  std::vector<CorePredicate> predicates;  // the program's own first, with the same numbers
  std::vector<CoreRule> rules;
  std::vector<CoreCount> counts;
  /// What is computed together, in order: rules and counts by number.
  struct Stage {
    std::vector<int> predicates, rules, counts;
  };
  std::vector<Stage> stages;
};

/// All rules; `query`, if it is not -1, is a statement whose answers become the predicate `answer`.
struct CoreProgram : Core {
  int answer = -1;
  std::vector<std::string> answer_names;
};
CoreProgram to_core(const Checked& program, int query = -1);

/// A conjunction of positive atoms, in their order, and of the comparisons whose variables these have; with a head or
/// without.
struct CoreConjunction {
  CoreRule rule;
  std::map<std::string, int> variables;  // by name, as the checker has them
};
CoreConjunction conjunction(const Checked& program, int statement, const Atom* head,
                            const std::vector<const Atom*>& atoms, const std::vector<const Formula*>& comparisons);

}  // namespace wr::rules
