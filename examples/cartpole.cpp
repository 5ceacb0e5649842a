// A pole is balanced on a cart: double DQN with n-step returns and prioritised replay. The train, act and sync steps
// are compiled once and share their parameters.
#include <windrow/rl.h>

#include <algorithm>
#include <cstdio>

using namespace wr::rl;

namespace {

/// Puts an observation into a row of a net's input, about -1 to 1.
void show(const CartPole::Observation& o, std::size_t row, wr::Array& input) {
  constexpr float kScale[] = {0.5f, 0.5f, 5, 0.5f};
  for (std::size_t k = 0; k < o.size(); ++k) input.mutable_data<float>()[o.size() * row + k] = o[k] * kScale[k];
}

int best_action(const CartPole& pole, Dqn& dqn) {
  show(pole.observe(), 0, dqn.acting_input());
  const auto q = dqn.act();
  return static_cast<int>(std::max_element(q.begin(), q.end()) - q.begin());
}

}  // namespace

int main() {
  constexpr std::int64_t kBatch = 64;
  constexpr double kGamma = 0.99;
  wr::nn::seed(1);
  Dqn dqn({.input = {4, 0}, .hidden = {64, 64}, .outputs = CartPole::kActions, .dueling = true},
          {.batch = kBatch, .lr = 1e-3, .tau = 0.01});
  Replay<CartPole::Observation> replay({.capacity = 50'000});
  NStep<CartPole::Observation> window(3, kGamma);
  const Epsilon epsilon{.start = 1, .least = 0.01, .decay = 0.97};
  wr::Rng rng(1);
  std::vector<std::int64_t> entries(kBatch);

  const auto learn = [&] {
    Dqn::Batch& b = dqn.batch();
    replay.sampler().sample(rng, 0.5, entries, {b.weight.mutable_data<float>(), entries.size()});
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto& e = replay[entries[i]];
      show(e.from, i, b.from);
      show(e.to, i, b.to);
      b.action.mutable_data<std::int32_t>()[i] = e.action;
      b.reward.mutable_data<float>()[i] = e.reward;
      b.discount.mutable_data<float>()[i] = e.discount;
    }
    replay.sampler().update(entries, dqn.train().errors);
    dqn.sync();
  };

  double stood = 0;
  for (int episode = 1; episode <= 300; ++episode) {
    CartPole pole;
    pole.reset(rng);
    Outcome outcome;
    while (!outcome.over()) {
      const auto from = pole.observe();
      const int action = rng.uniform() < epsilon.at(episode) ? static_cast<int>(rng.below(CartPole::kActions))
                                                             : best_action(pole, dqn);
      outcome = pole.step(action);
      window.add(from, action, outcome, pole.observe(), [&](const auto& t) { replay.add(t); });
      if (replay.size() >= 1000) learn();
    }
    stood += pole.steps;
    if (episode % 20 == 0) {
      std::printf("episode %3d: the pole stood for %.0f of %d steps\n", episode, stood / 20, CartPole::kMaxSteps);
      stood = 0;
    }
  }
}
