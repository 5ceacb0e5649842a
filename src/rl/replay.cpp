// Sampling of replay: the sum tree and priorities.
#include <fmt/format.h>

#include "windrow/error.h"
#include "windrow/rl.h"

namespace wr::rl {
namespace {

constexpr double kUnit = 1 << 20;     // a priority of 1
constexpr double kGreatest = 0x1p36;  // with 2^27 entries the sum still fits
constexpr std::int64_t kMostEntries = 1 << 27;
constexpr float kLeastError = 1e-3f;  // nothing is never looked at again

}  // namespace

// ---- sum tree ----

SumTree::SumTree(std::int64_t leaves) {
  if (leaves < 1 || leaves > kMostEntries)
    throw Error(fmt::format("SumTree: leaves is {}, expected 1 to {}", leaves, kMostEntries));
  std::vector<std::size_t> sizes;  // bottom first
  std::size_t nodes = static_cast<std::size_t>(leaves);
  do {
    nodes = (nodes + kFan - 1) / kFan;
    sizes.push_back(nodes * kFan);
  } while (nodes > 1);
  for (std::size_t i = sizes.size(); i-- > 0;) levels_.emplace_back(sizes[i]);
}

std::uint64_t SumTree::get(std::int64_t leaf) const {
  const auto i = static_cast<std::size_t>(leaf);
  return levels_.back()[i] - (i % kFan ? levels_.back()[i - 1] : 0);
}

void SumTree::set(std::int64_t leaf, std::uint64_t weight) {
  const std::uint64_t change = weight - get(leaf);  // modulo 2^64, so it may be negative
  if (change == 0) return;
  auto i = static_cast<std::size_t>(leaf);
  for (std::size_t level = levels_.size(); level-- > 0; i /= kFan) {
    std::uint64_t* node = levels_[level].data() + i / kFan * kFan;
    const std::size_t child = i % kFan;
    for (std::size_t k = 0; k < kFan; ++k) node[k] += k >= child ? change : 0;
  }
}

void SumTree::find(std::span<const std::uint64_t> points, std::span<std::int64_t> leaves) const {
  constexpr std::size_t kTogether = 64;  // level by level for many points: their cache misses overlap
  std::array<std::uint64_t, kTogether> rest;
  std::array<std::size_t, kTogether> node;
  for (std::size_t first = 0; first < points.size(); first += kTogether) {
    const std::size_t count = std::min(kTogether, points.size() - first);
    for (std::size_t p = 0; p < count; ++p) {
      rest[p] = points[first + p];
      node[p] = 0;
    }
    for (const std::vector<std::uint64_t>& level : levels_) {
      for (std::size_t p = 0; p < count; ++p) {
        const std::uint64_t* sums = level.data() + node[p] * kFan;
        std::uint64_t child = 0;
        for (std::size_t k = 0; k + 1 < kFan; ++k) child += sums[k] <= rest[p];
        rest[p] -= child ? sums[child - 1] : 0;
        node[p] = node[p] * kFan + child;
      }
    }
    for (std::size_t p = 0; p < count; ++p) leaves[first + p] = static_cast<std::int64_t>(node[p]);
  }
}

// ---- sampler ----

Sampler::Sampler(const ReplayOptions& options)
    : options_(options),
      tree_(options.prioritised ? options.capacity : 1),
      greatest_(static_cast<std::uint64_t>(kUnit)) {
  if (options.capacity < 1 || options.capacity > kMostEntries)
    throw Error(fmt::format("replay: capacity is {}, expected 1 to {}", options.capacity, kMostEntries));
}

std::int64_t Sampler::place_for_new() {
  const std::int64_t place = next_;
  next_ = next_ + 1 == options_.capacity ? 0 : next_ + 1;
  size_ = std::min(size_ + 1, options_.capacity);
  if (options_.prioritised) tree_.set(place, greatest_);
  return place;
}

std::uint64_t Sampler::priority(float error) const {
  const double p = std::pow(static_cast<double>(std::abs(error) + kLeastError), options_.alpha);
  return static_cast<std::uint64_t>(std::clamp(p * kUnit, 1.0, kGreatest));
}

void Sampler::sample(Rng& rng, double beta, std::span<std::int64_t> entries, std::span<float> weights) {
  if (size_ == 0) throw Error("replay: nothing to sample from");
  if (!options_.prioritised) {
    for (std::int64_t& e : entries) e = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(size_)));
    std::fill(weights.begin(), weights.end(), 1.0f);
    return;
  }
  // One point in each of equal parts of the whole: less chance, same expectation.
  const auto total = static_cast<double>(tree_.total());
  const double part = total / static_cast<double>(entries.size());
  points_.resize(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const double at = (static_cast<double>(i) + rng.uniform()) * part;
    points_[i] = std::min(static_cast<std::uint64_t>(at), tree_.total() - 1);
  }
  tree_.find(points_, entries);
  float greatest = 0;
  const double mean = total / static_cast<double>(size_);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    weights[i] = static_cast<float>(std::pow(mean / static_cast<double>(tree_.get(entries[i])), beta));
    greatest = std::max(greatest, weights[i]);
  }
  for (float& w : weights) w /= greatest;
}

void Sampler::update(std::span<const std::int64_t> entries, std::span<const float> errors) {
  if (!options_.prioritised) return;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint64_t p = priority(errors[i]);
    greatest_ = std::max(greatest_, p);
    tree_.set(entries[i], p);
  }
}

Sampler::State Sampler::state() const {
  State s{size_, next_, greatest_, {}};
  if (options_.prioritised)
    for (std::int64_t i = 0; i < size_; ++i) s.priorities.push_back(tree_.get(i));
  return s;
}

void Sampler::restore(const State& state) {
  const auto priorities = static_cast<std::int64_t>(state.priorities.size());
  if (state.size < 0 || state.size > options_.capacity || state.next < 0 || state.next >= options_.capacity ||
      priorities != (options_.prioritised ? state.size : 0)) {
    throw Error(fmt::format("replay: {} entries, next {}, {} priorities do not fit a capacity of {}", state.size,
                            state.next, priorities, options_.capacity));
  }
  for (const std::uint64_t p : state.priorities)
    if (p < 1 || p > static_cast<std::uint64_t>(kGreatest)) throw Error(fmt::format("replay: {} is no priority", p));
  tree_ = SumTree(options_.prioritised ? options_.capacity : 1);
  size_ = state.size;
  next_ = state.next;
  greatest_ = state.greatest;
  for (std::int64_t i = 0; i < priorities; ++i) tree_.set(i, state.priorities[i]);
}

}  // namespace wr::rl
