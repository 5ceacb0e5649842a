// Agents that learn in any environment: train_dqn, train_ppo and train_sac. Each makes its nets, compiles its steps
// once, gathers experience from copies of the environment on threads, and returns an agent that acts. docs/rl.md has an
// environment of one's own in 30 lines.
//
//   auto trained = wr::rl::train_ppo(wr::rl::CartPole{}, {.budget = {.steps = 100'000, .goal = 475}});
//   int action = trained.agent.act(pole.observe());
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "windrow/rl.h"

namespace wr::rl {

// ---- environments ----

/// A pole that hangs from a motor too weak to lift it at once: it must swing. Gym's Pendulum-v1, with the torque from
/// -1 to 1 (there: -2 to 2). 200 steps; what stands upright and still costs nothing, what hangs about 16 a step.
struct Pendulum {
  static constexpr int kActionSize = 1, kMaxSteps = 200;
  using Observation = std::array<float, 3>;  // cosine and sine of the angle, speed / 8
  double angle = 0, speed = 0;
  int steps = 0;

  void reset(Rng& rng);
  Observation observe() const;
  Outcome step(std::span<const float> torque);
};

/// Of one's own: a struct that can be copied, with numbers for an observation, reset, observe, and step. It has
/// kActions actions, numbered from 0, or kActionSize of them at once, each from -1 to 1.
template <class E>
concept AnyEnvironment = std::copyable<E> && requires(E e, const E& c, Rng& rng) {
  e.reset(rng);
  { c.observe() } -> std::convertible_to<typename E::Observation>;
  requires std::same_as<typename E::Observation::value_type, float>;
  std::tuple_size<typename E::Observation>::value;
};
template <class E>
concept ChoiceEnvironment = AnyEnvironment<E> && requires(E e) {
  { E::kActions } -> std::convertible_to<std::int64_t>;
  { e.step(0) } -> std::same_as<Outcome>;
};
template <class E>
concept ControlEnvironment = AnyEnvironment<E> && requires(E e, std::span<const float> action) {
  { E::kActionSize } -> std::convertible_to<std::int64_t>;
  { e.step(action) } -> std::same_as<Outcome>;
};

/// Sizes of an environment's observations and actions.
struct Space {
  std::int64_t observation = 0;
  std::int64_t actions = 0;                                     // choices, or numbers of a control
  bool control = false;                                         // numbers from -1 to 1 instead of a choice
  std::int64_t width() const { return control ? actions : 1; }  // floats of an action
};
template <AnyEnvironment E>
constexpr Space space_of() {
  constexpr auto kObserved = static_cast<std::int64_t>(std::tuple_size_v<typename E::Observation>);
  if constexpr (ControlEnvironment<E>)
    return {kObserved, E::kActionSize, true};
  else
    return {kObserved, E::kActions, false};
}

/// An environment whose sizes are known only when the program runs, as a front end of another language has it.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual void reset(Rng& rng) = 0;
  virtual void observe(float* into) const = 0;
  virtual Outcome step(std::span<const float> action) = 0;
};

/// Copies of an environment, stepped at once on threads. Each has random numbers of its own, so results do not depend
/// on how many threads there are. An episode that ends is followed by the next at once.
class Environments {
 public:
  /// threads 0: as many as a step would use.
  template <AnyEnvironment E>
  Environments(const E& environment, int count, std::uint64_t seed, int threads = 1)
      : Environments(space_of<E>(), count, seed, threads) {
    for (int i = 0; i < count; ++i) copies_.push_back(std::make_unique<Of<E>>(environment));
    begin();
  }
  Environments(const Space& space, std::vector<std::unique_ptr<Environment>> copies, std::uint64_t seed,
               int threads = 1);
  ~Environments();
  Environments(Environments&&) noexcept;

  const Space& space() const { return space_; }
  std::size_t count() const { return copies_.size(); }
  /// [count, observation]: what the next actions are chosen by.
  std::span<const float> observations() const { return now_; }
  /// One action for each: [count, space().width()]; a choice is its number. What an environment throws is thrown here.
  void step(std::span<const float> actions);
  std::span<const Outcome> outcomes() const { return outcomes_; }
  /// [count, observation]: where the last step led, before what had ended began again.
  std::span<const float> arrived() const { return arrived_; }
  /// The returns of the episodes that ended since the last call, in the order of the copies.
  std::vector<double> take_returns();

 private:
  template <class E>
  class Of : public Environment {
   public:
    explicit Of(const E& environment) : own_(environment) {}
    void reset(Rng& rng) override { own_.reset(rng); }
    void observe(float* into) const override {
      const typename E::Observation seen = own_.observe();
      std::copy(seen.begin(), seen.end(), into);
    }
    Outcome step(std::span<const float> action) override {
      if constexpr (ControlEnvironment<E>)
        return own_.step(action);
      else
        return own_.step(static_cast<int>(action[0]));
    }

   private:
    E own_;
  };
  Environments(const Space& space, int count, std::uint64_t seed, int threads);
  void begin();
  void observe(std::size_t i);
  void step_one(std::size_t i, std::span<const float> action);
  struct Work;

  Space space_;
  int threads_;
  std::vector<std::unique_ptr<Environment>> copies_;
  std::vector<Rng> random_;
  std::vector<float> now_, arrived_;
  std::vector<Outcome> outcomes_;
  std::vector<double> so_far_, returns_;
};

// ---- training ----

