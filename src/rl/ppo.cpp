// Proximal policy optimisation (Schulman et al. 2017), with generalised advantages.
#include <numbers>
#include <numeric>

#include "rl/training.h"
#include "windrow/error.h"

namespace wr::rl {
namespace {

const double kLogRootTau = 0.5 * std::log(2 * std::numbers::pi);
constexpr double kFirstDeviation = 0.6;

void check(const Environments& environments, const PpoTraining& o) {
  expect_budget(o.budget, environments, "train_ppo");
  expect(o.run > 0, "train_ppo", "run", static_cast<double>(o.run), "at least 1");
  const std::int64_t gathered = o.run * static_cast<std::int64_t>(environments.count());
  expect(o.batch > 0 && o.batch <= gathered, "train_ppo", "batch", static_cast<double>(o.batch),
         "1 to run * environments");
  expect(o.epochs > 0, "train_ppo", "epochs", o.epochs, "at least 1");
  expect(o.gamma >= 0 && o.gamma <= 1, "train_ppo", "gamma", o.gamma, "0 to 1");
  expect(o.lambda >= 0 && o.lambda <= 1, "train_ppo", "lambda", o.lambda, "0 to 1");
}

/// Policy, value and the steps that act and learn.
class Learner {
 public:
  Learner(const Space& space, std::int64_t copies, const PpoTraining& o)
      : space_(space),
        policy_(
            std::make_shared<nn::Sequential>(layers(space.observation, o.hidden, space.actions, Hidden::tanh, 0.01))),
        value_(layers(space.observation, o.hidden, 1, Hidden::tanh)),
        deviation_(Array::full({1, space.actions}, std::log(kFirstDeviation)), "log_deviation"),
        adam_({.lr = o.lr, .epsilon = 1e-5, .clip = {.norm = o.max_norm}}) {
    const std::int64_t n = space.observation, wide = space.width();
    act_ = compile(
        {"ppo act"},
        [&](const Tensor& x) {
          return std::tuple{(*policy_)(x), value_(x), space.control ? Tensor(deviation_) : value_(x)};
        },
        f32(copies, n));
    train_ = compile(
        {"ppo train"},
        [&](const Tensor& x, const Tensor& action, const Tensor& before, const Tensor& advantage,
            const Tensor& wanted) {
          const auto [chance, entropy] = likelihood((*policy_)(x), action);
          const Tensor ratio = exp(chance - before);
          const Tensor clipped = minimum(maximum(ratio, 1 - o.clip), 1 + o.clip);
          const Tensor gain = mean(minimum(ratio * advantage, clipped * advantage));
          const Tensor miss = value_(x) - wanted;
          const Tensor loss = o.value_cost * mean(miss * miss) - gain - o.entropy * entropy;
          adam_.minimize(loss, parameters());
          return loss;
        },
        f32(o.batch, n), f32(o.batch, wide), f32(o.batch, 1), f32(o.batch, 1), f32(o.batch, 1));
  }
  struct Said {
    Array outputs, values, log_deviation;
  };
  Said act(const Array& seen) {
    auto results = act_(seen);
    return {results[0], results[1], results[2]};
  }
  float train(const Array& x, const Array& action, const Array& before, const Array& advantage, const Array& wanted) {
    return train_(x, action, before, advantage, wanted)[0].item<float>();
  }
  void set_lr(double lr) { adam_.set_lr(lr); }
  const std::shared_ptr<nn::Sequential>& policy() const { return policy_; }

 private:
  std::vector<State> parameters() const {
    std::vector<State> all = policy_->parameters();
    for (const State& s : value_.parameters()) all.push_back(s);
    if (space_.control) all.push_back(deviation_);
    return all;
  }
  /// The logarithm of an action's probability, a row each, and the policy's mean entropy.
  std::pair<Tensor, Tensor> likelihood(const Tensor& outputs, const Tensor& action) const {
    if (!space_.control) {
      const Tensor logs = log_softmax(outputs, 1);
      return {take_along(logs, cast(action, DType::i32), 1), -mean(sum(exp(logs) * logs, 1))};
    }
    const Tensor log_deviation = deviation_, z = (action - outputs) / exp(log_deviation);
    return {sum(-0.5 * z * z - log_deviation - kLogRootTau, 1, Keep::yes), sum(log_deviation + (0.5 + kLogRootTau))};
  }

