// `windrow train cube`: settings, the census against policies with known results, and resumed runs bit for bit.
#include "apps/cube/cube.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/cube/report.h"
#include "errors.h"
#include "windrow/error.h"

namespace wr::apps {
namespace {

using apps::PocketCube;

std::string temporary(const std::string& name) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("windrow_cube_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

CubeSettings tiny(const std::string& preset) {
  CubeSettings s = cube_preset(preset);
  s.hidden = "16,8";
  s.batch = 32;
  s.steps = 60;
  s.sync_every = 20;
  s.episodes = 30;
  s.warm_up = 100;
  s.replay = 400;
  s.pretrain = std::min<std::int64_t>(s.pretrain, 5);
  return s;
}

TEST(CubeSettings, TextsAreReadBackAndMistakesNamed) {
  for (const std::string& name : cube_presets()) {
    CubeSettings s = cube_preset(name), other;
    for (const auto& [setting, text] : to_texts(s)) set(other, setting, text);
    EXPECT_EQ(to_texts(other), to_texts(s));
  }
  CubeSettings s;
  EXPECT_EQ(error_of([&] { set(s, "method", "magic"); }),
            "method is 'magic'; expected one of supervised, value-iteration, dqn");
  EXPECT_EQ(error_of([&] { set(s, "n-step", "0"); }), "n-step is '0'; expected a number from 1 to 100");
  EXPECT_EQ(error_of([&] { set(s, "double", "maybe"); }), "double is 'maybe'; expected yes or no");
  EXPECT_NE(error_of([&] { set(s, "hidden", "512,,2"); }).find("512,,2"), std::string::npos);
  EXPECT_NE(error_of([&] { cube_preset("worst"); }).find("best, label-free, dqn"), std::string::npos);
}

/// What a net that knows every distance would say.
CubeJudge::Everything perfect() {
  const PocketCube& cube = PocketCube::get();
  const auto& distance = cube_distances();
  CubeJudge::Everything net{std::vector<float>(distance.begin(), distance.end()),
                            std::vector<std::uint8_t>(distance.size())};
  for (std::int32_t s = 1; s < PocketCube::kStates; ++s) {
    for (std::uint8_t m = 0; m < PocketCube::kMoves; ++m)
      if (distance[cube.turn(s, m)] < distance[s]) net.moves[s] = m;
  }
  return net;
}

TEST(CubeCensus, OfAPerfectPolicyIsPerfect) {
  const FullCensus c = census(perfect(), cube_distances(), 20, 1);
  EXPECT_EQ(c.all.states, PocketCube::kStates);
  EXPECT_EQ(c.all.optimal, PocketCube::kStates);
  EXPECT_EQ(c.all.excess, 0);
  EXPECT_EQ(c.by_distance[14].solved, 276);
  EXPECT_EQ(c.moves[11], 1350852);
}

/// A move from a state to one farther away, or -1.
int move_away(std::int32_t state) {
  const auto& distance = cube_distances();
  for (int m = 0; m < PocketCube::kMoves; ++m) {
    const std::int32_t to = PocketCube::get().turn(state, m);
    if (distance[to] > distance[state]) return m;
  }
  return -1;
}

TEST(CubeCensus, CountsCirclesDetoursAndWhatABeamSaves) {
  const PocketCube& cube = PocketCube::get();
  const auto& distance = cube_distances();
  auto net = perfect();
  // Far away, where few ways lead through: one state of distance 13 goes on to 14, from where the policy comes back by
  // another way (two moves more than needed) or by the same one (a circle). The net's moves are made so.
  int detours = 0, circles = 0;
  for (std::int32_t s = 0; s < PocketCube::kStates && detours + circles < 2; ++s) {
    const int away = distance[s] == 13 ? move_away(s) : -1;
    if (away < 0) continue;
    const std::int32_t far = cube.turn(s, away);
    const bool back = cube.turn(far, net.moves[far]) == s;
    if (back ? circles > 0 : detours > 0) continue;
    net.moves[s] = static_cast<std::uint8_t>(away);
    (back ? circles : detours) = 1;
  }
  ASSERT_EQ(detours, 1);
  ASSERT_EQ(circles, 1);
  const FullCensus c = census(net, distance, 20, 1);
  const std::int64_t failed = c.all.states - c.all.solved;
  EXPECT_GE(failed, 2);
  EXPECT_LT(failed, 20);
  EXPECT_EQ(c.by_distance[12].optimal, c.by_distance[12].states);
  EXPECT_EQ(c.by_distance[13].worst, 2);
  EXPECT_EQ(c.by_distance[13].excess, 2);
  EXPECT_GE(c.moves[15], 1);
  const FullCensus beam = census(net, distance, 20, 4);
  EXPECT_EQ(beam.searched, failed);
  EXPECT_EQ(beam.all.solved, PocketCube::kStates);
}

TEST(CubeCensus, MovesBeyondTheLimitAreNoSolution) {
  const FullCensus c = census(perfect(), cube_distances(), 10, 1);
  EXPECT_EQ(c.by_distance[10].solved, c.by_distance[10].states);
  EXPECT_EQ(c.by_distance[11].solved, 0);
}

TEST(CubeSolve, FollowsCostsAndGivesUpAtTheLimit) {
  const auto& distance = cube_distances();
  const CostFunction exact = [&](auto states, auto costs) {
    for (std::size_t i = 0; i < states.size(); ++i) costs[i] = distance[states[i]];
  };
  const CostFunction blind = [](auto, auto costs) { std::fill(costs.begin(), costs.end(), 0.0f); };
  const PocketCube& cube = PocketCube::get();
  Rng rng(4);
  for (int i = 0; i < 50; ++i) {
    const auto state = static_cast<std::int32_t>(rng.below(PocketCube::kStates));
    const auto moves = solve(state, 1, 14, exact);
    ASSERT_TRUE(moves);
    EXPECT_EQ(moves->size(), distance[state]);
    EXPECT_EQ(cube.turned(state, *moves), 0);
  }
  const std::int32_t near = cube.turned(0, apps::parse_moves("R U F", 6));
  EXPECT_FALSE(solve(near, 1, 2, exact));
  EXPECT_TRUE(solve(0, 1, 0, exact)->empty());
  EXPECT_EQ(solve(near, 1000, 3, blind)->size(), 3u);  // wide enough, a beam needs no knowledge
}

/// A judge's single answers agree with what it says of everything.
TEST(CubeJudge, AllAtOnceIsTheSameAsOneByOne) {
  for (const char* preset : {"best", "dqn"}) {
    nn::seed(1);
    const CubeSettings s = tiny(preset);
    const rl::Net net(net_options(s));
    CubeJudge judge(s, net, 512, {"judge", 1, 1});
    const auto all = judge.everything();
    std::vector<std::int32_t> states;
    Rng rng(1);
    for (int i = 0; i < 300; ++i) states.push_back(1 + static_cast<std::int32_t>(rng.below(PocketCube::kStates - 1)));
    std::vector<float> costs(states.size());
    std::vector<std::uint8_t> moves(states.size());
    judge.costs(states, costs);
    judge.moves(states, moves);
    for (std::size_t i = 0; i < states.size(); ++i) {
      ASSERT_EQ(costs[i], all.costs[states[i]]);
      ASSERT_EQ(moves[i], all.moves[states[i]]);
    }
  }
}

void expect_same_files(const std::string& a, const std::string& b) {
  const Safetensors x = read_safetensors(a), y = read_safetensors(b);
  ASSERT_EQ(x.tensors.size(), y.tensors.size());
  for (const auto& [name, array] : x.tensors) EXPECT_TRUE(identical(array, y.tensors.at(name))) << name;
  for (const char* name : {"rng", "done", "loss"}) EXPECT_EQ(x.metadata.at(name), y.metadata.at(name)) << name;
}

class CubeResume : public testing::TestWithParam<const char*> {};

TEST_P(CubeResume, EndsWithTheBitsOfAnUninterruptedRun) {
  CubeSettings s = tiny(GetParam());
  s.environments = 2;
  const std::string whole = temporary("whole"), part = temporary("part"), rest = temporary("rest");
  CubeRun run(s, 1, {.lanes = 2});
  ASSERT_TRUE(run.train({}));
  run.save(whole);
  CubeRun first(s, 1, {.lanes = 2});
  CubeWatch watch;
  watch.stop = [&] { return first.learner().updates() >= 33; };  // in the middle of an episode, between two points
  ASSERT_FALSE(first.train(watch));
  first.save(part);
  CubeRun second(s, 2, {.lanes = 2});  // on another number of threads
  second.load(part);
  EXPECT_EQ(second.learner().done(), first.learner().done());
  ASSERT_TRUE(second.train({}));
  second.save(rest);
  expect_same_files(whole, rest);
  ASSERT_EQ(second.history().size(), run.history().size());
  for (std::size_t i = 0; i < run.history().size(); ++i) {
    EXPECT_EQ(second.history()[i].success, run.history()[i].success);
    EXPECT_EQ(second.history()[i].loss, run.history()[i].loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, CubeResume, testing::Values("best", "label-free", "dqn"), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
});

#ifdef WINDROW_PROGRAM
/// Starts a training that saves, and kills it when its first checkpoint is there. False if it had ended by then.
bool kill_at_first_checkpoint(const std::string& command, const std::string& checkpoint) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", ("exec " + command + " --save " + checkpoint).c_str(), nullptr);
    _exit(127);
  }
  pid_t ended = 0;
  while (!std::filesystem::exists(checkpoint) && ended == 0) {
    usleep(1000);
    ended = waitpid(child, nullptr, WNOHANG);
  }
  if (ended != 0) return false;
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

TEST(CubeResume, AKilledProgramGoesOnFromItsLastCheckpoint) {
  const std::string program = WINDROW_PROGRAM, whole = temporary("k_whole"), killed = temporary("k_killed");
  // On a busy machine a short training is over before its checkpoint is seen: then a longer one is taken.
  for (int steps = 400;; steps *= 4) {
    ASSERT_LE(steps, 400 * 4 * 4 * 4) << "no training was long enough to be killed";
    const std::string command =
        program + " train cube --hidden 16,8 --batch 64 --threads 1 --steps " + std::to_string(steps) + " > /dev/null";
    std::filesystem::remove(killed);
    if (!kill_at_first_checkpoint(command, killed)) continue;
    ASSERT_EQ(std::system((command + " --save " + whole).c_str()), 0);
    break;
  }
  ASSERT_EQ(std::system((program + " train cube --resume " + killed + " > /dev/null").c_str()), 0);
  expect_same_files(whole, killed);
}
#endif

TEST(CubeResume, RefusesWhatIsNoCheckpointOfTheCube) {
  const std::string path = temporary("other");
  write_safetensors(path, {{"x", Array::zeros({2})}}, {{"windrow.app", "fashion"}});
  EXPECT_NE(error_of([&] { load_cube(path); }).find("windrow.app = fashion"), std::string::npos);
  const CubeSettings s = tiny("dqn");
  CubeRun run(s, 1, {.lanes = 1});
  CubeWatch watch;
  watch.stop = [&] { return run.learner().updates() >= 5; };
  run.train(watch);
  const std::string good = temporary("good"), bad = temporary("bad");
  run.save(good);
  Safetensors file = read_safetensors(good);
  file.tensors.at("run.replay").mutable_data<std::uint8_t>()[3] = 0xff;  // a state that there is not
  write_safetensors(bad, file.tensors, file.metadata);
  EXPECT_NE(error_of([&] { run.load(bad); }).find("is no state of the cube"), std::string::npos);
  file.tensors.erase("model.bias");
  write_safetensors(bad, file.tensors, file.metadata);
  EXPECT_NE(error_of([&] { load_cube(bad); }).find("has no model.bias"), std::string::npos);
}

TEST(CubeRun, ValuesOfNearStatesAreLearnedFromLabelsAndWithout) {
  for (const char* method : {"supervised", "value-iteration"}) {
    CubeSettings s = tiny("best");
    s.method = method;
    s.hidden = "64,32";
    s.batch = 128;
    s.steps = 500;
    s.sync_every = 50;
    s.near = 1;
    s.walk = 5;  // the moves away from the states asked about are known too
    s.lr = 3e-3;
    CubeRun run(s, 0);
    ASSERT_TRUE(run.train({}));
    EXPECT_EQ(run.history().size(), 20u);
    for (std::size_t d = 1; d <= 3; ++d) EXPECT_GT(run.history().back().success[d], 0.9) << method << " " << d;
  }
}

TEST(CubeReport, ShowsACubeAndARun) {
  apps::StickerCube<2> cube;
  cube.turn(0);
  const auto lines = cube_lines(cube, false);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "    U F ");
  EXPECT_EQ(lines[2], "L L F D R R U B ");
  EXPECT_NE(cube_lines(cube, true)[0].find("\x1b["), std::string::npos);
  CubeRun run(tiny("dqn"), 1, {.lanes = 1});
  ASSERT_TRUE(run.train({}));
  const std::string html = report_html({run, census(run.everything(), cube_distances(), 20, 1), {{"machine", "<x>"}}});
  for (const char* part : {"Greedy solutions", "by distance", "episodes a minute", "&lt;x&gt;", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace wr::apps
