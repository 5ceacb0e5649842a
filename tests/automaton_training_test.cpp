// Automata are trained to what the documentation states, on every SIMD target and from several seeds. The small ones
// take seconds; AutomatonTrainingLong takes minutes and runs by `make test-long` only.
#include <gtest/gtest.h>

#include "apps/automaton/automaton.h"
#include "apps/automaton/kinds.h"
#include "backend/cpu/target.h"

namespace wr::apps {
namespace {

using cpu::Target;

/// Another target until the end of a scope.
class OnTarget {
 public:
  explicit OnTarget(Target target) : before_(cpu::active_target()) { cpu::set_target(target); }
  ~OnTarget() { cpu::set_target(before_); }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;

 private:
  Target before_;
};

void expect_exact(const AutomatonSettings& settings) {
  for (const Target target : cpu::available_targets()) {
    const OnTarget here(target);
    AutomatonRun run(settings, 1, {.lanes = 1});
    EXPECT_EQ(run.train({}), Outcome::exact) << settings.task << " on " << cpu::name_of(target) << ", seed "
                                             << settings.seed << ": " << run.look(1).wrong << " cells are wrong";
  }
}

/// The built-in drawing, made smaller: the lizard's body is its own mirror image, its tail is not.
AutomatonSettings small_picture(const std::string& task) {
  AutomatonSettings s = automaton_recipe(task);
  const bool lizard = task == "pattern";
  s.height = s.width = lizard ? 9 : 8;
  s.steps = lizard ? 6 : 8;
  s.channels = 24;
  s.update_gates = lizard ? "96x4,48,24" : "128x4,48,24";
  s.attempt = 600;
  s.updates = 2400;
  s.finish = 0;  // what does not succeed ends soon
  return s;
}

TEST(AutomatonTrainingSlow, SmallPicturesGrowFromEachSeedOnEachTarget) {
  for (const char* task : {"pattern", "colour"})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      AutomatonSettings s = small_picture(task);
      s.seed = seed;
      expect_exact(s);
    }
}

/// Before training: how many of the picture's bits are wrong for any circuit that reads the states of the last step.
std::int64_t untold_at_start(AutomatonSettings s) {
  const AutomatonTask task(s);
  const AutomatonRun run(s, 1, {.lanes = 1});
  const auto grid_of = [&](const Array& states) {
    logic::BitGrid grid(states.size(0), s.height, s.width);
    const auto values = states.to_vector<float>();
    for (std::int64_t i = 0; i < std::ssize(values); ++i)
      grid.set(i / (s.height * s.width), i / s.width % s.height, i % s.width,
               values[static_cast<std::size_t>(i)] > 0.5f);
    return grid;
  };
  const auto all = task.all();
  return untold_cells(BitRollout(run.automaton(), {grid_of(all.start)}, {grid_of(all.target)}, s.steps, border_of(s)));
}

TEST(AutomatonKinds, AStartThatLooksToAllSidesTellsCellsApart) {
  for (const char* task : {"pattern", "colour"})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      AutomatonSettings s = automaton_recipe(task);
      s.seed = seed;
      EXPECT_LE(untold_at_start(s), 10) << task << ", seed " << seed;
      s.look = "alike";
      EXPECT_GE(untold_at_start(s), 80) << task << ", seed " << seed;
      if (s.task == "pattern") continue;
      s.look = "odd";  // an empty grid stays empty
      EXPECT_EQ(untold_at_start(s), 142);
    }
}

class AutomatonTrainingLong : public testing::TestWithParam<const char*> {};

TEST_P(AutomatonTrainingLong, IsExactFromEachSeedOnEachTarget) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    AutomatonSettings s = automaton_recipe(GetParam());
    s.seed = seed;
    expect_exact(s);
  }
}
INSTANTIATE_TEST_SUITE_P(Tasks, AutomatonTrainingLong, testing::Values("life", "pattern", "colour"));

}  // namespace
}  // namespace wr::apps
