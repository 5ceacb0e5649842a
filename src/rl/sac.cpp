// Soft actor-critic (Haarnoja et al. 2018): both critics, the actor, the worth of chance and the targets are updated by
// one compiled step.
#include <numbers>

#include "rl/training.h"
#include "windrow/error.h"

namespace wr::rl {
namespace {

constexpr double kLeastLog = -5, kMostLog = 2;  // of the policy's deviation

void check(const Environments& environments, const SacTraining& o) {
  expect_budget(o.budget, environments, "train_sac");
  if (!environments.space().control)
    throw Error("train_sac: the environment takes choices; train_dqn and train_ppo learn those");
  expect(o.batch > 0, "train_sac", "batch", static_cast<double>(o.batch), "at least 1");
  expect(o.gamma >= 0 && o.gamma <= 1, "train_sac", "gamma", o.gamma, "0 to 1");
  expect(o.tau > 0 && o.tau <= 1, "train_sac", "tau", o.tau, "more than 0, at most 1");
  expect(o.updates_a_step > 0, "train_sac", "updates_a_step", o.updates_a_step, "more than 0");
}

class Learner {
 public:
  Learner(const Space& space, std::int64_t copies, const SacTraining& o)
      : space_(space),
        actor_(std::make_shared<nn::Sequential>(
            layers(space.observation, o.hidden, 2 * space.actions, Hidden::relu, 0.1))),
        critics_{critic(o), critic(o)},
        targets_{critic(o), critic(o)},
        log_alpha_(Array::zeros({1, 1}), "log_alpha"),
        random_(o.budget.seed),
        of_critics_({.lr = o.lr}),
        of_actor_({.lr = o.lr}),
        of_alpha_({.lr = o.lr}) {
    for (std::size_t c = 0; c < 2; ++c) {
      const auto from = critics_[c].states(), to = targets_[c].states();
      for (std::size_t i = 0; i < from.size(); ++i) State(to[i]).set(from[i].value());
    }
    const std::int64_t n = o.batch, seen = space.observation, wide = space.actions;
    train_ = compile(
        {"sac train"},
        [&](const Tensor& from, const Tensor& to, const Tensor& action, const Tensor& reward, const Tensor& discount) {
          return update(o, from, to, action, reward, discount);
        },
        f32(n, seen), f32(n, seen), f32(n, wide), f32(n, 1), f32(n, 1));
    act_ = compile(
        {"sac act"}, [&](const Tensor& x) { return draw(x).action; }, f32(copies, seen));
  }
  float train(const Array& from, const Array& to, const Array& action, const Array& reward, const Array& discount) {
    return train_(from, to, action, reward, discount)[0].item<float>();
  }
  Array act(const Array& seen) { return act_(seen)[0]; }
  const std::shared_ptr<nn::Sequential>& actor() const { return actor_; }

