// A search among circuits whose wires may change too.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/automaton/rollout.h"
#include "windrow/circuit.h"

namespace wr::apps {

struct MendOptions {
  std::int64_t looks = 200;  // at most
  std::uint64_t seed = 1;
  bool wires = true;
};

/// Gates that are to change for as few cells as possible to be wrong. The rollout has them afterwards.
std::int64_t mend(BitRollout& rollout, const MendOptions& options);

}  // namespace wr::apps
