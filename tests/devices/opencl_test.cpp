// The same on an OpenCL device, where WINDROW_TEST_DEVICE names one (`make test-devices` installs PoCL and does).
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "base/host.h"
#include "devices/device_under_test.h"
#include "devices/ops.h"
#include "devices/setting.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "support/host_device.h"
#include "support/random_graphs.h"
#include "temporary_files.h"
#include "windrow/device.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using test::numbers;

std::string wanted() { return test::wanted_device(); }

int items() {
  const char* count = std::getenv("WINDROW_TEST_ITEMS");  // NOLINT(concurrency-mt-unsafe)
  return count ? std::atoi(count) : 0;
}

/// The device under test; there is none where none is named.
std::shared_ptr<device::Device> device_under_test() {
  const device::Found found = device::find(wanted());
  EXPECT_TRUE(found.device) << found.reason;
  return found.device;
}

class OpenClOps : public testing::TestWithParam<test::DeviceCase> {};

TEST_P(OpenClOps, MatchTheOracle) {
  ON_A_DEVICE();
  EXPECT_EQ(test::check_on_device(GetParam(), device_under_test(), items(), 2), "");
}

INSTANTIATE_TEST_SUITE_P(Every, OpenClOps, testing::ValuesIn(test::device_cases()),
                         [](const auto& p) { return p.param.name; });

TEST(OpenClGraphs, RandomStepsMatchTheInterpreter) {
  ON_A_DEVICE();
  const device::Backend backend(device_under_test(), items());
  test::run_random_steps(0, 24, &backend);
}

/// A small net with Adam: logits, cross entropy, an update.
struct Net {
  State w{Array::zeros({20, 8}), "w"}, v{Array::zeros({8, 3}), "v"};
  optim::Adam adam{optim::Adam::Options{.lr = 0.05}};

  Net() {
    w.set(test::smooth_array({20, 8}, 1, -0.5, 0.5).astype(DType::f32));
    v.set(test::smooth_array({8, 3}, 2, -0.5, 0.5).astype(DType::f32));
  }
  Step step(const std::string& device) {
    const OnDevice there(device);
    return compile(
        CompileOptions{.lanes = 2},
        [this](const Tensor& x, const Tensor& y) {
          const Tensor loss = mean(cross_entropy(matmul(relu(matmul(x, Tensor(w))), Tensor(v)), y));
          adam.minimize(loss, {w, v});
          return loss;
        },
        f32(32, 20), i32(32));
  }
};

struct Batch {
  Array x = test::smooth_array({32, 20}, 3).astype(DType::f32);
  Array y = eval(cast(Tensor(test::smooth_array({32}, 4, 0, 2.99).astype(DType::f32)), DType::i32));
};

