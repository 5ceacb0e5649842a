#include "rules/demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

namespace wr::rules {
namespace {

using Pattern = std::vector<bool>;  // which arguments are known

/// The rule without variables that nothing uses.
CoreRule compacted(CoreRule rule) {
  std::map<int, int> number;
  std::vector<int> domains;
  std::vector<std::string> names;
  const auto use = [&](CoreTerm& t) {
    if (t.constant) return;
    const auto [found, fresh] = number.try_emplace(t.index, static_cast<int>(domains.size()));
    if (fresh) {
      domains.push_back(rule.domains[t.index]);
      names.push_back(rule.names[t.index]);
    }
    t.index = found->second;
  };
  for (CoreTerm& t : rule.head.terms) use(t);
  for (CoreAtom& a : rule.body)
    for (CoreTerm& t : a.terms) use(t);
  for (CoreAtom& a : rule.negated)
    for (CoreTerm& t : a.terms) use(t);
  for (Condition& c : rule.conditions) {
    use(c.left);
    use(c.right);
  }
  rule.domains = std::move(domains);
  rule.names = std::move(names);
  return rule;
}

class Rewriter {
 public:
  Rewriter(const CoreProgram& program, const std::set<int>& whole)
      : in_(program), whole_(program.predicates.size(), false) {
    derived_.resize(program.predicates.size(), false);
    for (const CoreRule& r : program.rules) derived_[r.head.predicate] = true;
    for (const CoreCount& c : program.counts) need_whole(c.source);
    for (int p : whole) need_whole(p);
  }

  CoreProgram run() {
    do {  // what turns out to be needed whole is so everywhere
      grown_ = false;
      out_ = in_;
      stage_ = {};
      made_.clear();
      queue_.clear();
      for (const CoreRule& r : in_.rules)
        if (r.head.predicate == in_.answer) rewrite(r, {}, -1);
      for (; !queue_.empty(); queue_.pop_front()) {
        const auto [predicate, pattern] = queue_.front();
        const Made made = made_.at({predicate, pattern});
        for (const CoreRule& r : in_.rules)
          if (r.head.predicate == predicate) rewrite(r, pattern, made.demand, made.result);
      }
    } while (grown_);
    // The answer's own stage gives way to one of everything that is rewritten; the others stay, for what is needed
    // whole.
    std::erase_if(out_.stages, [&](const Core::Stage& s) { return s.predicates == std::vector<int>{in_.answer}; });
    stage_.predicates.push_back(in_.answer);
    out_.stages.push_back(stage_);
    return std::move(out_);
  }

 private:
  struct Made {
    int result, demand;
  };

  void need_whole(int predicate) {
    if (whole_[predicate]) return;
    whole_[predicate] = grown_ = true;
    for (const CoreRule& r : in_.rules)
      if (r.head.predicate == predicate) {
        for (const CoreAtom& a : r.body) need_whole(a.predicate);
        for (const CoreAtom& a : r.negated) need_whole(a.predicate);
      }
  }
  int add_predicate(const std::string& name, const std::vector<int>& domains, int facts_of = -1) {
    out_.predicates.push_back({name, domains, true, facts_of});
    return static_cast<int>(out_.predicates.size()) - 1;
  }
  void add_rule(const CoreRule& rule) {
    stage_.rules.push_back(static_cast<int>(out_.rules.size()));
    out_.rules.push_back(compacted(rule));
  }

