// Random bodies of every connective, quantifier and join, in every semantics but ltn, against their definitions in
// plain loops of double; their gradients against differences of those.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "rules_support.h"
#include "windrow/rules.h"

namespace wr::rules {
namespace {

constexpr int kSize = 3;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
using Values = std::map<std::string, std::vector<double>>;
using Assigned = std::map<char, int>;

struct Node {
  enum class Kind { atom, both, either, negation, exists, forall, implies, compare, count };
  Kind kind = Kind::atom;
  std::string name;  // of an atom's relation; of a comparison
  std::string variables;
  std::vector<Node> parts;
  int number = 0;  // that a count is compared with
};

std::string text_of(const Node& n) {
  const auto joined = [&](const std::string& mark) {
    std::string text;
    for (const Node& p : n.parts) text += (text.empty() ? "" : mark) + text_of(p);
    return text;
  };
  switch (n.kind) {
    case Node::Kind::atom: {
      std::string text = n.name + "(";
      for (char v : n.variables) text += std::string(text.back() == '(' ? "" : ", ") + v;
      return text + ")";
    }
    case Node::Kind::both:
      return joined(", ");
    case Node::Kind::either:
      return "(" + joined("; ") + ")";
    case Node::Kind::negation:
      return "not (" + joined(", ") + ")";
    case Node::Kind::exists:
      return "exists(" + n.variables + ": " + joined(", ") + ")";
    case Node::Kind::forall:
      return "forall(" + n.variables + ": " + joined(", ") + ")";
    case Node::Kind::implies:
      return joined(" -> ");
    case Node::Kind::compare:
      return std::string(1, n.variables[0]) + " " + n.name + " " + n.variables[1];
    case Node::Kind::count:
      return "count(" + n.variables + ": " + joined(", ") + ") >= " + std::to_string(n.number);
  }
  return "";
}

/// What a formula is worth, by the table of docs/rules.md.
class Oracle {
 public:
  Oracle(Semantics semantics, const Values& values) : semantics_(semantics), values_(values) {}

  double crisp(bool holds) const {
    if (semantics_ == Semantics::minplus) return holds ? 0 : kInfinite;
    return holds ? 1 : 0;
  }
  double both(double a, double b) const {
    switch (semantics_) {
      case Semantics::godel:
        return std::min(a, b);
      case Semantics::lukasiewicz:
        return std::max(0.0, a + b - 1);
      case Semantics::minplus:
        return a + b;
      default:
        return a * b;
    }
  }
  double either(double a, double b) const {
    switch (semantics_) {
      case Semantics::product:
        return a + b - a * b;
      case Semantics::lukasiewicz:
        return std::min(1.0, a + b);
      case Semantics::sum:
        return a + b;
      case Semantics::minplus:
        return std::min(a, b);
      default:
        return std::max(a, b);
    }
  }
  double implies(double a, double b) const {
    switch (semantics_) {
      case Semantics::godel:
        return a <= b ? 1 : b;
      case Semantics::lukasiewicz:
        return std::min(1.0, 1 - a + b);
      case Semantics::maxprod:
        return std::max(1 - a, b);
      default:
        return 1 - a + a * b;
    }
  }
  double of(const Node& n, const Assigned& at) const {
    switch (n.kind) {
      case Node::Kind::atom: {
        int cell = 0;
        for (char v : n.variables) cell = cell * kSize + at.at(v);
        return values_.at(n.name)[static_cast<std::size_t>(cell)];
      }
      case Node::Kind::both:
      case Node::Kind::either: {
        double all = of(n.parts[0], at);
        for (std::size_t i = 1; i < n.parts.size(); ++i)
          all = n.kind == Node::Kind::both ? both(all, of(n.parts[i], at)) : either(all, of(n.parts[i], at));
        return all;
      }
      case Node::Kind::negation:
        return 1 - of(n.parts[0], at);
      case Node::Kind::implies:
        return implies(of(n.parts[0], at), of(n.parts[1], at));
      case Node::Kind::compare: {
        const int a = at.at(n.variables[0]), b = at.at(n.variables[1]);
        return crisp(n.name == "!=" ? a != b : a < b);
      }
      case Node::Kind::exists:
        return some(n.parts[0], n.variables, at);
      case Node::Kind::forall: {
        double all = crisp(true);
        each(n.variables, at, [&](const Assigned& here) { all = both(all, of(n.parts[0], here)); });
        return all;
      }
      case Node::Kind::count: {
        double total = 0;  // of costs: how many there are
        each(n.variables, at, [&](const Assigned& here) {
          const double value = of(n.parts[0], here);
          total += semantics_ == Semantics::minplus ? (value < kInfinite ? 1 : 0) : value;
        });
        return crisp(total >= n.number);
      }
    }
    return 0;
  }
  double some(const Node& n, const std::string& variables, const Assigned& at) const {
    double any = crisp(false);
    each(variables, at, [&](const Assigned& here) { any = either(any, of(n, here)); });
    return any;
  }

