#include "rules/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace wr::rules {
namespace {

constexpr int kDeepest = 2000;
constexpr std::size_t kMostBytes = 4 << 20;
constexpr int kMostTried = 10'000;

class Explainer {
 public:
  Explainer(const Checked& program, const CoreProgram& core, Solver& solver, const Worth& worth)
      : program_(program), core_(core), solver_(solver), worth_(worth) {}

  std::string tree(int predicate, const std::vector<Value>& tuple) {
    show(predicate, tuple, 0);
    return std::move(text_);
  }

 private:
  std::string name(int predicate, const std::vector<Value>& tuple) const {
    const CorePredicate& p = core_.predicates[predicate];
    std::string text = p.name + "(";
    for (std::size_t i = 0; i < tuple.size(); ++i)
      text += (i ? ", " : "") + quoted_constant(program_.domains[p.domains[i]].name_of(tuple[i]));
    return text + ")";
  }
  void line(int depth, const std::string& what) {
    text_ += std::string(static_cast<std::size_t>(2 * std::min(depth, 100)), ' ') + what + "\n";
  }
  std::vector<Value> instance(const CoreAtom& atom, const std::vector<Value>& values) const {
    std::vector<Value> tuple;
    for (const CoreTerm& t : atom.terms) tuple.push_back(t.constant ? static_cast<Value>(t.index) : values[t.index]);
    return tuple;
  }

  /// One way to derive a tuple.
  struct Witness {
    const CoreRule* rule = nullptr;
    std::vector<Value> values;  // of the rule's variables
    std::vector<int> of_head;   // the variables that the tuple gives
    double strength = 0;
  };
  using Allowed = std::function<bool(const CoreAtom& atom, const std::vector<Value>& values)>;

  void show(int predicate, const std::vector<Value>& tuple, int depth) {
    const std::string own = name(predicate, tuple);
    const double value = worth_.of ? worth_.of(predicate, tuple) : 1;
    const std::string what = worth_.of ? fmt::format("{:.6g}  {}", value, own) : own;
    if (depth > kDeepest || text_.size() > kMostBytes) {
      line(depth, what + "   ... (the rest is left out)");
      return;
    }
    const int rank = solver_.rank(predicate, tuple.data());
    if (rank == 0) {
      const Statement* fact = fact_of(predicate, tuple);
      const bool better_by_rule = fact != nullptr && worth_.is_of_one() && fact->weighted && fact->weight != value;
      if (!better_by_rule) {
        line(depth, what + "   fact" + (fact != nullptr ? fmt::format(", line {}", fact->place.line) : ""));
        return;
      }
    }
    if (!seen_.insert(own).second) {
      line(depth, what + "   as above");
      return;
    }
    line(depth, what);
    above_.insert(own);
    const Witness witness = best_witness(predicate, tuple, rank);
    if (witness.rule != nullptr) show_parts(witness, depth + 1);
    above_.erase(own);
  }

  Witness best_witness(int predicate, const std::vector<Value>& tuple, int rank) const {
    Witness best;
    const auto look = [&](const Allowed& allowed) {
      for (const CoreRule& rule : core_.rules) {
        if (rule.head.predicate == predicate) find(rule, tuple, allowed, best);
        if (best.rule != nullptr && !worth_.of) return;
      }
    };
    // What stands above, this one included, leans on it. Where that leaves nothing, and where values are of all
    // witnesses together, one that was there earlier than what it proves: then the tree cannot lean on itself either.
    if (worth_.is_of_one())
      look([&](const CoreAtom& a, const std::vector<Value>& values) {
        return !above_.contains(name(a.predicate, instance(a, values)));
      });
    if (best.rule == nullptr)
      look([&](const CoreAtom& a, const std::vector<Value>& values) {
        return solver_.rank(a.predicate, instance(a, values).data()) < rank;
      });
    return best;
  }

