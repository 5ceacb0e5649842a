// Gate layers and neighbourhoods: every kernel on every target against plain loops, traced ops against the oracle and
// finite differences, and the collapsed form against the sixteen functions mixed one by one.
#include "backend/cpu/gates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "errors.h"
#include "guarded_memory.h"
#include "ops/interpret.h"
#include "support/gradients.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using test::check_gradient;
using test::smooth_array;
using List = std::vector<Tensor>;
using std::int64_t;

template <class T>
std::vector<T> random_values(int64_t n, unsigned seed) {
  std::mt19937 gen(seed);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) x = static_cast<T>(unit(gen));
  return v;
}

struct Layer {
  int64_t wires, gates, rows, cells, gap;  // gap: elements between rows of cells
};

std::vector<std::int32_t> random_wiring(const Layer& l, unsigned seed) {
  std::mt19937 gen(seed);
  std::vector<std::int32_t> w;
  for (int64_t i = 0; i < 2 * l.gates; ++i)
    w.push_back(static_cast<std::int32_t>(gen() % static_cast<unsigned>(l.wires)));
  return w;
}

template <class T>
void check_layer(const Layer& l, cpu::Target target) {
  const auto wiring = random_wiring(l, 5);
  cpu::GatesParams p;
  p.gates = l.gates;
  p.rows = l.rows;
  p.cells = l.cells;
  p.x_stride = p.gate_stride = p.dx_stride = l.cells + l.gap;
  const cpu::GateWalk walk = cpu::walk_of(wiring, l.rows, l.wires);
  const auto offsets = cpu::wire_offsets(wiring, p.x_stride);
  p.wiring = offsets.data();
  p.turns = walk.turns.data();
  p.idle = walk.idle.data();
  p.idle_wires = static_cast<int64_t>(walk.idle.size());
  const auto stride = p.x_stride;
  auto x = random_values<T>(l.wires * stride, 1), c = random_values<T>(l.rows * 4, 2),
       g = random_values<T>(l.gates * stride, 3);
  const T guard = 77;
  std::vector<T> out(static_cast<std::size_t>(l.gates * stride), guard), dx(x.size(), guard), dc(c.size(), T(0.5));
  std::vector<double> want_dx(x.size(), 0), want_dc(c.size(), 0), size_dc(c.size(), 0);
  const DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;
  const double eps = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  const auto run = [&](cpu::GateKernel kind, std::vector<void*> ptr) {
    cpu::find_gates(dtype, kind, target)(p, ptr.data(), 0);
  };
  run(cpu::GateKernel::forward, {out.data(), x.data(), c.data()});
  run(cpu::GateKernel::grad_x, {dx.data(), x.data(), c.data(), g.data()});
  p.accumulate = true;
  run(cpu::GateKernel::grad_coefficients, {dc.data(), x.data(), g.data()});
  std::vector<T> both_dx(dx.size(), guard), both_dc(dc.size(), T(0.5));
  run(cpu::GateKernel::grad_both, {both_dx.data(), x.data(), c.data(), g.data(), both_dc.data()});
  ASSERT_EQ(both_dx, dx);
  ASSERT_EQ(both_dc, dc);
  p.accumulate = false;
  std::vector<T> anew(dc.size(), guard);
  run(cpu::GateKernel::grad_coefficients, {anew.data(), x.data(), g.data()});
  for (std::size_t i = 0; i < dc.size(); ++i) ASSERT_NEAR(anew[i] + 0.5, dc[i], 100 * eps);
  for (int64_t i = 0; i < l.gates; ++i)
    for (int64_t j = 0; j < stride; ++j) {
      const auto at = static_cast<std::size_t>(i * stride + j);
      if (j >= l.cells) {
        ASSERT_EQ(out[at], guard) << "written between rows";
        continue;
      }
      const auto ia = static_cast<std::size_t>(wiring[2 * i] * stride + j);
      const auto ib = static_cast<std::size_t>(wiring[2 * i + 1] * stride + j);
      const auto row = static_cast<std::size_t>(i % l.rows * 4);
      const double a = x[ia], b = x[ib], d = g[at];
      ASSERT_NEAR(out[at], c[row] + c[row + 1] * a + c[row + 2] * b + c[row + 3] * a * b, 8 * eps);
      want_dx[ia] += d * (c[row + 1] + c[row + 3] * b);
      want_dx[ib] += d * (c[row + 2] + c[row + 3] * a);
      const double terms[] = {d, d * a, d * b, d * a * b};
      for (std::size_t k = 0; k < 4; ++k) {
        want_dc[row + k] += terms[k];
        size_dc[row + k] += std::abs(terms[k]);
      }
    }
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const bool between = static_cast<int64_t>(i) % stride >= l.cells;
    ASSERT_NEAR(dx[i], between ? static_cast<double>(guard) : want_dx[i], 100 * eps);
  }
  for (std::size_t i = 0; i < dc.size(); ++i) ASSERT_NEAR(dc[i], 0.5 + want_dc[i], eps * (8 + 4 * size_dc[i]));
}

