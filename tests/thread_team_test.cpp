// The thread team: every member runs once, barriers hold everybody back, idle threads sleep, fork and exit are clean.
#include "base/thread_team.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/host.h"
#include "count_allocations.h"
#include "support/scoped_variable.h"
#include "windrow/error.h"

namespace wr {
namespace {

// Runs a callable with the team's C-style interface.
template <class F>
void run(int members, F&& f) {
  auto body = [](void* context, int member, int count) {
    (*static_cast<std::remove_reference_t<F>*>(context))(member, count);
  };
  ThreadTeam::shared().run(members, body, &f);
}

class Members : public testing::TestWithParam<int> {};

TEST_P(Members, EachRunsOncePerRun) {
  const int members = GetParam();
  std::vector<int> calls(members, 0);
  for (int round = 1; round <= 300; ++round) {
    run(members, [&](int member, int count) {
      EXPECT_EQ(count, members);
      ++calls[member];
    });
    for (int m = 0; m < members; ++m) ASSERT_EQ(calls[m], round) << "member " << m;
  }
}

// Each phase reads what all members wrote in the phase before: a member let through early sees a stale value.
TEST_P(Members, BarriersSeparatePhases) {
  const int members = GetParam(), phases = 200;
  std::vector<int> written[2] = {std::vector<int>(members, -1), std::vector<int>(members, -1)};
  std::atomic<int> wrong{0};
  for (int round = 0; round < 3; ++round) {
    run(members, [&](int member, int count) {
      for (int phase = 0; phase < phases; ++phase) {
        written[phase % 2][member] = phase;
        ThreadTeam::shared().barrier(count);
        for (int m = 0; m < count; ++m) wrong += written[phase % 2][m] != phase;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(Members, OneLateMemberHoldsAllBack) {
  const int members = GetParam();
  std::atomic<int> arrived{0}, early{0};
  run(members, [&](int member, int count) {
    if (member == count - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others fall asleep
    arrived.fetch_add(1);
    ThreadTeam::shared().barrier(count);
    early += arrived.load() != count;
  });
  EXPECT_EQ(early, 0);
}

INSTANTIATE_TEST_SUITE_P(ThreadTeam, Members, testing::Values(1, 2, 3, 8, 17), testing::PrintToStringParamName());

TEST(ThreadTeam, MemberCountMayChangeFromRunToRun) {
  const int sizes[] = {2, 17, 1, 3, 2, 8, 17, 2};
  for (int round = 0; round < 50; ++round) {
    for (const int members : sizes) {
      std::atomic<int> sum{0}, wrong{0};
      run(members, [&](int member, int count) {
        sum += member + 1;
        for (int i = 0; i < round % 4; ++i) ThreadTeam::shared().barrier(count);  // leaves the counts uneven
        ThreadTeam::shared().barrier(count);
        wrong += sum.load() != count * (count + 1) / 2;
      });
      ASSERT_EQ(wrong, 0) << members << " members";
    }
  }
}

TEST(ThreadTeam, ConcurrentCallersTakeTurns) {
  std::atomic<int> inside{0}, overlaps{0}, calls{0};
  auto caller = [&](int members) {
    for (int round = 0; round < 200; ++round) {
      run(members, [&](int member, int count) {
        if (member == 0) overlaps += inside.fetch_add(1) != 0;
        ThreadTeam::shared().barrier(count);
        calls.fetch_add(1);
        ThreadTeam::shared().barrier(count);
        if (member == 0) inside.fetch_sub(1);
      });
    }
  };
  std::vector<std::thread> callers;
  for (const int members : {2, 3, 2, 4}) callers.emplace_back(caller, members);
  for (auto& thread : callers) thread.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(calls, 200 * (2 + 3 + 2 + 4));
}

TEST(ThreadTeam, RunOfOneMemberMayBeNested) {
  std::atomic<int> inner{0};
  run(2, [&](int, int) { run(1, [&](int member, int count) { inner += member == 0 && count == 1; }); });
  EXPECT_EQ(inner, 2);
}

TEST(ThreadTeamDeathTest, NestedRunOfSeveralMembersEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(run(2, [](int, int) { run(2, [](int, int) {}); }), "inside a run's body");
}

TEST(ThreadTeam, RunAllocatesNothing) {
  ThreadTeam::shared().reserve(8);
  for (const int members : {2, 8}) {
    const AllocationCount count;
    for (int i = 0; i < 100; ++i) run(members, [](int, int n) { ThreadTeam::shared().barrier(n); });
    EXPECT_EQ(count.now(), 0);
  }
}

TEST(ThreadTeam, ReserveRejectsImpossibleSizes) {
  EXPECT_THROW(ThreadTeam::shared().reserve(0), Error);
  EXPECT_THROW(ThreadTeam::shared().reserve(kMaxThreads + 1), Error);
}

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(ThreadTeamTiming, IdleThreadsUseNoProcessorTime) {
  run(8, [](int, int count) { ThreadTeam::shared().barrier(count); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // longer than any spinning
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(process_cpu_seconds() - before, 0.01);
}

// Runs f in a forked child and returns its exit code; a child that hangs for ten seconds is ended by SIGALRM (-14).
template <class F>
int in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    f();
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int count_members(int members) {
  std::atomic<int> sum{0};
  run(members, [&](int, int count) {
    sum += 1;
    ThreadTeam::shared().barrier(count);
  });
  return sum;
}

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;  // it does not support starting threads in a forked child
#else
constexpr bool kThreadSanitizer = false;
#endif

TEST(ThreadTeam, WorksInAForkedChild) {
  if (kThreadSanitizer) GTEST_SKIP();
  ASSERT_EQ(count_members(3), 3);
  EXPECT_EQ(in_child([] { _exit(count_members(4) + count_members(2)); }), 6);
  EXPECT_EQ(count_members(3), 3);  // and the parent is not disturbed
}

TEST(ThreadTeam, WorksInAChildForkedWhileAnotherThreadRuns) {
  if (kThreadSanitizer) GTEST_SKIP();
  std::atomic<bool> stop{false};
  std::thread runner([&] {
    while (!stop) run(2, [](int, int count) { ThreadTeam::shared().barrier(count); });
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(in_child([] { _exit(count_members(3)); }), 3);
  stop = true;
  runner.join();
}

TEST(ThreadTeam, ExitOfAForkedChildIsClean) {
  if (kThreadSanitizer) GTEST_SKIP();
  EXPECT_EQ(in_child([] {
              count_members(4);
              std::exit(7);  // NOLINT(concurrency-mt-unsafe)
            }),
            7);
  EXPECT_EQ(in_child([] {
              run(2, [](int member, int) {
                if (member == 0) std::exit(8);  // NOLINT(concurrency-mt-unsafe)
              });
            }),
            8);
}

TEST(DefaultThreads, AreTheCoresUnlessTheVariableSaysOtherwise) {
  {
    const ScopedVariable unset("WINDROW_THREADS", "");
    EXPECT_EQ(default_threads(), host().cores);
  }
  const ScopedVariable five("WINDROW_THREADS", "5");
  EXPECT_EQ(default_threads(), 5);
}

TEST(DefaultThreads, AWrongVariableIsNamedWithItsValue) {
  for (const char* wrong : {"0", "-1", "1025", "two", "2x", " 2", "99999999999999999999"}) {
    const ScopedVariable variable("WINDROW_THREADS", wrong);
    try {
      default_threads();
      ADD_FAILURE() << "accepted \"" << wrong << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                "WINDROW_THREADS must be a whole number from 1 to 1024; it is \"" + std::string(wrong) + '"');
    }
  }
}

}  // namespace
}  // namespace wr
