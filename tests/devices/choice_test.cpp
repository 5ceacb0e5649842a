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
#include "devices/setting.h"
#include "errors.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "support/host_device.h"
#include "support/machines.h"
#include "temporary_files.h"
#include "windrow/device.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using test::numbers;
using test::Setting;

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
  const std::string said = error_of([] { plus_one("gpu"); });
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
  facts.lanes = 96, facts.f64_times = 24, facts.vector_bytes = 64;
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
  EXPECT_EQ(found.devices[0].lanes, 96);
  EXPECT_EQ(found.devices[0].f64_times, 24);
  EXPECT_EQ(found.devices[0].vector_bytes, 64);
  EXPECT_TRUE(found.devices[0].cpu && !found.devices[1].cpu);
}

// ---- a device as a machine ----

TEST(DeviceMachine, OfACpuIsTheHostWithLaunches) {
  device::Facts facts;
  facts.cpu = true;
  facts.units = 8;
  for (const std::string& name : test::machine_names()) {
    const Machine host = machine_named(name), m = device::machine_of(facts, host);
    EXPECT_EQ(m.cores, 8);
    EXPECT_EQ(m.l2, host.l2);
    EXPECT_GE(m.barrier_ns, 8000) << "a launch";
    EXPECT_DOUBLE_EQ(host.gflops_f32, m.gflops_f32) << name;
  }
}

TEST(DeviceMachine, HasTheLanesThatItsVendorSays) {
  const Machine host = machine_named("desktop");
  const auto of = [&](const device::Attributes& said, int units) {
    device::Facts facts;
    facts.units = units;
    facts.clock_mhz = 1000;
    facts.local_bytes = 48 << 10;
    device::tell_units(facts, said);
    return device::machine_of(facts, host);
  };
  const auto all_f32 = [](const Machine& m) { return m.gflops_f32 * static_cast<double>(m.cores); };
  const auto f64_times = [](const Machine& m) { return m.gflops_f32 / m.gflops_f64; };
  // Data sheets at 1 GHz, 2 operations an fma. T4: 40 units of 64, f64 1/32; A100: 108 of 64, 1/2; 4090: 128 of 128,
  // 1/64; H100 has more units than lanes of a plan.
  EXPECT_DOUBLE_EQ(all_f32(of({.major = 7, .minor = 5}, 40)), 2.0 * 40 * 64);
  EXPECT_DOUBLE_EQ(f64_times(of({.major = 7, .minor = 5}, 40)), 32);
  EXPECT_DOUBLE_EQ(all_f32(of({.major = 8, .minor = 0}, 108)), 2.0 * 108 * 64);
  EXPECT_DOUBLE_EQ(f64_times(of({.major = 8, .minor = 0}, 108)), 2);
  EXPECT_DOUBLE_EQ(all_f32(of({.major = 8, .minor = 9}, 128)), 2.0 * 128 * 128);
  EXPECT_DOUBLE_EQ(f64_times(of({.major = 8, .minor = 9}, 128)), 64);
  EXPECT_DOUBLE_EQ(f64_times(of({.major = 9, .minor = 0}, 132)), 2);
  EXPECT_DOUBLE_EQ(f64_times(of({.major = 12, .minor = 0}, 170)), 64);
  // A Radeon VII: 60 units of 4 x 16; an Arc A770: 8 slices of 4 sub-slices of 16 units, which the driver calls 512.
  EXPECT_DOUBLE_EQ(all_f32(of({.simds = 4, .simd_width = 16}, 60)), 2.0 * 60 * 64);
  const Machine arc = of({.slices = 8, .sub_slices = 4, .eus = 16}, 512);
  EXPECT_EQ(arc.cores, 64);
  EXPECT_DOUBLE_EQ(all_f32(arc), 2.0 * 4096);
  // Nobody says, or something that nobody knows.
  EXPECT_DOUBLE_EQ(all_f32(of({}, 10)), 2.0 * 10 * 64);
  EXPECT_EQ(of({.major = 2, .minor = 1}, 10), of({}, 10));
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
  EXPECT_NE(error_of([&] { planned(test::host_device(facts), DType::f64); }).find("has f64, the device has none"),
            std::string::npos);
  facts = test::host_facts(true);
  facts.most_bytes = 64;
  EXPECT_NE(error_of([&] { planned(test::host_device(facts)); }).find("the device gives at most"), std::string::npos);
  auto log = std::make_shared<test::HostLog>();
  log->flags = "-Dfloat=double_trouble";
  EXPECT_NE(error_of([&] { planned(test::host_device(test::host_facts(true), log)); }).find("does not compile"),
            std::string::npos);
}

