#include "rules/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "rules/core.h"
#include "rules/demand.h"
#include "rules/strata.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

// What a tensor costs less than a list: a cell of it is read with its neighbours, a tuple is looked up. Below this
// size nothing is to be gained.
constexpr double kCellsATuple = 64;
constexpr double kFewCells = 1 << 14;

struct TooMany {
  int predicate;
};

bool is_plain(const Term& t) {
  return t.kind == Term::Kind::constant || t.kind == Term::Kind::number || t.kind == Term::Kind::anything ||
         (t.kind == Term::Kind::variable && t.op == 0 && !t.normalised && !t.virtual_index);
}

}  // namespace

TupleList::TupleList(const Trie& tuples, const std::string& file, const std::string& relation)
    : sizes_(tuples.sizes()) {
  if (tuples.count() >= std::numeric_limits<std::int32_t>::max())
    throw Error(fmt::format("{}: {} has {} tuples; a list can have 2^31", file, relation, tuples.count()));
  numbers_.reserve(static_cast<std::size_t>(tuples.count()));
  tuples.each([&](const Value* tuple) {
    std::uint64_t code = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      tuples_.push_back(tuple[i]);
      code = code * static_cast<std::uint64_t>(sizes_[i]) + tuple[i];
    }
    numbers_.emplace(code, static_cast<std::int32_t>(numbers_.size()));
  });
}

std::int32_t TupleList::number(const Value* tuple) const {
  std::uint64_t code = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) code = code * static_cast<std::uint64_t>(sizes_[i]) + tuple[i];
  const auto found = numbers_.find(code);
  return found == numbers_.end() ? static_cast<std::int32_t>(count()) : found->second;
}

Joint distinct(const Joint& joint, const std::vector<std::string>& variables, std::vector<std::int32_t>& group) {
  Joint out;
  std::vector<const std::vector<std::int32_t>*> from;
  for (const std::string& v : variables) from.push_back(&joint.columns.at(v));
  std::vector<std::vector<std::int32_t>> to(from.size());
  std::map<std::vector<std::int32_t>, std::int32_t> known;
  group.resize(static_cast<std::size_t>(joint.count));
  std::vector<std::int32_t> key(from.size());
  for (std::size_t g = 0; g < group.size(); ++g) {
    for (std::size_t i = 0; i < from.size(); ++i) key[i] = (*from[i])[g];
    const auto [found, fresh] = known.try_emplace(key, static_cast<std::int32_t>(out.count));
    group[g] = found->second;
    if (!fresh) continue;
    ++out.count;
    for (std::size_t i = 0; i < key.size(); ++i) to[i].push_back(key[i]);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) out.columns[variables[i]] = std::move(to[i]);
  return out;
}

void top_literals(const Formula& f, std::vector<const Atom*>& atoms, std::vector<const Formula*>& comparisons) {
  if (f.kind == Formula::Kind::atom) atoms.push_back(&f.atom);
  if (f.kind == Formula::Kind::compare) comparisons.push_back(&f);
  if (f.kind == Formula::Kind::conjunction)
    for (const Formula& part : f.parts) top_literals(part, atoms, comparisons);
}

// ---- which relations are listed ----

Lists::Lists(const Checked& program, const Data& data, Semantics semantics, const std::set<int>& dense,
             std::size_t memory, int query)
    : program_(program), data_(data), semantics_(semantics), dense_(dense), memory_(memory), query_(query) {
  // A mean over all constants, as ltn takes it, counts those that stand in no list.
  if (semantics == Semantics::ltn || semantics == Semantics::boolean) return;
  if (query_ >= 0 && !may_be_demanded()) query_ = -1;
  do choose();
  while (!listed_.empty() && !solve());
}

double Lists::cells(int predicate) const {
  double n = 1;
  for (int d : program_.predicates[predicate].domains) n *= static_cast<double>(program_.domains[d].size);
  return n;
}

bool Lists::may_be_listed(int predicate) const {
  const Predicate& p = program_.predicates[predicate];
  if (dense_.contains(predicate) || p.learn || p.name.starts_with('?') || data_.arrays.contains(p.name)) return false;
  // Where values are costs, what a tensor lacks costs nothing: it is not false.
  if (p.tensor && (p.defined || semantics_ == Semantics::minplus)) return false;
  if (cells(predicate) < kFewCells || cells(predicate) > 9e18) return false;
  double facts = 0;
  if (const auto found = data_.tables.find(p.name); found != data_.tables.end())
    for (const Table& table : found->second) facts += static_cast<double>(table.rows.size());
  for (const Statement& s : program_.syntax.statements) {
    // A sigmoid makes something of nothing.
    if (s.kind == Statement::Kind::directive && s.name == "semantics" && s.has_temperature && p.defined) return false;
    const auto chosen = [&](const Atom& a, bool) {
      return a.choice && matches_choice(program_, a, predicate, program_.id(s.head.name));
    };
    bool choice = false;
    for_each_atom(s.body, false, [&](const Atom& a, bool negative) { choice = choice || chosen(a, negative); });
    if (choice) return false;
    if (s.head.name != p.name) continue;
    if (s.kind == Statement::Kind::fact) ++facts;
    if (s.kind == Statement::Kind::rule && (s.has_temperature || !s.semantics.empty())) return false;
  }
  return facts * kCellsATuple <= cells(predicate);
}

