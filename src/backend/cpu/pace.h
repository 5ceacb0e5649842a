// How many threads a run takes of those it may. On a busy machine the members of a team wait for one that has lost its
// core, and fewer are faster. Results do not depend on it, so it may change from run to run.
#pragma once

#include <array>
#include <chrono>

namespace wr::cpu {

/// Times runs in windows and halves the number of threads while that is no slower. More threads must pay beside what
/// fewer take undisturbed: a process that takes more cores because others take so much of its one would only take from
/// them in turn.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// For the next run, of at most `most` threads.
  int members(int most) noexcept {
    if (most != most_) *this = Pace(most);
    if (most_ > 1) begin_ = Clock::now();
    return most_ >> level_;
  }
  /// The run is over.
  void ran() noexcept {
    if (most_ > 1) ran(Clock::now() - begin_);
  }
  void ran(Clock::duration time) noexcept;

  Pace() = default;

 private:
  static constexpr Clock::duration kLeastPatience = std::chrono::milliseconds(20);

  explicit Pace(int most) : most_(most) {}
  void close_window() noexcept;

  int most_ = 0;
  int level_ = 0;                   // most >> level members
  int probed_from_ = -1;            // the level to go back to if this one is no better
  double mean_ = 0;                 // of a run on the level that was probed from
  std::array<double, 11> clean_{};  // the quickest run of the last window, by level; 0: never seen
  Clock::time_point begin_{};
  Clock::duration window_{}, quickest_ = Clock::duration::max();
  int runs_ = 0;
  Clock::duration patience_ = kLeastPatience, waited_{};  // before more threads are tried again
};

}  // namespace wr::cpu
