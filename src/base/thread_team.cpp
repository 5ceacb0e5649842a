// A run costs one cache line a member to start and one to finish; a barrier is one flag a member, which the others
// read. With few members that is the least possible: one line crosses between two cores. Waiting spins for a while,
// then sleeps.
#include "base/thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/host.h"
#include "windrow/error.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace wr {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than what a training loop does between two steps, far shorter than a person or a power meter notices.
constexpr Clock::duration kSpin = std::chrono::microseconds(50);
// A member that is late has lost its core to another program for a slice of the scheduler's. Who goes to sleep
// meanwhile gives away a second core, even to a program of the lowest priority, and gets it back a slice after being
// woken.
constexpr Clock::duration kLongestSpin = std::chrono::milliseconds(5);
// Where even that is in vain, other programs have as good a right to the cores as we have: spinning becomes shorter
// with every wait that ends in sleep, and longer again with every one that does not.
constexpr Clock::duration kLonger = std::chrono::microseconds(1);
constexpr int kPollsBetweenClocks = 64;
constexpr int kYields = 8;

// Which member of a running team this thread is.
struct Membership {
  int member = -1;          // -1: not in a run of several members
  std::uint32_t count = 0;  // barriers passed
  bool crowded = false;
};
constinit thread_local Membership t_self;
constinit thread_local Clock::duration t_spin = kLongestSpin;  // how long this thread spins for members

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

[[noreturn]] void die(const char* message) {
  std::fprintf(stderr, "windrow: %s\n", message);
  std::abort();
}

}  // namespace

int default_threads() {
  const char* text = std::getenv("WINDROW_THREADS");  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') return host().cores;
  int threads = 0;
  const char* end = text + std::strlen(text);
  auto [stop, problem] = std::from_chars(text, end, threads);
  if (problem != std::errc() || stop != end || threads < 1 || threads > kMaxThreads) {
    throw Error("WINDROW_THREADS must be a whole number from 1 to " + std::to_string(kMaxThreads) + "; it is \"" +
                text + "\"");
  }
  return threads;
}

void ThreadTeam::Signal::raise(std::uint32_t count) {
  const std::uint32_t before = word_.exchange(count << 1, std::memory_order_acq_rel);
  if (before & 1) word_.notify_all();
}