 private:
  template <class Fn>
  void each(const std::string& variables, Assigned at, const Fn& fn) const {
    if (variables.empty()) return fn(at);
    for (int c = 0; c < kSize; ++c) {
      at[variables[0]] = c;
      each(variables.substr(1), at, fn);
    }
  }
  Semantics semantics_;
  const Values& values_;
};

/// Bodies over a, b and c, which are all in positive literals; d is quantified.
class RandomBody {
 public:
  RandomBody(std::uint64_t seed, Semantics semantics) : engine_(seed), costs_(semantics == Semantics::minplus) {}
  Node body() {
    static const std::vector<std::vector<std::string>> kShapes{
        {"Pa", "Qb"},         {"Eab"},        {"Eab", "Pb"},      {"Eac", "Fcb"},
        {"Fcb", "Eac", "Pc"}, {"Eaa", "Fab"}, {"Eba", "Pa", "Qc"}};
    Node all{Node::Kind::both, "", "", {}};
    const auto& shape = kShapes[below(kShapes.size())];
    for (const std::string& a : shape) {
      all.parts.push_back(atom(a.substr(0, 1), a.substr(1)));
      for (char v : a.substr(1))
        if (used_.find(v) == std::string::npos) used_ += v;
    }
    for (std::uint64_t n = below(3); n > 0; --n) all.parts.push_back(literal());
    std::shuffle(all.parts.begin(), all.parts.end(), engine_);
    return all;
  }
  const std::string& used() const { return used_; }

