// Device code for real GPUs, compiled and not run: every op and whole steps in the CUDA dialect, for four generations,
// without spilled registers and within 48 KB of shared memory. Where WINDROW_TEST_NVCC is set (`make test-devices` does
// if there is nvcc).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "backend/device/backend.h"
#include "bench/case.h"
#include "devices/ops.h"
#include "step/inside.h"
#include "temporary_files.h"

namespace wr {
namespace {

/// What nvcc says of the schedule's kernels that is not as it should be.
void expect_good_kernels(const plan::Schedule& schedule) {
  const TemporaryFolder folder;
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
  const std::string said = log.str();
  ASSERT_EQ(result, 0) << said.substr(0, 4000);
  const std::regex spills("properties for ([^\n]*)\n[^\n]* ([0-9]+) bytes spill stores"), shared("([0-9]+) bytes smem");
  std::size_t kernels = 0;
  for (std::sregex_iterator at(said.begin(), said.end(), spills), end; at != end; ++at, ++kernels)
    EXPECT_EQ((*at)[2], "0") << "bytes of registers are spilled by " << (*at)[1];
  for (std::sregex_iterator at(said.begin(), said.end(), shared), end; at != end; ++at)
    EXPECT_LE(std::stoi((*at)[1]), 48 << 10);
  EXPECT_GE(kernels, 4 * source.launches.size()) << said;
}

#define WITH_NVCC() \
  if (!std::getenv("WINDROW_TEST_NVCC")) GTEST_SKIP() << "WINDROW_TEST_NVCC is not set" /* NOLINT */

class Nvcc : public testing::TestWithParam<test::DeviceCase> {};

TEST_P(Nvcc, CompilesForEveryGeneration) {
  WITH_NVCC();
  plan::Options options;
  options.machine = machine_named("desktop");
  options.lanes = 8;
  std::vector<Array> arguments;
  const auto graph = test::to_be_run(GetParam(), test::traced(GetParam(), arguments));
  expect_good_kernels(plan::schedule(*graph, options));
}

INSTANTIATE_TEST_SUITE_P(Every, Nvcc, testing::ValuesIn(test::device_cases()),
                         [](const auto& p) { return p.param.name; });

/// Steps as they are trained, planned for a GPU of 28 units.
class NvccSteps : public testing::TestWithParam<const char*> {};

TEST_P(NvccSteps, CompileForEveryGeneration) {
  WITH_NVCC();
  device::Facts facts;
  facts.api = "cuda";
  facts.units = 28;
  facts.clock_mhz = 1777;
  facts.most_items = 1024;
  facts.local_bytes = 48 << 10;
  plan::Options options;
  options.machine = device::machine_of(facts, machine_named("desktop"));
  const bench::Prepared prepared = bench::case_named(GetParam()).prepare(1);
  expect_good_kernels(plan::schedule(*prepared.step.inside().graph, options));
}

INSTANTIATE_TEST_SUITE_P(Of, NvccSteps,
                         testing::Values("mlp_step_b64", "dqn_step_b64", "cnn_step_b64",
                                         "logic_ca_checkerboard_update_16_s2_b2", "lstm_step_b32",
                                         "transformer_step_b16", "matmul1000_f32"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace wr
