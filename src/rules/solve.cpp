#include "rules/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rules/functions.h"
#include "windrow/clock.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {}  // namespace

Solver::Solver(const Checked& program, const CoreProgram& core, const Data& data, const SolveOptions& options)
    : program_(program), core_(core), data_(data), options_(options) {
  for (const CorePredicate& p : core.predicates) {
    std::vector<std::int64_t> sizes;
    double cells = 1;
    for (int d : p.domains) {
      sizes.push_back(program.domains[d].size);
      cells *= static_cast<double>(std::max<std::int64_t>(1, sizes.back()));
    }
    if (cells > 9e18)
      throw Error(fmt::format("{}: {} could have {:.3g} tuples; at most 9e18 can be told apart", program.syntax.name,
                              p.name, cells));
    relations_.emplace_back(sizes);
    deltas_.emplace_back(sizes);
    fresh_.emplace_back(sizes);
  }
  if (options.semantics == Semantics::minplus) falsehood_ = std::numeric_limits<double>::infinity();
  fact_copies_.resize(core.predicates.size());
  for (std::size_t p = 0; p < core.predicates.size(); ++p)
    if (const int of = core.predicates[p].facts_of; of >= 0) fact_copies_[of].push_back(static_cast<int>(p));
  for (const Statement& s : program.syntax.statements) facts_.rules.push_back({format(s), s.place.line, 0, 0});
}

std::uint64_t Solver::number_of(int predicate, const Value* tuple) const {
  const auto& domains = core_.predicates[predicate].domains;
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < domains.size(); ++i)
    n = n * static_cast<std::uint64_t>(program_.domains[domains[i]].size) + tuple[i];
  return n;
}

int Solver::rank(int predicate, const Value* tuple) const {
  const Ranks& ranks = ranks_[predicate];
  const auto found = ranks.find(number_of(predicate, tuple));
  return found == ranks.end() ? -1 : found->second;
}

void Solver::add_fact(int predicate, const std::vector<Value>& tuple) {
  for (int copy : fact_copies_[predicate]) relation(copy).insert(tuple.data());
  if (relation(predicate).insert(tuple.data()) && !ranks_.empty())
    ranks_[predicate].try_emplace(number_of(predicate, tuple.data()), 0);
}

void Solver::load_facts(const Data& data, std::vector<bool> needed) {
  for (std::size_t p = 0; p < fact_copies_.size(); ++p)
    for (int copy : fact_copies_[p]) needed[p] = needed[p] || needed[copy];
  std::vector<Value> tuple;
  const auto add = [&](int id, const auto& texts, const auto& text_of) {
    const Predicate& p = program_.predicates[id];
    tuple.clear();
    for (std::size_t i = 0; i < texts.size(); ++i)
      tuple.push_back(static_cast<Value>(program_.domains[p.domains[i]].find(text_of(texts[i]))));
    add_fact(id, tuple);
  };
  for (const Statement& s : program_.syntax.statements)
    if (s.kind == Statement::Kind::fact && !(s.weighted && s.weight == falsehood_))
      if (const int id = program_.id(s.head.name); needed[id])
        add(id, s.head.terms, [](const Term& t) -> const std::string& { return t.text; });
  for (const auto& [name, tables] : data.tables) {
    const int id = program_.id(name);
    if (id < 0 || !needed[id]) continue;
    for (const Table& table : tables)
      for (std::size_t r = 0; r < table.rows.size(); ++r)
        if (table.weights.empty() || table.weights[r] != falsehood_)
          add(id, table.rows[r], [](const std::string& t) -> const std::string& { return t; });
  }
  for (const auto& [name, array] : data.arrays)
    if (const int id = program_.id(name); id >= 0 && needed[id]) load_array(id, array);
}

void Solver::load_array(int predicate, const Array& array) {
  const Array values = array.astype(DType::f64).contiguous();
  const double* v = values.data<double>();
  std::vector<Value> tuple(static_cast<std::size_t>(array.rank()));
  for (std::int64_t i = 0; i < array.count(); ++i) {
    if (v[i] == falsehood_) continue;
    std::int64_t rest = i;
    for (int a = array.rank() - 1; a >= 0; --a) {
      tuple[a] = static_cast<Value>(rest % array.shape()[a]);
      rest /= array.shape()[a];
    }
    if (std::isnan(v[i])) {
      const Predicate& p = program_.predicates[predicate];
      std::string at;
      for (std::size_t a = 0; a < tuple.size(); ++a)
        at += (at.empty() ? "" : ", ") + program_.domains[p.domains[a]].name_of(tuple[a]);
      throw Error(
          fmt::format("{}: the array that is given for {} has at ({}) no number, which is neither true nor false",
                      program_.syntax.name, p.name, at));
    }
    add_fact(predicate, tuple);
  }
}

