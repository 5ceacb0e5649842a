// Which gates, at which step and in which cell, a wrong cell at the end hangs on.
#pragma once

#include "apps/automaton/rollout.h"

namespace wr::apps {

/// A cell of one of the target's channels.
struct Spot {
  std::size_t channel, word;
  Word bit;
};

/// Going back from cells at the end: for each gate of a rollout and each step, in which cells another value of that
/// gate would change one of them. Where a change goes several ways, ways that meet are counted modulo 2, so this is
/// right to first order, not always.
class Blame {
 public:
  explicit Blame(BitRollout& rollout);
  void clear();
  /// Adds the positions that an odd number of these cells hangs on.
  void add(const std::vector<Spot>& spots, bool any_way = false);
  /// A plane.
  const Word* of(std::int64_t step, std::size_t gate) const {
    return found_.data() + (static_cast<std::size_t>(step) * gates_ + gate) * words_;
  }

 private:
  void go_back(std::int64_t step, bool any_way);
  void go_to_step_before(bool any_way);
  Word* at(std::size_t wire) { return of_wires_.data() + wire * words_; }

  BitRollout& rollout_;
  std::size_t gates_, words_;
  std::vector<Word> found_;                  // by step and gate
  std::vector<Word> of_wires_;               // in one step
  std::vector<std::uint8_t> any_;            // of these, whether they are not 0
  std::vector<Plane> of_channels_;           // after that step
  std::vector<Word> made_;
};

}  // namespace wr::apps
