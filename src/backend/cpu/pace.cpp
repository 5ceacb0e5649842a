#include "backend/cpu/pace.h"

#include <algorithm>

namespace wr::cpu {
namespace {

constexpr int kWindowRuns = 16;
constexpr auto kWindowTime = std::chrono::milliseconds(20);
constexpr int kMostPatience = 64;
// More threads must take less than this part of the time of fewer.
constexpr double kWorthwhile = 0.9;
// What was seen of fewer threads fades, so that it is looked at again: every few hundred windows, not more often.
constexpr double kFading = 0.998;

}  // namespace

void Pace::ran(Clock::duration time) noexcept {
  window_ += time;
  if (++runs_ < kWindowRuns && window_ < kWindowTime) return;
  close_window(static_cast<double>(window_.count()) / runs_);
  window_ = {};
  runs_ = 0;
}

void Pace::close_window(double mean) noexcept {
  const auto level = static_cast<std::size_t>(level_);
  mean_[level] = mean;
  if (probed_from_ >= 0) {
    const bool fewer = level_ > probed_from_;
    const double before = mean_[static_cast<std::size_t>(probed_from_)];
    const bool better = fewer ? before >= kWorthwhile * mean : mean < kWorthwhile * before;
    patience_ = fewer == better ? std::min(2 * patience_, kMostPatience) : 1;
    if (!better) level_ = probed_from_;
    probed_from_ = -1;
    waited_ = 0;
    return;
  }
  const bool can_halve = most_ >> level_ > 1;
  double& fewer = mean_[level + 1];
  if (can_halve && mean >= kWorthwhile * fewer) {
    probed_from_ = level_++;
  } else if (level_ > 0 && ++waited_ >= patience_) {
    probed_from_ = level_--;
  } else {
    fewer *= kFading;
  }
}

}  // namespace wr::cpu
