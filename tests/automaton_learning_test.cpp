// Automata that learn until their hard circuit is exact: small pictures in the unit tests, tasks of the program with
// their own settings (a minute or so each) in suite AutomatonLong, which `make test-long` runs.
#include "apps/automaton/automaton.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

namespace wr::apps {
namespace {

/// What the run's own looks say, said again by the circuit on bits.
void expect_exact(const AutomatonSettings& settings) {
  AutomatonRun run(settings, 1, {.lanes = 1});
  EXPECT_EQ(run.train({}), Outcome::exact) << settings.task << ", seed " << settings.seed;
  const AutomatonRun::Look look = run.look(4);
  EXPECT_EQ(look.wrong, 0);
  EXPECT_GT(look.cells, 0);
}

class AutomatonLearning : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AutomatonLearning, GrowsASmallPictureExactly) {
  AutomatonSettings s = automaton_recipe("pattern");
  s.seed = GetParam();
  s.height = s.width = 8;
  s.steps = 5;
  s.channels = 16;
  s.update_gates = "64x4,32,16";
  s.hard = 0.5;  // what small pictures learn best with
  s.attempt = 1500;
  expect_exact(s);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AutomatonLearning, testing::Values(1, 2, 3));

#ifdef WINDROW_PROGRAM
TEST(AutomatonProgram, SeedsThatTimeWasNotEnoughForAreNotCounted) {
  const std::string command = WINDROW_PROGRAM
      " train checkerboard --height 6 --width 6 --steps 3 --channels 2 --kernels 2 --update-gates 8,4,2 --seeds 3 "
      "--seconds 0.001 --threads 1 --json";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  std::string said;
  for (int c = std::fgetc(output.get()); c != EOF; c = std::fgetc(output.get())) said += static_cast<char>(c);
  EXPECT_TRUE(said.ends_with("{\"seeds\":0,\"exact\":0}\n")) << said;
}
#endif

class AutomatonLong : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AutomatonLong, LearnsLife) {
  AutomatonSettings s = automaton_recipe("life");
  s.seed = GetParam();
  expect_exact(s);
}

TEST_P(AutomatonLong, MakesACheckerboard) {
  AutomatonSettings s = automaton_recipe("checkerboard");
  s.seed = GetParam();
  expect_exact(s);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AutomatonLong, testing::Values(1, 2));

}  // namespace
}  // namespace wr::apps
