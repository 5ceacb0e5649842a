// Profiles: that they add up, cost nothing inside run(), survive a file, and name each kind of bottleneck.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/json.h"
#include "base/thread_team.h"
#include "base/ticks.h"
#include "count_allocations.h"
#include "profile/bottlenecks.h"
#include "temporary_files.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

CompileOptions fixed(int threads, int lanes) {
  CompileOptions options;
  options.threads = threads;
  options.lanes = lanes;
  return options;
}

/// Two dense layers with a loss and Adam: a usual training step.
struct Net {
  State w0{Array::full({32, 64}, 0.01f), "w0"}, w1{Array::full({64, 8}, 0.02f), "w1"};
  optim::Adam adam;
  Step step(std::int64_t batch, CompileOptions options = {}) {
    options.name = "net";
    return compile(
        options,
        [&](Tensor x, Tensor y) {
          const Tensor hidden = relu(matmul(x, w0));
          const Tensor loss = mean(square(matmul(hidden, w1) - y));
          adam.minimize(loss, {w0, w1});
          return loss;
        },
        f32(batch, 32), f32(batch, 8));
  }
};

void run(Step& step, std::int64_t batch, int times) {
  const Array x = Array::ones({batch, 32}), y = Array::ones({batch, 8});
  for (int i = 0; i < times; ++i) step(x, y);
}

bool has(const Profile& p, const std::string& kind) {
  return std::any_of(p.bottlenecks.begin(), p.bottlenecks.end(), [&](auto& b) { return b.kind == kind; });
}
std::string kinds(const Profile& p) {
  std::string all;
  for (const auto& b : p.bottlenecks) all += b.kind + " ";
  return all;
}

TEST(Profile, AddsUp) {
  Net net;
  Step step = net.step(64, fixed(1, 1));
  step.profile(true);
  run(step, 64, 50);
  const Profile p = step.profile();
  EXPECT_EQ(p.runs, 50);
  EXPECT_GT(p.recorded, 0);
  EXPECT_EQ(p.name, "net");
  ASSERT_EQ(p.thread_times.size(), 1u);
  double kernels = 0, copies = 0, regions = 0, phases = 0;
  for (const auto& k : p.kernels) {
    kernels += k.us;
    if (k.region == -2) copies += k.us;  // after the last phase
    EXPECT_GT(k.calls, 0) << k.op;
    EXPECT_LE(k.min_us, k.mean_us * 1.0001);
    EXPECT_LE(k.mean_us, k.max_us * 1.0001);
    EXPECT_GT(k.roof_us, 0);
  }
  for (const auto& r : p.regions) regions += r.us;
  for (double us : p.thread_times[0].phase_us) phases += us;
  EXPECT_NEAR(kernels, p.busy_us(), 1e-9);
  EXPECT_LE(regions, kernels * 1.0001);
  EXPECT_NEAR(phases, p.thread_times[0].busy_us, 1e-3);
  EXPECT_NEAR(kernels - copies, phases, 1e-3 * phases);
  EXPECT_LE(p.thread_times[0].busy_us, p.max_us);
  EXPECT_LE(p.min_us, p.run_us);
}

TEST(Profile, KnowsTheWorkAndTheUsersLine) {
  const Array a = Array::ones({96, 64}), b = Array::ones({64, 32});
  const int line = __LINE__ + 1;
  Step step = compile([](Tensor x, Tensor y) { return matmul(x, y); }, f32(96, 64), f32(64, 32));
  step.profile(true);
  for (int i = 0; i < 10; ++i) step(a, b);
  const Profile p = step.profile();
  double flops = 0, bytes = 0;
  for (const auto& k : p.kernels) {
    if (k.op != "einsum") continue;
    flops += k.flops;
    bytes += k.bytes;
    EXPECT_EQ(k.line, line);
    EXPECT_NE(k.file.find("profile_test.cpp"), std::string::npos);
  }
  EXPECT_DOUBLE_EQ(flops, 2.0 * 96 * 64 * 32);
  EXPECT_GE(bytes, 4.0 * (96 * 64 + 64 * 32 + 96 * 32));
  ASSERT_FALSE(p.lines().empty());
  EXPECT_EQ(p.lines()[0].name, "profile_test.cpp:" + std::to_string(line));
}

TEST(Profile, ResultsAreTheSameWithAndWithout) {
  std::vector<float> with, without;
  for (bool on : {false, true}) {
    Net net;
    Step step = net.step(40, fixed(0, 2));
    if (on) step.profile(true);
    run(step, 40, 20);
    (on ? with : without) = net.w0.value().to_vector<float>();
  }
  EXPECT_EQ(with, without);
}

