// What a circuit does to one grid over some steps, for searches that ask it thousands of times.
#pragma once

#include <cstdint>
#include <memory>

#include "windrow/circuit.h"

namespace wr::apps {

/// What hard gates make of one grid in some steps. Asked again with a few other gates, it computes what changes and
/// nothing else: for searches that try one change after the other.
class BitRollout {
 public:
  BitRollout(const logic::Automaton& automaton, const logic::BitGrid& start, const logic::BitGrid& target,
             std::int64_t steps, Border border);
  ~BitRollout();
  BitRollout(BitRollout&&) noexcept;
  BitRollout& operator=(BitRollout&&) noexcept;
  /// Wrong cells of the target's channels after the last step.
  std::int64_t wrong(const logic::Functions& functions);
  /// What it takes of memory.
  static std::int64_t bytes(const logic::Automaton& automaton, std::int64_t height, std::int64_t width,
                            std::int64_t steps);

 private:
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace wr::apps
