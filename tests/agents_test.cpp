// Agents: environments of any kind in copies on threads, and trainings that reach known returns. Those of the suite
// AgentsLong take a minute or so each and run by `make test-long` only.
#include "windrow/agents.h"

#include <gtest/gtest.h>

#include <atomic>

#include "rl/training.h"
#include "temporary_files.h"
#include "windrow/error.h"

namespace wr::rl {
namespace {

/// Gymnasium 1.x, Pendulum-v1, from angle 2.5 and speed -0.5 with the torques 2 sin(0.3 k).
TEST(Pendulum, MovesAsGyms) {
  Pendulum p{2.5, -0.5, 0};
  double total = 0;
  for (int k = 0; k < 40; ++k) {
    const auto torque = static_cast<float>(std::sin(0.3 * k));
    total += p.step({&torque, 1}).reward;
  }
  EXPECT_NEAR(p.angle, 3.30569236, 1e-5);
  EXPECT_NEAR(p.speed, 1.55545257, 1e-5);
  EXPECT_NEAR(total, -301.18944693, 1e-3);
}

/// Which of the two numbers seen is the greater one? Ten questions an episode.
struct Greater {
  static constexpr int kActions = 2;
  using Observation = std::array<float, 2>;
  Observation now{};
  std::uint64_t next = 0;
  int steps = 0;
  void draw() {
    Rng rng(next++);
    for (float& v : now) v = static_cast<float>(2 * rng.uniform() - 1);
  }
  void reset(Rng& rng) {
    next = rng.bits();
    steps = 0;
    draw();
  }
  Observation observe() const { return now; }
  Outcome step(int action) {
    const bool right = (now[1] > now[0]) == (action == 1);
    draw();
    return {right ? 1.0f : 0.0f, ++steps == 10, false};
  }
};

/// Say half of the number seen, with the sign turned. Ten questions an episode; the cost is the squared error.
struct HalfTurned : Greater {
  static constexpr int kActionSize = 1;
  Outcome step(std::span<const float> said) {
    const float miss = said[0] + 0.5f * now[0];
    draw();
    return {-miss * miss, false, ++steps == 10};
  }
};
static_assert(ChoiceEnvironment<Greater> && ControlEnvironment<HalfTurned> && ControlEnvironment<Pendulum>);

TEST(Environments, AreTheSameOnAnyNumberOfThreads) {
  const auto run = [](int threads) {
    Environments all(CartPole{}, 7, 5, threads);
    std::vector<float> seen;
    for (int step = 0; step < 60; ++step) {
      std::vector<float> actions;
      for (std::size_t i = 0; i < all.count(); ++i) actions.push_back(static_cast<float>((step / 3 + i) % 2));
      all.step(actions);
      seen.insert(seen.end(), all.observations().begin(), all.observations().end());
    }
    for (const double r : all.take_returns()) seen.push_back(static_cast<float>(r));
    return seen;
  };
  const std::vector<float> one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(4), one);
}

TEST(Environments, AnEpisodeThatEndsIsFollowedByTheNext) {
  Environments all(Greater{}, 2, 1);
  std::vector<float> before(all.observations().begin(), all.observations().end());
  for (int step = 0; step < 10; ++step) {
    const float right = before[1] > before[0] ? 1.0f : 0.0f;
    all.step(std::vector<float>{right, 0});
    EXPECT_EQ(all.outcomes()[0].reward, 1);
    before.assign(all.observations().begin(), all.observations().end());
  }
  EXPECT_TRUE(all.outcomes()[0].terminal);
  EXPECT_NE(all.arrived()[0], all.observations()[0]);
  const auto returns = all.take_returns();
  ASSERT_EQ(returns.size(), 2u);
  EXPECT_EQ(returns[0], 10);
  EXPECT_LT(returns[1], 10);
}

struct Broken : Greater {
  Outcome step(int) { throw std::runtime_error("the simulator is gone"); }
};

TEST(Environments, WhatOneThrowsReachesTheCaller) {
  for (const int threads : {1, 3}) {
    Environments all(Broken{}, 3, 1, threads);
    EXPECT_THROW(all.step(std::vector<float>(3)), std::runtime_error);
  }
  EXPECT_THROW(Environments(Greater{}, 0, 1), Error);
  EXPECT_THROW(Environments(Greater{}, 1, 1, -1), Error);
  Environments two(Greater{}, 2, 1);
  EXPECT_THROW(two.step(std::vector<float>(3)), Error);
}

struct Wrong : Greater {
  bool seen = false;
  Observation observe() const {
    Observation all = Greater::observe();
    if (seen) all.back() = std::numeric_limits<float>::infinity();
    return all;
  }
  Outcome step(int action) {
    Outcome outcome = Greater::step(action);
    if (!seen) outcome.reward = std::numeric_limits<float>::quiet_NaN();
    return outcome;
  }
};

// Nets would learn nothing from them, and say so nowhere.
TEST(Environments, WhatIsSeenAndEarnedIsFinite) {
  Environments all(Wrong{}, 2, 1);
  EXPECT_EQ(error_of([&] { all.step(std::vector<float>(2)); }), "Environments: the reward of copy 0 is nan");
  Wrong infinite;
  infinite.seen = true;
  EXPECT_NE(error_of([&] { Environments(infinite, 2, 1); }).find("of what copy 0 observes is inf"), std::string::npos);
  const Agent agent(std::make_shared<nn::Dense>(2, 2), {2, 2, false}, Agent::Rule::greatest);
  EXPECT_NE(error_of([&] { evaluate(agent, Greater{}, 0); }).find("at least one episode"), std::string::npos);
}

/// Returns over several steps end where the episode or the record ends, and copies do not get mixed.
TEST(Experience, FollowsEachCopy) {
  Environments all(Greater{}, 2, 3);
  Experience experience({.capacity = 60, .prioritised = false}, all.space(), 2);
  std::vector<std::vector<float>> rewards(2);
  for (int step = 0; step < 13; ++step) {
    const std::vector<float> seen(all.observations().begin(), all.observations().end()), actions{0, 1};
    all.step(actions);
    experience.add(seen, actions, all);
    for (std::size_t i = 0; i < 2; ++i) rewards[i].push_back(all.outcomes()[i].reward);
  }
  std::vector<float> from(2), to(2), action(1), reward(1), discount(1);
  const auto read = [&](std::int64_t step, std::int64_t copy) {
    experience.read(std::vector<std::int64_t>{2 * step + copy}, 3, 0.5, {from, to, action, reward, discount});
  };
  for (const std::size_t copy : {0u, 1u}) {
    const auto& r = rewards[copy];
    read(4, static_cast<std::int64_t>(copy));
    EXPECT_EQ(action[0], static_cast<float>(copy));
    EXPECT_EQ(reward[0], r[4] + 0.5f * r[5] + 0.25f * r[6]);
    EXPECT_EQ(discount[0], 0.125f);
    read(8, static_cast<std::int64_t>(copy));
    EXPECT_EQ(reward[0], r[8] + 0.5f * r[9]) << "the episode ended";
    EXPECT_EQ(discount[0], 0);
    read(12, static_cast<std::int64_t>(copy));
    EXPECT_EQ(reward[0], r[12]) << "nothing came after it yet";
    EXPECT_EQ(discount[0], 0.5f);
  }
}

TEST(Dqn, TrainsInAnyEnvironmentOfChoices) {
  const auto trained = train_dqn(Greater{}, {.budget = {.steps = 3000, .environments = 4, .goal = 9.5},
                                             .hidden = {32},
                                             .learner = {.batch = 32, .lr = 3e-3},
                                             .gamma = 0.5,
                                             .learn_from = 200,
                                             .updates_a_step = 0.5});
  EXPECT_GT(evaluate(trained.agent, Greater{}), 9);
}

TEST(Ppo, TrainsInAnyEnvironment) {
  const auto choices = train_ppo(Greater{}, {.budget = {.steps = 8192, .environments = 8}, .run = 64, .gamma = 0.5});
  EXPECT_GT(evaluate(choices.agent, Greater{}), 9);
  EXPECT_EQ(choices.progress.steps, 8192);
  const auto controls =
      train_ppo(HalfTurned{}, {.budget = {.steps = 16384, .environments = 8}, .run = 64, .gamma = 0.5});
  EXPECT_GT(evaluate(controls.agent, HalfTurned{}), -0.2);  // to say nothing costs about 0.8
}

TEST(Sac, TrainsInAnyEnvironmentOfControls) {
  const auto trained = train_sac(HalfTurned{}, {.budget = {.steps = 1500, .environments = 2},
                                                .hidden = {32, 32},
                                                .batch = 64,
                                                .lr = 3e-3,
                                                .gamma = 0.5,
                                                .learn_from = 200});
  EXPECT_GT(evaluate(trained.agent, HalfTurned{}), -0.2);
}

TEST(Agents, TheSameSeedIsTheSameTraining) {
  const auto run = [](int threads) {
    const auto trained =
        train_sac(HalfTurned{},
                  {.budget = {.steps = 300, .environments = 3, .threads = threads}, .hidden = {16}, .learn_from = 60});
    const float seen[] = {0.25f, -0.5f};
    return trained.agent.control(seen)[0];
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_EQ(run(1), run(3));
}

TEST(Agents, AWatchEndsATraining) {
  int asked = 0;
  const auto trained = train_ppo(
      Greater{},
      {.budget = {.steps = 100'000, .watch = [&](const Progress&) { return ++asked < 3; }}, .run = 128, .batch = 128});
  EXPECT_EQ(asked, 3);
  EXPECT_LT(trained.progress.steps, 10'000);
}

// A budget that says how long does not say with how many copies.
TEST(Agents, CopiesThatAreNotNamedAreTheTrainingsOwn) {
  EXPECT_EQ(train_ppo(Greater{}, {.budget = {.steps = 1024}, .epochs = 1}).progress.steps, 1024);  // 128 of each of 8
  EXPECT_EQ(train_dqn(Greater{}, {.budget = {.steps = 7}}).progress.steps, 7);
  EXPECT_NE(error_of([] { train_ppo(Greater{}, {.budget = {.environments = -1}}); }).find("-1 copies"),
            std::string::npos);
}

TEST(Agents, RefuseWhatCannotBe) {
  EXPECT_NE(error_of([] {
              train_ppo(Greater{}, {.batch = 5000});
            }).find("train_ppo: batch is 5000; expected 1 to run * environments"),
            std::string::npos);
  EXPECT_NE(error_of([] { train_dqn(Greater{}, {.gamma = 2}); }).find("gamma is 2"), std::string::npos);
  EXPECT_NE(error_of([] { train_sac(Environments(Greater{}, 1, 1), {}); }).find("takes choices; train_dqn"),
            std::string::npos);
  EXPECT_NE(error_of([] { train_dqn(Environments(Pendulum{}, 1, 1), {}); }).find("takes controls"), std::string::npos);
  EXPECT_NE(error_of([] { train_sac(Pendulum{}, {.budget = {.steps = 0}}); }).find("budget.steps is 0"),
            std::string::npos);
  const Agent agent(std::make_shared<nn::Dense>(2, 2), {2, 2, false}, Agent::Rule::greatest);
  EXPECT_NE(error_of([&] { agent.control(std::vector<float>(2)); }).find("ask act()"), std::string::npos);
  EXPECT_NE(error_of([&] { agent.act(std::vector<float>(3)); }).find("an observation of 3 numbers"), std::string::npos);
}

// ---- to known returns: CartPole-v1 counts as solved at 475 of 500, Pendulum at about -150 to -200 ----

class AgentsLong : public testing::TestWithParam<std::uint64_t> {};

TEST_P(AgentsLong, DqnBalancesThePole) {
  const auto trained = train_dqn(CartPole{}, {.budget = {.steps = 80'000, .seed = GetParam(), .goal = 475}});
  EXPECT_TRUE(trained.progress.reached) << trained.progress.mean_return;
  EXPECT_GT(evaluate(trained.agent, CartPole{}), 400);
}
TEST_P(AgentsLong, PpoBalancesThePole) {
  const auto trained =
      train_ppo(CartPole{}, {.budget = {.steps = 200'000, .environments = 8, .seed = GetParam(), .goal = 475}});
  EXPECT_TRUE(trained.progress.reached) << trained.progress.mean_return;
  EXPECT_GT(evaluate(trained.agent, CartPole{}), 450);
}
TEST_P(AgentsLong, PpoSwingsThePendulumUp) {
  const auto trained = train_ppo(
      Pendulum{},
      {.budget = {.steps = 300'000, .environments = 8, .seed = GetParam()}, .gamma = 0.9, .reward_scale = 0.1});
  EXPECT_GT(evaluate(trained.agent, Pendulum{}, 50), -250);
}
TEST_P(AgentsLong, SacSwingsThePendulumUp) {
  const auto trained =
      train_sac(Pendulum{}, {.budget = {.steps = 12'000, .seed = GetParam()}, .gamma = 0.98, .tau = 0.01});
  EXPECT_GT(evaluate(trained.agent, Pendulum{}, 50), -200);
}
INSTANTIATE_TEST_SUITE_P(Seeds, AgentsLong, testing::Values(1, 2, 3));

}  // namespace
}  // namespace wr::rl
