// The program `windrow rules`: what its commands print, write and return.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "run_program.h"
#include "windrow/data.h"
#include "windrow/rules.h"

#ifdef WINDROW_PROGRAM
namespace wr::rules {
namespace {

constexpr const char* kKin =
    "Parent(Ann, Bob).\nParent(Bob, Eve).\nAncestor(x, y) :- Parent(x, y).\n"
    "Ancestor(x, z) :- Parent(x, y), Ancestor(y, z).\n?- Ancestor(Ann, y).\n";

class RulesProgram : public testing::Test {
 protected:
  void SetUp() override { write_text(kin_, kKin); }
  Said rules(const std::string& words, const std::string& input = "") {
    return run_program("rules " + words, {.input = input, .folder = folder_ / ""});
  }
  TemporaryFolder folder_;
  std::string kin_ = folder_ / "kin.wr";
};

TEST_F(RulesProgram, RunsAsTableTsvAndJson) {
  const Said table = rules("run kin.wr"), tsv = rules("run kin.wr --format tsv"),
             json = rules("run kin.wr --format json");
  EXPECT_EQ(table.code, 0) << table.error;
  EXPECT_EQ(table.out, "?- Ancestor(Ann, y).\ny\nBob\nEve\n2 answers\n");
  EXPECT_EQ(tsv.out, "y\nBob\nEve\n");
  EXPECT_EQ(json.out, "{\"query\":\"Ancestor(Ann, y)\",\"columns\":[\"y\"],\"rows\":[[\"Bob\"],[\"Eve\"]]}\n");
}

TEST_F(RulesProgram, JsonIsAskedForAsEverywhere) {
  EXPECT_EQ(rules("run kin.wr --json").out, rules("run kin.wr --format json").out);
  EXPECT_EQ(rules("query kin.wr 'Ancestor(Ann, y)' --json").out,
            rules("query kin.wr 'Ancestor(Ann, y)' --format json").out);
  const Said why = rules("explain kin.wr 'Ancestor(Ann, Bob)' --json");
  EXPECT_EQ(why.out.rfind("{\"atom\":\"Ancestor(Ann, Bob)\",\"explanation\":\"", 0), 0u) << why.out << why.error;
  EXPECT_EQ(rules("check kin.wr --json").out,
            "{\"file\":\"kin.wr\",\"names\":[\"Ancestor\",\"Parent\"],\"semantics\":\"boolean\"}\n");
}

TEST_F(RulesProgram, WritesRelationsAndKeepsNotesOutOfOutputForPrograms) {
  const Said said =
      rules("run kin.wr --format json --write Ancestor=a.tsv --write Ancestor=a.json --write Ancestor=a.npy");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_EQ(said.out, "{\"query\":\"Ancestor(Ann, y)\",\"columns\":[\"y\"],\"rows\":[[\"Bob\"],[\"Eve\"]]}\n");
  EXPECT_EQ(said.error, "wrote a.tsv\nwrote a.json\nwrote a.npy\n");
  EXPECT_EQ(read_text(folder_ / "a.tsv"), "x1\tx2\nAnn\tBob\nAnn\tEve\nBob\tEve\n");
  EXPECT_EQ(read_text(folder_ / "a.json"),
            "{\"query\":\"Ancestor(x1, x2)\",\"columns\":[\"x1\",\"x2\"],\"rows\":[[\"Ann\",\"Bob\"],[\"Ann\",\"Eve\"],"
            "[\"Bob\",\"Eve\"]]}\n");
  const Array npy = data::read_npy(folder_ / "a.npy");
  EXPECT_EQ(npy.dtype(), DType::boolean);
  EXPECT_TRUE(identical(npy.astype(DType::f32), Array::from<float>({{0, 1, 1}, {0, 0, 1}, {0, 0, 0}})));
}

TEST_F(RulesProgram, RefusesToWriteBeforeTheWorkBegins) {
  for (const auto& [what, why] :
       {std::pair{"Ancestr=a.tsv", "--write: no relation or tensor is called 'Ancestr'; there are Ancestor, Parent"},
        std::pair{"Ancestor=a.xls", "--write 'a.xls': expected a file that ends in .tsv, .json or .npy"}}) {
    const Said said = rules(std::string("run kin.wr --write ") + what);
    EXPECT_EQ(said.code, 1);
    EXPECT_EQ(said.out, "");
    EXPECT_EQ(said.error, std::string("windrow: ") + why + "\n");
  }
  EXPECT_EQ(rules("run kin.wr --tolerance -1").code, 2);
}

TEST_F(RulesProgram, ReadsDataAndSemantics) {
  write_text(folder_ / "road.wr", "domain City.\nrel Road(City, City) input.\nWay(x, z) :- Road(x, y), Road(y, z).\n");
  write_text(folder_ / "roads.tsv", "Rome\tOslo\nOslo\tBern\n");
  const Said said = rules("query road.wr 'Way(Rome, z)' --data Road=roads.tsv --format tsv");
  EXPECT_EQ(said.out, "z\nBern\n") << said.error;
  const Said wrong = rules("query road.wr 'Way(Rome, z)' --data Road=roads.tsv --semantics fuzzy");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.error,
            "windrow: --semantics 'fuzzy': expected boolean, product, godel, lukasiewicz, sum, maxprod, minplus or "
            "ltn\n");
  EXPECT_EQ(rules("run road.wr --data Road").error,
            "windrow: --data 'Road': expected NAME=FILE, such as Parent=parents.tsv\n");
}

TEST_F(RulesProgram, AnswersQueries) {
  EXPECT_EQ(rules("query kin.wr 'Ancestor(x, Eve)' --format tsv").out, "x\nAnn\nBob\n");
  EXPECT_EQ(rules("query kin.wr 'Ancestor(Ann, Eve)'").out, "yes\n");
  EXPECT_EQ(rules("query kin.wr 'Ancestor(Ann, Eve)' --format tsv").out, "yes\n");
  EXPECT_EQ(rules("query kin.wr 'Ancestor(Eve, Ann)' --format tsv").out, "no\n");
  EXPECT_EQ(rules("query kin.wr 'Ancestor(Eve, y)'").out, "y\n0 answers\n");
  const Said wrong = rules("query kin.wr 'Ancestor(x, Evee)'");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.out, "");
  EXPECT_EQ(wrong.error, "windrow: query:1:13: unknown constant Evee; did you mean Eve?\n");
}