  Space space_;
  std::shared_ptr<nn::Sequential> policy_;
  nn::Sequential value_;
  State deviation_;
  optim::Adam adam_;
  Step act_, train_;
};

/// Draws an action a row and notes the logarithm of its probability.
void draw(const Learner::Said& said, const Space& space, Rng& rng, std::span<float> actions, std::span<float> chances) {
  const auto n = static_cast<std::size_t>(space.actions);
  for (std::size_t row = 0; row < chances.size(); ++row) {
    const float* out = said.outputs.data<float>() + row * n;
    if (space.control) {
      double log_chance = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const double z = rng.normal(), log_deviation = said.log_deviation.data<float>()[k];
        actions[row * n + k] = static_cast<float>(out[k] + z * std::exp(log_deviation));
        log_chance -= 0.5 * z * z + log_deviation + kLogRootTau;
      }
      chances[row] = static_cast<float>(log_chance);
      continue;
    }
    const double greatest = *std::max_element(out, out + n);
    double total = 0;
    for (std::size_t k = 0; k < n; ++k) total += std::exp(out[k] - greatest);
    double left = rng.uniform() * total;
    std::size_t chosen = 0;
    while (chosen + 1 < n && (left -= std::exp(out[chosen] - greatest)) >= 0) ++chosen;
    actions[row] = static_cast<float>(chosen);
    chances[row] = static_cast<float>(out[chosen] - greatest - std::log(total));
  }
}

/// What a run of all copies gave, moment by moment: row t * copies + i.
struct Gathered {
  Gathered(std::int64_t rows, const Space& space)
      : seen(static_cast<std::size_t>(rows * space.observation)),
        actions(static_cast<std::size_t>(rows * space.width())),
        chances(static_cast<std::size_t>(rows)),
        values(chances.size()),
        rewards(chances.size()),
        advantages(chances.size()),
        wanted(chances.size()),
        ended(chances.size()) {}
  std::vector<float> seen, actions, chances, values, rewards, advantages, wanted;
  std::vector<std::uint8_t> ended;
};

/// From the last moment to the first: advantage = error + gamma lambda advantage of the next moment. A reward that was
/// the last of an episode cut off already holds what more would have come.
void find_advantages(Gathered& g, std::span<const float> last_values, std::size_t copies, double gamma, double lambda) {
  for (std::size_t i = 0; i < copies; ++i) {
    double next = last_values[i], advantage = 0;
    for (std::size_t row = g.rewards.size() - copies + i;; row -= copies) {
      if (g.ended[row]) next = advantage = 0;
      advantage = g.rewards[row] + gamma * next - g.values[row] + gamma * lambda * advantage;
      g.advantages[row] = static_cast<float>(advantage);
      g.wanted[row] = static_cast<float>(advantage + g.values[row]);
      next = g.values[row];
      if (row < copies) break;
    }
  }
}

/// Mean 0, deviation 1.
void standardise(std::span<float> values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  for (const float v : values) squares += (v - mean) * (v - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size())) + 1e-8;
  for (float& v : values) v = static_cast<float>((v - mean) / deviation);
}

