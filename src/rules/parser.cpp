// Tokens to statements, by recursive descent. Every error names the line, the column, what was found and what could
// stand there. Nesting and the length of a statement are limited, so that no text can exhaust the stack or the
// patience.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "rules/functions.h"
#include "rules/lexer.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

constexpr int kDeepest = 200;
constexpr int kMostParts = 1000;  // `a + b + c + ...` is a tree as deep as it is long
using Kind = Token::Kind;

bool is_variable(const std::string& name) {
  return !name.empty() && ((name[0] >= 'a' && name[0] <= 'z') || name[0] == '_');
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, std::vector<Comment>& comments)
      : file_(file), tokens_(tokenise(text, file, comments)) {}

  std::vector<Statement> all() {
    std::vector<Statement> statements;
    while (peek().kind != Kind::end) statements.push_back(statement());
    return statements;
  }

 private:
  // ---- tokens ----
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(std::string_view mark, std::size_t ahead = 0) const {
    return peek(ahead).kind == Kind::mark && peek(ahead).text == mark;
  }
  bool is_word(std::string_view word, std::size_t ahead = 0) const {
    return peek(ahead).kind == Kind::name && peek(ahead).text == word;
  }
  bool accept(std::string_view mark) {
    if (!is(mark)) return false;
    take();
    return true;
  }
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case Kind::end:
        return "the end of the text";
      case Kind::string:
        return "\"" + token.text.substr(0, 40) + "\"";
      default:
        return "'" + token.text.substr(0, 40) + "'";
    }
  }
  [[noreturn]] void expected(const std::string& what) const {
    fail_at(file_, peek().place, fmt::format("expected {}, found {}", what, shown(peek())));
  }
  void expect(std::string_view mark, std::string_view why = {}) {
    if (!accept(mark)) expected(fmt::format("'{}'{}{}", mark, why.empty() ? "" : " ", why));
  }
  std::string name(const std::string& what) {
    if (peek().kind != Kind::name) expected(what);
    return take().text;
  }
  std::int64_t integer(const std::string& what) {
    const bool negative = accept("-");
    const Token& token = peek();
    std::int64_t value = 0;
    if (token.kind != Kind::number) expected(what);
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end)
      fail_at(file_, token.place, fmt::format("'{}' is not {} that fits in 63 bits", token.text, what));
    take();
    return negative ? -value : value;
  }
  double real(const std::string& what) {
    const bool negative = accept("-");
    const Token& token = peek();
    if (token.kind != Kind::number) expected(what);
    double value = 0;
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end)
      fail_at(file_, token.place, fmt::format("'{}' is too large or too small for a number", token.text));
    take();
    return negative ? -value : value;
  }
  struct Nested {  // one level of brackets, as long as it lives
    explicit Nested(Parser& parser) : depth(parser.depth_) {
      if (++depth > kDeepest)
        fail_at(parser.file_, parser.peek().place, fmt::format("nested deeper than {} levels", kDeepest));
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --depth; }
    int& depth;
  };

  // ---- statements ----
  Statement statement() {
    parts_ = 0;
    Statement s;
    s.place = peek().place;
    if (accept("@"))
      directive(s);
    else if (accept("?-"))
      query(s);
    else if (is_word("domain") && peek(1).kind == Kind::name)
      domain(s);
    else if ((is_word("rel") || is_word("tensor")) && peek(1).kind == Kind::name)
      declaration(s);
    else if (is_word("constraint") && !is("(", 1))
      constraint(s);
    else
      clause(s);
    s.last_line = tokens_[at_ > 0 ? at_ - 1 : 0].place.line;
    return s;
  }
  void finish() { expect(".", "at the end of the statement"); }

  void domain(Statement& s) {
    s.kind = Statement::Kind::domain;
    take();
    s.name = name("a domain's name");
    if (!accept("=")) {
      s.open = true;
    } else if (accept("{")) {
      if (!is("}")) do
          s.names.push_back(constant());
        while (accept(","));
      expect("}", "or ','");
    } else if (peek().kind == Kind::string) {
      s.file = take().text;
    } else {
      s.size = integer("a size, names in { }, or a file in quotes");
    }
    finish();
  }
  std::string constant() {
    const Token& token = peek();
    if (is("-") && peek(1).kind == Kind::number) {
      take();
      return "-" + take().text;
    }
    if (token.kind == Kind::number || token.kind == Kind::string || token.kind == Kind::name) return take().text;
    expected("a constant");
  }

  void declaration(Statement& s) {
    const bool tensor = take().text == "tensor";
    s.kind = tensor ? Statement::Kind::tensor : Statement::Kind::relation;
    s.name = name("a name");
    s.head.place = s.place;
    const char* close = tensor ? "]" : ")";
    if (accept(tensor ? "[" : "(")) {
      if (!is(close)) do {
          s.domain_places.push_back(peek().place);
          s.domains.push_back(name("a domain's name"));
        } while (accept(","));
      expect(close, "or ','");
    } else if (!tensor) {
      expected("'('");
    }
    while (peek().kind == Kind::name) {
      if (is_word("input"))
        s.input = true;
      else if (is_word("learn"))
        s.learn = true;
      else
        expected("'input', 'learn' or '.'");
      take();
    }
    finish();
  }

  void directive(Statement& s) {
    s.kind = Statement::Kind::directive;
    const Place at = peek().place;
    s.name = name("a directive: @semantics, @load, @minimize, @fixpoint or @seed");
    if (s.name == "semantics") {
      s.semantics = name("a semantics: " + semantics_names());
      temperature(s);
    } else if (s.name == "load") {
      s.head.place = peek().place;
      s.head.name = name("a relation or tensor");
      if (peek().kind != Kind::string) expected("a file in quotes");
      s.file = take().text;
    } else if (s.name == "minimize") {
      s.head.place = peek().place;
      s.head.name = name("the tensor to minimise");
      if (accept("(")) options(s);
    } else if (s.name == "fixpoint") {
      expect("(");
      s.options.push_back({"max", std::to_string(integer("the most iterations")), at});
      if (accept(",")) s.options.push_back({"tolerance", fmt::format("{}", real("a tolerance")), at});
      expect(")");
    } else if (s.name == "seed") {
      s.size = integer("a number");
    } else {
      fail_at(file_, at,
              fmt::format("unknown directive '@{}'; there are @semantics, @load, @minimize, @fixpoint and @seed",
                          s.name.substr(0, 40)));
    }
    finish();
  }
  void options(Statement& s) {
    if (!is(")")) do {
        Option option;
        option.place = peek().place;
        option.name = name("an option, such as lr=0.1");
        expect("=");
        option.value = (accept("-") ? "-" : "") + peek().text;
        if (peek().kind != Kind::number && peek().kind != Kind::name) expected("a value");
        take();
        s.options.push_back(std::move(option));
      } while (accept(","));
    expect(")", "or ','");
  }
  void temperature(Statement& s) {
    if (!is_word("T") || !is("=", 1)) return;
    take();
    take();
    s.has_temperature = true;
    s.temperature = real("a temperature");
  }
  void annotations(Statement& s) {
    if (accept("@")) {
      s.semantics = name("a semantics: " + semantics_names());
    }
    temperature(s);
  }

  void query(Statement& s) {
    s.kind = Statement::Kind::query;
    s.body = formula();
    finish();
  }
  void constraint(Statement& s) {
    s.kind = Statement::Kind::constraint;
    take();
    if (peek().kind == Kind::number && is("::", 1)) {
      s.weighted = true;
      s.weight = real("a weight");
      take();
    }
    s.body = formula();
    annotations(s);
    finish();
  }
  void clause(Statement& s) {
    if (is_word("learn") && is("::", 1)) {
      s.learned_weight = true;
      take();
      take();
    } else if (peek().kind == Kind::number || is("-")) {
      s.weighted = true;
      s.weight = real("a weight");
      expect("::", "after a weight");
    }
    if (peek().kind != Kind::name) expected("a fact, a rule, an equation, a query, a declaration or a directive");
    s.head = atom();
    if (accept("?")) {
      if (s.weighted || s.learned_weight) fail_at(file_, s.place, "a query has no weight");
      s.kind = Statement::Kind::query;
      s.body.kind = Formula::Kind::atom;
      s.body.atom = s.head;
      s.body.place = s.head.place;
      accept(".");
      return;
    }
    if (is(":-") || is("<-")) {
      take();
      s.kind = Statement::Kind::rule;
      s.body = formula();
      annotations(s);
    } else if (std::string sign = assignment(); !sign.empty()) {
      if (!s.head.tensor)
        fail_at(file_, s.head.place, "only a tensor, with [ ], has equations; a relation has rules with ':-'");
      if (s.weighted || s.learned_weight) fail_at(file_, s.place, "an equation has no weight; multiply by a tensor");
      s.kind = Statement::Kind::equation;
      s.assign = std::move(sign);
      s.value = expression();
    } else {
      s.kind = Statement::Kind::fact;
      if (s.head.tensor) expected("'=', '+=', 'max=', 'min=', 'avg=' or '?'");
      if (!is(".")) expected("':-', '?' or '.'");
    }
    finish();
  }
  std::string assignment() {
    if (accept("=")) return "=";
    if (accept("+=")) return "+=";
    if ((is_word("max") || is_word("min") || is_word("avg")) && is("=", 1)) {
      std::string sign = take().text + "=";
      take();
      return sign;
    }
    return {};
  }

  // ---- atoms and terms ----
  Atom atom() {
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
  Term term(bool index) {
    Term t;
    t.place = peek().place;
    if (index && accept("*")) t.virtual_index = true;
    const Token& token = peek();
    if (token.kind == Kind::string) {
      t.kind = Term::Kind::constant;
      t.text = take().text;
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
    if (t.virtual_index && t.kind != Term::Kind::variable) fail_at(file_, t.place, "expected a variable after '*'");
    if (t.kind == Term::Kind::variable) after_variable(t, index);
    return t;
  }
  void after_variable(Term& t, bool index) {
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
        if (t.op == '/' && t.amount <= 0) fail_at(file_, t.place, "an index is divided by a positive number");
        if (t.op == '*' && t.amount <= 0) fail_at(file_, t.place, "an index is multiplied by a positive number");
      }
    }
    if (index && is(".") && (is(",", 1) || is("]", 1))) {
      take();
      t.normalised = true;
    }
  }

  // ---- formulas: implication < disjunction < conjunction < literal ----
  Formula formula() {
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
  Formula disjunction() {
    return chain(";", Formula::Kind::disjunction, [this] { return conjunction(); });
  }
  Formula conjunction() {
    return chain(",", Formula::Kind::conjunction, [this] { return literal(); });
  }
  template <class Next>
  Formula chain(std::string_view mark, Formula::Kind kind, Next next) {
    Formula first = next();
    if (!is(mark)) return first;
    Formula f;
    f.kind = kind;
    f.place = first.place;
    f.parts.push_back(std::move(first));
    while (accept(mark)) f.parts.push_back(next());
    return f;
  }
  Formula literal() {
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
    f.kind = Formula::Kind::compare;
    f.left = term(false);
    f.compare = comparison();
    f.right = term(false);
    return f;
  }
  Formula negated(Formula& f) {
    take();
    f.kind = Formula::Kind::negation;
    f.parts.push_back(literal());
    return f;
  }
  Formula quantified(Formula& f) {
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
      if (f.right.kind != Term::Kind::number) fail_at(file_, f.right.place, "a count is compared with a number");
    }
    return f;
  }
  std::vector<std::string> variables() {
    std::vector<std::string> list;
    do {
      if (peek().kind != Kind::name || !is_variable(peek().text)) expected("a variable");
      list.push_back(take().text);
    } while (accept(","));
    return list;
  }
  std::string comparison() {
    static constexpr std::array<std::string_view, 6> kSigns{"=", "!=", "<", "<=", ">", ">="};
    for (std::string_view sign : kSigns)
      if (accept(sign)) return std::string(sign);
    expected("a comparison: = != < <= > >=");
  }

  // ---- expressions: sum < product < sign < power < primary ----
  Expr expression() {
    const Nested nested(*this);
    Expr left = product();
    while (is("+") || is("-")) {
      const Token& sign = take();
      left = pair(sign.text == "+" ? Expr::Kind::add : Expr::Kind::subtract, sign.place, std::move(left), product());
    }
    return left;
  }
  /// One more literal or operator of this statement.
  void count(Place place) {
    if (++parts_ > kMostParts)
      fail_at(file_, place,
              fmt::format("more than {} literals and operators in one statement; give parts of it names by rules or "
                          "equations of their own",
                          kMostParts));
  }
  Expr pair(Expr::Kind kind, Place place, Expr a, Expr b) {
    count(place);
    Expr e;
    e.kind = kind;
    e.place = place;
    e.parts.push_back(std::move(a));
    e.parts.push_back(std::move(b));
    return e;
  }
  bool starts_primary() const { return peek().kind == Kind::name || peek().kind == Kind::number || is("("); }
  Expr product() {
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
  Expr sign() {
    const Nested nested(*this);
    if (!is("-")) return power();
    Expr e;
    e.kind = Expr::Kind::negate;
    e.place = take().place;
    e.parts.push_back(sign());
    return e;
  }
  Expr power() {
    Expr base = primary();
    if (!is("^")) return base;
    const Place place = take().place;
    return pair(Expr::Kind::power, place, std::move(base), sign());
  }
  Expr primary() {
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
    if (is("(", 1) || is("[", 1) || !is_variable(peek().text)) {
      e.kind = Expr::Kind::reference;
      e.atom = atom();
      return e;
    }
    e.kind = Expr::Kind::index;
    e.name = take().text;
    return e;
  }
  /// True at `x, y :`, the variables of an aggregate.
  bool variables_follow() const {
    for (std::size_t i = 0;; i += 2) {
      if (peek(i).kind != Kind::name) return false;
      if (is(":", i + 1)) return true;
      if (!is(",", i + 1)) return false;
    }
  }
  Expr call(Expr& e) {
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
      fail_at(file_, e.place, fmt::format("{}: {} arguments; it is written {}", e.name, given, function.signature));
    return e;
  }

  const std::string& file_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int parts_ = 0;
};

}  // namespace

Syntax parse_text(std::string_view text, const std::string& name) {
  Syntax syntax;
  syntax.name = name;
  syntax.statements = Parser(text, syntax.name, syntax.comments).all();
  return syntax;
}

}  // namespace wr::rules
