// Learning: weights, choices of relations, constraints, checkpoints.
#include <cmath>
#include <filesystem>
#include <limits>

#include "support/scoped_variable.h"
#include "temporary_files.h"
#include "windrow/checkpoint.h"
#include "windrow/rules.h"
#include "windrow/step.h"

namespace wr::rules {
namespace {

TEST(RulesLearning, RecoversTheRulesOfKinship) {
  Program program = Program::parse_file(
      (std::filesystem::path(WINDROW_TEST_DATA).parent_path().parent_path() / "examples/rules/grandparent.wr")
          .string());
  const TrainReport report = program.train();
  EXPECT_LT(report.losses.back(), 0.01 * report.losses.front());
  const std::string learned = program.learned();
  EXPECT_NE(learned.find(":: G(x, z) :- Parent(x, y), Parent(y, z).  # ?g1 is Parent"), std::string::npos) << learned;
  EXPECT_NE(learned.find(":: U(x, z) :- Brother(x, y), Parent(y, z).  # ?u1 is Brother"), std::string::npos) << learned;
}

TEST(RulesLearning, AWeightBecomesTheShareThatHolds) {
  Program program = Program::parse(
      "domain D = 10.\nrel P(D).\nrel Q(D).\n"
      "P(0). P(1). P(2). P(3). P(4). P(5). P(6). P(7). P(8). P(9).\nQ(0). Q(1). Q(2). Q(3). Q(4). Q(5). Q(6).\n"
      "learn :: R(x) :- P(x).\nLoss = mean(x: square(R(x) - Q(x))).\n@minimize Loss(lr=0.05, steps=600).\n");
  program.train();
  EXPECT_NEAR(program.query("R(0)").values[0], 0.7, 0.01);  // the mean of Q
  EXPECT_EQ(program.learned().substr(0, 3), "0.7");
}

TEST(RulesLearning, ConstraintsAreMadeToHold) {
  Program program = Program::parse(
      "domain D = {A, B, C}.\nrel Friends(D, D).\nrel Smokes(D) learn.\nFriends(A, B). Friends(B, C).\n@semantics "
      "ltn.\n"
      "constraint Smokes(A).\nconstraint forall(x, y: Friends(x, y), Smokes(x) -> Smokes(y)).\n"
      "@minimize constraints(lr=0.1, steps=400).\n");
  const TrainReport report = program.train();
  EXPECT_LT(report.losses.back(), 0.1);
  for (const char* query : {"Smokes(A)", "Smokes(B)", "Smokes(C)"})
    EXPECT_GT(program.query(query).values[0], 0.8) << query;
}

TEST(RulesLearning, CheckpointsKeepWhatWasLearned) {
  const std::string text =
      "domain D = 4.\ntensor W[D] learn.\nLoss = sum(i: square(W[i] - i)).\n@minimize Loss(lr=0.1, steps=300).\n";
  const TemporaryFolder folder;
  Program program = Program::parse(text);
  program.train();
  program.save(folder / "w.safetensors");
  Program other = Program::parse(text);
  other.restore(folder / "w.safetensors");
  EXPECT_TRUE(identical(other.array("W"), program.array("W")));
  EXPECT_NEAR(other.array("W").at<double>({3}), 3, 1e-3);
}

// Adam that begins anew makes its first steps as long as its rate: what was all but learned would be thrown away.
TEST(RulesLearning, GoesOnWhereItEndedWithTheMomentsOfTheOptimiser) {
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  for (const char* optimiser : {"adam", "adamw", "sgd", "rmsprop"}) {
    const std::string text =
        "domain D = 4.\ntensor W[D] learn.\nrel P(D).\nP(1).\nlearn :: Q(x) :- P(x).\n"
        "Loss = sum(i: square(W[i] - i)) + square(Q(1) - 0.9).\n@minimize Loss(lr=0.01, steps=100, optimiser=" +
        std::string(optimiser) + ").\n";
    Program whole = Program::parse(text), first = Program::parse(text), second = Program::parse(text);
    const TrainReport at_once = whole.train();
    TrainOptions options;
    int done = 0;
    options.stop = [&] { return ++done == 30; };  // as Ctrl-C does
    EXPECT_EQ(first.train(options).losses.size(), 30U);
    first.save(path);
    second.restore(path);
    TrainReport rest = second.train({.steps = 70});
    EXPECT_EQ(rest.losses, std::vector<double>(at_once.losses.begin() + 30, at_once.losses.end())) << optimiser;
    EXPECT_TRUE(identical(second.array("W"), whole.array("W"))) << optimiser;
    rest = first.train({.steps = 70});  // the same program, without a file
    EXPECT_TRUE(identical(first.array("W"), whole.array("W"))) << optimiser;
    EXPECT_EQ(first.query("Q(1)").values, whole.query("Q(1)").values) << optimiser;
  }
  // Of another optimiser only what was learned is taken.
  Program other = Program::parse(
      "domain D = 4.\ntensor W[D] learn.\nrel P(D).\nP(1).\nlearn :: Q(x) :- P(x).\nLoss = sum(i: square(W[i] - i)) + "
      "Q(1).\n@minimize Loss(lr=0.001, steps=1, optimiser=adam).\n");
  other.restore(path);
  const Array before = other.array("W");
  other.train();
  EXPECT_TRUE(allclose(other.array("W"), before, 0, 0.002));
}

// A weight is called after its rule: lines may come before it, and a file of another program is not taken for this
// one's.
TEST(RulesLearning, CheckpointsBelongToTheirProgram) {
  const std::string text =
      "domain D = {A, B}.\nrel P(D).\nP(A).\nlearn :: Q(x) :- P(x).\nLoss = square(Q(A) - 0.9).\n"
      "@minimize Loss(lr=0.1, steps=300).\n";
  const TemporaryFolder folder;
  const std::string path = folder / "w.safetensors";
  Program program = Program::parse(text, "p.wr");
  program.train();
  program.save(path);
  Program moved = Program::parse("# a comment\n\n" + text, "p.wr");
  moved.restore(path);
  EXPECT_EQ(moved.query("Q(A)").values, program.query("Q(A)").values);
  Program other = Program::parse("domain D = 2.\ntensor W[D] learn.\n", "o.wr");
  EXPECT_EQ(error_of([&] { other.restore(path); }),
            path + ": holds 'weight of learn :: Q(x) :- P(x).', which o.wr does not learn; is it of another program?");
  write_safetensors(path, {{"W", Array::from<float>({1, std::numeric_limits<float>::quiet_NaN()})}});
  EXPECT_EQ(error_of([&] { other.restore(path); }), path + ": 'W' has a value that is nan");
  write_safetensors(path, {{"W", Array::zeros({2}, DType::i32)}});
  EXPECT_EQ(error_of([&] { other.restore(path); }), path + ": 'W' is i32[2]; expected numbers such as f32");
}

TEST(RulesLearning, ALossThatIsNotFiniteNamesWhatIsMinimised) {
  const auto error_with_check = [](const char* check) {
    const ScopedVariable checked("WINDROW_CHECK", check);
    Program program =
        Program::parse("domain D = 2.\ntensor W[D] learn.\nLoss = sum(i: log(W[i] - 100)).\n@minimize Loss.", "p.wr");
    return error_of([&] { program.train(); });
  };
  EXPECT_EQ(error_with_check("0"), "p.wr:4:1: the loss is nan after 1 steps; a smaller lr may help");
  EXPECT_EQ(error_with_check("1"),
            "p.wr:4: check: log (p.wr:3) gives nan in row 0 of f32[2], the first value that is not finite");
}

TEST(RulesLearning, Refuses) {
  const auto trained = [](const std::string& text) { return error_of([&] { Program::parse(text, "p.wr").train(); }); };
  EXPECT_EQ(trained("P(A)."), "p.wr: nothing says what to minimise; add @minimize Loss(lr=0.01, steps=1000).");
  EXPECT_EQ(trained("tensor L.\nL = 1.\n@minimize L."),
            "p.wr:3:1: nothing is learned: declare a tensor or relation with `learn`, or a rule with `learn ::`");
  EXPECT_EQ(trained("P(A).\nlearn :: Q(x) :- P(x).\nL = 3.\n@minimize L."),
            "p.wr:4:1: L depends on nothing that is learned");
  EXPECT_EQ(trained("domain D = 2.\ntensor W[D] learn.\n@minimize W(rate=1)."),
            "p.wr:3:13: unknown option 'rate'; there are lr, steps, decay and optimiser");
  EXPECT_EQ(trained("domain D = 2.\ntensor W[D] learn.\n@minimize W."),
            "p.wr:3:11: W is [2]; what is minimised has one element");
  EXPECT_EQ(trained("domain D = 2.\ntensor W[D] learn.\n@minimize V."), "p.wr:3:11: unknown relation or tensor 'V'");
}

TEST(RulesLearning, TracesIntoAStepOfOnesOwn) {
  Program program =
      Program::parse("domain D = 3.\nrel E(D, D) input.\nT(x, y) :- E(x, y).\nT(x, z) :- T(x, y), E(y, z).\n");
  Step step = compile(
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            program.trace("T", {{"E", in[0]}}, {.semantics = Semantics::product, .iterations = 4})};
      },
      {f32(3, 3)});
  const Array edges = Array::from<float>({{0, 0.5f, 0}, {0, 0, 0.5f}, {0, 0, 0}});
  const std::vector<const Array*> arguments{&edges};
  EXPECT_TRUE(allclose(step.run(arguments)[0], Array::from<float>({{0, 0.5f, 0.25f}, {0, 0, 0.5f}, {0, 0, 0}})));
  EXPECT_EQ(error_of([&] {
              compile(
                  [&](const std::vector<Tensor>& in) {
                    return std::vector<Tensor>{program.trace("T", {{"E", in[0]}}, {.semantics = Semantics::product})};
                  },
                  {f32(3, 3)});
            }),
            "program: T is recursive: say how many iterations to trace");
}

TEST(RulesLearning, GradientsDoNotVanishInLtnWhereThoseOfProductDo) {
  const Program program = [] {
    Program p = Program::parse(
        "domain D = 4.\nrel P(D) input.\nrel Q(D) input.\nAll() :- forall(x: P(x)).\nBoth() :- P(x), Q(x).\n"
        "tensor L.\nL = All().\ntensor M.\nM = Both().\n");
    p.set("P", Array::from<float>({0, 0, 0, 0}));
    p.set("Q", Array::from<float>({0, 0, 0, 0}));
    return p;
  }();
  for (const char* loss : {"L", "M"})
    for (int i = 0; i < 4; ++i) {
      SolveOptions options;
      options.semantics = Semantics::product;
      EXPECT_EQ(program.gradient(loss, {"P"}, options).at("P").at<double>({i}), 0) << loss;
      options.semantics = Semantics::ltn;
      const double found = program.gradient(loss, {"P"}, options).at("P").at<double>({i});
      EXPECT_GT(found, 1e-6) << loss;
      EXPECT_TRUE(std::isfinite(found)) << loss;
    }
}

}  // namespace
}  // namespace wr::rules