  /// The predicate that holds what is demanded of another with these arguments known.
  Made made_for(int predicate, const Pattern& pattern, const CoreRule& from) {
    if (const auto found = made_.find({predicate, pattern}); found != made_.end()) return found->second;
    const CorePredicate p = in_.predicates[predicate];
    std::string known;
    std::vector<int> domains;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      known += pattern[i] ? 'b' : 'f';
      if (pattern[i]) domains.push_back(p.domains[i]);
    }
    const Made made{add_predicate(p.name + "#" + known, p.domains),
                    add_predicate("demand#" + p.name + "#" + known, domains)};
    out_.predicates[made.result].part_of = predicate;
    made_[{predicate, pattern}] = made;
    queue_.push_back({predicate, pattern});
    stage_.predicates.push_back(made.result);
    stage_.predicates.push_back(made.demand);
    // Its facts, as far as they are demanded.
    CoreRule facts;
    facts.statement = from.statement;
    const int copy = add_predicate(p.name + "#facts", p.domains, predicate);
    for (std::size_t i = 0; i < p.domains.size(); ++i) {
      facts.head.terms.push_back({false, static_cast<int>(i)});
      facts.domains.push_back(p.domains[i]);
      facts.names.push_back(fmt::format("x{}", i + 1));
    }
    facts.head.predicate = made.result;
    facts.body = {demand_atom(made.demand, facts.head.terms, pattern), {copy, facts.head.terms}};
    add_rule(facts);
    return made;
  }
  static CoreAtom demand_atom(int demand, const std::vector<CoreTerm>& terms, const Pattern& pattern) {
    CoreAtom a{demand, {}};
    for (std::size_t i = 0; i < terms.size(); ++i)
      if (pattern[i]) a.terms.push_back(terms[i]);
    return a;
  }

  void rewrite(const CoreRule& rule, const Pattern& pattern, int demand, int result = -1) {
    for (const CoreAtom& a : rule.negated) need_whole(a.predicate);
    CoreRule now = rule;  // grows atom by atom, in the order in which known values are passed on
    now.body.clear();
    std::set<int> known;
    const auto learn = [&](const CoreAtom& a) {
      for (const CoreTerm& t : a.terms)
        if (!t.constant) known.insert(t.index);
    };
    if (demand >= 0) {
      now.head.predicate = result;
      now.body.push_back(demand_atom(demand, rule.head.terms, pattern));
      learn(now.body.back());
    }
    for (const Condition& c : rule.conditions)
      if (c.compare == Condition::Compare::eq && c.left.constant != c.right.constant)
        known.insert(c.left.constant ? c.right.index : c.left.index);
    std::vector<const CoreAtom*> rest;
    for (const CoreAtom& a : rule.body) rest.push_back(&a);
    while (!rest.empty()) {
      const auto share = [&](const CoreAtom* a) {  // how much of it is known; facts before what is derived
        double n = 0;
        for (const CoreTerm& t : a->terms) n += t.constant || known.contains(t.index);
        return n / std::max(1.0, static_cast<double>(a->terms.size())) +
               (derived_[static_cast<std::size_t>(a->predicate)] ? 0 : 0.1);
      };
      const auto best = std::max_element(rest.begin(), rest.end(),
                                         [&](const CoreAtom* x, const CoreAtom* y) { return share(x) < share(y); });
      const CoreAtom atom = **best;
      rest.erase(best);
      add_atom(rule, atom, known, now);
      learn(atom);
    }
    add_rule(now);
  }
  void add_atom(const CoreRule& rule, const CoreAtom& atom, const std::set<int>& known, CoreRule& now) {
    const bool plain = !derived_[atom.predicate] || whole_[atom.predicate] || in_.predicates[atom.predicate].hidden;
    Pattern pattern;
    for (const CoreTerm& t : atom.terms) pattern.push_back(t.constant || known.contains(t.index));
    const bool any = std::find(pattern.begin(), pattern.end(), true) != pattern.end();
    if (plain || !any) {
      if (!plain) need_whole(atom.predicate);
      now.body.push_back(atom);
      return;
    }
    const Made made = made_for(atom.predicate, pattern, rule);
    CoreRule ask = now;  // who asks: what is known so far
    ask.head = demand_atom(made.demand, atom.terms, pattern);
    ask.negated.clear();
    std::erase_if(ask.conditions, [&](const Condition& c) {
      // A condition on what is not known yet cannot be tested here; one that defines a demanded value must stay.
      const auto is_known = [&](const CoreTerm& t) { return t.constant || known.contains(t.index); };
      return !is_known(c.left) || !is_known(c.right);
    });
    add_rule(ask);
    now.body.push_back({made.result, atom.terms});
  }

  const CoreProgram& in_;
  CoreProgram out_;
  Core::Stage stage_;
  std::vector<bool> whole_, derived_;
  std::map<std::pair<int, Pattern>, Made> made_;
  std::deque<std::pair<int, Pattern>> queue_;
  bool grown_ = false;
};

}  // namespace

CoreProgram demanded(const CoreProgram& program, const std::set<int>& whole) { return Rewriter(program, whole).run(); }

}  // namespace wr::rules
