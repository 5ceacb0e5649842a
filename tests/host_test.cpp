// What is detected must be plausible on any machine, since the planner divides by it.
#include "base/host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace wr {
namespace {

TEST(Host, CoresArePlausible) {
  EXPECT_GE(host().cores, 1);
  EXPECT_LE(host().cores, host().cores_online);
#if defined(__linux__)
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_LE(host().cores, CPU_COUNT(&allowed));
#endif
}

TEST(Host, CachesGrowOutwards) {
  EXPECT_GE(host().l1d, 8 << 10);
  EXPECT_LE(host().l1d, 1 << 20);
  EXPECT_GE(host().l2, host().l1d);
  if (host().l3 != 0) {
    EXPECT_GE(host().l3, host().l2);
  }
  EXPECT_GE(host().cache_line, 16);
  EXPECT_EQ(host().cache_line & (host().cache_line - 1), 0);
}

TEST(Host, MemoryIsPlausible) {
  EXPECT_EQ(host().page, sysconf(_SC_PAGESIZE));
  EXPECT_GT(host().memory, 64 << 20);
  EXPECT_GT(memory_available(), 0);
  EXPECT_LE(memory_available(), host().memory);
}

TEST(Host, HasNames) {
  EXPECT_FALSE(host().cpu.empty());
  EXPECT_FALSE(host().system.empty());
}

}  // namespace
}  // namespace wr
