// The parts of statements by recursive descent: atoms and terms, formulas, expressions.
#pragma once

#include "rules/cursor.h"

namespace wr::rules {

/// Variables begin with a small letter or are `_`.
bool is_variable(const std::string& name);

class BodyParser : public Cursor {
 protected:
  using Cursor::Cursor;
  Atom atom();
  Formula formula();
  Expr expression();

 private:
  Term term(bool index);
  void after_variable(Term& t, bool index);

  // formulas: implication < disjunction < conjunction < literal
  Formula disjunction();
  Formula conjunction();
  template <class Next>
  Formula chain(std::string_view mark, Formula::Kind kind, Next next);
  Formula literal();
  Formula negated(Formula& f);
  Formula quantified(Formula& f);
  std::vector<std::string> variables();
  std::string comparison();

  // expressions: sum < product < sign < power < primary
  Expr pair(Expr::Kind kind, Place place, Expr a, Expr b);
  bool starts_primary() const;
  Expr product();
  Expr sign();
  Expr power();
  Expr primary();
  /// True at `x, y :`, the variables of an aggregate.
  bool variables_follow() const;
  Expr call(Expr& e);
};

}  // namespace wr::rules
