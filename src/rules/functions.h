// The functions and semantics that the language knows by name, in one table each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "windrow/rules.h"

namespace wr::rules {

struct Function {
  std::string_view name;
  std::string_view signature;
  int fewest, most;  // arguments of a call; most 0: an aggregate alone
  bool aggregate;    // sum(i: ...)
};

/// nullptr if there is none.
const Function* find_function(std::string_view name);
std::vector<std::string_view> function_names();
/// "boolean, product, ..."
std::string semantics_names();
/// The implications that a constraint can choose.
bool is_implication(std::string_view name);
std::string implication_names();
/// The candidate nearest to a name that is none of them, or "" if none is near: for "did you mean".
template <class Names>
std::string nearest(std::string_view name, const Names& candidates);
/// How many letters are put in, left out, changed, or exchanged with their neighbour.
int edit_distance(std::string_view a, std::string_view b);

template <class Names>
std::string nearest(std::string_view name, const Names& candidates) {
  std::string best;
  int least = static_cast<int>(name.size() + 1) / 3;  // of short names nothing is near
  for (const auto& candidate : candidates)
    if (const int d = edit_distance(name, candidate); d <= least && !(d == least && !best.empty())) {
      least = d;
      best = candidate;
    }
  return best;
}

}  // namespace wr::rules