 private:
  nn::Sequential critic(const SacTraining& o) const {
    return layers(space_.observation + space_.actions, o.hidden, 1, Hidden::relu);
  }
  struct Drawn {
    Tensor action, log_chance;
  };
  /// tanh of a normal number: its logarithm of probability is that of the number, less log(1 - tanh^2).
  Drawn draw(const Tensor& x) {
    const Tensor out = (*actor_)(x);
    const std::int64_t n = out.size(0), wide = space_.actions;
    const Tensor mean = slice(out, 1, 0, wide);
    const Tensor log_deviation = kLeastLog + 0.5 * (kMostLog - kLeastLog) * (tanh(slice(out, 1, wide, 2 * wide)) + 1.0);
    const Tensor z = random_.normal({n, wide}), u = mean + z * exp(log_deviation);
    const Tensor squash = 2.0 * (std::numbers::ln2 - u - softplus(-2.0 * u));
    const Tensor each = -0.5 * z * z - log_deviation - 0.5 * std::log(2 * std::numbers::pi) - squash;
    return {tanh(u), sum(each, 1, Keep::yes)};
  }
  static Tensor least(const std::array<nn::Sequential, 2>& critics, const Tensor& x, const Tensor& action) {
    const Tensor both = concat({x, action}, 1);
    return minimum(critics[0](both), critics[1](both));
  }
  Tensor update(const SacTraining& o, const Tensor& from, const Tensor& to, const Tensor& action, const Tensor& reward,
                const Tensor& discount) {
    const Tensor alpha = stop_gradient(exp(Tensor(log_alpha_)));
    const Drawn next = draw(to);
    const Tensor wanted = stop_gradient(o.reward_scale * reward +
                                        discount * (least(targets_, to, next.action) - alpha * next.log_chance));
    const Tensor done = concat({from, action}, 1);
    std::vector<State> of_both = critics_[0].parameters();
    for (const State& s : critics_[1].parameters()) of_both.push_back(s);
    const Tensor miss = critics_[0](done) - wanted, miss_too = critics_[1](done) - wanted;
    const Tensor loss = 0.5 * mean(miss * miss + miss_too * miss_too);
    of_critics_.minimize(loss, of_both);

    const Drawn now = draw(from);  // judged by the critics as they are now
    of_actor_.minimize(mean(alpha * now.log_chance - least(critics_, from, now.action)), actor_->parameters());
    const double entropy = -static_cast<double>(space_.actions);
    of_alpha_.minimize(-mean(Tensor(log_alpha_) * stop_gradient(now.log_chance + entropy)), {log_alpha_});

    for (std::size_t c = 0; c < 2; ++c) {
      const auto online = critics_[c].parameters(), target = targets_[c].parameters();
      for (std::size_t i = 0; i < online.size(); ++i)
        target[i].assign(Operand(target[i]) + o.tau * (Operand(online[i]) - target[i]));
    }
    return loss;
  }

  Space space_;
  std::shared_ptr<nn::Sequential> actor_;
  std::array<nn::Sequential, 2> critics_, targets_;
  State log_alpha_;
  Random random_;
  optim::Adam of_critics_, of_actor_, of_alpha_;
  Step train_, act_;
};

}  // namespace

TrainedAgent train_sac(Environments environments, const SacTraining& o) {
  check(environments, o);
  const Space space = environments.space();
  const auto copies = static_cast<std::int64_t>(environments.count());
  nn::seed(o.budget.seed);
  Learner learner(space, copies, o);
  Experience experience({.capacity = o.capacity, .prioritised = false}, space, copies);
  Rng rng(o.budget.seed);
  std::vector<std::int64_t> entries(static_cast<std::size_t>(o.batch));
  std::vector<float> actions(environments.count() * static_cast<std::size_t>(space.actions)), weights(entries.size());
  Array from = Array::zeros({o.batch, space.observation}), to = Array::zeros({o.batch, space.observation}),
        action = Array::zeros({o.batch, space.actions}), reward = Array::zeros({o.batch, 1}),
        discount = Array::zeros({o.batch, 1}), seen = Array::zeros({copies, space.observation});

  Ledger ledger(o.budget);
  double owed = 0;  // updates
  while (!ledger.is_over()) {
    std::copy(environments.observations().begin(), environments.observations().end(), seen.mutable_data<float>());
    const bool learning = ledger.progress().steps >= o.learn_from;
    if (learning) {
      const Array drawn = learner.act(seen);
      std::copy_n(drawn.data<float>(), actions.size(), actions.begin());
    } else {
      for (float& a : actions) a = static_cast<float>(2 * rng.uniform() - 1);
    }
    environments.step(actions);
    experience.add(floats(seen), actions, environments);
    ledger.count(environments);
    if (!learning) continue;
    for (owed += o.updates_a_step * static_cast<double>(copies); owed >= 1; --owed) {
      experience.sampler().sample(rng, 0, entries, weights);
      experience.read(entries, 1, o.gamma,
                      {floats(from), floats(to), floats(action), floats(reward), floats(discount)});
      ledger.set_loss(learner.train(from, to, action, reward, discount));
    }
  }
  return {Agent(learner.actor(), space, Agent::Rule::squashed), ledger.progress()};
}

}  // namespace wr::rl