TEST(Profile, RunsAllocateNothing) {
  Net net;
  Step step = net.step(64, fixed(0, 2));
  step.profile(true);
  const Array x = Array::ones({64, 32}), y = Array::ones({64, 8});
  step(x, y);
  const AllocationCount count;
  for (int i = 0; i < 200; ++i) step(x, y);  // enough to fill the kept runs and add them up
  EXPECT_EQ(count.now(), 0);
  EXPECT_EQ(step.profile().memory.allocations_per_run, 0);
}

TEST(Profile, CountsArraysMadeBetweenRuns) {
  Net net;
  Step step = net.step(16);
  step.profile(true);
  const Array y = Array::ones({16, 8});
  for (int i = 0; i < 30; ++i) {
    const Array x = Array::ones({16, 32});
    step(x, y);
  }
  EXPECT_NEAR(step.profile().memory.allocations_per_run, 1, 0.05);
}

TEST(ProfileTiming, RecordsFewerRunsOfShortSteps) {
  Step step = compile([](Tensor x) { return relu(x * 2.0 + 1.0); }, f32(8));
  step.profile(true);
  const Array x = Array::ones({8});
  for (int i = 0; i < 3000; ++i) step(x);
  const Profile p = step.profile();
  EXPECT_EQ(p.runs, 3000);
  EXPECT_GT(p.every, 1) << "a run of " << p.run_us << " us cannot be recorded in full every time for 1 %";
  EXPECT_LT(p.recorded, 3000);
}

TEST(Profile, OffAgainMeansGone) {
  Net net;
  Step step = net.step(16);
  EXPECT_THROW(step.profile(), Error);
  step.profile(true);
  run(step, 16, 3);
  EXPECT_EQ(step.profile().runs, 3);
  step.profile(true);  // from nothing
  EXPECT_EQ(step.profile().runs, 0);
  EXPECT_NE(step.profile().to_table().find("has not run"), std::string::npos);
  step.profile(false);
  EXPECT_THROW(step.profile(), Error);
  run(step, 16, 1);
}

TEST(Profile, EveryStepWhileAsked) {
  Net net;
  profile_all_steps(true);
  {
    Step gone = net.step(16);
    run(gone, 16, 4);
    Step never = net.step(24);
  }
  Step alive = net.step(32);
  profile_all_steps(false);
  Step later = net.step(48);
  run(alive, 32, 5);
  run(later, 48, 6);
  std::vector<std::int64_t> runs;
  for (const Profile& p : collected_profiles())
    if (p.name == "net") runs.push_back(p.runs);
  EXPECT_EQ(runs, (std::vector<std::int64_t>{4, 5}));
}

Profile sample_profile() {
  Net net;
  Step step = net.step(64, fixed(0, 2));
  step.profile(true);
  run(step, 64, 40);
  return step.profile();
}

TEST(Profile, SurvivesAFile) {
  const Profile p = sample_profile();
  const auto again = profiles_from_json(p.to_json());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].to_json(), p.to_json());
  EXPECT_EQ(again[0].kernels.size(), p.kernels.size());
  EXPECT_EQ(again[0].timeline.size(), p.timeline.size());
}

