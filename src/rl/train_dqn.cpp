// Deep Q-learning in any environment of choices.
#include "rl/training.h"
#include "windrow/error.h"

namespace wr::rl {
namespace {

void check(const Environments& environments, const DqnTraining& o) {
  expect_budget(o.budget, environments, "train_dqn");
  if (environments.space().control)
    throw Error("train_dqn: the environment takes controls; train_ppo and train_sac learn those");
  expect(o.n_steps > 0, "train_dqn", "n_steps", o.n_steps, "at least 1");
  expect(o.gamma >= 0 && o.gamma <= 1, "train_dqn", "gamma", o.gamma, "0 to 1");
  expect(o.updates_a_step > 0, "train_dqn", "updates_a_step", o.updates_a_step, "more than 0");
}

/// The greatest of each row of values, or now and then any.
void choose(std::span<const float> values, std::int64_t actions, double random, Rng& rng, std::vector<float>& chosen) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const float* row = values.data() + i * static_cast<std::size_t>(actions);
    const auto best = std::max_element(row, row + actions) - row;
    chosen[i] = rng.uniform() < random ? static_cast<float>(rng.below(static_cast<std::uint64_t>(actions)))
                                       : static_cast<float>(best);
  }
}

}  // namespace

TrainedAgent train_dqn(Environments environments, const DqnTraining& o) {
  check(environments, o);
  const Space space = environments.space();
  const auto copies = static_cast<std::int64_t>(environments.count());
  nn::seed(o.budget.seed);
  DqnOptions learner = o.learner;
  learner.acting = copies;
  Dqn dqn({.input = {space.observation, 0}, .hidden = o.hidden, .outputs = space.actions, .dueling = o.dueling},
          learner, {"dqn"});
  Experience experience(o.replay, space, copies);
  Rng rng(o.budget.seed);
  std::vector<std::int64_t> entries(static_cast<std::size_t>(learner.batch));
  std::vector<float> chosen(environments.count()), actions(entries.size());
  const auto learn = [&] {
    Dqn::Batch& b = dqn.batch();
    experience.sampler().sample(rng, 0.5, entries, floats(b.weight));
    experience.read(entries, o.n_steps, o.gamma,
                    {floats(b.from), floats(b.to), actions, floats(b.reward), floats(b.discount)});
    std::transform(actions.begin(), actions.end(), b.action.mutable_data<std::int32_t>(),
                   [](float a) { return static_cast<std::int32_t>(a); });
    const Dqn::Trained trained = dqn.train();
    if (o.replay.prioritised) experience.sampler().update(entries, trained.errors);
    dqn.sync();
    return trained.loss;
  };

  Ledger ledger(o.budget);
  double owed = 0;  // updates
  while (!ledger.is_over()) {
    const std::vector<float> seen(environments.observations().begin(), environments.observations().end());
    std::copy(seen.begin(), seen.end(), dqn.acting_input().mutable_data<float>());
    const double random = std::max(o.least_random, 1 - ledger.share_done() / std::max(o.explore, 1e-9));
    choose(dqn.act(), space.actions, random, rng, chosen);
    environments.step(chosen);
    experience.add(seen, chosen, environments);
    ledger.count(environments);
    if (ledger.progress().steps < o.learn_from) continue;
    if (o.lr_falls) dqn.set_lr(learner.lr * std::max(0.02, 1 - ledger.share_done()));
    for (owed += o.updates_a_step * static_cast<double>(copies); owed >= 1; --owed) ledger.set_loss(learn());
  }
  return {Agent(std::make_shared<Net>(dqn.net()), space, Agent::Rule::greatest), ledger.progress()};
}

}  // namespace wr::rl