bool Lists::is_listed(const Atom& a) const {
  if (a.choice) return false;
  const int id = program_.id(a.name);
  if (id < 0 || !listed_.contains(id)) return false;
  return std::all_of(a.terms.begin(), a.terms.end(), is_plain);
}

/// True if listed relations of the body say which tuples the head can have.
bool Lists::is_covered(const Statement& rule) const {
  std::vector<const Atom*> atoms;
  std::vector<const Formula*> comparisons;
  top_literals(rule.body, atoms, comparisons);
  std::set<std::string> bound;
  for (const Atom* a : atoms)
    if (is_listed(*a))
      for (const Term& t : a->terms)
        if (t.kind == Term::Kind::variable) bound.insert(t.text);
  return std::all_of(rule.head.terms.begin(), rule.head.terms.end(), [&](const Term& t) {
    return is_plain(t) && (t.kind != Term::Kind::variable || bound.contains(t.text));
  });
}

void Lists::choose() {
  listed_.clear();
  for (std::size_t p = 0; p < program_.predicates.size(); ++p)
    if (may_be_listed(static_cast<int>(p))) listed_.insert(static_cast<int>(p));
  for (bool more = true; more && !listed_.empty();) {
    more = false;
    for (const Statement& s : program_.syntax.statements)
      if (s.kind == Statement::Kind::rule && listed_.contains(program_.id(s.head.name)) && !is_covered(s)) {
        listed_.erase(program_.id(s.head.name));
        more = true;
      }
  }
}

CoreProgram Lists::support_rules() const {
  CoreProgram core;
  for (const Predicate& p : program_.predicates) core.predicates.push_back({p.name, p.domains, false});
  for (const auto& component : program_.components) {
    Core::Stage stage;
    for (int p : component)
      if (listed_.contains(p)) stage.predicates.push_back(p);
    for (std::size_t i = 0; i < program_.syntax.statements.size(); ++i) {
      const Statement& s = program_.syntax.statements[i];
      if (s.kind != Statement::Kind::rule ||
          program_.component_of[program_.id(s.head.name)] != program_.component_of[component[0]])
        continue;
      if (!listed_.contains(program_.id(s.head.name))) continue;
      std::vector<const Formula*> comparisons;
      const std::vector<const Atom*> atoms = listed_atoms(s.body, comparisons);
      stage.rules.push_back(static_cast<int>(core.rules.size()));
      core.rules.push_back(conjunction(program_, static_cast<int>(i), &s.head, atoms, comparisons).rule);
    }
    if (!stage.predicates.empty()) core.stages.push_back(std::move(stage));
  }
  return core;
}

/// Not by choices among relations, which are of any of them, nor where the query's own semantics has no lists.
bool Lists::may_be_demanded() const {
  bool choice = false;
  for (const Statement& s : program_.syntax.statements)
    for_each_atom(s.body, false, [&](const Atom& a, bool) { choice = choice || a.choice; });
  return !choice && program_.syntax.statements[query_].semantics.empty();
}

std::vector<const Atom*> Lists::listed_atoms(const Formula& body, std::vector<const Formula*>& comparisons) const {
  std::vector<const Atom*> atoms;
  top_literals(body, atoms, comparisons);
  std::erase_if(atoms, [&](const Atom* a) { return !is_listed(*a); });
  return atoms;
}

// ---- what a query demands ----
//
// In these semantics "and" of what is false is false, and "or" with it changes nothing. So a tuple's value hangs on
// those of the tuples in bodies alone of which no listed atom is false: these are demanded. Whatever meets a relation
// in another way, by a negation, a quantifier, an equation or a tensor of rules, may ask for any tuple: there it is
// whole.

/// Which relations the query meets by their lists alone, and which in other ways.
Lists::Needs Lists::needs_of_query() const {
  Needs needs;
  std::vector<int> left;
  const auto read = [&](const Statement& s, bool by_lists) {
    std::vector<const Formula*> comparisons;
    const std::vector<const Atom*> lists = listed_atoms(s.body, comparisons);
    const auto see = [&](const Atom& a, bool) {
      const bool part = by_lists && std::find(lists.begin(), lists.end(), &a) != lists.end();
      const int p = program_.id(a.name);
      if (p >= 0 && (part ? needs.parts : needs.whole).insert(p).second) left.push_back(p);
    };
    for_each_atom(s.body, false, see);
    for_each_atom(s.value, see);
  };
  read(program_.syntax.statements[query_], true);
  while (!left.empty()) {
    const int p = left.back();
    left.pop_back();
    const bool by_lists = listed_.contains(p) && !needs.whole.contains(p);
    for (const Statement& s : program_.syntax.statements)
      if ((s.kind == Statement::Kind::rule || s.kind == Statement::Kind::equation) && program_.id(s.head.name) == p)
        read(s, by_lists);
  }
  return needs;
}