/// How a training goes, so far or in the end.
struct Progress {
  std::int64_t steps = 0, episodes = 0;  // of all copies together
  double mean_return = 0;                // of the last 100 episodes; of fewer while there are not so many
  double loss = 0;                       // of the last update
  bool reached = false;                  // the goal
};

struct Budget {
  std::int64_t steps = 100'000;  // of all copies together
  int environments = 0;          // copies; 0: eight for train_ppo, one for the others
  int threads = 1;               // that step them; 0: as many as a compiled step uses
  std::uint64_t seed = 1;
  /// Ends the training once the mean return of the last `window` episodes is at least this.
  double goal = 1e30;
  int window = 20;
  /// Asked about a hundred times a training: false ends it.
  std::function<bool(const Progress&)> watch = {};

  template <class E>
  Environments copies_of(const E& environment, int by_default) const {
    return {environment, environments == 0 ? by_default : environments, seed, threads};
  }
};

/// What a training leaves: acts by what it learned, without chance.
class Agent {
 public:
  /// The number of the action that it thinks best.
  int act(std::span<const float> observation) const;
  /// The controls that it thinks best. Valid until the next call.
  std::span<const float> control(std::span<const float> observation) const;
  const nn::Module& net() const { return *net_; }
  const Space& space() const { return space_; }

  /// Made by the trainings: a net, and how its outputs become an action (the greatest; the first ones, squashed).
  enum class Rule { greatest, clipped, squashed };
  Agent(std::shared_ptr<const nn::Module> net, const Space& space, Rule rule);

 private:
  std::span<const float> outputs(std::span<const float> observation) const;
  std::shared_ptr<const nn::Module> net_;
  Space space_;
  Rule rule_;
  mutable Step step_;
  mutable Array input_;
  mutable std::vector<float> action_;
};

struct TrainedAgent {
  Agent agent;
  Progress progress;
};

/// Deep Q-learning: a replay of what happened, n-step returns, a target net. For choices.
struct DqnTraining {
  Budget budget = {};
  std::vector<std::int64_t> hidden = {128, 128};
  DqnOptions learner = {.batch = 128, .lr = 5e-4, .clip = 10, .tau = 0.005};
  bool dueling = false;
  bool lr_falls = true;  // to 0 at the end of the budget
  double gamma = 0.99;
  int n_steps = 3;
  ReplayOptions replay = {.capacity = 50'000, .prioritised = false};
  std::int64_t learn_from = 1000;  // steps before the first update
  double updates_a_step = 1;       // of one copy
  double explore = 0.2;            // the share of the steps over which random actions become `least_random`
  double least_random = 0.02;
};

/// Proximal policy optimisation: a policy and a value from short runs of many copies. For choices and controls.
struct PpoTraining {
  Budget budget = {};
  std::vector<std::int64_t> hidden = {64, 64};
  std::int64_t run = 128;  // steps of each copy between two rounds of learning
  int epochs = 10;         // over what was gathered
  std::int64_t batch = 256;
  double lr = 1e-3;
  bool lr_falls = true;  // to 0 at the end of the budget
  double gamma = 0.99, lambda = 0.95;
  double clip = 0.2;     // of the ratio of probabilities
  double entropy = 0.0;  // what chance is worth
  double value_cost = 0.5;
  double max_norm = 0.5;  // of the gradient
  double reward_scale = 1;
};

/// Soft actor-critic: a policy of controls and two critics from a replay; chance is worth as much as keeps the
/// policy's entropy at the number of controls.
struct SacTraining {
  Budget budget = {.steps = 20'000};
  std::vector<std::int64_t> hidden = {64, 64};
  std::int64_t batch = 128;
  double lr = 1e-3;
  double gamma = 0.99, tau = 0.005;
  std::int64_t capacity = 100'000;
  std::int64_t learn_from = 1000;  // steps, with random actions, before the first update
  double updates_a_step = 1;       // of one copy
  double reward_scale = 1;
};

TrainedAgent train_dqn(Environments environments, const DqnTraining& options);
TrainedAgent train_ppo(Environments environments, const PpoTraining& options);
TrainedAgent train_sac(Environments environments, const SacTraining& options);

template <ChoiceEnvironment E>
TrainedAgent train_dqn(const E& environment, const DqnTraining& options = {}) {
  return train_dqn(options.budget.copies_of(environment, 1), options);
}
template <AnyEnvironment E>
TrainedAgent train_ppo(const E& environment, const PpoTraining& options = {}) {
  return train_ppo(options.budget.copies_of(environment, 8), options);
}
template <ControlEnvironment E>
TrainedAgent train_sac(const E& environment, const SacTraining& options = {}) {
  return train_sac(options.budget.copies_of(environment, 1), options);
}

/// The mean return of so many episodes, acted by the agent without chance.
template <AnyEnvironment E>
double evaluate(const Agent& agent, E environment, int episodes = 20, std::uint64_t seed = 1000) {
  if (episodes < 1) throw Error("evaluate: at least one episode has a mean");
  Rng rng(seed);
  double sum = 0;
  for (int i = 0; i < episodes; ++i) {
    environment.reset(rng);
    for (Outcome outcome; !outcome.over(); sum += outcome.reward) {
      const typename E::Observation seen = environment.observe();
      if constexpr (ControlEnvironment<E>)
        outcome = environment.step(agent.control(seen));
      else
        outcome = environment.step(agent.act(seen));
    }
  }
  return sum / episodes;
}

}  // namespace wr::rl
