// The memory planner.
#include "plan/memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace wr::plan {
namespace {

constexpr std::size_t kAlign = 64;

std::size_t rounded(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

std::size_t most_at_once(const std::vector<Lifetime>& values) {
  std::vector<std::pair<int, std::ptrdiff_t>> changes;
  for (const Lifetime& v : values) {
    changes.emplace_back(v.begin, static_cast<std::ptrdiff_t>(rounded(v.bytes)));
    changes.emplace_back(v.end + 1, -static_cast<std::ptrdiff_t>(rounded(v.bytes)));
  }
  std::sort(changes.begin(), changes.end());  // at one time, ends (negative) come before beginnings
  std::ptrdiff_t live = 0, most = 0;
  for (auto [time, change] : changes) most = std::max(most, live += change);
  return static_cast<std::size_t>(most);
}

}  // namespace

MemoryUse assign_offsets(std::vector<Lifetime>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return values[a].bytes > values[b].bytes; });
  // By offset, each with what the search looks at side by side: it is the one part that is not linear in the values.
  struct Placed {
    std::size_t offset, end_offset;
    int begin, end;
  };
  std::vector<Placed> placed;
  placed.reserve(values.size());
  MemoryUse use{0, most_at_once(values)};
  for (auto i : order) {
    Lifetime& v = values[i];
    const std::size_t bytes = rounded(v.bytes);
    std::size_t best = std::numeric_limits<std::size_t>::max(), best_gap = best, at = 0;
    for (const Placed& other : placed) {
      if (other.end < v.begin || other.begin > v.end) continue;
      if (other.offset >= at + bytes && other.offset - at < best_gap) {
        best = at;
        best_gap = other.offset - at;
      }
      at = std::max(at, other.end_offset);
    }
    v.offset = best_gap == std::numeric_limits<std::size_t>::max() ? at : best;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), v.offset,
                                   [](std::size_t offset, const Placed& p) { return offset < p.offset; }),
                  {v.offset, v.offset + bytes, v.begin, v.end});
    use.bytes = std::max(use.bytes, v.offset + bytes);
  }
  return use;
}

}  // namespace wr::plan
