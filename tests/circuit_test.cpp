// Circuits of trained gates: simplifying, running on bits, and the exports, compiled and compared with the network.
#include "windrow/circuit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <random>

#include "apps/automaton/export.h"
#include "apps/automaton/polish.h"
#include "apps/automaton/rollout.h"
#include "apps/automaton/show.h"
#include "apps/common/gif.h"
#include "temporary_files.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using logic::Circuit;
using std::int64_t;

/// A small automaton with random gates: every function occurs.
logic::Automaton random_automaton(std::uint64_t seed, int64_t channels = 3,
                                  std::vector<int64_t> hidden = {24, 24, 12, 6}) {
  logic::AutomatonOptions o;
  o.channels = channels;
  o.kernels = 3;
  o.kernel_gates = {8, 4, 2};
  o.update_gates = std::move(hidden);
  o.update_gates.push_back(channels);
  o.start = {.pass = 1, .noise = 1};
  o.seed = seed;
  return logic::Automaton(o);
}

std::vector<bool> random_bits(std::size_t n, std::mt19937& gen) {
  std::vector<bool> bits(n);
  for (std::size_t i = 0; i < n; ++i) bits[i] = (gen() >> 13 & 1) != 0;
  return bits;
}

/// What the kernels' results depend on before training, by kernel: each is the parity of some neighbours, a bit each,
/// and kConstant where it is turned over. Nothing else is possible.
constexpr unsigned kConstant = 1 << 9;
std::vector<std::vector<unsigned>> parities(logic::Look look, std::vector<int64_t> kernel_gates) {
  constexpr int64_t kKernels = 5;
  logic::AutomatonOptions o;
  o.channels = 2;
  o.kernels = kKernels;
  o.kernel_gates = std::move(kernel_gates);
  o.update_gates = {16, 8, 4, 2};
  o.look = look;
  const logic::Automaton m(o);
  Circuit c = logic::circuit_of(m);
  const std::size_t last = m.spread().size() - 1, gates = m.spread()[last].size() / 2;  // of the first channel
  std::size_t first = 0;
  for (std::size_t i = 0; i < last; ++i) first += m.spread()[i].size();
  c.outputs.clear();
  for (std::size_t i = 0; i < gates; ++i)
    c.outputs.push_back(static_cast<std::int32_t>(c.inputs) + static_cast<std::int32_t>(first + i));
  const auto results = [&](unsigned neighbours) {
    std::vector<bool> in(static_cast<std::size_t>(c.inputs), false);
    for (std::size_t i = 0; i < 9; ++i) in[i] = (neighbours >> i & 1) != 0;
    return c(in);
  };
  std::vector<unsigned> found;
  for (const bool on : results(0)) found.push_back(on ? kConstant : 0);
  for (unsigned neighbour = 0; neighbour < 9; ++neighbour)
    for (std::size_t i = 0; i < gates; ++i)
      if (results(1u << neighbour)[i] != ((found[i] & kConstant) != 0)) found[i] |= 1u << neighbour;
  for (unsigned neighbours = 0; neighbours < 512; ++neighbours)
    for (std::size_t i = 0; i < gates; ++i)
      EXPECT_EQ(results(neighbours)[i], std::popcount(found[i] & (neighbours | kConstant)) % 2 == 1);
  std::vector<std::vector<unsigned>> by_kernel(kKernels);
  for (std::size_t i = 0; i < gates; ++i) by_kernel[i % kKernels].push_back(found[i]);
  return by_kernel;
}

