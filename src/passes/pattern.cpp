// Reads the text of rewrite rules.
#include "passes/pattern.h"

#include <charconv>
#include <string>

#include "passes/rewrite.h"
#include "windrow/error.h"

namespace wr::passes {
namespace {

/// One rule's two patterns share the names of their variables.
class RuleReader {
 public:
  Pattern read(std::string_view text) {
    rest_ = text;
    Pattern pattern = term();
    if (!rest_.empty()) wrong();
    return pattern;
  }

  std::vector<Pattern> read_several(std::string_view text) {
    rest_ = text;
    std::vector<Pattern> patterns;
    do patterns.push_back(term());
    while (accept(','));
    if (!rest_.empty()) wrong();
    return patterns;
  }

 private:
  [[noreturn]] void wrong() const { throw Error("rewrite rule: cannot read '" + std::string(rest_) + "'"); }

  void skip_blanks() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Pattern term() {
    skip_blanks();
    if (rest_.empty()) wrong();
    const char c = rest_[0];
    return c == '-' || (c >= '0' && c <= '9') ? literal() : named();
  }

  Pattern literal() {
    Pattern pattern;
    pattern.kind = Pattern::Kind::literal;
    const char* end = rest_.data() + rest_.size();
    const auto [last, problem] = std::from_chars(rest_.data(), end, pattern.literal);
    if (problem != std::errc{}) wrong();
    rest_.remove_prefix(static_cast<std::size_t>(last - rest_.data()));
    return pattern;
  }

  Pattern named() {
    std::size_t length = 0;
    while (length < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[length])) || rest_[length] == '_'))
      ++length;
    const std::string_view name = rest_.substr(0, length);
    rest_.remove_prefix(length);
    Pattern pattern;
    pattern.consumed = accept('\'');
    if (!accept('(')) {
      if (name.empty() || pattern.consumed) wrong();
      pattern.kind = name[0] == 'k' ? Pattern::Kind::number : Pattern::Kind::value;
      pattern.variable = variable(name);
      return pattern;
    }
    const ir::OpDef* def = ir::find_op(name);
    if (!def) throw Error("rewrite rule: unknown op '" + std::string(name) + "'");
    pattern.kind = Pattern::Kind::op;
    pattern.op = def->op;
    do pattern.operands.push_back(term());
    while (accept(','));
    if (!accept(')')) wrong();
    return pattern;
  }

  int variable(std::string_view name) {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return static_cast<int>(i);
    if (names_.size() == kMaxVariables) throw Error("rewrite rule: too many variables");
    names_.emplace_back(name);
    return static_cast<int>(names_.size()) - 1;
  }

  std::string_view rest_;
  std::vector<std::string> names_;
};

}  // namespace

std::vector<Pattern> read_patterns(std::string_view names, std::string_view text) {
  RuleReader reader;
  reader.read_several(names);
  return reader.read_several(text);
}

int number_node(const ir::Graph& graph, int id) {
  if (graph[id].op == Op::broadcast) id = graph[id].inputs[0];
  const ir::Node& node = graph[id];
  return node.op == Op::constant && node.spec.shape.count() == 1 ? id : -1;
}

bool is_number(const ir::Graph& graph, int id, double value) {
  const int number = number_node(graph, id);
  return number >= 0 && *number_of(graph[number]) == value;
}

RuleTable::RuleTable(std::span<const RuleText> rows) {
  for (const RuleText& row : rows) {
    RuleReader reader;
    Rule rule{reader.read(row.pattern), reader.read(row.replacement)};
    rules_[static_cast<std::size_t>(rule.pattern.op)].push_back(std::move(rule));
  }
}

}  // namespace wr::passes