TEST(DeviceFailures, ADeviceThatIsLostIsAnErrorOfTheRun) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  auto log = std::make_shared<test::HostLog>();
  log->fail_at_run = 3;  // two are done while it is prepared
  Step step(planned(test::host_device(test::host_facts(true), log)));
  const Array x = Array::full({8, 3}, 2.0, DType::f32);
  EXPECT_EQ(numbers(step(x)[0])[0], -2);
  const std::string said = error_of([&] { step(x); });
  EXPECT_NE(said.find("the device is lost"), std::string::npos) << said;
  EXPECT_NE(said.find("choice_test.cpp"), std::string::npos) << said;
}

// ---- what comes home, and when ----

/// Two results and a state, on a device of the test's.
struct Transfers {
  State total{Array::zeros({8, 3}), "total"};
  Step step{[this] {
    auto graph = std::make_shared<ir::Graph>();
    const ir::TraceScope scope(graph);
    const Tensor x(graph, graph->add_input({DType::f32, {8, 3}}, Location::current()));
    total.assign(Tensor(total) + x);
    graph->outputs = {sum(Tensor(total)).node(), (x * 2).node()};
    return std::make_unique<Step::Inside>(passes::optimise(*graph), CompileOptions{},
                                          device::Backend(test::host_device(test::host_facts(true))));
  }()};
  Array x = Array::full({8, 3}, 1.0, DType::f32);
  backend::Traffic traffic() const { return step.inside().executor->traffic(); }
};

constexpr std::uint64_t kArguments = 8 * 3 * 4, kSum = 4, kTwice = 8 * 3 * 4;

TEST(DeviceTransfers, OfAThousandRunsArgumentsGoThereAndNothingComesBack) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  Transfers t;
  t.step(t.x);
  const auto before = t.traffic();
  for (int i = 0; i < 1000; ++i) t.step(t.x);
  EXPECT_EQ(t.traffic().to_device - before.to_device, 1000 * kArguments);
  EXPECT_EQ(t.traffic().from_device - before.from_device, 0u);
  EXPECT_EQ(numbers(t.total.value()), std::vector<double>(24, 1001.0));
}

TEST(DeviceTransfers, ResultsComeWhenTheyAreRead) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  Transfers t;
  const auto results = t.step(t.x);
  EXPECT_EQ(t.traffic().from_device, 0u);
  EXPECT_EQ(float(results), 24.0f);
  EXPECT_EQ(float(results), 24.0f) << "once";
  EXPECT_EQ(t.traffic().from_device, kSum);
  EXPECT_EQ(numbers(results[1]), std::vector<double>(24, 2.0));
  EXPECT_EQ(t.traffic().from_device, kSum + kTwice);
  t.step(t.x);
  EXPECT_EQ(t.traffic().from_device, kSum + kTwice) << "what was read of one run does not come with the next";
  const Array& held = t.step.output(0);
  EXPECT_EQ(numbers(held)[0], 48);
  t.step(t.x);
  EXPECT_EQ(numbers(held)[0], 72) << "what output() has handed out does";
  EXPECT_EQ(t.traffic().from_device, 3 * kSum + kTwice);
}

TEST(DeviceTransfers, AProfileShowsLaunchesAndTransfers) {
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with";
  Transfers t;
  EXPECT_NE(error_of([&] { static_cast<void>(t.step.profile()); }).find("is not profiled"), std::string::npos);
  t.step(t.x);  // with the state
  t.step.profile(true);
  const auto before = t.traffic();
  for (int i = 0; i < 17; ++i) EXPECT_EQ(float(t.step(t.x)), 24.0f * static_cast<float>(i + 2));
  const std::uint64_t launches = (t.traffic().launches - before.launches) / 17;
  const Profile p = t.step.profile();
  EXPECT_EQ(p.runs, 17);
  EXPECT_EQ(p.recorded, 3);  // one in eight
  EXPECT_EQ(p.rows, (std::vector<std::string>{"host", "device"}));
  const auto named = [&](const std::string& op) {
    for (const Profile::Kernel& k : p.kernels)
      if (k.op == op) return k;
    ADD_FAILURE() << "no " << op << " in\n" << p.to_table();
    return Profile::Kernel{};
  };
  const Profile::Kernel phase = named("phase 0");
  EXPECT_EQ(phase.kernel, "wr_phase0");
  EXPECT_NE(phase.detail.find("add"), std::string::npos) << phase.detail;
  EXPECT_NE(phase.file.find("choice_test.cpp"), std::string::npos) << phase.file;
  EXPECT_DOUBLE_EQ(phase.us, 1);  // as the test's device says
  EXPECT_DOUBLE_EQ(named("send").bytes, kArguments);
  EXPECT_DOUBLE_EQ(named("fetch").bytes, kSum);
  EXPECT_EQ(named("launch").calls, 1);
  int there = 0;
  for (const Profile::Event& e : p.timeline) {
    ASSERT_LT(e.kernel, static_cast<int>(p.kernels.size()));
    EXPECT_LE(e.begin_us, e.end_us);
    there += e.thread == 1;
  }
  EXPECT_EQ(there, 3 * static_cast<int>(launches));
  const auto read = profiles_from_json(p.to_json());
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].rows, p.rows);
  EXPECT_NE(to_trace(read).find("\"name\":\"device\""), std::string::npos) << to_trace(read);
  EXPECT_NE(p.to_table().find("wr_phase0"), std::string::npos);
  t.step.profile(false);
  EXPECT_EQ(float(t.step(t.x)), 24.0f * 19);
}