TEST(GateKernels, MatchPlainLoopsOnEveryTarget) {
  for (cpu::Target target : cpu::available_targets())
    for (const Layer& l : {Layer{3, 5, 5, 1, 0}, Layer{9, 8, 4, 7, 2}, Layer{17, 32, 8, 16, 0},
                           Layer{20, 33, 11, 33, 5}, Layer{6, 40, 40, 64, 0}, Layer{30, 20, 10, 32, 0},
                           Layer{12, 24, 24, 8, 4}, Layer{264, 256, 256, 100, 12}, Layer{2, 1, 1, 300, 1}}) {
      check_layer<float>(l, target);
      check_layer<double>(l, target);
    }
}

TEST(GateWalk, TakesEveryGateOnceAndFollowsSharedWires) {
  const Layer l{40, 64, 16, 1, 0};
  for (unsigned seed = 0; seed < 8; ++seed) {
    const auto wiring = random_wiring(l, seed);
    const cpu::GateWalk walk = cpu::walk_of(wiring, l.rows, l.wires);
    ASSERT_EQ(walk.turns.size(), static_cast<std::size_t>(l.gates));
    std::vector<int> begun(static_cast<std::size_t>(l.wires), 0), rows(static_cast<std::size_t>(l.rows), 0),
        gates(walk.turns.size(), 0);
    for (const cpu::GateTurn& t : walk.turns) {
      const auto gate = static_cast<std::size_t>(t.gate);
      ++gates[gate];
      EXPECT_EQ(t.a, wiring[2 * gate]);
      EXPECT_EQ(t.b, wiring[2 * gate + 1]);
      EXPECT_EQ(t.row, t.gate % l.rows);
      begun[t.a] += (t.first & cpu::GateTurn::kOfA) != 0;
      begun[t.b] += (t.first & cpu::GateTurn::kOfB) != 0;
      rows[t.row] += (t.first & cpu::GateTurn::kOfRow) != 0;
    }
    for (auto wire : walk.idle) ++begun[wire];
    EXPECT_EQ(begun, std::vector<int>(begun.size(), 1));
    EXPECT_EQ(rows, std::vector<int>(rows.size(), 1));
    EXPECT_EQ(gates, std::vector<int>(gates.size(), 1));
  }
  int cuts = 0;  // a ring with a tail can be walked in one go from the tail's end
  const cpu::GateWalk walk = cpu::walk_of({0, 1, 2, 3, 1, 2, 3, 4, 4, 1}, 5, 5);
  for (std::size_t i = 1; i < walk.turns.size(); ++i) {
    const auto &t = walk.turns[i - 1], &u = walk.turns[i];
    cuts += t.a != u.a && t.a != u.b && t.b != u.a && t.b != u.b;
  }
  EXPECT_EQ(cuts, 0);
}

