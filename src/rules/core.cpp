#include "rules/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "rules/functions.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

constexpr std::size_t kMostConjunctions = 1000;

/// A literal that is being made: a formula of kind atom or compare, perhaps negated, or a hidden predicate.
struct Literal {
  const Formula* formula = nullptr;
  bool negated = false;
  int hidden = -1;
  std::vector<std::string> hidden_variables;
};
using Conjunction = std::vector<Literal>;
using Disjunction = std::vector<Conjunction>;

Condition::Compare compare_of(const std::string& sign, bool negated) {
  using C = Condition::Compare;
  const C c = sign == "="    ? C::eq
              : sign == "!=" ? C::ne
              : sign == "<"  ? C::lt
              : sign == "<=" ? C::le
              : sign == ">"  ? C::gt
                             : C::ge;
  if (!negated) return c;
  switch (c) {
    case C::eq:
      return C::ne;
    case C::ne:
      return C::eq;
    case C::lt:
      return C::ge;
    case C::le:
      return C::gt;
    case C::gt:
      return C::le;
    case C::ge:
      return C::lt;
  }
  return c;
}

void free_variables(const Formula& f, std::set<std::string>& names) {
  const auto add = [&](const Term& t) {
    if (t.kind == Term::Kind::variable) names.insert(t.text);
  };
  for (const Term& t : f.atom.terms) add(t);
  if (f.kind == Formula::Kind::compare) {
    add(f.left);
    add(f.right);
  }
  for (const Formula& part : f.parts) free_variables(part, names);
  for (const std::string& v : f.variables) names.erase(v);
}

class Maker {
 public:
  explicit Maker(const Checked& program) : program_(program) {
    for (const Predicate& p : program.predicates) core_.predicates.push_back({p.name, p.domains, false});
  }

  CoreConjunction conjunction(int statement, const Atom* head, const std::vector<const Atom*>& atoms,
                              const std::vector<const Formula*>& comparisons) {
    statement_ = statement;
    begin_rule();
    if (head != nullptr) add_head(*head);
    for (const Atom* a : atoms) add_atom(*a, false);
    const auto bound = [&](const Term& t) { return t.kind != Term::Kind::variable || numbers_.contains(t.text); };
    for (const Formula* f : comparisons)
      if (bound(f->left) && bound(f->right)) add_comparison(*f, false);
    return {std::move(rule_), std::move(numbers_)};
  }

  CoreProgram make(int query) {
    for (const auto& component : program_.components) {
      Core::Stage stage;
      stage.predicates = component;
      for (std::size_t i = 0; i < program_.syntax.statements.size(); ++i) {
        const Statement& s = program_.syntax.statements[i];
        if (s.kind != Statement::Kind::rule) continue;
        if (std::find(component.begin(), component.end(), program_.id(s.head.name)) == component.end()) continue;
        add_rule(static_cast<int>(i), s, stage);
      }
      core_.stages.push_back(std::move(stage));
    }
    if (query >= 0) add_query(query);
    return std::move(core_);
  }

 private:
  [[noreturn]] void fail(Place place, const std::string& message) const {
    fail_at(program_.syntax.name, place, message);
  }

  void add_rule(int statement, const Statement& s, Core::Stage& stage) {
    statement_ = statement;
    for (const Conjunction& c : expanded(s.body, false)) {
      begin_rule();
      add_head(s.head);
      finish_rule(c, stage);
    }
  }
  void add_head(const Atom& head) {
    rule_.head.predicate = program_.id(head.name);
    for (std::size_t i = 0; i < head.terms.size(); ++i)
      rule_.head.terms.push_back(argument(head.terms[i], core_.predicates[rule_.head.predicate].domains[i]));
  }
  void add_query(int query) {
    statement_ = query;
    const Statement& s = program_.syntax.statements[query];
    std::vector<std::string> names;  // in the order of their first use
    for_each_atom(s.body, false, [&](const Atom& a, bool) {
      for (const Term& t : a.terms)
        if (t.kind == Term::Kind::variable && std::find(names.begin(), names.end(), t.text) == names.end())
          names.push_back(t.text);
    });
    std::set<std::string> free;
    free_variables(s.body, free);
    std::erase_if(names, [&](const std::string& n) { return !free.contains(n); });
    core_.answer = hidden("answer", names);
    core_.answer_names = names;
    Core::Stage stage;
    stage.predicates = {core_.answer};
    add_hidden_rules(core_.answer, names, expanded(s.body, false), stage);
    core_.stages.push_back(std::move(stage));
  }