/// Rows of what was gathered as the arguments of a training step.
class Batches {
 public:
  Batches(const Space& space, std::int64_t batch)
      : width_(static_cast<std::size_t>(space.observation)),
        wide_(static_cast<std::size_t>(space.width())),
        x_(Array::zeros({batch, space.observation})),
        action_(Array::zeros({batch, space.width()})),
        before_(Array::zeros({batch, 1})),
        advantage_(Array::zeros({batch, 1})),
        wanted_(Array::zeros({batch, 1})) {}
  float train(Learner& learner, const Gathered& g, std::span<const std::size_t> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(g.seen.data() + rows[i] * width_, width_, x_.mutable_data<float>() + i * width_);
      std::copy_n(g.actions.data() + rows[i] * wide_, wide_, action_.mutable_data<float>() + i * wide_);
      before_.mutable_data<float>()[i] = g.chances[rows[i]];
      advantage_.mutable_data<float>()[i] = g.advantages[rows[i]];
      wanted_.mutable_data<float>()[i] = g.wanted[rows[i]];
    }
    standardise(floats(advantage_));
    return learner.train(x_, action_, before_, advantage_, wanted_);
  }

 private:
  std::size_t width_, wide_;
  Array x_, action_, before_, advantage_, wanted_;
};

}  // namespace

TrainedAgent train_ppo(Environments environments, const PpoTraining& o) {
  check(environments, o);
  const Space space = environments.space();
  const std::size_t copies = environments.count(), wide = static_cast<std::size_t>(space.width());
  nn::seed(o.budget.seed);
  Learner learner(space, static_cast<std::int64_t>(copies), o);
  Gathered g(o.run * static_cast<std::int64_t>(copies), space);
  Batches batches(space, o.batch);
  Array seen = Array::zeros({static_cast<std::int64_t>(copies), space.observation});
  Rng rng(o.budget.seed);
  Ledger ledger(o.budget);
  std::vector<std::size_t> order(g.rewards.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto values_of = [&](std::span<const float> observations) {
    std::copy(observations.begin(), observations.end(), seen.mutable_data<float>());
    return learner.act(seen);
  };

  while (!ledger.is_over()) {
    for (std::size_t row = 0; row < g.rewards.size(); row += copies) {
      const Learner::Said said = values_of(environments.observations());
      std::copy_n(seen.data<float>(), copies * static_cast<std::size_t>(space.observation),
                  g.seen.data() + row * static_cast<std::size_t>(space.observation));
      std::copy_n(said.values.data<float>(), copies, g.values.data() + row);
      const std::span<float> actions(g.actions.data() + row * wide, copies * wide);
      draw(said, space, rng, actions, {g.chances.data() + row, copies});
      environments.step(actions);
      ledger.count(environments);
      bool cut_off = false;
      for (std::size_t i = 0; i < copies; ++i) {
        const Outcome& outcome = environments.outcomes()[i];
        g.rewards[row + i] = static_cast<float>(o.reward_scale * outcome.reward);
        g.ended[row + i] = outcome.over();
        cut_off |= outcome.truncated && !outcome.terminal;
      }
      if (!cut_off) continue;
      const Learner::Said more = values_of(environments.arrived());  // what would have come is worth something
      for (std::size_t i = 0; i < copies; ++i)
        if (environments.outcomes()[i].truncated && !environments.outcomes()[i].terminal)
          g.rewards[row + i] += static_cast<float>(o.gamma) * more.values.data<float>()[i];
    }
    const Learner::Said last = values_of(environments.observations());
    find_advantages(g, {last.values.data<float>(), copies}, copies, o.gamma, o.lambda);
    if (o.lr_falls) learner.set_lr(o.lr * std::max(0.02, 1 - ledger.share_done()));
    const auto batch = static_cast<std::size_t>(o.batch);
    for (int epoch = 0; epoch < o.epochs; ++epoch) {
      shuffle(order, Rng(rng.bits()));
      for (std::size_t first = 0; first + batch <= order.size(); first += batch)
        ledger.set_loss(batches.train(learner, g, std::span(order).subspan(first, batch)));
    }
  }
  const auto rule = space.control ? Agent::Rule::clipped : Agent::Rule::greatest;
  return {Agent(learner.policy(), space, rule), ledger.progress()};
}

}  // namespace wr::rl
