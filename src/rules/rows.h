// Sets of constants and of tuples, the storage of relations that are true or false. A set of constants is a sorted list
// while it is small and bits in words once that is smaller; of the words only the stretch that is not empty is kept.
#pragma once

#include <bit>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace wr::rules {

using Value = std::uint32_t;  // a constant: its number in its domain

/// A set of constants of one domain.
class Row {
 public:
  bool empty() const { return count_ == 0; }
  std::int64_t count() const { return count_; }
  bool is_bits() const { return bits_; }
  bool contains(Value v) const;
  /// True if it was not there.
  bool insert(Value v);
  /// All of another row, which may be this one.
  void insert(const Row& other);
  /// All of a list that is sorted.
  void insert_sorted(const std::vector<Value>& list);
  void erase(const Row& other);
  void clear();
  /// 0 .. count - 1.
  void fill(std::int64_t count);
  /// What all of the rows have, none of the others; out may be none of them.
  static void meet(const std::vector<const Row*>& all, const std::vector<const Row*>& none, Row& out);
  static bool meets(const std::vector<const Row*>& all, const std::vector<const Row*>& none);

  /// Calls fn(value) in rising order; stops where it gives false.
  template <class Fn>
  bool each(Fn&& fn) const {
    if (!bits_) {
      for (Value v : list_)
        if (!fn(v)) return false;
      return true;
    }
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::uint64_t word = words_[w]; word != 0; word &= word - 1)
        if (!fn(static_cast<Value>((first_ + w) * 64 + static_cast<std::size_t>(std::countr_zero(word))))) return false;
    return true;
  }
  std::size_t bytes() const { return list_.capacity() * sizeof(Value) + words_.capacity() * sizeof(std::uint64_t); }

 private:
  void to_bits();
  void cover(std::size_t first, std::size_t last);  // words, last excluded
  void recount();

  std::vector<Value> list_;
  std::vector<std::uint64_t> words_;
  std::size_t first_ = 0;  // the number of words_[0]
  std::int64_t count_ = 0;
  bool bits_ = false;
};

/// A set of tuples with their columns in one order, to be walked column by column: for each prefix the constants that
/// go on from it.
class Trie {
 public:
  explicit Trie(std::vector<std::int64_t> sizes = {});
  int arity() const { return static_cast<int>(sizes_.size()); }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// The constants in column `level` of the tuples that begin with these `level` values; nullptr for none.
  const Row* row(int level, const Value* prefix) const;
  bool contains(const Value* tuple) const;
  bool insert(const Value* tuple);
  /// A whole row of last constants.
  void insert(const Value* prefix, const Row& last);
  std::int64_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  void clear();
  /// Calls fn(prefix, row) for every row of the last column, in rising order of prefixes where it matters not.
  template <class Fn>
  void each_row(Fn&& fn) const {
    if (sizes_.empty()) return;
    std::vector<Value> prefix(sizes_.size());
    walk(0, prefix, fn);
  }
  template <class Fn>
  void each(Fn&& fn) const {
    if (sizes_.empty()) {
      if (count_ > 0) fn(static_cast<const Value*>(nullptr));
      return;
    }
    each_row([&](std::vector<Value>& tuple, const Row& last) {
      last.each([&](Value v) {
        tuple.back() = v;
        fn(static_cast<const Value*>(tuple.data()));
        return true;
      });
    });
  }
  Row& last_row(const Value* prefix);
  void rows_changed(std::int64_t by) { count_ += by; }
  std::size_t bytes() const;

 private:
  struct Level {
    bool direct = true;  // prefixes are numbered: rows stand in a vector; else they are looked up
    std::vector<Row> rows;
    std::unordered_map<std::uint64_t, Row> found;
  };
  std::uint64_t number(int level, const Value* prefix) const;
  Row& row_for(int level, const Value* prefix);
  template <class Fn>
  void walk(int level, std::vector<Value>& prefix, Fn& fn) const {
    const Row* here = row(level, prefix.data());
    if (here == nullptr || here->empty()) return;
    if (level + 1 == arity()) {
      fn(prefix, *here);
      return;
    }
    here->each([&](Value v) {
      prefix[level] = v;
      walk(level + 1, prefix, fn);
      return true;
    });
  }

  std::vector<std::int64_t> sizes_;
  std::vector<Level> levels_;
  std::int64_t count_ = 0;
};

}  // namespace wr::rules