TEST(Profile, RefusesWhatIsNoProfile) {
  for (const char* text : {"", "{", "[]", "{}", "{\"windrow_profile\":2,\"steps\":[]}",
                           "{\"windrow_profile\":1,\"steps\":[{}]}", "{\"windrow_profile\":1,\"steps\":3}"})
    EXPECT_THROW(profiles_from_json(text), Error) << text;
  // One field of another type at a time: never a crash, always a message.
  const Json whole = parse_json(sample_profile().to_json(), "profile");
  for (const auto& [name, value] : whole.at("steps").at(0).members()) {
    auto bad = whole;
    bad["steps"].items()[0][name] = value.is_text() ? Json(7) : Json("text");
    try {
      profiles_from_json(bad.dump());
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  }
  auto bad = whole;
  bad["steps"].items()[0]["timeline"].items()[0].items()[2] = 100000;
  EXPECT_THROW(profiles_from_json(bad.dump()), Error);
}

TEST(Profile, TraceHasEveryEvent) {
  const Profile p = sample_profile();
  const Json trace = parse_json(to_trace(std::span(&p, 1)), "trace");
  std::size_t spans = 0;
  for (const auto& e : trace.at("traceEvents").items()) {
    if (e.at("ph").text() != "X") continue;
    ++spans;
    EXPECT_GE(e.at("dur").number(), 0);
  }
  EXPECT_EQ(spans, p.timeline.size());
}

TEST(Profile, EventsOfAThreadDoNotOverlap) {
  const Profile p = sample_profile();
  for (const auto& e : p.timeline) {
    ASSERT_LT(e.thread, p.threads);
    EXPECT_LE(e.begin_us, e.end_us);
  }
  for (int t = 0; t < p.threads; ++t) {
    std::vector<Profile::Event> own;
    for (const auto& e : p.timeline)
      if (e.thread == t) own.push_back(e);
    std::sort(own.begin(), own.end(),
              [](auto& a, auto& b) { return std::pair(a.begin_us, a.end_us) < std::pair(b.begin_us, b.end_us); });
    for (std::size_t i = 1; i < own.size(); ++i) EXPECT_GE(own[i].begin_us, own[i - 1].end_us - 0.01);
  }
}

TEST(Profile, PageIsWholeAndNeedsNothingElse) {
  Profile p = sample_profile();
  p.name = "</script><b>";
  const std::string page = to_html(std::span(&p, 1));
  EXPECT_EQ(page.find("</script><b>"), std::string::npos) << "a name must not end the script";
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
  EXPECT_EQ(page.find("href=\"http"), std::string::npos);
  EXPECT_TRUE(page.ends_with("</html>\n"));
}

TEST(Profile, WritesByName) {
  const TemporaryFolder folder;
  const Profile p = sample_profile();
  for (const char* name : {"p.json", "p.trace.json", "p.html", "p.txt"}) {
    write_profiles(folder / name, std::span(&p, 1));
    EXPECT_FALSE(read_text(folder / name).empty()) << name;
  }
  EXPECT_THROW(write_profiles(folder / "p.doc", std::span(&p, 1)), Error);
  EXPECT_THROW(write_profiles(folder / "none/p.json", std::span(&p, 1)), Error);
}

TEST(Profile, DifferenceNamesWhatChanged) {
  Profile before = sample_profile(), after = before;
  after.kernels[0].us += 1000;
  after.run_us += 1000;
  const std::string text = difference(before, after);
  EXPECT_NE(text.find("+1000"), std::string::npos) << text;
  EXPECT_NE(text.find("profile_test.cpp:"), std::string::npos);
  EXPECT_NE(difference(before, before).find("nothing changed"), std::string::npos);
}

TEST(TicksTiming, RunAtTheClocksPace) {
  const double tick = ns_per_tick();  // the first call takes a while
  const auto start = std::chrono::steady_clock::now();
  const auto first = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double by_ticks = static_cast<double>(ticks() - first) * tick;
  const double by_clock = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  EXPECT_NEAR(by_ticks / by_clock, 1, 0.02);
}

TEST(RooflineTiming, NearerMemoryIsFaster) {
  const Roofline& r = roofline(1);
  EXPECT_GT(r.gflops_f32, 1);
  EXPECT_GT(r.gflops_f32, r.gflops_f64);
  ASSERT_GE(r.levels.size(), 3u);
  EXPECT_EQ(r.levels.front().name, "L1");
  EXPECT_EQ(r.levels.back().name, "memory");
  EXPECT_GT(r.levels.front().gbs, r.levels.back().gbs);
}

// ---- graphs built to have each bottleneck ----

Profile profiled(Step& step, const std::vector<Array>& arguments, int times) {
  std::vector<const Array*> list;
  for (const Array& a : arguments) list.push_back(&a);
  step.run(list);
  step.profile(true);
  for (int i = 0; i < times; ++i) step.again();
  return step.profile();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

Profile of_a_product(const CompileOptions& options) {
  Step step = compile(
      options, [](Tensor a, Tensor b) { return matmul(a, b); }, f32(384, 384), f32(384, 384));
  return profiled(step, {Array::ones({384, 384}), Array::ones({384, 384})}, 10);
}

TEST(BottleneckTiming, Compute) {
  if (kSanitized) GTEST_SKIP() << "sanitized kernels are slower than anything between them";
  const Profile p = of_a_product(fixed(1, 1));
  ASSERT_TRUE(has(p, "compute")) << kinds(p);
  for (const auto& b : p.bottlenecks)
    if (b.kind == "compute") {
      EXPECT_NE(b.where.find("profile_test.cpp:"), std::string::npos);
    }
}

TEST(BottleneckTiming, Memory) {
  constexpr std::int64_t n = 12'000'000;
  Step step = compile(
      fixed(1, 1), [](Tensor a, Tensor b) { return a + b; }, f32(n), f32(n));
  const Profile p = profiled(step, {Array::ones({n}), Array::ones({n})}, 4);
  ASSERT_TRUE(has(p, "memory")) << kinds(p);
  EXPECT_TRUE(p.kernels[0].bound == "memory" || p.kernels[0].bound == "L3") << p.kernels[0].bound;
}

/// Rows that wait for a statistic of the whole batch, again and again.
Step batch_statistics(int rounds, std::int64_t batch, std::int64_t width) {
  CompileOptions options = fixed(2, 2);
  options.machine = "zen3";  // where sharing the rows out pays
  return compile(
      options,
      [&](Tensor x) {
        for (int i = 0; i < rounds; ++i) x = tanh(x - mean(x, 0));
        return x;
      },
      f32(batch, width));
}

TEST(Bottleneck, BarriersAndTheLineThatCausesThem) {
  Step step = batch_statistics(6, 64, 256);
  const Profile p = profiled(step, {Array::ones({64, 256})}, 200);
  ASSERT_GE(p.phases, 6);
  std::size_t avoidable = 0;
  for (const auto& cut : p.cuts)
    if (!cut.needed) {
      ++avoidable;
      EXPECT_NE(cut.maker.find("profile_test.cpp:"), std::string::npos);
      EXPECT_NE(cut.why.find("sum over all rows"), std::string::npos) << cut.why;
    }
  EXPECT_GE(avoidable, 5u) << p.bottleneck_report();
  // How long a barrier takes depends on the machine's load: say so with times of our own.
  Profile slow = p;
  slow.threads = 2;
  slow.thread_times.assign(2, {10, 1, 1, std::vector<double>(static_cast<std::size_t>(p.phases), 4),
                               std::vector<double>(static_cast<std::size_t>(p.phases), 10.0 / p.phases)});
  slow.run_us = 10 + 4.0 * p.phases;
  slow.bottlenecks = find_bottlenecks(slow);
  ASSERT_TRUE(has(slow, "barrier")) << kinds(slow);
  for (const auto& b : slow.bottlenecks)
    if (b.kind == "barrier") {
      EXPECT_GT(b.gain, 0.3);
      EXPECT_NE(b.text.find("profile_test.cpp:"), std::string::npos) << b.text;
    }
}

TEST(Bottleneck, TrainingStepsNeedTheirBarrier) {
  Net net;
  Step step = net.step(64, fixed(2, 2));
  run(step, 64, 1);
  step.profile(true);
  run(step, 64, 5);
  const Profile p = step.profile();
  ASSERT_FALSE(p.cuts.empty());
  for (const auto& cut : p.cuts) EXPECT_TRUE(cut.needed) << cut.reader << " " << cut.reader_op << " " << cut.maker_op;
}

TEST(BottleneckTiming, TooFewThreads) {
  if (default_threads() < 2) GTEST_SKIP() << "one core";
  const Profile p = of_a_product(fixed(1, 2));
  ASSERT_TRUE(has(p, "parallelism")) << kinds(p);
  for (const auto& b : p.bottlenecks)
    if (b.kind == "parallelism") {
      EXPECT_GT(b.gain, 0.2);
    }
}

TEST(Bottleneck, OneLaneHasItAll) {
  Profile p = sample_profile();
  p.threads = 2;
  p.phases = 1;
  p.run_us = 100;
  p.thread_times = {{95, 1, 0, {0}, {95}}, {5, 1, 90, {0}, {5}}};
  p.regions = {{0, 0, 1, 1, 1, 1, false, 90, 0}};
  p.kernels.resize(1);
  p.kernels[0].phase = p.kernels[0].region = 0;
  p.kernels[0].us = 90;
  p.bottlenecks = find_bottlenecks(p);
  ASSERT_TRUE(has(p, "parallelism")) << kinds(p);
  for (const auto& b : p.bottlenecks)
    if (b.kind == "parallelism") {
      EXPECT_NEAR(b.gain, 0.45, 0.01);
      EXPECT_NE(b.text.find("one lane alone"), std::string::npos) << b.text;
    }
}

TEST(BottleneckTiming, TinyBatch) {
  if (kSanitized) GTEST_SKIP() << "sanitized kernels are slower than anything between them";
  Net net;
  Step step = net.step(2, fixed(1, 1));
  run(step, 2, 1);
  step.profile(true);
  run(step, 2, 300);
  const Profile p = step.profile();
  ASSERT_TRUE(has(p, "batch")) << kinds(p) << p.to_table();
  for (const auto& b : p.bottlenecks)
    if (b.kind == "batch") {
      EXPECT_NE(b.advice.find("windrow tune"), std::string::npos);
    }
}

TEST(BottleneckTiming, InputIsLate) {
  Net net;
  Step step = net.step(64, fixed(1, 1));
  step.profile(true);
  for (int i = 0; i < 10; ++i) {
    run(step, 64, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const Profile p = step.profile();
  ASSERT_FALSE(p.bottlenecks.empty());
  EXPECT_EQ(p.bottlenecks[0].kind, "input") << kinds(p);
  EXPECT_GT(p.bottlenecks[0].gain, 0.5);
}

}  // namespace
}  // namespace wr