TEST(CircuitKernels, LookToDifferentSides) {
  const std::vector<unsigned> sides{0b000000111, 0b100100100, 0b111000000, 0b001001001, 0b000000111};
  for (const auto look : {logic::Look::odd, logic::Look::even}) {
    const unsigned constant = look == logic::Look::even ? kConstant : 0;
    const auto single = parities(look, {8, 4, 2, 1}), pairs = parities(look, {8, 4, 2});
    for (std::size_t kernel = 0; kernel < sides.size(); ++kernel) {
      EXPECT_EQ(single[kernel], std::vector{sides[kernel] | constant});
      // Two results, each of which reaches four neighbours: they share the side.
      ASSERT_EQ(pairs[kernel].size(), 2u);
      EXPECT_EQ((pairs[kernel][0] | pairs[kernel][1]) & sides[kernel], sides[kernel]);
      for (const unsigned found : pairs[kernel]) EXPECT_EQ(found & kConstant, constant);
    }
  }
  for (const auto& of_kernel : parities(logic::Look::alike, {8, 4, 2, 1})) {
    EXPECT_EQ(std::popcount(of_kernel[0]), 1);
    EXPECT_EQ(of_kernel, parities(logic::Look::alike, {8, 4, 2, 1})[0]);
  }
  // Where several gates read the same one.
  for (const auto& of_kernel : parities(logic::Look::odd, {8, 10, 6, 3})) EXPECT_EQ(of_kernel.size(), 3u);
}

TEST(CircuitSimplify, KeepsWhatItComputes) {
  std::mt19937 gen(1);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Circuit all = logic::circuit_of(random_automaton(seed)), small = logic::simplified(all);
    EXPECT_LT(small.gates.size(), all.gates.size());
    for (int i = 0; i < 200; ++i) {
      const auto in = random_bits(static_cast<std::size_t>(all.inputs), gen);
      ASSERT_EQ(all(in), small(in)) << "seed " << seed;
    }
    const Circuit again = logic::simplified(small);
    EXPECT_EQ(again.gates.size(), small.gates.size()) << "there was more to simplify";
  }
}

TEST(CircuitSimplify, PassThroughsConstantsAndDeadGatesGo) {
  // 0 1 | 2: a & b, 3: pass 2, 4: not 3, 5: not 4, 6: 5 ^ 5 = 0, 7: 5 | 6 = 5, 8: dead
  const Circuit c{2, {{1, 0, 1}, {3, 2, 0}, {12, 3, 0}, {12, 4, 1}, {6, 5, 5}, {7, 5, 6}, {14, 0, 1}}, {7, 6, 4}};
  const Circuit s = logic::simplified(c);
  EXPECT_EQ(s.outputs[1], logic::kZero);
  EXPECT_EQ(s.gates.size(), 2u) << "one and, one not for the output";
  const auto counts = logic::count_by_kind(s);
  EXPECT_EQ(counts.at("and"), 1);
  EXPECT_EQ(counts.at("not"), 1);
}

TEST(CircuitSimplify, ChannelsNobodySeesBecomeZero) {
  // Two channels: 0 copies its own cell, 1 its own; nothing visible depends on channel 1.
  const Circuit c{18, {}, {4, 13}};
  const Circuit seen = logic::without_unseen_channels(c, 1);
  EXPECT_EQ(seen.outputs, (std::vector<std::int32_t>{4, logic::kZero}));
  // Channel 0 reads channel 1: both stay.
  const Circuit both{18, {}, {13, 13}};
  EXPECT_EQ(logic::without_unseen_channels(both, 1).outputs, (std::vector<std::int32_t>{13, 13}));
}

logic::BitGrid random_grid(int64_t channels, int64_t height, int64_t width, unsigned seed) {
  std::mt19937 gen(seed);
  logic::BitGrid grid(channels, height, width);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) grid.set(c, y, x, (gen() >> 13 & 1) != 0);
  return grid;
}

Array as_array(const logic::BitGrid& g) {
  std::vector<float> v;
  for (int64_t c = 0; c < g.channels(); ++c)
    for (int64_t y = 0; y < g.height(); ++y)
      for (int64_t x = 0; x < g.width(); ++x) v.push_back(g.get(c, y, x) ? 1.0f : 0.0f);
  return Array::from(v, {g.channels(), g.height() * g.width()});
}

