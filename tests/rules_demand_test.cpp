// Queries in real-valued semantics compute what their constants demand, and the values are those of the whole
// relations.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

#include "rules/inside.h"
#include "rules/lists.h"
#include "rules_support.h"
#include "windrow/error.h"
#include "windrow/rules.h"

namespace wr::rules {
namespace {

/// Programs of relations R0, R1 and R2, each from those before it and itself, over sparse graphs E and F.
class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, Semantics semantics) : engine_(seed), semantics_(semantics) {}

  std::string rules() {
    std::string text =
        "domain D = 128.\nrel E(D, D) input.\nrel F(D, D) input.\nrel G(D, D) input.\n"
        "rel R0(D, D).\nrel R1(D, D).\nrel R2(D, D).\n";
    for (int r = 0; r < 3; ++r)
      for (std::uint64_t n = 1 + below(3); n > 0; --n)
        text += (below(3) == 0 ? "0.8 :: " : "") + relation(r) + "(x, z) :- " + body(r) + ".\n";
    if (below(3) == 0) text += "0.3 :: R1(3, 9).\n0.6 :: R2(9, 4).\n";
    return text;
  }

  Rows edges(std::vector<double>& weights) {
    Rows rows;
    std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
    while (rows.size() < 40) {
      const std::uint64_t a = below(40), b = below(8) == 0 ? below(40) : a + 1 + below(5);
      if (!seen.insert({a, b}).second) continue;
      rows.push_back({std::to_string(a), std::to_string(b)});
      weights.push_back(0.1 + 0.8 * static_cast<double>(below(1000)) / 1000);
    }
    return rows;
  }

  /// With q in the place of a constant.
  std::string query() {
    // In sum semantics a rule makes truth values, 0 or 1, of what a query of several atoms adds up.
    switch (below(semantics_ == Semantics::sum ? 2 : 5)) {
      case 0:
        return "R2(q, y)";
      case 1:
        return "R2(y, q)";
      case 2:
        return "R1(q, y), R2(y, z)";
      case 3:
        return "E(y, z), R2(q, y)";
      default:
        return semantics_ == Semantics::minplus ? "R2(q, y), y != q" : "R2(q, y), not R1(y, q)";
    }
  }
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }

 private:
  static std::string relation(int r) { return "R" + std::to_string(r); }
  std::string some_relation(int most) {
    const std::uint64_t k = below(3 + static_cast<std::uint64_t>(most));
    return k < 3 ? std::string(1, "EFG"[k]) : relation(static_cast<int>(k) - 3);
  }
  std::string body(int r) {
    std::string text;
    switch (below(6)) {
      case 0:
        text = some_relation(r) + "(x, z)";
        break;
      case 1:
        text = some_relation(r) + "(z, x)";
        break;
      case 2:  // recursive: by edges, so that it comes to an end soon
        text = "E(x, y), " + relation(r) + "(y, z)";
        break;
      case 3:
        text = relation(r) + "(x, y), F(y, z)";
        break;
      default:
        text = some_relation(r) + "(x, y), " + some_relation(r) + "(y, z)";
    }
    const std::string other = some_relation(r);  // of an earlier stratum
    if (below(3) == 0) text += ", x != z";
    if (below(5) == 0) text += ", exists(w: " + other + "(x, w))";
    if (below(5) == 0) text += ", (" + other + "(z, z); G(x, z); E(x, z))";
    if (below(4) == 0 && semantics_ != Semantics::minplus) text += ", not " + other + "(z, x)";
    if (below(8) == 0) text += ", " + other + "(7, z)";
    return text;
  }

  std::mt19937_64 engine_;
  Semantics semantics_;
};

std::map<std::vector<std::string>, double> by_row(const Answers& answers) {
  std::map<std::vector<std::string>, double> values;
  for (std::size_t i = 0; i < answers.rows.size(); ++i) values[answers.rows[i]] = answers.values[i];
  return values;
}

/// The rows of `all` that have `constant` in the first column, without it.
std::map<std::vector<std::string>, double> chosen(const Answers& all, const std::string& constant) {
  std::map<std::vector<std::string>, double> values;
  for (std::size_t i = 0; i < all.rows.size(); ++i)
    if (all.rows[i][0] == constant) values[{all.rows[i].begin() + 1, all.rows[i].end()}] = all.values[i];
  return values;
}

/// The same of a relation of two arguments, from its tensor, which no query has a part in.
std::map<std::vector<std::string>, double> chosen(const Array& all, int constant, double falsehood) {
  std::map<std::vector<std::string>, double> values;
  for (int y = 0; y < kListed; ++y)
    if (const double v = all.at<double>({constant, y}); v != falsehood) values[{std::to_string(y)}] = v;
  return values;
}

std::string with_constant(std::string query, const std::string& constant) {
  for (std::size_t at = query.find('q'); at != std::string::npos; at = query.find('q', at + 1))
    query.replace(at, 1, constant);
  return query;
}