TEST_F(RulesProgram, Explains) {
  EXPECT_EQ(rules("explain kin.wr 'Ancestor(Ann, Eve)'").out,
            "Ancestor(Ann, Eve)\n"
            "  by Ancestor(x, z) :- Parent(x, y), Ancestor(y, z).   line 4, y = Bob\n"
            "  Parent(Ann, Bob)   fact, line 1\n"
            "  Ancestor(Bob, Eve)\n"
            "    by Ancestor(x, y) :- Parent(x, y).   line 3\n"
            "    Parent(Bob, Eve)   fact, line 2\n");
  EXPECT_EQ(rules("explain kin.wr 'Ancestor(Eve, Ann)'").out, "Ancestor(Eve, Ann) does not hold: no rule derives it\n");
}

TEST_F(RulesProgram, Checks) {
  EXPECT_EQ(rules("check kin.wr").out, "kin.wr: 2 relations and tensors, boolean semantics: no mistakes found\n");
  write_text(folder_ / "bad.wr", "P(A).\nQ(x, z) :- P(x).\n");
  const Said bad = rules("check bad.wr");
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.error, "windrow: bad.wr:2:6: variable 'z' of the head stands in no positive literal of the body\n");
  EXPECT_EQ(rules("check missing.wr").code, 1);
  EXPECT_EQ(rules("check").code, 2);
  EXPECT_EQ(rules("run kin.wr --format xml").code, 2);
}

TEST_F(RulesProgram, FormatsToTheScreenOrInPlace) {
  write_text(folder_ / "wide.wr", "P( A ).Q(x):-P(x) .\n");
  EXPECT_EQ(rules("fmt wide.wr").out, "P(A).\nQ(x) :- P(x).\n");
  EXPECT_EQ(read_text(folder_ / "wide.wr"), "P( A ).Q(x):-P(x) .\n");
  const Said said = rules("fmt wide.wr --write");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(read_text(folder_ / "wide.wr"), "P(A).\nQ(x) :- P(x).\n");
}

TEST_F(RulesProgram, TrainsSavesAndRestores) {
  write_text(folder_ / "w.wr",
             "domain D = 3.\ntensor W[D] learn.\nLoss = sum(i: square(W[i] - i)).\n@minimize Loss(lr=0.1, steps=300).\n"
             "Big[i] = step(W[i] - 1.5).\nBig[i]?\n");
  const Said trained = rules("train w.wr --save w.safetensors");
  EXPECT_EQ(trained.code, 0) << trained.error;
  EXPECT_NE(trained.out.find("wrote w.safetensors\n"), std::string::npos) << trained.out;
  EXPECT_EQ(rules("run w.wr --restore w.safetensors --format tsv").out, "i\tvalue\n0\t0\n1\t0\n2\t1\n");
  const Said lines = rules("train w.wr --steps 200 --format json");
  EXPECT_EQ(lines.code, 0) << lines.error;
  EXPECT_EQ(lines.out.substr(0, 19), "{\"step\":100,\"loss\":") << lines.out;
  EXPECT_NE(lines.out.find("\n{\"steps\":200,\"seconds\":"), std::string::npos) << lines.out;
  EXPECT_NE(lines.out.find("\n{\"query\":\"Big[i]\",\"columns\":[\"i\"]"), std::string::npos) << lines.out;
  std::istringstream all(lines.out);
  for (std::string line; std::getline(all, line);) EXPECT_TRUE(line.starts_with('{') && line.ends_with('}')) << line;
  const Said nothing = rules("train kin.wr");
  EXPECT_EQ(nothing.code, 1);
  EXPECT_EQ(nothing.error,
            "windrow: kin.wr: nothing says what to minimise; add @minimize Loss(lr=0.01, steps=1000).\n");
}

