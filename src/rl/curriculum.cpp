// How far from the goal episodes begin.
#include <fmt/format.h>

#include <numeric>

#include "windrow/error.h"
#include "windrow/rl.h"

namespace wr::rl {

Curriculum::Curriculum(const CurriculumOptions& options) : options_(options), depth_(options.first) {
  if (options.thresholds.empty() || options.window < 1 || !(options.step > 0) || !(options.first <= options.last))
    throw Error(fmt::format("curriculum: from {} to {} by {}, window {}, {} thresholds: expected a rise and a window",
                            options.first, options.last, options.step, options.window, options.thresholds.size()));
}

int Curriculum::draw(Rng& rng) const {
  const double whole = std::floor(depth_ + 1e-9), rest = depth_ - whole;
  return static_cast<int>(whole) + (rng.uniform() < rest ? 1 : 0);
}

void Curriculum::record(bool success) {
  if (static_cast<std::int64_t>(outcomes_.size()) < options_.window) {
    outcomes_.push_back(success);
  } else {
    outcomes_[next_] = success;
    next_ = (next_ + 1) % outcomes_.size();
  }
  // A fractional step needs proportionally fewer episodes of evidence: the way to the last depth stays as long.
  const auto enough = static_cast<double>(options_.window) * std::min(1.0, options_.step);
  if (depth_ >= options_.last || static_cast<double>(outcomes_.size()) < enough) return;
  const auto level = static_cast<std::size_t>(std::max(1.0, std::floor(depth_ + 1e-9))) - 1;
  if (this->success() < options_.thresholds[std::min(level, options_.thresholds.size() - 1)]) return;
  depth_ = std::min(options_.last, depth_ + options_.step);
  outcomes_.clear();
  next_ = 0;
}

double Curriculum::success() const {
  if (outcomes_.empty()) return 0;
  return std::accumulate(outcomes_.begin(), outcomes_.end(), 0.0) / static_cast<double>(outcomes_.size());
}

std::vector<std::uint8_t> Curriculum::outcomes() const {
  std::vector<std::uint8_t> list = outcomes_;
  std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(next_), list.end());
  return list;
}

void Curriculum::restore(double depth, std::vector<std::uint8_t> outcomes) {
  if (!(depth >= options_.first && depth <= options_.last) ||
      static_cast<std::int64_t>(outcomes.size()) > options_.window)
    throw Error(fmt::format("curriculum: depth {} and {} outcomes do not fit", depth, outcomes.size()));
  depth_ = depth;
  outcomes_ = std::move(outcomes);
  next_ = 0;
}

}  // namespace wr::rl