  int hidden(const std::string& what, const std::vector<std::string>& variables) {
    CorePredicate p;
    p.name = fmt::format("{}#{}", what, core_.predicates.size());
    p.hidden = true;
    for (const std::string& v : variables) p.domains.push_back(domain_of(v));
    core_.predicates.push_back(std::move(p));
    return static_cast<int>(core_.predicates.size()) - 1;
  }
  int domain_of(const std::string& variable) const { return program_.variables[statement_].at(variable); }
  void add_hidden_rules(int predicate, const std::vector<std::string>& variables, const Disjunction& body,
                        Core::Stage& stage) {
    for (const Conjunction& c : body) {
      begin_rule();
      rule_.head.predicate = predicate;
      for (const std::string& v : variables) rule_.head.terms.push_back({false, variable(v)});
      finish_rule(c, stage);
    }
  }

  // ---- formulas to disjunctions of conjunctions ----
  Disjunction expanded(const Formula& f, bool negated) {
    switch (f.kind) {
      case Formula::Kind::truth:
        return negated ? Disjunction{} : Disjunction{{}};
      case Formula::Kind::atom: {
        if (f.atom.choice) fail(f.place, "'?' chooses a relation by learning; boolean semantics cannot");
        if (f.atom.tensor)
          fail(f.place, fmt::format("{} is a tensor; boolean semantics has relations only", f.atom.name));
        const bool any = std::any_of(f.atom.terms.begin(), f.atom.terms.end(),
                                     [](const Term& t) { return t.kind == Term::Kind::anything; });
        if (negated && any) return {{without(f)}};
        return {{Literal{&f, negated, -1, {}}}};
      }
      case Formula::Kind::compare:
        return {{Literal{&f, negated, -1, {}}}};
      case Formula::Kind::negation:
        return expanded(f.parts[0], !negated);
      case Formula::Kind::conjunction:
        return negated ? either(f, true) : both(f, false);
      case Formula::Kind::disjunction:
        return negated ? both(f, true) : either(f, false);
      case Formula::Kind::implication: {
        Disjunction no = expanded(f.parts[0], !negated), yes = expanded(f.parts[1], negated);
        if (negated) return crossed(no, yes, f.place);
        no.insert(no.end(), yes.begin(), yes.end());
        return no;
      }
      case Formula::Kind::exists:
        return negated ? Disjunction{{without(f)}} : expanded(f.parts[0], false);
      case Formula::Kind::forall:
        return negated ? expanded(f.parts[0], true) : Disjunction{{without_negated(f)}};
      case Formula::Kind::count:
        return {{counted(f, negated)}};
    }
    return {};
  }
  Disjunction either(const Formula& f, bool negated) {
    Disjunction all;
    for (const Formula& part : f.parts)
      for (Conjunction& c : expanded(part, negated)) all.push_back(std::move(c));
    return all;
  }
  Disjunction both(const Formula& f, bool negated) {
    Disjunction all{{}};
    for (const Formula& part : f.parts) all = crossed(all, expanded(part, negated), f.place);
    return all;
  }
  Disjunction crossed(const Disjunction& a, const Disjunction& b, Place place) const {
    if (a.size() * b.size() > kMostConjunctions)
      fail(place,
           fmt::format("this formula has more than {} alternatives; give parts of it names by rules of their own",
                       kMostConjunctions));
    Disjunction all;
    for (const Conjunction& x : a)
      for (const Conjunction& y : b) {
        all.push_back(x);
        all.back().insert(all.back().end(), y.begin(), y.end());
      }
    return all;
  }
  std::vector<std::string> free_list(const Formula& f) const {
    std::set<std::string> names;
    free_variables(f, names);
    return {names.begin(), names.end()};
  }
  /// not f, by a predicate of what f holds for.
  Literal without(const Formula& f) {
    const std::vector<std::string> names = free_list(f);
    const int p = hidden("some", names);
    stage_of_hidden(
        p, names,
        f.kind == Formula::Kind::exists ? expanded(f.parts[0], false) : Disjunction{{Literal{&f, false, -1, {}}}});
    return {nullptr, true, p, names};
  }
  /// forall y: f, as: there is no y for which f fails.
  Literal without_negated(const Formula& f) {
    const std::vector<std::string> names = free_list(f);
    const int p = hidden("fails", names);
    stage_of_hidden(p, names, expanded(f.parts[0], true));
    return {nullptr, true, p, names};
  }
  Literal counted(const Formula& f, bool negated) {
    const std::vector<std::string> names = free_list(f);
    std::vector<std::string> all = names;
    all.insert(all.end(), f.variables.begin(), f.variables.end());
    const int source = hidden("counted", all);
    stage_of_hidden(source, all, expanded(f.parts[0], false));
    const int p = hidden("count", names);
    core_.counts.push_back({p, source, compare_of(f.compare, negated), f.right.number});
    Core::Stage stage;
    stage.predicates = {p};
    stage.counts = {static_cast<int>(core_.counts.size()) - 1};
    core_.stages.push_back(std::move(stage));
    return {nullptr, false, p, names};
  }
  void stage_of_hidden(int predicate, const std::vector<std::string>& names, const Disjunction& body) {
    Core::Stage stage;
    stage.predicates = {predicate};
    const CoreRule kept = std::move(rule_);
    const auto numbers = std::move(numbers_);
    add_hidden_rules(predicate, names, body, stage);
    rule_ = kept;
    numbers_ = numbers;
    core_.stages.push_back(std::move(stage));
  }

