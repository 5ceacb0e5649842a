// Relations of few tuples are lists in real-valued semantics: the same values and gradients as with dense tensors,
// without their cells.
#include <cmath>
#include <random>

#include "rules/inside.h"
#include "rules/lists.h"
#include "rules_support.h"
#include "temporary_files.h"
#include "windrow/rules.h"
#include "windrow/step.h"

namespace wr::rules {
namespace {

struct Facts {
  Rows rows;
  std::vector<double> weights;
};

/// Some constants have many partners, most have none.
Facts some_facts(std::uint64_t seed, int count) {
  std::mt19937_64 engine(seed);
  Facts facts;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  while (std::ssize(facts.rows) < count) {
    const std::uint64_t a = engine() % 6, b = engine() % 3 == 0 ? engine() % kListed : engine() % 6;
    if (!seen.insert({a, b}).second) continue;
    facts.rows.push_back({std::to_string(a), std::to_string(b)});
    facts.weights.push_back(0.1 + 0.8 * static_cast<double>(engine() % 1000) / 1000);
  }
  return facts;
}

Array as_array(const Facts& facts, double outside) {
  std::vector<double> values(kListed * kListed, outside);
  for (std::size_t i = 0; i < facts.rows.size(); ++i)
    values[std::stoi(facts.rows[i][0]) * kListed + std::stoi(facts.rows[i][1])] = facts.weights[i];
  return Array::from(values, {kListed, kListed});
}

enum class Kept { list, tensor };

Program given(const std::string& rules, Kept kept, Semantics s) {
  Program program = Program::parse(
      "domain D = 128.\ndomain C = 3.\nrel E(D, D) input.\nrel F(D, D) input.\nrel H(D, D).\n"
      "rel P(D) input.\ntensor X[D, C] input.\n" +
      rules);
  const double outside = s == Semantics::minplus ? std::numeric_limits<double>::infinity() : 0;
  std::uint64_t seed = 0;
  for (const char* name : {"E", "F"}) {
    const Facts facts = some_facts(++seed, 24);
    if (kept == Kept::list)
      program.add(name, facts.rows, facts.weights);
    else
      program.set(name, as_array(facts, outside));
  }
  std::vector<double> p, x;
  for (int i = 0; i < kListed; ++i) p.push_back(0.2 + 0.6 * (i % 7) / 7);
  for (int i = 0; i < 3 * kListed; ++i) x.push_back(std::sin(i));
  program.set("P", Array::from(p));
  program.set("X", Array::from(x, {kListed, 3}));
  return program;
}

bool is_listed(const Program& program, const std::string& name, Semantics s) {
  const auto& inside = program.inside();
  return Lists(inside.checked, inside.data, s, {}, std::size_t{4} << 30).find(inside.checked.id(name)) != nullptr;
}

const std::vector<std::string> kRules{
    "H(a, b) :- E(a, b).",
    "H(a, b) :- E(b, a), F(a, b).",
    "H(a, b) :- E(a, c), F(c, b).",
    "H(a, b) :- E(a, c), F(c, b), P(c).",  // a dense part
    "H(a, b) :- E(a, b), P(c), F(c, a).",  // a variable of the body alone
    "H(a, b) :- E(a, b), a < b.",
    "H(a, b) :- E(a, b), P(b), a != 3, b >= 2.",
    "H(a, b) :- E(a, b), E(a, _).",
    "H(a, a) :- E(a, b), F(b, b).",
    "H(a, 3) :- E(a, b), E(b, 5).",
    "H(a, b) :- E(a, b).\nH(a, b) :- F(a, c), E(c, b).\nH(2, 7) :- E(1, 1).",
    "H(a, b) :- E(a, b).\nH(a, b) :- H(a, c), E(c, b).",
    "0.7 :: H(a, b) :- E(a, c), F(c, b).",
    "H(a, b) :- E(a, b), P(a), P(b).",
};

TEST(RulesLists, AsDenseTensorsInEverySemantics) {
  for (const std::string& rules : kRules)
    for (Semantics s : kListing) {
      const Program listed = given(rules, Kept::list, s), dense = given(rules, Kept::tensor, s);
      EXPECT_TRUE(is_listed(listed, "E", s) && is_listed(listed, "H", s)) << rules;
      EXPECT_FALSE(is_listed(dense, "E", s) || is_listed(dense, "H", s)) << rules;
      EXPECT_TRUE(allclose(listed.array("H", in(s)), dense.array("H", in(s)), 1e-12, 1e-12))
          << rules << " in " << to_string(s);
    }
}

TEST(RulesLists, LongBodiesByTheirFacts) {  // as tensors this would take 128^4 steps
  const Program program = given("H(a, b) :- E(a, c), F(c, d), E(d, b).", Kept::list, Semantics::product);
  const Facts e = some_facts(1, 24), f = some_facts(2, 24);
  std::map<std::vector<std::string>, double> doubt;
  for (std::size_t i = 0; i < e.rows.size(); ++i)
    for (std::size_t j = 0; j < f.rows.size(); ++j)
      for (std::size_t k = 0; k < e.rows.size(); ++k)
        if (e.rows[i][1] == f.rows[j][0] && f.rows[j][1] == e.rows[k][0]) {
          double& all = doubt.try_emplace({e.rows[i][0], e.rows[k][1]}, 1).first->second;
          all *= 1 - e.weights[i] * f.weights[j] * e.weights[k];
        }
  const Answers found = program.relation("H", in(Semantics::product));
  ASSERT_EQ(found.rows.size(), doubt.size());
  EXPECT_GT(found.rows.size(), 20u);
  for (std::size_t i = 0; i < found.rows.size(); ++i) EXPECT_NEAR(found.values[i], 1 - doubt.at(found.rows[i]), 1e-12);
}

TEST(RulesLists, NegationsAndDenseHeads) {
  for (const char* rules :
       {"H(a, b) :- E(a, b), not F(a, b).", "H(a, b) :- E(a, b), not P(a).", "H(a, b) :- E(a, c), P(b).",
        "H(a, b) :- E(a, c), F(c, b) @ltn.", "H(a, b) :- E(a, b); F(a, b).", "H(a, b) :- P(a), P(b), not E(a, b).",
        "H(a, b) :- E(a, b), exists(c: F(b, c), P(c)).", "H(a, b) :- E(a, b), count(c: F(a, c)) >= 2."})
    for (Semantics s : {Semantics::product, Semantics::lukasiewicz, Semantics::minplus}) {
      const auto has = [&](const char* part) { return std::string(rules).find(part) != std::string::npos; };
      if (s == Semantics::minplus && (has("not") || has("@ltn"))) continue;
      EXPECT_TRUE(allclose(given(rules, Kept::list, s).array("H", in(s)),
                           given(rules, Kept::tensor, s).array("H", in(s)), 1e-12, 1e-12))
          << rules << " in " << to_string(s);
    }
}

TEST(RulesLists, QueriesOfEveryForm) {
  const std::string rules = "H(a, b) :- E(a, c), F(c, b).\n";
  for (const char* query : {"H(x, y)", "H(1, y)", "H(x, 1)", "H(1, 1)", "H(127, 127)", "H(x, _)", "H(x, x)",
                            "H(x, y), not E(x, y)", "H(x, y), x < y", "E(x, y), P(z), F(y, z)", "E(x, y); F(x, y)"}) {
    const Answers a = given(rules, Kept::list, Semantics::product).query(query, in(Semantics::product));
    const Answers b = given(rules, Kept::tensor, Semantics::product).query(query, in(Semantics::product));
    std::map<std::vector<std::string>, double> left, right;
    for (std::size_t i = 0; i < a.rows.size(); ++i) left[a.rows[i]] = a.values[i];
    for (std::size_t i = 0; i < b.rows.size(); ++i) right[b.rows[i]] = b.values[i];
    EXPECT_EQ(a.columns, b.columns) << query;
    ASSERT_EQ(left.size(), right.size()) << query;
    for (const auto& [row, value] : left) EXPECT_NEAR(value, right.at(row), 1e-12) << query;
  }
}

TEST(RulesLists, EquationsOverEdges) {  // a graph net, sums, and what depends on both ends of an edge
  for (const char* equations : {
           "tensor Y[D, C].\nY[i, c] = relu(E(i, j) X[j, c]).\n",
           "tensor Y[D, C].\nY[i, c] = E(i, j) F(j, k) X[k, c] + X[i, c].\n",
           "tensor Y[D, C].\nY[i, c] = E(i, j) tanh(X[i, c] - X[j, c]) P(j).\n",
           "tensor Y[D, C].\nY[j, c] = 2 * sum(i: E(i, j) X[i, c]).\n",
           "tensor Y[D, C].\nY[i, c] = E(i, 3) + X[i, c].\n",
           "tensor Y[C].\nY[c] = E(i, j) X[j, c] X[i, d].\n",
       }) {
    const Array a = given(equations, Kept::list, Semantics::product).array("Y");
    const Array b = given(equations, Kept::tensor, Semantics::product).array("Y");
    EXPECT_TRUE(allclose(a, b, 1e-12, 1e-12)) << equations;
  }
}

TEST(RulesLists, GradientsThroughThem) {
  for (const std::string& rules : {kRules[4], kRules[9], kRules[10]})
    for (Semantics s : {Semantics::product, Semantics::lukasiewicz, Semantics::maxprod}) {
      const std::string text = rules + "\ntensor L.\nL = H(a, b) X[a, 0] X[b, 1].\n";
      const auto by = std::vector<std::string>{"X", "P"};
      const auto a = given(text, Kept::list, s).gradient("L", by, in(s));
      const auto b = given(text, Kept::tensor, s).gradient("L", by, in(s));
      for (const std::string& name : by)
        EXPECT_TRUE(allclose(a.at(name), b.at(name), 1e-9, 1e-9)) << rules << " by " << name << " in " << to_string(s);
      // What is differentiated by is a tensor. Where nothing wins, winners by nothing share the gradient in their own
      // way.
      if (s == Semantics::maxprod) continue;
      EXPECT_TRUE(allclose(given(text, Kept::list, s).gradient("L", {"E"}, in(s)).at("E"),
                           given(text, Kept::tensor, s).gradient("L", {"E"}, in(s)).at("E"), 1e-9, 1e-9))
          << rules << " in " << to_string(s);
    }
}

TEST(RulesLists, GradientsAtAFixpoint) {
  const auto gradient = [](Kept kept) {
    Program program = Program::parse(
        "domain D = 128.\nrel E(D, D) input.\nrel P(D) input.\nH(a, b) :- E(a, b), P(a).\n"
        "H(a, c) :- H(a, b), E(b, c), P(b).\ntensor L.\nL = H(a, b) (1 + b).\n");
    Facts chain;
    for (int i = 0; i < 6; ++i) {
      chain.rows.push_back({std::to_string(i), std::to_string(i + 1)});
      chain.weights.push_back(0.5 + 0.05 * i);
    }
    if (kept == Kept::list)
      program.add("E", chain.rows, chain.weights);
    else
      program.set("E", as_array(chain, 0));
    program.set("P", Array::full({kListed}, 0.7));
    EXPECT_EQ(is_listed(program, "H", Semantics::product), kept == Kept::list);
    return program.gradient("L", {"P"}, in(Semantics::product)).at("P");
  };
  EXPECT_TRUE(allclose(gradient(Kept::list), gradient(Kept::tensor), 1e-9, 1e-9));
}

// By facts, a list is differentiated by as a list: the same as by all cells, and possible where those would not fit.
TEST(RulesLists, GradientsByFacts) {
  const std::string text =
      "domain D = 128.\nrel E(D, D) input.\nrel P(D) input.\nH(a, b) :- E(a, b), P(a).\n"
      "H(a, c) :- H(a, b), E(b, c), P(b).\ntensor L.\nL = H(a, b) (1 + b).\n";
  Facts chain;
  for (int i = 0; i < 6; ++i) {
    chain.rows.push_back({std::to_string(i), std::to_string(i + 1)});
    chain.weights.push_back(0.5 + 0.05 * i);
  }
  for (Semantics s : {Semantics::product, Semantics::maxprod}) {
    Program list = Program::parse(text), tensor = Program::parse(text);
    list.add("E", chain.rows, chain.weights);
    tensor.set("E", as_array(chain, 0));
    for (Program* p : {&list, &tensor}) p->set("P", Array::full({kListed}, 0.9));
    EXPECT_TRUE(is_listed(list, "E", s) && !is_listed(tensor, "E", s));
    const Array all = tensor.gradient("L", {"E"}, in(s)).at("E");
    for (Program* p : {&list, &tensor}) {
      const Answers by = p->gradient_by_facts("L", "E", in(s));
      ASSERT_EQ(by.rows.size(), 6u);
      EXPECT_EQ(by.columns, (std::vector<std::string>{"D", "D"}));
      for (std::size_t i = 0; i < 6; ++i)
        EXPECT_NEAR(by.values[i], all.at<double>({std::stoll(by.rows[i][0]), std::stoll(by.rows[i][1])}), 1e-9);
    }
  }
  Program large = Program::parse("domain D = 100000.\nrel E(D, D) input.\nL = sum(a, b: E(a, b) (1 + b)).\n", "p.wr");
  large.add("E", {{"7", "99999"}, {"99999", "41"}}, {0.5, 0.25});
  const Answers by = large.gradient_by_facts("L", "E", in(Semantics::product));
  ASSERT_EQ(by.rows.size(), 2u);
  EXPECT_EQ(by.values, (std::vector<double>{100000, 42}));
  EXPECT_EQ(error_of([&] { static_cast<void>(large.gradient("L", {"E"}, in(Semantics::product))); }),
            "p.wr:2:1: E has 1e+10 elements, which take 7.63e+04 MB; the limit is 4096 MB");
  EXPECT_EQ(error_of([&] { static_cast<void>(large.gradient_by_facts("L", "L", in(Semantics::product))); }),
            "p.wr: L has rules or equations; gradients are by what is given");
}

TEST(RulesLists, ConstraintsOverEdges) {
  for (Semantics s : {Semantics::product, Semantics::godel, Semantics::lukasiewicz, Semantics::maxprod})
    for (const char* constraint : {"constraint forall(x, y: E(x, y), P(x) -> P(y)).\n",
                                   "constraint forall(x, y: E(x, y) -> not F(x, y)) @lukasiewicz.\n"}) {
      const auto value = [&](Kept kept) {
        Program program = given(constraint, kept, s);
        Step step = compile(
            [&](const std::vector<Tensor>&) {
              return std::vector<Tensor>{program.trace_constraints({}, {.semantics = s, .dtype = DType::f64})};
            },
            std::vector<Spec>{});
        return step.run({})[0].item<double>();
      };
      EXPECT_NEAR(value(Kept::list), value(Kept::tensor), 1e-12) << constraint << to_string(s);
    }
}

TEST(RulesLists, AHundredThousandConstantsNeedNoCells) {
  Rows edges;
  for (int i = 0; i + 1 < 100'000; i += 2) edges.push_back({std::to_string(i), std::to_string(i + 1)});
  edges.push_back({"1", "2"});
  Program program = Program::parse(
      "domain V = 100000.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\n"
      "Back(y, x) :- T(x, y), E(x, y).\nOut(x) :- T(x, y).\n");
  program.add("E", edges, std::vector<double>(edges.size(), 0.9));
  for (Semantics s : kListing) {
    SolveOptions options = in(s);
    options.memory = 200 << 20;
    EXPECT_EQ(program.relation("T", options).rows.size(), 50'004u) << to_string(s);  // 0-2, 0-3 and 1-3 by 1-2
    if (s != Semantics::product) continue;
    EXPECT_EQ(program.relation("Back", options).rows.size(), 50'001u);
    EXPECT_EQ(program.relation("Out", options).rows.size(), 50'001u);
  }
  EXPECT_NEAR(program.query("T(0, 3)", in(Semantics::product)).values[0], 0.729, 1e-12);
  EXPECT_NEAR(program.query("T(0, 3)", in(Semantics::minplus)).values[0], 2.7, 1e-12);
  EXPECT_NE(program.explain("T(0, 3)", in(Semantics::product)).find("0.729  T(0, 3)"), std::string::npos);
}

TEST(RulesLists, LearnsOverThem) {  // a weight for each of 100,000 constants, told by edges alone
  Program program = Program::parse(
      "domain V = 100000.\nrel E(V, V) input.\nrel Told(V) input.\ntensor W[V] learn.\ntensor L.\n"
      "L = E(x, y) (W[y] - 3)^2 / 3.\n@minimize L(lr=0.3, steps=200).\n");
  program.add("E", {{"0", "7"}, {"1", "99999"}, {"2", "500"}}, {1, 1, 1});
  EXPECT_LT(program.train().losses.back(), 1e-4);
}

TEST(RulesLists, CostsOfNothingAreNoFalsehood) {  // minplus: what is false is infinite
  const Program program =
      Program::parse("domain V = 1000.\nrel E(V, V).\n0 :: E(1, 2). 3 :: E(2, 3).\nT(x, z) :- E(x, y), E(y, z).\n");
  EXPECT_EQ(program.query("T(1, 3)", in(Semantics::minplus)).values[0], 3);
  EXPECT_NE(program.explain("T(1, 3)", in(Semantics::minplus)).find("0  E(1, 2)   fact"), std::string::npos);
}

TEST(RulesLists, ManyTuplesAreATensor) {
  Rows edges;
  for (int i = 0; i < 299; ++i) edges.push_back({std::to_string(i), std::to_string(i + 1)});
  Program program =
      Program::parse("domain V = 300.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\n");
  program.add("E", edges, std::vector<double>(edges.size(), 0.9));
  EXPECT_TRUE(is_listed(program, "E", Semantics::product));
  EXPECT_FALSE(is_listed(program, "T", Semantics::product));  // half of all pairs
  EXPECT_FALSE(is_listed(program, "E", Semantics::ltn));      // a mean counts all constants
  EXPECT_NEAR(program.query("T(0, 299)", in(Semantics::product)).values[0], std::pow(0.9, 299), 1e-12);
}

TEST(RulesLists, RefusesWhatDoesNotFit) {
  Rows star;
  for (int i = 1; i < 10'000; ++i) star.push_back({"0", std::to_string(i)});
  Program program = Program::parse("domain V = 10000.\nrel E(V, V) input.\nS() :- E(x, y), E(x, z).\n", "p.wr");
  program.add("E", star, std::vector<double>(star.size(), 0.5));
  SolveOptions options = in(Semantics::product);
  options.memory = 10 << 20;
  EXPECT_EQ(
      error_of([&] { static_cast<void>(program.query("S()", options)); }),
      "p.wr:3:1: the lists of `S() :- E(x, y), E(x, z).` meet in more than 291270 ways, which take more than 10 MB, "
      "the limit");
}

}  // namespace
}  // namespace wr::rules
