// Statements as text in the standard layout. What it prints parses to the same statement.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "rules/functions.h"
#include "rules/syntax.h"
#include "windrow/rules.h"

namespace wr::rules {
namespace {

template <class List, class Show>
std::string joined(const List& list, std::string_view separator, Show show) {
  std::string text;
  for (const auto& each : list) {
    if (!text.empty()) text += separator;
    text += show(each);
  }
  return text;
}
std::string joined(const std::vector<std::string>& list) {
  return joined(list, ", ", [](const std::string& s) { return s; });
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || name[0] < 'A' || name[0] > 'Z') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '\''; });
}
bool is_integer(std::string_view name) {
  if (name.starts_with('-')) name.remove_prefix(1);
  return !name.empty() && name.size() < 18 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         (name.size() == 1 || name[0] != '0');
}
bool is_decimal(std::string_view name) {
  const std::size_t dot = name.find('.');
  const std::string_view after = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  return !after.empty() && after.find_first_not_of("0123456789") == std::string_view::npos &&
         (is_integer(name.substr(0, dot)) || name.substr(0, dot) == "-0");
}
std::string in_quotes(std::string_view name) {
  std::string text = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else
      text += c;
  }
  return text + '"';
}

// How tightly an expression binds: a part that binds less needs brackets.
int binding(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::add:
    case Expr::Kind::subtract:
      return 1;
    case Expr::Kind::multiply:
    case Expr::Kind::divide:
      return 2;
    case Expr::Kind::negate:
      return 3;
    case Expr::Kind::power:
      return 4;
    default:
      return 5;
  }
}
std::string part(const Expr& e, int least) { return binding(e) < least ? "(" + format(e) + ")" : format(e); }

int binding(const Formula& f) {
  switch (f.kind) {
    case Formula::Kind::implication:
      return 1;
    case Formula::Kind::disjunction:
      return 2;
    case Formula::Kind::conjunction:
      return 3;
    default:
      return 4;
  }
}
std::string part(const Formula& f, int least) { return binding(f) < least ? "(" + format(f) + ")" : format(f); }

std::string weight(const Statement& s) {
  if (s.learned_weight) return "learn :: ";
  return s.weighted ? fmt::format("{} :: ", s.weight) : "";
}
std::string annotations(const Statement& s) {
  std::string text;
  if (!s.semantics.empty()) text += " @" + s.semantics;
  if (s.has_temperature) text += fmt::format(" T={}", s.temperature);
  return text;
}

std::string format_domain(const Statement& s) {
  if (s.open) return fmt::format("domain {}", s.name);
  if (!s.file.empty()) return fmt::format("domain {} = {}", s.name, in_quotes(s.file));
  if (s.size >= 0) return fmt::format("domain {} = {}", s.name, s.size);
  return fmt::format("domain {} = {{{}}}", s.name,
                     joined(s.names, ", ", [](const std::string& n) { return quoted_constant(n); }));
}

std::string format_directive(const Statement& s) {
  if (s.name == "semantics")
    return "@semantics " + s.semantics + (s.has_temperature ? fmt::format(" T={}", s.temperature) : "");
  if (s.name == "load") return fmt::format("@load {} {}", s.head.name, in_quotes(s.file));
  if (s.name == "seed") return fmt::format("@seed {}", s.size);
  if (s.name == "fixpoint")
    return fmt::format("@fixpoint({})", joined(s.options, ", ", [](const Option& o) { return o.value; }));
  if (s.options.empty()) return fmt::format("@minimize {}", s.head.name);
  return fmt::format("@minimize {}({})", s.head.name,
                     joined(s.options, ", ", [](const Option& o) { return o.name + "=" + o.value; }));
}

}  // namespace

std::string quoted_constant(std::string_view name) {
  return is_plain_name(name) || is_integer(name) || is_decimal(name) ? std::string(name) : in_quotes(name);
}

std::string format(const Term& t) {
  switch (t.kind) {
    case Term::Kind::anything:
      return "_";
    case Term::Kind::constant:
      return quoted_constant(t.text);
    case Term::Kind::number:
      return t.text;
    case Term::Kind::slice:
      return fmt::format("{}:{}", t.number, t.stop);
    case Term::Kind::variable:
      break;
  }
  std::string text = (t.virtual_index ? "*" : "") + t.text;
  if (t.op != 0) {
    if (!t.other.empty())
      text += t.op + t.other;
    else if (t.op == '+' && t.amount < 0)
      text += std::to_string(t.amount);
    else
      text += t.op + std::to_string(t.amount);
  }
  return text + (t.normalised ? "." : "");
}

std::string format(const Atom& a) {
  const std::string terms = joined(a.terms, ", ", [](const Term& t) { return format(t); });
  const std::string name = (a.choice ? "?" : "") + a.name;
  if (a.tensor) return a.terms.empty() ? name : name + "[" + terms + "]";
  return name + "(" + terms + ")";
}

