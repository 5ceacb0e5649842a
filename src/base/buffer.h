// The memory behind arrays: 64-byte aligned, reference-counted, reused through a bounded pool of size classes, so that
// a program that keeps making arrays of the same sizes stops calling the system's allocator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace wr::detail {

inline constexpr std::size_t kAlignment = 64;
/// No array is larger: beyond it is a mistake in a shape, not data.
inline constexpr std::size_t kMaxBufferBytes = std::size_t{1} << 46;

/// The head of a block; the elements follow it (or stand in borrowed memory). Made by allocate() or borrow() with one
/// owner, ended by the last release().
struct Buffer {
  std::atomic<std::uint32_t> owners{1};
  /// How many of the owners are windows (see array.h). While there are any, the owners share their writes.
  std::atomic<std::uint32_t> windows{0};
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Buffer* next = nullptr;  // in the pool's free list
  int size_class = 0;
  bool read_only = false;
};
static_assert(sizeof(Buffer) <= kAlignment);

/// Uninitialised memory, or nullptr if there is none.
Buffer* allocate(std::size_t bytes);
/// A buffer over memory that someone else keeps alive; nullptr if there is no memory for its head.
Buffer* borrow(void* data, std::size_t bytes, bool read_only);
void retain(Buffer* buffer);
void release(Buffer* buffer);

struct PoolStatistics {
  std::size_t bytes_kept;  // in free blocks, now
  std::size_t limit;
  std::uint64_t reused;  // allocations served from free blocks
  std::uint64_t fresh;   // allocations that went to the system
};
PoolStatistics pool_statistics();
/// Calls of allocate() and borrow() so far; takes no lock.
std::uint64_t allocation_count() noexcept;
/// Gives every free block back to the system.
void trim_pool();
/// How many bytes of free blocks to keep. The first value is WINDROW_POOL_MB MiB, 64 MiB if that is not set.
void set_pool_limit(std::size_t bytes);
/// For tests: after `count` more of them, allocations that go to the system fail; negative means never.
void fail_allocations_after(int count);

}  // namespace wr::detail
