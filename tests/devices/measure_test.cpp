// What is measured of a device: once, believed where it can be true, remembered by device and driver.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "backend/device/measure.h"
#include "devices/device_under_test.h"
#include "devices/setting.h"
#include "support/host_device.h"
#include "temporary_files.h"

namespace wr {
namespace {

using test::Setting;

/// A device of the host's whose launches take what they take, and a cache folder.
struct Measured {
  TemporaryFolder folder;
  Setting cache{"WINDROW_CACHE_DIR", folder / "cache"};
  std::shared_ptr<test::HostLog> log = std::make_shared<test::HostLog>();
  device::Facts facts = test::host_facts(true);
  Machine host = machine_named("zen3");
  Measured() { log->real_time = true; }
  cpu::KnownMachine machine(int items = 1) const {
    return device::find_machine(*test::host_device(facts, log), {device::Dialect::cpp, items, 0}, host, true);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> list;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "cache"))
      if (entry.is_regular_file()) list.push_back(entry.path());
    return list;
  }
};

#define WITH_COMPILER() \
  if (!test::has_compiler()) GTEST_SKIP() << "no C++ compiler to run generated code with"

TEST(DeviceMeasure, RatesAreMeasuredAndRemembered) {
  WITH_COMPILER();
  for (const bool cpu : {true, false}) {
    Measured m;
    m.facts = test::host_facts(cpu);
    const cpu::KnownMachine found = m.machine(cpu ? 1 : 4);
    EXPECT_NE(found.origin.find("measured in"), std::string::npos) << found.origin << found.problem;
    const Machine guess = device::machine_of(m.facts, m.host);
    EXPECT_NE(found.machine.gflops_f32, guess.gflops_f32);
    EXPECT_EQ(found.machine.cores, guess.cores);
    EXPECT_EQ(contradiction(found.machine), "");
    // On the host, one group after the other, without optimisation to speak of.
    EXPECT_GT(found.machine.gflops_f32, 0.01);
    EXPECT_LT(found.machine.gflops_f32, 1000);
    const auto remembered = device::remembered_machine(m.facts, m.host);
    ASSERT_TRUE(remembered);
    EXPECT_EQ(*remembered, found.machine);
  }
}

TEST(DeviceMeasure, WhatIsRememberedBelongsToADriverAndIsWhole) {
  WITH_COMPILER();
  Measured m;
  (void)m.machine();
  ASSERT_EQ(m.files().size(), 1u);
  ASSERT_TRUE(device::remembered_machine(m.facts, m.host));
  device::Facts newer = m.facts;
  newer.driver = "a newer driver";
  EXPECT_FALSE(device::remembered_machine(newer, m.host));
  device::Facts larger = m.facts;
  larger.units += 1;
  EXPECT_FALSE(device::remembered_machine(larger, m.host));
  {
    std::fstream file(m.files()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('#');
  }
  EXPECT_FALSE(device::remembered_machine(m.facts, m.host)) << "a damaged file was believed";
  EXPECT_NE(m.machine().origin.find("measured in"), std::string::npos);
  EXPECT_TRUE(device::remembered_machine(m.facts, m.host)) << "it was not written again";
  std::filesystem::resize_file(m.files()[0], 10);
  EXPECT_FALSE(device::remembered_machine(m.facts, m.host));
}

TEST(DeviceMeasure, AFolderThatCannotBeWrittenIsNoError) {
  WITH_COMPILER();
  Measured m;
  write_text(m.folder / "file", "in the way");
  const Setting nowhere("WINDROW_CACHE_DIR", m.folder / "file/cache");
  const cpu::KnownMachine found = m.machine();
  EXPECT_NE(found.origin.find("measured in"), std::string::npos) << found.problem;
  EXPECT_FALSE(device::remembered_machine(m.facts, m.host));
}

TEST(DeviceMeasure, AClockThatCannotBeTrueIsNotBelieved) {
  WITH_COMPILER();
  Measured m;
  m.log->real_time = false;  // whatever is launched takes a microsecond
  const Machine found = m.machine().machine, guess = device::machine_of(m.facts, m.host);
  EXPECT_EQ(found.gflops_f32, guess.gflops_f32);
  EXPECT_EQ(found.exp_ns, guess.exp_ns);
  EXPECT_EQ(found.gbs_l1, guess.gbs_l1);
}

TEST(DeviceMeasure, WhatCannotBeMeasuredStaysAsTheDriverHasIt) {
  WITH_COMPILER();
  const auto expect_guess = [](const Measured& m, const char* said) {
    const cpu::KnownMachine found = m.machine();
    EXPECT_EQ(found.machine, device::machine_of(m.facts, m.host));
    EXPECT_NE(found.problem.find(said), std::string::npos) << found.problem;
    EXPECT_FALSE(device::remembered_machine(m.facts, m.host));
  };
  Measured refuses;
  refuses.log->flags = "-Dfloat=double_trouble";
  expect_guess(refuses, "does not compile");
  Measured lost;
  lost.log->fail_at_run = 5;
  expect_guess(lost, "the device is lost");
  Measured small;
  small.log->most_bytes = 64;
  expect_guess(small, "no memory");
}

TEST(DeviceMeasure, PlansAreMadeForWhatWasMeasured) {
  WITH_COMPILER();
  Measured m;
  m.facts.name = "one that no other test has seen";
  const device::Backend backend(test::host_device(m.facts, m.log));
  const Machine first = backend.machine(m.host).machine;
  const auto launches = m.log->launched.size();
  EXPECT_GT(launches, 0u);
  EXPECT_EQ(backend.machine(m.host).machine, first);
  EXPECT_EQ(m.log->launched.size(), launches) << "it was measured twice";
}

TEST(OpenClMeasure, ADeviceIsNeitherAMiracleNorBroken) {
  ON_A_DEVICE();
  const TemporaryFolder folder;
  const Setting cache("WINDROW_CACHE_DIR", folder / "cache");
  const device::Found found = device::find(test::wanted_device());
  ASSERT_TRUE(found.device) << found.reason;
  const Machine host = machine_named("zen3");
  const cpu::KnownMachine known = device::Backend(found.device).machine(host, true);
  EXPECT_EQ(known.problem, "");
  EXPECT_GE(known.machine.barrier_ns, 100);
  EXPECT_EQ(contradiction(known.machine), "");
  EXPECT_TRUE(device::remembered_machine(found.device->facts(), host));
}

}  // namespace
}  // namespace wr