  /// The best of a rule's witnesses and the one before; the first of equals stays.
  void find(const CoreRule& rule, const std::vector<Value>& tuple, const Allowed& allowed, Witness& best) const {
    std::vector<Value> given;
    std::vector<int> variables;
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      const CoreTerm& t = rule.head.terms[i];
      if (t.constant) {
        if (static_cast<Value>(t.index) != tuple[i]) return;
        continue;
      }
      const auto before = std::find(variables.begin(), variables.end(), t.index);
      if (before != variables.end()) {
        if (given[before - variables.begin()] != tuple[i]) return;
        continue;
      }
      given.push_back(tuple[i]);
      variables.push_back(t.index);
    }
    Join::Inputs inputs;
    for (const CoreAtom& a : rule.body) inputs.body.push_back(&solver_.relation(a.predicate));
    for (const CoreAtom& a : rule.negated) inputs.negated.push_back(&solver_.relation(a.predicate));
    Join join(rule, program_.domains, inputs, -1, given, variables, true);
    int tried = 0;
    join.each([&](const std::vector<Value>& values) {
      for (const CoreAtom& a : rule.body)
        if (!allowed(a, values)) return true;
      const double value = worth_.of ? strength(rule, values) : 1;
      if (best.rule == nullptr || value > best.strength) best = {&rule, values, variables, value};
      return worth_.of && ++tried < kMostTried;
    });
  }

  /// How good a witness is: by its costs, its product, or its weakest part.
  double strength(const CoreRule& rule, const std::vector<Value>& values) const {
    const Statement& s = program_.syntax.statements[rule.statement];
    std::vector<double> parts;
    if (s.weighted) parts.push_back(s.weight);
    for (const CoreAtom& a : rule.body)
      if (!is_hidden(a)) parts.push_back(worth_.of(a.predicate, instance(a, values)));
    for (const CoreAtom& a : rule.doubted)
      if (!is_hidden(a)) parts.push_back(1 - worth_.of(a.predicate, instance(a, values)));
    double costs = 0, product = 1, weakest = 1;
    for (double p : parts) {
      costs += p;
      product *= p;
      weakest = std::min(weakest, p);
    }
    if (worth_.semantics == Semantics::minplus) return -costs;
    return worth_.semantics == Semantics::maxprod ? product : weakest;
  }

  bool is_hidden(const CoreAtom& a) const { return core_.predicates[a.predicate].hidden; }
  void show_parts(const Witness& witness, int depth) {
    const CoreRule& rule = *witness.rule;
    line(depth, "by " + described(rule, witness.values, witness.of_head));
    for (const CoreAtom& a : rule.body) {
      if (is_hidden(a))
        line(depth, "the count holds");
      else
        show(a.predicate, instance(a, witness.values), depth);
    }
    for (const CoreAtom& a : rule.negated)
      line(depth, is_hidden(a) ? "nothing speaks against it" : "not " + name(a.predicate, instance(a, witness.values)));
    for (const CoreAtom& a : rule.doubted) {
      const std::vector<Value> tuple = instance(a, witness.values);
      line(depth, is_hidden(a)
                      ? "as far as nothing speaks against it"
                      : fmt::format("{:.6g}  not {}", 1 - worth_.of(a.predicate, tuple), name(a.predicate, tuple)));
    }
  }

  /// The fact of the text that says so; nullptr if it came with the data.
  const Statement* fact_of(int predicate, const std::vector<Value>& tuple) const {
    const Predicate& p = program_.predicates[predicate];
    for (const Statement& s : program_.syntax.statements) {
      if (s.kind != Statement::Kind::fact || s.head.name != p.name) continue;
      bool same = true;
      for (std::size_t i = 0; i < tuple.size(); ++i)
        same = same && program_.domains[p.domains[i]].find(s.head.terms[i].text) == static_cast<std::int64_t>(tuple[i]);
      if (same) return &s;
    }
    return nullptr;
  }
  std::string described(const CoreRule& rule, const std::vector<Value>& witness,
                        const std::vector<int>& of_head) const {
    const Statement& s = program_.syntax.statements[rule.statement];
    std::string text = format(s);
    if (s.place.line > 0) text += fmt::format("   line {}", s.place.line);
    std::set<std::string> told;
    for (std::size_t v = 0; v < rule.names.size(); ++v)
      if (std::find(of_head.begin(), of_head.end(), static_cast<int>(v)) == of_head.end() && rule.names[v] != "_" &&
          told.insert(rule.names[v]).second)
        text += fmt::format(", {} = {}", rule.names[v],
                            quoted_constant(program_.domains[rule.domains[v]].name_of(witness[v])));
    return text;
  }

  const Checked& program_;
  const CoreProgram& core_;
  Solver& solver_;
  const Worth& worth_;
  std::set<std::string> seen_, above_;  // what was shown; what stands above
  std::string text_;
};

}  // namespace

std::string explain_tuple(const Checked& program, const CoreProgram& core, Solver& solver, int predicate,
                          const std::vector<Value>& tuple, const Worth& worth) {
  return Explainer(program, core, solver, worth).tree(predicate, tuple);
}

}  // namespace wr::rules
