// The search that changes wires: what it asks of a rollout, whom it blames, what it mends, and where its wires are
// kept.
#include "apps/automaton/mend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "apps/automaton/automaton.h"
#include "apps/automaton/blame.h"
#include "apps/automaton/kinds.h"
#include "apps/automaton/polish.h"
#include "apps/common/pictures.h"
#include "temporary_files.h"
#include "windrow/windrow.h"

namespace wr::apps {
namespace {

using logic::BitGrid;
using std::int64_t;

constexpr int64_t kChannels = 6;

logic::Automaton random_automaton(std::uint64_t seed, logic::Start start = {.pass = 1, .noise = 1},
                                  std::vector<int64_t> update_gates = {40, 40, 40, 20, 12, kChannels}) {
  logic::AutomatonOptions o;
  o.channels = kChannels;
  o.kernels = 3;
  o.kernel_gates = {8, 4, 2};
  o.update_gates = std::move(update_gates);
  o.start = start;
  o.seed = seed;
  return logic::Automaton(o);
}

BitGrid random_grid(int64_t channels, int64_t height, int64_t width, unsigned seed) {
  std::mt19937 gen(seed);
  BitGrid grid(channels, height, width);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) grid.set(c, y, x, (gen() >> 13 & 1) != 0);
  return grid;
}

BitGrid after(const logic::Circuit& circuit, BitGrid now, int64_t steps, Border border) {
  logic::BitAutomaton bits(circuit);
  BitGrid next = now;
  for (int64_t step = 0; step < steps; ++step) {
    bits.step(now, next, border);
    std::swap(now, next);
  }
  return now;
}

int64_t wrong_cells(const BitGrid& grid, const BitGrid& target) {
  int64_t wrong = 0;
  for (int64_t c = 0; c < target.channels(); ++c)
    for (int64_t y = 0; y < target.height(); ++y)
      for (int64_t x = 0; x < target.width(); ++x) wrong += grid.get(c, y, x) != target.get(c, y, x);
  return wrong;
}

GateChange any_change(const logic::Automaton& m, std::mt19937& gen) {
  const std::size_t layer = gen() % m.update().size();
  const auto wires = static_cast<std::uint32_t>(m.wires_before(layer));
  const auto wire = [&] { return static_cast<std::int32_t>(gen() % wires); };
  const std::size_t gate = gen() % m.update()[layer].wiring.size();
  const int function = static_cast<int>(gen() % 16);
  const std::int32_t a = wire(), b = wire();
  return {layer, gate, function, {a, b}};
}

TEST(MendRollout, CountsOtherWiresAsARunFromTheBeginningDoes) {
  constexpr int64_t kSteps = 4;
  for (const Border border : {Border::zero, Border::wrap})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{9, 11}, {1, 1}, {3, 70}}) {
      logic::Automaton m = random_automaton(static_cast<std::uint64_t>(height));
      std::vector<BitGrid> starts, targets;
      for (unsigned i = 0; i < 3; ++i) {
        starts.push_back(random_grid(kChannels, height, width, i));
        targets.push_back(random_grid(2, height, width, 10 + i));
      }
      BitRollout rollout(m, starts, targets, kSteps, border);
      const auto wrong_now = [&] {
        int64_t wrong = 0;
        for (std::size_t i = 0; i < starts.size(); ++i)
          wrong += wrong_cells(after(logic::circuit_of(m), starts[i], kSteps, border), targets[i]);
        return wrong;
      };
      std::mt19937 gen(5);
      for (int i = 0; i < 60; ++i) {
        std::vector<GateChange> changes;
        for (int k = 1 + i % 3; k > 0; --k) changes.push_back(any_change(m, gen));
        const int64_t wrong = rollout.wrong_with(changes);
        if (gen() % 2 == 0) {
          rollout.take_back();
        } else {
          rollout.keep();
          change_gates(m, changes);
          ASSERT_EQ(wrong, wrong_now()) << height << "x" << width << ", change " << i;
        }
        ASSERT_EQ(rollout.wrong(), wrong_now()) << height << "x" << width << ", change " << i;
        ASSERT_EQ(rollout.circuit().gates, logic::circuit_of(m).gates);
      }
    }
}

