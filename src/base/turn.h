// Runs that touch the same memory take turns. Everything that shares a state shares one Turn: what two of them join
// stays joined. Taking a turn that nobody else has is one lock that nobody waits for.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

namespace wr {

class Turn {
 public:
  /// From here on both are the same turn. Waits for those who have one of them now.
  static void join(const std::shared_ptr<Turn>& a, const std::shared_ptr<Turn>& b);

  /// Has the turn while it lives.
  class Hold {
   public:
    explicit Hold(const std::shared_ptr<Turn>& turn) : leader_(turn->take()) {}
    ~Hold() { leader_->mutex_.unlock(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Turn* leader_;
  };

 private:
  Turn* leader();
  Turn* take();

  std::mutex mutex_;
  std::atomic<Turn*> next_ = nullptr;  // the one that stands for this one since they were joined
  std::shared_ptr<Turn> keep_;         // owns next_
  std::size_t count_ = 1;              // of those that this one stands for, itself included
};

}  // namespace wr