std::vector<bool> Solver::needed_by(const std::vector<int>& wanted) const {
  std::vector<bool> needed(core_.predicates.size(), wanted.empty());
  for (int p : wanted) needed[p] = true;
  // Stages stand in the order of computing: one walk back finds all, but for rules inside a stage.
  for (auto stage = core_.stages.rbegin(); stage != core_.stages.rend(); ++stage)
    for (bool more = true; more;) {
      more = false;
      const auto need = [&](int p) {
        if (needed[p]) return;
        needed[p] = true;
        more = true;
      };
      for (int r : stage->rules) {
        const CoreRule& rule = core_.rules[r];
        if (!needed[rule.head.predicate]) continue;
        for (const CoreAtom& a : rule.body) need(a.predicate);
        for (const CoreAtom& a : rule.negated) need(a.predicate);
      }
      for (int c : stage->counts)
        if (needed[core_.counts[c].head]) need(core_.counts[c].source);
    }
  return needed;
}

void Solver::run(const std::vector<int>& wanted) {
  const double start = seconds_now();
  const std::vector<bool> needed = needed_by(wanted);
  load_facts(data_, needed);
  for (const Core::Stage& stage : core_.stages) {
    Core::Stage part;
    for (int p : stage.predicates)
      if (needed[p]) part.predicates.push_back(p);
    for (int r : stage.rules)
      if (needed[core_.rules[r].head.predicate]) part.rules.push_back(r);
    if (part.predicates.empty()) continue;
    for (int c : stage.counts) run_count(core_.counts[c]);
    if (!part.rules.empty()) run_stage(part);
  }
  facts_.iterations = iteration_;
  facts_.seconds = seconds_now() - start;
  std::erase_if(facts_.rules, [](const SolveFacts::Line& line) { return line.seconds == 0; });
}

Join::Inputs Solver::inputs_of(const CoreRule& rule, int delta) {
  Join::Inputs inputs;
  for (std::size_t a = 0; a < rule.body.size(); ++a) {
    const auto p = static_cast<std::size_t>(rule.body[a].predicate);
    inputs.body.push_back(static_cast<int>(a) == delta ? &deltas_[p] : &relations_[p]);
  }
  for (const CoreAtom& a : rule.negated) inputs.negated.push_back(&relation(a.predicate));
  return inputs;
}

void Solver::run_join(Join& join, int rule) {
  const CoreRule& r = core_.rules[rule];
  SolveFacts::Line& line = facts_.rules[r.statement];
  Trie& out = fresh_[r.head.predicate];
  const double start = seconds_now();
  const std::int64_t before = out.count();
  join.run(out);
  line.found += out.count() - before;
  line.seconds += seconds_now() - start;
}

void Solver::note_ranks(int predicate, const std::vector<Value>& prefix, const Row& row) {
  std::vector<Value> tuple = prefix;
  row.each([&](Value v) {
    tuple.back() = v;
    ranks_[predicate].try_emplace(number_of(predicate, tuple.data()), iteration_);
    return true;
  });
}

std::int64_t Solver::take_news(const Core::Stage& stage, bool recursive) {
  std::int64_t news = 0;
  for (int p : stage.predicates) {
    Relation& all = relation(p);
    Relation& delta = deltas_[p];
    Trie& fresh = fresh_[p];
    if (recursive) delta.clear();
    if (fresh.arity() == 0) {
      if (!fresh.empty() && all.insert(nullptr)) {
        ++news;
        if (recursive) delta.insert(nullptr);
        if (!ranks_.empty()) ranks_[p].try_emplace(0, iteration_);
      }
    } else {
      fresh.each_row([&](std::vector<Value>& prefix, const Row& row) {
        const Row* known = all.tuples().row(all.arity() - 1, prefix.data());
        const Row* add = &row;
        if (known != nullptr && !known->empty()) {
          scratch_ = row;
          scratch_.erase(*known);
          add = &scratch_;
        }
        if (add->empty()) return;
        news += add->count();
        if (!ranks_.empty()) note_ranks(p, prefix, *add);
        if (recursive) delta.insert(prefix.data(), *add);
        all.insert(prefix.data(), *add);
      });
    }
    fresh.clear();
    if (watcher_) watcher_(p, all.count());
  }
  tuples_ += news;
  check_memory();
  return news;
}

