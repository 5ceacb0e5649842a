// What a program of rules is made of, as it was written: terms, atoms, formulas, expressions, statements, each with its
// place in the text. The parser makes them, the formatter prints them, the checker gives them meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace wr::rules {

struct Place {
  int line = 0, column = 0;  // from 1; 0: not in the text
  bool in_query = false;     // of a query that was asked, not of the program
};

/// An argument of a relation or an index of a tensor.
struct Term {
  enum class Kind { variable, constant, number, anything, slice };
  Kind kind = Kind::variable;
  std::string text;         // the variable or constant; for numbers as written
  std::int64_t number = 0;  // a number; where a slice begins
  std::int64_t stop = 0;    // where a slice ends
  char op = 0;              // x + 1, x - 1, x + dx, x / 2: 0 for none
  std::string other;        // the variable right of op; empty: the number `amount`
  std::int64_t amount = 0;
  bool normalised = false;     // t.
  bool virtual_index = false;  // *t
  Place place;
};

struct Atom {
  std::string name;
  bool tensor = false;  // [] instead of ()
  bool choice = false;  // ?r: a learned mixture of relations
  std::vector<Term> terms;
  Place place;
};

/// Real-valued expressions, on the right of tensor equations.
struct Expr {
  enum class Kind { number, index, reference, negate, add, subtract, multiply, divide, power, call, aggregate };
  Kind kind = Kind::number;
  double number = 0;
  std::string name;                    // of an index variable, a function or an aggregate
  Atom atom;                           // of a reference
  std::vector<std::string> variables;  // an aggregate's own
  std::vector<Expr> parts;
  Place place;
};

/// Bodies of rules, queries and constraints.
struct Formula {
  enum class Kind { truth, atom, compare, negation, conjunction, disjunction, implication, exists, forall, count };
  Kind kind = Kind::truth;
  Atom atom;
  Term left, right;                    // of a comparison; right: what a count is compared with
  std::string compare;                 // = != < <= > >=
  std::vector<std::string> variables;  // of a quantifier or count
  std::vector<Formula> parts;
  Place place;
};

struct Option {
  std::string name, value;
  Place place;
};

struct Statement {
  enum class Kind { domain, relation, tensor, fact, rule, equation, query, constraint, directive };
  Kind kind = Kind::fact;
  Place place;
  int last_line = 0;
  std::string name;  // domain, relation, tensor or directive
  // domain
  bool open = false;       // no list of names: it grows with the data
  std::int64_t size = -1;  // numbers 0 .. size - 1
  std::vector<std::string> names;
  std::string file;  // a file of names; @load's file
  // relation and tensor
  std::vector<std::string> domains;
  std::vector<Place> domain_places;
  bool input = false, learn = false;
  // fact, rule, equation
  Atom head;
  bool weighted = false, learned_weight = false;
  double weight = 1;
  Formula body;        // also of queries and constraints
  std::string assign;  // = += max= min= avg=
  Expr value;
  std::string semantics;  // @ product; a constraint's implication
  Place semantics_place;
  bool has_temperature = false;
  double temperature = 0;
  // directive
  std::vector<Option> options;
};

struct Comment {
  std::string text;  // from the # on
  int line = 0;
};

struct Syntax {
  std::string name;  // of the file, for messages
  std::vector<Comment> comments;
  std::vector<Statement> statements;
};

/// Throws Error `kin.wr:3:14: ...` at the first mistake.
Syntax parse_text(std::string_view text, const std::string& name);
/// A query by itself, with or without `?-` and the dot. Errors are `query:1:14: ...`.
Statement parse_query(std::string_view text);
/// One statement in the standard layout; parsing it gives the same statement.
std::string format(const Statement& statement);
std::string format(const Formula& formula);
std::string format(const Expr& expr);
std::string format(const Atom& atom);
std::string format(const Term& term);
/// A constant as the language writes it: with quotes where it needs them.
std::string quoted_constant(std::string_view name);

[[noreturn]] void fail_at(const std::string& file, Place place, const std::string& message);

}  // namespace wr::rules