 private:
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  std::string variable() { return std::string(1, used_[below(used_.size())]); }
  static Node atom(const std::string& name, const std::string& variables) {
    return {Node::Kind::atom, name, variables, {}};
  }
  Node some_atom() {
    return below(2) == 0 ? atom(below(2) == 0 ? "P" : "Q", variable())
                         : atom(below(2) == 0 ? "E" : "F", variable() + variable());
  }
  Node of_d() { return below(2) == 0 ? atom("E", variable() + "d") : atom("F", "d" + variable()); }
  Node literal() {
    using Kind = Node::Kind;
    switch (below(costs_ ? 5 : 9)) {
      case 0:
        return {Kind::either, "", "", {some_atom(), some_atom()}};
      case 1:
        return {Kind::exists, "", "d", {{Kind::both, "", "", {of_d(), atom("P", "d")}}}};
      case 2:
        return {Kind::compare, below(2) == 0 ? "!=" : "<", variable() + variable(), {}};
      case 3:
        return {Kind::forall, "", "d", {of_d()}};
      case 4:
        return {Kind::count, "", "d", {of_d()}, 1 + static_cast<int>(below(2))};
      case 5:
        return {Kind::negation, "", "", {some_atom()}};
      case 6:
        return {Kind::negation, "", "", {{Kind::exists, "", "d", {of_d()}}}};
      case 7:
        return {Kind::forall, "", "d", {{Kind::implies, "", "", {of_d(), atom("Q", "d")}}}};
      default:
        return {Kind::either,
                "",
                "",
                {{Kind::both, "", "", {some_atom(), some_atom()}}, {Kind::negation, "", "", {some_atom()}}}};
    }
  }
  std::mt19937_64 engine_;
  bool costs_;
  std::string used_;
};

/// Some are 0, 1 or equal; where gradients are asked for, none are.
Values some_values(std::uint64_t seed, Semantics semantics, bool smooth) {
  std::mt19937_64 engine(seed);
  Values values;
  for (const auto& [name, count] : {std::pair{"P", kSize}, {"Q", kSize}, {"E", kSize * kSize}, {"F", kSize * kSize}})
    for (int i = 0; i < count; ++i)
      values[name].push_back(!smooth && engine() % 2 == 0 ? 0.25 * static_cast<double>(engine() % 5)
                                                          : 0.05 + 0.9 * static_cast<double>(engine() >> 11) * 0x1p-53);
  if (semantics == Semantics::minplus)  // no way at all
    for (auto& [name, all] : values)
      for (double& v : all)
        if (engine() % 4 == 0) v = kInfinite;
  return values;
}

Program given(const std::string& rules, const Values& values) {
  Program program = Program::parse(
      "domain D = 3.\nrel P(D) input.\nrel Q(D) input.\nrel E(D, D) input.\nrel F(D, D) input.\n" + rules);
  for (const auto& [name, v] : values)
    program.set(name, Array::from(v, name == "P" || name == "Q" ? Shape{kSize} : Shape{kSize, kSize}));
  return program;
}

struct Case {
  Node body;
  std::string rule, rest;  // variables that the head lacks
  Semantics semantics;
};
const std::vector<Semantics> kSemantics{Semantics::product, Semantics::godel,   Semantics::lukasiewicz,
                                        Semantics::sum,     Semantics::maxprod, Semantics::minplus};

Case some_case(std::uint64_t seed) {
  const Semantics s = kSemantics[seed % kSemantics.size()];
  RandomBody random(seed, s);
  Case c{random.body(), "", "", s};
  for (char v : random.used())
    if (v != 'a') c.rest += v;
  // The sum's own truth value is a step; a temperature shows the sum itself.
  c.rule = "H(a) :- " + text_of(c.body) + (s == Semantics::sum ? " T=1.\n" : ".\n");
  return c;
}
double expected(const Case& c, const Values& values, int a) {
  const double value = Oracle(c.semantics, values).some(c.body, c.rest, {{'a', a}});
  return c.semantics == Semantics::sum ? 1 / (1 + std::exp(-value)) : value;
}

TEST(RulesConnectives, RandomBodiesAreWhatTheirDefinitionsSay) {
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    const Case c = some_case(seed);
    const Values values = some_values(seed, c.semantics, false);
    const std::vector<double> found = given(c.rule, values).array("H", in(c.semantics)).to_vector<double>();
    for (int a = 0; a < kSize; ++a) {
      const double want = expected(c, values, a);
      if (want == kInfinite)
        ASSERT_EQ(found[static_cast<std::size_t>(a)], want) << c.rule << to_string(c.semantics);
      else
        ASSERT_NEAR(found[static_cast<std::size_t>(a)], want, 1e-12) << c.rule << to_string(c.semantics);
    }
  }
}

TEST(RulesConnectives, GradientsAreThoseOfTheDefinitions) {
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    const Case c = some_case(seed);
    const Values values = some_values(seed, c.semantics, true);
    if (expected(c, values, 1) == kInfinite) continue;
    const auto found =
        given(c.rule + "tensor L.\nL = H(1).\n", values).gradient("L", {"P", "Q", "E", "F"}, in(c.semantics));
    for (const auto& [name, all] : values)
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] == kInfinite) continue;
        const auto at = [&](double d) {
          Values moved = values;
          moved[name][i] += d;
          return expected(c, moved, 1);
        };
        const double h = 1e-5;
        ASSERT_NEAR(found.at(name).to_vector<double>()[i], (at(h) - at(-h)) / (2 * h), 1e-6)
            << c.rule << to_string(c.semantics) << " by " << name << " " << i;
      }
  }
}

}  // namespace
}  // namespace wr::rules
