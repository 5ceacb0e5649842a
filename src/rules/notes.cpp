// What a program may mean and probably does not: inputs without data, constants that nothing gives, such as a variable
// that was written with a capital, facts of a misspelt relation, and temperatures where nothing is added up.
#include <fmt/format.h>

#include <map>
#include <set>

#include "base/nearest.h"
#include "rules/functions.h"
#include "rules/inside.h"

namespace wr::rules {
namespace {

struct Use {
  int domain;
  std::string text;
  Place place;
};

bool is_constant(const Term& t) { return t.kind == Term::Kind::constant || t.kind == Term::Kind::number; }

/// Constants of bodies and queries, in domains that nobody has declared constant by constant.
std::vector<Use> asked_for(const Checked& program) {
  std::vector<Use> uses;
  for (const Statement& s : program.syntax.statements)
    for_each_atom(s.body, false, [&](const Atom& a, bool) {
      const int id = program.id(a.name);
      if (id < 0 || a.choice) return;
      for (std::size_t i = 0; i < a.terms.size(); ++i) {
        const int d = program.predicates[id].domains[i];
        const Domain& domain = program.domains[d];
        const bool listed = domain.numbers || (domain.place.line > 0 && !domain.open);
        if (a.terms[i].kind == Term::Kind::constant && !listed) uses.push_back({d, a.terms[i].text, a.terms[i].place});
      }
    });
  return uses;
}

/// Facts of a relation that nothing uses and whose name is a slip of one letter from one that is used.
std::vector<std::pair<Place, std::string>> misspelt_facts(const Syntax& syntax) {
  std::map<std::string, Place> facts;
  std::set<std::string> used;
  bool choices = false;
  const auto use = [&](const Atom& a, bool) {
    used.insert(a.name);
    choices = choices || a.choice;
  };
  for (const Statement& s : syntax.statements) {
    if (s.kind == Statement::Kind::fact)
      facts.emplace(s.head.name, s.head.place);
    else
      used.insert(s.head.name);
    for_each_atom(s.body, false, use);
    for_each_atom(s.value, use);
  }
  std::vector<std::pair<Place, std::string>> found;
  if (choices) return found;  // ?r uses whatever there is
  for (const auto& [name, place] : facts) {
    if (used.contains(name) || name.size() < 4 || (name.back() >= '0' && name.back() <= '9')) continue;
    for (const std::string& other : used)
      if (edit_distance(name, other) == 1) {
        found.emplace_back(place, fmt::format("nothing uses {}; did you mean {}?", name, other));
        break;
      }
  }
  return found;
}

}  // namespace

std::vector<std::string> Program::notes() const {
  const Checked& program = inside_->checked;
  const Data& data = inside_->data;
  std::vector<std::string> notes;
  const auto note = [&](Place place, const std::string& text) {
    notes.push_back(fmt::format("{}:{}:{}: {}", program.syntax.name, place.line, place.column, text));
  };
  const Semantics of_program = inside_->semantics;
  for (const Statement& s : program.syntax.statements) {
    if (s.kind != Statement::Kind::rule || !s.has_temperature) continue;
    const Semantics own = s.semantics.empty() ? of_program : *semantics_called(s.semantics);
    if (own != Semantics::sum)
      note(s.place,
           fmt::format("T= means something in sum semantics only; this rule has {} semantics", to_string(own)));
  }
  for (const Statement& s : program.syntax.statements) {
    if (s.kind != Statement::Kind::directive || s.name == "load") continue;
    const Statement* last = directive(program.syntax, s.name);
    if (last != &s)
      note(s.place, fmt::format("this @{} means nothing: another follows on line {}", s.name, last->place.line));
  }
  for (const auto& [place, text] : misspelt_facts(program.syntax)) note(place, text);
  const std::size_t before = notes.size();
  std::set<std::string> with_facts;
  std::set<std::pair<int, std::string>> given;
  for (const Statement& s : program.syntax.statements) {
    if (s.kind != Statement::Kind::fact && s.kind != Statement::Kind::rule) continue;
    with_facts.insert(s.head.name);
    const Predicate& p = program.predicates[program.id(s.head.name)];
    for (std::size_t i = 0; i < s.head.terms.size(); ++i)
      if (is_constant(s.head.terms[i])) given.insert({p.domains[i], s.head.terms[i].text});
  }
  for (const Predicate& p : program.predicates)
    if (p.input && !with_facts.contains(p.name) && !data.tables.contains(p.name) && !data.arrays.contains(p.name))
      note(p.place, fmt::format("{} is an input, and no data are given for it", p.name));
  std::vector<std::string> mentioned;
  for (const Predicate& p : program.predicates)
    if (p.place.line > 0) mentioned.push_back(p.name);
  const auto unused = [&](const std::string& name) {
    const int id = program.id(name);
    if (id >= 0 && program.predicates[id].place.line > 0) return;
    const std::string near = nearest(name, mentioned);
    notes.push_back(fmt::format("{}: data are given for {}, which no statement mentions{}", program.syntax.name, name,
                                near.empty() ? "" : "; did you mean " + near + "?"));
  };
  for (const auto& [name, tables] : data.tables) unused(name);
  for (const auto& [name, array] : data.arrays) unused(name);
  if (notes.size() > before) return notes;  // without data nothing can be said of constants
  std::vector<Use> uses = asked_for(program);
  std::erase_if(uses, [&](const Use& u) { return given.contains({u.domain, u.text}); });
  if (uses.empty()) return notes;
  for (const auto& [name, tables] : data.tables) {
    const int id = program.id(name);
    if (id < 0) continue;
    const auto& domains = program.predicates[id].domains;
    for (const Table& table : tables)
      for (const auto& row : table.rows)
        for (std::size_t i = 0; i < row.size() && i < domains.size(); ++i)
          std::erase_if(uses, [&](const Use& u) { return u.domain == domains[i] && u.text == row[i]; });
  }
  for (const Use& u : uses)
    note(u.place, fmt::format("no fact and no data have the constant {}; a variable begins with a small letter",
                              quoted_constant(u.text)));
  return notes;
}

}  // namespace wr::rules
