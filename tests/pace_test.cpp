// The number of threads follows what is fastest at the moment.
#include "backend/cpu/pace.h"

#include <gtest/gtest.h>

#include <functional>

namespace wr::cpu {
namespace {

using std::chrono::microseconds;

/// Runs on a made-up machine where a run of n threads takes cost(n) microseconds; returns the mean of the last half.
double mean_cost(Pace& pace, int most, int runs, const std::function<int(int)>& cost) {
  double sum = 0;
  for (int i = 0; i < runs; ++i) {
    const int time = cost(pace.members(most));
    pace.ran(microseconds(time));
    if (i >= runs / 2) sum += time;
  }
  return sum / (runs - runs / 2);
}

TEST(Pace, TakesAllThreadsOfAQuietMachine) {
  Pace pace;
  EXPECT_LT(mean_cost(pace, 2, 20000, [](int n) { return 200 / n; }), 101);
  EXPECT_LT(mean_cost(pace, 8, 20000, [](int n) { return 800 / n; }), 102);
}

TEST(Pace, TakesOneThreadWhereOthersAreHeldUp) {
  Pace pace;
  EXPECT_LT(mean_cost(pace, 2, 20000, [](int n) { return n > 1 ? 5000 : 200; }), 400);
  EXPECT_LT(mean_cost(pace, 8, 20000, [](int n) { return n > 2 ? 5000 : 400 / n; }), 500);
}

TEST(Pace, ComesBackWhenTheMachineIsQuietAgain) {
  Pace pace;
  mean_cost(pace, 2, 5000, [](int n) { return n > 1 ? 5000 : 200; });
  EXPECT_LT(mean_cost(pace, 2, 20000, [](int n) { return 200 / n; }), 103);
}

TEST(Pace, SlowRunsAreJudgedOneByOne) {
  Pace pace;
  EXPECT_LT(mean_cost(pace, 2, 400, [](int n) { return n > 1 ? 900000 : 50000; }), 80000);
}

/// How many of the last half of some runs are of one thread, on a machine where run number i on n threads takes cost(n,
/// i).
double share_of_one(int runs, const std::function<int(int, int)>& cost) {
  Pace pace;
  int single = 0;
  for (int i = 0; i < runs; ++i) {
    const int members = pace.members(2);
    pace.ran(microseconds(cost(members, i)));
    single += i >= runs / 2 && members == 1;
  }
  return static_cast<double>(single) / (runs - runs / 2);
}

// Another program gets a core now and then, as one of low priority does: for 4 ms of every 60.
TEST(Pace, AMomentsStallIsNoReasonToGiveUpACore) {
  EXPECT_LT(share_of_one(20000, [](int n, int i) { return n == 1 ? 300 : i % 400 == 0 ? 4150 : 150; }), 0.02);
}

// Programs that start or end beside it take a core for a while: who measures for a tenth of a second is not to see one
// thread to the end.
TEST(Pace, ComesBackSoonAfterTheFirstDisturbance) {
  Pace pace;
  double time = 0;
  for (int i = 0; i < 1500; ++i) {
    const int members = pace.members(2);
    const int cost = members == 1 ? 200 : time < 120e3 ? 1000 : 100;
    pace.ran(microseconds(cost));
    time += cost;
    if (time > 240e3) break;
    if (time > 200e3) {
      ASSERT_EQ(members, 2) << "after " << time / 1e3 << " ms";
    }
  }
}

// Half of each core belongs to others. Two threads would be quicker than one that gets half a core, at the others'
// cost.
TEST(Pace, TakesNoMoreThanItsShareWhereOthersWorkToo) {
  EXPECT_GT(share_of_one(20000, [](int n, int i) { return n == 2 ? 400 : i % 10 == 0 ? 2860 : 260; }), 0.9);
}

TEST(Pace, OneThreadIsOneThread) {
  Pace pace;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pace.members(1), 1);
    pace.ran();
  }
}

}  // namespace
}  // namespace wr::cpu
