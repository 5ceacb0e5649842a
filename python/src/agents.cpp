// windrow.rl's trainings: environments of Gymnasium's kind (windrow/_agents.py adapts them) and Windrow's own.
#include "windrow/agents.h"

#include <nanobind/stl/vector.h>

#include "casters.h"

namespace wr::python {
namespace {

using namespace nb::literals;

/// One copy as _agents.Copy has it. The training runs without the interpreter, so everything here takes it first.
class PythonEnvironment : public rl::Environment {
 public:
  explicit PythonEnvironment(nb::object copy)
      : copy_(std::move(copy)), size_(nb::cast<std::size_t>(copy_.attr("observation"))) {}
  ~PythonEnvironment() override {
    const nb::gil_scoped_acquire interpreter;
    copy_.reset();
  }
  PythonEnvironment(const PythonEnvironment&) = delete;
  PythonEnvironment& operator=(const PythonEnvironment&) = delete;

  void reset(Rng& rng) override {
    const nb::gil_scoped_acquire interpreter;
    see(copy_.attr("reset")(rng.bits() >> 33));
  }
  void observe(float* into) const override { std::copy(now_.begin(), now_.end(), into); }
  rl::Outcome step(std::span<const float> action) override {
    const nb::gil_scoped_acquire interpreter;
    const nb::object happened = copy_.attr("step")(std::vector<float>(action.begin(), action.end()));
    see(happened[0]);
    return {nb::cast<float>(happened[1]), nb::cast<bool>(happened[2]), nb::cast<bool>(happened[3])};
  }

