// Turns as a forest: a joined turn points to the one that stands for it, and only a root's lock counts. The root of
// fewer turns goes below the other, so that the way up stays short however many are joined.
#include "base/turn.h"

#include <utility>

namespace wr {

Turn* Turn::leader() {
  Turn* turn = this;
  while (Turn* next = turn->next_.load(std::memory_order_acquire)) turn = next;
  return turn;
}

Turn* Turn::take() {
  for (;;) {
    Turn* root = leader();
    root->mutex_.lock();
    if (!root->next_.load(std::memory_order_relaxed)) return root;
    root->mutex_.unlock();  // it was joined to another while we waited
  }
}

void Turn::join(const std::shared_ptr<Turn>& a, const std::shared_ptr<Turn>& b) {
  // One join at a time, so that the two locks below cannot be taken in opposite orders.
  static std::mutex joining;
  const std::lock_guard one_at_a_time(joining);
  const auto root_of = [](std::shared_ptr<Turn> turn) {
    while (turn->keep_) turn = turn->keep_;
    return turn;
  };
  std::shared_ptr<Turn> first = root_of(a), second = root_of(b);
  if (first == second) return;
  if (first->count_ > second->count_) std::swap(first, second);
  const std::scoped_lock both(first->mutex_, second->mutex_);
  second->count_ += first->count_;
  first->keep_ = second;
  first->next_.store(second.get(), std::memory_order_release);
}

}  // namespace wr
