// The planner: memory offsets, and the shape of the schedules it makes.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "plan/memory.h"
#include "plan/schedule.h"
#include "step/inside.h"
#include "support/graphs.h"
#include "support/machines.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

TEST(Memory, NoTwoLiveValuesShareBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<plan::Lifetime> values(random() % 40);
    for (auto& v : values) {
      v.bytes = 1 + random() % 5000;
      v.begin = static_cast<int>(random() % 30);
      v.end = v.begin + static_cast<int>(random() % 10);
    }
    const auto use = plan::assign_offsets(values);
    EXPECT_GE(use.bytes, use.lower_bound);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& a = values[i];
      EXPECT_EQ(a.offset % 64, 0u);
      EXPECT_LE(a.offset + a.bytes, use.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const auto& b = values[j];
        const bool together = a.begin <= b.end && b.begin <= a.end;
        const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
        EXPECT_TRUE(apart || !together) << "round " << round;
      }
    }
  }
}

/// Thousands are placed in the order of time; what holds for few must hold for them.
TEST(Memory, ThousandsOfValuesAreApartAndCloseToTheLowerBound) {
  std::mt19937 random(2);
  std::vector<plan::Lifetime> values(6000);
  for (auto& v : values) {
    v.bytes = random() % 5000;
    v.begin = static_cast<int>(random() % 8000);
    v.end = v.begin + static_cast<int>(random() % (random() % 10 == 0 ? 4000 : 20));
  }
  const auto use = plan::assign_offsets(values);
  EXPECT_GE(use.bytes, use.lower_bound);
  EXPECT_LE(static_cast<double>(use.bytes), 1.3 * static_cast<double>(use.lower_bound));
  int shared = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& a = values[i];
    EXPECT_EQ(a.offset % 64, 0u);
    EXPECT_LE(a.offset + a.bytes, use.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const auto& b = values[j];
      const bool together = a.begin <= b.end && b.begin <= a.end;
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      shared += together && !apart;
    }
  }
  EXPECT_EQ(shared, 0);
}

