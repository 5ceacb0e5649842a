// Tokens to statements, by recursive descent. Every error names the line, the column, what was found and what could
// stand there.
#include <fmt/format.h>

#include "rules/functions.h"
#include "rules/parse_body.h"

namespace wr::rules {
namespace {

class Parser : public BodyParser {
 public:
  using BodyParser::BodyParser;

  std::vector<Statement> all() {
    std::vector<Statement> statements;
    while (peek().kind != Kind::end) statements.push_back(statement());
    return statements;
  }
  Statement query_alone() {
    begin_statement();
    Statement s;
    accept("?-");
    if (peek().kind == Kind::end) expected("a query, such as Ancestor(Ann, y)");
    s.kind = Statement::Kind::query;
    s.body = formula();
    accept("?");
    accept(".");
    if (peek().kind != Kind::end) expected("',', ';' or the end of the query");
    return s;
  }

 private:
  Statement statement() {
    begin_statement();
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
    s.last_line = line_before();
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
      if (!is("-") && peek().kind != Kind::number) expected("a size, names in { }, or a file in quotes");
      s.size = integer("a size");
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
      semantics(s, "a semantics: " + semantics_names());
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
      const Place of_most = peek().place;
      const std::int64_t most = integer("the most iterations");
      if (most < 1 || most > 1'000'000'000) fail(of_most, "a fixpoint takes 1 to 1000000000 iterations");
      s.options.push_back({"max", std::to_string(most), at});
      if (accept(",")) {
        const Place of_tolerance = peek().place;
        const double tolerance = real("a tolerance");
        if (tolerance < 0) fail(of_tolerance, "a tolerance is 0 or more");
        s.options.push_back({"tolerance", fmt::format("{}", tolerance), at});
      }
      expect(")");
    } else if (s.name == "seed") {
      s.size = integer("a number");
    } else {
      fail(at, fmt::format("unknown directive '@{}'; there are @semantics, @load, @minimize, @fixpoint and @seed",
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
        if (accept("-")) option.value = "-";
        option.value += peek().text;
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
    const Place at = peek().place;
    s.temperature = real("a temperature");
    if (s.temperature < 0) fail(at, "a temperature is 0 or more");
  }
  void semantics(Statement& s, const std::string& what) {
    s.semantics_place = peek().place;
    s.semantics = name(what);
  }
  void annotations(Statement& s, const std::string& what) {
    if (accept("@")) semantics(s, what);
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
    annotations(s, "an implication: " + implication_names());
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
      if (s.weighted || s.learned_weight) fail(s.place, "a query has no weight");
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
      annotations(s, "a semantics: " + semantics_names());
    } else if (std::string sign = assignment(); !sign.empty()) {
      if (!s.head.tensor) fail(s.head.place, "only a tensor, with [ ], has equations; a relation has rules with ':-'");
      if (s.weighted || s.learned_weight) fail(s.place, "an equation has no weight; multiply by a tensor");
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
};

}  // namespace

Syntax parse_text(std::string_view text, const std::string& name) {
  Syntax syntax;
  syntax.name = name;
  syntax.statements = Parser(text, syntax.name, syntax.comments).all();
  return syntax;
}

Statement parse_query(std::string_view text) {
  const std::string file = "query";
  std::vector<Comment> comments;
  Statement query = Parser(text, file, comments, true).query_alone();
  query.place.in_query = true;  // of no line: statements of the program have those
  return query;
}

}  // namespace wr::rules
