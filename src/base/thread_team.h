// The threads that execute lanes: one persistent team a process, woken in a fraction of a microsecond, asleep when
// idle. A run gives the same function to members 0..n-1, which may meet at barriers; the caller is member 0.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace wr {

inline constexpr int kMaxThreads = 1024;

/// WINDROW_THREADS if set (1..1024; anything else throws Error), otherwise the cores this process may use.
int default_threads();

class ThreadTeam {
 public:
  using Body = void (*)(void* context, int member, int members);

  static ThreadTeam& shared();

  /// Runs body(context, m, members) on all members and returns when all are done. What the caller wrote before, every
  /// member sees; what members wrote, the caller sees after. Allocates nothing once the threads exist (see reserve).
  /// The body must not throw. Callers on several threads take turns. A run inside a body may only have one member: one
  /// with more could never be sure of its threads, so it ends the process with a message.
  void run(int members, Body body, void* context) noexcept;

  /// Starts threads so that a run of that many members need not. Throws Error where the system gives no more threads.
  void reserve(int members);

  /// Inside a body: waits until all members have come here. Every member must come the same number of times.
  void barrier(int members) noexcept;

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

 private:
  constexpr ThreadTeam() = default;
  ~ThreadTeam();
  static ThreadTeam s_shared;
  static const int s_fork_handlers;

  /// What is waited for: the next run or turn, which may be long in coming; other members of a run, which should be
  /// here any moment; or, where there are more members than cores, members that may need this very core.
  enum class Wait { next, member, crowded };

  /// A count that one thread raises and others wait for. The lowest bit says that somebody sleeps on it, so that
  /// raising it costs a system call only then. Counts are compared modulo 2^31.
  class Signal {
   public:
    void reset(std::uint32_t count) { word_.store(count << 1, std::memory_order_relaxed); }
    std::uint32_t count() const { return word_.load(std::memory_order_relaxed) >> 1; }
    void raise(std::uint32_t count);
    /// Waits until the count is at least this.
    void await(std::uint32_t count, Wait wait);

   private:
    bool reached(std::uint32_t word, std::uint32_t count) const {
      return static_cast<std::int32_t>(word - (count << 1)) >= 0;
    }
    std::atomic<std::uint32_t> word_{0};
  };

  // What a member reads to begin a run stands in one pair of cache lines (which are fetched together), what it writes
  // at barriers in another.
  struct Slot {
    alignas(128) Signal start;
    Body body = nullptr;
    void* context = nullptr;
    int members = 0;
    std::uint32_t base = 0;  // the barrier count at which the run begins
    alignas(128) Signal arrived;
  };

  void take_turn() noexcept;
  void end_turn() noexcept;
  void grow(int members);
  void work(int member) noexcept;
  void forget_threads() noexcept;

  std::array<Slot*, kMaxThreads> slots_{};  // made when first needed, then kept: a worker may look at its own any time
  std::array<pthread_t, kMaxThreads> handles_{};
  int threads_ = 1;  // members that exist, the caller included
  int last_members_ = 1;
  std::uint32_t count_ = 0;  // the barrier count at which the next run begins
  int cores_ = 1;
  // Callers' turns: each draws a ticket and waits until it is served.
  alignas(128) std::atomic<std::uint32_t> tickets_{0};
  Signal serving_;
};

}  // namespace wr
