#include "rules/rows.h"

#include <algorithm>

namespace wr::rules {
namespace {

// A list of 32-bit constants takes as much room as the words of its stretch would: from here on bits are smaller.
bool bits_pay(std::size_t count, std::size_t words) { return count >= 16 && count >= 2 * words; }

constexpr std::int64_t kDirectRows = std::int64_t{1} << 22;

std::size_t word_of(Value v) { return v / 64; }
std::uint64_t bit_of(Value v) { return std::uint64_t{1} << (v % 64); }

}  // namespace

bool Row::contains(Value v) const {
  if (!bits_) return std::binary_search(list_.begin(), list_.end(), v);
  const std::size_t w = word_of(v) - first_;  // wraps to a large number below the first
  return w < words_.size() && (words_[w] & bit_of(v)) != 0;
}

bool Row::insert(Value v) {
  if (bits_) {
    cover(word_of(v), word_of(v) + 1);
    std::uint64_t& word = words_[word_of(v) - first_];
    if ((word & bit_of(v)) != 0) return false;
    word |= bit_of(v);
    ++count_;
    return true;
  }
  if (!list_.empty() && v > list_.back()) {
    list_.push_back(v);
  } else {
    const auto at = std::lower_bound(list_.begin(), list_.end(), v);
    if (at != list_.end() && *at == v) return false;
    list_.insert(at, v);
  }
  ++count_;
  if (bits_pay(list_.size(), word_of(list_.back()) - word_of(list_.front()) + 1)) to_bits();
  return true;
}

void Row::cover(std::size_t first, std::size_t last) {
  if (words_.empty()) {
    first_ = first;
    words_.resize(last - first);
    return;
  }
  if (first < first_) {
    words_.insert(words_.begin(), first_ - first, 0);
    first_ = first;
  }
  if (last > first_ + words_.size()) words_.resize(last - first_);
}

void Row::to_bits() {
  bits_ = true;
  words_.clear();
  if (!list_.empty()) cover(word_of(list_.front()), word_of(list_.back()) + 1);
  for (Value v : list_) words_[word_of(v) - first_] |= bit_of(v);
  list_ = {};
}

void Row::recount() {
  count_ = 0;
  for (std::uint64_t w : words_) count_ += std::popcount(w);
}

void Row::insert(const Row& other) {
  if (other.empty() || this == &other) return;
  if (!other.bits_) {
    insert_sorted(other.list_);
    return;
  }
  if (!bits_) to_bits();
  cover(other.first_, other.first_ + other.words_.size());
  std::uint64_t* into = words_.data() + (other.first_ - first_);
  for (std::size_t w = 0; w < other.words_.size(); ++w) into[w] |= other.words_[w];
  recount();
}

void Row::insert_sorted(const std::vector<Value>& list) {
  if (list.empty()) return;
  if (list.size() == 1 || bits_) {
    for (Value v : list) insert(v);
    return;
  }
  if (list_.empty() || list.front() > list_.back()) {
    list_.insert(list_.end(), list.begin(), list.end());
  } else {
    std::vector<Value> both;
    both.reserve(list_.size() + list.size());
    std::set_union(list_.begin(), list_.end(), list.begin(), list.end(), std::back_inserter(both));
    list_ = std::move(both);
  }
  count_ = static_cast<std::int64_t>(list_.size());
  if (bits_pay(list_.size(), word_of(list_.back()) - word_of(list_.front()) + 1)) to_bits();
}

void Row::erase(const Row& other) {
  if (empty() || other.empty()) return;
  if (!bits_) {
    std::erase_if(list_, [&](Value v) { return other.contains(v); });
    count_ = static_cast<std::int64_t>(list_.size());
    return;
  }
  if (other.bits_) {
    const std::size_t begin = std::max(first_, other.first_);
    const std::size_t end = std::min(first_ + words_.size(), other.first_ + other.words_.size());
    for (std::size_t w = begin; w < end; ++w) words_[w - first_] &= ~other.words_[w - other.first_];
  } else {
    for (Value v : other.list_)
      if (const std::size_t w = word_of(v) - first_; w < words_.size()) words_[w] &= ~bit_of(v);
  }
  recount();
}

void Row::clear() {
  list_.clear();
  words_.clear();
  first_ = 0;
  count_ = 0;
  bits_ = false;
}

void Row::fill(std::int64_t count) {
  clear();
  if (count == 0) return;
  bits_ = true;
  words_.assign(static_cast<std::size_t>((count + 63) / 64), ~std::uint64_t{0});
  if (count % 64 != 0) words_.back() = (std::uint64_t{1} << (count % 64)) - 1;
  count_ = count;
}

void Row::meet(const std::vector<const Row*>& all, const std::vector<const Row*>& none, Row& out) {
  out.clear();
  const auto* least = *std::min_element(all.begin(), all.end(), [](const Row* a, const Row* b) {
    return a->bits_ != b->bits_ ? !a->bits_ : a->count_ < b->count_;
  });
  if (!least->bits_) {
    for (Value v : least->list_) {
      const auto has = [v](const Row* r) { return r->contains(v); };
      if (std::all_of(all.begin(), all.end(), has) && std::none_of(none.begin(), none.end(), has))
        out.list_.push_back(v);
    }
    out.count_ = static_cast<std::int64_t>(out.list_.size());
    return;
  }
  std::size_t begin = 0, end = ~std::size_t{0};
  for (const Row* r : all) {
    begin = std::max(begin, r->first_);
    end = std::min(end, r->first_ + r->words_.size());
  }
  if (begin >= end) return;
  out.bits_ = true;
  out.first_ = begin;
  out.words_.assign(least->words_.begin() + static_cast<std::ptrdiff_t>(begin - least->first_),
                    least->words_.begin() + static_cast<std::ptrdiff_t>(end - least->first_));
  for (const Row* r : all)
    if (r != least)
      for (std::size_t w = begin; w < end; ++w) out.words_[w - begin] &= r->words_[w - r->first_];
  out.recount();
  for (const Row* r : none) out.erase(*r);
}

bool Row::meets(const std::vector<const Row*>& all, const std::vector<const Row*>& none) {
  if (all.size() == 1 && none.empty()) return !all[0]->empty();
  const auto* least = *std::min_element(all.begin(), all.end(), [](const Row* a, const Row* b) {
    return a->bits_ != b->bits_ ? !a->bits_ : a->count_ < b->count_;
  });
  return !least->each([&](Value v) {
    const auto has = [v](const Row* r) { return r->contains(v); };
    return !(std::all_of(all.begin(), all.end(), has) && std::none_of(none.begin(), none.end(), has));
  });
}

Trie::Trie(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)), levels_(sizes_.size()) {
  std::int64_t prefixes = 1;
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    levels_[l].direct = prefixes <= kDirectRows;
    if (prefixes <= kDirectRows) prefixes *= std::max<std::int64_t>(1, sizes_[l]);
  }
}

