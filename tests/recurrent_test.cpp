// Recurrent nets: the ops lstm and gru against the same net written moment by moment, against differences and the
// oracle, their plans; layers, directions, states and lengths of nn::Lstm and nn::Gru.
#include <gtest/gtest.h>

#include "bench/case.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using List = std::vector<Tensor>;
using nn::Directions;
using nn::RecurrentOptions;
using nn::Returns;
using test::smooth_array;

Tensor at(const Tensor& x, std::int64_t t) { return reshape(slice(x, 1, t, t + 1), {x.size(0), x.size(2)}); }
Tensor gate(const Tensor& all, int which, std::int64_t hidden) {
  return slice(all, -1, which * hidden, (which + 1) * hidden);
}

/// Both nets moment by moment, of ops that know nothing of time.
Tensor plain_lstm(const Tensor& gates, const Tensor& w_h, Tensor h, Tensor c) {
  List outputs;
  for (std::int64_t t = 0; t < gates.size(1); ++t) {
    const Tensor all = at(gates, t) + matmul(h, w_h);
    const auto n = w_h.size(0);
    c = sigmoid(gate(all, 1, n)) * c + sigmoid(gate(all, 0, n)) * tanh(gate(all, 2, n));
    h = sigmoid(gate(all, 3, n)) * tanh(c);
    outputs.push_back(h);
  }
  return stack(outputs, 1);
}

Tensor plain_gru(const Tensor& gates, const Tensor& w_h, const Tensor& b_h, Tensor h) {
  List outputs;
  for (std::int64_t t = 0; t < gates.size(1); ++t) {
    const auto n = w_h.size(0);
    const Tensor x = at(gates, t), from = matmul(h, w_h) + b_h;
    const Tensor r = sigmoid(gate(x, 0, n) + gate(from, 0, n)), z = sigmoid(gate(x, 1, n) + gate(from, 1, n));
    const Tensor fresh = tanh(gate(x, 2, n) + r * gate(from, 2, n));
    h = (1 - z) * fresh + z * h;
    outputs.push_back(h);
  }
  return stack(outputs, 1);
}

constexpr std::int64_t kBatch = 3, kTime = 4, kHidden = 3;

std::vector<Array> lstm_arguments() {
  return {smooth_array({kBatch, kTime, 4 * kHidden}, 0), smooth_array({kHidden, 4 * kHidden}, 1, -1, 1),
          smooth_array({kBatch, kHidden}, 2), smooth_array({kBatch, kHidden}, 3)};
}
std::vector<Array> gru_arguments() {
  return {smooth_array({kBatch, kTime, 3 * kHidden}, 0), smooth_array({kHidden, 3 * kHidden}, 1, -1, 1),
          smooth_array({3 * kHidden}, 2), smooth_array({kBatch, kHidden}, 3)};
}

Array lengths() { return Array::from(std::vector<std::int32_t>{4, 1, 3}, {kBatch}); }

TEST(Recurrence, IsTheNetMomentByMoment) {
  const auto compared = [](const test::Function& fn, const std::vector<Array>& arguments) {
    const auto results = test::run_once(fn, arguments);
    EXPECT_TRUE(test::nearly_equal(results[0], results[1], 1e-12));
  };
  compared(
      [](const List& x) {
        return List{lstm(x[0], x[1], x[2], x[3]).h, plain_lstm(x[0], x[1], x[2], x[3])};
      },
      lstm_arguments());
  compared(
      [](const List& x) {
        return List{gru(x[0], x[1], x[2], x[3]).h, plain_gru(x[0], x[1], x[2], x[3])};
      },
      gru_arguments());
}

// ---- gradients ----

RecurrenceOptions option(const List& x, int which) {
  RecurrenceOptions options{.reverse = (which & 1) != 0};
  if (which & 2) options.lengths = Tensor(lengths());
  static_cast<void>(x);
  return options;
}

TEST(Recurrence, LstmGradientsMatchDifferences) {
  for (int which = 0; which < 4; ++which)
    EXPECT_TRUE(test::check_gradients(
        [&](const List& x) {
          const Recurrence made = lstm(x[0], x[1], x[2], x[3], option(x, which));
          return List{made.h, made.last_c};
        },
        lstm_arguments(), 1))
        << which;
}

TEST(Recurrence, GradientsFlowThroughTheLastCellAlone) {
  EXPECT_TRUE(
      test::check_gradient([](const List& x) { return lstm(x[0], x[1], x[2], x[3]).last_c; }, lstm_arguments(), 1));
}

TEST(Recurrence, GruGradientsMatchDifferences) {
  for (int which = 0; which < 4; ++which)
    EXPECT_TRUE(test::check_gradient([&](const List& x) { return gru(x[0], x[1], x[2], x[3], option(x, which)).h; },
                                     gru_arguments(), 1))
        << which;
}

