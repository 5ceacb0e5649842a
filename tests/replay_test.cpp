// Replay: the sum tree against a plain list, what is sampled how often, n-step windows against sums by hand.
#include <gtest/gtest.h>

#include <numeric>

#include "windrow/error.h"
#include "windrow/rl.h"

namespace wr::rl {
namespace {

TEST(SumTree, AgreesWithAPlainListOfWeights) {
  Rng rng(3);
  for (const std::int64_t leaves : {1, 5, 16, 17, 300, 4097}) {
    SumTree tree(leaves);
    std::vector<std::uint64_t> plain(static_cast<std::size_t>(leaves));
    for (int change = 0; change < 2000; ++change) {
      const auto i = rng.below(static_cast<std::uint64_t>(leaves));
      plain[i] = rng.below(1000);
      tree.set(static_cast<std::int64_t>(i), plain[i]);
    }
    plain[0] += 1;
    tree.set(0, plain[0]);
    const auto total = std::accumulate(plain.begin(), plain.end(), std::uint64_t{0});
    ASSERT_EQ(tree.total(), total);
    std::vector<std::uint64_t> points{0, total - 1};
    for (int i = 0; i < 200; ++i) points.push_back(rng.below(total));
    std::vector<std::int64_t> found(points.size());
    tree.find(points, found);
    for (std::size_t i = 0; i < points.size(); ++i) {
      std::uint64_t sum = 0;
      std::size_t expected = 0;
      while (sum + plain[expected] <= points[i]) sum += plain[expected++];
      ASSERT_EQ(found[i], static_cast<std::int64_t>(expected)) << "point " << points[i] << " of " << total;
    }
  }
}

TEST(Sampler, DrawsInProportionToPriorityAndWeighsAgainstIt) {
  Sampler sampler({.capacity = 10, .prioritised = true, .alpha = 1});
  for (int i = 0; i < 4; ++i) sampler.place_for_new();
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  sampler.update(all, std::vector<float>{1, 2, 3, 4});
  Rng rng(7);
  std::vector<int> counts(4);
  std::vector<std::int64_t> entries(50);
  std::vector<float> weights(50);
  for (int round = 0; round < 400; ++round) {
    sampler.sample(rng, 1, entries, weights);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      ASSERT_LT(entries[i], 4);
      ++counts[entries[i]];
      // With beta 1 a weight is inverse to the priority; the rarest has 1.
      EXPECT_NEAR(weights[i], 1.001 / (static_cast<double>(entries[i]) + 1.001), 1e-3);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(counts[i] / 20000.0, static_cast<double>(i + 1) / 10, 0.01);
}

TEST(Sampler, UniformWithoutPriorities) {
  Sampler sampler({.capacity = 8, .prioritised = false});
  for (int i = 0; i < 20; ++i) sampler.place_for_new();
  EXPECT_EQ(sampler.size(), 8);
  Rng rng(7);
  std::vector<int> counts(8);
  std::vector<std::int64_t> entries(64);
  std::vector<float> weights(64);
  for (int round = 0; round < 200; ++round) {
    sampler.sample(rng, 0.4, entries, weights);
    for (const auto e : entries) ++counts[e];
    for (const auto w : weights) EXPECT_EQ(w, 1);
  }
  for (const int c : counts) EXPECT_NEAR(c / 12800.0, 0.125, 0.02);
}

TEST(Sampler, NewEntriesTakeTheOldestPlaceWithTheGreatestPriority) {
  Sampler sampler({.capacity = 3, .prioritised = true, .alpha = 1});
  EXPECT_EQ(sampler.place_for_new(), 0);
  EXPECT_EQ(sampler.place_for_new(), 1);
  EXPECT_EQ(sampler.place_for_new(), 2);
  sampler.update(std::vector<std::int64_t>{0, 1, 2}, std::vector<float>{5, 0.1f, 0.1f});
  EXPECT_EQ(sampler.place_for_new(), 0);
  sampler.update(std::vector<std::int64_t>{0}, std::vector<float>{0.1f});
  EXPECT_EQ(sampler.place_for_new(), 1);
  const auto state = sampler.state();
  EXPECT_EQ(state.priorities[1], state.greatest);
  EXPECT_GT(state.greatest, 40 * state.priorities[0]);
}

TEST(Sampler, RestoredGoesOnTheSame) {
  const ReplayOptions options{.capacity = 100, .prioritised = true};
  Sampler a(options), b(options);
  Rng rng(1);
  std::vector<std::int64_t> entries(16), others(16);
  std::vector<float> weights(16), errors(16), other_weights(16);
  for (int i = 0; i < 130; ++i) a.place_for_new();
  for (int i = 0; i < 30; ++i) {
    a.sample(rng, 0.5, entries, weights);
    for (auto& e : errors) e = static_cast<float>(rng.uniform());
    a.update(entries, errors);
  }
  b.restore(a.state());
  Rng same = rng;
  a.sample(rng, 0.5, entries, weights);
  b.sample(same, 0.5, others, other_weights);
  EXPECT_EQ(entries, others);
  EXPECT_EQ(weights, other_weights);
  EXPECT_EQ(a.place_for_new(), b.place_for_new());
  auto bad = a.state();
  bad.priorities.pop_back();
  EXPECT_THROW(b.restore(bad), Error);
}

using Steps = std::vector<Transition<int>>;

Steps windows(int n, const std::vector<float>& rewards, bool terminal) {
  NStep<int> window(n, 0.5);
  Steps all;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const bool last = i + 1 == rewards.size();
    const int at = static_cast<int>(i);
    window.add(at, at + 10, Outcome{rewards[i], last && terminal, last && !terminal}, at + 1,
               [&](const Transition<int>& t) { all.push_back(t); });
  }
  EXPECT_TRUE(window.open().empty());
  return all;
}

TEST(NStep, WindowsOverlapAndStopAtTheEnd) {
  const Steps all = windows(3, {1, 2, 4, 8, 16}, true);
  ASSERT_EQ(all.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(all[i].from, i);
    EXPECT_EQ(all[i].action, i + 10);
    EXPECT_EQ(all[i].to, std::min(i + 3, 5));
  }
  EXPECT_EQ(all[0].reward, 1 + 1 + 1);
  EXPECT_EQ(all[0].discount, 0.125f);
  EXPECT_EQ(all[2].reward, 4 + 4 + 4);
  EXPECT_EQ(all[2].discount, 0);  // its window ends with the episode
  EXPECT_EQ(all[3].reward, 8 + 8);
  EXPECT_EQ(all[4].reward, 16);
  EXPECT_EQ(all[4].discount, 0);
}

TEST(NStep, WhatWasCutOffStillHasAValue) {
  const Steps all = windows(3, {1, 2, 4, 8}, false);
  EXPECT_EQ(all[1].discount, 0.125f);
  EXPECT_EQ(all[2].discount, 0.25f);
  EXPECT_EQ(all[3].discount, 0.5f);
  EXPECT_EQ(all[3].to, 4);
}

TEST(NStep, WindowsAreCutBeforeARandomMove) {
  NStep<int> window(3, 0.5);
  Steps all;
  const auto keep = [&](const Transition<int>& t) { all.push_back(t); };
  window.add(0, 0, Outcome{1, false, false}, 1, keep);
  window.add(1, 0, Outcome{2, false, false}, 2, keep);
  EXPECT_TRUE(all.empty());
  window.cut(2, keep);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].reward, 1 + 1);
  EXPECT_EQ(all[0].discount, 0.25f);
  EXPECT_EQ(all[0].to, 2);
  EXPECT_EQ(all[1].reward, 2);
  EXPECT_EQ(all[1].discount, 0.5f);
  window.add(2, 0, Outcome{4, true, false}, 3, keep);
  EXPECT_EQ(all[2].from, 2);
  EXPECT_EQ(all[2].discount, 0);
}

