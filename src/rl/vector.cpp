// Copies of an environment, stepped at once on the threads that steps use.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <numbers>

#include "base/thread_team.h"
#include "windrow/agents.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::rl {

// ---- Pendulum: Gym's equations and numbers ----

void Pendulum::reset(Rng& rng) {
  angle = (2 * rng.uniform() - 1) * std::numbers::pi;
  speed = 2 * rng.uniform() - 1;
  steps = 0;
}

Pendulum::Observation Pendulum::observe() const {
  return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)), static_cast<float>(speed / 8)};
}

Outcome Pendulum::step(std::span<const float> torque) {
  constexpr double kGravity = 10, kMass = 1, kLength = 1, kSeconds = 0.05, kStrongest = 2, kFastest = 8;
  const double u = kStrongest * std::clamp(static_cast<double>(torque[0]), -1.0, 1.0);
  const double from_top = std::remainder(angle, 2 * std::numbers::pi);
  const double cost = from_top * from_top + 0.1 * speed * speed + 0.001 * u * u;
  speed += (1.5 * kGravity / kLength * std::sin(angle) + 3 / (kMass * kLength * kLength) * u) * kSeconds;
  speed = std::clamp(speed, -kFastest, kFastest);
  angle += speed * kSeconds;
  ++steps;
  return {static_cast<float>(-cost), false, steps >= kMaxSteps};
}

// ---- copies ----

/// What the members of the team share while they step the copies.
struct Environments::Work {
  Environments& all;
  std::span<const float> actions;
  std::mutex mutex;
  std::exception_ptr thrown;

  static void member(void* context, int member, int members) {
    Work& work = *static_cast<Work*>(context);
    const std::size_t n = work.all.count(), width = static_cast<std::size_t>(work.all.space_.width());
    const std::size_t first = n * static_cast<std::size_t>(member) / static_cast<std::size_t>(members);
    const std::size_t last = n * static_cast<std::size_t>(member + 1) / static_cast<std::size_t>(members);
    try {
      for (std::size_t i = first; i < last; ++i) work.all.step_one(i, work.actions.subspan(i * width, width));
    } catch (...) {
      const std::lock_guard lock(work.mutex);
      if (!work.thrown) work.thrown = std::current_exception();
    }
  }
};

Environments::Environments(const Space& space, int count, std::uint64_t seed, int threads)
    : space_(space), threads_(threads == 0 ? default_threads() : threads) {
  if (count < 1) throw Error(fmt::format("Environments: {} copies; expected at least 1", count));
  if (threads < 0 || threads > kMaxThreads)
    throw Error(
        fmt::format("Environments: {} threads; expected 0 (as many as a step uses) to {}", threads, kMaxThreads));
  const auto n = static_cast<std::size_t>(count), width = static_cast<std::size_t>(space.observation);
  for (std::size_t i = 0; i < n; ++i) random_.push_back(Rng::stream(seed, i));
  now_.resize(n * width);
  arrived_.resize(n * width);
  outcomes_.resize(n);
  so_far_.resize(n);
  threads_ = std::min(threads_, count);
}

Environments::Environments(const Space& space, std::vector<std::unique_ptr<Environment>> copies, std::uint64_t seed,
                           int threads)
    : Environments(space, static_cast<int>(copies.size()), seed, threads) {
  copies_ = std::move(copies);
  begin();
}

Environments::~Environments() = default;
Environments::Environments(Environments&&) noexcept = default;

void Environments::begin() {
  for (std::size_t i = 0; i < count(); ++i) {
    copies_[i]->reset(random_[i]);
    observe(i);
  }
}

void Environments::observe(std::size_t i) {
  const auto width = static_cast<std::size_t>(space_.observation);
  float* const now = now_.data() + i * width;
  copies_[i]->observe(now);
  for (std::size_t k = 0; k < width; ++k)
    if (!std::isfinite(now[k]))
      throw Error(fmt::format("Environments: number {} of what copy {} observes is {}", k, i, text::shown(now[k])));
}

void Environments::step_one(std::size_t i, std::span<const float> action) {
  const auto width = static_cast<std::size_t>(space_.observation);
  float* const now = now_.data() + i * width;
  outcomes_[i] = copies_[i]->step(action);
  if (!std::isfinite(outcomes_[i].reward))
    throw Error(fmt::format("Environments: the reward of copy {} is {}", i, text::shown(outcomes_[i].reward)));
  so_far_[i] += outcomes_[i].reward;
  observe(i);
  std::copy_n(now, width, arrived_.data() + i * width);
  if (!outcomes_[i].over()) return;
  copies_[i]->reset(random_[i]);
  observe(i);
}

void Environments::step(std::span<const float> actions) {
  if (actions.size() != count() * static_cast<std::size_t>(space_.width()))
    throw Error(fmt::format("Environments: {} numbers of actions for {} copies that take {} each", actions.size(),
                            count(), space_.width()));
  Work work{*this, actions, {}, nullptr};
  if (threads_ > 1) {
    ThreadTeam::shared().reserve(threads_);
    ThreadTeam::shared().run(threads_, Work::member, &work);
  } else {
    Work::member(&work, 0, 1);
  }
  if (work.thrown) std::rethrow_exception(work.thrown);
  for (std::size_t i = 0; i < count(); ++i)
    if (outcomes_[i].over()) {
      returns_.push_back(so_far_[i]);
      so_far_[i] = 0;
    }
}

std::vector<double> Environments::take_returns() { return std::exchange(returns_, {}); }

}  // namespace wr::rl