TEST(GateKernels, GuardBytesStay) {  // reads and writes end where the rows do
  const int64_t cells = 37, wires = 5, gates = 7;
  for (cpu::Target target : cpu::available_targets()) {
    const auto wiring = cpu::wire_offsets(random_wiring({wires, gates, gates, cells, 0}, 3), cells);
    std::vector<float> whole(static_cast<std::size_t>(gates * cells) + 32, 9.0f);
    const auto x = random_values<float>(wires * cells, 4), c = random_values<float>(gates * 4, 5);
    cpu::GatesParams p{gates, gates, cells, cells, cells, cells, wiring.data()};
    void* ptr[] = {whole.data() + 16, const_cast<float*>(x.data()), const_cast<float*>(c.data())};
    cpu::find_gates(DType::f32, cpu::GateKernel::forward, target)(p, ptr, 0);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(whole[i], 9.0f);
      EXPECT_EQ(whole[whole.size() - 1 - i], 9.0f);
    }
  }
}

int64_t around(int64_t i, int64_t n) { return (i + n) % n; }

/// The neighbour's cell, or -1 outside.
int64_t neighbour(int64_t cell, int64_t k, int64_t height, int64_t width, bool wrap) {
  const auto y = cell / width % height + k / 3 - 1, x = cell % width + k % 3 - 1;
  if (!wrap && (y < 0 || y >= height || x < 0 || x >= width)) return -1;
  return cell / (height * width) * height * width + around(y, height) * width + around(x, width);
}

TEST(NeighbourKernels, AnyStripOfAnyGridOnEveryTarget) {
  struct Grid {
    int64_t height, width, grids;
  };
  for (cpu::Target target : cpu::available_targets())
    for (const Grid& grid : {Grid{1, 1, 3}, Grid{2, 2, 2}, Grid{3, 3, 5}, Grid{4, 1, 1}, Grid{1, 7, 2}, Grid{5, 19, 2},
                             Grid{16, 16, 2}, Grid{3, 40, 1}})
      for (bool wrap : {false, true})
        for (int64_t strip : {int64_t{1}, int64_t{5}, int64_t{16}, grid.height * grid.width * grid.grids}) {
          const int64_t channels = 2, cells = grid.height * grid.width * grid.grids;
          const auto x = random_values<float>(channels * cells, 1);
          const auto patches = random_values<float>(channels * 9 * cells, 2);
          for (int64_t row0 = 0; row0 < cells; row0 += strip) {
            const int64_t count = std::min(strip, cells - row0);
            std::vector<float> out(static_cast<std::size_t>(channels * 9 * count), 7),
                sums(static_cast<std::size_t>(channels * count), 7);
            cpu::NeighbourParams p{channels, count, grid.height, grid.width, cells, count, wrap};
            void* gather[] = {out.data(), const_cast<float*>(x.data())};
            cpu::find_neighbours(DType::f32, target)(p, gather, row0);
            void* scatter[] = {sums.data(), const_cast<float*>(patches.data())};
            cpu::find_neighbours_sum(DType::f32, target)(p, scatter, row0);
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t j = 0; j < count; ++j) {
                double sum = 0;
                for (int64_t k = 0; k < 9; ++k) {
                  const auto from = neighbour(row0 + j, k, grid.height, grid.width, wrap);
                  const float want = from < 0 ? 0 : x[c * cells + from];
                  ASSERT_EQ(out[(c * 9 + k) * count + j], want)
                      << grid.height << "x" << grid.width << " wrap " << wrap << " k " << k << " cell " << row0 + j;
                  const auto reader = neighbour(row0 + j, 8 - k, grid.height, grid.width, wrap);
                  if (reader >= 0) sum += patches[(c * 9 + k) * cells + reader];
                }
                ASSERT_NEAR(sums[c * count + j], sum, 1e-5);
              }
          }
        }
}

// ---- traced ops ----