TEST(CircuitBits, RunAsTheHardNetworkDoes) {
  for (const Border border : {Border::zero, Border::wrap})
    for (const auto& [height, width] :
         {std::pair<int64_t, int64_t>{5, 7}, {3, 64}, {9, 65}, {4, 130}, {2, 1100}, {1, 1}}) {
      const logic::Automaton m = random_automaton(static_cast<std::uint64_t>(height * width));
      logic::BitAutomaton bits(logic::simplified(logic::circuit_of(m)));
      logic::BitGrid now = random_grid(3, height, width, 7), next = now;
      Tensor state = Tensor(as_array(now));
      for (int step = 0; step < 3; ++step) {
        state = m.step(m.rule(logic::Mode::hard), state, height, width, border);
        bits.step(now, next, border);
        std::swap(now, next);
      }
      EXPECT_EQ(eval(state).to_vector<float>(), as_array(now).to_vector<float>()) << height << "x" << width;
    }
}

TEST(CircuitBits, ManyGridsRunAsOneDoes) {
  for (const Border border : {Border::zero, Border::wrap})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{5, 7}, {3, 16}, {4, 37}, {1, 1}}) {
      const logic::Automaton m = random_automaton(static_cast<std::uint64_t>(height * width));
      logic::BitAutomaton bits(logic::simplified(logic::circuit_of(m)));
      std::vector<logic::BitGrid> alone;
      logic::BitGrids now(3, height, width), next = now;
      for (unsigned g = 0; g < 64; ++g) {
        alone.push_back(random_grid(3, height, width, g));
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t i = 0; i < height * width; ++i)
            now.row(c, 0)[i] |= std::uint64_t{alone[g].get(c, i / width, i % width)} << g;
      }
      for (int step = 0; step < 3; ++step) {
        bits.step(now, next, border);
        std::swap(now, next);
        for (logic::BitGrid& grid : alone) {
          const logic::BitGrid before = grid;
          bits.step(before, grid, border);
        }
      }
      for (unsigned g = 0; g < 64; ++g)
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t i = 0; i < height * width; ++i)
            ASSERT_EQ((now.row(c, 0)[i] >> g & 1) != 0, alone[g].get(c, i / width, i % width))
                << height << "x" << width << " grid " << g;
    }
}

TEST(CircuitPolish, FindsTheFunctionsThatWork) {
  // Every gate of a random automaton is nearly undecided between its function and another one, which is ahead.
  const logic::Automaton m = random_automaton(3);
  const logic::Functions wanted = logic::functions_of(m);
  const Circuit right = logic::circuit_of(m);
  std::size_t layer = 0;
  for (const State& logits : m.parameters()) {
    std::vector<float> z(static_cast<std::size_t>(logits.shape().count()), -20);
    for (std::size_t g = 0; g < wanted[layer].size(); ++g) {
      const auto f = static_cast<std::size_t>(wanted[layer][g]);
      z[16 * g + f] = 1;
      if (g % 4 == 0) z[16 * g + (f + 5) % 16] = 1.5f;
    }
    State(logits).set(Array::from(z, logits.shape()));
    ++layer;
  }
  std::mt19937 gen(1);
  std::vector<std::vector<bool>> inputs(200, std::vector<bool>(static_cast<std::size_t>(right.inputs)));
  for (auto& in : inputs)
    for (auto&& bit : in) bit = (gen() >> 13 & 1) != 0;
  const auto errors = [&](const logic::Functions& functions) {
    const Circuit c = logic::circuit_of(m, functions);
    std::int64_t wrong = 0;
    for (const auto& in : inputs) {
      const auto a = c(in), b = right(in);
      for (std::size_t i = 0; i < a.size(); ++i) wrong += a[i] != b[i];
    }
    return wrong;
  };
  const std::int64_t before = errors(logic::functions_of(m));
  ASSERT_GT(before, 0);
  const std::int64_t left = apps::polish(m, {.errors = errors, .slopes = {}}, {.tries = 500});
  EXPECT_LT(left, before / 4);
  EXPECT_EQ(errors(logic::functions_of(m)), left);  // the logits say so now
}

