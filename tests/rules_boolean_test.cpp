// Boolean semantics: what rules derive, queries, explanations, files; and the answers of clingo to random programs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "temporary_files.h"
#include "windrow/data.h"
#include "windrow/rules.h"

namespace wr::rules {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows ask(const std::string& program, const std::string& query) { return Program::parse(program).query(query).rows; }
bool holds(const std::string& program, const std::string& query) { return !ask(program, query).empty(); }

const std::string kFamily =
    "Parent(Ann, Bob). Parent(Bob, Cid). Parent(Bob, Dora). Parent(Eve, Ann).\n"
    "Ancestor(x, y) :- Parent(x, y).\n"
    "Ancestor(x, z) :- Parent(x, y), Ancestor(y, z).\n";

TEST(RulesBoolean, AncestorAndQueries) {
  EXPECT_EQ(ask(kFamily, "Ancestor(Ann, y)"), Rows({{"Bob"}, {"Cid"}, {"Dora"}}));
  EXPECT_EQ(ask(kFamily, "Ancestor(x, Dora)"), Rows({{"Ann"}, {"Bob"}, {"Eve"}}));
  EXPECT_TRUE(holds(kFamily, "Ancestor(Eve, Cid)"));
  EXPECT_FALSE(holds(kFamily, "Ancestor(Cid, Eve)"));
  EXPECT_EQ(ask(kFamily, "Ancestor(x, y)").size(), 9u);
  EXPECT_EQ(ask(kFamily, "Ancestor(Eve, y), not Parent(Bob, y)"), Rows({{"Ann"}, {"Bob"}}));
  EXPECT_EQ(error_of([] { ask(kFamily, "Ancestor(Anna, y)"); }),
            "query:1:10: unknown constant Anna; did you mean Ann?");
}

TEST(RulesBoolean, ConstantsCount) {  // a system we know ignored them
  EXPECT_EQ(ask(kFamily + "Child(y) :- Parent(Bob, y).", "Child(y)"), Rows({{"Cid"}, {"Dora"}}));
  EXPECT_EQ(ask(kFamily + "Star(x, Bob) :- Parent(x, Bob).", "Star(x, y)"), Rows({{"Ann", "Bob"}}));
}

TEST(RulesBoolean, ConnectivesAndQuantifiers) {
  const std::string p = "P(A). P(B). Q(B). Q(C). E(A, B). E(A, C). E(B, C). E(C, C).\n";
  EXPECT_EQ(ask(p + "R(x) :- P(x), Q(x).", "R(x)"), Rows({{"B"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x); Q(x).", "R(x)"), Rows({{"A"}, {"B"}, {"C"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), not Q(x).", "R(x)"), Rows({{"A"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), not (Q(x), E(x, C)).", "R(x)"), Rows({{"A"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), exists(y: E(x, y), Q(y)), exists(y: E(y, x)).", "R(x)"), Rows({{"B"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), not exists(y: E(y, x)).", "R(x)"), Rows({{"A"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), not E(_, x).", "R(x)"), Rows({{"A"}}));
  EXPECT_EQ(ask(p + "R(x) :- E(x, _), forall(y: E(x, y) -> E(y, y)).", "R(x)"), Rows({{"B"}, {"C"}}));
  EXPECT_EQ(ask(p + "R(x) :- E(_, x), forall(y: E(y, x)).", "R(x)"), Rows({{"C"}}));
  EXPECT_EQ(ask(p + "R(x) :- E(x, x).", "R(x)"), Rows({{"C"}}));
  EXPECT_EQ(ask(p + "R(x, x) :- P(x).", "R(x, y)"), Rows({{"A", "A"}, {"B", "B"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), count(y: E(x, y)) >= 2.", "R(x)"), Rows({{"A"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), count(y: E(y, x)) = 0.", "R(x)"), Rows({{"A"}}));
  EXPECT_EQ(ask(p + "R(x) :- P(x), count(y, z: E(x, y), E(y, z)) != 1.", "R(x)"), Rows({{"A"}}));
  EXPECT_TRUE(holds(p + "Yes() :- count(x: P(x)) = 2.", "Yes()"));
  EXPECT_TRUE(holds(p, "P(A) -> Q(B)"));
}

TEST(RulesBoolean, AnImplicationHoldsWhereItsBodyIsFalse) {
  EXPECT_TRUE(holds("domain D = {A, B}. rel P(D). rel Q(D). P(A). Q(B).", "Q(A) -> P(B)"));
  EXPECT_FALSE(holds("domain D = {A, B}. rel P(D). rel Q(D). P(A). Q(B).", "Q(B) -> P(B)"));
  EXPECT_TRUE(holds("P(A). Q(B).", "forall(x: Q(x), P(x) -> P(x))"));
}

TEST(RulesBoolean, NumbersAndComparisons) {
  const std::string p =
      "domain N = 6.\nrel S(N, N).\nS(x, x+1) :- D(x).\nrel D(N).\nD(0). D(1). D(2). D(3). D(4). D(5).\n";
  EXPECT_EQ(ask(p, "S(x, y)").size(), 5u);  // 5 + 1 is none of the domain
  EXPECT_EQ(ask(p + "L(x) :- D(x), x < 2.", "L(x)"), Rows({{"0"}, {"1"}}));
  EXPECT_EQ(ask(p + "L(x) :- D(x), x >= 4, x != 5.", "L(x)"), Rows({{"4"}}));
  EXPECT_EQ(ask(p + "L(x, y) :- D(x), D(y), x = y + 4.", "L(x, y)"), Rows({{"4", "0"}, {"5", "1"}}));
  EXPECT_EQ(ask(p + "rel E(N). E(0). E(x+2) :- E(x).", "E(x)"), Rows({{"0"}, {"2"}, {"4"}}));
  EXPECT_EQ(ask("P(7). P(10). P(100). Q(x, y) :- P(x), P(y), x < y.", "Q(x, y)").size(), 3u);
  EXPECT_NE(error_of([] { ask("P(A). Q(x) :- P(x), x < 3.", "Q(x)"); }).find("not all numbers"), std::string::npos);
}

TEST(RulesBoolean, AChainOf990EdgesHas490545Pairs) {
  Rows edges;
  for (int i = 0; i < 990; ++i) edges.push_back({std::to_string(i), std::to_string(i + 1)});
  for (const char* rule :
       {"T(x, z) :- T(x, y), E(y, z).", "T(x, z) :- E(x, y), T(y, z).", "T(x, z) :- T(x, y), T(y, z)."}) {
    Program program = Program::parse(std::string("domain V.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\n") + rule);
    program.add("E", edges);
    EXPECT_EQ(program.relation("T").rows.size(), 490'545u) << rule;
  }
}

TEST(RulesBoolean, SparseRelationsNeedNoCells) {  // 10^5 constants: 10^10 cells would not fit
  Rows edges;
  for (int i = 0; i + 1 < 100'000; i += 2) edges.push_back({std::to_string(i), std::to_string(i + 1)});
  Program program = Program::parse(
      "domain V.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\nBack(y, x) :- T(x, y), not "
      "E(y, x).\n");
  program.add("E", edges);
  SolveOptions options;
  options.memory = 200 << 20;
  EXPECT_EQ(program.relation("Back", options).rows.size(), 50'000u);
}

TEST(RulesBoolean, WideRelations) {
  const std::string p =
      "F(A, B, C, D). F(A, B, D, C). F(B, A, C, D).\n"
      "G(x, w) :- F(x, y, z, w), F(y, x, z, w).\nH(z, y, x) :- F(x, y, z, _).\n";
  EXPECT_EQ(ask(p, "G(x, w)"), Rows({{"A", "D"}, {"B", "D"}}));
  EXPECT_EQ(ask(p, "H(C, y, x)"), Rows({{"A", "B"}, {"B", "A"}}));
  EXPECT_EQ(ask(p, "F(A, B, z, _)"), Rows({{"C"}, {"D"}}));
}

/// What a query derives with a constant is a small part of the whole, and the answers are the same.
TEST(RulesBoolean, QueriesDeriveWhatIsDemanded) {
  Rows edges;
  for (int i = 0; i < 400; ++i) edges.push_back({std::to_string(i), std::to_string(i + 1)});
  for (const char* rule :
       {"T(x, z) :- T(x, y), E(y, z).", "T(x, z) :- E(x, y), T(y, z).", "T(x, z) :- T(x, y), T(y, z)."}) {
    Program program = Program::parse(std::string("domain V.\nrel E(V, V) input.\nT(x, y) :- E(x, y).\n") + rule +
                                     "\nOdd(x, y) :- T(x, y), not E(x, y).\n?- Odd(390, y).\n?- T(x, 5), x != 0.\n");
    program.add("E", edges);
    SolveFacts facts;
    const std::vector<Answers> answers = program.run({}, &facts);
    EXPECT_EQ(answers[0].rows.size(), 9u) << rule;
    EXPECT_EQ(answers[1].rows.size(), 4u) << rule;
    std::int64_t found = 0;
    for (const auto& line : facts.rules) found += line.found;
    EXPECT_LT(found, 80'000) << rule;  // of the second query; all pairs are 80,200
  }
}

TEST(RulesBoolean, DemandKeepsFactsOfRelationsThatAlsoHaveRules) {
  EXPECT_EQ(ask("P(A, B). P(C, D). Q(A, C).\nP(x, y) :- Q(x, z), P(z, y).\n", "P(A, y)"), Rows({{"B"}, {"D"}}));
  EXPECT_EQ(
      ask("E(A, B). E(B, C). N(C).\nR(x, y) :- E(x, y), not B2(y).\nB2(y) :- N(y).\nR(x, z) :- R(x, y), R(y, z).\n",
          "R(A, y)"),
      Rows({{"B"}}));
}

TEST(RulesBoolean, OrderOfRulesAndLiteralsDoesNotMatter) {
  const std::string facts = "E(A, B). E(B, C). E(C, D). E(D, B). B(C).\n";
  const Rows expected = ask(facts + "T(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z), not B(z).\n", "T(x, y)");
  EXPECT_EQ(ask("T(x, z) :- not B(z), E(y, z), T(x, y).\nT(x, y) :- E(x, y).\n" + facts, "T(x, y)").size(),
            expected.size());
  // A repeated subgoal changes nothing; one more never adds answers.
  EXPECT_EQ(ask(facts + "T(x, y) :- E(x, y).\nT(x, z) :- T(x, y), T(x, y), E(y, z), E(y, z), not B(z).\n", "T(x, y)"),
            expected);
  const Rows fewer =
      ask(facts + "T(x, y) :- E(x, y), E(x, _).\nT(x, z) :- T(x, y), E(y, z), not B(z), B(z).\n", "T(x, y)");
  for (const auto& row : fewer) EXPECT_NE(std::find(expected.begin(), expected.end(), row), expected.end());
}

TEST(RulesBoolean, Explains) {
  EXPECT_EQ(Program::parse(kFamily).explain("Ancestor(Ann, Cid)"),
            "Ancestor(Ann, Cid)\n"
            "  by Ancestor(x, z) :- Parent(x, y), Ancestor(y, z).   line 3, y = Bob\n"
            "  Parent(Ann, Bob)   fact, line 1\n"
            "  Ancestor(Bob, Cid)\n"
            "    by Ancestor(x, y) :- Parent(x, y).   line 2\n"
            "    Parent(Bob, Cid)   fact, line 1\n");
  EXPECT_EQ(Program::parse(kFamily).explain("Ancestor(Cid, Ann)"),
            "Ancestor(Cid, Ann) does not hold: no rule derives it\n");
  // On a cycle the tree still ends in facts.
  const std::string cycle =
      Program::parse("E(A, B). E(B, A).\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), T(y, z).\n").explain("T(A, A)");
  EXPECT_NE(cycle.find("E(A, B)   fact, line 1"), std::string::npos);
  EXPECT_NE(cycle.find("E(B, A)   fact, line 1"), std::string::npos);
  EXPECT_EQ(Program::parse("P(A). P(B). Q(B).\nR(x) :- P(x), not Q(x).\n").explain("R(A)"),
            "R(A)\n  by R(x) :- P(x), not Q(x).   line 2\n  P(A)   fact, line 1\n  not Q(A)\n");
  EXPECT_EQ(error_of([] { static_cast<void>(Program::parse(kFamily).explain("Ancestor(x, Ann)")); }),
            "explain: 'x' is a variable; expected constants, such as Ancestor(Ann, Bob)");
  EXPECT_EQ(error_of([] { static_cast<void>(Program::parse("P(\"ann\").").explain("P(ann)")); }),
            "explain: 'ann' is a variable; expected constants, such as \"ann\"");
}

TEST(RulesBoolean, FilesInAndOut) {
  const TemporaryFolder folder;
  write_text(folder / "e.tsv", "Ann\tBob\nBob\tCid Vries\n");
  write_text(folder / "n.csv", "\"Ann\",\"a, b\"\nBob,c\n");
  write_text(folder / "p.wr", "@load E \"e.tsv\".\n@load N \"n.csv\".\nT(x, n) :- E(x, _), N(x, n).\n?- T(x, n).\n");
  const std::vector<Answers> answers = Program::parse_file(folder / "p.wr").run();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(to_tsv(answers[0]), "x\tn\nAnn\ta, b\nBob\tc\n");
  EXPECT_EQ(to_json(answers[0]),
            "{\"query\":\"T(x, n)\",\"columns\":[\"x\",\"n\"],\"rows\":[[\"Ann\",\"a, b\"],[\"Bob\",\"c\"]]}\n");
  EXPECT_EQ(to_table(answers[0]), "x    n\nAnn  a, b\nBob  c\n2 answers\n");
  write_text(folder / "bad.tsv", "A\tB\nA\n");
  EXPECT_EQ(error_of([&] { Program::parse("Q(x) :- E(x, _).", "p").load("E", folder / "bad.tsv"); }),
            "p:1:9: unknown relation or tensor 'E'");
  Program program = Program::parse("rel E(D, D).\ndomain D.\nQ(x) :- E(x, _).");
  EXPECT_EQ(error_of([&] { program.load("E", folder / "bad.tsv"); }),
            (folder / "bad.tsv") + ": line 2: 1 fields, the first line has 2");
  wr::data::write_npy(folder / "m.npy", Array::from<float>({{0, 1}, {0, 0}}));
  Program matrix = Program::parse("domain D = 2.\nrel M(D, D).\nT(y, x) :- M(x, y).");
  matrix.load("M", folder / "m.npy");
  EXPECT_EQ(matrix.query("T(x, y)").rows, Rows({{"1", "0"}}));
  EXPECT_TRUE(identical(matrix.array("T"), Array::from<float>({{0, 0}, {1, 0}}).astype(DType::boolean)));
}

/// Programs with negation, recursion and constants, made at random, and clingo's answers to them
/// (scripts/rules_clingo.py).
// ---- random programs ----

struct Golden {
  std::string program;
  std::map<std::string, std::set<std::vector<std::string>>> relations;
};

std::vector<Golden> random_programs() {
  std::ifstream file(std::filesystem::path(WINDROW_TEST_DATA).parent_path() / "golden/rules_clingo.jsonl");
  std::vector<Golden> all;
  for (std::string line; std::getline(file, line);) {
    const auto golden = nlohmann::json::parse(line);
    all.push_back({golden["program"], {}});
    for (const auto& [name, rows] : golden["relations"].items()) {
      auto& expected = all.back().relations[name];
      for (const auto& row : rows) expected.insert(row.get<std::vector<std::string>>());
    }
  }
  return all;
}

void expect_answers(const std::string& text, const Golden& golden) {
  const Program program = Program::parse(text);
  for (const auto& [name, expected] : golden.relations) {
    const Rows rows = program.relation(name).rows;
    ASSERT_EQ(std::set(rows.begin(), rows.end()), expected) << name << " of\n" << text;
  }
}

TEST(RulesBoolean, AnswersAsClingoDoes) {
  const std::vector<Golden> all = random_programs();
  EXPECT_GE(all.size(), 100U);
  for (const Golden& golden : all) expect_answers(golden.program, golden);
}

/// A line of such a program: a rule with its literals, or anything else, which is its head.
struct Line {
  std::string head;
  std::vector<std::string> body;

  explicit Line(const std::string& text) {
    const auto arrow = text.find(" :- ");
    head = text.substr(0, arrow);
    if (arrow == std::string::npos) return;
    body.emplace_back();
    int depth = 0;
    for (std::size_t i = arrow + 4; i + 1 < text.size(); ++i) {
      depth += (text[i] == '(') - (text[i] == ')');
      if (depth == 0 && text.compare(i, 2, ", ") == 0) {
        body.emplace_back();
        ++i;
      } else {
        body.back() += text[i];
      }
    }
  }
  std::string text() const {
    std::string all = head;
    for (std::size_t i = 0; i < body.size(); ++i) all += (i == 0 ? " :- " : ", ") + body[i];
    return all + (body.empty() ? "\n" : ".\n");
  }
};

std::vector<Line> lines_of(const std::string& program) {
  std::vector<Line> lines;
  std::istringstream text(program);
  for (std::string line; std::getline(text, line);) lines.emplace_back(line);
  return lines;
}

TEST(RulesBoolean, OfRandomProgramsOrderAndRepetitionDoNotMatter) {
  for (const Golden& golden : random_programs()) {
    std::vector<Line> lines = lines_of(golden.program);
    std::string same, turned, twice;
    for (const Line& line : lines) same += line.text();
    ASSERT_EQ(same, golden.program);
    std::reverse(lines.begin(), lines.end());
    for (Line line : lines) {
      const auto positive = std::find_if(line.body.begin(), line.body.end(), [](const std::string& literal) {
        return !literal.starts_with("not ") && literal.find('(') != std::string::npos;
      });
      if (positive != line.body.end()) line.body.push_back(std::string(*positive));
      twice += line.text();
      std::reverse(line.body.begin(), line.body.end());
      turned += line.text();
    }
    ASSERT_NO_FATAL_FAILURE(expect_answers(twice, golden));
    ASSERT_NO_FATAL_FAILURE(expect_answers(turned, golden));
  }
}

TEST(RulesBoolean, OfRandomProgramsOneSubgoalMoreAddsNoTuple) {  // a system we know did
  int fewer = 0;
  for (const Golden& golden : random_programs()) {
    const std::vector<Line> lines = lines_of(golden.program);
    for (const Line& line : lines) {
      if (line.body.empty()) continue;
      const std::string arguments = line.head.substr(line.head.find('('));
      const auto variable = arguments.find('x');
      Line less("Less" + arguments), more("More" + arguments);
      less.body = more.body = line.body;
      more.body.push_back(variable == std::string::npos ? "Some(_)" : "Some(" + arguments.substr(variable, 2) + ")");
      const Program program = Program::parse(golden.program + "rel Some(U).\nSome(C1).\n" + less.text() + more.text());
      const Rows all = program.relation("Less").rows, some = program.relation("More").rows;
      const std::set<std::vector<std::string>> known(all.begin(), all.end());
      for (const auto& row : some) ASSERT_TRUE(known.contains(row)) << more.text() << "in\n" << golden.program;
      fewer += some.size() < all.size();
    }
  }
  EXPECT_GE(fewer, 100);  // so that it is a test
}

}  // namespace
}  // namespace wr::rules
