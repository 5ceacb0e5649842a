// The word that was probably meant: for "did you mean".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace wr {

/// How many letters are put in, left out, changed, or exchanged with their neighbour; 64 for longer words that differ.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to a name that is none of them, or "" if none is near.
template <class Names>
std::string nearest(std::string_view name, const Names& candidates) {
  std::string best;
  int least = std::min(3, static_cast<int>(name.size() + 1) / 3);  // of short names nothing is near
  for (const auto& candidate : candidates)
    if (const int d = edit_distance(name, candidate); d < least || (d == least && best.empty())) {
      least = d;
      best = candidate;
    }
  return best;
}

}  // namespace wr
