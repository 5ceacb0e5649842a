// The pool behind arrays: reuse without operator new, bounds, alignment, failure.
#include "base/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "count_allocations.h"
#include "windrow/array.h"
#include "windrow/error.h"

namespace wr {
namespace {

using detail::pool_statistics;

/// Starts from an empty pool of the given limit and puts the limit back.
class Pool : public testing::Test {
 protected:
  void SetUp() override { detail::trim_pool(); }
  void TearDown() override {
    detail::fail_allocations_after(-1);
    detail::set_pool_limit(limit_);
  }
  std::size_t limit_ = pool_statistics().limit;
};

TEST_F(Pool, CounterSeesOperatorNew) {
  AllocationCount count;
  const std::vector<int> v(100);
  const int* volatile seen = v.data();  // memory that nobody sees need not be taken
  const Array a = Array::zeros({12345});
  EXPECT_EQ(count.now(), 2) << *seen << a.count();
}

TEST_F(Pool, SteadyStateDoesNotCallOperatorNew) {
  const auto work = [] {
    Array a = Array::zeros({64, 100});
    Array b = a, c = a.transpose().slice(0, 1, 50), d = a.reshape({-1}), e = std::move(c);
    b.fill(2);
    b.window(0, 0, 8).copy_from(a.slice(0, 8, 16));
    e.at<float>({0, 0}) = b.at<float>({1, 1}) + d.at<float>({0});
    float memory[4] = {};
    Array::borrow(memory, {4}, DType::f32).fill(1);
    a = Array::scalar(1.f);
  };
  work();
  AllocationCount count;
  for (int i = 0; i < 100; ++i) work();
  EXPECT_EQ(count.now(), 0);
}

TEST_F(Pool, HandlesAndViewsTakeNoMemoryAtAll) {
  const Array a = Array::zeros({64, 100});
  const auto before = pool_statistics();
  const Array b = a, c = a.transpose(), d = a.slice(0, 1, 5).permute({1, 0}), e = a.broadcast_to({5, 64, 100});
  const auto after = pool_statistics();
  EXPECT_EQ(after.fresh + after.reused, before.fresh + before.reused);
}

TEST_F(Pool, NearbySizesShareABlockAndEverySizeFits) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 22); bytes += bytes / 7 + 1) {
    detail::Buffer* buffer = detail::allocate(bytes);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data) % 64, 0u);
    std::memset(buffer->data, 1, bytes);
    const std::size_t before = pool_statistics().bytes_kept;
    detail::release(buffer);
    const std::size_t kept = pool_statistics().bytes_kept - before;
    EXPECT_GE(kept, bytes);
    EXPECT_LE(kept, std::max<std::size_t>(256, bytes + bytes / 4 + 1));
    detail::trim_pool();
  }
}

TEST_F(Pool, KeepsNoMoreThanItsLimitAndPrefersWhatWasUsedLast) {
  detail::set_pool_limit(1 << 20);
  { const Array small = Array::empty({1000}), medium = Array::empty({100000}), large = Array::empty({1 << 20}); }
  EXPECT_LE(pool_statistics().bytes_kept, 1u << 20);
  { const Array other = Array::empty({200000}); }  // fits only without the medium one
  EXPECT_LE(pool_statistics().bytes_kept, 1u << 20);
  const auto before = pool_statistics();
  const Array again = Array::empty({200000});
  EXPECT_EQ(pool_statistics().reused, before.reused + 1);
  detail::set_pool_limit(0);
  EXPECT_EQ(pool_statistics().bytes_kept, 0u);
}

TEST_F(Pool, FailedAllocationIsAnErrorThatNamesTheArray) {
  const Array kept = Array::ones({3});
  Array shared = kept;
  detail::trim_pool();
  detail::fail_allocations_after(0);
  try {
    Array::zeros({5, 7});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("zeros: no memory for [5,7] of f32 (140 bytes)"), std::string::npos)
        << e.what();
  }
  EXPECT_THROW(shared.fill(2), Error);
  detail::fail_allocations_after(-1);
  EXPECT_EQ(shared.to_vector<float>(), std::vector<float>({1, 1, 1}));
  shared.fill(2);
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>({1, 1, 1}));
}

TEST_F(Pool, ManyThreadsTakeAndGive) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 500; ++i) {
        const Array a = Array::full({64 + i % 5}, t), b = Array::full({64 + i % 7}, t + 10);
        for (float v : a.to_vector<float>()) wrong[t] += v != static_cast<float>(t);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace wr