std::string format(const Formula& f) {
  switch (f.kind) {
    case Formula::Kind::truth:
      return "";
    case Formula::Kind::atom:
      return f.atom.tensor && f.atom.terms.empty() ? f.atom.name + "[]" : format(f.atom);
    case Formula::Kind::compare:
      return format(f.left) + " " + f.compare + " " + format(f.right);
    case Formula::Kind::negation:
      return "not " + part(f.parts[0], 4);
    case Formula::Kind::conjunction:
      return joined(f.parts, ", ", [](const Formula& p) { return part(p, 4); });
    case Formula::Kind::disjunction:
      return joined(f.parts, "; ", [](const Formula& p) { return part(p, 3); });
    case Formula::Kind::implication:
      return part(f.parts[0], 2) + " -> " + part(f.parts[1], 1);
    case Formula::Kind::exists:
      return "exists(" + joined(f.variables) + ": " + format(f.parts[0]) + ")";
    case Formula::Kind::forall:
      return "forall(" + joined(f.variables) + ": " + format(f.parts[0]) + ")";
    case Formula::Kind::count:
      return "count(" + joined(f.variables) + ": " + format(f.parts[0]) + ") " + f.compare + " " + format(f.right);
  }
  return "";
}

std::string format(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::number:
      return fmt::format("{}", e.number);
    case Expr::Kind::index:
      return e.name;
    case Expr::Kind::reference:
      return format(e.atom);
    case Expr::Kind::negate:
      return "-" + part(e.parts[0], 3);
    case Expr::Kind::add:
      return part(e.parts[0], 1) + " + " + part(e.parts[1], 2);
    case Expr::Kind::subtract:
      return part(e.parts[0], 1) + " - " + part(e.parts[1], 2);
    case Expr::Kind::multiply:
      return part(e.parts[0], 2) + " * " + part(e.parts[1], 3);
    case Expr::Kind::divide:
      return part(e.parts[0], 2) + " / " + part(e.parts[1], 3);
    case Expr::Kind::power:
      return part(e.parts[0], 5) + "^" + part(e.parts[1], 3);
    case Expr::Kind::call:
      return e.name + "(" + joined(e.parts, ", ", [](const Expr& p) { return format(p); }) + ")";
    case Expr::Kind::aggregate:
      return e.name + "(" + joined(e.variables) + ": " + format(e.parts[0]) + ")";
  }
  return "";
}

std::string format(const Statement& s) {
  std::string text;
  switch (s.kind) {
    case Statement::Kind::domain:
      text = format_domain(s);
      break;
    case Statement::Kind::relation:
    case Statement::Kind::tensor: {
      const bool tensor = s.kind == Statement::Kind::tensor;
      text = (tensor ? "tensor " : "rel ") + s.name;
      if (!tensor || !s.domains.empty()) text += (tensor ? "[" : "(") + joined(s.domains) + (tensor ? "]" : ")");
      if (s.input) text += " input";
      if (s.learn) text += " learn";
      break;
    }
    case Statement::Kind::fact:
      text = weight(s) + format(s.head);
      break;
    case Statement::Kind::rule:
      text = weight(s) + format(s.head) + " :- " + format(s.body) + annotations(s);
      break;
    case Statement::Kind::equation:
      text = format(s.head) + " " + s.assign + " " + format(s.value);
      break;
    case Statement::Kind::query:
      text = "?- " + format(s.body);
      break;
    case Statement::Kind::constraint:
      text = "constraint " + weight(s) + format(s.body) + annotations(s);
      break;
    case Statement::Kind::directive:
      text = format_directive(s);
      break;
  }
  return text + ".";
}

namespace {

constexpr std::size_t kWidth = 120, kIndent = 4;

/// Where a line that is too long goes on in the next one: at the last separator that fits, of those in the fewest
/// brackets; 0 if there is none.
std::size_t break_of(std::string_view line) {
  std::size_t best = 0;
  int depth = 0, least = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < std::min(line.size(), kWidth + 1); ++i) {
    const char c = line[i];
    if (quoted && c == '\\') {
      ++i;
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    const bool separates =
        c == ' ' && i > kIndent &&
        (line[i - 1] == ',' || line[i - 1] == ';' || line[i - 1] == ':' || line.substr(i - 2, 2) == ":-" ||
         line.substr(i - 2, 2) == "->" || line.substr(i, 3) == " + " || line.substr(i, 3) == " - ");
    if (separates && (best == 0 || depth <= least)) {
      best = i;
      least = depth;
    }
  }
  return best;
}

std::string wrapped(std::string line) {
  std::string text;
  while (line.size() > kWidth) {
    const std::size_t at = break_of(line);
    if (at == 0) break;
    text += line.substr(0, at) + '\n';
    line = std::string(kIndent, ' ') + line.substr(at + 1);
  }
  return text + line;
}

}  // namespace

std::string format_text(std::string_view text, const std::string& name) {
  const Syntax syntax = parse_text(text, name);
  std::string out;
  int line = 1;  // of the source, up to which everything is printed
  auto comment = syntax.comments.begin();
  const auto gap = [&](int next) {  // one empty line where the source has some
    if (!out.empty() && next > line + 1) out += '\n';
  };
  const auto print_comments = [&](int before) {
    for (; comment != syntax.comments.end() && comment->line < before; ++comment) {
      gap(comment->line);
      out += comment->text + '\n';
      line = comment->line;
    }
  };
  for (std::size_t i = 0; i < syntax.statements.size(); ++i) {
    const Statement& s = syntax.statements[i];
    print_comments(std::max(s.last_line, s.place.line));
    gap(s.place.line);
    out += wrapped(format(s));
    line = s.last_line;
    const bool last_of_line = i + 1 == syntax.statements.size() || syntax.statements[i + 1].place.line > s.last_line;
    if (last_of_line && comment != syntax.comments.end() && comment->line == s.last_line)
      out += "  " + (comment++)->text;
    out += '\n';
  }
  print_comments(std::numeric_limits<int>::max());
  return out;
}

}  // namespace wr::rules
