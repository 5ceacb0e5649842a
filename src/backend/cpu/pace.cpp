#include "backend/cpu/pace.h"

#include <algorithm>

namespace wr::cpu {
namespace {

// Another program that takes a core for a moment, a slice of the scheduler's of a few milliseconds, must not look like
// one that stays: a window is much longer than that.
constexpr Pace::Clock::duration kWindowTime = std::chrono::milliseconds(100);
// Fewer threads are tried for a shorter time: that is a loss on a quiet machine, and only the quickest of the runs
// counts.
constexpr int kTrialRuns = 16;
constexpr auto kTrialTime = std::chrono::milliseconds(20);
constexpr Pace::Clock::duration kMostPatience = std::chrono::milliseconds(6400);
// More threads must take less than this part of the time that fewer take undisturbed.
constexpr double kWorthwhile = 0.9;
// What was seen of fewer threads fades, so that it is looked at again: every few hundred windows, not more often.
constexpr double kFading = 0.998;

}  // namespace

void Pace::ran(Clock::duration time) noexcept {
  window_ += time;
  quickest_ = std::min(quickest_, time);
  ++runs_;
  const bool fewer_on_trial = probed_from_ >= 0 && level_ > probed_from_;
  const bool waiting = probed_from_ < 0 && level_ > 0;
  if (fewer_on_trial ? runs_ < kTrialRuns && window_ < kTrialTime
                     : window_ < (waiting ? std::min(kWindowTime, patience_ - waited_) : kWindowTime)) {
    return;
  }
  close_window();
  window_ = {};
  quickest_ = Clock::duration::max();
  runs_ = 0;
}

void Pace::close_window() noexcept {
  const auto level = static_cast<std::size_t>(level_);
  const double mean = static_cast<double>(window_.count()) / runs_;
  clean_[level] = static_cast<double>(quickest_.count());
  if (probed_from_ >= 0) {
    const bool fewer = level_ > probed_from_;
    const bool better = fewer ? mean_ >= kWorthwhile * clean_[level] : mean < kWorthwhile * clean_[level + 1];
    patience_ = fewer == better ? std::min(2 * patience_, kMostPatience) : kLeastPatience;
    if (!better) level_ = probed_from_;
    probed_from_ = -1;
    waited_ = {};
    return;
  }
  mean_ = mean;
  const bool can_halve = most_ >> level_ > 1;
  double& fewer = clean_[level + 1];
  if (can_halve && mean >= kWorthwhile * fewer) {
    probed_from_ = level_++;
  } else if (level_ > 0 && (waited_ += window_) >= patience_) {
    probed_from_ = level_--;
  } else {
    fewer *= kFading;
  }
}

}  // namespace wr::cpu
