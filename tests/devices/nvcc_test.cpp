// Device code for real GPUs, compiled and not run: every op in the CUDA dialect, for four generations, without spilled
// registers and within 48 KB of shared memory. Where WINDROW_TEST_NVCC is set (`make test-devices` does if there is
// nvcc).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "backend/device/backend.h"
#include "devices/ops.h"
#include "temporary_files.h"

namespace wr {
namespace {

class Nvcc : public testing::TestWithParam<test::DeviceCase> {};

TEST_P(Nvcc, CompilesForEveryGeneration) {
  if (!std::getenv("WINDROW_TEST_NVCC"))
    GTEST_SKIP() << "WINDROW_TEST_NVCC is not set";  // NOLINT(concurrency-mt-unsafe)
  const TemporaryFolder folder;
  plan::Options options;
  options.machine = machine_named("desktop");
  options.lanes = 8;
  std::vector<Array> arguments;
  const auto graph = test::to_be_run(GetParam(), test::traced(GetParam(), arguments));
  const plan::Schedule schedule = plan::schedule(*graph, options);
  const device::Source source = device::source_of(schedule, {device::Dialect::cuda, 256, 48 << 10});
  write_text(folder / "step.cu", source.text);
  std::string command = "nvcc -std=c++17 --fmad=false --ftz=true -w -Xptxas -v -fatbin -o " + (folder / "step.fatbin") +
                        " " + (folder / "step.cu");
  for (const char* generation : {"75", "80", "90", "120"})
    command += std::string(" -gencode arch=compute_") + generation + ",code=sm_" + generation;
  command += " > " + (folder / "log") + " 2>&1";
  const int result = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  std::stringstream log;
  log << std::ifstream(folder / "log").rdbuf();
  ASSERT_EQ(result, 0) << log.str().substr(0, 4000);
  const std::string said = log.str();
  const std::regex spills("([0-9]+) bytes spill stores"), shared("([0-9]+) bytes smem");
  int kernels = 0;
  for (std::sregex_iterator at(said.begin(), said.end(), spills), end; at != end; ++at, ++kernels)
    EXPECT_EQ((*at)[1], "0") << GetParam().name;
  for (std::sregex_iterator at(said.begin(), said.end(), shared), end; at != end; ++at)
    EXPECT_LE(std::stoi((*at)[1]), 48 << 10);
  EXPECT_GE(kernels, 4) << said;
}

INSTANTIATE_TEST_SUITE_P(Every, Nvcc, testing::ValuesIn(test::device_cases()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace wr