/// What a circuit makes of a grid.
logic::BitGrid after(const Circuit& circuit, logic::BitGrid now, int steps, Border border) {
  logic::BitAutomaton bits(circuit);
  logic::BitGrid next = now;
  for (int step = 0; step < steps; ++step) {
    bits.step(now, next, border);
    std::swap(now, next);
  }
  return now;
}

int64_t wrong_cells(const logic::BitGrid& grid, const logic::BitGrid& target) {
  int64_t wrong = 0;
  for (int64_t c = 0; c < target.channels(); ++c)
    for (int64_t y = 0; y < target.height(); ++y)
      for (int64_t x = 0; x < target.width(); ++x) wrong += grid.get(c, y, x) != target.get(c, y, x);
  return wrong;
}

/// Any function for any gate.
void change_a_gate(logic::Functions& functions, std::mt19937& gen) {
  auto& layer = functions[gen() % functions.size()];
  layer[gen() % layer.size()] = static_cast<int>(gen() % 16);
}

TEST(CircuitRollout, CountsAsARunFromTheBeginningDoes) {
  constexpr int kSteps = 4;
  for (const Border border : {Border::zero, Border::wrap})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{20, 20}, {1, 1}, {3, 70}, {31, 29}, {2, 2}}) {
      const logic::Automaton m = random_automaton(static_cast<std::uint64_t>(height + width));
      const logic::BitGrid start = random_grid(3, height, width, 3), target = random_grid(2, height, width, 4);
      apps::BitRollout rollout(m, {start}, {target}, kSteps, border);
      std::mt19937 gen(5);
      logic::Functions kept = logic::functions_of(m);
      int differ = 0;
      for (int i = 0; i < 150; ++i) {
        logic::Functions tried = kept;
        for (int k = i % 40 == 39 ? 30 : 1 + i % 3; k > 0; --k) change_a_gate(tried, gen);
        const int64_t wrong = wrong_cells(after(logic::circuit_of(m, tried), start, kSteps, border), target);
        ASSERT_EQ(rollout.wrong(tried), wrong) << height << "x" << width << ", change " << i;
        differ += wrong != wrong_cells(after(logic::circuit_of(m, kept), start, kSteps, border), target);
        if (gen() % 3 == 0) kept = tried;
      }
      EXPECT_GT(differ, height * width > 4 ? 20 : 0);
    }
}

TEST(CircuitSeenWires, WhatIsNotSeenMayBeAnything) {
  std::mt19937 gen(1);
  int others = 0;  // channels that are not looked at may change
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const logic::Automaton m = random_automaton(seed, 5);
    const Circuit right = logic::circuit_of(m);
    const std::vector<bool> seen = logic::seen_wires(right, 1);
    Circuit other = right;
    int changed = 0;
    for (std::size_t i = 0; i < other.gates.size(); ++i)
      if (!seen[static_cast<std::size_t>(right.inputs) + i]) {
        other.gates[i].function = static_cast<int>(gen() % 16);
        ++changed;
      }
    EXPECT_GT(changed, 20);
    const logic::BitGrid start = random_grid(5, 9, 9, 2);
    const logic::BitGrid a = after(right, start, 4, Border::wrap), b = after(other, start, 4, Border::wrap);
    others += !(a == b);
    for (int64_t i = 0; i < 81; ++i) ASSERT_EQ(a.get(0, i / 9, i % 9), b.get(0, i / 9, i % 9)) << "seed " << seed;
  }
  EXPECT_GT(others, 2);
}

/// Gives one gate another function, so that a few cells become wrong. Returns how many, 0 if there is no such gate.
int64_t break_one_gate(const logic::Automaton& m, apps::BitRollout& rollout) {
  for (State layer : m.parameters()) {
    const Array before = layer.value().clone();
    for (int64_t gate = 0; gate < before.size(0); ++gate) {
      Array z = before.clone();
      float* row = z.mutable_data<float>() + 16 * gate;
      const auto likeliest = std::max_element(row, row + 16) - row;
      row[likeliest ^ 1] = row[likeliest] + 1;
      layer.set(z);
      const int64_t wrong = rollout.wrong(logic::functions_of(m));
      if (wrong > 0 && wrong < 20) return wrong;
    }
    layer.set(before);
  }
  return 0;
}