/// A training step of so many products, one after the other.
double seconds_to_compile(int products) {
  const State weights(Array::full({8, 8}, 0.1));
  const std::clock_t begin = std::clock();
  compile(
      [&](Tensor x) {
        for (int i = 0; i < products; ++i) x = matmul(x, weights);
        const Tensor loss = mean(x);
        weights.assign(Operand(weights) - 0.1 * grad(loss, {weights})[0]);
        return loss;
      },
      f32(4, 8));
  return double(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// In proportion to the graph, by a little more than that for what no longer fits into caches: what looks at every pair
/// would take 64 times as long.
TEST(CompileTiming, EightTimesTheGraphTakesAboutEightTimesAsLong) {
  seconds_to_compile(100);  // warm
  const double small = seconds_to_compile(500), large = seconds_to_compile(4000);
  EXPECT_LT(large, 20 * small) << small << " s and " << large << " s";
}

TEST(Memory, ChainOfEqualValuesNeedsTwoSlots) {
  std::vector<plan::Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({1024, i, i + 1});
  EXPECT_EQ(plan::assign_offsets(chain).bytes, 2048u);
}

struct Mlp {
  State w0{Array::ones({144, 128}), "w0"}, b0{Array::zeros({128}), "b0"}, w1{Array::ones({128, 6}), "w1"},
      b1{Array::zeros({6}), "b1"};
  optim::Adam adam;
  Step step(int lanes, std::int64_t batch = 64, const std::string& machine = "zen3") {
    CompileOptions options{"mlp", 0, lanes};
    options.machine = machine;
    return compile(
        options,
        [&](Tensor x, Tensor y) {
          const Tensor loss = mse(matmul(relu(matmul(x, w0) + b0), w1) + b1, y);
          adam.minimize(loss, {w0, b0, w1, b1});
          return loss;
        },
        f32(batch, 144), f32(batch, 6));
  }
};

const plan::Placement* placement_of_state(const plan::Schedule& s, const std::string& name) {
  for (std::size_t i = 0; i < s.place.size(); ++i) {
    const auto& p = s.place[i];
    if (p.home == plan::Home::state && (*s.graph)[s.states[p.index]].variable->name == name) return &p;
  }
  return nullptr;
}

TEST(Schedule, TrainingStepIsOneBatchRegionAndOneUpdatePhase) {
  Mlp mlp;
  Step step = mlp.step(2);
  const plan::Schedule& s = step.inside().schedule;
  ASSERT_EQ(s.phases.size(), 2u);
  // Forward and backward of all layers: one region along the batch, cut into the lanes' halves.
  const auto batch =
      std::find_if(s.phases[0].regions.begin(), s.phases[0].regions.end(), [](auto& r) { return r.extent == 64; });
  ASSERT_NE(batch, s.phases[0].regions.end());
  EXPECT_EQ(batch->row_begin, (std::vector<std::int64_t>{0, 32, 64}));
  EXPECT_GT(batch->members.size(), 10u);
}

TEST(Schedule, ParametersAndMomentsAreUpdatedInPlace) {
  Mlp mlp;
  Step step = mlp.step(2);
  for (const char* name : {"w0", "b0", "w1", "b1", "adam.mean.w0", "adam.square.w0", "adam.square.b1"})
    EXPECT_NE(placement_of_state(step.inside().schedule, name), nullptr) << name << "\n" << step.describe();
}

TEST(Schedule, WideGradientIsMadeByRowsNotSummedOverLanes) {
  Mlp mlp;
  Step step = mlp.step(2);
  // The gradient of w0 (73 KB) would cost more to exchange than the activations it is made of.
  EXPECT_LT(step.facts().partial_bytes, 8u << 10) << step.describe();
  // With a large batch the activations outweigh it, and each lane sums its own.
  Step large = mlp.step(2, 4096);
  EXPECT_GE(large.facts().partial_bytes, 144u * 128 * 4) << large.describe();
}

/// On the machine of that name.
void expect_patches_made_again(const std::string& machine) {
  const State w0(Array::ones({3, 3, 1, 32}), "w0"), w1(Array::ones({3, 3, 32, 32}), "w1");
  optim::Sgd sgd;
  // A mean over the batch ends the strips between the layers, so the gradient of w1 is in a later phase than its
  // patches.
  Step step = compile(
      CompileOptions{.name = "conv", .lanes = 2, .machine = machine},
      [&](Tensor x) {
        const Tensor a = relu(test::by_patches(x, w0)), centred = a - mean(a, {0, 1, 2}, Keep::yes);
        const Tensor b = test::by_patches(centred, w1);
        const Tensor loss = mean(square(b - mean(b, {0, 1, 2}, Keep::yes)));
        sgd.minimize(loss, {w0, w1});
        return loss;
      },
      f32(64, 28, 28, 1));
  const plan::Schedule& s = step.inside().schedule;
  std::size_t unfolds = 0;
  for (std::size_t i = 0; i < s.place.size(); ++i) {
    if ((*s.graph)[static_cast<int>(i)].op != ir::Op::unfold || s.place[i].phase < 0) continue;
    ++unfolds;
    EXPECT_EQ(s.place[i].home, plan::Home::strip) << step.describe();
  }
  EXPECT_EQ(unfolds, 4u) << step.describe();
  // Each picture's patches are 0.7 MB: strips of one or two stay in the second-level cache.
  for (const auto& phase : s.phases)
    for (const auto& region : phase.regions)
      for (const auto& m : region.members) {
        const ir::Node& n = (*s.graph)[m.node];
        if (n.op == ir::Op::unfold && n.spec.shape.count() > 1'000'000) {
          EXPECT_LE(region.strip, 4) << step.describe();
        }
      }
}

TEST(Schedule, PatchesOfAConvolutionAreMadeAgainNotKept) {
  for (const std::string& machine : test::machine_names()) expect_patches_made_again(machine);
}

TEST(Schedule, OneLaneHasNoMoreStepsThanItNeeds) {
  Mlp mlp;
  Step step = mlp.step(1);
  EXPECT_EQ(step.facts().lanes, 1);
  for (const auto& phase : step.inside().schedule.phases)
    for (const auto& region : phase.regions) EXPECT_EQ(region.lanes(), 1);
}

TEST(Schedule, SmallWorkStaysOnOneLane) {
  Step step = compile([](Tensor x) { return relu(x) + 1; }, f32(16));
  EXPECT_EQ(step.facts().lanes, 1) << step.describe();
}

TEST(Schedule, ElementwiseChainIsOneRegionWithSmallStrips) {
  Step step = compile(
      CompileOptions{"", 0, 2}, [](Tensor x, Tensor y) { return tanh(relu(x) * y + 0.5); }, f32(1000, 1000),
      f32(1000, 1000));
  EXPECT_EQ(step.facts().regions, 1) << step.describe();
  EXPECT_LT(step.facts().scratch_bytes, 48u << 10) << step.describe();
}

TEST(Schedule, ValuesThatCrossPhasesArePlacedForTheirWholeLife) {
  // mean over the batch of everything, then used by every row again: two phases, result right (also see
  // random_graph_test).
  Step step = compile(
      CompileOptions{"", 0, 2}, [](Tensor x) { return x - mean(x, 0, Keep::yes); }, f64(100, 3000));
  Array x = Array::arange(0, 300000, 1, DType::f64).reshape({100, 3000});
  const Array y = step(x);
  EXPECT_NEAR(y.at<double>({0, 0}), -148500, 1e-6);
  EXPECT_NEAR(y.at<double>({99, 2999}), 148500, 1e-6);
}

}  // namespace
}  // namespace wr
