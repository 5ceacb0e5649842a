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
    const CorePredicate& p = core_.predicates[static_cast<std::size_t>(predicate)];
    std::string text = p.name + "(";
    for (std::size_t i = 0; i < tuple.size(); ++i)
      text +=
          (i ? ", " : "") + quoted_constant(program_.domains[static_cast<std::size_t>(p.domains[i])].name_of(tuple[i]));
    return text + ")";
  }
  void line(int depth, const std::string& what) {
    text_ += std::string(static_cast<std::size_t>(2 * std::min(depth, 100)), ' ') + what + "\n";
  }
  std::vector<Value> instance(const CoreAtom& atom, const std::vector<Value>& values) const {
    std::vector<Value> tuple;
    for (const CoreTerm& t : atom.terms)
      tuple.push_back(t.constant ? static_cast<Value>(t.index) : values[static_cast<std::size_t>(t.index)]);
    return tuple;
  }

  void show(int predicate, const std::vector<Value>& tuple, int depth) {
    std::string what = name(predicate, tuple);
    if (worth_.of) what = fmt::format("{:.6g}  ", worth_.of(predicate, tuple)) + what;
    const int rank = solver_.rank(predicate, tuple.data());
    if (depth > kDeepest || text_.size() > kMostBytes) {
      line(depth, what + "   ... (the rest is left out)");
      return;
    }
    if (rank == 0) {
      line(depth, what + "   fact" + fact_line(predicate, tuple));
      return;
    }
    if (!seen_.insert(what).second) {
      line(depth, what + "   as above");
      return;
    }
    for (const CoreRule& rule : core_.rules)
      if (rule.head.predicate == predicate && show_by(rule, what, tuple, rank, depth)) return;
    line(depth, what);
  }
  std::string fact_line(int predicate, const std::vector<Value>& tuple) const {
    const Predicate& p = program_.predicates[static_cast<std::size_t>(predicate)];
    for (const Statement& s : program_.syntax.statements) {
      if (s.kind != Statement::Kind::fact || s.head.name != p.name) continue;
      bool same = true;
      for (std::size_t i = 0; i < tuple.size(); ++i)
        same = same && program_.domains[static_cast<std::size_t>(p.domains[i])].find(s.head.terms[i].text) ==
                           static_cast<std::int64_t>(tuple[i]);
      if (same) return fmt::format(", line {}", s.place.line);
    }
    return "";
  }
  bool show_by(const CoreRule& rule, const std::string& what, const std::vector<Value>& tuple, int rank, int depth) {
    std::vector<Value> given;
    std::vector<int> variables;
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      const CoreTerm& t = rule.head.terms[i];
      if (t.constant) {
        if (static_cast<Value>(t.index) != tuple[i]) return false;
        continue;
      }
      const auto before = std::find(variables.begin(), variables.end(), t.index);
      if (before != variables.end()) {
        if (given[static_cast<std::size_t>(before - variables.begin())] != tuple[i]) return false;
        continue;
      }
      given.push_back(tuple[i]);
      variables.push_back(t.index);
    }
    Join::Inputs inputs;
    for (const CoreAtom& a : rule.body) inputs.body.push_back(&solver_.relation(a.predicate));
    for (const CoreAtom& a : rule.negated) inputs.negated.push_back(&solver_.relation(a.predicate));
    Join join(rule, program_.domains, inputs, -1, given, variables, true);
    std::vector<Value> witness;
    double best = 0;
    int tried = 0;
    join.each([&](const std::vector<Value>& values) {
      // A witness was there earlier than what it proves; otherwise the tree could lean on itself.
      for (const CoreAtom& a : rule.body)
        if (solver_.rank(a.predicate, instance(a, values).data()) >= rank) return true;
      if (!worth_.of) {
        witness = values;
        return false;
      }
      const double value = strength(rule, values);
      if (witness.empty() || value > best) witness = values, best = value;  // the first of equals stays
      return ++tried < kMostTried;
    });
    if (witness.empty() && !rule.domains.empty()) return false;
    if (rule.domains.empty() && !ground_holds(rule, rank)) return false;
    line(depth, what);
    line(depth + 1, "by " + described(rule, witness, variables));
    for (const CoreAtom& a : rule.body) {
      if (core_.predicates[static_cast<std::size_t>(a.predicate)].hidden)
        line(depth + 1, "the count holds");
      else
        show(a.predicate, instance(a, witness), depth + 1);
    }
    for (const CoreAtom& a : rule.negated) {
      if (core_.predicates[static_cast<std::size_t>(a.predicate)].hidden)
        line(depth + 1, "nothing speaks against it");
      else
        line(depth + 1, "not " + name(a.predicate, instance(a, witness)));
    }
    for (const CoreAtom& a : rule.doubted) {
      if (core_.predicates[static_cast<std::size_t>(a.predicate)].hidden)
        line(depth + 1, "as far as nothing speaks against it");
      else
        line(depth + 1, fmt::format("{:.6g}  not {}", 1 - worth_.of(a.predicate, instance(a, witness)),
                                    name(a.predicate, instance(a, witness))));
    }
    return true;
  }
  /// How good a witness is: as its weakest part, or by its costs together.
  double strength(const CoreRule& rule, const std::vector<Value>& values) const {
    double weakest = 1, costs = 0;
    for (const CoreAtom& a : rule.body) {
      if (core_.predicates[static_cast<std::size_t>(a.predicate)].hidden) continue;
      const double value = worth_.of(a.predicate, instance(a, values));
      weakest = std::min(weakest, value);
      costs += value;
    }
    for (const CoreAtom& a : rule.doubted)
      if (!core_.predicates[static_cast<std::size_t>(a.predicate)].hidden)
        weakest = std::min(weakest, 1 - worth_.of(a.predicate, instance(a, values)));
    return worth_.costs ? -costs : weakest;
  }
  bool ground_holds(const CoreRule& rule, int rank) const {
    return std::all_of(rule.body.begin(), rule.body.end(), [&](const CoreAtom& a) {
      const std::vector<Value> tuple = instance(a, {});
      const int r = solver_.rank(a.predicate, tuple.data());
      return r >= 0 && r < rank;
    });
  }
  std::string described(const CoreRule& rule, const std::vector<Value>& witness,
                        const std::vector<int>& of_head) const {
    const Statement& s = program_.syntax.statements[static_cast<std::size_t>(rule.statement)];
    std::string text = format(s);
    if (s.place.line > 0) text += fmt::format("   line {}", s.place.line);
    std::set<std::string> told;
    for (std::size_t v = 0; v < rule.names.size(); ++v)
      if (std::find(of_head.begin(), of_head.end(), static_cast<int>(v)) == of_head.end() && rule.names[v] != "_" &&
          told.insert(rule.names[v]).second)
        text += fmt::format(
            ", {} = {}", rule.names[v],
            quoted_constant(program_.domains[static_cast<std::size_t>(rule.domains[v])].name_of(witness[v])));
    return text;
  }

  const Checked& program_;
  const CoreProgram& core_;
  Solver& solver_;
  const Worth& worth_;
  std::set<std::string> seen_;
  std::string text_;
};

}  // namespace

std::string explain_tuple(const Checked& program, const CoreProgram& core, Solver& solver, int predicate,
                          const std::vector<Value>& tuple, const Worth& worth) {
  return Explainer(program, core, solver, worth).tree(predicate, tuple);
}

}  // namespace wr::rules