constexpr int64_t kSide = 12;
constexpr int kSteps = 3;

/// Polishing a rule that is right but for one gate: whether it becomes right. Nothing if no such gate was found.
std::optional<bool> mends_a_rule(std::uint64_t seed, bool with_slopes) {
  const logic::Automaton m = random_automaton(seed, 3, {400, 400, 200, 100, 50, 24, 12, 6});
  const logic::BitGrid start = random_grid(3, kSide, kSide, 3);
  const logic::BitGrid all = after(logic::circuit_of(m), start, kSteps, Border::wrap);
  logic::BitGrid target(1, kSide, kSide);
  for (int64_t i = 0; i < kSide * kSide; ++i) target.set(0, i / kSide, i % kSide, all.get(0, i / kSide, i % kSide));
  apps::BitRollout rollout(m, {start}, {target}, kSteps, Border::wrap);
  if (break_one_gate(m, rollout) == 0) return {};
  apps::PolishExam exam{
      .errors = [&](const logic::Functions& f) { return rollout.wrong(f); }, .slopes = {}, .visible = 1};
  Step step = compile(
      [&](const std::vector<Tensor>& in) {
        const auto rule = m.rule(logic::Mode::hard);
        Tensor x = in[0];
        for (int i = 0; i < kSteps; ++i) x = m.step(rule, x, kSide, kSide, Border::wrap);
        return apps::PolishExam::Slopes::trace(rule, slice(x, 0, 0, 1), in[1]);
      },
      {Spec{DType::f32, {3, kSide * kSide}}, Spec{DType::f32, {1, kSide * kSide}}}, {"slopes", 1});
  if (with_slopes)
    exam.slopes = [&] {
      const apps::PolishExam::Slopes slopes(step(as_array(start), as_array(target)));
      EXPECT_EQ(slopes.wrong, rollout.wrong(logic::functions_of(m)));
      return slopes;
    };
  const int64_t left = apps::polish(m, exam, {.likely = 1, .tries = 60, .seed = seed});
  EXPECT_EQ(rollout.wrong(logic::functions_of(m)), left);
  return left == 0;
}

TEST(CircuitPolish, SlopesLeadToTheGateThatIsWrong) {
  int broken = 0, mended = 0, by_chance = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    if (const auto good = mends_a_rule(seed, true)) {
      ++broken;
      mended += *good;
      by_chance += *mends_a_rule(seed, false);
    }
  EXPECT_GT(mended, broken / 2);
  EXPECT_GT(mended, 3 * by_chance) << "of " << broken;
}

bool have(const char* program) {
  return std::system((std::string("command -v ") + program + " >/dev/null").c_str()) == 0;
}

