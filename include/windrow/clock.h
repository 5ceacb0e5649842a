// Time that passes, for rates and for what is left.
#pragma once

#include <chrono>

namespace wr {

/// Seconds on a clock that only goes forward, from some moment in the past.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace wr
