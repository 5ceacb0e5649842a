// Comparing variants, tuning batch sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "backend/cpu/target.h"
#include "base/json.h"
#include "bench/case.h"
#include "temporary_files.h"
#include "windrow/bench.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using bench::mann_whitney;

void spin(double us) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() < us) {
  }
}

TEST(MannWhitney, AgreesWithTables) {
  // scipy.stats.mannwhitneyu(a, b, method="asymptotic") gives the same.
  const std::vector<double> a{1.1, 2.2, 3.3, 4.4, 5.5}, b{6.6, 7.7, 8.8, 9.9, 11};
  EXPECT_NEAR(mann_whitney(a, b), 0.01219, 1e-4);
  const std::vector<double> c{1, 2, 2, 3, 5}, d{2, 3, 4, 4, 6};
  EXPECT_NEAR(mann_whitney(c, d), 0.24, 0.02);
  EXPECT_NEAR(mann_whitney(a, a), 1, 1e-9);
  EXPECT_EQ(mann_whitney({}, a), 1);
  EXPECT_EQ(mann_whitney(std::vector<double>{1, 1}, std::vector<double>{1, 1}), 1);
  EXPECT_DOUBLE_EQ(mann_whitney(a, b), mann_whitney(b, a));
}

TEST(CompareTiming, SeesMoreWork) {
  const auto c = bench::compare("spin", {{"long", [] { spin(400); }}, {"short", [] { spin(20); }}}, {.seconds = 0.1});
  ASSERT_EQ(c.variants.size(), 2u);
  EXPECT_TRUE(c.variants[1].differs);
  EXPECT_GT(c.variants[1].ratio, 1.5);
  for (const auto& m : c.variants) {
    EXPECT_LE(m.best_us, m.low_us);
    EXPECT_LE(m.low_us, m.median_us);
    EXPECT_LE(m.median_us, m.high_us);
    EXPECT_EQ(m.blocks.size(), 21u);
  }
  EXPECT_NE(c.to_table().find("*"), std::string::npos);
  const Json json = parse_json(c.to_json(), "comparison");
  EXPECT_EQ(json.at("variants").at(1).at("variant").text(), "short");
}

TEST(Compare, RefusesNothingToCompare) {
  EXPECT_THROW(bench::compare("none", {}), Error);
  EXPECT_THROW(bench::compare("empty", {{"a", nullptr}}), Error);
  EXPECT_THROW(bench::compare("one block", {{"a", [] {}}}, {.blocks = 1}), Error);
}

TEST(Compare, StepsForOtherInstructionSets) {
  const auto make = [](const std::string& simd) {
    CompileOptions options;
    options.threads = 1;
    options.simd = simd;
    return compile(
        options, [](Tensor x) { return tanh(x); }, f32(4096));
  };
  EXPECT_THROW(make("mmx"), Error);
  const std::string weakest(cpu::name_of(cpu::available_targets().front()));
  Step slow = make(weakest), best = make("");
  const Array x = Array::ones({4096});
  EXPECT_NEAR(slow(x)[0].to_vector<float>()[7], best(x)[0].to_vector<float>()[7], 1e-6);
  slow.profile(true);
  slow(x);
  EXPECT_EQ(slow.profile().simd, weakest);
}

TEST(TuneTiming, FindsWhereTheRateStopsGrowing) {
  // 100 us a run whatever the batch, then 5 us a row: beyond 64 rows a larger batch hardly helps.
  const auto make = [](std::int64_t batch) {
    return bench::BatchWork{[batch] { spin(100 + 5.0 * static_cast<double>(batch)); }, batch * 1000};
  };
  const auto advice = bench::tune_batch(make, bench::powers_of_two(1, 1024), 0.02);
  EXPECT_EQ(advice.points.size(), 11u);
  EXPECT_GE(advice.batch, 64);
  EXPECT_LE(advice.batch, 512);
  EXPECT_NE(advice.to_table().find("<- suggested"), std::string::npos);
}

TEST(TuneTiming, StopsBeforeMemoryIsFull) {
  const auto make = [](std::int64_t batch) {
    return bench::BatchWork{[] { spin(5); }, batch * (std::int64_t{1} << 36)};
  };
  const auto advice = bench::tune_batch(make, bench::powers_of_two(1, 64), 0.002);
  EXPECT_LT(advice.points.size(), 7u);
  EXPECT_NE(advice.reason.find("memory"), std::string::npos) << advice.reason;
  EXPECT_THROW(bench::tune_batch(make, {}), Error);
}

TEST(BenchCases, WidthsByName) {
  EXPECT_EQ(bench::case_named("dqn_step_w16_b8").name, "dqn_step_w16_b8");
  EXPECT_EQ(bench::case_named("dqn_step_b64").name, "dqn_step_b64");
  EXPECT_EQ(bench::case_named("wgan_step").name, "wgan_step_b64");
  EXPECT_ERROR(bench::case_named("wgan_stp_b64"), "did you mean wgan_step_b64? `windrow bench --list`");
  EXPECT_ERROR(bench::case_named("nothing like it"), "no case 'nothing like it'; `windrow bench --list`");
  EXPECT_THROW(bench::case_named("dqn_step_w15_b8"), Error);
  EXPECT_THROW(bench::case_named("mlp_step_w16_b8"), Error);
  auto p = bench::case_named("dqn_step_w16_b8").prepare(1);
  EXPECT_EQ(p.check(p.step, p.arguments), "");
}

TEST(BenchCases, BackendsSideBySide) {
  bench::RunOptions options;
  const std::string weakest(cpu::name_of(cpu::available_targets().front()));
  options.backends = {weakest + ":1", "profile"};
  options.seconds = 0.01;
  options.threads = 1;
  options.json = true;
  const TemporaryFolder folder;
  options.svg = folder / "bars.svg";
  testing::internal::CaptureStdout();
  EXPECT_EQ(bench::compare_backends(options, {bench::case_named("op_relu")}), 0);
  const Json line = parse_json(testing::internal::GetCapturedStdout(), "line");
  EXPECT_EQ(line.at("variants").at(1).at("variant").text(), "profile");
  EXPECT_NE(read_text(options.svg).find("<svg"), std::string::npos);
  options.backends = {"avx1024"};
  EXPECT_THROW(bench::compare_backends(options, {bench::case_named("op_relu")}), Error);
  options.backends = {weakest + ":x"};
  EXPECT_THROW(bench::compare_backends(options, {bench::case_named("op_relu")}), Error);
}

}  // namespace
}  // namespace wr