const Wiring kWiring{{0, 1}, {2, 0}, {1, 1}, {3, 2}, {0, 3}, {2, 1}};

TEST(GateGradient, MatchesDifferencesToSecondOrder) {
  EXPECT_TRUE(check_gradient([](const List& x) { return square(gates(x[0], x[1], kWiring)); },
                             {smooth_array({4, 5}), smooth_array({6, 4}, 1)}));
  EXPECT_TRUE(check_gradient([](const List& x) { return square(gates(x[0], x[1], kWiring)); },
                             {smooth_array({4, 3}), smooth_array({2, 4}, 1)}))
      << "shared coefficients";
}

TEST(GateGradient, CoefficientsOfLogits) {
  EXPECT_TRUE(check_gradient([](const List& x) { return square(gate_coefficients(x[0])); }, {smooth_array({3, 16})}));
}

TEST(GateGradient, Neighbours) {
  for (const Border border : {Border::zero, Border::wrap})
    EXPECT_TRUE(
        check_gradient([&](const List& x) { return square(neighbours(x[0], 2, 3, border)); }, {smooth_array({2, 12})}));
}

/// The sixteen functions mixed one by one.
Tensor reference_gates(const Tensor& logits, const Tensor& a, const Tensor& b) {
  const Tensor ab = a * b, p = softmax(logits);
  const Tensor functions[] = {0 * a,
                              ab,
                              a - ab,
                              a,
                              b - ab,
                              b,
                              a + b - 2 * ab,
                              a + b - ab,
                              1 - (a + b - ab),
                              1 - (a + b - 2 * ab),
                              1 - b,
                              1 - b + ab,
                              1 - a,
                              1 - a + ab,
                              1 - ab,
                              1 + 0 * a};
  Tensor sum;
  for (int f = 0; f < 16; ++f) {
    const Tensor term = slice(p, 1, f, f + 1) * functions[f];
    sum = sum.empty() ? term : sum + term;
  }
  return sum;
}

Tensor picked(const Tensor& x, const Wiring& wiring, bool second) {
  std::vector<std::int32_t> wires;
  for (const Wire& w : wiring) wires.push_back(second ? w.b : w.a);
  return gather(x, Tensor(Array::from(wires, {static_cast<int64_t>(wires.size())})), 0);
}

/// An automaton small enough to be written out, in f64.
logic::Automaton small_automaton() {
  logic::AutomatonOptions o;
  o.channels = 2;
  o.kernels = 2;
  o.kernel_gates = {8, 4, 2};
  o.update_gates = {8, 4, 2};
  o.start = {.pass = 3, .noise = 1};
  o.dtype = DType::f64;
  return logic::Automaton(o);
}

Tensor reference_step(const logic::Automaton& m, const Tensor& state, int64_t side) {
  Tensor x = neighbours(state, side, side, Border::zero);
  for (std::size_t i = 0; i < m.spread().size(); ++i) {
    const Tensor z(m.perception()[i].logits);
    const auto rows = z.size(0), channels = m.options().channels;
    const Tensor shared = reshape(broadcast_to(reshape(z, {1, rows, 16}), {channels, rows, 16}), {channels * rows, 16});
    x = reference_gates(shared, picked(x, m.spread()[i], false), picked(x, m.spread()[i], true));
  }
  x = concat({state, x}, 0);
  for (const logic::Layer& l : m.update())
    x = reference_gates(Tensor(l.logits), picked(x, l.wiring, false), picked(x, l.wiring, true));
  return x;
}

/// Trains for some updates; the losses, and the gradients of the first.
struct Trajectory {
  std::vector<double> losses;
  std::vector<Array> gradients;
};

