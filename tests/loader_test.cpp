// Loader: order, padding, conversion, augmentation, the thread, and resuming.
#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "count_allocations.h"
#include "temporary_files.h"
#include "windrow/data.h"

namespace wr::data {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Example i: x = [i, i], y = i.
Dataset numbered(std::int64_t count) {
  const Array y = Array::arange(static_cast<double>(count), DType::i32);
  return {y.reshape({count, 1}).broadcast_to({count, 2}).astype(DType::f32), y};
}
Dataset images(std::int64_t count) {
  return {Array::arange(static_cast<double>(count * 12), DType::i32).astype(DType::u8).reshape({count, 3, 4}),
          Array::arange(static_cast<double>(count), DType::i32)};
}
std::vector<int> labels(const Batch& batch) { return batch.y.to_vector<std::int32_t>(); }
std::vector<int> labels_of(Loader& loader, int batches) {
  std::vector<int> all;
  for (int i = 0; i < batches; ++i)
    for (const int label : labels(loader.next())) all.push_back(label);
  return all;
}

TEST(Loader, AnEpochHasEachExampleOnce) {
  for (const int ahead : {0, 1, 3}) {
    Loader loader(numbered(12), {.batch = 4, .seed = 5, .ahead = ahead});
    EXPECT_EQ(loader.batches_per_epoch(), 3);
    std::vector<std::vector<int>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> seen;
      std::int64_t index = 0;
      for (Batch& batch : loader) {
        EXPECT_EQ(batch.epoch, static_cast<std::uint64_t>(epoch));
        EXPECT_EQ(batch.index, index++);
        EXPECT_EQ(batch.count, 4);
        for (std::int64_t i = 0; i < 4; ++i) {
          seen.push_back(batch.y.at<std::int32_t>({i}));
          EXPECT_EQ(batch.x.at<float>({i, 1}), static_cast<float>(seen.back()));
        }
      }
      EXPECT_EQ(std::set<int>(seen.begin(), seen.end()).size(), 12u);
      epochs.push_back(seen);
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
  }
}

TEST(Loader, OrderDependsOnSeedAndEpochOnly) {
  const LoaderOptions options{.batch = 5, .seed = 9};
  Loader a(numbered(50), options), b(numbered(50), options);
  Loader direct(numbered(50), {.batch = 5, .seed = 9, .ahead = 0}), other(numbered(50), {.batch = 5, .seed = 10});
  Loader wider(numbered(50), {.batch = 10, .seed = 9});
  const std::vector<int> order = labels_of(a, 25);
  EXPECT_EQ(order, labels_of(b, 25));
  EXPECT_EQ(order, labels_of(direct, 25));
  EXPECT_NE(order, labels_of(other, 25));
  const std::vector<int> wide = labels_of(wider, 10);
  EXPECT_TRUE(std::equal(wide.begin(), wide.end(), order.begin()));
  Loader plain(numbered(4), {.batch = 2, .shuffle = false});
  EXPECT_EQ(labels_of(plain, 3), std::vector<int>({0, 1, 2, 3, 0, 1}));
}

TEST(Loader, RestIsDroppedOrPadded) {
  Loader drop(numbered(10), {.batch = 4, .shuffle = false});
  EXPECT_EQ(drop.batches_per_epoch(), 2);
  EXPECT_EQ(labels_of(drop, 3), std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
  Loader pad(numbered(10), {.batch = 4, .shuffle = false, .rest = LoaderOptions::Rest::pad});
  EXPECT_EQ(pad.batches_per_epoch(), 3);
  std::vector<std::int64_t> counts;
  for (Batch& batch : pad) counts.push_back(batch.count);
  EXPECT_EQ(counts, std::vector<std::int64_t>({4, 4, 2}));
  labels_of(pad, 2);
  EXPECT_EQ(labels(pad.next()), std::vector<int>({8, 9, 0, 1}));
  Loader few(numbered(3), {.batch = 8, .shuffle = false, .rest = LoaderOptions::Rest::pad});
  EXPECT_EQ(labels(few.next()), std::vector<int>({0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(Loader, RestIsKeptAsAShortBatch) {
  for (const int ahead : {0, 1, 3}) {
    Loader keep(numbered(10), {.batch = 4, .shuffle = false, .rest = LoaderOptions::Rest::keep, .ahead = ahead});
    EXPECT_EQ(keep.batches_per_epoch(), 3);
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> seen;
      std::vector<std::int64_t> rows;
      for (Batch& batch : keep) {
        rows.push_back(batch.x.shape()[0]);
        EXPECT_EQ(batch.count, rows.back());
        for (const int label : labels(batch)) seen.push_back(label);
      }
      EXPECT_EQ(rows, std::vector<std::int64_t>({4, 4, 2}));
      EXPECT_EQ(seen, std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    }
    keep.next();
    const LoaderState before_the_last = [&] {
      keep.next();
      return keep.state();
    }();
    keep.restore(before_the_last);
    EXPECT_EQ(labels(keep.next()), std::vector<int>({8, 9}));
  }
  Loader few(numbered(3), {.batch = 8, .shuffle = false, .rest = LoaderOptions::Rest::keep});
  EXPECT_EQ(labels(few.next()), std::vector<int>({0, 1, 2}));
  Loader even(numbered(8), {.batch = 4, .shuffle = false, .rest = LoaderOptions::Rest::keep});
  EXPECT_EQ(even.batches_per_epoch(), 2);
  EXPECT_EQ(labels_of(even, 2), std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Loader, ShortBatchesAllocateNothing) {
  Loader keep(numbered(10), {.batch = 4, .rest = LoaderOptions::Rest::keep, .ahead = 0});
  for (int i = 0; i < 3; ++i) keep.next();
  const AllocationCount count;
  for (int i = 0; i < 6; ++i) keep.next();
  EXPECT_EQ(count.now(), 0);
}

TEST(Loader, ScalesAndReshapes) {
  Loader loader(images(4), {.batch = 2, .shuffle = false, .example = {12}});
  auto& [x, y] = loader.next();
  EXPECT_EQ(x.shape(), Shape({2, 12}));
  EXPECT_EQ(x.at<float>({1, 3}), 15.f * (1.f / 255));
  EXPECT_EQ(y.at<std::int32_t>({1}), 1);
  Loader scaled(images(4), {.batch = 2, .shuffle = false, .scale = 2, .offset = -1});
  EXPECT_EQ(scaled.next().x.at<float>({1, 2, 3}), 45.f);
  Loader tokens({Array::from({{1, 2}, {3, 4}}), Array::from({0.5, 1.5})}, {.batch = 2, .shuffle = false});
  EXPECT_TRUE(identical(tokens.next().x, Array::from({{1, 2}, {3, 4}})));
}

TEST(Loader, AugmentationIsTheOneItSays) {
  const Dataset data = images(1);
  std::set<std::pair<int, int>> shifts;
  bool flipped = false, straight = false;
  Loader loader(data, {.batch = 1, .seed = 3, .scale = 1, .offset = -100, .augment = {.shift = 1, .flip = true}});
  for (int i = 0; i < 200; ++i) {
    const Array x = loader.next().x;
    int found = 0;
    for (const bool flip : {false, true}) {
      for (int down = -1; down <= 1; ++down) {
        for (int right = -1; right <= 1; ++right) {
          Array expected = Array::full({1, 3, 4}, -100);
          for (int r = 0; r < 3; ++r) {
            for (int c = 0; c < 4; ++c) {
              const int rr = r - down, cc = c - right;
              if (rr < 0 || rr > 2 || cc < 0 || cc > 3) continue;
              expected.at<float>({0, r, c}) = static_cast<float>(4 * rr + (flip ? 3 - cc : cc)) - 100;
            }
          }
          if (!identical(x, expected)) continue;
          ++found;
          shifts.insert({down, right});
          (flip ? flipped : straight) = true;
        }
      }
    }
    ASSERT_EQ(found, 1) << x;
  }
  EXPECT_EQ(shifts.size(), 9u);
  EXPECT_TRUE(flipped && straight);
}

TEST(Loader, AugmentationKeepsChannelsTogether) {
  const Dataset data{Array::arange(12).reshape({1, 2, 3, 2}), Array::from({0})};
  Loader loader(data, {.batch = 1, .augment = {.flip = true}});
  const Array flipped = Array::from<float>({4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7}).reshape({1, 2, 3, 2});
  int flips = 0;
  for (int i = 0; i < 64; ++i) {
    const Array& x = loader.next().x;
    flips += identical(x, flipped);
    EXPECT_TRUE(identical(x, flipped) || identical(x, data.x));
  }
  EXPECT_GT(flips, 16);
  EXPECT_LT(flips, 48);
}

TEST(Loader, NoiseHasItsDeviationAndDependsOnTheExample) {
  const Dataset data{Array::zeros({4, 50, 50}), Array::arange(4, DType::i32)};
  const LoaderOptions options{.batch = 1, .seed = 2, .augment = {.noise = 0.5f}};
  Loader small(data, options), large(data, {.batch = 4, .seed = 2, .augment = {.noise = 0.5f}, .ahead = 0});
  const Batch& all = large.next();
  double sum = 0, squares = 0;
  for (const float v : all.x.to_vector<float>()) {
    sum += v;
    squares += v * v;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.5, 0.02);
  // The same noise whatever the batch size; other noise in the next epoch.
  const Array first = small.next().x;
  EXPECT_TRUE(identical(first.select(0, 0), all.x.select(0, 0)));
  for (int i = 0; i < 3; ++i) small.next();
  EXPECT_FALSE(identical(small.next().x, first));
}

TEST(Loader, ResumesExactly) {
  const LoaderOptions options{.batch = 3, .seed = 4, .augment = {.shift = 1, .flip = true, .noise = 0.1f}};
  Loader whole(images(10), options), part(images(10), options);
  for (int i = 0; i < 7; ++i) {
    whole.next();
    part.next();
  }
  const std::string saved = to_string(part.state());
  EXPECT_EQ(saved, "seed=4 epoch=2 next=1 examples=10 batch=3");
  EXPECT_EQ(parse_loader_state(saved), part.state());
  // Also into a loader made with another seed, and one that has run ahead.
  LoaderOptions other = options;
  other.seed = 77;
  Loader fresh(images(10), other);
  for (Loader* loader : {&fresh, &part}) {
    Loader reference(images(10), options);
    for (int i = 0; i < 7; ++i) reference.next();
    loader->restore(parse_loader_state(saved));
    for (int i = 0; i < 12; ++i) {
      const Batch &a = reference.next(), &b = loader->next();
      EXPECT_TRUE(identical(a.x, b.x) && identical(a.y, b.y)) << i;
    }
  }
  EXPECT_ERROR(whole.restore({4, 0, 0, 11, 3}), "the state is of 11 examples");
  EXPECT_ERROR(whole.restore({4, 0, 3, 10, 3}), "the state says batch 3 of 3");
  for (const char* bad : {"", "seed=1", "seed=1 epoch=2 next=x examples=1 batch=1",
                          "seed=-1 epoch=0 next=0 examples=1 batch=1", "seed=1 epoch=0 next=0 examples=1 batch=1 "}) {
    EXPECT_ERROR(parse_loader_state(bad), "is no state of a loader");
  }
}

TEST(Loader, SteadyStateAllocatesNothing) {
  for (const int ahead : {0, 2}) {
    Loader loader(images(64), {.batch = 8, .augment = {.shift = 1, .flip = true, .noise = 0.1f}, .ahead = ahead});
    for (int i = 0; i < 20; ++i) loader.next();
    const AllocationCount count;
    for (int i = 0; i < 100; ++i) loader.next();  // over several epochs
    EXPECT_EQ(count.now(), 0) << ahead;
  }
}

TEST(Loader, ACopyOfABatchKeepsItsValue) {
  Loader loader(numbered(6), {.batch = 2, .shuffle = false, .ahead = 1});
  const Array kept = loader.next().y;
  for (int i = 0; i < 10; ++i) loader.next();
  EXPECT_TRUE(identical(kept, Array::from({0, 1})));
}

/// Batches that take a while to load.
Loader slow_loader(milliseconds load, int ahead) {
  return Loader(1000, f32(2), i32(2),
                [load](const Request& request, Batch& batch) {
                  std::this_thread::sleep_for(load);
                  for (int i = 0; i < 2; ++i)
                    batch.y.at<std::int32_t>({i}) = static_cast<std::int32_t>(request.examples[i]);
                },
                {.batch = 2, .shuffle = false, .ahead = ahead});
}
double seconds_for(Loader& loader, milliseconds compute, int steps) {
  loader.next();
  const auto start = Clock::now();
  for (int i = 0; i < steps; ++i) {
    std::this_thread::sleep_for(compute);
    loader.next();
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(LoaderTiming, ASlowLoaderIsHidden) {
  // Loading and computing wait rather than work, so that a busy machine does not disturb the measure much.
  const milliseconds load(18), compute(20);
  const int steps = 20;
  Loader hidden = slow_loader(load, 2), shown = slow_loader(load, 0);
  const double overlapped = seconds_for(hidden, compute, steps), summed = seconds_for(shown, compute, steps);
  RecordProperty("overlapped_ms", static_cast<int>(overlapped * 1000));
  RecordProperty("summed_ms", static_cast<int>(summed * 1000));
  EXPECT_GE(summed, 0.038 * steps);
  EXPECT_LT(overlapped, 0.75 * summed);  // 20 ms of 38 would be 0.53
}

TEST(Loader, AnErrorArrivesAtItsBatchAndCanBeOvercome) {
  for (const int ahead : {0, 3}) {
    std::atomic<bool> broken{true};
    Loader loader(100, f32(10), i32(10),
                  [&](const Request& request, Batch& batch) {
                    if (broken && request.examples[0] == 20) throw Error("disk gone");
                    batch.y.fill(static_cast<double>(request.examples[0]));
                  },
                  {.batch = 10, .shuffle = false, .ahead = ahead});
    EXPECT_EQ(labels(loader.next())[0], 0);
    EXPECT_EQ(labels(loader.next())[0], 10);
    EXPECT_ERROR(loader.next(), "disk gone");
    EXPECT_ERROR(loader.next(), "disk gone");
    EXPECT_EQ(loader.state().next, 2);
    broken = false;
    loader.restore(loader.state());
    EXPECT_EQ(labels(loader.next())[0], 20);
    EXPECT_EQ(labels(loader.next())[0], 30);
  }
}

TEST(Loader, StopsCleanlyInEveryState) {
  const auto slow = [](const Request&, Batch&) { std::this_thread::sleep_for(milliseconds(1)); };
  for (int taken = 0; taken < 6; ++taken) {
    Loader loader(100, f32(1), f32(1), slow, {.batch = 1, .ahead = 2});
    for (int i = 0; i < taken; ++i) loader.next();
    if (taken % 2) std::this_thread::sleep_for(milliseconds(5));  // the ring is full
    Loader moved = std::move(loader);
    if (taken > 3) moved.next();
  }
}

TEST(Loader, RefusesWhatCannotWork) {
  EXPECT_ERROR(Loader(numbered(10), {.batch = 0}), "the batch size is 0");
  EXPECT_ERROR(Loader(numbered(10), {.batch = 11}), "10 examples do not fill one batch of 11");
  EXPECT_ERROR(Loader(numbered(10), {.batch = 1, .ahead = -1}), "ahead must be");
  EXPECT_ERROR(Loader(Dataset{}, {.batch = 1}), "there are no examples");
  EXPECT_ERROR(Loader(Dataset{Array::zeros({3}), Array::zeros({4})}, {.batch = 1}),
               "their first axes should be the examples");
  EXPECT_ERROR(Loader(numbered(10), {.batch = 1, .augment = {.flip = true}}), "images to shift or flip");
  EXPECT_ERROR(Loader(images(10), {.batch = 1, .example = {13}}), "does not have the shape [13]");
  EXPECT_ERROR(Loader(Dataset{Array::from({1, 2}), Array::from({1, 2})}, {.batch = 1, .scale = 2}), "is not scaled");
  EXPECT_ERROR(Loader(5, f32(2), f32(3), [](const Request&, Batch&) {}, {.batch = 2}),
               "do not begin with an axis of 2");
  Loader changing(5, f32(1), f32(1), [](const Request&, Batch& b) { b.x = Array::zeros({2}); }, {.batch = 1});
  EXPECT_ERROR(changing.next(), "changed their shape or type");
}

}  // namespace
}  // namespace wr::data
