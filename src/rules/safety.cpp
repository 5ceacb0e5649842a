#include "rules/safety.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace wr::rules {
namespace {

using Names = std::set<std::string>;

std::string shown(const std::string& variable) { return variable.substr(0, variable.find('#')); }

/// The variables that a formula binds: those for which it can only hold for some values.
Names bound_by(const Formula& f) {
  Names names;
  switch (f.kind) {
    case Formula::Kind::atom:
      for (const Term& t : f.atom.terms)
        if (t.kind == Term::Kind::variable) names.insert(t.text);
      break;
    case Formula::Kind::conjunction:
      for (const Formula& part : f.parts) names.merge(bound_by(part));
      for (bool more = true; more;) {  // x = y binds the one by the other
        more = false;
        for (const Formula& part : f.parts)
          if (part.kind == Formula::Kind::compare && part.compare == "=") {
            const bool l = part.left.kind != Term::Kind::variable || names.contains(part.left.text);
            const bool r = part.right.kind != Term::Kind::variable || names.contains(part.right.text);
            if (l != r) {
              names.insert(l ? part.right.text : part.left.text);
              more = true;
            }
          }
      }
      break;
    case Formula::Kind::disjunction:
      for (std::size_t i = 0; i < f.parts.size(); ++i) {
        const Names next = bound_by(f.parts[i]);
        if (i == 0)
          names = next;
        else
          std::erase_if(names, [&](const std::string& n) { return !next.contains(n); });
      }
      break;
    case Formula::Kind::exists:
      names = bound_by(f.parts[0]);
      for (const std::string& v : f.variables) names.erase(v);
      break;
    case Formula::Kind::compare:
      if (f.compare == "=" && f.left.kind == Term::Kind::variable && f.right.kind != Term::Kind::variable)
        names.insert(f.left.text);
      if (f.compare == "=" && f.right.kind == Term::Kind::variable && f.left.kind != Term::Kind::variable)
        names.insert(f.right.text);
      break;
    default:
      break;
  }
  return names;
}

void check_bound(const Checked& program, const Term& t, const Names& bound, std::string_view what) {
  if (t.kind == Term::Kind::variable && !bound.contains(t.text))
    fail_at(program.syntax.name, t.place,
            fmt::format("variable '{}' of {} stands in no positive literal of the body", shown(t.text), what));
}

void check_formula(const Checked& program, const Formula& f, Names bound) {
  switch (f.kind) {
    case Formula::Kind::negation: {
      // The variables of a negated atom are given from outside; those of `_` and quantifiers are not asked for.
      for_each_atom(f.parts[0], true, [&](const Atom& a, bool) {
        if (f.parts[0].kind != Formula::Kind::atom) return;
        for (const Term& t : a.terms) check_bound(program, t, bound, "a negated literal");
      });
      break;
    }
    case Formula::Kind::compare:
      check_bound(program, f.left, bound, "a comparison");
      check_bound(program, f.right, bound, "a comparison");
      break;
    case Formula::Kind::exists:
    case Formula::Kind::forall:
    case Formula::Kind::count:
      // A quantified variable ranges over its domain; that domain must be known by some use of it.
      for (const std::string& v : f.variables) bound.insert(v);
      break;
    default:
      break;
  }
  Names inner = bound;
  inner.merge(bound_by(f));
  for (const Formula& part : f.parts) check_formula(program, part, inner);
}

}  // namespace

void check_safety(const Checked& program, const Statement& s) {
  if (s.kind != Statement::Kind::rule && s.kind != Statement::Kind::query) return;
  const Names bound = bound_by(s.body);
  if (s.kind == Statement::Kind::rule)
    for (const Term& t : s.head.terms) {
      if (t.kind == Term::Kind::anything)
        fail_at(program.syntax.name, t.place, "'_' cannot stand in the head of a rule");
      check_bound(program, t, bound, "the head");
    }
  check_formula(program, s.body, bound);
}

}  // namespace wr::rules