TEST(DeviceChoice, CompileOptionsNameTheDevice) {
  Step here = compile(
      CompileOptions{.device = "cpu"}, [](const Tensor& x) { return x + 1; }, f32(3));
  EXPECT_EQ(device_of(here), "cpu");
  const OnDevice elsewhere("nowhere");
  Step still = compile(
      CompileOptions{.device = "cpu"}, [](const Tensor& x) { return x + 1; }, f32(3));
  EXPECT_EQ(device_of(still), "cpu") << "options come before OnDevice";
  const auto said = error_of([] {
    compile(
        CompileOptions{.device = "gpu"}, [](const Tensor& x) { return x + 1; }, f32(3));
  });
  EXPECT_NE(said.find("device 'gpu': expected cpu, auto, opencl"), std::string::npos) << said;
}

// ---- CUDA, on an imitation of its driver ----

struct Imitation {
  TemporaryFolder folder;
  Setting cuda{"WINDROW_CUDA_LIBRARY", WINDROW_IMITATION}, nvrtc{"WINDROW_NVRTC_LIBRARY", WINDROW_IMITATION};
  Setting opencl{"WINDROW_OPENCL_LIBRARY", "/no/such/libOpenCL.so"}, cache{"WINDROW_CACHE_DIR", folder / "cache"};
  Setting machine{"WINDROW_MACHINE", "zen3"};  // nothing is measured
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
  EXPECT_EQ(imitation.calls(),
            "cuEventSynchronize\ncuMemcpyHtoDAsync_v2\ncuGraphLaunch\ncuEventRecord\n"  // the run
            "cuMemcpyDtoHAsync_v2\ncuStreamSynchronize\n");                             // its result
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
  for (const char* call : {"cuMemAlloc_v2", "cuMemHostAlloc", "cuEventCreate", "nvrtcCompileProgram",
                           "cuModuleLoadData", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuModuleGetFunction",
                           "cuLaunchKernel", "cuGraphInstantiateWithFlags"}) {
    for (const bool named : {true, false}) {
      const TemporaryFolder folder;
      imitation.forget();
      const Setting cache("WINDROW_CACHE_DIR", folder / "cache"),
          failing("WINDROW_IMITATION_FAIL", std::string(call) + ":1");
      if (named) {
        const std::string said = error_of([] { plus_one("cuda"); });
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
  const std::string said = error_of([&] { step(x); });
  EXPECT_NE(said.find("cuGraphLaunch failed: as the test wanted it"), std::string::npos) << said;
  EXPECT_NE(error_of([&] { step(x); }).find("the device is lost"), std::string::npos) << "it stays lost";
}

TEST(CudaImitation, AnIntegratedGpuReadsArgumentsWhereTheHostWroteThem) {
  WITH_IMITATION();
  const Setting integrated("WINDROW_IMITATION_INTEGRATED", "1");
  (void)device::cuda_devices();  // initialises the driver
  Step step(planned(device::open_cuda(0)));
  imitation.forget();
  EXPECT_EQ(numbers(step(Array::full({8, 3}, 2.0, DType::f32))[0]), std::vector<double>(24, -2.0));
  EXPECT_EQ(imitation.calls().find("cuMemcpyHtoD"), std::string::npos) << imitation.calls();
}

TEST(CudaImitation, AProfileHasEveryLaunch) {
  WITH_IMITATION();
  Step step = plus_one("cuda");
  step.profile(true);
  const Array x = Array::full({3}, 2.0, DType::f32);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(numbers(step(x)[0]), std::vector<double>(3, 3.0));
  const Profile p = step.profile();
  EXPECT_EQ(p.recorded, 2);
  ASSERT_EQ(p.kernels.size(), 1u + 3);
  EXPECT_GT(p.kernels[0].us, 0);
  imitation.forget();
  const Setting failing("WINDROW_IMITATION_FAIL", "cuLaunchKernel:1");
  step.profile(true);
  EXPECT_NE(error_of([&] { step(x); }).find("cuLaunchKernel failed"), std::string::npos);
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
