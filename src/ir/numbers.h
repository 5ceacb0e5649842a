// Whole numbers that do not change. Copies share them: the wiring of a layer of gates is kept once, however many nodes
// of however many graphs have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

namespace wr::ir {

class Numbers {
 public:
  Numbers() = default;
  Numbers(std::vector<std::int64_t> values)  // NOLINT: made of lists and vectors wherever they are given
      : values_(values.empty() ? nullptr : std::make_shared<const std::vector<std::int64_t>>(std::move(values))) {}
  Numbers(std::initializer_list<std::int64_t> values) : Numbers(std::vector(values)) {}

  operator const std::vector<std::int64_t>&() const {  // NOLINT: reads like a vector
    static const std::vector<std::int64_t> none;
    return values_ ? *values_ : none;
  }
  const std::vector<std::int64_t>& list() const { return *this; }
  std::size_t size() const { return list().size(); }
  bool empty() const { return !values_; }
  const std::int64_t* data() const { return list().data(); }
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }
  const std::int64_t& operator[](std::size_t i) const { return list()[i]; }
  friend bool operator==(const Numbers& a, const Numbers& b) { return a.values_ == b.values_ || a.list() == b.list(); }

 private:
  std::shared_ptr<const std::vector<std::int64_t>> values_;
};

}  // namespace wr::ir
