// The generator's plain C++ dialect, compiled and run here, against the oracle: every op, random steps.
#include <gtest/gtest.h>

#include "backend/device/backend.h"
#include "devices/ops.h"
#include "support/host_device.h"
#include "support/random_graphs.h"

namespace wr {
namespace {

using test::DeviceCase;

class DeviceOps : public testing::TestWithParam<DeviceCase> {};

TEST_P(DeviceOps, InVectorsAndInItems) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  const bool wide = GetParam().name.find("64") != std::string::npos;
  // Registers of 256 and of 512 bits: tiles of products are others.
  device::Facts facts = test::host_facts(true);
  for (const int bytes : {32, 64}) {
    facts.vector_bytes = bytes;
    if (bytes == 32 && GetParam().name.find("products") == std::string::npos) continue;
    EXPECT_EQ(test::check_on_device(GetParam(), test::host_device(facts), 1, wide ? 1 : 3), "");
  }
  EXPECT_EQ(test::check_on_device(GetParam(), test::host_device(test::host_facts(false)), 4, wide ? 3 : 1), "");
}

INSTANTIATE_TEST_SUITE_P(Every, DeviceOps, testing::ValuesIn(test::device_cases()),
                         [](const auto& p) { return p.param.name; });

TEST(DeviceGraphs, RandomStepsInVectors) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  const device::Backend backend(test::host_device(test::host_facts(true)));
  test::run_random_steps(0, 6, &backend);
}

TEST(DeviceGraphs, RandomStepsInItems) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  const device::Backend backend(test::host_device(test::host_facts(false)), 4);
  test::run_random_steps(6, 6, &backend);
}

}  // namespace
}  // namespace wr