/// As a rule for the predicate `answer`.
void Lists::add_query(CoreProgram& core) const {
  std::vector<const Formula*> comparisons;
  const std::vector<const Atom*> atoms = listed_atoms(program_.syntax.statements[query_].body, comparisons);
  CoreRule rule = conjunction(program_, query_, nullptr, atoms, comparisons).rule;
  core.answer = static_cast<int>(core.predicates.size());
  core.predicates.push_back({"answer", {}, true});
  rule.head = {core.answer, {}};
  core.stages.push_back({{core.answer}, {static_cast<int>(core.rules.size())}, {}});
  core.rules.push_back(std::move(rule));
}

/// Finds the tuples of every listed relation. False if one has so many that it had better be a tensor.
bool Lists::solve() {
  CoreProgram core = support_rules();
  std::vector<int> wanted(listed_.begin(), listed_.end());
  std::vector<const Formula*> comparisons;
  if (query_ >= 0 && !listed_atoms(program_.syntax.statements[query_].body, comparisons).empty()) {
    const Needs needs = needs_of_query();
    add_query(core);
    core = demanded(core, needs.whole);
    std::erase_if(wanted, [&](int p) {
      return !needs.whole.contains(p) && (!needs.parts.contains(p) || program_.predicates[p].defined);
    });
    wanted.push_back(core.answer);
  }
  SolveOptions options;
  options.memory = memory_;
  options.semantics = semantics_;
  Solver solver(program_, core, data_, options);
  solver.watch([&](int found, std::int64_t count) {
    const int part_of = core.predicates[found].part_of, predicate = part_of >= 0 ? part_of : found;
    if (!listed_.contains(predicate)) return;
    const bool fits = cells(predicate) * sizeof(double) <= static_cast<double>(memory_);
    if (fits && static_cast<double>(count) * kCellsATuple > cells(predicate)) throw TooMany{predicate};
  });
  try {
    solver.run(wanted);
  } catch (const TooMany& many) {
    dense_.insert(many.predicate);
    return false;
  }
  for (std::size_t p = 0; p < core.predicates.size(); ++p) {
    const int whole = core.predicates[p].part_of;
    if (whole < 0) continue;
    const auto [found, fresh] = relations_.try_emplace(whole);
    if (fresh)
      found->second = std::move(solver.relation(static_cast<int>(p)));
    else
      solver.relation(static_cast<int>(p)).tuples().each([&](const Value* tuple) { found->second.insert(tuple); });
  }
  for (int p : listed_) {
    if (const auto [found, fresh] = relations_.try_emplace(p); fresh) found->second = std::move(solver.relation(p));
    lists_.emplace(p, TupleList(relations_[p].tuples(), program_.syntax.name, program_.predicates[p].name));
  }
  return true;
}

const TupleList* Lists::find(int predicate) const {
  const auto found = lists_.find(predicate);
  return found == lists_.end() ? nullptr : &found->second;
}

// ---- how they meet ----

Joint Lists::joined(int statement, const std::vector<const Atom*>& atoms,
                    const std::vector<const Formula*>& comparisons, const Atom* head) const {
  CoreConjunction core = conjunction(program_, statement, head, atoms, comparisons);
  Join::Inputs inputs;
  std::vector<const TupleList*> lists;
  for (const CoreAtom& a : core.rule.body) {
    inputs.body.push_back(&relations_.at(a.predicate));
    lists.push_back(find(a.predicate));
  }
  if (head != nullptr && query_ >= 0) {  // otherwise its list has all that the body can derive
    inputs.body.push_back(&relations_.at(core.rule.head.predicate));
    core.rule.body.push_back(core.rule.head);
  }
  Joint joint;
  std::vector<std::vector<std::int32_t>*> columns(core.rule.domains.size(), nullptr), numbers;
  for (const auto& [name, variable] : core.variables) columns[variable] = &joint.columns[name];
  for (const Atom* a : atoms) numbers.push_back(&joint.numbers[a]);
  const std::size_t each = (core.variables.size() + atoms.size() + 4) * sizeof(std::int32_t);
  const auto most = static_cast<std::int64_t>(std::min<std::size_t>(memory_ / each, 1U << 31U)) - 1;
  std::vector<Value> tuple;
  Join join(core.rule, program_.domains, inputs, -1, {}, {}, true);
  join.each([&](const std::vector<Value>& values) {
    if (++joint.count > most) {
      const Statement& s = program_.syntax.statements[statement];
      fail_at(program_.syntax.name, s.place,
              fmt::format("the lists of `{}` meet in more than {} ways, which take more than {} MB, the limit",
                          format(s), most, memory_ >> 20));
    }
    for (std::size_t v = 0; v < columns.size(); ++v)
      if (columns[v] != nullptr) columns[v]->push_back(static_cast<std::int32_t>(values[v]));
    for (std::size_t a = 0; a < lists.size(); ++a) {
      tuple.clear();
      for (const CoreTerm& t : core.rule.body[a].terms)
        tuple.push_back(t.constant ? static_cast<Value>(t.index) : values[t.index]);
      numbers[a]->push_back(lists[a]->number(tuple.data()));
    }
    return true;
  });
  return joint;
}

}  // namespace wr::rules