TEST(CircuitExport, CProgramRunsAsTheHardNetworkDoes) {
  if (!have("gcc")) GTEST_SKIP() << "no gcc";
  const TemporaryFolder folder;
  const logic::Automaton m = random_automaton(5);
  const Circuit circuit = logic::simplified(logic::circuit_of(m));
  write_text(folder / "a.c", apps::to_c_program(circuit));
  ASSERT_EQ(std::system(("gcc -std=c11 -Wall -Werror -O1 -D_POSIX_C_SOURCE=199309L -o " + (folder / "a") + " " +
                         (folder / "a.c"))
                            .c_str()),
            0);
  for (const bool wrap : {false, true})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{6, 9}, {4, 64}, {3, 70}, {2, 128}}) {
      // The program's own start: SplitMix64, one draw a cell.
      std::uint64_t random = 12345;
      logic::BitGrid now(3, height, width);
      for (int64_t c = 0; c < 3; ++c)
        for (int64_t y = 0; y < height; ++y)
          for (int64_t x = 0; x < width; ++x) {
            std::uint64_t z = random += 0x9e3779b97f4a7c15;
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
            z = (z ^ z >> 27) * 0x94d049bb133111eb;
            now.set(c, y, x, ((z ^ z >> 31) >> 40 & 1) != 0);
          }
      Tensor state = Tensor(as_array(now));
      const Border border = wrap ? Border::wrap : Border::zero;
      for (int i = 0; i < 4; ++i) state = m.step(m.rule(logic::Mode::hard), state, height, width, border);
      const std::string command = (folder / "a") + " " + std::to_string(height) + " " + std::to_string(width) +
                                  " 4 12345 " + (wrap ? "wrap" : "zero") + " print > " + (folder / "out");
      ASSERT_EQ(std::system(command.c_str()), 0);
      std::string want;
      const auto values = eval(state).to_vector<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        want += values[i] != 0 ? '1' : '0';
        if ((static_cast<int64_t>(i) + 1) % width == 0) want += '\n';
      }
      EXPECT_EQ(read_text(folder / "out"), want) << height << "x" << width << (wrap ? " wrap" : "");
    }
}

TEST(CircuitExport, CProgramsPlainLoopAgrees) {
  if (!have("gcc")) GTEST_SKIP() << "no gcc";
  const TemporaryFolder folder;
  write_text(folder / "a.c", apps::to_c_program(logic::simplified(logic::circuit_of(random_automaton(6)))));
  ASSERT_EQ(std::system(("gcc -std=c11 -Wall -Werror -O1 -D_POSIX_C_SOURCE=199309L -o " + (folder / "a") + " " +
                         (folder / "a.c") + " && " + (folder / "a") + " 20 75 5 3 zero plain > /dev/null")
                            .c_str()),
            0);
}

/// Assignments and what the circuit makes of them, as rows of bits, the last input first as Verilog writes them.
std::string bits_text(const std::vector<bool>& bits) {
  std::string text;
  for (std::size_t i = bits.size(); i-- > 0;) text += bits[i] ? '1' : '0';
  return text;
}

TEST(CircuitExport, CFunctionAndVerilogAgreeWithTheNetwork) {
  const TemporaryFolder folder;
  const Circuit trained = logic::circuit_of(random_automaton(9)), small = logic::simplified(trained);
  std::mt19937 gen(3);
  std::string want, bench = "module bench; reg [26:0] in; wire [2:0] out; rule r(in, out); initial begin\n";
  std::string c = "#include <stdio.h>\n#include <stdint.h>\nvoid rule(const uint64_t*, uint64_t*);\nint main(void) {\n";
  for (int i = 0; i < 64; ++i) {
    const auto in = random_bits(27, gen);
    want += bits_text(trained(in)) + "\n";
    bench += "in = 27'b" + bits_text(in) + "; #1 $display(\"%b\", out);\n";
    c += "{ uint64_t in[27], out[3]; ";
    for (std::size_t k = 0; k < 27; ++k) c += "in[" + std::to_string(k) + "] = " + (in[k] ? "1u" : "0u") + " ; ";
    c += "rule(in, out); for (int k = 2; k >= 0; --k) putchar('0' + (int)(out[k] & 1)); putchar('\\n'); }\n";
  }
  if (have("gcc")) {
    write_text(folder / "rule.c", apps::to_c(small, "rule"));
    write_text(folder / "main.c", c + "return 0; }\n");
    ASSERT_EQ(std::system(("gcc -std=c11 -Wall -Werror -o " + (folder / "c") + " " + (folder / "rule.c") + " " +
                           (folder / "main.c") + " && " + (folder / "c") + " > " + (folder / "c.txt"))
                              .c_str()),
              0);
    EXPECT_EQ(read_text(folder / "c.txt"), want);
  }
  if (!have("iverilog")) GTEST_SKIP() << "no iverilog: the Verilog was not checked";
  write_text(folder / "rule.v", apps::to_verilog(small, "rule"));
  write_text(folder / "bench.v", bench + "end endmodule\n");
  ASSERT_EQ(std::system(("iverilog -Wall -o " + (folder / "v") + " " + (folder / "rule.v") + " " +
                         (folder / "bench.v") + " 2>/dev/null && " + (folder / "v") + " > " + (folder / "v.txt"))
                            .c_str()),
            0);
  EXPECT_EQ(read_text(folder / "v.txt"), want);
}

