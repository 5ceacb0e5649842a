// The search for the cheapest order of contraction.
#include "passes/contraction_order.h"

#include <bit>
#include <limits>

#include "windrow/shape.h"

namespace wr::passes {
namespace {

constexpr int kMostForExactSearch = 8;  // 3^8 splits
constexpr double kNever = std::numeric_limits<double>::infinity();
// An elementwise product on the result of a contraction runs while that is at hand; one that must be formed before a
// contraction is a pass through memory of its own, worth about so many multiplications.
constexpr double kPass = 8;

struct Cost {
  double arithmetic = kNever, memory = 0;
  friend bool operator<(const Cost& a, const Cost& b) {
    return a.arithmetic != b.arithmetic ? a.arithmetic < b.arithmetic : a.memory < b.memory;
  }
};

/// A value on the way: its labels, and whether it comes out of a contraction.
struct Value {
  std::uint64_t labels = 0;
  bool contracted = false;
};

class Search {
 public:
  explicit Search(const Contraction& c) : c_(c) {}

  double elements(std::uint64_t labels) const {
    double n = 1;
    for (; labels; labels &= labels - 1) n *= static_cast<double>(c_.sizes[std::countr_zero(labels)]);
    return n;
  }

  /// Of combining two values to one with the labels `keep`.
  Cost cost(const Value& a, const Value& b, std::uint64_t keep) const {
    if (std::popcount(keep) > kMaxRank) return {};
    const std::uint64_t all = a.labels | b.labels;
    const double n = elements(all);
    const bool contracts = all != keep;
    return {contracts ? 2 * n : a.contracted || b.contracted ? n : kPass * n, elements(keep)};
  }

 private:
  const Contraction& c_;
};

Cost sum(const Cost& a, const Cost& b, const Cost& c) {
  return {a.arithmetic + b.arithmetic + c.arithmetic, a.memory + b.memory + c.memory};
}

/// Dynamic programming over the sets of operands, as bits.
class ExactSearch : Search {
 public:
  explicit ExactSearch(const Contraction& c)
      : Search(c), n_(static_cast<int>(c.operands.size())), best_(std::size_t{1} << n_) {
    std::vector<std::uint64_t> within(best_.size());
    for (std::size_t set = 1; set < best_.size(); ++set)
      within[set] = within[set & (set - 1)] | c.operands[std::countr_zero(set)];
    for (std::size_t set = 1; set < best_.size(); ++set) {
      best_[set].value.labels = within[set] & (c.result | within[best_.size() - 1 - set]);
      if (std::has_single_bit(set))
        best_[set].cost = {0, 0};
      else
        split(set);
    }
  }

  std::vector<Step> order() const {
    std::vector<Step> steps;
    if (best_.back().cost.arithmetic != kNever) emit(best_.size() - 1, steps);
    return steps;
  }

 private:
  struct Entry {
    Value value;
    Cost cost;
    std::size_t left = 0;
  };

  void split(std::size_t set) {
    Entry& entry = best_[set];
    const std::size_t lowest = set & (~set + 1);
    for (std::size_t left = (set - 1) & set; left; left = (left - 1) & set) {
      if (!(left & lowest)) continue;  // the other half has been seen
      const Entry &a = best_[left], &b = best_[set ^ left];
      const Cost total = sum(a.cost, b.cost, cost(a.value, b.value, entry.value.labels));
      if (!(total < entry.cost)) continue;
      entry.cost = total;
      entry.left = left;
      entry.value.contracted = (a.value.labels | b.value.labels) != entry.value.labels;
    }
  }

  int emit(std::size_t set, std::vector<Step>& steps) const {
    if (std::has_single_bit(set)) return std::countr_zero(set);
    const int left = emit(best_[set].left, steps), right = emit(set ^ best_[set].left, steps);
    steps.push_back({left, right});
    return n_ + static_cast<int>(steps.size()) - 1;
  }

  int n_;
  std::vector<Entry> best_;
};

std::vector<Step> greedy_order(const Contraction& c) {
  const Search search(c);
  std::vector<Value> values;
  std::vector<int> left;
  for (std::uint64_t labels : c.operands) {
    left.push_back(static_cast<int>(values.size()));
    values.push_back({labels, false});
  }
  std::vector<Step> steps;
  while (left.size() > 1) {
    Cost best;
    Step step{-1, -1};
    Value made;
    for (std::size_t i = 0; i < left.size(); ++i)
      for (std::size_t j = i + 1; j < left.size(); ++j) {
        std::uint64_t needed = c.result;
        for (std::size_t k = 0; k < left.size(); ++k)
          if (k != i && k != j) needed |= values[left[k]].labels;
        const Value &a = values[left[i]], &b = values[left[j]];
        const std::uint64_t keep = (a.labels | b.labels) & needed;
        const Cost cost = search.cost(a, b, keep);
        if (!(cost < best)) continue;
        best = cost;
        step = {left[i], left[j]};
        made = {keep, keep != (a.labels | b.labels)};
      }
    if (step.left < 0) return {};
    std::erase(left, step.left);
    std::erase(left, step.right);
    left.push_back(static_cast<int>(values.size()));
    values.push_back(made);
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

std::vector<Step> contraction_order(const Contraction& contraction) {
  return contraction.operands.size() <= kMostForExactSearch ? ExactSearch(contraction).order()
                                                            : greedy_order(contraction);
}

}  // namespace wr::passes