TEST(OpenClSteps, TrainsAsOnTheCpuAndTheSameBitsTwice) {
  ON_A_DEVICE();
  const Batch batch;
  std::vector<std::vector<double>> weights;
  std::vector<float> losses;
  for (const std::string& where : {std::string("cpu"), wanted(), wanted()}) {
    Net net;
    Step step = net.step(where);
    float loss = 0;
    for (int i = 0; i < 50; ++i) loss = step(batch.x, batch.y);
    losses.push_back(loss);
    weights.push_back(numbers(net.w.value()));
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
  EXPECT_EQ(losses[1], losses[2]);
  EXPECT_EQ(weights[1], weights[2]);
  for (std::size_t i = 0; i < weights[0].size(); ++i) EXPECT_NEAR(weights[0][i], weights[1][i], 2e-3);
}

TEST(OpenClSteps, StatesStayThereAndLaunchesArePhases) {
  ON_A_DEVICE();
  const Batch batch;
  Net net;
  Step step = net.step(wanted());
  step(batch.x, batch.y);
  const auto first = step.inside().executor->traffic();
  for (int i = 0; i < 1000; ++i) step(batch.x, batch.y);
  const auto last = step.inside().executor->traffic();
  const std::uint64_t arguments = 32 * 20 * 4 + 32 * 4;
  EXPECT_EQ(last.to_device - first.to_device, 1000 * arguments);
  EXPECT_EQ(last.from_device - first.from_device, 0u);  // nobody read the loss
  const bool commits = !step.inside().executor->program().commits.calls.empty();
  EXPECT_EQ(last.launches - first.launches, 1000u * (static_cast<unsigned>(step.facts().phases) + commits));
  EXPECT_GT(numbers(net.w.value())[0], -10);  // comes home when it is read
}

TEST(OpenClSteps, StatesGoBetweenTheCpuAndTheDevice) {
  ON_A_DEVICE();
  State total(Array::zeros({4}), "total");
  const auto add = [&](const Tensor& x) {
    total.assign(Tensor(total) + x);
    return Tensor(total) * 1;
  };
  const auto compiled = [&](const std::string& where) {
    const OnDevice device(where);
    return compile(add, f32(4));
  };
  Step there = compiled(wanted()), here = compiled("cpu");
  const Array one = Array::full({4}, 1.0, DType::f32);
  for (int i = 0; i < 3; ++i) {
    there(one);
    here(one);
  }
  EXPECT_EQ(numbers(total.value()), std::vector<double>(4, 6.0));
  total.set(Array::full({4}, 10.0, DType::f32));
  const Array& kept = there.output(0);
  there(one);
  EXPECT_EQ(numbers(kept), std::vector<double>(4, 11.0));
  there(one);
  EXPECT_EQ(numbers(kept), std::vector<double>(4, 12.0)) << "a result that is held comes with every run";
  EXPECT_EQ(numbers(eval(Tensor(total) * 2)), std::vector<double>(4, 24.0));
}

TEST(OpenClSteps, RandomNumbersAreTheCpus) {
  ON_A_DEVICE();
  std::vector<std::vector<double>> drawn[2];
  for (int on_device = 0; on_device < 2; ++on_device) {
    Random random(123);
    const OnDevice device(on_device ? wanted() : "cpu");
    Step step = compile(CompileOptions{.lanes = 3}, [&] {
      return std::vector<Tensor>{random.uniform({37, 5}), random.normal({41, 3}), random.bernoulli(0.3, {50}),
                                 random.uniform({11}, DType::f64), random.normal({13}, DType::f64)};
    });
    for (int run = 0; run < 3; ++run) {
      step();
      for (std::size_t k = 0; k < 5; ++k) drawn[on_device].push_back(numbers(step.output(k)));
    }
  }
  EXPECT_EQ(drawn[0], drawn[1]);
}

TEST(OpenClSteps, AProfileSaysWhenKernelsRan) {
  ON_A_DEVICE();
  const Batch batch;
  Net net;
  Step step = net.step(wanted());
  step.profile(true);
  float last = 0;
  for (int i = 0; i < 33; ++i) last = step(batch.x, batch.y);
  const Profile p = step.profile();
  EXPECT_EQ(p.recorded, 5);
  double kernels = 0;
  for (const Profile::Kernel& k : p.kernels)
    if (k.bound == "device") {
      EXPECT_GT(k.us, 0) << k.op;
      EXPECT_EQ(k.calls, 1) << k.op;
      kernels += k.us;
    }
  EXPECT_GT(kernels, 0);
  EXPECT_LE(kernels, p.run_us);
  Net again;
  Step unprofiled = again.step(wanted());
  float other = 0;
  for (int i = 0; i < 33; ++i) other = unprofiled(batch.x, batch.y);
  EXPECT_EQ(last, other) << "recording changes nothing";
}

// ---- what goes wrong ----

/// Compiles and runs something; its code is in the cache afterwards.
void expect_to_run(const std::string& device) {
  Step step = compile(
      CompileOptions{.device = device}, [](const Tensor& x) { return x * 3 + 1; }, f32(5));
  EXPECT_EQ(numbers(step(Array::full({5}, 2.0, DType::f32))[0]), std::vector<double>(5, 7.0));
}

TEST(OpenClFailures, ACompilerThatRefusesSaysWhy) {
  ON_A_DEVICE();
  device::Source source;
  source.text = "__kernel void wr_phase0(__global char* m0) { this is no C; }\n";
  try {
    device_under_test()->build(source);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the device's compiler refuses the kernels: "), std::string::npos)
        << error.what();
  }
}

TEST(OpenClFailures, TooLittleMemoryIsSaid) {
  ON_A_DEVICE();
  const auto device = device_under_test();
  EXPECT_THROW(device->allocate(std::size_t{1} << 60), NoMemory);
  EXPECT_THROW(device->allocate_intake(std::size_t{1} << 60), NoMemory);
  expect_to_run(wanted());  // nothing is lost by that
}

TEST(OpenClFailures, CodeThatIsDamagedOrAnotherDriversIsMadeAnew) {
  ON_A_DEVICE();
  if (device_under_test()->facts().platform == "Portable Computing Language") GTEST_SKIP() << "it has its own cache";
  const TemporaryFolder folder;
  const test::Setting here("WINDROW_CACHE_DIR", folder / "cache");
  const auto files = [&] {
    std::vector<std::filesystem::path> list;
    if (std::filesystem::exists(folder / "cache"))
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "cache"))
        if (entry.is_regular_file() && entry.path().parent_path().filename() == "devices") list.push_back(entry.path());
    return list;
  };
  expect_to_run(wanted());
  ASSERT_EQ(files().size(), 1u);
  const auto file = files()[0];
  const auto size = std::filesystem::file_size(file);
  expect_to_run(wanted());
  // A byte that is another's, half a file, a file of another driver: read, refused, made anew.
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-3, std::ios::end);
    damaged.put('#');
  }
  expect_to_run(wanted());
  std::filesystem::resize_file(file, size / 2);
  expect_to_run(wanted());
  EXPECT_EQ(std::filesystem::file_size(file), size) << "it was not written again";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << "another program's file";
  expect_to_run(wanted());
}

