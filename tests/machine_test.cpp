// Machines as values: text and back, files that lie, measurements that were disturbed, what is remembered.
#include "base/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "backend/cpu/measure.h"
#include "base/host.h"
#include "temporary_files.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

const Machine& built_in(const std::string& name) {
  for (const Machine& m : built_in_machines())
    if (m.name == name) return m;
  throw Error("no " + name);
}

std::string changed(std::string text, const std::string& key, const std::string& line) {
  const auto begin = text.find("\n" + key + " ") + 1;
  return text.replace(begin, text.find('\n', begin) - begin, line);
}

TEST(Machine, FiveComeWithTheLibrary) {
  for (const char* name : {"sapphire", "zen3", "zen5", "desktop", "pi4"}) EXPECT_EQ(machine_named(name).name, name);
  EXPECT_ERROR(machine_named("zen33"), "sapphire, zen3, zen5, desktop, pi4");
  EXPECT_EQ(machine_named(to_text(machine_named("pi4"))), machine_named("pi4"));  // the description itself
  EXPECT_ERROR(machine_named("cores = 2\nl1d = 0\n"), "the machine's description:2: l1d must be");
}

TEST(Machine, TextAndBackIsTheSame) {
  for (const Machine& m : built_in_machines()) EXPECT_EQ(machine_from_text(to_text(m), "text"), m);
}

TEST(Machine, BuiltInOnesAreInOrder) {
  for (const Machine& m : built_in_machines()) EXPECT_EQ(contradiction(m), "") << m.name;
}

TEST(Machine, CopiesNeverGetFasterWithSize) {
  for (const Machine& m : built_in_machines()) {
    double last = 0;
    for (double bytes = 64; bytes < 1e10; bytes *= 1.1) {
      EXPECT_GE(m.ns_byte(bytes), last) << m.name << " at " << bytes;
      last = m.ns_byte(bytes);
    }
    EXPECT_NEAR(m.ns_byte(64), 1 / m.gbs_l1, 1e-12);
  }
}

TEST(Machine, BadDescriptionsAreRefusedByLine) {
  const std::string good = to_text(built_in("zen3"));
  EXPECT_ERROR(machine_from_text("", "m.txt"), "m.txt: a machine needs \"name = ...\"");
  EXPECT_ERROR(machine_from_text("cores 3", "m.txt"), "m.txt:1: expected \"key = value\"");
  EXPECT_ERROR(machine_from_text(good + "cores = 2\n", "m.txt"), "cores is given twice");
  EXPECT_ERROR(machine_from_text(good + "colour = 2\n", "m.txt"), "\"colour\" is nothing a machine has");
  EXPECT_ERROR(machine_from_text(changed(good, "cores", "cores = 0"), "m.txt"), "cores must be 1 to 1K, is 0");
  EXPECT_ERROR(machine_from_text(changed(good, "l2", "l2 = 99999999999999999999"), "m.txt"), "l2 must be a number");
  EXPECT_ERROR(machine_from_text(changed(good, "l2", "l2 = 999999999999G"), "m.txt"), "l2 is out of range");
  EXPECT_ERROR(machine_from_text(changed(good, "l2", "l2 = 8K"), "m.txt"), "l2 is smaller than l1d");
  EXPECT_ERROR(machine_from_text(changed(good, "gbs_l1", "gbs_l1 = nan"), "m.txt"), "gbs_l1 must be 0.01 to");
  EXPECT_ERROR(machine_from_text(changed(good, "gbs_l1", "gbs_l1 = 12x"), "m.txt"), "gbs_l1 must be a number");
  EXPECT_ERROR(machine_from_text(changed(good, "gbs_l1", "gbs_l1 = 1"), "m.txt"), "L2 is faster than L1");
}

TEST(Machine, NonsenseIsAnErrorNotACrash) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text = to_text(built_in("pi4"));
    for (int i = 0; i < 4; ++i) text[random() % text.size()] = static_cast<char>(random());
    try {
      EXPECT_EQ(contradiction(machine_from_text(text, "m.txt")), "");
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 5), "m.txt");
    }
  }
}

TEST(Machine, DisturbedRatesAreSetRight) {
  Machine m = built_in("sapphire");
  m.gbs_l1 = 5;
  m.gbs_memory_all = 1;
  EXPECT_NE(contradiction(m), "");
  m = without_contradictions(m);
  EXPECT_EQ(contradiction(m), "");
  EXPECT_EQ(m.gbs_l2, built_in("sapphire").gbs_l2);
}