Trajectory train(bool collapsed, Recompute recompute, int updates) {
  const int64_t side = 4, cells = 2 * side * side;
  const logic::Automaton m = small_automaton();
  optim::AdamW adam(optim::Adam::Options{.lr = 0.05, .beta2 = 0.99, .weight_decay = 0.01, .clip = {.value = 100}});
  Step step = compile(
      [&](const std::vector<Tensor>& in) {
        const auto rule = m.rule();
        const Tensor last = repeat(
            3,
            [&](int, const List& c) {
              return List{collapsed ? m.step(rule, c[0], side, side, Border::zero) : reference_step(m, c[0], side)};
            },
            {in[0]}, recompute)[0];
        const Tensor loss = sum(square(slice(last, 0, 0, 1) - in[1]));
        const std::vector<State> parameters = m.parameters();
        std::vector<Tensor> wrt(parameters.begin(), parameters.end());
        std::vector<Tensor> results = grad(loss, wrt);
        adam.apply(parameters, results);
        results.insert(results.begin(), loss);
        return results;
      },
      {Spec{DType::f64, {2, cells}}, Spec{DType::f64, {1, cells}}});
  Trajectory t;
  for (int i = 0; i < updates; ++i) {
    const Array start = eval(cast(
        Tensor(Array::from(random_values<double>(2 * cells, static_cast<unsigned>(i)), {2, cells})) > 0.0, DType::f64));
    const Array target =
        eval(cast(Tensor(Array::from(random_values<double>(cells, 99), {1, cells})) > 0.0, DType::f64));
    const auto results = step(start, target);
    t.losses.push_back(results[0].item<double>());
    if (i == 0)
      for (std::size_t k = 1; k < results.size(); ++k) t.gradients.push_back(results[k].clone());
  }
  return t;
}

TEST(GateReference, GradientsAndTrajectoryOfTheSixteenWayForm) {
  const Trajectory reference = train(false, Recompute::no, 20);
  for (const Recompute recompute : {Recompute::no, Recompute::yes}) {
    const Trajectory got = train(true, recompute, 20);
    ASSERT_EQ(got.gradients.size(), reference.gradients.size());
    double largest = 0;
    for (std::size_t k = 0; k < got.gradients.size(); ++k) {
      const auto a = got.gradients[k].to_vector<double>(), b = reference.gradients[k].to_vector<double>();
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 1e-10 * std::max(1.0, std::abs(b[i]))) << "layer " << k << " element " << i;
        largest = std::max(largest, std::abs(b[i]));
      }
    }
    EXPECT_GT(largest, 1e-3) << "nothing was compared";
    for (std::size_t i = 0; i < 20; ++i) EXPECT_NEAR(got.losses[i], reference.losses[i], 1e-6) << "update " << i;
    EXPECT_LT(got.losses[19], got.losses[0]);
  }
}

TEST(GatePlan, OnePhaseAStepEachWay) {
  logic::AutomatonOptions small;
  small.channels = 2;
  small.kernels = 4;
  small.update_gates = {16, 8, 4, 2};
  const logic::Automaton m(small);
  CompileOptions two_lanes;
  two_lanes.lanes = 2;
  optim::AdamW adam;
  constexpr int kSteps = 6;
  const int64_t side = 32, cells = side * side;
  const Step step = compile(
      two_lanes,
      [&](const Tensor& state) {
        const auto rule = m.rule();
        const Tensor last = repeat(
            kSteps, [&](int, const List& c) { return List{m.step(rule, c[0], side, side, Border::wrap)}; }, {state},
            Recompute::yes)[0];
        const Tensor loss = sum(square(slice(last, 0, 0, 1)));
        adam.minimize(loss, m.parameters());
        return loss;
      },
      f32(2, cells));
  // Coefficients, steps there, steps back (the last one in the phase of the first back), the optimiser.
  EXPECT_LE(step.facts().phases, 2 * kSteps + 3) << step.describe();
}

/// A layer's gradients, as a step with two lanes; `both`: by wires and by coefficients.
Step gate_gradients(bool both) {
  CompileOptions two_lanes;
  two_lanes.lanes = 2;
  return compile(
      [&](const std::vector<Tensor>& in) {
        const Tensor loss = sum(square(gates(in[0], in[1], {{0, 1}, {2, 3}, {3, 1}})));
        return grad(loss, both ? std::vector<Tensor>{in[0], in[1]} : std::vector<Tensor>{in[1]});
      },
      {f32(4, 4096), f32(3, 4)}, two_lanes);
}