void ThreadTeam::Signal::await(std::uint32_t count, Wait wait) {
  std::uint32_t word = word_.load(std::memory_order_acquire);
  if (reached(word, count)) return;
  if (wait == Wait::crowded) {
    for (int i = 0; i < kYields; ++i) {
      sched_yield();
      word = word_.load(std::memory_order_acquire);
      if (reached(word, count)) return;
    }
  } else {
    const bool member = wait == Wait::member;
    const Clock::duration spin = member ? t_spin : kSpin;
    const Clock::time_point begin = Clock::now();
    do {
      for (int i = 0; i < kPollsBetweenClocks; ++i) {
        pause_cpu();
        word = word_.load(std::memory_order_acquire);
        if (!reached(word, count)) continue;
        if (member) t_spin = std::min(t_spin + kLonger, kLongestSpin);
        return;
      }
    } while (Clock::now() - begin < spin);
    if (member) t_spin = std::max(t_spin / 2, kSpin);
  }
  while (!reached(word, count)) {
    // The sleeper's bit goes in only if the count has not moved, so the one who raises it cannot miss the sleeper.
    if ((word & 1) == 0 &&
        !word_.compare_exchange_weak(word, word | 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      continue;
    }
    word_.wait(word | 1, std::memory_order_acquire);
    word = word_.load(std::memory_order_acquire);
  }
}

// Constant-initialised: there is no moment at which a thread, or a forked child, can see it half made.
constinit ThreadTeam ThreadTeam::s_shared;

ThreadTeam& ThreadTeam::shared() { return s_shared; }

// Threads do not survive fork(): the child's team starts again from its caller alone. The fork waits for a running
// team, so that the child's copy is one at rest; except inside a body, where it would wait for itself. Registered when
// the program is loaded: a later moment could come between another thread's first run and a fork.
const int ThreadTeam::s_fork_handlers = pthread_atfork(
    [] {
      if (t_self.member < 0) s_shared.take_turn();
    },
    [] {
      if (t_self.member < 0) s_shared.end_turn();
    },
    [] { s_shared.forget_threads(); });

void ThreadTeam::forget_threads() noexcept {
  threads_ = 1;
  last_members_ = 1;
  tickets_.store(0, std::memory_order_relaxed);
  serving_.reset(0);
}

// First come, first served: a loop of runs on one thread must not keep another's, or a fork, waiting for ever.
void ThreadTeam::take_turn() noexcept { serving_.await(tickets_.fetch_add(1, std::memory_order_relaxed), Wait::next); }

void ThreadTeam::end_turn() noexcept { serving_.raise(serving_.count() + 1); }

void ThreadTeam::reserve(int members) {
  if (members < 1 || members > kMaxThreads) {
    throw Error("a thread team has 1 to " + std::to_string(kMaxThreads) + " members, not " + std::to_string(members));
  }
  if (t_self.member >= 0) return;  // the team is running: it cannot grow now
  struct Turn {
    ThreadTeam& team;
    explicit Turn(ThreadTeam& t) : team(t) { team.take_turn(); }
    ~Turn() { team.end_turn(); }
  } turn(*this);
  grow(members);
}

void ThreadTeam::grow(int members) {
  if (slots_[0] == nullptr) {
    cores_ = host().cores;
    slots_[0] = new Slot;
  }
  for (int member = threads_; member < members; ++member) {
    if (slots_[member] == nullptr) slots_[member] = new Slot;
    slots_[member]->start.reset(0);
    struct Birth {
      ThreadTeam* team;
      int member;
    };
    auto birth = std::make_unique<Birth>(Birth{this, member});
    auto begin = [](void* argument) -> void* {
      const std::unique_ptr<Birth> born(static_cast<Birth*>(argument));
      born->team->work(born->member);
      return nullptr;
    };
    pthread_t handle{};
    if (const int problem = pthread_create(&handle, nullptr, begin, birth.get()); problem != 0) {
      throw Error("cannot start thread " + std::to_string(member + 1) + " of " + std::to_string(members) + ": " +
                  std::strerror(problem));  // NOLINT(concurrency-mt-unsafe)
    }
    birth.release();  // NOLINT(bugprone-unused-return-value): the thread owns it now
    handles_[member] = handle;
    threads_ = member + 1;
  }
}

void ThreadTeam::work(int member) noexcept {
  Slot& slot = *slots_[member];
  for (std::uint32_t round = 1;; ++round) {
    slot.start.await(round, t_self.crowded ? Wait::crowded : Wait::next);  // as crowded as the last run was
    if (slot.body == nullptr) return;
    t_self = {member, slot.base, slot.members > cores_};
    slot.body(slot.context, member, slot.members);
    slot.arrived.raise(t_self.count + 1);
  }
}

void ThreadTeam::run(int members, Body body, void* context) noexcept {
  if (members == 1) return body(context, 0, 1);
  if (t_self.member >= 0) die("a run of several members inside a run's body");
  if (members < 1 || members > kMaxThreads) die("a run needs 1 to 1024 members");

  take_turn();
  if (members > threads_) {
    try {
      grow(members);
    } catch (const std::exception& problem) {
      die(problem.what());
    }
  }
  // A member that sat out the last runs has an old count, which might in time look like one from the future.
  for (int m = last_members_; m < members; ++m) slots_[m]->arrived.reset(count_);
  if (last_members_ == 1) slots_[0]->arrived.reset(count_);
  last_members_ = members;

  for (int m = 1; m < members; ++m) {
    Slot& slot = *slots_[m];
    slot.body = body;
    slot.context = context;
    slot.members = members;
    slot.base = count_;
    slot.start.raise(slot.start.count() + 1);
  }
  t_self = {0, count_, members > cores_};
  body(context, 0, members);
  const Membership self = t_self;
  t_self = {};
  count_ = self.count + 1;
  const Wait wait = self.crowded ? Wait::crowded : Wait::member;
  for (int m = 1; m < members; ++m) slots_[m]->arrived.await(count_, wait);
  end_turn();
}

void ThreadTeam::barrier(int members) noexcept {
  if (members == 1) return;
  Membership& self = t_self;
  ++self.count;
  slots_[self.member]->arrived.raise(self.count);
  const Wait wait = self.crowded ? Wait::crowded : Wait::member;
  for (int m = 0; m < members; ++m) {
    if (m != self.member) slots_[m]->arrived.await(self.count, wait);
  }
}

ThreadTeam::~ThreadTeam() {
  // exit() may be called inside a body, or while another thread runs one: such threads end with the process instead.
  if (t_self.member >= 0 || serving_.count() != (tickets_.load(std::memory_order_relaxed) & 0x7fffffff)) return;
  take_turn();
  for (int m = 1; m < threads_; ++m) {
    slots_[m]->body = nullptr;
    slots_[m]->start.raise(slots_[m]->start.count() + 1);
  }
  for (int m = 1; m < threads_; ++m) pthread_join(handles_[m], nullptr);
  forget_threads();
}

}  // namespace wr
