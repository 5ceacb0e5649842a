// The memory planner.
#include "plan/memory.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace wr::plan {
namespace {

constexpr std::size_t kAlign = 64;
// Placing by size looks at every pair: beyond this many values it would take most of the time of a compilation.
constexpr std::size_t kMostBySize = 4096;

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

/// Memory that is handed out and given back: the smallest free piece that is large enough, else more at the end.
class FreeList {
 public:
  std::size_t take(std::size_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit != by_size_.end()) {
      const auto [size, offset] = *fit;
      remove(offset, size);
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    std::size_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [last, size] = *by_offset_.rbegin();
      if (last + size == end_) remove(offset = last, size);
    }
    end_ = offset + bytes;
    return offset;
  }
  void give_back(std::size_t offset, std::size_t bytes) {
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [before, size] = *std::prev(after);
      if (before + size == offset) {
        remove(before, size);
        offset = before;
        bytes += size;
      }
    }
    const auto next = by_offset_.find(offset + bytes);
    if (next != by_offset_.end()) {
      const std::size_t size = next->second;
      remove(offset + bytes, size);
      bytes += size;
    }
    add(offset, bytes);
  }
  std::size_t end() const { return end_; }

 private:
  void add(std::size_t offset, std::size_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void remove(std::size_t offset, std::size_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }
  std::map<std::size_t, std::size_t> by_offset_;
  std::set<std::pair<std::size_t, std::size_t>> by_size_;
  std::size_t end_ = 0;
};

/// In the order of time, as they come and go. Little more memory than by decreasing size, in n log n.
std::size_t assign_in_time(std::vector<Lifetime>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return std::pair(values[a].begin, values[b].bytes) < std::pair(values[b].begin, values[a].bytes);
  });
  using Ending = std::pair<int, std::size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> live;
  FreeList memory;
  for (const std::size_t i : order) {
    for (; !live.empty() && live.top().first < values[i].begin; live.pop())
      memory.give_back(values[live.top().second].offset, rounded(values[live.top().second].bytes));
    if (values[i].bytes == 0) {
      values[i].offset = 0;
      continue;
    }
    values[i].offset = memory.take(rounded(values[i].bytes));
    live.push({values[i].end, i});
  }
  return memory.end();
}

}  // namespace

MemoryUse assign_offsets(std::vector<Lifetime>& values) {
  if (values.size() > kMostBySize) {
    const std::size_t bytes = assign_in_time(values);
    return {bytes, most_at_once(values)};
  }
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
