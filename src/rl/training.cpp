#include "rl/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "windrow/error.h"

namespace wr::rl {
namespace {

constexpr std::size_t kReturnsKept = 100;
constexpr std::int64_t kTimesWatched = 100;

}  // namespace

void expect(bool holds, const char* training, const char* field, double value, const char* wanted) {
  if (!holds) throw Error(fmt::format("{}: {} is {}; expected {}", training, field, value, wanted));
}

void expect_budget(const Budget& budget, const Environments& environments, const char* training) {
  expect(budget.steps > 0, training, "budget.steps", static_cast<double>(budget.steps), "at least 1");
  expect(budget.window > 0, training, "budget.window", budget.window, "at least 1");
  expect(environments.space().observation > 0, training, "the size of an observation", 0, "at least 1");
  expect(environments.space().actions > 0, training, "the number of actions", 0, "at least 1");
}

void Ledger::count(Environments& environments) {
  progress_.steps += static_cast<std::int64_t>(environments.count());
  for (const double value : environments.take_returns()) {
    ++progress_.episodes;
    returns_.push_back(value);
    if (returns_.size() > std::max(kReturnsKept, static_cast<std::size_t>(budget_.window))) returns_.pop_front();
  }
  progress_.mean_return = mean_of_last(kReturnsKept);
  const auto window = static_cast<std::size_t>(budget_.window);
  progress_.reached = returns_.size() >= window && mean_of_last(window) >= budget_.goal;
}

double Ledger::mean_of_last(std::size_t count) const {
  const std::size_t n = std::min(count, returns_.size());
  return n == 0 ? 0 : std::accumulate(returns_.end() - static_cast<std::ptrdiff_t>(n), returns_.end(), 0.0) / double(n);
}

bool Ledger::is_over() {
  if (progress_.reached || progress_.steps >= budget_.steps) return true;
  if (!budget_.watch || progress_.steps < watched_ + std::max<std::int64_t>(1, budget_.steps / kTimesWatched))
    return false;
  watched_ = progress_.steps;
  return !budget_.watch(progress_);
}

nn::Sequential layers(std::int64_t in, const std::vector<std::int64_t>& hidden, std::int64_t out, Hidden kind,
                      double last) {
  const double gain = std::sqrt(2.0);
  nn::Sequential net;
  for (const std::int64_t width : hidden) {
    net.add(nn::Dense(in, width, {.weights = nn::init::orthogonal(gain)}));
    net.add(kind == Hidden::relu ? nn::Relu() : nn::Tanh());
    in = width;
  }
  return net.add(nn::Dense(in, out, {.weights = nn::init::orthogonal(last)}));
}

// ---- experience ----

Experience::Experience(const ReplayOptions& options, const Space& space, std::int64_t copies)
    : space_(space), copies_(copies), sampler_([&] {
        ReplayOptions whole = options;
        whole.capacity = std::max<std::int64_t>(2, options.capacity / copies) * copies;
        return whole;
      }()) {
  const auto n = static_cast<std::size_t>(sampler_.capacity());
  from_.resize(n * static_cast<std::size_t>(space.observation));
  to_.resize(from_.size());
  action_.resize(n * static_cast<std::size_t>(space.width()));
  outcome_.resize(n);
}

void Experience::add(std::span<const float> seen, std::span<const float> actions, const Environments& environments) {
  const auto width = static_cast<std::size_t>(space_.observation), wide = static_cast<std::size_t>(space_.width());
  const std::span<const float> arrived = environments.arrived();
  for (std::size_t i = 0; i < static_cast<std::size_t>(copies_); ++i) {
    const auto place = static_cast<std::size_t>(sampler_.place_for_new());
    std::copy_n(seen.data() + i * width, width, from_.data() + place * width);
    std::copy_n(arrived.data() + i * width, width, to_.data() + place * width);
    std::copy_n(actions.data() + i * wide, wide, action_.data() + place * wide);
    outcome_[place] = environments.outcomes()[i];
  }
  next_ = (next_ + copies_) % sampler_.capacity();
}

void Experience::read(std::span<const std::int64_t> entries, int n_steps, double gamma, const Rows& rows) const {
  const auto width = static_cast<std::size_t>(space_.observation), wide = static_cast<std::size_t>(space_.width());
  for (std::size_t row = 0; row < entries.size(); ++row) {
    auto at = static_cast<std::size_t>(entries[row]);
    std::copy_n(from_.data() + at * width, width, rows.from.data() + row * width);
    std::copy_n(action_.data() + at * wide, wide, rows.action.data() + row * wide);
    double reward = outcome_[at].reward, discount = gamma;
    for (int k = 1; k < n_steps && !outcome_[at].over(); ++k) {
      const std::int64_t after = (static_cast<std::int64_t>(at) + copies_) % sampler_.capacity();
      if (after >= next_ && after < next_ + copies_) break;  // not there yet, or from a whole round ago
      at = static_cast<std::size_t>(after);
      reward += discount * outcome_[at].reward;
      discount *= gamma;
    }
    std::copy_n(to_.data() + at * width, width, rows.to.data() + row * width);
    rows.reward[row] = static_cast<float>(reward);
    rows.discount[row] = outcome_[at].terminal ? 0.0f : static_cast<float>(discount);
  }
}

// ---- agents ----

Agent::Agent(std::shared_ptr<const nn::Module> net, const Space& space, Rule rule)
    : net_(std::move(net)),
      space_(space),
      rule_(rule),
      step_(compile(
          CompileOptions{"act", 1, 1}, [&](const Tensor& x) { return (*net_)(x, nn::Mode::eval); },
          f32(1, space.observation))),
      input_(Array::zeros({1, space.observation})),
      action_(static_cast<std::size_t>(space.width())) {}

std::span<const float> Agent::outputs(std::span<const float> observation) const {
  if (std::ssize(observation) != space_.observation)
    throw Error(
        fmt::format("Agent: an observation of {} numbers; it learned from {}", observation.size(), space_.observation));
  std::copy(observation.begin(), observation.end(), input_.mutable_data<float>());
  return floats(step_(input_)[0]);
}

int Agent::act(std::span<const float> observation) const {
  if (space_.control) throw Error("Agent: it learned controls, not choices: ask control()");
  const std::span<const float> all = outputs(observation);
  return static_cast<int>(std::max_element(all.begin(), all.begin() + space_.actions) - all.begin());
}

std::span<const float> Agent::control(std::span<const float> observation) const {
  if (!space_.control) throw Error("Agent: it learned choices, not controls: ask act()");
  const std::span<const float> all = outputs(observation);
  for (std::size_t i = 0; i < action_.size(); ++i)
    action_[i] = rule_ == Rule::squashed ? std::tanh(all[i]) : std::clamp(all[i], -1.0f, 1.0f);
  return action_;
}

}  // namespace wr::rl