TEST(GatePlan, OneCallMakesBothGradients) {
  const std::string both = gate_gradients(true).describe(), one = gate_gradients(false).describe();
  EXPECT_NE(both.find("= gates_grad("), std::string::npos) << both;
  EXPECT_NE(both.find("[by the same call]"), std::string::npos) << both;
  EXPECT_EQ(both.find("gates_grad_"), std::string::npos) << both;
  EXPECT_EQ(one.find("= gates_grad("), std::string::npos) << one;  // nobody needs the other one
}

TEST(GatePlan, BothGradientsAreTheOraclesTotals) {
  const Array x = eval(cast(Tensor(Array::from(random_values<double>(4 * 4096, 1), {4, 4096})), DType::f32));
  const Array c = eval(cast(Tensor(Array::from(random_values<double>(3 * 4, 2), {3, 4})), DType::f32));
  Step both = gate_gradients(true);
  const auto results = both(x, c);
  const auto expected = ir::interpret(*ir::parse(both.graph()), {x, c});
  for (std::size_t k = 0; k < 2; ++k) {
    const auto got = results[k].to_vector<float>(), want = expected.outputs[k].to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-4 * std::max(1.0f, std::abs(want[i]))) << "result " << k << " element " << i;
  }
}

// ---- mistakes ----

TEST(GateErrors, SayWhatIsWrong) {
  const Tensor x(Array::zeros({4, 8})), c(Array::zeros({2, 4}));
  EXPECT_NE(error_of([&] { gates(x, c, {{0, 1}, {2, 4}}); }).find("gate 1 reads wire 4"), std::string::npos);
  EXPECT_NE(error_of([&] {
              gates(x, c, {{0, 1}, {2, 3}, {1, 2}});
            }).find("not a multiple of 2 rows"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              gates(x, Tensor(Array::zeros({2, 3})), {{0, 1}, {2, 3}});
            }).find("[gates,4]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { neighbours(x, 3, 3, Border::zero); }).find("8 cells are not a number of grids of 3 x 3"),
            std::string::npos);
  EXPECT_NE(error_of([&] { gate_coefficients(c); }).find("[..., 16]"), std::string::npos);
  EXPECT_NE(error_of([&] { logic::unique_wiring(10, 4, 1); }).find("cannot read all of 10 wires"), std::string::npos);
}

TEST(Wirings, UniqueReadsEveryWireAndNoPairTwice) {
  for (auto [in, out] : {std::pair{264, 256}, {17, 128}, {8, 4}, {5, 3}, {256, 128}, {2, 1}, {8, 8}}) {
    const Wiring w = logic::unique_wiring(in, out, 3);
    ASSERT_EQ(w.size(), static_cast<std::size_t>(out));
    std::vector<int> read(static_cast<std::size_t>(in), 0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      EXPECT_LT(w[i].a, w[i].b);
      ++read[w[i].a];
      ++read[w[i].b];
      for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(w[i] == w[k]);
    }
    for (int n : read) EXPECT_GT(n, 0) << in << " -> " << out;
  }
}

TEST(GateFunctions, TruthTablesAndCoefficientsAgree) {
  for (int f = 0; f < 16; ++f) {
    std::vector<double> z(16, 0);
    z[f] = 1000;
    const Array c = eval(gate_coefficients(Tensor(Array::from(z, {1, 16}))));
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 2; ++b)
        EXPECT_EQ(
            c.at<double>({0, 0}) + c.at<double>({0, 1}) * a + c.at<double>({0, 2}) * b + c.at<double>({0, 3}) * a * b,
            logic::apply(f, a, b))
            << logic::function_name(f);
  }
}

}  // namespace
}  // namespace wr