TEST(Recurrence, RefusesASecondDerivative) {
  try {
    compile(
        [](const Tensor& x, const Tensor& w, const Tensor& h) {
          const Tensor slope = grad(sum(lstm(x, w, h, h).h), {x})[0];
          return grad(sum(square(slope)), {x})[0];
        },
        f32(2, 3, 8), f32(2, 8), f32(2, 2));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("once, not twice"), std::string::npos) << error.what();
  }
}

// ---- kernels and plans ----

template <class Net>
Step trained(const Net& net, optim::Optimiser& optimiser, std::int64_t batch, std::int64_t time, std::int64_t in,
             CompileOptions options = {}) {
  return compile(
      options,
      [&](const Tensor& x) {
        const Tensor loss = mean(square(net(x)));
        optimiser.minimize(loss, net.parameters());
        return loss;
      },
      f32(batch, time, in));
}

/// Of the pairs of gates that are computed together, one or both are at an end.
TEST(Recurrence, GatesMayBeQuiteOpenOrClosed) {
  const std::vector<float> ends{-1e30F, -1000, -90, -41, -20, -9, 0, 9, 20, 41, 90, 1000, 1e30F};
  const auto count = static_cast<std::int64_t>(ends.size());
  std::vector<float> given;
  for (const float one : ends)
    for (const float other : ends)
      given.insert(given.end(), {one, other, other, one});  // a row a pair, one hidden unit
  const Array x = Array::from(given, {count * count, 1, 4});
  const auto results = test::run_once(
      [](const List& in) {
        const Tensor half = full({in[0].size(0), 1}, 0.5), w = full({1, 4}, 0), of_gru = slice(in[0], -1, 0, 3);
        const Tensor w_gru = slice(w, 1, 0, 3), b = full({3}, 0);
        const List made{lstm(in[0], w, half, half).h, plain_lstm(in[0], w, half, half), gru(of_gru, w_gru, b, half).h,
                        plain_gru(of_gru, w_gru, b, half)};
        List all = made;
        for (const Tensor& h : made) all.push_back(grad(sum(h), {in[0]})[0]);
        return all;
      },
      {x});
  for (std::size_t k = 0; k < results.size(); k += 2)
    EXPECT_TRUE(test::nearly_equal(results[k], results[k + 1], 1e-6)) << k;
}

/// Rows that do and do not fill a block of the kernels, hidden units that do and do not fill a vector.
TEST(Recurrence, StepsAgreeWithTheOracle) {
  for (const std::int64_t batch : {1, 7, 61})
    for (const std::int64_t hidden : {5, 16})
      for (const int lanes : {1, 2}) {
        const Array x = bench::random_normal({batch, 6, 3}, 1);
        optim::Sgd sgd({.lr = 0.5});
        const nn::Lstm lstm(3, hidden, {.directions = Directions::both});
        Step of_lstm = trained(lstm, sgd, batch, 6, 3, {.lanes = lanes});
        EXPECT_EQ(bench::check_by_oracle(of_lstm, {x}, 1e-4), "") << batch << " rows, " << hidden << " units";
        optim::Sgd other({.lr = 0.5});
        const nn::Gru gru(3, hidden, {.layers = 2});
        Step of_gru = trained(gru, other, batch, 6, 3, {.lanes = lanes});
        EXPECT_EQ(bench::check_by_oracle(of_gru, {x}, 1e-4), "") << batch << " rows, " << hidden << " units";
      }
}

TEST(Recurrence, PlansDoNotGrowWithTime) {
  const nn::Lstm net(4, 8, {.returns = Returns::last});
  optim::Adam few, many;
  const Step small = trained(net, few, 8, 10, 4, {.lanes = 2}), large = trained(net, many, 8, 1000, 4, {.lanes = 2});
  EXPECT_LT(large.facts().instructions, 1.5 * small.facts().instructions);
}

TEST(Recurrence, RecomputingGivesTheSameNumbers) {
  std::vector<Array> results;
  for (const Recompute recompute : {Recompute::no, Recompute::yes}) {
    nn::seed(3);
    const nn::Lstm net(4, 8, {.recompute = recompute, .layers = 2});
    optim::Sgd sgd({.lr = 0.5});
    Step step = trained(net, sgd, 5, 6, 4, {.lanes = 1});
    step(bench::random_normal({5, 6, 4}, 2));
    results.push_back(net.w_h.value().clone());
  }
  EXPECT_TRUE(test::nearly_equal(results[0], results[1], 1e-6));
}

// ---- layers, directions, states, lengths ----

template <class Net>
std::vector<Array> run(const Net& net, const Array& x, const Array* h = nullptr, const Array* c = nullptr,
                       const Array* lengths = nullptr) {
  const auto given = [](const Array* a) { return a ? Tensor(*a) : Tensor(); };
  const nn::RecurrentRun made = net.run(Tensor(x), {given(h), given(c), given(lengths)});
  std::vector<Array> results{eval(made.outputs), eval(made.h)};
  if (!made.c.empty()) results.push_back(eval(made.c));
  return results;
}

