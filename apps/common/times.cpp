#include "apps/common/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace wr::apps {

std::string clock_text(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s >= 3600) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} min {} s", s / 60, s % 60);
}

}  // namespace wr::apps
