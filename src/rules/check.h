// The checker: gives every name its meaning (domains, arities, constants) and refuses programs that have none: unsafe
// rules, negation in a cycle, domains that do not fit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "rules/syntax.h"
#include "windrow/array.h"

namespace wr::rules {

inline constexpr std::int64_t kLargestDomain = (std::int64_t{1} << 31) - 1;

struct Domain {
  std::string name;
  bool numbers = false;  // 0 .. size - 1, without names
  bool open = false;     // grows with facts and data
  std::int64_t size = 0;
  std::vector<std::string> names;
  std::unordered_map<std::string, std::int64_t> index;
  bool ordered = true;  // all names are numbers: they can be compared
  Place place;

  std::string name_of(std::int64_t i) const { return numbers ? std::to_string(i) : names[i]; }
  /// -1 if it is none of them.
  std::int64_t find(const std::string& constant) const;
  /// The constant as a number, where the domain is ordered.
  double value_of(std::int64_t i) const;
  std::int64_t add(const std::string& constant);
};

struct Predicate {
  std::string name;
  bool tensor = false;
  std::vector<int> domains;
  bool declared = false, input = false, learn = false;
  bool defined = false;  // by rules or equations
  Place place;           // where it was declared or first used
};

/// Facts that came from elsewhere than the text.
struct Table {
  std::vector<std::vector<std::string>> rows;
  std::vector<double> weights;  // empty: all 1
  std::string origin;           // for messages
};
struct Data {
  std::map<std::string, std::vector<Table>> tables;
  std::map<std::string, Array> arrays;
};

struct Checked {
  Syntax syntax;  // quantified variables have names of their own: y#2
  std::vector<Domain> domains;
  std::vector<Predicate> predicates;
  std::unordered_map<std::string, int> ids;
  /// A statement's variables and their domains.
  std::vector<std::map<std::string, int>> variables;
  /// Predicates in the order in which they can be computed; those that need each other stand together.
  std::vector<std::vector<int>> components;
  std::vector<int> component_of;  // a predicate's

  int id(const std::string& name) const {
    const auto found = ids.find(name);
    return found == ids.end() ? -1 : found->second;
  }
};

/// Throws Error at the first mistake. `folder` is where files named in the program are found.
Checked check(Syntax syntax, const Data& data, const std::string& folder);

/// Calls fn(atom, negative) for every atom of a formula, an expression or a statement's right side; negative: under a
/// negation, a count or a forall, so that more of it can mean less of the whole.
template <class Fn>
void for_each_atom(const Formula& f, bool negative, Fn&& fn) {
  if (f.kind == Formula::Kind::atom) fn(f.atom, negative);
  const bool turns = f.kind == Formula::Kind::negation || f.kind == Formula::Kind::count ||
                     f.kind == Formula::Kind::forall || f.kind == Formula::Kind::implication;
  for (const Formula& part : f.parts) for_each_atom(part, negative || turns, fn);
}
template <class Fn>
void for_each_atom(const Expr& e, Fn&& fn) {
  if (e.kind == Expr::Kind::reference) fn(e.atom, false);
  for (const Expr& part : e.parts) for_each_atom(part, fn);
}

}  // namespace wr::rules
