#include "apps/automaton/kinds.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "windrow/random.h"

namespace wr::apps {

std::vector<std::uint64_t> kinds_of(const BitRollout& rollout) {
  std::vector<std::uint64_t> kinds(static_cast<std::size_t>(rollout.steps()) * rollout.words() * 64, 0);
  Rng keys(1);
  for (std::size_t number = 0; number < rollout.wires_before(0); ++number) {
    const std::uint64_t key = keys.bits();
    std::uint64_t* kind = kinds.data();
    for (std::int64_t step = 0; step < rollout.steps(); ++step) {
      const Word* bits = rollout.value(step, rollout.wire_before(0, number));
      for (std::size_t i = 0; i < rollout.words(); ++i, kind += 64)
        for (Word rest = bits[i] & rollout.frame().inside()[i]; rest != 0; rest &= rest - 1)
          kind[std::countr_zero(rest)] ^= key;
    }
  }
  return kinds;
}

std::int64_t untold_cells(const BitRollout& rollout) {
  struct Shown {
    std::int64_t on = 0, off = 0;
  };
  const std::vector<std::uint64_t> kinds = kinds_of(rollout);
  const std::size_t words = rollout.words();
  const std::uint64_t* last = kinds.data() + static_cast<std::size_t>(rollout.steps() - 1) * words * 64;
  std::int64_t untold = 0;
  for (const CellBits& target : rollout.targets()) {
    std::unordered_map<std::uint64_t, Shown> by_kind;
    for (std::size_t i = 0; i < words; ++i)
      for (Word rest = rollout.frame().inside()[i]; rest != 0; rest &= rest - 1) {
        const int bit = std::countr_zero(rest);
        Shown& shown = by_kind[last[64 * i + static_cast<std::size_t>(bit)]];
        ++((target[i] >> bit & 1) != 0 ? shown.on : shown.off);
      }
    for (const auto& [kind, shown] : by_kind) untold += std::min(shown.on, shown.off);
  }
  return untold;
}

}  // namespace wr::apps