TEST(CircuitExport, DrawingHasEveryGateATitleAndALegend) {
  const Circuit small = logic::simplified(logic::circuit_of(random_automaton(4)));
  const std::string svg = apps::to_svg(small, apps::input_names(3), "a < b");
  std::size_t gates = 0, in_legend = 0;
  for (auto at = svg.find("<title>gate "); at != std::string::npos; at = svg.find("<title>gate ", at + 1)) ++gates;
  EXPECT_EQ(gates, small.gates.size());
  EXPECT_NE(svg.find(">a &lt; b</text>"), std::string::npos);
  EXPECT_NE(svg.find(">layer 1</text>"), std::string::npos);
  const std::string begin = "style=\"text-anchor:start\">";  // "12 AND": as many gates as there are, by kind
  for (auto at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1))
    in_legend += std::stoul(svg.substr(at + begin.size()));
  EXPECT_EQ(in_legend, small.gates.size());
}

/// Reads back the frames of a GIF of ours.
std::vector<std::vector<std::uint8_t>> frames_of(const std::string& gif, std::size_t pixels) {
  std::vector<std::vector<std::uint8_t>> frames;
  std::size_t at = 13 + 24 + 19;
  while (static_cast<std::uint8_t>(gif[at]) == 0x21) {
    at += 8 + 10;
    const int least = gif[at++];
    std::string data;
    for (; gif[at] != 0; at += static_cast<std::uint8_t>(gif[at]) + 1u)
      data += gif.substr(at + 1, static_cast<std::uint8_t>(gif[at]));
    ++at;
    const int clear = 1 << least;
    std::vector<std::vector<std::uint8_t>> table;
    auto reset = [&] {
      table.assign(static_cast<std::size_t>(clear) + 2, {});
      for (int i = 0; i < clear; ++i) table[i] = {static_cast<std::uint8_t>(i)};
    };
    reset();
    int bits = least + 1;
    std::vector<std::uint8_t> out, previous;
    std::size_t bit = 0;
    for (;;) {
      int code = 0;
      for (int i = 0; i < bits; ++i, ++bit) code |= (data[bit / 8] >> (bit % 8) & 1) << i;
      if (code == clear) {
        reset();
        bits = least + 1;
        previous.clear();
        continue;
      }
      if (code == clear + 1) break;
      std::vector<std::uint8_t> entry;
      if (static_cast<std::size_t>(code) < table.size())
        entry = table[code];
      else
        entry = previous, entry.push_back(previous[0]);
      out.insert(out.end(), entry.begin(), entry.end());
      if (!previous.empty() && table.size() < 4096) {
        previous.push_back(entry[0]);
        table.push_back(previous);
        if (table.size() == std::size_t{1} << bits && bits < 12) ++bits;
      }
      previous = entry;
    }
    EXPECT_EQ(out.size(), pixels);
    frames.push_back(out);
  }
  EXPECT_EQ(gif[at], '\x3B');
  return frames;
}

TEST(Gif, FramesReadBack) {
  std::mt19937 gen(2);
  apps::Gif gif(150, 90, 5);
  std::vector<std::vector<std::uint8_t>> frames;
  for (const unsigned colours : {1u, 2u, 8u}) {
    std::vector<std::uint8_t> pixels(150 * 90);
    for (auto& p : pixels) p = static_cast<std::uint8_t>(gen() % colours);
    gif.add(pixels);
    frames.push_back(pixels);
  }
  EXPECT_EQ(frames_of(gif.finish(), 150 * 90), frames);
}

}  // namespace
}  // namespace wr