/// A probe that gets next to nothing of a core measures anything; what is made of it must be readable again.
TEST(Machine, MeasuredBesideOthersIsWithinLimits) {
  Machine m = built_in("zen3");
  m.product_ramp = 0;
  m.gbs_cross = 1e-9;
  m.exp_ns = 1e9;
  m = without_contradictions(m);
  EXPECT_EQ(machine_from_text(to_text(m), "busy"), m);
}

/// Two members that take turns on one core wait for slices of the scheduler's.
TEST(Machine, ABarrierThatWaitedForTheSchedulerDoesNotKeepPlansToOneCore) {
  for (Machine m : built_in_machines()) {
    const Machine quiet = m;
    EXPECT_EQ(without_contradictions(m).barrier_ns, quiet.barrier_ns) << m.name;
    m.barrier_ns = 4.2e6;
    EXPECT_LT(without_contradictions(m).barrier_ns, 1000) << m.name;
  }
}

TEST(Machine, IsLikeItselfMeasuredOnABusyDay) {
  Machine m = built_in("zen3");
  m.gbs_memory *= 0.7;
  m.barrier_ns *= 1.5;
  EXPECT_TRUE(is_like(m, built_in("zen3")));
  m.gflops_f32 *= 1.5;
  EXPECT_FALSE(is_like(m, built_in("zen3")));
  EXPECT_FALSE(is_like(built_in("sapphire"), built_in("zen3")));
}

// ---- what is remembered ----

const cpu::Target kTarget = cpu::available_targets().front();

TEST(MachineFile, RemembersWhatWasMeasured) {
  const TemporaryFolder folder;
  const std::string inside = folder / "made" + "/for/it";
  const auto first = cpu::find_machine(kTarget, inside), second = cpu::find_machine(kTarget, inside);
  EXPECT_EQ(first.problem, "");
  EXPECT_NE(first.origin.find("measured in"), std::string::npos) << first.origin;
  EXPECT_NE(second.origin.find("remembered in " + inside), std::string::npos) << second.origin;
  EXPECT_EQ(first.machine, second.machine);
  EXPECT_EQ(contradiction(first.machine), "");
  EXPECT_EQ(first.machine.l1d, host().l1d);
  EXPECT_EQ(first.machine.cores, host().cores);
}

/// Replaces what is remembered by `text`: must be measured again, and say why.
void expect_measured_again(const std::string& text, const std::string& why) {
  const TemporaryFolder folder;
  cpu::find_machine(kTarget, folder / ".");
  ASSERT_EQ(folder.files().size(), 1u);
  write_text(folder / folder.files()[0], text);
  const auto known = cpu::find_machine(kTarget, folder / ".");
  EXPECT_NE(known.origin.find("measured in"), std::string::npos) << known.origin;
  EXPECT_NE(known.origin.find(why), std::string::npos) << known.origin;
  EXPECT_EQ(known.machine.l1d, host().l1d);
  const auto again = cpu::find_machine(kTarget, folder / ".");
  EXPECT_NE(again.origin.find("earlier"), std::string::npos) << again.origin << '\n' << to_text(known.machine);
}

TEST(MachineFile, CorruptIsMeasuredAgain) { expect_measured_again("cores = many", "must be a number"); }
TEST(MachineFile, EmptyIsMeasuredAgain) { expect_measured_again("", "a machine needs"); }
TEST(MachineFile, AnotherMachinesIsMeasuredAgain) {
  expect_measured_again(to_text(built_in("pi4")), "describes another machine (Raspberry Pi 4");
}

TEST(MachineFile, AFolderThatCannotBeWrittenIsNoError) {
  const auto known = cpu::find_machine(kTarget, "/proc/nowhere");
  EXPECT_NE(known.problem.find("/proc/nowhere"), std::string::npos) << known.problem;
  EXPECT_EQ(known.machine.l1d, host().l1d);
  EXPECT_NE(cpu::find_machine(kTarget, "").problem.find("HOME"), std::string::npos);
}

// ---- what it is for ----

TEST(MachineOption, GivesTheSamePlanAnywhere) {
  const State w(Array::ones({256, 256}), "w");
  auto plan = [&](const std::string& machine) {
    CompileOptions options;
    options.machine = machine;
    const Step step = compile(
        options, [&](Tensor x) { return relu(matmul(tanh(matmul(x, w)), w)); }, f32(512, 256));
    const std::string text = step.describe();
    return text.substr(text.find('\n'));  // the first line tells how long compiling took
  };
  EXPECT_EQ(plan("zen3"), plan("zen3"));
  EXPECT_NE(plan("zen3"), plan("pi4"));
  EXPECT_ERROR(plan("toaster"), "sapphire");
}

}  // namespace
}  // namespace wr
