// Which device a step runs on, and what happens where none can serve: in every test, with an imitation of CUDA's
// driver.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "devices/ops.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "support/host_device.h"
#include "temporary_files.h"
#include "windrow/device.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using test::numbers;

/// A variable of the environment while this lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }  // NOLINT
  ~Setting() { ::unsetenv(name_); }                                                                        // NOLINT
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

template <class Function, class... Specs>
Step compiled_for(const std::string& device, const Function& fn, const Specs&... specs) {
  const OnDevice there(device);
  return compile(fn, specs...);
}

Step plus_one(const std::string& device) {
  return compiled_for(
      device, [](const Tensor& x) { return x + 1; }, f32(3));
}

// ---- finding devices ----

TEST(DeviceChoice, TheDefaultIsTheCpuAndLoadsNothing) {
  Step step = plus_one("");
  EXPECT_EQ(device_of(step), "cpu");
  EXPECT_EQ(fallback_of(step), "");
  EXPECT_EQ(::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(DeviceChoice, AnUnknownNameIsRefused) {
  const std::string said = message_of([] { plus_one("gpu"); });
  EXPECT_NE(said.find("choice_test.cpp"), std::string::npos) << said;
  EXPECT_NE(said.find("expected cpu, auto, opencl"), std::string::npos) << said;
}

TEST(DeviceChoice, WithoutALoaderThereIsAReason) {
  const Setting nowhere("WINDROW_OPENCL_LIBRARY", "/no/such/libOpenCL.so");
  EXPECT_NE(device::list_opencl().reason.find("OpenCL is not installed"), std::string::npos);
}

std::vector<device::Facts> crashes() {
  ::raise(SIGSEGV);
  return {};
}
std::vector<device::Facts> hangs() {
  ::sleep(30);
  return {};
}
std::vector<device::Facts> throws() { throw Error("no platform here"); }
std::vector<device::Facts> finds() {
  device::Facts facts = test::host_facts(true);
  facts.name = "a name\nwith lines";
  return {facts, test::host_facts(false)};
}

TEST(DeviceProbe, WhatABrokenDriverDoesStaysInTheChild) {
  EXPECT_NE(device::in_a_child("test", crashes).reason.find("crashed (signal 11)"), std::string::npos);
  EXPECT_NE(device::in_a_child("test", hangs, 0.2).reason.find("did not end in time"), std::string::npos);
  EXPECT_EQ(device::in_a_child("test", throws).reason, "no platform here");
  const device::Listed found = device::in_a_child("test", finds);
  ASSERT_EQ(found.devices.size(), 2u) << found.reason;
  EXPECT_EQ(found.devices[0].name, "a name with lines");
  EXPECT_EQ(found.devices[1].most_items, test::host_facts(false).most_items);
  EXPECT_TRUE(found.devices[0].cpu && !found.devices[1].cpu);
}

// ---- the cache ----

TEST(DeviceCache, GivesBackWhatWasBuiltForTheSameDriverAndNothingElse) {
  const TemporaryFolder folder;
  const Setting here("WINDROW_CACHE_DIR", folder / "cache");
  device::Facts facts = test::host_facts(true);
  EXPECT_EQ(device::remembered_code(facts, "source", "-O"), "");
  device::remember_code(facts, "source", "-O", "machine code");
  EXPECT_EQ(device::remembered_code(facts, "source", "-O"), "machine code");
  EXPECT_EQ(device::remembered_code(facts, "another", "-O"), "");
  EXPECT_EQ(device::remembered_code(facts, "source", "-g"), "");
  facts.driver = "a newer driver";
  EXPECT_EQ(device::remembered_code(facts, "source", "-O"), "");
  facts.driver = "";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "cache")) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-2, std::ios::end);
    file.put('#');
  }
  EXPECT_EQ(device::remembered_code(facts, "source", "-O"), "") << "a damaged file was believed";
}

// ---- what goes wrong on a device ----

std::unique_ptr<Step::Inside> planned(const std::shared_ptr<device::Device>& on, DType dtype = DType::f32) {
  auto graph = std::make_shared<ir::Graph>();
  const int x = graph->add_input({dtype, {8, 3}}, Location::current());
  graph->outputs = {graph->add(ir::Op::neg, {x}, {}, Location::current())};
  return std::make_unique<Step::Inside>(graph, CompileOptions{}, device::Backend(on));
}

TEST(DeviceFailures, NoDoubleNoMemoryNoCompilation) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  device::Facts facts = test::host_facts(true);
  facts.f64 = false;
  EXPECT_NE(message_of([&] { planned(test::host_device(facts), DType::f64); }).find("has f64, the device has none"),
            std::string::npos);
  facts = test::host_facts(true);
  facts.most_bytes = 64;
  EXPECT_NE(message_of([&] { planned(test::host_device(facts)); }).find("the device gives at most"), std::string::npos);
  auto log = std::make_shared<test::HostLog>();
  log->flags = "-Dfloat=double_trouble";
  EXPECT_NE(message_of([&] { planned(test::host_device(test::host_facts(true), log)); }).find("does not compile"),
            std::string::npos);
}

