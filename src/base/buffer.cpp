// Buffers and their pool. A block is a 64-byte head and then the elements; free blocks are linked through their heads.
#include "buffer.h"

#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WINDROW_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(WINDROW_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace wr::detail {
namespace {

// Four classes to each power of two, from 256 bytes: a block is at most a quarter larger than asked for.
int class_of(std::size_t bytes) {
  if (bytes <= 256) return 0;
  const int power = static_cast<int>(std::bit_width(bytes - 1)) - 9;
  const std::size_t base = std::size_t{256} << power, step = std::size_t{64} << power;
  return 4 * power + static_cast<int>((bytes - base + step - 1) / step);
}
constexpr std::size_t capacity_of(int size_class) {
  return static_cast<std::size_t>(4 + size_class % 4) << (6 + size_class / 4);
}
constexpr int kClasses = 4 * (46 - 8) + 1;
static_assert(capacity_of(kClasses - 1) == kMaxBufferBytes);

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHead = kAlignment;

std::align_val_t alignment_of(std::size_t capacity) {
  return std::align_val_t{capacity >= 2 * kHugePage ? kHugePage : kAlignment};
}

std::size_t initial_limit() {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  if (const char* text = std::getenv("WINDROW_POOL_MB")) {
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (end != text && *end == '\0' && *text != '-' && value <= kMaxBufferBytes / mebibyte) return value * mebibyte;
  }
  return 64 * mebibyte;
}

std::atomic<int> allocations_until_failure{-1};
std::atomic<std::uint64_t> allocations{0};

bool must_fail() {
  int left = allocations_until_failure.load(std::memory_order_relaxed);
  while (left > 0) {
    if (allocations_until_failure.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return false;
  }
  return left == 0;
}

Buffer* system_allocate(int size_class) {
  if (must_fail()) return nullptr;
  const std::size_t capacity = capacity_of(size_class);
  void* block = ::operator new(kHead + capacity, alignment_of(capacity), std::nothrow);
  if (!block) return nullptr;
#if defined(__linux__)
  if (capacity >= 2 * kHugePage) madvise(block, kHead + capacity, MADV_HUGEPAGE);
#endif
  auto* buffer = new (block) Buffer;
  buffer->size_class = size_class;
  return buffer;
}

void system_free(Buffer* buffer) {
  const std::size_t capacity = capacity_of(buffer->size_class);
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<std::byte*>(buffer) + kHead, capacity);
  buffer->~Buffer();
  ::operator delete(static_cast<void*>(buffer), alignment_of(capacity));
}

class Pool {
 public:
  Buffer* take(int size_class) {
    std::lock_guard lock(mutex_);
    Buffer* buffer = pop(size_class);
    ++(buffer ? reused_ : fresh_);
    return buffer;
  }

  /// Keeps the block. Where that is beyond the limit, blocks of other classes go first: what was used last stays.
  void give(Buffer* buffer) {
    const std::size_t capacity = capacity_of(buffer->size_class);
    Buffer* dropped = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (capacity <= limit_) dropped = shrink_to(limit_ - capacity, buffer->size_class);
      if (kept_ + capacity <= limit_) {
        buffer->next = free_[buffer->size_class];
        free_[buffer->size_class] = buffer;
        kept_ += capacity;
      } else {
        buffer->next = dropped;
        dropped = buffer;
      }
    }
    free_all(dropped);
  }

  void set_limit(std::size_t bytes) {
    Buffer* dropped = nullptr;
    {
      std::lock_guard lock(mutex_);
      limit_ = bytes;
      dropped = shrink_to(bytes, -1);
    }
    free_all(dropped);
  }

  void trim() {
    Buffer* dropped = nullptr;
    {
      std::lock_guard lock(mutex_);
      dropped = shrink_to(0, -1);
    }
    free_all(dropped);
  }

  PoolStatistics statistics() {
    std::lock_guard lock(mutex_);
    return {kept_, limit_, reused_, fresh_};
  }

 private:
  Buffer* pop(int size_class) {
    Buffer* buffer = free_[size_class];
    if (buffer) {
      free_[size_class] = buffer->next;
      kept_ -= capacity_of(size_class);
    }
    return buffer;
  }

  /// Unlinks blocks, largest first, until at most `bytes` are kept; returns them as a list to free without the lock.
  Buffer* shrink_to(std::size_t bytes, int spared_class) {
    Buffer* dropped = nullptr;
    for (int c = kClasses - 1; c >= 0 && kept_ > bytes; --c) {
      while (c != spared_class && kept_ > bytes) {
        Buffer* buffer = pop(c);
        if (!buffer) break;
        buffer->next = dropped;
        dropped = buffer;
      }
    }
    return dropped;
  }

  static void free_all(Buffer* list) {
    while (list) {
      Buffer* next = list->next;
      system_free(list);
      list = next;
    }
  }

  std::mutex mutex_;
  Buffer* free_[kClasses] = {};
  std::size_t kept_ = 0;
  std::size_t limit_ = initial_limit();
  std::uint64_t reused_ = 0;
  std::uint64_t fresh_ = 0;
};

Pool& pool() {
  // Never destroyed: static arrays of the user's may be released after any destructor of ours.
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

Buffer* allocate(std::size_t bytes) {
  if (bytes > kMaxBufferBytes) return nullptr;
  const int size_class = class_of(bytes);
  Buffer* buffer = pool().take(size_class);
  if (!buffer) buffer = system_allocate(size_class);
  if (!buffer) {
    // Memory kept for other sizes may be what is missing.
    trim_pool();
    buffer = system_allocate(size_class);
  }
  if (!buffer) return nullptr;
  allocations.fetch_add(1, std::memory_order_relaxed);
  buffer->owners.store(1, std::memory_order_relaxed);
  buffer->windows.store(0, std::memory_order_relaxed);
  buffer->data = reinterpret_cast<std::byte*>(buffer) + kHead;
  buffer->bytes = bytes;
  buffer->next = nullptr;
  buffer->read_only = false;
  ASAN_UNPOISON_MEMORY_REGION(buffer->data, bytes);
  ASAN_POISON_MEMORY_REGION(buffer->data + bytes, capacity_of(size_class) - bytes);
  return buffer;
}

Buffer* borrow(void* data, std::size_t bytes, bool read_only) {
  Buffer* buffer = allocate(0);
  if (!buffer) return nullptr;
  buffer->data = static_cast<std::byte*>(data);
  buffer->bytes = bytes;
  buffer->read_only = read_only;
  return buffer;
}

void retain(Buffer* buffer) { buffer->owners.fetch_add(1, std::memory_order_relaxed); }

void release(Buffer* buffer) {
  if (buffer->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ASAN_POISON_MEMORY_REGION(reinterpret_cast<std::byte*>(buffer) + kHead, capacity_of(buffer->size_class));
  pool().give(buffer);
}

std::uint64_t allocation_count() noexcept { return allocations.load(std::memory_order_relaxed); }
PoolStatistics pool_statistics() { return pool().statistics(); }
void trim_pool() { pool().trim(); }
void set_pool_limit(std::size_t bytes) { pool().set_limit(bytes); }
void fail_allocations_after(int count) { allocations_until_failure.store(count, std::memory_order_relaxed); }

}  // namespace wr::detail
