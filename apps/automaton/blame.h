// On which gates, in which steps and cells, what is shown at the end hangs.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/automaton/rollout.h"

namespace wr::apps {

/// A cell of one of the channels that are shown.
struct Spot {
  std::size_t channel, word;
  Word bit;
};

/// Going back from cells at the end: for each gate of a rollout and each step, in which cells another value of that
/// gate alone would change one of them. A change may go several ways that meet again, and then this is not always
/// right.
class Blame {
 public:
  /// Ways that meet: one of two cancels the other, or either is enough.
  enum class Ways { cancel, add_up };

  explicit Blame(const BitRollout& rollout);
  void clear();
  /// Adds what these cells hang on.
  void add(const std::vector<Spot>& spots, Ways ways);
  /// A plane, of what drives a wire in a step.
  const Word* of(std::int64_t step, std::size_t wire) const {
    return found_.data() + (static_cast<std::size_t>(step) * gates_ + wire - inputs_) * words_;
  }

 private:
  void go_back(std::int64_t step, Ways ways);
  void go_to_step_before(Ways ways);
  Word* at(std::size_t wire) { return of_wires_.data() + wire * words_; }

  const BitRollout& rollout_;
  Frame frame_;
  std::size_t inputs_, gates_, words_;
  std::vector<Word> found_;            // by step and gate
  std::vector<Word> of_wires_;         // in one step
  std::vector<std::uint8_t> any_;      // whether there is something of a wire
  std::vector<CellBits> of_channels_;  // after that step
  std::vector<Word> made_;
};

}  // namespace wr::apps