TEST(NStep, OneStepIsPlain) {
  const Steps all = windows(1, {1, 2}, true);
  EXPECT_EQ(all[0].reward, 1);
  EXPECT_EQ(all[0].discount, 0.5f);
  EXPECT_EQ(all[1].discount, 0);
}

TEST(Curriculum, GoesOnBySuccessInParts) {
  Curriculum c({.first = 1, .last = 1.5, .step = 0.25, .thresholds = {0.8}, .window = 40});
  for (int i = 0; i < 9; ++i) c.record(true);
  EXPECT_EQ(c.depth(), 1);
  c.record(false);
  EXPECT_EQ(c.depth(), 1.25);
  Rng rng(1);
  int deep = 0;
  for (int i = 0; i < 4000; ++i) {
    const int d = c.draw(rng);
    ASSERT_TRUE(d == 1 || d == 2);
    deep += d == 2;
  }
  EXPECT_NEAR(deep / 4000.0, 0.25, 0.03);
  for (int i = 0; i < 200; ++i) c.record(i % 2 == 0);  // half is not enough
  EXPECT_EQ(c.depth(), 1.25);
  for (int i = 0; i < 100; ++i) c.record(true);
  EXPECT_EQ(c.depth(), 1.5);
}

}  // namespace
}  // namespace wr::rl