/// Tuples of derived relations that are lists, for a query or, without one, whole.
std::int64_t tuples_kept(const Program& program, Semantics s, const std::string& query) {
  const Checked checked = query.empty() ? program.inside().checked : program.inside().with_query(query);
  const int statement = query.empty() ? -1 : static_cast<int>(checked.syntax.statements.size()) - 1;
  std::int64_t tuples = 0;
  const Lists lists(checked, program.inside().data, s, {}, std::size_t{4} << 30, statement);
  for (const char* name : {"R0", "R1", "R2"})
    if (const TupleList* list = lists.find(checked.id(name))) tuples += list->count();
  return tuples;
}

TEST(RulesDemand, ValuesOfRandomProgramsAreThoseOfWholeRelations) {
  std::int64_t whole = 0, demanded = 0, rows = 0;
  for (std::uint64_t seed = 0; seed < 72; ++seed) {
    const Semantics s = kListing[seed % kListing.size()];
    RandomProgram random(seed, s);
    const std::string rules = random.rules(), query = random.query();
    const bool three = query.find('z') != std::string::npos;
    const std::string text = rules + (three ? "All(q, y, z) :- " : "All(q, y) :- ") + query + ".\n";
    Program program = Program::parse(text);
    for (const char* name : {"E", "F", "G"}) {
      std::vector<double> weights;
      const Rows edges = random.edges(weights);
      program.add(name, edges, weights);
    }
    const double falsehood = s == Semantics::minplus ? std::numeric_limits<double>::infinity() : 0;
    const Answers rows_of_all = three ? program.relation("All", in(s, 1e-13)) : Answers{};
    const Array all = three ? Array() : program.array("All", in(s, 1e-13));
    for (int constant = 0; constant < kListed; constant += 1 + static_cast<int>(random.below(20))) {
      const std::string asked = with_constant(query, std::to_string(constant));
      SCOPED_TRACE(text + "?- " + asked + " in " + std::string(to_string(s)));
      const Answers found = program.query(asked, in(s, 1e-13));
      const auto want = three ? chosen(rows_of_all, std::to_string(constant)) : chosen(all, constant, falsehood);
      const auto got = by_row(found);
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [row, value] : want) {
        ASSERT_TRUE(got.contains(row)) << row[0];
        ASSERT_NEAR(got.at(row), value, 1e-9) << row[0];
      }
      rows += std::ssize(found.rows);
      demanded += tuples_kept(program, s, asked);
      whole += tuples_kept(program, s, "");
    }
  }
  EXPECT_GT(rows, 300);
  EXPECT_GT(demanded, 0);
  EXPECT_LT(demanded * 2, whole);
}

TEST(RulesDemand, ALongChainIsNotClosedForItsEnd) {  // whole, the closure has 4.5e8 pairs
  for (const Semantics s : kListing) {
    Program program = Program::parse(
        "domain D = 30000.\nrel E(D, D) input.\n"
        "Way(x, y) :- E(x, y).\nWay(x, z) :- E(x, y), Way(y, z).\n");
    Rows rows;
    std::vector<double> weights;
    for (int i = 0; i + 1 < 30000; ++i) {
      rows.push_back({std::to_string(i), std::to_string(i + 1)});
      weights.push_back(0.5);
    }
    program.add("E", rows, weights);
    SolveOptions options = in(s, 1e-13);
    options.memory = std::size_t{128} << 20;
    const Answers found = program.query("Way(29990, y)", options);
    ASSERT_EQ(found.rows.size(), s == Semantics::lukasiewicz ? 1U : 9U) << to_string(s);
    EXPECT_NEAR(found.values[0], s == Semantics::sum ? 1 : 0.5, 1e-12) << to_string(s);
    EXPECT_EQ(program.query("Way(x, 3)", options).rows.size(), s == Semantics::lukasiewicz ? 1U : 3U) << to_string(s);
    EXPECT_EQ(program.query("Way(5, 2)", options).rows.size(), 1U) << "a query without variables has a value";
    options.memory = std::size_t{8} << 20;
    EXPECT_THROW(program.query("Way(x, y)", options), Error) << to_string(s);
  }
}

TEST(RulesDemand, WhatIsNegatedIsWhole) {
  Program program = Program::parse(
      "domain D = 200.\nrel E(D, D) input.\n"
      "Way(x, y) :- E(x, y).\nWay(x, z) :- Way(x, y), E(y, z).\n"
      "OneWay(x, y) :- Way(x, y), not Way(y, x).\n");
  program.add("E", {{"1", "2"}, {"2", "3"}, {"3", "1"}, {"3", "4"}}, {0.5, 0.5, 0.5, 0.5});
  const auto all = chosen(program.relation("OneWay", in(Semantics::product, 1e-13)), "2");
  const auto found = by_row(program.query("OneWay(2, y)", in(Semantics::product, 1e-13)));
  ASSERT_EQ(found.size(), all.size());
  for (const auto& [row, value] : all) EXPECT_NEAR(found.at(row), value, 1e-12);
  EXPECT_LT(found.at({"3"}), 0.5);
}

}  // namespace
}  // namespace wr::rules