/// The loader reads the list of vendors once in a process: these two run alone.
#define BEFORE_THE_LOADER()                                                                                  \
  ON_A_DEVICE();                                                                                             \
  if (std::getenv("WINDROW_OPENCL_LIBRARY")) GTEST_SKIP() << "a library that needs no vendors"; /* NOLINT */ \
  if (::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD)) GTEST_SKIP() << "the loader has been at work: run it alone"

TEST(OpenClVendors, WithoutOneThereIsAReason) {
  BEFORE_THE_LOADER();
  const TemporaryFolder folder;
  const test::Setting none("OCL_ICD_VENDORS", folder / "");
  const std::string reason = device::list_opencl().reason;
  EXPECT_NE(reason.find("no platform"), std::string::npos) << reason;
}

TEST(OpenClVendors, OneThatCrashesStaysInTheChild) {
  BEFORE_THE_LOADER();
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to make a broken driver with";
  const TemporaryFolder folder;
  write_text(folder / "broken.cpp",
             "#include <csignal>\n__attribute__((constructor)) static void crash() { raise(SIGSEGV); }\n");
  const std::string library = folder / "libbroken.so";
  ASSERT_EQ(std::system(("c++ -shared -fPIC -o " + library + " " + (folder / "broken.cpp")).c_str()), 0);  // NOLINT
  std::filesystem::create_directories(folder / "vendors");
  write_text(folder / "vendors/broken.icd", library + "\n");
  const test::Setting broken("OCL_ICD_VENDORS", folder / "vendors");
  const std::string reason = device::list_opencl().reason;
  EXPECT_NE(reason.find("crashed (signal 11): a driver is broken"), std::string::npos) << reason;
  Step step = compile(
      CompileOptions{.device = "auto"}, [](const Tensor& x) { return x + 1; }, f32(3));
  EXPECT_EQ(device_of(step), "cpu");
  EXPECT_NE(fallback_of(step).find("a driver is broken"), std::string::npos) << fallback_of(step);
}

TEST(OpenClChoice, WhatIsNamedAndIsNotThereIsAnError) {
  ON_A_DEVICE();
  try {
    const OnDevice nowhere("opencl:no such device");
    compile([](const Tensor& x) { return x + 1; }, f32(3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'no such device' is none of: 0 "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace wr