/// Cells of the first channel that are not the same.
std::vector<bool> differences(const BitGrid& a, const BitGrid& b) {
  std::vector<bool> all;
  for (int64_t y = 0; y < a.height(); ++y)
    for (int64_t x = 0; x < a.width(); ++x) all.push_back(a.get(0, y, x) != b.get(0, y, x));
  return all;
}

/// What Blame says of the states after the first step, against turning over each of their bits: how many of all say the
/// same.
double share_that_agrees(const logic::Automaton& m, Border border, Blame::Ways ways) {
  constexpr int64_t kSteps = 3, kHeight = 5, kWidth = 7;
  const BitGrid start = random_grid(kChannels, kHeight, kWidth, 1);
  const logic::Circuit circuit = logic::circuit_of(m);
  const BitGrid first = after(circuit, start, 1, border), last = after(circuit, first, kSteps - 1, border);
  const BitRollout rollout(m, {start}, {random_grid(1, kHeight, kWidth, 2)}, kSteps, border);
  Blame blame(rollout);
  const auto place = [](int64_t y, int64_t x) { return (y + 1) * (kWidth + 2) + x + 1; };
  int agree = 0, all = 0;
  for (const int64_t shown : {0, 17, 34}) {
    const int64_t at = place(shown / kWidth, shown % kWidth);
    blame.clear();
    blame.add({{0, static_cast<std::size_t>(at / 64), Word{1} << (at % 64)}}, ways);
    for (int64_t c = 0; c < kChannels; ++c)
      for (int64_t y = 0; y < kHeight; ++y)
        for (int64_t x = 0; x < kWidth; ++x) {
          BitGrid turned = first;
          turned.set(c, y, x, !first.get(c, y, x));
          const bool hangs =
              differences(after(circuit, turned, kSteps - 1, border), last)[static_cast<std::size_t>(shown)];
          const Word* plane = blame.of(0, static_cast<std::size_t>(circuit.outputs[c]));
          agree += ((plane[place(y, x) / 64] >> (place(y, x) % 64) & 1) != 0) == hangs;
          ++all;
        }
  }
  return static_cast<double>(agree) / all;
}

TEST(MendBlame, NamesTheCellsThatSomethingHangsOn) {
  for (const Border border : {Border::zero, Border::wrap})
    for (const Blame::Ways ways : {Blame::Ways::cancel, Blame::Ways::add_up}) {
      // Gates that pass on one wire: there is one way alone, and Blame is exact.
      EXPECT_EQ(share_that_agrees(random_automaton(1, {.pass = 10}), border, ways), 1);
      for (std::uint64_t seed = 2; seed <= 4; ++seed)
        EXPECT_GT(share_that_agrees(random_automaton(seed), border, ways), 0.9) << seed;
    }
}

/// An automaton's own picture, but for a few cells: they must be told from all others.
struct Task {
  logic::Automaton automaton;
  BitGrid start, target;
};
constexpr int64_t kSide = 10, kTaskSteps = 2;
Task task_of(std::uint64_t seed) {
  Task task{random_automaton(seed, {.pass = 3, .noise = 1}, {60, 60, 60, 60, 60, 30, 16, kChannels}),
            random_grid(kChannels, kSide, kSide, 3), BitGrid(1, kSide, kSide)};
  const BitGrid all = after(logic::circuit_of(task.automaton), task.start, kTaskSteps, Border::wrap);
  for (int64_t i = 0; i < kSide * kSide; ++i) {
    const bool turned = i % 19 == 5;
    task.target.set(0, i / kSide, i % kSide, all.get(0, i / kSide, i % kSide) != turned);
  }
  return task;
}

