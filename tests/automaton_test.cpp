// Training automata: settings as text, tasks, resuming bit for bit, accumulated batches, bad files.
#include "apps/automaton/automaton.h"
#include "apps/automaton/exam.h"
#include "apps/common/pictures.h"

#include <gtest/gtest.h>

#include <fstream>

#include "temporary_files.h"

namespace wr::apps {
namespace {

AutomatonSettings small_settings() {
  AutomatonSettings s = automaton_recipe("checkerboard");
  s.height = s.width = 6;
  s.channels = 2;
  s.kernels = 2;
  s.update_gates = "8,4,2";
  s.steps = 3;
  s.updates = 12;
  return s;
}

TEST(AutomatonSettings, TextsReadBack) {
  for (const std::string& task : automaton_tasks()) {
    const AutomatonSettings s = automaton_recipe(task);
    AutomatonSettings read;
    for (const auto& [name, text] : to_texts(s)) set(read, name, text);
    EXPECT_EQ(to_texts(read), to_texts(s));
  }
  EXPECT_EQ(layer_sizes("256x3,8"), (std::vector<std::int64_t>{256, 256, 256, 8}));
  AutomatonSettings s;
  EXPECT_ERROR(set(s, "lr", "fast"), "lr is 'fast'; expected a number");
  EXPECT_ERROR(set(s, "border", "torus"), "expected one of zero, wrap");
  for (const char* bad : {"", "8,", "x3", "8xx2", "0", "8x0", "-4", "8,,4", "99999999999"})
    EXPECT_ERROR(layer_sizes(bad), "no layers of gates");
}

TEST(AutomatonTask, LifeIsAllBoardsAndTheirFutures) {
  const AutomatonTask task(automaton_recipe("life"));
  ASSERT_EQ(task.all_grids(), 512);
  const auto all = task.all();
  EXPECT_EQ(all.start.shape(), (Shape{1, 512 * 9}));
  // A full board dies of crowding, an empty one stays empty; three in a row on a torus of 3 fill it.
  const auto target = all.target.to_vector<float>();
  auto alive = [&](int board) {
    float sum = 0;
    for (int i = 0; i < 9; ++i) sum += target[board * 9 + i];
    return sum;
  };
  EXPECT_EQ(alive(511), 0);
  EXPECT_EQ(alive(0), 0);
  EXPECT_EQ(alive(7), 9);
}

std::vector<float> parameters_of(const AutomatonRun& run) {
  std::vector<float> all;
  for (const State& p : run.automaton().parameters())
    for (float v : p.value().astype(DType::f32).to_vector<float>()) all.push_back(v);
  return all;
}

TEST(AutomatonRun, ResumesBitForBitBetweenSearches) {
  const TemporaryFolder folder;
  Picture one_spot{6, 6, std::vector<std::uint8_t>(36, 0)};
  one_spot.grey[8] = 255;
  std::ofstream(folder / "spot.png", std::ios::binary) << encode_png(one_spot);
  AutomatonSettings s = small_settings();
  s.task = "pattern";
  s.picture = folder / "spot.png";
  s.steps = 1;  // too few to get there
  s.updates = 100;
  s.attempt = 20;
  s.finish = 2;
  s.tries = 150;
  AutomatonRun whole(s, 2, {.lanes = 2});
  EXPECT_EQ(whole.train({}), Outcome::not_exact);
  EXPECT_GE(whole.restarts(), 2);
  EXPECT_GE(whole.searches_done(), 2);
  AutomatonRun first(s, 1, {.lanes = 2});
  first.train({.stop = [&] { return first.restarts() == 1 && first.searches_done() == 1; }, .update = {}, .look = {}});
  EXPECT_LT(first.updates_done(), 100);
  first.save(folder / "a.safetensors");
  AutomatonRun second(s, 1, {.lanes = 2});
  second.load(folder / "a.safetensors");
  EXPECT_EQ(second.train({}), Outcome::not_exact);
  EXPECT_EQ(parameters_of(second), parameters_of(whole));
  EXPECT_NE(parameters_of(second), parameters_of(first));
}

TEST(AutomatonRun, ResumesBitForBit) {
  for (const double fire : {1.0, 0.6}) {
    const TemporaryFolder folder;
    AutomatonSettings s = small_settings();
    s.fire = fire;
    s.attempt = 4;  // begins again before the checkpoint and after it
    s.polish = 3;
    s.tries = 20;
    s.solved = 1;
    AutomatonRun whole(s, 2, {.lanes = 2});
    whole.train({});
    AutomatonRun first(s, 1, {.lanes = 2});
    EXPECT_EQ(first.train({.stop = [&] { return first.updates_done() == 5; }, .update = {}, .look = {}}),
              Outcome::stopped);
    first.save(folder / "a.safetensors");
    AutomatonRun second(s, 1, {.lanes = 2});
    second.load(folder / "a.safetensors");
    EXPECT_EQ(second.updates_done(), 5);
    second.train({});
    EXPECT_EQ(second.restarts(), whole.restarts());
    EXPECT_GE(second.restarts(), 2);
    EXPECT_EQ(parameters_of(second), parameters_of(whole));
    const TrainedAutomaton trained = load_automaton(folder / "a.safetensors");
    EXPECT_EQ(trained.automaton.gate_count(), first.automaton().gate_count());
  }
}

void expect_exam_counts_as_the_network(const AutomatonSettings& s, std::int64_t grids) {
  const AutomatonTask task(s);
  const AutomatonRun run(s, 1, {.lanes = 1});
  const auto batch = task.batch(5, grids);
  Tensor state(batch.start);
  for (std::int64_t i = 0; i < s.steps; ++i)
    state = run.automaton().step(run.automaton().rule(logic::Mode::hard), state, s.height, s.width, border_of(s));
  const double wrong = eval(sum(cast(ne(slice(state, 0, 0, 1), Tensor(batch.target)), DType::f32))).item<float>();
  EXPECT_GT(wrong, 0);
  EXPECT_EQ(static_cast<double>(AutomatonExam(task, s, 5).wrong(logic::circuit_of(run.automaton()))), wrong);
}

TEST(AutomatonExam, CountsWhatTheHardNetworkGetsWrong) {
  for (const char* border : {"zero", "wrap"}) {
    AutomatonSettings s = small_settings();
    s.border = border;
    s.noise = 3;
    expect_exam_counts_as_the_network(s, 64);
    s.task = "pattern";  // a single grid
    expect_exam_counts_as_the_network(s, 1);
  }
}

TEST(AutomatonRun, AccumulatedBatchesAreOneLargeOne) {
  AutomatonSettings s = small_settings();
  s.task = "pattern";  // every grid starts alike: three batches of one are one batch of three
  s.dtype = "f64";
  s.noise = 1;
  s.updates = 3;
  s.batch = 1;
  s.accumulate = 3;
  AutomatonRun parts(s, 1, {.lanes = 1});
  parts.train({});
  s.batch = 3;
  s.accumulate = 1;
  AutomatonRun whole(s, 1, {.lanes = 1});
  whole.train({});
  s.memory = "keep";
  AutomatonRun kept(s, 1, {.lanes = 1});
  kept.train({});
  const auto a = parameters_of(parts), b = parameters_of(whole), c = parameters_of(kept);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-5);
    EXPECT_NEAR(c[i], b[i], 1e-5);
  }
  s.batch = 1;
  AutomatonRun single(s, 1, {.lanes = 1});
  EXPECT_NE(parameters_of(single), b) << "nothing was trained";
}

TEST(AutomatonRun, RefusesFilesThatAreNotItsOwn) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x.safetensors", {{"w", Array::zeros({2})}}, {{"windrow.app", "fashion"}});
  EXPECT_ERROR(load_automaton(folder / "x.safetensors"), "windrow.app = fashion");
  AutomatonSettings s = small_settings();
  AutomatonRun run(s, 1, {.lanes = 1});
  run.save(folder / "a.safetensors");
  Safetensors file = read_safetensors(folder / "a.safetensors");
  file.metadata["so_far"] = "1 2 three";
  write_safetensors(folder / "b.safetensors", file.tensors, file.metadata);
  EXPECT_ERROR(run.load(folder / "b.safetensors"), "expected 9 finite numbers");
  file.metadata["update-gates"] = "16,4,2";
  write_safetensors(folder / "c.safetensors", file.tensors, file.metadata);
  EXPECT_ERROR(load_automaton(folder / "c.safetensors"), "but the file has");
}

}  // namespace
}  // namespace wr::apps