std::uint64_t Trie::number(int level, const Value* prefix) const {
  std::uint64_t n = 0;
  for (int i = 0; i < level; ++i) n = n * static_cast<std::uint64_t>(sizes_[i]) + prefix[i];
  return n;
}

const Row* Trie::row(int level, const Value* prefix) const {
  const Level& l = levels_[level];
  const std::uint64_t n = number(level, prefix);
  if (l.direct) return n < l.rows.size() ? &l.rows[n] : nullptr;
  const auto found = l.found.find(n);
  return found == l.found.end() ? nullptr : &found->second;
}

Row& Trie::row_for(int level, const Value* prefix) {
  Level& l = levels_[level];
  const std::uint64_t n = number(level, prefix);
  if (!l.direct) return l.found[n];
  if (n >= l.rows.size()) l.rows.resize(std::max<std::size_t>(n + 1, l.rows.size() * 2));
  return l.rows[n];
}

Row& Trie::last_row(const Value* prefix) {
  for (int l = 0; l + 1 < arity(); ++l) row_for(l, prefix).insert(prefix[l]);
  return row_for(arity() - 1, prefix);
}

bool Trie::contains(const Value* tuple) const {
  if (sizes_.empty()) return count_ > 0;
  const Row* last = row(arity() - 1, tuple);
  return last != nullptr && last->contains(tuple[arity() - 1]);
}

bool Trie::insert(const Value* tuple) {
  if (sizes_.empty()) {
    const bool fresh = count_ == 0;
    count_ = 1;
    return fresh;
  }
  const int last = arity() - 1;
  if (!row_for(last, tuple).insert(tuple[last])) return false;
  for (int l = 0; l < last; ++l) row_for(l, tuple).insert(tuple[l]);
  ++count_;
  return true;
}

void Trie::insert(const Value* prefix, const Row& last) {
  if (last.empty()) return;
  Row& into = last_row(prefix);
  const std::int64_t before = into.count();
  into.insert(last);
  count_ += into.count() - before;
}

void Trie::clear() {
  count_ = 0;
  for (std::size_t level = levels_.size(); level-- > 0;) {
    Level& l = levels_[level];
    l.found.clear();
    if (!l.direct) continue;
    // Only rows that hold something are touched, and they keep their memory: a delta is cleared once an iteration.
    if (level == 0) {
      if (!l.rows.empty()) l.rows[0].clear();
    } else if (level == 1) {
      if (const Row* first = row(0, nullptr))
        first->each([&](Value v) {
          l.rows[v].clear();
          return true;
        });
    } else {
      for (Row& r : l.rows) r.clear();
    }
  }
}

std::size_t Trie::bytes() const {
  std::size_t total = 0;
  for (const Level& l : levels_) {
    total += l.rows.capacity() * sizeof(Row);
    for (const Row& r : l.rows) total += r.bytes();
    for (const auto& [n, r] : l.found) total += sizeof(Row) + 32 + r.bytes();
  }
  return total;
}

}  // namespace wr::rules
