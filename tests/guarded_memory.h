// Memory that ends right before a page nobody may touch, with a pattern before it: reads and writes past the end fault,
// writes before the start are seen by intact().
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace wr {

class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t size) : size_(size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    length_ = (size + kBefore + page - 1) / page * page + page;
    map_ =
        static_cast<unsigned char*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(map_ + length_ - page, page, PROT_NONE);
    data_ = map_ + length_ - page - size;
    std::memset(data_ - kBefore, kPattern, kBefore);
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)), data_(other.data_), length_(other.length_), size_(other.size_) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory() {
    if (map_) munmap(map_, length_);
  }

  void* data() const { return data_; }
  bool intact() const {
    for (std::size_t i = 1; i <= kBefore; ++i)
      if (data_[-static_cast<std::ptrdiff_t>(i)] != kPattern) return false;
    return true;
  }

 private:
  static constexpr std::size_t kBefore = 128;
  static constexpr unsigned char kPattern = 0xA5;
  unsigned char *map_, *data_;
  std::size_t length_, size_;
};

}  // namespace wr