TEST_F(RulesProgram, EntersStatementsOneAfterTheOther) {
  const Said said = rules("repl", "P(A).\nQ(x) :-\n  P(x).\n?- Q(x).\nQ(x, y).\n:explain Q(A)\n:list\n:quit\nP(B).\n");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_EQ(said.out,
            "x\nA\n1 answer\n"
            "input:4:1: Q has 1 arguments (line 2), 2 here\n"
            "Q(A)\n  by Q(x) :- P(x).   line 2\n  P(A)   fact, line 1\n"
            "P(A).\nQ(x) :-\n  P(x).\n");
}

TEST_F(RulesProgram, TheReplTakesCommentsAndSeveralStatements) {
  const Said said = rules("repl --format tsv",
                          "P(A).  # a fact\nP(\"#\"). Q(x) :- P(x). ?- Q(x). P(B). ?- P(B).  # both\n"
                          "?- Q(A),  # over two lines\n P(B).\n:list\n");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_EQ(said.out, "x\nA\n#\nyes\nyes\nP(A).  # a fact\nP(\"#\").\nQ(x) :- P(x).\nP(B).\n# over two lines\n");
}

TEST_F(RulesProgram, TheReplReadsDataAndAsksForTensorsWritesAndSaves) {
  write_text(folder_ / "road.wr",
             "domain City.\nrel Road(City, City) input.\nWay(x, z) :- Road(x, y), Road(y, z).\n?- Way(x, y).\n");
  write_text(folder_ / "roads.tsv", "Rome\tOslo\nOslo\tBern\n");
  const Said said = rules("repl road.wr --data Road=roads.tsv --format tsv",
                          "?- Way(Rome, z).\n:format json\n?- Way(Rome, z).\n:write Way=way.npy\n:names\n:save all.wr\n"
                          ":format xml\n:semantics fuzzy\n:load Road\n:lost\n:semantics product\n?- Way(Rome, z).\n");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_EQ(
      said.out,
      "z\nBern\n{\"query\":\"Way(Rome, z)\",\"columns\":[\"z\"],\"rows\":[[\"Bern\"]]}\nwrote way.npy\nRoad\nWay\n"
      "wrote all.wr\n:format 'xml': expected table, tsv or json\n"
      ":semantics 'fuzzy': expected boolean, product, godel, lukasiewicz, sum, maxprod, minplus or ltn\n"
      ":load 'Road': expected NAME=FILE, such as Parent=parents.tsv\n"
      ":lost: there is no such command; :help lists them\n"
      "{\"query\":\"Way(Rome, z)\",\"columns\":[\"z\"],\"rows\":[[\"Bern\"]],\"values\":[1.0]}\n");
  EXPECT_EQ(data::read_npy(folder_ / "way.npy").shape(), (Shape{3, 3}));
  EXPECT_NE(read_text(folder_ / "all.wr").find("Way(x, z) :- Road(x, y), Road(y, z)."), std::string::npos);
  const Said loads = rules("repl",
                           "domain City.\nrel Road(City, City) input.\n:load Road=roads.tsv\n?- Road(x, Bern).\n"
                           "T[i] = 2 * i.\n");
  EXPECT_EQ(
      loads.out,
      "x\nOslo\n1 answer\ninput:3:3: nothing says which values index 1 of T has; declare it, as in `domain D = 10. "
      "tensor T[D].`\n");
}

TEST_F(RulesProgram, TheReplKeepsWhatItLearned) {
  const std::string program =
      "domain D = 3.\ntensor W[D] learn.\ndomain City.\ntensor Near[City] learn.\nrel Big(City).\nBig(Rome).\n"
      "Loss = sum(i: square(W[i] - i)) + sum(c: square(Near[c] - 0.9)).\n"
      "@minimize Loss(lr=0.1, steps=300).\n:train\n";
  // A statement after the training, then one with a constant that is new to City but not to D.
  const Said said = rules("repl --format tsv", program +
                                                   "Twice[i] = step(W[i] - 1.5).\nTwice[i]?\n:save w.safetensors\n"
                                                   "Big(Oslo).\nTwice[i]?\n:train\nTwice[i]?\n");
  EXPECT_EQ(said.code, 0) << said.error;
  const std::string kept = "i\tvalue\n0\t0\n1\t0\n2\t1\n";
  const std::size_t first = said.out.find(kept);
  ASSERT_NE(first, std::string::npos) << said.out;
  EXPECT_NE(said.out.find("wrote w.safetensors\nNear: what was learned no longer fits; :train learns it anew\n" + kept,
                          first),
            std::string::npos)
      << said.out;
  write_text(folder_ / "w.wr", program.substr(0, program.find(":train")) + "Twice[i] = step(W[i] - 1.5).\n");
  EXPECT_EQ(rules("query w.wr 'Twice[i]' --restore w.safetensors --format tsv").out, kept);
}

