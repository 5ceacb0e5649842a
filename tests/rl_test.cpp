// Learners: that they learn, that a sync does what it says, that options can be switched off.
#include "windrow/rl.h"

#include <gtest/gtest.h>

#include <numeric>

#include "windrow/error.h"

namespace wr::rl {
namespace {

TEST(GridWorld, FollowsItsRules) {
  GridWorld world({"S.#", ".oG"});
  Rng rng;
  world.reset(rng);
  EXPECT_EQ(world.observe(), 0);
  EXPECT_FALSE(world.step(0).over());  // the edge
  EXPECT_EQ(world.observe(), 0);
  world.step(1);
  EXPECT_EQ(world.observe(), 1);
  world.step(1);  // a wall
  EXPECT_EQ(world.observe(), 1);
  const Outcome pit = world.step(2);
  EXPECT_TRUE(pit.terminal);
  EXPECT_EQ(pit.reward, -1);
  EXPECT_THROW(world.shortest(), Error);
  EXPECT_EQ(GridWorld({"S..", ".oG"}).shortest(), 3);
  EXPECT_THROW(GridWorld({"S.", "."}), Error);
  EXPECT_THROW(GridWorld({"S.x", "..G"}), Error);
  EXPECT_THROW(GridWorld({"S.S", "..G"}), Error);
}

TEST(CartPole, FallsUnderOneForceAndIsCutOffInTheEnd) {
  CartPole pole;
  Rng rng(1);
  pole.reset(rng);
  int steps = 0;
  while (!pole.step(1).terminal) ++steps;
  EXPECT_LT(steps, 15);
  // A good hand: push to the side the pole leans and moves to.
  pole.reset(rng);
  Outcome outcome;
  while (!outcome.over()) outcome = pole.step(pole.now[2] + 0.5f * pole.now[3] + 0.02f * pole.now[1] > 0);
  EXPECT_TRUE(outcome.truncated);
  EXPECT_EQ(pole.steps, CartPole::kMaxSteps);
}

TEST(Environments, AreSteppedInBatches) {
  std::vector<CartPole> poles(3);
  Rng rng(1);
  for (CartPole& p : poles) p.reset(rng);
  CartPole alone = poles[2];
  std::vector<Outcome> outcomes(3);
  step_all<CartPole>(poles, std::vector<std::uint8_t>{0, 1, 1}, outcomes);
  alone.step(1);
  EXPECT_EQ(poles[2].now, alone.now);
  EXPECT_EQ(outcomes[0].reward, 1);
}

/// One environment, epsilon-greedy, one training step a move; returns the mean length and reward of the last episodes.
template <class Environment, class Show>
std::pair<double, double> learn(Environment environment, Dqn& dqn, const ReplayOptions& options, int n, double gamma,
                                int episodes, const Epsilon& epsilon, bool prioritise, Show show) {
  using Observation = typename Environment::Observation;
  Rng rng(3);
  Replay<Observation> replay(options);
  NStep<Observation> window(n, gamma);
  std::vector<std::int64_t> entries(static_cast<std::size_t>(dqn.batch().action.count()));
  std::vector<double> lengths, rewards;
  for (int episode = 0; episode < episodes; ++episode) {
    environment.reset(rng);
    Outcome outcome;
    double length = 0, reward = 0;
    while (!outcome.over()) {
      const Observation from = environment.observe();
      show(from, 0, dqn.acting_input());
      const auto q = dqn.act();
      int action = static_cast<int>(std::max_element(q.begin(), q.end()) - q.begin());
      if (rng.uniform() < epsilon.at(episode)) action = static_cast<int>(rng.below(q.size()));
      outcome = environment.step(action);
      ++length;
      reward += outcome.reward;
      window.add(from, action, outcome, environment.observe(), [&](const auto& t) { replay.add(t); });
      if (replay.size() < 100) continue;
      auto& b = dqn.batch();
      replay.sampler().sample(rng, 0.5, entries, {b.weight.template mutable_data<float>(), entries.size()});
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const auto& e = replay[entries[i]];
        show(e.from, i, b.from);
        show(e.to, i, b.to);
        b.action.template mutable_data<std::int32_t>()[i] = e.action;
        b.reward.template mutable_data<float>()[i] = e.reward;
        b.discount.template mutable_data<float>()[i] = e.discount;
      }
      const auto trained = dqn.train();
      if (prioritise) replay.sampler().update(entries, trained.errors);
      dqn.sync();
    }
    lengths.push_back(length);
    rewards.push_back(reward);
  }
  const auto last = [](const std::vector<double>& v) {
    const auto n_last = std::min<std::ptrdiff_t>(20, std::ssize(v));
    return std::accumulate(v.end() - n_last, v.end(), 0.0) / static_cast<double>(n_last);
  };
  return {last(lengths), last(rewards)};
}

struct GridCase {
  const char* name;
  bool double_q, dueling, layer_norm, prioritised, noisy;
  int n;
  double huber, tau;
};

class GridWorldDqn : public testing::TestWithParam<GridCase> {};

TEST_P(GridWorldDqn, FindsTheShortestWay) {
  const GridCase& c = GetParam();
  nn::seed(1);
  const GridWorld world({"S..o", ".#.#", "...G"});
  Dqn dqn({.input = {world.cells(), 1},
           .hidden = {32},
           .outputs = GridWorld::kActions,
           .layer_norm = c.layer_norm,
           .dueling = c.dueling,
           .noisy = c.noisy},
          {.batch = 32, .lr = 3e-3, .double_q = c.double_q, .huber = c.huber, .tau = c.tau}, {"grid", 1, 1});
  const auto show = [](std::int32_t cell, std::size_t row, Array& input) {
    input.mutable_data<std::int32_t>()[row] = cell;
  };
  const Epsilon epsilon{c.noisy ? 0.0 : 1.0, 0, 0.95};
  const auto [length, reward] =
      learn(world, dqn, {2000, c.prioritised, 0.6}, c.n, 0.95, 400, epsilon, c.prioritised, show);
  EXPECT_LT(length, world.shortest() + (c.noisy ? 1.5 : 0.5));  // noise never ends
  EXPECT_GT(reward, 0.9);
}

INSTANTIATE_TEST_SUITE_P(Options, GridWorldDqn,
                         testing::Values(GridCase{"everything", true, true, true, true, false, 3, 1, 0.05},
                                         GridCase{"plain", false, false, false, false, false, 1, 0, 0.05},
                                         GridCase{"noisy", true, true, false, false, true, 2, 1, 0.05}),
                         [](const auto& info) { return info.param.name; });

TEST(Dqn, BalancesThePole) {
  nn::seed(2);
  Dqn dqn({.input = {4, 0}, .hidden = {64, 64}, .outputs = 2}, {.batch = 64, .lr = 1e-3, .tau = 0.01}, {"pole", 1, 1});
  const auto show = [](const CartPole::Observation& o, std::size_t row, Array& input) {
    constexpr float kScale[] = {0.5f, 0.5f, 5, 0.5f};
    for (std::size_t k = 0; k < 4; ++k) input.mutable_data<float>()[4 * row + k] = o[k] * kScale[k];
  };
  const auto [length, reward] = learn(CartPole{}, dqn, {20'000, false}, 3, 0.98, 150, {1, 0.01, 0.96}, false, show);
  EXPECT_GT(reward, 120);  // chance stands for about 20 steps
  EXPECT_EQ(length, reward);
}

TEST(Dqn, SyncMovesTheTargetByTau) {
  nn::seed(1);
  Dqn dqn({.input = {5, 2}, .hidden = {8}, .outputs = 3}, {.batch = 4, .tau = 0.25}, {"sync", 1, 1});
  CheckpointStates states;
  dqn.add_to(states);
  const State online = states.all().at("model.bias"), target = states.all().at("target.bias");
  EXPECT_TRUE(identical(online.value(), target.value()));  // starts as a copy
  State(online).set(Array::full({8}, 4));
  State(target).set(Array::full({8}, 0));
  dqn.sync();
  EXPECT_TRUE(identical(target.value(), Array::full({8}, 1)));
  EXPECT_TRUE(identical(online.value(), Array::full({8}, 4)));
  dqn.copy_to_target();
  EXPECT_TRUE(identical(target.value(), Array::full({8}, 4)));
}

TEST(Dqn, ErrorsAreThoseOfTheBellmanEquation) {
  nn::seed(1);
  const NetOptions net{.input = {6, 1}, .hidden = {8}, .outputs = 2};
  Dqn dqn(net, {.batch = 2, .lr = 1e-9, .double_q = false}, {"bellman", 1, 1});
  std::vector<float> q;  // of states 0 .. 3
  for (std::int32_t s = 0; s < 4; ++s) {
    dqn.acting_input().mutable_data<std::int32_t>()[0] = s;
    const auto row = dqn.act();
    q.insert(q.end(), row.begin(), row.end());
  }
  auto& b = dqn.batch();
  b.from = Array::from<std::int32_t>({{0}, {1}});
  b.to = Array::from<std::int32_t>({{2}, {3}});
  b.action = Array::from<std::int32_t>({{1}, {0}});
  b.reward = Array::from<float>({{0.5f}, {2}});
  b.discount = Array::from<float>({{0.9f}, {0}});
  const auto trained = dqn.train();
  EXPECT_NEAR(trained.errors[0], std::abs(q[1] - (0.5f + 0.9f * std::max(q[4], q[5]))), 1e-5);
  EXPECT_NEAR(trained.errors[1], std::abs(q[2] - 2), 1e-5);
}

TEST(Dqn, LabelledActionsLeadByTheMargin) {
  nn::seed(1);
  const NetOptions net{.input = {4, 1}, .hidden = {16}, .outputs = 3};
  Dqn dqn(net, {.batch = 4, .lr = 1e-2, .margin = 0.3, .acting = 4}, {"margin", 1, 1});
  auto& b = dqn.batch();
  b.from = Array::from<std::int32_t>({{0}, {1}, {2}, {3}});
  b.right = Array::from<float>({{0, 1, 0}, {1, 0, 1}, {0, 0, 0}, {1, 1, 1}});  // one, two, unknown, all the same
  for (int step = 0; step < 300; ++step) dqn.train();  // every reward is 0: action 0 is worth nothing
  dqn.acting_input() = b.from;
  const auto q = dqn.act();
  EXPECT_GT(q[1], std::max(q[0], q[2]) + 0.29f);
  EXPECT_GT(std::max(q[3], q[5]), q[4] + 0.29f);
  for (const std::size_t unlabelled : {6, 9}) EXPECT_NEAR(q[unlabelled], 0, 0.02);
}

TEST(Pretrainer, LearnsSetsOfActions) {
  nn::seed(1);
  const Net net({.input = {8, 1}, .hidden = {16}, .outputs = 3});
  Pretrainer pretrainer(net, {.batch = 8, .lr = 1e-2}, {"set", 1, 1});
  for (std::int32_t i = 0; i < 8; ++i) {
    pretrainer.input().mutable_data<std::int32_t>()[i] = i;
    for (int a = 0; a < 3; ++a) pretrainer.target().mutable_data<float>()[3 * i + a] = a != i % 3;  // two of three
  }
  float loss = 0;
  for (int step = 0; step < 200; ++step) loss = pretrainer.train();
  EXPECT_LT(loss, 0.01);  // a choice of one right action would leave log 2
}

TEST(ValueLearner, FitsNumbersAndAsksTheTargetNet) {
  nn::seed(1);
  ValueLearner learner({.input = {10, 2}, .hidden = {32}, .outputs = 1},
                       {.batch = 16, .asked = 2, .lr = 1e-2, .target = true}, {"value", 1, 1});
  Rng rng(1);
  for (int step = 0; step < 500; ++step) {
    for (std::size_t i = 0; i < 16; ++i) {
      const auto a = static_cast<std::int32_t>(rng.below(5)), b = static_cast<std::int32_t>(rng.below(5));
      learner.batch().input.mutable_data<std::int32_t>()[2 * i] = a;
      learner.batch().input.mutable_data<std::int32_t>()[2 * i + 1] = 5 + b;
      learner.batch().target.mutable_data<float>()[i] = static_cast<float>(a * b);
    }
    learner.train();
  }
  learner.question() = Array::from<std::int32_t>({{3, 9}, {2, 6}});
  const float before = learner.ask()[0];
  EXPECT_NEAR(learner.ask_online()[0], 12, 1);
  EXPECT_NEAR(learner.ask_online()[1], 2, 1);
  EXPECT_GT(std::abs(before - 12), 2);  // the target net has learned nothing yet
  learner.sync();
  EXPECT_EQ(learner.ask()[0], learner.ask_online()[0]);
}

TEST(ValueLearner, ADistributionsMeanIsTheValue) {
  nn::seed(1);
  ValueLearner learner({.input = {3, 1}, .hidden = {16}, .outputs = 5}, {.batch = 3, .asked = 3, .lr = 1e-2},
                       {"classes", 1, 1});
  learner.batch().input = Array::from<std::int32_t>({{0}, {1}, {2}});
  learner.batch().target = Array::from<float>({{0}, {2.25f}, {4}});
  for (int step = 0; step < 500; ++step) learner.train();
  learner.question() = learner.batch().input;
  const auto values = learner.ask();
  EXPECT_NEAR(values[0], 0, 0.05);
  EXPECT_NEAR(values[1], 2.25, 0.05);
  EXPECT_NEAR(values[2], 4, 0.05);
}

TEST(Net, RefusesWhatMakesNoNet) {
  EXPECT_THROW(Net({.input = {4, 0}, .hidden = {}}), Error);
  EXPECT_THROW(Net({.input = {0, 0}, .hidden = {4}}), Error);
  EXPECT_THROW(ValueLearner({.input = {4, 0}, .hidden = {4}, .outputs = 2, .dueling = true}, {}), Error);
}

}  // namespace
}  // namespace wr::rl
