// Real-valued semantics: every join shape in every semantics against loops in double; gradients against differences;
// fixpoints; and the faults of an earlier system, each by name.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "rules_support.h"
#include "temporary_files.h"
#include "windrow/rules.h"
#include "windrow/step.h"

namespace wr::rules {
namespace {

constexpr int kSize = 3;
const std::vector<Semantics> kAll{Semantics::product, Semantics::godel,   Semantics::lukasiewicz, Semantics::sum,
                                  Semantics::maxprod, Semantics::minplus, Semantics::ltn};

/// An atom of the oracle: values, and a variable for each axis.
struct Given {
  std::string name;
  std::vector<int> variables;
};

std::vector<double> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<double> values(count);
  for (double& v : values) v = static_cast<double>(engine() >> 11) * 0x1p-53;
  return values;
}

double up(double x) { return x * (1 - 1e-4) + 1e-4; }

/// One body by its definition: "and" of all atoms for every assignment, "exists" over the variables that the head
/// lacks.
double oracle(Semantics s, const std::vector<Given>& body, const std::map<std::string, std::vector<double>>& values,
              std::vector<int> assigned, int variables, int head) {
  std::vector<double> bodies;
  std::function<void(int)> walk = [&](int v) {
    if (v < variables) {
      for (int c = 0; c < kSize; ++c) {
        assigned[v] = c;
        walk(v + 1);
      }
      return;
    }
    std::vector<double> parts;
    for (const Given& g : body) {
      std::size_t at = 0;
      for (int x : g.variables) at = at * kSize + static_cast<std::size_t>(assigned[x]);
      parts.push_back(values.at(g.name)[at]);
    }
    double all = s == Semantics::minplus ? 0 : 1, total = 0;
    const bool stable = s == Semantics::ltn && (parts.size() > 1 || variables > head);
    for (double p : parts) {
      total += p;
      all = s == Semantics::godel ? std::min(all, p) : s == Semantics::minplus ? all + p : all * (stable ? up(p) : p);
    }
    if (s == Semantics::lukasiewicz) all = std::max(0.0, total - static_cast<double>(parts.size() - 1));
    bodies.push_back(all);
  };
  walk(head);
  double result = s == Semantics::minplus ? 1e300 : s == Semantics::product ? 1 : 0;
  for (double b : bodies) switch (s) {
      case Semantics::product:
        result *= 1 - b;
        break;
      case Semantics::godel:
      case Semantics::maxprod:
        result = std::max(result, b);
        break;
      case Semantics::minplus:
        result = std::min(result, b);
        break;
      case Semantics::ltn:
        result += bodies.size() > 1 ? b * b / static_cast<double>(bodies.size()) : b;
        break;
      default:
        result += b;
    }
  if (s == Semantics::product) return 1 - result;
  if (s == Semantics::lukasiewicz) return std::min(1.0, result);
  if (s == Semantics::ltn && bodies.size() > 1) return std::sqrt(result);
  return result;
}

struct Shape2 {
  std::string rule;
  std::vector<Given> body;
  int head, variables;  // variables of the head come first
};
const std::vector<Shape2> kShapes{
    {"H(a) :- P(a).", {{"P", {0}}}, 1, 1},
    {"H(a) :- P(a), Q(a).", {{"P", {0}}, {"Q", {0}}}, 1, 1},
    {"H(a, b) :- P(a), Q(b).", {{"P", {0}}, {"Q", {1}}}, 2, 2},
    {"H(a) :- E(a, b).", {{"E", {0, 1}}}, 1, 2},
    {"H(a) :- E(a, b), P(b).", {{"E", {0, 1}}, {"P", {1}}}, 1, 2},
    {"H(a, b) :- E(a, c), F(c, b).", {{"E", {0, 2}}, {"F", {2, 1}}}, 2, 3},
    {"H(a, b) :- F(c, b), E(a, c), P(c).", {{"F", {2, 1}}, {"E", {0, 2}}, {"P", {2}}}, 2, 3},
    {"H(a, b) :- E(a, c), F(c, d), E(d, b).", {{"E", {0, 2}}, {"F", {2, 3}}, {"E", {3, 1}}}, 2, 4},
    {"H(a) :- E(a, a).", {{"E", {0, 0}}}, 1, 1},
    {"H(b) :- E(a, b), P(a), Q(c).", {{"E", {1, 0}}, {"P", {1}}, {"Q", {2}}}, 1, 3},
    {"H() :- P(a), Q(a).", {{"P", {0}}, {"Q", {0}}}, 0, 1},
};

std::string program_of(const std::string& rules) {
  return "domain D = 3.\nrel P(D) input.\nrel Q(D) input.\nrel E(D, D) input.\nrel F(D, D) input.\n" + rules;
}

Program given(const std::string& rules, const std::map<std::string, std::vector<double>>& values) {
  Program program = Program::parse(program_of(rules));
  for (const auto& [name, v] : values)
    program.set(name, Array::from(v, name == "P" || name == "Q" ? Shape{kSize} : Shape{kSize, kSize}));
  return program;
}

std::map<std::string, std::vector<double>> some_values() {
  return {
      {"P", random_values(3, 1)}, {"Q", random_values(3, 2)}, {"E", random_values(9, 3)}, {"F", random_values(9, 4)}};
}

TEST(RulesReal, EveryJoinShapeInEverySemantics) {
  const auto values = some_values();
  for (const Shape2& shape : kShapes)
    for (Semantics s : kAll) {
      // The sum's own truth value is a step; a temperature shows the sum itself.
      const std::string rule = s == Semantics::sum ? shape.rule.substr(0, shape.rule.size() - 1) + " T=1." : shape.rule;
      const Program program = given(rule, values);
      const std::vector<double> found = program.array("H", in(s)).to_vector<double>();
      for (std::size_t i = 0; i < found.size(); ++i) {
        std::vector<int> assigned(static_cast<std::size_t>(shape.variables), 0);
        if (shape.head == 1) assigned[0] = static_cast<int>(i);
        if (shape.head == 2) assigned[0] = static_cast<int>(i) / kSize, assigned[1] = static_cast<int>(i) % kSize;
        double expected = oracle(s, shape.body, values, assigned, shape.variables, shape.head);
        if (s == Semantics::sum) expected = 1 / (1 + std::exp(-expected));
        if (s == Semantics::ltn) expected = expected * (1 - 1e-4);  // "or" with facts, of which there are none
        EXPECT_NEAR(found[i], expected, 1e-12) << rule << " in " << to_string(s);
      }
    }
}

// The same by `@name` behind the rule, in a program that has another semantics.
TEST(RulesReal, ARuleMayHaveASemanticsOfItsOwn) {
  const auto values = some_values();
  for (const Shape2& shape : kShapes)
    for (Semantics s : kAll) {
      if (s == Semantics::minplus) continue;
      const std::string own = " @" + std::string(to_string(s)) + (s == Semantics::sum ? " T=1." : ".");
      const Program program = given(shape.rule.substr(0, shape.rule.size() - 1) + own, values);
      const std::vector<double> found = program.array("H", in(Semantics::maxprod)).to_vector<double>();
      for (std::size_t i = 0; i < found.size(); ++i) {
        std::vector<int> assigned(static_cast<std::size_t>(shape.variables), 0);
        if (shape.head == 1) assigned[0] = static_cast<int>(i);
        if (shape.head == 2) assigned[0] = static_cast<int>(i) / kSize, assigned[1] = static_cast<int>(i) % kSize;
        double expected = oracle(s, shape.body, values, assigned, shape.variables, shape.head);
        if (s == Semantics::sum) expected = 1 / (1 + std::exp(-expected));
        EXPECT_NEAR(found[i], expected, 1e-12) << shape.rule << own;
      }
    }
}

TEST(RulesReal, WhatARulesOwnSemanticsCannotBe) {
  const auto refused = [](const std::string& rule, Semantics s) {
    return error_of([&] { Program::parse("0.5 :: P(A).\n" + rule, "p.wr").query("Q(x)", in(s)); });
  };
  EXPECT_EQ(refused("Q(x) :- P(x) @boolean.", Semantics::product),
            "p.wr:2:15: boolean semantics is one of whole programs; this one has values in between");
  EXPECT_EQ(refused("Q(x) :- P(x) @minplus.", Semantics::product),
            "p.wr:2:15: a rule of minplus semantics in a program of product semantics: costs and truth values do not "
            "mix");
  EXPECT_EQ(
      refused("Q(x) :- P(x) @godel.", Semantics::minplus),
      "p.wr:2:15: a rule of godel semantics in a program of minplus semantics: costs and truth values do not mix");
  // Facts alone would be boolean; a temperature asks for what is in between.
  EXPECT_NEAR(Program::parse("P(A).\nQ(x) :- P(x) @sum T=0.5.\n").query("Q(A)").values.at(0), 1 / (1 + std::exp(-2)),
              1e-12);
  EXPECT_NEAR(Program::parse("0.5 :: P(A).\nQ(A) :- P(x) @sum.\n").query("Q(A)").values.at(0), 1, 1e-12);
}

TEST(RulesReal, SeveralRulesAreOred) {
  const auto values = some_values();
  const double p = values.at("P")[0], q = values.at("Q")[0];
  const std::map<Semantics, double> expected{{Semantics::product, p + q - p * q},
                                             {Semantics::godel, std::max(p, q)},
                                             {Semantics::lukasiewicz, std::min(1.0, p + q)},
                                             {Semantics::maxprod, std::max(p, q)},
                                             {Semantics::minplus, std::min(p, q)}};
  for (const auto& [s, value] : expected) {
    EXPECT_NEAR(given("H(a) :- P(a).\nH(a) :- Q(a).\n", values).query("H(0)", in(s)).values[0], value, 1e-12)
        << to_string(s);
    EXPECT_NEAR(given("H(a) :- P(a); Q(a).\n", values).query("H(0)", in(s)).values[0], value, 1e-12) << to_string(s);
  }
}

// ---- faults of an earlier system ----

TEST(RulesReal, ExistsIsNeverMoreThanOne) {
  for (Semantics s :
       {Semantics::product, Semantics::godel, Semantics::lukasiewicz, Semantics::maxprod, Semantics::ltn}) {
    const Program program =
        given("H(a) :- E(a, b), F(b, a).\n", {{"E", std::vector<double>(9, 0.9)}, {"F", std::vector<double>(9, 0.8)}});
    const double value = program.query("H(0)", in(s)).values[0];
    EXPECT_LE(value, 1) << to_string(s);
    EXPECT_GT(value, 0.3) << to_string(s);
  }
}

TEST(RulesReal, AndIsNotOr) {
  for (Semantics s : kAll) {
    if (s == Semantics::sum) continue;
    const Program program = given("And(a) :- P(a), Q(a).\nOr(a) :- P(a); Q(a).\n", some_values());
    EXPECT_GT(std::abs(program.query("And(0)", in(s)).values[0] - program.query("Or(0)", in(s)).values[0]), 1e-3)
        << to_string(s);
  }
}

TEST(RulesReal, FalseImpliesFalse) {
  for (Semantics s : {Semantics::product, Semantics::godel, Semantics::lukasiewicz, Semantics::maxprod, Semantics::ltn})
    for (const char* name : {"", " @reichenbach", " @lukasiewicz", " @kleene", " @godel", " @goguen"}) {
      Program program =
          given(std::string("constraint P(0) -> Q(0)") + name + ".\n", {{"P", {0, 1, 1}}, {"Q", {0, 1, 0}}});
      Step step = compile(
          [&](const std::vector<Tensor>&) {
            return std::vector<Tensor>{program.trace_constraints({}, {.semantics = s, .dtype = DType::f64})};
          },
          std::vector<Spec>{});
      EXPECT_NEAR(step.run({})[0].item<double>(), 1, 1e-12) << to_string(s) << name;
    }
}

TEST(RulesReal, ImplicationsByTheirTables) {
  const auto value = [](double a, double b, const std::string& name) {
    Program program = given("constraint P(0) -> Q(0) @" + name + ".\n", {{"P", {a, 0, 0}}, {"Q", {b, 0, 0}}});
    Step step = compile(
        [&](const std::vector<Tensor>&) {
          return std::vector<Tensor>{
              program.trace_constraints({}, {.semantics = Semantics::product, .dtype = DType::f64})};
        },
        std::vector<Spec>{});
    return step.run({})[0].item<double>();
  };
  EXPECT_NEAR(value(0.8, 0.4, "reichenbach"), 0.52, 1e-12);
  EXPECT_NEAR(value(0.8, 0.4, "lukasiewicz"), 0.6, 1e-12);
  EXPECT_NEAR(value(0.8, 0.4, "kleene"), 0.4, 1e-12);
  EXPECT_NEAR(value(0.8, 0.4, "godel"), 0.4, 1e-12);
  EXPECT_NEAR(value(0.8, 0.4, "goguen"), 0.5, 1e-12);
  EXPECT_NEAR(value(0.3, 0.4, "goguen"), 1, 1e-12);
}

TEST(RulesReal, RecursionGoesToItsFixpoint) {  // five unrollings are not enough for a chain of twenty
  std::string facts = "domain D = 21.\nrel E(D, D).\n";
  for (int i = 0; i < 20; ++i) facts += "0.9 :: E(" + std::to_string(i) + ", " + std::to_string(i + 1) + ").\n";
  const Program program = Program::parse(facts + "T(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\n");
  EXPECT_NEAR(program.query("T(0, 20)", in(Semantics::product)).values[0], std::pow(0.9, 20), 1e-12);
  EXPECT_NEAR(program.query("T(0, 20)", in(Semantics::godel)).values[0], 0.9, 1e-12);
  EXPECT_NEAR(program.query("T(0, 20)", in(Semantics::minplus)).values[0], 18, 1e-9);
  EXPECT_NEAR(program.query("T(0, 20)", in(Semantics::maxprod)).values[0], std::pow(0.9, 20), 1e-12);
  EXPECT_TRUE(program.query("T(20, 0)", in(Semantics::product)).values[0] == 0);
}

/// A system we know took 27 hours and 148 GB for one: on a graph with cycles each pair is proved in ever more ways.
TEST(RulesReal, OneTransitiveRuleOnCycles) {
  constexpr int kNodes = 60;
  std::string text = "domain V = 60.\nrel E(V, V).\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), T(y, z).\n";
  std::vector<double> best(kNodes * kNodes, 0.0);
  for (int i = 0; i < kNodes; ++i)
    for (const auto& [step, weight] : {std::pair(1, 0.9), std::pair(7, 0.6), std::pair(31, 0.3)}) {
      text += fmt::format("{} :: E({}, {}).\n", weight, i, (i + step) % kNodes);
      best[i * kNodes + (i + step) % kNodes] = weight;
    }
  for (int y = 0; y < kNodes; ++y)  // the best way through the first nodes
    for (int x = 0; x < kNodes; ++x)
      for (int z = 0; z < kNodes; ++z)
        best[x * kNodes + z] = std::max(best[x * kNodes + z], best[x * kNodes + y] * best[y * kNodes + z]);
  const Program program = Program::parse(text);
  const auto likeliest = program.array("T", in(Semantics::maxprod)).to_vector<double>();
  const auto some = program.array("T", in(Semantics::product)).to_vector<double>();
  for (int i = 0; i < kNodes * kNodes; ++i) {
    ASSERT_NEAR(likeliest[i], best[i], 1e-12) << i;
    ASSERT_GE(some[i], best[i] - 1e-12) << i;
    ASSERT_LE(some[i], 1) << i;
  }
}

TEST(RulesReal, DivergenceNamesRuleIterationAndResidual) {
  const std::string cycle =
      "-1 :: E(A, B). 0.5 :: E(B, A).\nD(x, y) :- E(x, y).\nD(x, z) :- D(x, y), E(y, z).\n@fixpoint(50).\n";
  const std::string what =
      error_of([&] { static_cast<void>(Program::parse(cycle, "p.wr").query("D(A, A)", in(Semantics::minplus))); });
  EXPECT_EQ(
      what.find(
          "p.wr:3:1: no convergence: `D(x, z) :- D(x, y), E(y, z).` still changes by 0.5 after 50 iterations (the "
          "tolerance is 1e-09)"),
      0u)
      << what;
}

TEST(RulesReal, DivergenceNamesTheMemberThatChanges) {  // X and Y need each other, and it is Y that grows
  const std::string text =
      "domain D = 2.\ntensor X[D].\ntensor Y[D].\nX[i] = 0.1 Y[i] + 1.\nY[i] = 20 X[i].\n@fixpoint(10).\n";
  const std::string what = error_of([&] { static_cast<void>(Program::parse(text, "p.wr").query("X[0]")); });
  EXPECT_EQ(what.find("p.wr:5:1: no convergence: `Y[i] = 20 * X[i].` still changes by "), 0u) << what;
  // Beyond what a double holds nothing changes any more; that is no fixpoint.
  const Program grows = Program::parse("domain D = 3.\ntensor X[D].\nX[i] = 2 * X[j] + 1.\n", "p.wr");
  const std::string infinite = error_of([&] { grows.query("X[i]"); });
  EXPECT_EQ(infinite.find("p.wr:3:1: no convergence: `X[i] = 2 * X[j] + 1.` still changes by inf after "), 0u)
      << infinite;
  EXPECT_NE(what.find(" after 10 iterations (the tolerance is 1e-09)"), std::string::npos) << what;
}

TEST(RulesReal, TooLargeIsRefusedBeforeItIsAllocated) {
  // Of few facts a list is made, but not in ltn semantics, nor of what no facts limit.
  Program program = Program::parse(
      "domain D = 100000.\nrel E(D, D).\n0.5 :: E(1, 2).\nH(x) :- E(x, y).\nrel P(D) input.\n"
      "Q() :- P(x), P(y), x < y.\nR(x, y) :- P(x), P(y).\n",
      "p.wr");
  program.set("P", Array::full({100'000}, 0.5));
  EXPECT_EQ(error_of([&] { static_cast<void>(program.query("H(x)", in(Semantics::ltn))); }),
            "p.wr:2:1: E has 1e+10 elements, which take 7.63e+04 MB; the limit is 4096 MB");
  EXPECT_EQ(
      error_of([&] { static_cast<void>(program.query("Q()", in(Semantics::product))); }),
      "p.wr:6:1: `Q() :- P(x), P(y), x < y.` needs 1e+10 elements at a time, which take 7.63e+04 MB; the limit is "
      "4096 MB");
  EXPECT_EQ(error_of([&] { static_cast<void>(program.query("R(x, y)", in(Semantics::product))); }),
            "p.wr:7:1: R has 1e+10 elements, which take 7.63e+04 MB; the limit is 4096 MB");
  // A join that must be held in memory.
  Program cube = Program::parse("domain D = 200.\nrel R(D, D) input.\nS() :- R(x, y), R(y, z), R(z, x).\n", "p.wr");
  cube.set("R", Array::full({200, 200}, 0.5));
  SolveOptions options = in(Semantics::product);
  options.memory = 16 << 20;
  EXPECT_EQ(
      error_of([&] { static_cast<void>(cube.query("S()", options)); }),
      "p.wr:3:1: `S() :- R(x, y), R(y, z), R(z, x).` needs 8e+06 elements at a time, which take 61 MB; the limit is "
      "16 MB");
}

TEST(RulesReal, BooleanHasNoGradient) {
  Program program = Program::parse("P(A). H(x) :- P(x).", "p.wr");
  EXPECT_EQ(error_of([&] { static_cast<void>(program.gradient("H", {"P"})); }),
            "p.wr: boolean semantics has no gradient; choose another, such as product");
}

// ---- gradients ----

/// The gradient of the weighted sum of H by P, Q, E and F, against differences.
void expect_gradient(const std::string& rules, Semantics s, const std::map<std::string, std::vector<double>>& values,
                     const std::vector<std::string>& by, double tolerance = 1e-6) {
  const std::string loss = "\ntensor L.\nL = H(a, b) * (1 + a + 2 * b).\n";
  const std::string unary = "\ntensor L.\nL = H(a) * (1 + a).\n";
  const std::string text = rules + (rules.find("H(a, b)") != std::string::npos ? loss : unary);
  SolveOptions options = in(s);
  options.tolerance = 1e-13;
  const std::map<std::string, Array> found = given(text, values).gradient("L", by, options);
  for (const std::string& name : by)
    for (std::size_t i = 0; i < values.at(name).size(); ++i) {
      const double h = 1e-5;
      const auto at = [&](double d) {
        auto moved = values;
        moved[name][i] += d;
        return given(text, moved).query("L[]", options).values[0];
      };
      const double expected = (at(h) - at(-h)) / (2 * h);
      EXPECT_NEAR(found.at(name).to_vector<double>()[i], expected, tolerance)
          << rules << " " << to_string(s) << " by " << name << " " << i;
    }
}

TEST(RulesReal, GradientsOfJoins) {
  for (Semantics s : {Semantics::product, Semantics::godel, Semantics::lukasiewicz, Semantics::maxprod,
                      Semantics::minplus, Semantics::ltn}) {
    expect_gradient("H(a, b) :- E(a, c), F(c, b).", s, some_values(), {"E", "F"});
    expect_gradient("H(a) :- E(a, b), P(b).\nH(a) :- Q(a).", s, some_values(), {"E", "P", "Q"});
    if (s != Semantics::minplus) expect_gradient("H(a) :- P(a), not Q(a).", s, some_values(), {"P", "Q"});
  }
}

TEST(RulesReal, GradientOfExistsWhereAFactorIsZero) {  // 1 - ab = 0: the product of the others, not 0 / 0
  auto values = some_values();
  values["E"][1] = 1;
  values["F"][3] = 1;
  const auto found = given("H(a, b) :- E(a, c), F(c, b).\ntensor L.\nL = H(0, 0).\n", values)
                         .gradient("L", {"E"}, in(Semantics::product));
  const auto& e = values.at("E");
  const auto& f = values.at("F");
  // d/dE(0,1) = F(1,0) * (1 - E(0,0)F(0,0)) (1 - E(0,2)F(2,0)); the others have the factor 1 - 1 * 1.
  EXPECT_NEAR(found.at("E").at<double>({0, 1}), (1 - e[0] * f[0]) * (1 - e[2] * f[6]), 1e-12);
  EXPECT_NEAR(found.at("E").at<double>({0, 0}), 0, 1e-12);
}

TEST(RulesReal, TiesShareTheGradient) {
  const auto found = given("H(a) :- E(a, b).\ntensor L.\nL = H(0).\n", {{"E", std::vector<double>(9, 0.5)}})
                         .gradient("L", {"E"}, in(Semantics::godel));
  double total = 0;
  for (int b = 0; b < 3; ++b) total += found.at("E").at<double>({0, b});
  EXPECT_NEAR(total, 1, 1e-12);
}

TEST(RulesReal, ClippedValuesHaveNoGradient) {
  const auto found =
      given("H(a) :- P(a), Q(a).\ntensor L.\nL = H(0) + H(1).\n", {{"P", {0.2, 0.8, 0}}, {"Q", {0.3, 0.9, 0}}})
          .gradient("L", {"P"}, in(Semantics::lukasiewicz));
  EXPECT_EQ(found.at("P").to_vector<double>(), (std::vector<double>{0, 1, 0}));
}

TEST(RulesReal, NegationTurnsTheSign) {
  const auto found = given("H(a) :- P(a), not Q(a).\ntensor L.\nL = H(0).\n", some_values())
                         .gradient("L", {"Q"}, in(Semantics::product));
  EXPECT_NEAR(found.at("Q").at<double>({0}), -some_values().at("P")[0], 1e-12);
}

TEST(RulesReal, AdjointFixpointAndUnrollingAgree) {
  const std::string rules = "H(a, b) :- E(a, b).\nH(a, b) :- H(a, c), E(c, b).\n";
  auto values = some_values();
  for (double& v : values["E"]) v *= 0.3;
  expect_gradient(rules, Semantics::product, values, {"E"});
  expect_gradient(rules, Semantics::godel, values, {"E"});
  // Unrolled far enough it is the same.
  Program program = given(rules + "tensor L.\nL = H(a, b) * (1 + a + 2 * b).\n", values);
  SolveOptions options = in(Semantics::product);
  options.tolerance = 1e-13;
  const Array adjoint = program.gradient("L", {"E"}, options).at("E");
  Step step = compile(
      [&](const std::vector<Tensor>& in) {
        const Tensor loss = program.trace("L", {{"E", in[0]}},
                                          {.semantics = Semantics::product, .dtype = DType::f64, .iterations = 60});
        return grad(loss, {in[0]});
      },
      {Spec{DType::f64, {3, 3}}});
  const Array e = Array::from(values["E"], {3, 3});
  const std::vector<const Array*> arguments{&e};
  EXPECT_TRUE(allclose(step.run(arguments)[0], adjoint, 1e-9, 1e-9));
}

// ---- metamorphic ----

TEST(RulesReal, ARepeatedSubgoalChangesNothingWhereAndIsIdempotent) {
  const auto values = some_values();
  const Array once = given("H(a, b) :- E(a, c), F(c, b).\n", values).array("H", in(Semantics::godel));
  EXPECT_TRUE(allclose(given("H(a, b) :- E(a, c), F(c, b), E(a, c).\n", values).array("H", in(Semantics::godel)), once,
                       0, 1e-15));
  for (Semantics s : {Semantics::product, Semantics::godel, Semantics::lukasiewicz, Semantics::maxprod}) {
    const Array less = given("H(a, b) :- E(a, c), F(c, b).\n", values).array("H", in(s));
    const Array more = given("H(a, b) :- E(a, c), F(c, b), P(c).\n", values).array("H", in(s));
    const Array turned = given("H(a, b) :- P(c), F(c, b), E(a, c).\n", values).array("H", in(s));
    EXPECT_TRUE(allclose(more, turned, 0, 1e-14)) << to_string(s);
    for (std::int64_t i = 0; i < 9; ++i) EXPECT_LE(more.to_vector<double>()[i], less.to_vector<double>()[i] + 1e-15);
  }
}

TEST(RulesReal, QuantifiersAndCounts) {
  const std::map<std::string, std::vector<double>> values{{"E", {0.5, 0.5, 1, 0, 1, 1, 0.2, 0.4, 0.6}},
                                                          {"P", {1, 1, 1}}};
  const auto value = [&](const std::string& body, Semantics s) {
    return given("H(a) :- P(a), " + body + ".\n", values).query("H(0)", in(s)).values[0];
  };
  EXPECT_NEAR(value("forall(b: E(a, b))", Semantics::product), 0.25, 1e-12);
  EXPECT_NEAR(value("forall(b: E(a, b))", Semantics::godel), 0.5, 1e-12);
  EXPECT_NEAR(value("forall(b: E(a, b))", Semantics::lukasiewicz), 0, 1e-12);
  EXPECT_NEAR(value("exists(b: E(a, b))", Semantics::product), 1, 1e-12);
  EXPECT_NEAR(value("count(b: E(a, b)) >= 2", Semantics::product), 1, 1e-12);
  EXPECT_NEAR(value("count(b: E(a, b)) > 2", Semantics::product), 0, 1e-12);
  EXPECT_NEAR(value("not exists(b: E(a, b), b < 2)", Semantics::product), 0.25, 1e-12);
}

TEST(RulesReal, ExplainsWithValues) {
  const Program program =
      Program::parse("0.9 :: E(A, B). 0.2 :: E(A, C). 0.8 :: E(B, D). 0.9 :: E(C, D).\nT(x, z) :- E(x, y), E(y, z).\n");
  EXPECT_EQ(program.explain("T(A, D)", in(Semantics::godel)),
            "0.8  T(A, D)\n"
            "  by T(x, z) :- E(x, y), E(y, z).   line 2, y = B\n"
            "  0.9  E(A, B)   fact, line 1\n"
            "  0.8  E(B, D)   fact, line 1\n");
}

TEST(RulesReal, ExplainsWhatANegationOnlyMakesDoubtful) {
  const Program program = Program::parse("P(A). 0.3 :: R(A).\nH(x) :- P(x), not R(x).\n");
  EXPECT_EQ(program.explain("H(A)", in(Semantics::product)),
            "0.7  H(A)\n"
            "  by H(x) :- P(x), not R(x).   line 2\n"
            "  1  P(A)   fact, line 1\n"
            "  0.7  not R(A)\n");
  EXPECT_EQ(program.explain("H(A)", in(Semantics::boolean)), "H(A) does not hold: no rule derives it\n");
}

TEST(RulesReal, ZerosOfATensorAreAnswers) {
  const Program program =
      Program::parse("domain D = 3.\ntensor X[D].\nX[i] = (i - 1) / (i - 1) * 0 + (i - 1).\nrel P(D).\nP(2).\n");
  EXPECT_EQ(to_tsv(program.query("X[i]")), "i\tvalue\n0\t-1\n1\tnan\n2\t1\n");
  EXPECT_EQ(to_tsv(Program::parse("domain D = 3.\ntensor X[D].\nX[i] = i.\n").query("X[i]")),
            "i\tvalue\n0\t0\n1\t1\n2\t2\n");
  EXPECT_EQ(program.query("P(x)", in(Semantics::product)).rows.size(), 1U);
}

TEST(RulesReal, WhatASemanticsCannotDoHasAPlace) {
  const auto wrong = [](const std::string& text, Semantics s) {
    return error_of([&] {
      SolveOptions options;
      options.semantics = s;
      Program::parse("domain D = 2.\nrel P(D).\nrel E(D, D).\n" + text, "p.wr").run(options);
    });
  };
  EXPECT_EQ(wrong("P(0).\nQ(x) :- P(x), not P(x).\n?- Q(x).", Semantics::minplus),
            "p.wr:5:1: in minplus semantics values are costs, and a cost has no negation");
  EXPECT_EQ(wrong("P(0).\n?- forall(x: P(x) -> P(x)).", Semantics::minplus),
            "p.wr:5:1: in minplus semantics values are costs, and a cost implies nothing");
  std::string body = "E(x0, x1)";
  for (int i = 1; i < 17; ++i) body += ", E(x" + std::to_string(i) + ", x" + std::to_string(i + 1) + ")";
  EXPECT_EQ(wrong("E(0, 1).\n\nQ(x0) :- " + body + ".\n?- Q(x).", Semantics::product),
            "p.wr:6:1: more than 16 literals in one body; give parts of it names by rules of their own");
}

TEST(RulesReal, WeightsAreTruthValues) {
  const auto weighted = [](const std::string& text, Semantics s) {
    return error_of([&] { static_cast<void>(Program::parse(text, "p.wr").query("Q(x)", in(s))); });
  };
  const std::string fact = "P(A).\n1.5 :: Q(A).", rule = "P(A).\n-0.1 :: Q(x) :- P(x).";
  EXPECT_EQ(weighted(fact, Semantics::product),
            "p.wr:2:1: a weight of 1.5; in product semantics weights are from 0 to 1");
  EXPECT_EQ(weighted(rule, Semantics::godel), "p.wr:2:1: a weight of -0.1; in godel semantics weights are from 0 to 1");
  EXPECT_EQ(weighted(fact, Semantics::minplus), "no error");
  EXPECT_EQ(weighted(rule, Semantics::sum), "no error");
  Program table = Program::parse("domain V.\nrel Q(V) input.\n", "p.wr");
  table.add("Q", {{"A"}, {"B"}}, {0.5, 2});
  EXPECT_EQ(error_of([&] { static_cast<void>(table.query("Q(x)", in(Semantics::product))); }),
            "rows of Q: row 2: a weight of 2; in product semantics weights are from 0 to 1");
}

// A weight means the same in a table and in the text: neither is dropped because the rules are plain.
TEST(RulesReal, WeightsOfDataMakeAProgramReal) {
  const std::string text = "domain D = {A, B, C}.\nrel E(D, D) input.\nT(x, z) :- E(x, y), E(y, z).\n";
  Program table = Program::parse(text), plain = Program::parse(text), array = Program::parse(text);
  EXPECT_EQ(table.semantics(), Semantics::boolean);
  table.add("E", {{"A", "B"}, {"B", "C"}}, {0.5, 0.25});
  EXPECT_EQ(table.semantics(), Semantics::product);
  EXPECT_EQ(table.query("T(A, C)").values, std::vector<double>{0.125});
  array.set("E", Array::from<float>({{0, 0.5F, 0}, {0, 0, 0.25F}, {0, 0, 0}}));
  EXPECT_EQ(array.query("T(A, C)").values, std::vector<double>{0.125});
  plain.add("E", {{"A", "B"}, {"B", "C"}}, {1, 1});
  EXPECT_EQ(plain.semantics(), Semantics::boolean);
  table = Program::parse("@semantics boolean.\n" + text);
  table.add("E", {{"A", "B"}, {"B", "C"}}, {0.5, 0.25});
  EXPECT_EQ(table.semantics(), Semantics::boolean);
}

TEST(RulesReal, ExplainsTheWayThatHasTheValue) {  // the direct road is there first, the way round it is cheaper
  const std::string roads =
      "4 :: Road(A, B). 1 :: Road(A, C). 2 :: Road(C, B). 1 :: Road(B, A).\n"
      "Path(x, y) :- Road(x, y).\nPath(x, z) :- Path(x, y), Road(y, z).\n";
  EXPECT_EQ(Program::parse(roads).explain("Path(A, B)", in(Semantics::minplus)),
            "3  Path(A, B)\n"
            "  by Path(x, z) :- Path(x, y), Road(y, z).   line 3, y = C\n"
            "  1  Path(A, C)\n"
            "    by Path(x, y) :- Road(x, y).   line 2\n"
            "    1  Road(A, C)   fact, line 1\n"
            "  2  Road(C, B)   fact, line 1\n");
  // A circle of equal values is not its own witness.
  EXPECT_EQ(Program::parse("E(A, B). E(B, A).\nT(x, y) :- T(x, z), T(z, y).\nT(x, y) :- E(x, y).\n")
                .explain("T(A, B)", in(Semantics::godel)),
            "1  T(A, B)\n"
            "  by T(x, y) :- E(x, y).   line 3\n"
            "  1  E(A, B)   fact, line 1\n");
}

TEST(RulesReal, ExplainsTheCheapestWay) {
  const Program program = Program::parse(
      "@semantics minplus.\n4 :: E(A, B). 3 :: E(B, D). 1 :: E(A, C). 5 :: E(C, D).\nT(x, z) :- E(x, y), E(y, z).\n");
  EXPECT_EQ(program.explain("T(A, D)"),
            "6  T(A, D)\n"
            "  by T(x, z) :- E(x, y), E(y, z).   line 3, y = C\n"
            "  1  E(A, C)   fact, line 2\n"
            "  5  E(C, D)   fact, line 2\n");
}

}  // namespace
}  // namespace wr::rules