/// A person at a terminal: what is typed, and what stands on the screen in the end.
std::string typed(const std::string& home, const std::string& keys) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    setenv("XDG_STATE_HOME", home.c_str(), 1);
    execl(WINDROW_PROGRAM, WINDROW_PROGRAM, "rules", "repl", nullptr);
    _exit(127);
  }
  std::string screen;
  std::size_t sent = 0;
  char part[4096];
  // A line's keys are sent once its prompt stands there, as a person would.
  for (ssize_t n = 0; (n = read(terminal, part, sizeof part)) > 0;) {
    screen.append(part, static_cast<std::size_t>(n));
    const bool waits = screen.ends_with("\x1b[2C");
    if (!waits || sent >= keys.size()) continue;
    const std::size_t end = std::min(keys.find('\r', sent), keys.size() - 1) + 1;
    EXPECT_EQ(write(terminal, keys.data() + sent, end - sent), static_cast<ssize_t>(end - sent));
    sent = end;
    screen += "\n";
  }
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << screen;
  return screen;
}

int times(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(RulesProgram, TheReplForkEditsCompletesAndRecalls) {
  const std::string up = "\x1b[A", left = "\x1b[D";
  // "Parent(Ann, Bob)." with a slip mended, a completed query, the same again from the history, an interrupted line.
  const std::string screen = typed(folder_ / "", "Parnt(Ann, Bob)." + left + left + left + left + left + left + left +
                                                     left + left + left + left + left + left + "e\r" +
                                                     "?- Par\t(x, y).\r" + up + "\r" + "nonsense\x03" + ":quit\r");
  EXPECT_EQ(times(screen, "Ann  Bob\r\n1 answer"), 2) << screen;
  EXPECT_EQ(times(screen, "input:"), 0) << screen;
  EXPECT_EQ(read_text(folder_ / "windrow/rules_history"), "Parent(Ann, Bob).\n?- Parent(x, y).\n:quit\n");
  // The next session remembers: three lines up is the fact, two the query.
  const std::string again = typed(folder_ / "", up + up + up + "\r" + up + up + up + "\r" + "\x04");
  EXPECT_EQ(times(again, "Ann  Bob\r\n1 answer"), 1) << again;
}

TEST_F(RulesProgram, RunsInBatchesAndSaysWhereTheTimeWent) {
  write_text(folder_ / "net.wr",
             "domain Example = 10.\ndomain In = 3.\ntensor X[Example, In] input.\ntensor Y[Example].\n"
             "Y[n] = relu(X[n, i] * i).\n");
  std::vector<float> x;
  for (int i = 0; i < 7 * 3; ++i) x.push_back(static_cast<float>(i) - 9);
  data::write_npy(folder_ / "x.npy", Array::from(x, {7, 3}));
  const Said said =
      rules("run net.wr --data X=x.npy --batches Example --batch 3 --write Y=y.npy --profile --out p.html");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_NE(said.out.find("7 rows in batches of 3"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("net.wr:5"), std::string::npos) << said.out;
  EXPECT_NE(read_text(folder_ / "p.html").find("net.wr"), std::string::npos);
  const auto y = data::read_npy(folder_ / "y.npy").to_vector<float>();
  ASSERT_EQ(y.size(), 7U);
  for (std::size_t n = 0; n < 7; ++n) EXPECT_EQ(y[n], std::max(0.F, x[n * 3 + 1] + 2 * x[n * 3 + 2])) << n;
  EXPECT_EQ(rules("run net.wr --data X=x.npy --batches Exampel --write Y=y.npy").error,
            "windrow: net.wr: no domain is called 'Exampel'; there are Example, In\n");
  EXPECT_EQ(rules("run net.wr --data X=x.npy --batches In --write Y=y.npy").error,
            "windrow: --batches In: no --data has a row for each of its constants\n");
  EXPECT_EQ(rules("run net.wr --data X=x.npy --batches Example").error,
            "windrow: --batches: say what to write: --write NAME=FILE.npy\n");
}

}  // namespace
}  // namespace wr::rules
#endif