TEST(DeviceFailures, ADeviceThatIsLostIsAnErrorOfTheRun) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  auto log = std::make_shared<test::HostLog>();
  log->fail_at_run = 3;  // two are done while it is prepared
  Step step(planned(test::host_device(test::host_facts(true), log)));
  const Array x = Array::full({8, 3}, 2.0, DType::f32);
  EXPECT_EQ(numbers(step(x)[0])[0], -2);
  const std::string said = message_of([&] { step(x); });
  EXPECT_NE(said.find("the device is lost"), std::string::npos) << said;
  EXPECT_NE(said.find("choice_test.cpp"), std::string::npos) << said;
}

// ---- CUDA, on an imitation of its driver ----

struct Imitation {
  TemporaryFolder folder;
  Setting cuda{"WINDROW_CUDA_LIBRARY", WINDROW_IMITATION}, nvrtc{"WINDROW_NVRTC_LIBRARY", WINDROW_IMITATION};
  Setting opencl{"WINDROW_OPENCL_LIBRARY", "/no/such/libOpenCL.so"}, cache{"WINDROW_CACHE_DIR", folder / "cache"};
  void* library = ::dlopen(WINDROW_IMITATION, RTLD_NOW | RTLD_LOCAL);
  std::string calls() const { return reinterpret_cast<const char* (*)()>(::dlsym(library, "imitation_calls"))(); }
  void forget() const { reinterpret_cast<void (*)()>(::dlsym(library, "imitation_forget"))(); }
};

#define WITH_IMITATION()                                                                   \
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with"; \
  const Imitation imitation

TEST(CudaImitation, AutoTakesItAndDescribeSaysSo) {
  WITH_IMITATION();
  Step step = plus_one("auto");
  EXPECT_EQ(device_of(step), "cuda: imitation");
  EXPECT_EQ(fallback_of(step), "");
  EXPECT_NE(step.describe().find("cuda: imitation"), std::string::npos) << step.describe();
  EXPECT_EQ(numbers(step(Array::full({3}, 2.0, DType::f32))[0]), std::vector<double>(3, 3.0));
}

TEST(CudaImitation, AStepIsOneGraphAndItsTransfers) {
  WITH_IMITATION();
  State total(Array::zeros({3}), "total");
  Step step = compiled_for(
      "cuda",
      [&](const Tensor& x) {
        total.assign(Tensor(total) + x);
        return sum(Tensor(total));
      },
      f32(3));
  const Array one = Array::full({3}, 1.0, DType::f32);
  step(one);
  imitation.forget();
  const float sum_now = step(one);
  EXPECT_EQ(sum_now, 6);
  EXPECT_EQ(imitation.calls(), "cuMemcpyHtoDAsync_v2\ncuGraphLaunch\ncuMemcpyDtoHAsync_v2\ncuStreamSynchronize\n");
  imitation.forget();
  EXPECT_EQ(numbers(total.value()), std::vector<double>(3, 2.0));
  EXPECT_EQ(imitation.calls(), "cuMemcpyDtoHAsync_v2\ncuStreamSynchronize\n");
}

TEST(CudaImitation, CodeIsCompiledOnce) {
  WITH_IMITATION();
  plus_one("cuda");
  imitation.forget();
  plus_one("cuda");
  EXPECT_EQ(imitation.calls().find("nvrtcCompileProgram"), std::string::npos) << imitation.calls();
}

TEST(CudaImitation, EveryCallThatFailsWhileCompilingHasItsReason) {
  WITH_IMITATION();
  for (const char* call :
       {"cuMemAlloc_v2", "nvrtcCompileProgram", "cuModuleLoadData", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
        "cuModuleGetFunction", "cuLaunchKernel", "cuGraphInstantiateWithFlags"}) {
    for (const bool named : {true, false}) {
      const TemporaryFolder folder;
      imitation.forget();
      const Setting cache("WINDROW_CACHE_DIR", folder / "cache"),
          failing("WINDROW_IMITATION_FAIL", std::string(call) + ":1");
      if (named) {
        const std::string said = message_of([] { plus_one("cuda"); });
        EXPECT_NE(said.find("cuda cannot run the step: "), std::string::npos) << call << ": " << said;
        continue;
      }
      Step step = plus_one("auto");
      EXPECT_EQ(device_of(step), "cpu") << call;
      EXPECT_NE(step.describe().find("on the CPU: imitation: "), std::string::npos) << step.describe();
      EXPECT_EQ(numbers(step(Array::full({3}, 2.0, DType::f32))[0]), std::vector<double>(3, 3.0));
    }
  }
}

TEST(CudaImitation, ADeviceThatIsLostIsAnErrorOfTheRun) {
  WITH_IMITATION();
  Step step = plus_one("cuda");
  const Array x = Array::full({3}, 2.0, DType::f32);
  step(x);
  imitation.forget();
  const Setting failing("WINDROW_IMITATION_FAIL", "cuGraphLaunch:1");
  const std::string said = message_of([&] { step(x); });
  EXPECT_NE(said.find("cuGraphLaunch failed: as the test wanted it"), std::string::npos) << said;
  EXPECT_NE(message_of([&] { step(x); }).find("the device is lost"), std::string::npos) << "it stays lost";
}

TEST(CudaImitation, OpsInManyThreads) {
  WITH_IMITATION();
  const device::Found found = device::find("cuda");
  ASSERT_TRUE(found.device) << found.reason;
  for (const test::DeviceCase& each : test::device_cases()) {
    const bool here = each.name == "rows_f32" || each.name == "products_f32" || each.name == "automaton_f32";
    if (!here) continue;
    EXPECT_EQ(test::check_on_device(each, found.device, 0, 2), "");
  }
}

}  // namespace
}  // namespace wr