TEST(RecurrentLayers, AreOneAfterTheOther) {
  const Array x = bench::random_normal({3, 5, 4}, 1);
  const nn::Lstm two(4, 6, {.layers = 2});
  const auto& [a, b] = std::pair(two.weights[0], two.weights[1]);
  const Tensor zero = full({3, 6}, 0), first = lstm(matmul(Tensor(x), a.w_x) + a.b, a.w_h, zero, zero).h;
  const Recurrence second = lstm(matmul(first, b.w_x) + b.b, b.w_h, zero, zero);
  const auto got = run(two, x);
  EXPECT_TRUE(test::nearly_equal(got[0], eval(second.h), 1e-6));
  EXPECT_TRUE(test::nearly_equal(got[1].select(0, 1).contiguous(), eval(second.last_h), 1e-6));
  EXPECT_TRUE(test::nearly_equal(got[2].select(0, 1).contiguous(), eval(second.last_c), 1e-6));
}

TEST(RecurrentLayers, TheOtherDirectionIsTheReversedSequence) {
  const Array x = bench::random_normal({3, 5, 4}, 1);
  const nn::Gru both(4, 6, {.directions = Directions::both});
  const auto& w = both.weights[1];
  const Tensor turned = gather(Tensor(x), Tensor(Array::from(std::vector<std::int32_t>{4, 3, 2, 1, 0}, {5})), 1);
  const Tensor back = gru(matmul(turned, w.w_x) + w.b_x, w.w_h, w.b_h, full({3, 6}, 0)).h;
  const Array expected = eval(gather(back, Tensor(Array::from(std::vector<std::int32_t>{4, 3, 2, 1, 0}, {5})), 1));
  EXPECT_TRUE(test::nearly_equal(eval(slice(Tensor(run(both, x)[0]), 2, 6, 12)), expected, 1e-6));
  nn::seed(5);
  const nn::Gru last(4, 6, {.returns = Returns::last, .directions = Directions::both});
  const auto all = run(last, x);
  const Array end = eval(last(Tensor(x)));
  EXPECT_EQ(end.shape(), (Shape{3, 12}));
  EXPECT_TRUE(test::nearly_equal(eval(slice(Tensor(end), 1, 6, 12)), all[1].select(0, 1).contiguous(), 1e-6));
}

TEST(RecurrentLayers, GoOnFromTheStateTheyEndedWith) {
  const Array x = bench::random_normal({3, 6, 4}, 1);
  const nn::Lstm net(4, 5, {.layers = 2});
  const auto whole = run(net, x);
  const auto begun = run(net, x.slice(1, 0, 2).contiguous());
  const auto rest = run(net, x.slice(1, 2, 6).contiguous(), &begun[1], &begun[2]);
  EXPECT_TRUE(test::nearly_equal(rest[0], whole[0].slice(1, 2, 6).contiguous(), 1e-6));
  EXPECT_TRUE(test::nearly_equal(rest[2], whole[2], 1e-6));
}

TEST(RecurrentLayers, ARowEndsWhereItsLengthSays) {
  const Array x = bench::random_normal({3, 4, 4}, 1), lengths = wr::lengths();
  const nn::Lstm net(4, 5, {.layers = 2, .directions = Directions::both});
  const auto all = run(net, x, nullptr, nullptr, &lengths);
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto length = lengths.to_vector<std::int32_t>()[row];
    const auto alone = run(net, x.slice(0, row, row + 1).slice(1, 0, length).contiguous());
    const Array got = all[0].slice(0, row, row + 1).contiguous();
    EXPECT_TRUE(test::nearly_equal(got.slice(1, 0, length).contiguous(), alone[0], 1e-6)) << row;
    for (float beyond : got.slice(1, length, 4).contiguous().to_vector<float>()) EXPECT_EQ(beyond, 0.0f);
    for (std::size_t state : {1u, 2u})
      EXPECT_TRUE(test::nearly_equal(all[state].slice(1, row, row + 1).contiguous(), alone[state], 1e-6)) << row;
  }
}

TEST(RecurrentLayers, SayWhatIsWrong) {
  const nn::Gru net(4, 5);
  const auto message = [&](const nn::RecurrentStart& start) {
    try {
      net.run(full({3, 6, 4}, 0), start);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(message({.h = full({2, 3, 5}, 0)}).find("must be f32[1,3,5], is f32[2,3,5]"), std::string::npos);
  EXPECT_NE(message({.c = full({1, 3, 5}, 0)}).find("no state c"), std::string::npos);
  EXPECT_NE(message({.lengths = full({4}, 0, DType::i32)}).find("must be i32[3], are i32[4]"), std::string::npos);
  EXPECT_THROW(nn::Lstm(4, 5, {.layers = 0}), Error);
}

}  // namespace
}  // namespace wr