 private:
  void see(nb::handle observation) {
    now_ = copied_array(observation, DType::f32).to_vector<float>();
    if (now_.size() != size_)
      throw Error("the environment gave an observation of " + std::to_string(now_.size()) + " numbers; its space has " +
                  std::to_string(size_));
  }
  nb::object copy_;
  std::size_t size_;
  std::vector<float> now_;
};

/// An agent with what it needs to act in Python: the range of its controls.
struct PyAgent {
  rl::Agent agent;
  rl::Progress progress;
  std::vector<float> low, high;  // of controls; empty: from -1 to 1
};

/// What trains, whatever kind of environment it is.
struct World {
  rl::Environments environments;
  std::vector<float> low, high;
};

World world_of(nb::handle environment, const rl::Budget& budget) {
  const auto own = [&](const auto& e) {
    return World{rl::Environments(e, budget.environments, budget.seed, budget.threads), {}, {}};
  };
  if (nb::isinstance<rl::CartPole>(environment)) return own(nb::cast<const rl::CartPole&>(environment));
  if (nb::isinstance<rl::Pendulum>(environment)) return own(nb::cast<const rl::Pendulum&>(environment));
  if (budget.threads != 1)
    throw Error("threads: environments written in Python are stepped one after the other; Windrow's own take threads");
  const nb::object list = nb::module_::import_("windrow._agents").attr("copies")(environment, budget.environments);
  std::vector<std::unique_ptr<rl::Environment>> copies;
  for (nb::handle copy : list) copies.push_back(std::make_unique<PythonEnvironment>(nb::borrow(copy)));
  const nb::object first = list[0];
  const rl::Space space{nb::cast<std::int64_t>(first.attr("observation")),
                        nb::cast<std::int64_t>(first.attr("actions")), nb::cast<bool>(first.attr("control"))};
  return {rl::Environments(space, std::move(copies), budget.seed), nb::cast<std::vector<float>>(first.attr("low")),
          nb::cast<std::vector<float>>(first.attr("high"))};
}

rl::Budget budget_of(std::int64_t steps, int environments, int threads, std::uint64_t seed, nb::handle goal, int window,
                     nb::handle watch) {
  rl::Budget b{steps, environments, threads, seed};
  if (!goal.is_none()) b.goal = nb::cast<double>(goal);
  b.window = window;
  b.watch = [watch](const rl::Progress& progress) {  // a handle: it may be copied without the interpreter
    const nb::gil_scoped_acquire interpreter;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (watch.is_none()) return true;
    const nb::object answer = watch(progress);
    return answer.is_none() || nb::cast<bool>(answer);
  };
  return b;
}

template <class Options>
PyAgent trained(nb::handle environment, const Options& options,
                rl::TrainedAgent (*train)(rl::Environments, const Options&)) {
  World world = world_of(environment, options.budget);
  const auto run = [&] {
    const nb::gil_scoped_release others;
    return train(std::move(world.environments), options);
  };
  rl::TrainedAgent result = run();
  return {std::move(result.agent), result.progress, std::move(world.low), std::move(world.high)};
}

/// An int, or an Array of controls in the environment's own range.
nb::object act(const PyAgent& a, nb::handle observation) {
  const std::vector<float> seen = copied_array(observation, DType::f32).to_vector<float>();
  if (!a.agent.space().control) return nb::cast(a.agent.act(seen));
  const auto controls = a.agent.control(seen);
  std::vector<float> said(controls.begin(), controls.end());
  for (std::size_t i = 0; i < said.size() && !a.low.empty(); ++i)
    said[i] = a.low[i] + (said[i] + 1) / 2 * (a.high[i] - a.low[i]);
  return nb::cast(Array::from(std::span<const float>(said), Shape{std::ssize(said)}));
}

double evaluate(nb::handle agent, nb::handle environment, int episodes, std::uint64_t seed) {
  const auto& a = nb::cast<const PyAgent&>(agent);
  if (nb::isinstance<rl::CartPole>(environment))
    return rl::evaluate(a.agent, nb::cast<rl::CartPole>(environment), episodes, seed);
  if (nb::isinstance<rl::Pendulum>(environment))
    return rl::evaluate(a.agent, nb::cast<rl::Pendulum>(environment), episodes, seed);
  return nb::cast<double>(nb::module_::import_("windrow._agents").attr("evaluate")(agent, environment, episodes, seed));
}

void bind_agent(nb::module_& n) {
  nb::class_<rl::Progress>(n, "Progress", "How a training goes, so far or in the end.")
      .def_ro("steps", &rl::Progress::steps)
      .def_ro("episodes", &rl::Progress::episodes)
      .def_ro("mean_return", &rl::Progress::mean_return, "Of the last 100 episodes, or of those there are.")
      .def_ro("loss", &rl::Progress::loss)
      .def_ro("reached", &rl::Progress::reached, "Whether the goal was reached.");
  nb::class_<PyAgent>(n, "Agent", "What a training leaves: acts by what it learned, without chance.")
      .def("act", &act, "observation"_a, "The action it thinks best: an int, or an Array of controls.")
      .def_ro("progress", &PyAgent::progress)
      .def("parameters", [](const PyAgent& a) { return a.agent.net().parameters(); })
      .def(
          "state_dict",
          [](const PyAgent& a) {
            nb::dict out;
            for (const State& state : a.agent.net().states()) out[state.name().c_str()] = nb::cast(state.value());
            return out;
          },
          "What was learned, by name.");
  n.def("evaluate", &evaluate, nb::arg("agent"), "environment"_a, "episodes"_a = 20, "seed"_a = 1000,
        "The mean return of so many episodes, acted without chance.");
}

constexpr const char* kDqn =
    "Deep Q-learning: a replay of what happened, n-step returns, a target net. For environments with choices.\n\n"
    "environment is one of Windrow's own (rl.CartPole()), one of Gymnasium's kind, or a function that makes one, "
    "which\n"
    "is called for each of `environments` copies. Ends after `steps` of all copies together, or once the mean return "
    "of\n"
    "the last `window` episodes is `goal`, or when watch(progress) returns False.";
constexpr const char* kPpo =
    "Proximal policy optimisation: a policy and a value from short runs of many copies. For choices and controls.\n"
    "See train_dqn for what environment, steps, goal and watch are.";
constexpr const char* kSac =
    "Soft actor-critic: a policy of controls and two critics from a replay. For environments with controls (a Box of\n"
    "actions). See train_dqn for what environment, steps, goal and watch are.";

void bind_dqn(nb::module_& n) {
  n.def(
      "train_dqn",
      [](nb::handle environment, std::int64_t steps, int environments, int threads, std::uint64_t seed, nb::handle goal,
         int window, nb::handle watch, const std::vector<std::int64_t>& hidden, std::int64_t batch, double lr,
         double clip, bool double_q, double huber, double tau, bool dueling, bool lr_falls, double gamma, int n_steps,
         std::int64_t capacity, bool prioritised, double alpha, std::int64_t learn_from, double updates_a_step,
         double explore, double least_random) {
        rl::DqnTraining o;
        o.budget = budget_of(steps, environments, threads, seed, goal, window, watch);
        o.hidden = hidden;
        o.learner.batch = batch;
        o.learner.lr = lr;
        o.learner.clip = clip;
        o.learner.double_q = double_q;
        o.learner.huber = huber;
        o.learner.tau = tau;
        o.dueling = dueling;
        o.lr_falls = lr_falls;
        o.gamma = gamma;
        o.n_steps = n_steps;
        o.replay = {capacity, prioritised, alpha};
        o.learn_from = learn_from;
        o.updates_a_step = updates_a_step;
        o.explore = explore;
        o.least_random = least_random;
        return trained<rl::DqnTraining>(environment, o, rl::train_dqn);
      },
      "environment"_a, nb::kw_only(), "steps"_a = 100'000, "environments"_a = 1, "threads"_a = 1, "seed"_a = 1,
      "goal"_a.none() = nb::none(), "window"_a = 20, "watch"_a.none() = nb::none(),
      "hidden"_a = std::vector<std::int64_t>{128, 128}, "batch"_a = 128, "lr"_a = 5e-4, "clip"_a = 10.0,
      "double_q"_a = true, "huber"_a = 1.0, "tau"_a = 0.005, "dueling"_a = false, "lr_falls"_a = true, "gamma"_a = 0.99,
      "n_steps"_a = 3, "capacity"_a = 50'000, "prioritised"_a = false, "alpha"_a = 0.6, "learn_from"_a = 1000,
      "updates_a_step"_a = 1.0, "explore"_a = 0.2, "least_random"_a = 0.02, kDqn);
}

void bind_ppo(nb::module_& n) {
  n.def(
      "train_ppo",
      [](nb::handle environment, std::int64_t steps, int environments, int threads, std::uint64_t seed, nb::handle goal,
         int window, nb::handle watch, const std::vector<std::int64_t>& hidden, std::int64_t run, int epochs,
         std::int64_t batch, double lr, bool lr_falls, double gamma, double lambda, double clip, double entropy,
         double value_cost, double max_norm, double reward_scale) {
        rl::PpoTraining o{budget_of(steps, environments, threads, seed, goal, window, watch),
                          hidden,
                          run,
                          epochs,
                          batch,
                          lr,
                          lr_falls,
                          gamma,
                          lambda,
                          clip,
                          entropy,
                          value_cost,
                          max_norm,
                          reward_scale};
        return trained<rl::PpoTraining>(environment, o, rl::train_ppo);
      },
      "environment"_a, nb::kw_only(), "steps"_a = 100'000, "environments"_a = 8, "threads"_a = 1, "seed"_a = 1,
      "goal"_a.none() = nb::none(), "window"_a = 20, "watch"_a.none() = nb::none(),
      "hidden"_a = std::vector<std::int64_t>{64, 64}, "run"_a = 128, "epochs"_a = 10, "batch"_a = 256, "lr"_a = 1e-3,
      "lr_falls"_a = true, "gamma"_a = 0.99, "gae_lambda"_a = 0.95, "clip"_a = 0.2, "entropy"_a = 0.0,
      "value_cost"_a = 0.5, "max_norm"_a = 0.5, "reward_scale"_a = 1.0, kPpo);
}

void bind_sac(nb::module_& n) {
  n.def(
      "train_sac",
      [](nb::handle environment, std::int64_t steps, int environments, int threads, std::uint64_t seed, nb::handle goal,
         int window, nb::handle watch, const std::vector<std::int64_t>& hidden, std::int64_t batch, double lr,
         double gamma, double tau, std::int64_t capacity, std::int64_t learn_from, double updates_a_step,
         double reward_scale) {
        rl::SacTraining o{budget_of(steps, environments, threads, seed, goal, window, watch),
                          hidden,
                          batch,
                          lr,
                          gamma,
                          tau,
                          capacity,
                          learn_from,
                          updates_a_step,
                          reward_scale};
        return trained<rl::SacTraining>(environment, o, rl::train_sac);
      },
      "environment"_a, nb::kw_only(), "steps"_a = 20'000, "environments"_a = 1, "threads"_a = 1, "seed"_a = 1,
      "goal"_a.none() = nb::none(), "window"_a = 20, "watch"_a.none() = nb::none(),
      "hidden"_a = std::vector<std::int64_t>{64, 64}, "batch"_a = 128, "lr"_a = 1e-3, "gamma"_a = 0.99, "tau"_a = 0.005,
      "capacity"_a = 100'000, "learn_from"_a = 1000, "updates_a_step"_a = 1.0, "reward_scale"_a = 1.0, kSac);
}

}  // namespace

void bind_agents(nb::module_& n) {
  bind_agent(n);
  bind_dqn(n);
  bind_ppo(n);
  bind_sac(n);
}

}  // namespace wr::python
