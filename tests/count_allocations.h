// Counts calls of operator new, of every form and in every thread, in the test program.
#pragma once

#include <cstdint>

/// `AllocationCount count; work(); EXPECT_EQ(count.now(), 0);`
class AllocationCount {
 public:
  AllocationCount() : start_(total()) {}
  /// Calls of operator new since this object was made.
  std::int64_t now() const { return total() - start_; }

 private:
  static std::int64_t total();
  std::int64_t start_;
};