  // ---- one conjunction to one rule ----
  void begin_rule() {
    rule_ = {};
    rule_.statement = statement_;
    numbers_.clear();
  }
  void finish_rule(const Conjunction& c, Core::Stage& stage) {
    for (const Literal& l : c) {
      if (l.hidden >= 0) {
        CoreAtom a{l.hidden, {}};
        for (const std::string& v : l.hidden_variables) a.terms.push_back({false, variable(v)});
        (l.negated ? rule_.negated : rule_.body).push_back(std::move(a));
      } else if (l.formula->kind == Formula::Kind::compare) {
        add_comparison(*l.formula, l.negated);
      } else {
        add_atom(l.formula->atom, l.negated);
      }
    }
    stage.rules.push_back(static_cast<int>(core_.rules.size()));
    core_.rules.push_back(std::move(rule_));
  }
  int variable(const std::string& name) {
    const auto [found, fresh] = numbers_.try_emplace(name, static_cast<int>(rule_.domains.size()));
    if (fresh) {
      rule_.domains.push_back(domain_of(name));
      rule_.names.push_back(name.substr(0, name.find('#')));
    }
    return found->second;
  }
  int fresh_variable(int domain, const std::string& name) {
    rule_.domains.push_back(domain);
    rule_.names.push_back(name);
    return static_cast<int>(rule_.domains.size()) - 1;
  }
  const Domain& domain(int id) const { return program_.domains[id]; }
  /// x + 1 becomes a variable that equals x + 1.
  CoreTerm argument(const Term& t, int domain_id) {
    switch (t.kind) {
      case Term::Kind::constant:
      case Term::Kind::number:
        return {true, static_cast<int>(domain(domain_id).find(t.text))};
      case Term::Kind::anything:
        return {false, fresh_variable(domain_id, "_")};
      case Term::Kind::slice:
        fail(t.place, "a relation has no slices");
      case Term::Kind::variable:
        break;
    }
    const int v = variable(t.text);
    if (t.op == 0) return {false, v};
    if (!t.other.empty() || t.op != '+') fail(t.place, "in a relation only a number can be added to a variable");
    needs_order(domain_id, t.place, t.text);
    Condition c;
    c.left = {false, fresh_variable(domain_id, format(t))};
    c.right = {false, v};
    c.right_shift = static_cast<double>(t.amount);
    c.by_number = true;
    rule_.conditions.push_back(c);
    return c.left;
  }
  void needs_order(int domain_id, Place place, const std::string& name) const {
    if (!domain(domain_id).numbers && !domain(domain_id).ordered)
      fail(place, fmt::format("'{}' is of domain {}, whose constants are not all numbers",
                              name.substr(0, name.find('#')), domain(domain_id).name));
  }
  void add_atom(const Atom& a, bool negated) {
    CoreAtom atom{program_.id(a.name), {}};
    const auto& domains = core_.predicates[atom.predicate].domains;
    for (std::size_t i = 0; i < a.terms.size(); ++i) {
      CoreTerm t = argument(a.terms[i], domains[i]);
      // P(x, x): the second x is a variable of its own that equals the first.
      for (const CoreTerm& before : atom.terms)
        if (!t.constant && !before.constant && before.index == t.index) {
          Condition c;
          c.left = {false, fresh_variable(domains[i], rule_.names[t.index])};
          c.right = t;
          rule_.conditions.push_back(c);
          t = c.left;
          break;
        }
      atom.terms.push_back(t);
    }
    (negated ? rule_.negated : rule_.body).push_back(std::move(atom));
  }
  void add_comparison(const Formula& f, bool negated) {
    Condition c;
    c.compare = compare_of(f.compare, negated);
    const Term& left = f.left;
    const Term& right = f.right;
    const bool order = c.compare != Condition::Compare::eq && c.compare != Condition::Compare::ne;
    const bool shifted = left.op != 0 || right.op != 0;
    int id = -1;
    if (left.kind == Term::Kind::variable) id = domain_of(left.text);
    if (right.kind == Term::Kind::variable) id = domain_of(right.text);
    if (id < 0) fail(f.place, "a comparison of two constants");
    c.by_number = order || shifted;
    if (c.by_number) needs_order(id, f.place, left.kind == Term::Kind::variable ? left.text : right.text);
    side(left, id, c.by_number, c.left, c.left_shift, c.left_number);
    side(right, id, c.by_number, c.right, c.right_shift, c.right_number);
    rule_.conditions.push_back(c);
  }
  void side(const Term& t, int id, bool by_number, CoreTerm& out, double& shift, double& number) {
    if (t.kind == Term::Kind::variable) {
      out = {false, variable(t.text)};
      shift = t.op == '+' ? static_cast<double>(t.amount) : 0;
      if (t.op != 0 && t.op != '+') fail(t.place, "only numbers can be added in a comparison");
      return;
    }
    out = {true, static_cast<int>(domain(id).find(t.text))};
    if (!by_number) return;
    const auto result = std::from_chars(t.text.data(), t.text.data() + t.text.size(), number);
    if (result.ec != std::errc()) fail(t.place, fmt::format("{} is not a number", quoted_constant(t.text)));
  }

  const Checked& program_;
  CoreProgram core_;
  CoreRule rule_;
  std::map<std::string, int> numbers_;
  int statement_ = -1;
};

}  // namespace

CoreProgram to_core(const Checked& program, int query) { return Maker(program).make(query); }

CoreConjunction conjunction(const Checked& program, int statement, const Atom* head,
                            const std::vector<const Atom*>& atoms, const std::vector<const Formula*>& comparisons) {
  return Maker(program).conjunction(statement, head, atoms, comparisons);
}

}  // namespace wr::rules
