// What is detected must be plausible on any machine, since the planner divides by it.
#include "base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace wr {
namespace {

TEST(Machine, CoresArePlausible) {
  EXPECT_GE(machine().cores, 1);
  EXPECT_LE(machine().cores, machine().cores_online);
#if defined(__linux__)
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_LE(machine().cores, CPU_COUNT(&allowed));
#endif
}

TEST(Machine, CachesGrowOutwards) {
  EXPECT_GE(machine().l1d, 8 << 10);
  EXPECT_LE(machine().l1d, 1 << 20);
  EXPECT_GE(machine().l2, machine().l1d);
  if (machine().l3 != 0) {
    EXPECT_GE(machine().l3, machine().l2);
  }
  EXPECT_GE(machine().cache_line, 16);
  EXPECT_EQ(machine().cache_line & (machine().cache_line - 1), 0);
}

TEST(Machine, MemoryIsPlausible) {
  EXPECT_EQ(machine().page, sysconf(_SC_PAGESIZE));
  EXPECT_GT(machine().memory, 64 << 20);
  EXPECT_GT(memory_available(), 0);
  EXPECT_LE(memory_available(), machine().memory);
}

TEST(Machine, HasNames) {
  EXPECT_FALSE(machine().cpu.empty());
  EXPECT_FALSE(machine().system.empty());
}

}  // namespace
}  // namespace wr