TEST(Mend, FindsWiresWhereOtherFunctionsAreNotEnough) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {  // of 8 a gate that must be corrected reads two wires already
    Task task = task_of(seed);
    const auto rollout_of = [&] {
      return BitRollout(task.automaton, {task.start}, {task.target}, kTaskSteps, Border::wrap);
    };
    BitRollout rollout = rollout_of(), again = rollout;
    ASSERT_EQ(rollout.wrong(), 5);
    const Mended found = mend(rollout, {.tries = 1000, .seed = seed});
    EXPECT_EQ(found.wrong, 0) << seed;
    EXPECT_EQ(rollout.wrong(), 0) << seed;
    mend(again, {.tries = 1000, .seed = seed});
    EXPECT_EQ(again.circuit().gates, rollout.circuit().gates) << "the same seed, another circuit";
    change_gates(task.automaton, found.changes);
    EXPECT_EQ(logic::circuit_of(task.automaton).gates, rollout.circuit().gates);

    task = task_of(seed);
    BitRollout functions = rollout_of();
    const PolishExam exam{
        .errors = [&](const logic::Functions& f) { return functions.wrong(f); }, .slopes = {}, .visible = 1};
    EXPECT_GE(polish(task.automaton, exam, {.likely = 1, .tries = 3000, .seed = seed}), 3) << seed;
  }
}

/// What the update reads of a cell in a step.
std::vector<bool> read_at(const BitRollout& rollout, int64_t step, std::size_t place) {
  std::vector<bool> read;
  for (std::size_t number = 0; number < rollout.wires_before(0); ++number)
    read.push_back((rollout.value(step, rollout.wire_before(0, number))[place / 64] >> (place % 64) & 1) != 0);
  return read;
}

TEST(MendKinds, AreTheSameWhereTheSameIsRead) {
  constexpr int64_t kSteps = 3, kHeight = 6, kWidth = 11;
  for (const Border border : {Border::zero, Border::wrap}) {
    BitGrid start(kChannels, kHeight, kWidth);
    for (int64_t c = 0; c < kChannels; ++c) start.set(c, 3, 5, true);
    const BitGrid target = random_grid(2, kHeight, kWidth, 3);
    const BitRollout rollout(random_automaton(2, {.pass = 10}), {start}, {target}, kSteps, border);
    const std::vector<std::uint64_t> kinds = kinds_of(rollout);
    std::map<std::vector<bool>, std::pair<int64_t, int64_t>> shown[2];  // of what is read last: how many are off and on
    for (int64_t step = 0; step < kSteps; ++step) {
      std::map<std::vector<bool>, std::uint64_t> kind_of;
      std::set<std::uint64_t> different;
      for (std::size_t i = 0; i < 64 * rollout.words(); ++i) {
        if ((rollout.frame().inside()[i / 64] >> (i % 64) & 1) == 0) continue;
        const auto read = read_at(rollout, step, i);
        const std::uint64_t kind = kinds[64 * rollout.words() * static_cast<std::size_t>(step) + i];
        EXPECT_EQ(kind_of.emplace(read, kind).first->second, kind);
        different.insert(kind);
        for (std::size_t c = 0; c < 2 && step == kSteps - 1; ++c) {
          auto& [off, on] = shown[c][read];
          ++((rollout.targets()[c][i / 64] >> (i % 64) & 1) != 0 ? on : off);
        }
      }
      EXPECT_EQ(different.size(), kind_of.size());
      EXPECT_GT(different.size(), 1u);
    }
    int64_t untold = 0;
    for (const auto& of_channel : shown)
      for (const auto& [read, counts] : of_channel) untold += std::min(counts.first, counts.second);
    EXPECT_GT(untold, 0);
    EXPECT_EQ(untold_cells(rollout), untold);
  }
}

/// A picture of a few spots on a small grid, and gates at random: the first search is to find it.
AutomatonSettings spots(const TemporaryFolder& folder) {
  Picture picture{7, 7, std::vector<std::uint8_t>(49, 0)};
  for (const std::size_t on : {9u, 16u, 24u, 33u}) picture.grey[on] = 255;
  std::ofstream(folder / "spots.png", std::ios::binary) << encode_png(picture);
  AutomatonSettings s = automaton_recipe("pattern");
  s.seed = 1;
  s.picture = folder / "spots.png";
  s.height = s.width = 7;
  s.steps = 4;
  s.channels = kChannels;
  s.kernels = 3;
  s.kernel_gates = "8,4,2";
  s.update_gates = "60x3,30,16,6";
  s.pass = 2;
  s.noise = 1;
  s.look = "alike";
  s.lr = 1e-6;  // the search is to find it, not training
  s.solved = 1;
  s.polish = 1;
  s.updates = 40;
  return s;
}

