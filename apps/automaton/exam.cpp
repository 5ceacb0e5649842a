#include "apps/automaton/exam.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "windrow/rl.h"

namespace wr::apps {
namespace {

using logic::BitGrids;
constexpr std::int64_t kGrids = 64;  // a word's bits
constexpr std::int64_t kMostBytes = std::int64_t{1} << 27;

/// [channels, grids * cells] as bits, of at most 64 grids from `first` on.
BitGrids bits_of(const Array& states, const AutomatonSettings& s, std::int64_t first, std::int64_t count) {
  const auto channels = states.size(0), size = s.height * s.width, all = states.size(1);
  const Array values = states.astype(DType::f32);
  const float* value = values.data<float>();
  BitGrids bits(channels, s.height, s.width);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t g = 0; g < count; ++g)
      for (std::int64_t i = 0; i < size; ++i)
        if (value[c * all + (first + g) * size + i] > 0.5f) bits.row(c, 0)[i] |= std::uint64_t{1} << g;
  return bits;
}

/// [channels, grids * cells], each grid for itself.
std::vector<logic::BitGrid> bit_grids_of(const Array& states, const AutomatonSettings& s) {
  const Array values = states.astype(DType::f32);
  const float* value = values.data<float>();
  const auto channels = states.size(0), count = states.size(1) / (s.height * s.width);
  std::vector<logic::BitGrid> grids(static_cast<std::size_t>(count), logic::BitGrid(channels, s.height, s.width));
  for (std::int64_t c = 0; c < channels; ++c)
    for (logic::BitGrid& grid : grids)
      for (std::int64_t y = 0; y < s.height; ++y)
        for (std::int64_t x = 0; x < s.width; ++x) grid.set(c, y, x, *value++ > 0.5f);
  return grids;
}

/// Each bit is 1 with this probability.
std::uint64_t random_bits(double probability, Rng& rng) {
  std::uint64_t word = 0;
  for (int bit = 0; bit < 64; ++bit) word |= std::uint64_t{rng.uniform() < probability} << bit;
  return word;
}

}  // namespace

AutomatonExam::AutomatonExam(const AutomatonTask& task, const AutomatonSettings& settings, std::uint64_t number)
    : settings_(settings), target_channels_(task.target_channels()), settles_(task.all_grids() == 0) {
  const bool repeat = settings.fire < 1;  // one start goes many ways
  const std::int64_t all = repeat || task.all_grids() == 0 ? kGrids : task.all_grids();
  const auto batch = task.all_grids() == all ? task.all() : task.batch(number, all);
  starts_ = bit_grids_of(batch.start, settings);
  targets_ = bit_grids_of(batch.target, settings);
  if (all == 1) return;
  for (std::int64_t first = 0; first < all; first += kGrids) {
    const auto count = std::min(kGrids, all - first);
    grids_.push_back({bits_of(batch.start, settings, first, count), bits_of(batch.target, settings, first, count),
                      count == kGrids ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1});
  }
  if (!repeat) return;
  Rng rng(number);
  fires_.resize(static_cast<std::size_t>(settings.steps));
  for (auto& of_step : fires_)
    for (std::int64_t i = 0; i < settings.height * settings.width; ++i)
      of_step.push_back(random_bits(settings.fire, rng));
}

std::int64_t AutomatonExam::badness(const logic::Automaton& automaton, const logic::Functions& functions) {
  const AutomatonSettings& s = settings_;
  if (grids_.empty() && !rollout_ && BitRollout::bytes(automaton, 1, s.height, s.width, s.steps) <= kMostBytes)
    rollout_.emplace(automaton, starts_, targets_, s.steps, border_of(s));
  if (rollout_) return rollout_->wrong(functions);
  const Wrong wrong = count(logic::circuit_of(automaton, functions));
  if (wrong.last == 0 || !settles_) return wrong.last;
  return 4 * wrong.last + wrong.before;
}

std::optional<Mended> AutomatonExam::mend(const logic::Automaton& automaton, const MendOptions& options) const {
  constexpr std::int64_t kMostGrids = 8, kTimes = 3;  // what it needs beside the rollout is not twice as much
  const AutomatonSettings& s = settings_;
  const auto bytes = [&](std::int64_t grids) {
    return kTimes * BitRollout::bytes(automaton, grids, s.height, s.width, s.steps);
  };
  if (s.fire < 1 || bytes(1) > kMostBytes) return std::nullopt;
  std::vector<logic::BitGrid> starts = starts_, targets = targets_;
  while (std::ssize(starts) > kMostGrids || bytes(std::ssize(starts)) > kMostBytes) {
    starts.pop_back();
    targets.pop_back();
  }
  BitRollout rollout(automaton, starts, targets, s.steps, border_of(s));
  Mended found = apps::mend(rollout, options);
  found.wrong = wrong(rollout.circuit());
  return found;
}

AutomatonExam::Wrong AutomatonExam::count(const logic::Circuit& circuit) const {
  logic::BitAutomaton automaton(logic::without_unseen_channels(circuit, target_channels_));
  const Border border = border_of(settings_);
  Wrong wrong;
  if (grids_.empty()) {
    logic::BitGrid now = starts_[0], next = now;
    for (std::int64_t step = 0; step < settings_.steps; ++step) {
      automaton.step(now, next, border);
      std::swap(now, next);
    }
    for (std::int64_t c = 0; c < target_channels_; ++c)
      for (std::int64_t y = 0; y < settings_.height; ++y)
        for (std::int64_t x = 0; x < settings_.width; ++x) wrong.last += now.get(c, y, x) != targets_[0].get(c, y, x);
    return wrong;
  }
  for (const Grids& g : grids_) {
    BitGrids now = g.start, next = now;
    for (std::int64_t step = 0; step < settings_.steps; ++step) {
      if (step == settings_.steps * 3 / 4) wrong.before += wrong_cells(now, g);
      automaton.step(now, next, border);
      if (!fires_.empty()) keep_unfired(now, next, static_cast<std::size_t>(step));
      std::swap(now, next);
    }
    wrong.last += wrong_cells(now, g);
  }
  return wrong;
}

std::int64_t AutomatonExam::wrong_cells(const BitGrids& now, const Grids& grids) const {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < target_channels_ * settings_.height * settings_.width; ++i)
    wrong += std::popcount((now.row(0, 0)[i] ^ grids.target.row(0, 0)[i]) & grids.used);
  return wrong;
}

void AutomatonExam::keep_unfired(const BitGrids& before, BitGrids& after, std::size_t step) const {
  for (std::int64_t c = 0; c < settings_.channels; ++c)
    for (std::size_t i = 0; i < fires_[step].size(); ++i) {
      const std::uint64_t fires = fires_[step][i], old = before.row(c, 0)[i];
      after.row(c, 0)[i] = (after.row(c, 0)[i] & fires) | (old & ~fires);
    }
}

}  // namespace wr::apps
