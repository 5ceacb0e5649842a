#include "rules/parse_body.h"

#include <array>

#include "base/nearest.h"
#include "rules/functions.h"

namespace wr::rules {

bool is_variable(const std::string& name) {
  return !name.empty() && ((name[0] >= 'a' && name[0] <= 'z') || name[0] == '_');
}

// ---- atoms and terms ----

Atom BodyParser::atom() {
  Atom a;
  a.place = peek().place;
  a.choice = accept("?");
  a.name = name("a relation or tensor");
  if (is("[")) {
    a.tensor = true;
  } else if (!is("(")) {
    if (a.choice) expected("'('");
    a.tensor = true;  // a tensor without indices may do without brackets
    return a;
  }
  const Nested nested(*this);
  take();
  const char* close = a.tensor ? "]" : ")";
  if (!is(close)) do
      a.terms.push_back(term(a.tensor));
    while (accept(","));
  expect(close, "or ','");
  return a;
}

Term BodyParser::term(bool index) {
  Term t;
  t.place = peek().place;
  if (index && accept("*")) t.virtual_index = true;
  const Token& token = peek();
  if (token.kind == Kind::string) {
    t.kind = Term::Kind::constant;
    t.text = take().text;
  } else if (const Token& number = peek(is("-") ? 1 : 0); number.kind == Kind::number && !is_whole(number)) {
    t.kind = Term::Kind::constant;  // 3.5 is a name like any other, which is compared by its value
    if (accept("-")) t.text = "-";
    t.text += take().text;
  } else if (token.kind == Kind::number || is("-")) {
    t.kind = Term::Kind::number;
    t.number = integer("an integer");
    t.text = std::to_string(t.number);
    if (index && accept(":")) {
      t.kind = Term::Kind::slice;
      t.stop = integer("where the slice ends");
    }
  } else if (token.kind == Kind::name) {
    t.text = take().text;
    t.kind = t.text == "_" ? Term::Kind::anything : is_variable(t.text) ? Term::Kind::variable : Term::Kind::constant;
  } else {
    expected("a variable or a constant");
  }
  if (t.virtual_index && t.kind != Term::Kind::variable) fail(t.place, "expected a variable after '*'");
  if (t.kind == Term::Kind::variable) after_variable(t, index);
  return t;
}

void BodyParser::after_variable(Term& t, bool index) {
  if (is("+") || is("-") || (index && (is("/") || is("*")))) {
    t.op = take().text[0];
    if (peek().kind == Kind::name) {
      if (!is_variable(peek().text)) expected("a number or a variable");
      t.other = take().text;
    } else {
      t.amount = integer("a number or a variable");
      if (t.op == '-') {
        t.op = '+';
        t.amount = -t.amount;
      }
      if (t.op == '/' && t.amount <= 0) fail(t.place, "an index is divided by a positive number");
      if (t.op == '*' && t.amount <= 0) fail(t.place, "an index is multiplied by a positive number");
    }
  }
  if (index && is(".") && (is(",", 1) || is("]", 1))) {
    take();
    t.normalised = true;
  }
}

// ---- formulas: implication < disjunction < conjunction < literal ----

Formula BodyParser::formula() {
  const Nested nested(*this);
  Formula left = disjunction();
  if (!is("->")) return left;
  Formula f;
  f.kind = Formula::Kind::implication;
  f.place = take().place;
  f.parts.push_back(std::move(left));
  f.parts.push_back(formula());
  return f;
}

Formula BodyParser::disjunction() {
  return chain(";", Formula::Kind::disjunction, [this] { return conjunction(); });
}

Formula BodyParser::conjunction() {
  return chain(",", Formula::Kind::conjunction, [this] { return literal(); });
}

template <class Next>
Formula BodyParser::chain(std::string_view mark, Formula::Kind kind, Next next) {
  Formula first = next();
  if (!is(mark)) return first;
  Formula f;
  f.kind = kind;
  f.place = first.place;
  f.parts.push_back(std::move(first));
  while (accept(mark)) f.parts.push_back(next());
  return f;
}

Formula BodyParser::literal() {
  const Nested nested(*this);
  Formula f;
  f.place = peek().place;
  count(f.place);
  if (is_word("not")) return negated(f);
  if ((is_word("exists") || is_word("forall") || is_word("count")) && is("(", 1)) return quantified(f);
  if (accept("(")) {
    f = formula();
    expect(")");
    return f;
  }
  const bool atom_follows = is("?") || (peek().kind == Kind::name && (is("(", 1) || is("[", 1)));
  if (atom_follows) {
    f.kind = Formula::Kind::atom;
    f.atom = atom();
    return f;
  }
  if (peek().kind == Kind::end || (peek().kind == Kind::mark && !is("-")))
    expected("a literal, such as P(x), not P(x) or x < y");
  f.kind = Formula::Kind::compare;
  f.left = term(false);
  f.compare = comparison();
  f.right = term(false);
  if (is("(") && find_function(f.right.text) != nullptr)
    fail(f.right.place,
         fmt::format("'{0}' stands in equations, such as S = {0}(i: X[i]); a body has count(y: ...) >= 2",
                     f.right.text));
  if (is("*") || is("/"))
    expected("',', ';' or '.': a variable is compared as it is, or moved by a number as in x + 1");
  return f;
}

Formula BodyParser::negated(Formula& f) {
  take();
  f.kind = Formula::Kind::negation;
  f.parts.push_back(literal());
  return f;
}

Formula BodyParser::quantified(Formula& f) {
  const std::string word = take().text;
  f.kind = word == "exists" ? Formula::Kind::exists : word == "forall" ? Formula::Kind::forall : Formula::Kind::count;
  take();
  f.variables = variables();
  expect(":", "after the variables");
  f.parts.push_back(formula());
  expect(")");
  if (f.kind == Formula::Kind::count) {
    f.compare = comparison();
    f.right = term(false);
    if (f.right.kind != Term::Kind::number) fail(f.right.place, "a count is compared with a number");
  }
  return f;
}

std::vector<std::string> BodyParser::variables() {
  std::vector<std::string> list;
  do {
    if (peek().kind != Kind::name || !is_variable(peek().text)) expected("a variable");
    list.push_back(take().text);
  } while (accept(","));
  return list;
}

std::string BodyParser::comparison() {
  static constexpr std::array<std::string_view, 6> kSigns{"=", "!=", "<", "<=", ">", ">="};
  for (std::string_view sign : kSigns) {
    if (!is(sign)) continue;
    if (is("=", 1) || is("<", 1) || is(">", 1))
      fail(peek().place, fmt::format("'{}{}' is no comparison; there are = != < <= > >=", sign, peek(1).text));
    return take().text;
  }
  expected("a comparison: = != < <= > >=");
}

// ---- expressions: sum < product < sign < power < primary ----

Expr BodyParser::expression() {
  const Nested nested(*this);
  Expr left = product();
  while (is("+") || is("-")) {
    const Token& sign = take();
    left = pair(sign.text == "+" ? Expr::Kind::add : Expr::Kind::subtract, sign.place, std::move(left), product());
  }
  return left;
}

Expr BodyParser::pair(Expr::Kind kind, Place place, Expr a, Expr b) {
  count(place);
  Expr e;
  e.kind = kind;
  e.place = place;
  e.parts.push_back(std::move(a));
  e.parts.push_back(std::move(b));
  return e;
}

bool BodyParser::starts_primary() const { return peek().kind == Kind::name || peek().kind == Kind::number || is("("); }

Expr BodyParser::product() {
  Expr left = sign();
  for (;;) {
    const Place place = peek().place;
    if (accept("*"))
      left = pair(Expr::Kind::multiply, place, std::move(left), sign());
    else if (accept("/"))
      left = pair(Expr::Kind::divide, place, std::move(left), sign());
    else if (starts_primary())
      left = pair(Expr::Kind::multiply, place, std::move(left), power());  // W[i,j] X[j]
    else
      return left;
  }
}

Expr BodyParser::sign() {
  const Nested nested(*this);
  if (!is("-")) return power();
  Expr e;
  e.kind = Expr::Kind::negate;
  e.place = take().place;
  e.parts.push_back(sign());
  return e;
}

Expr BodyParser::power() {
  Expr base = primary();
  if (!is("^")) return base;
  const Place place = take().place;
  return pair(Expr::Kind::power, place, std::move(base), sign());
}

Expr BodyParser::primary() {
  const Nested nested(*this);
  Expr e;
  e.place = peek().place;
  if (peek().kind == Kind::number) {
    e.number = real("a number");
    return e;
  }
  if (accept("(")) {
    e = expression();
    expect(")");
    return e;
  }
  if (peek().kind != Kind::name) expected("a number, a tensor, a variable, a function or '('");
  if (is("(", 1) && find_function(peek().text)) return call(e);
  if (is("(", 1) && (is("(", 3) || is("[", 3))) {  // only functions have more than names in their brackets
    const std::string near = nearest(peek().text, function_names());
    fail(e.place, fmt::format("unknown function '{}'{}", peek().text.substr(0, 40),
                              near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  if (is("(", 1) || is("[", 1) || !is_variable(peek().text)) {
    e.kind = Expr::Kind::reference;
    e.atom = atom();
    return e;
  }
  e.kind = Expr::Kind::index;
  e.name = take().text;
  return e;
}

bool BodyParser::variables_follow() const {
  for (std::size_t i = 0;; i += 2) {
    if (peek(i).kind != Kind::name) return false;
    if (is(":", i + 1)) return true;
    if (!is(",", i + 1)) return false;
  }
}

Expr BodyParser::call(Expr& e) {
  const Function& function = *find_function(peek().text);
  e.name = take().text;
  take();
  if (function.aggregate && variables_follow()) {
    e.kind = Expr::Kind::aggregate;
    e.variables = variables();
    expect(":");
    e.parts.push_back(expression());
    expect(")");
    return e;
  }
  e.kind = Expr::Kind::call;
  if (!is(")")) do
      e.parts.push_back(expression());
    while (accept(","));
  expect(")", "or ','");
  const int given = static_cast<int>(e.parts.size());
  if (given < function.fewest || given > function.most)
    fail(e.place, fmt::format("{}: {} arguments; it is written {}", e.name, given, function.signature));
  return e;
}

}  // namespace wr::rules