std::vector<float> parameters_of(const AutomatonRun& run) {
  std::vector<float> all;
  for (const State& p : run.automaton().parameters())
    for (const float v : p.value().to_vector<float>()) all.push_back(v);
  return all;
}

std::vector<Wiring> wires_of(const logic::Automaton& automaton) {
  std::vector<Wiring> all;
  for (const logic::Layer& layer : automaton.update()) all.push_back(layer.wiring);
  return all;
}

TEST(MendRun, TrainingGoesOnWithOtherWiresAndSoDoesAResumedOne) {
  const TemporaryFolder folder;
  const AutomatonSettings s = spots(folder);
  AutomatonRun run(s, 1, {.lanes = 1});
  const auto of_seed = wires_of(run.automaton());
  ASSERT_EQ(run.train({}), Outcome::exact);
  ASSERT_EQ(run.look(1).wrong, 0);
  EXPECT_NE(wires_of(run.automaton()), of_seed);
  run.save(folder / "a.safetensors");
  EXPECT_EQ(logic::circuit_of(load_automaton(folder / "a.safetensors").automaton).gates,
            logic::circuit_of(run.automaton()).gates);

  AutomatonRun resumed(s, 2, {.lanes = 1});
  resumed.load(folder / "a.safetensors");
  EXPECT_EQ(wires_of(resumed.automaton()), wires_of(run.automaton()));
  EXPECT_EQ(resumed.look(1).wrong, 0);
  const auto before = parameters_of(run);
  const std::int64_t one_more = run.updates_done() + 1;
  for (AutomatonRun* each : {&run, &resumed})
    each->train({.stop = [&] { return each->updates_done() == one_more; }, .update = {}, .look = {}});
  EXPECT_EQ(parameters_of(run), parameters_of(resumed));
  EXPECT_NE(parameters_of(run), before);

  AutomatonRun fresh(s, 1, {.lanes = 1});
  fresh.save(folder / "b.safetensors");
  resumed.load(folder / "b.safetensors");  // a file without wires has those of the seed
  EXPECT_EQ(wires_of(resumed.automaton()), of_seed);
}

TEST(MendRun, RefusesWiresThatAreNotThere) {
  const TemporaryFolder folder;
  AutomatonRun run(spots(folder), 1, {.lanes = 1});
  run.train({});
  run.save(folder / "a.safetensors");
  const Safetensors good = read_safetensors(folder / "a.safetensors");
  const std::string name = "wires.update.3", bad = folder / "b.safetensors";
  ASSERT_TRUE(good.tensors.contains(name));
  const auto with = [&](std::int32_t wire) {
    Safetensors file = good;
    auto ends = good.tensors.at(name).to_vector<std::int32_t>();
    ends[5] = wire;
    file.tensors.at(name) = Array::from(ends, good.tensors.at(name).shape());
    write_safetensors(bad, file.tensors, file.metadata);
  };
  for (const std::int32_t wire : {-1, 60, 1 << 30}) {
    with(wire);
    EXPECT_ERROR(load_automaton(bad), "expected 0 to 59");
    EXPECT_ERROR(run.load(bad), "expected 0 to 59");
  }
  with(59);
  EXPECT_NO_THROW(load_automaton(bad));
  Safetensors file = good;
  file.tensors.at(name) = Array::zeros({30, 3}, DType::i32);
  write_safetensors(bad, file.tensors, file.metadata);
  EXPECT_ERROR(load_automaton(bad), "its settings need");
  file.tensors.erase(name);
  write_safetensors(bad, file.tensors, file.metadata);
  EXPECT_ERROR(load_automaton(bad), "has no wires.update.3");
  EXPECT_ERROR(run.load(bad), "has no wires.update.3");
}

}  // namespace
}  // namespace wr::apps