void Solver::check_memory() {
  if (tuples_ < 2 * checked_at_ || tuples_ < 1'000'000) return;
  checked_at_ = tuples_;
  std::size_t bytes = 0;
  for (const Relation& r : relations_) bytes += r.bytes();
  if (bytes > options_.memory)
    throw Error(fmt::format("{}: {} tuples take {} MB; the limit is {} MB", program_.syntax.name, tuples_, bytes >> 20,
                            options_.memory >> 20));
}

void Solver::run_stage(const Core::Stage& stage) {
  const auto inside = [&](int p) {
    return std::find(stage.predicates.begin(), stage.predicates.end(), p) != stage.predicates.end();
  };
  bool recursive = false;
  ++iteration_;
  for (int r : stage.rules) {
    const CoreRule& rule = core_.rules[r];
    for (const CoreAtom& a : rule.body) recursive = recursive || inside(a.predicate);
    Join join(rule, program_.domains, inputs_of(rule, -1), -1);
    run_join(join, r);
  }
  std::int64_t news = take_news(stage, recursive);
  if (!recursive) return;
  std::vector<Running> joins;
  for (int r : stage.rules) {
    const CoreRule& rule = core_.rules[r];
    for (std::size_t a = 0; a < rule.body.size(); ++a)
      if (inside(rule.body[a].predicate))
        joins.push_back({Join(rule, program_.domains, inputs_of(rule, static_cast<int>(a)), static_cast<int>(a)), r});
  }
  const int most = options_.most_iterations > 0 ? options_.most_iterations : 10'000'000;
  for (int i = 1; news > 0; ++i) {
    if (i > most)
      throw Error(fmt::format("{}: {} has not come to an end after {} iterations; the last one found {} tuples",
                              program_.syntax.name, core_.predicates[stage.predicates[0]].name, most, news));
    ++iteration_;
    for (Running& j : joins) run_join(j.join, j.rule);
    news = take_news(stage, true);
  }
}

void Solver::run_count(const CoreCount& c) {
  const Relation& source = relation(c.source);
  Relation& head = relation(c.head);
  const auto groups = static_cast<std::size_t>(head.arity());
  std::map<std::vector<Value>, std::int64_t> counts;
  source.tuples().each_row([&](std::vector<Value>& prefix, const Row& row) {
    counts[{prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(groups)}] += row.count();
  });
  ++iteration_;
  const auto add = [&](const std::vector<Value>& tuple) {
    head.insert(tuple.data());
    if (!ranks_.empty()) ranks_[c.head].try_emplace(number_of(c.head, tuple.data()), iteration_);
  };
  if (!holds<std::int64_t>(0, c.compare, c.number)) {
    for (const auto& [tuple, n] : counts)
      if (holds<std::int64_t>(n, c.compare, c.number)) add(tuple);
    return;
  }
  // None at all is an answer too: every tuple of the domains is asked.
  double cells = 1;
  for (std::int64_t size : head.tuples().sizes()) cells *= static_cast<double>(size);
  if (cells * 8 > static_cast<double>(options_.memory))
    throw Error(fmt::format("{}: a count that may be 0 is asked for {:.3g} tuples, more than the memory limit allows",
                            program_.syntax.name, cells));
  std::vector<Value> tuple(groups, 0);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(cells); ++i) {
    std::int64_t rest = i;
    for (std::size_t a = groups; a-- > 0;) {
      tuple[a] = static_cast<Value>(rest % head.tuples().sizes()[a]);
      rest /= head.tuples().sizes()[a];
    }
    const auto found = counts.find(tuple);
    if (holds<std::int64_t>(found == counts.end() ? 0 : found->second, c.compare, c.number)) add(tuple);
  }
}

}  // namespace wr::rules
