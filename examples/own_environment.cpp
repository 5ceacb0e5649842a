// An environment of one's own, and an agent that learns in it: a drone that is to hover at a height it is told, against
// its weight, with a motor that answers late. train_sac needs numbers to see, a reset, and a step.
#include <windrow/agents.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

struct Drone {
  static constexpr int kActionSize = 1;      // one control, from -1 to 1; `kActions = 4` would be a choice of four
  using Observation = std::array<float, 3>;  // how far above the wanted height, speed, thrust
  float height = 0, speed = 0, thrust = 0;
  int steps = 0;

  void reset(wr::Rng& rng) {
    height = static_cast<float>(4 * rng.uniform() - 2);
    speed = thrust = 0;
    steps = 0;
  }
  Observation observe() const { return {height, speed, thrust}; }
  wr::rl::Outcome step(std::span<const float> control) {
    thrust += 0.3f * (std::clamp(control[0], -1.0f, 1.0f) - thrust);
    speed += 0.1f * (3 * thrust - 1);  // its weight is a third of the strongest thrust
    height += 0.1f * speed;
    const bool lost = std::abs(height) > 5;
    const float cost = std::abs(height) + 0.1f * std::abs(speed);
    return {lost ? -100 : -cost, lost, ++steps >= 100};  // reward, the end, cut off
  }
};

int main() {
  const auto trained =
      wr::rl::train_sac(Drone{}, {.budget = {.steps = 5000,
                                             .environments = 2,
                                             .watch =
                                                 [](const wr::rl::Progress& p) {
                                                   if (p.steps % 1000 == 0)
                                                     std::printf("%5lld steps: mean return %.1f\n",
                                                                 static_cast<long long>(p.steps), p.mean_return);
                                                   return true;
                                                 }},
                                  .gamma = 0.97,
                                  .tau = 0.01});
  const double reached = wr::rl::evaluate(trained.agent, Drone{});
  std::printf("acting by what it learned: %.1f\n", reached);
  return reached > -60 ? 0 : 1;  // to do nothing costs about 250
}
