// Attention as one op against the oracle and against plain formulas, with masks, in blocks, cut along queries; the
// layers of transformers, and going on one position at a time.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/target.h"
#include "ops/interpret.h"
#include "passes/passes.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "windrow/transformer.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using std::int64_t;
using test::check_gradient;
using test::numbers;
using test::smooth_array;
using List = std::vector<Tensor>;

struct Sizes {
  int64_t b, t, s, heads, d;
};

/// The result and the gradients by q, k and v of something that depends on all of the result.
List all_results(const List& in, const AttentionForm& form) {
  const Tensor y = attention(in[0], in[1], in[2], form);
  const Tensor loss = sum(y * in[3]);
  List results{y};
  for (const Tensor& g : grad(loss, {in[0], in[1], in[2]})) results.push_back(g);
  return results;
}

/// Compiled, against the interpreter in double.
void check(const Sizes& n, DType dtype, bool causal, const Shape& mask, const CompileOptions& options,
           int64_t first = 0) {
  std::vector<Spec> specs{{dtype, {n.b, n.t, n.heads, n.d}},
                          {dtype, {n.b, n.s, n.heads, n.d}},
                          {dtype, {n.b, n.s, n.heads, n.d}},
                          {dtype, {n.b, n.t, n.heads, n.d}}};
  const bool masked = mask.rank() > 0;
  if (masked) specs.push_back(f32(mask[0], mask[1], mask[2], mask[3]));
  const auto fn = [&](const List& in) {
    return all_results(in, {.causal = causal, .first = first, .mask = masked ? gt(in[4], -1) : Tensor()});
  };
  const auto graph = test::trace(specs, fn);
  const auto arguments = test::random_inputs(*graph, 3);
  const auto exact = ir::interpret(*graph, arguments, ir::Rounding::none).outputs;
  const auto got = test::run_once(fn, arguments, options);
  for (std::size_t k = 0; k < exact.size(); ++k) {
    const auto x = numbers(got[k]), y = numbers(exact[k]);
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(x[i], y[i], (dtype == DType::f64 ? 1e-12 : 2e-5) * std::max(1.0, std::abs(y[i])))
          << "result " << k << " element " << i << " b,t,s,heads,d " << n.b << "," << n.t << "," << n.s << ","
          << n.heads << "," << n.d << (causal ? " causal" : "") << (masked ? " masked " + to_string(mask) : "") << " "
          << options.simd;
  }
}

TEST(AttentionOp, MatchesTheOracleOnEveryTarget) {
  for (const cpu::Target target : cpu::available_targets()) {
    const CompileOptions options{.simd = std::string(cpu::name_of(target))};
    for (const bool causal : {false, true}) {
      check({2, 5, 5, 3, 4}, DType::f32, causal, {}, options);
      check({1, 70, 131, 2, 8}, DType::f32, causal, {}, options);  // more than one block of each
      check({1, 67, 130, 1, 3}, DType::f64, causal, {}, options);
    }
  }
}

TEST(AttentionOp, TakesMasksThatRepeat) {
  for (const Shape& mask : {Shape{1, 1, 1, 6}, Shape{3, 1, 1, 6}, Shape{1, 2, 5, 6}, Shape{3, 2, 5, 6}})
    for (const bool causal : {false, true}) check({3, 5, 6, 2, 4}, DType::f32, causal, mask, {});
  check({1, 70, 140, 2, 4}, DType::f64, true, {1, 2, 70, 140}, {});
}

TEST(AttentionOp, OddSizes) {
  check({1, 1, 1, 1, 1}, DType::f32, true, {}, {});
  check({2, 1, 9, 2, 5}, DType::f32, false, {}, {});
  check({1, 64, 128, 1, 16}, DType::f32, false, {}, {});
  check({1, 3, 7, 1, 2}, DType::f64, true, {}, {}, 4);
}

/// Whole vectors of queries and what is left of them, in the last of several blocks and in the only one; scores so far
/// apart that shares vanish, with the largest among the last keys or the first.
TEST(AttentionOp, BlocksThatAreNotFullAndScoresFarApart) {
  for (const bool causal : {false, true})
    for (const int64_t t : {15, 17, 33, 65, 100}) check({1, t, 97, 2, 8}, DType::f32, causal, {}, {});
  const int64_t n = 200, d = 4;
  for (const double rise : {1.0, -1.0}) {
    std::vector<float> keys;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < d; ++c) keys.push_back(static_cast<float>(rise * (i % 97 == 5 ? 100.0 * i : 40.0 * i)));
    const Array x = Array::from(std::vector<float>(n * d, 1.0f), {1, n, 1, d}), k = Array::from(keys, {1, n, 1, d});
    const Array v = test::random_array(f32(1, n, 1, d), 2);
    const auto got = test::run_once([](const List& in) { return all_results(in, {}); }, {x, k, v, v});
    const int64_t top = rise > 0 ? 199 : 0;  // 199 = 5 + 2 * 97: its share is 1, the others' are 0
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < d; ++c) ASSERT_EQ(numbers(got[0])[i * d + c], numbers(v)[top * d + c]) << i;
    for (const Array& r : got)
      for (const double e : numbers(r)) ASSERT_TRUE(std::isfinite(e));
  }
}

/// The keys that a query sees end anywhere in a block, and so do the queries that see a key: at each of its units, with
/// and without a rest, in one block and in several, also so many that blocks are larger.
TEST(AttentionOp, CausalBlocksEndAnywhere) {
  for (const cpu::Target target : cpu::available_targets()) {
    const CompileOptions options{.lanes = 1, .simd = std::string(cpu::name_of(target))};
    for (const int64_t t : {16, 31, 48, 64, 90, 128, 145}) check({1, t, t, 2, 8}, DType::f32, true, {}, options);
    check({1, 40, 100, 1, 24}, DType::f32, true, {}, options, 60);
    check({1, 100, 40, 1, 24}, DType::f32, true, {}, options, 7);
    check({1, 100, 70, 1, 4}, DType::f64, true, {1, 1, 100, 70}, options, 50);
  }
  check({1, 300, 330, 1, 256}, DType::f64, true, {}, {.lanes = 1}, 20);
}

/// One sample, one head: strips are of queries, and what keys and values get is a total.
TEST(AttentionOp, CutAlongQueries) {
  for (const bool causal : {false, true}) {
    check({1, 150, 150, 1, 4}, DType::f64, causal, {}, {.lanes = 3});
    check({1, 150, 150, 1, 4}, DType::f32, causal, {1, 1, 150, 150}, {.threads = 2, .lanes = 2});
  }
}

TEST(AttentionOp, AQueryThatSeesNothingGivesZero) {
  const Array x = test::random_array(f32(1, 2, 1, 4), 1);
  const Array seen = eval(gt(Tensor(Array::from<float>({{1, 1}, {0, 0}})), 0.5)).reshape({1, 1, 2, 2});
  const auto results = test::run_once(
      [&](const List& in) {
        return all_results({in[0], in[0], in[0], in[0]}, {.mask = Tensor(seen)});
      },
      {x});
  const auto y = numbers(results[0]);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(y[i], 0);
  EXPECT_NE(y[0], 0);
  for (const Array& r : results)
    for (const double e : numbers(r)) EXPECT_TRUE(std::isfinite(e));
}

TEST(AttentionOp, IsTheCompositionItStandsFor) {
  for (const bool causal : {false, true}) {
    const auto graph = test::trace({f32(2, 5, 2, 3), f32(2, 6, 2, 3), f32(2, 6, 2, 3), f32(2, 5, 2, 3)},
                                   [&](const List& in) { return all_results(in, {.causal = causal, .scale = 0.7}); });
    EXPECT_TRUE(test::same_results(*graph, *passes::spell_out(*graph), 5));
    EXPECT_EQ(ir::print(*ir::parse(ir::print(*graph))), ir::print(*graph));
  }
}

TEST(AttentionOp, GradientsOfFirstAndSecondOrder) {
  const Array q = smooth_array({2, 3, 2, 2}), k = smooth_array({2, 4, 2, 2}, 1), v = smooth_array({2, 4, 2, 2}, 2);
  for (const bool causal : {false, true})
    EXPECT_TRUE(check_gradient([=](const List& x) { return square(attention(x[0], x[1], x[2], {.causal = causal})); },
                               {q, k, v}));
}

/// 4 heads of 64 columns over 4096 positions: scores would be 256 MB.
TEST(AttentionOp, MemoryIsLinearInTheLength) {
  const auto bytes = [](int64_t length) {
    const Spec spec = f32(1, length, 4, 64);
    const Step step = compile([](const List& in) { return all_results(in, {}); }, std::vector<Spec>(4, spec),
                              CompileOptions{.lanes = 2});
    const StepFacts& f = step.facts();
    return static_cast<double>(f.scratch_bytes * static_cast<std::size_t>(f.lanes) + f.arena_bytes + f.partial_bytes);
  };
  const double at_4096 = bytes(4096);
  EXPECT_LT(at_4096, 40e6);
  EXPECT_LT(at_4096, 2.2 * bytes(2048));
}

TEST(AttentionOp, RefusesWhatDoesNotFit) {
  const auto error = [](auto fn) {
    try {
      fn();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const Tensor q(Array::zeros({2, 3, 2, 4})), k(Array::zeros({2, 5, 2, 4})), narrow(Array::zeros({2, 5, 2, 3}));
  EXPECT_NE(error([&] {
              attention(q, narrow, narrow, {});
            }).find("attention: needs q [b,t,heads,d], k and v [b,s,heads,d], got f32[2,3,2,4], f32[2,5,2,3]"),
            std::string::npos);
  EXPECT_NE(error([&] {
              attention(q, k, k, {.mask = Tensor(Array::zeros({2, 5}))});
            }).find("bool[b|1, heads|1, t|1, s]"),
            std::string::npos);
}

// ---- layers ----

TEST(Transformer, SinusoidalPositionsAreThoseOfThePaper) {
  const auto table = numbers(nn::sinusoidal_positions(5, 6));
  EXPECT_EQ(table[0], 0);
  EXPECT_EQ(table[1], 1);
  EXPECT_NEAR(table[3 * 6 + 2], std::sin(3 / std::pow(10000.0, 2.0 / 6)), 1e-12);
  EXPECT_NEAR(table[3 * 6 + 3], std::cos(3 / std::pow(10000.0, 2.0 / 6)), 1e-12);
}

/// Products of turned queries and keys depend on how far apart they are, not on where.
TEST(Transformer, RotaryPositionsAreRelative) {
  const Array q = smooth_array({1, 4, 1, 6}), k = smooth_array({1, 4, 1, 6}, 1);
  const auto scores = [&](int64_t first) {
    return eval(einsum("bthd,bshd->bts", {nn::rotary(Tensor(q), first), nn::rotary(Tensor(k), first)}));
  };
  EXPECT_TRUE(test::nearly_equal(scores(0), scores(11), 1e-12));
  const Array plain = eval(einsum("bthd,bshd->bts", {Tensor(q), Tensor(k)}));
  EXPECT_NEAR(numbers(scores(0))[0], numbers(plain)[0], 1e-12);  // the same place: not turned against one another
  EXPECT_GT(std::abs(numbers(scores(0))[1] - numbers(plain)[1]), 1e-3);
}

TEST(Transformer, EncoderLayerIsWhatItSays) {
  nn::seed(5);
  const nn::TransformerEncoderLayer layer(8, 2, {.hidden = 12, .dtype = DType::f64});
  const Array x = smooth_array({2, 3, 8});
  const auto plain = [&](const Tensor& t) {
    const Tensor y = t + layer.attention(layer.before_attention(t));
    return y + layer.down(gelu(layer.up(layer.before_dense(y))));
  };
  EXPECT_TRUE(test::nearly_equal(eval(layer(Tensor(x))), eval(plain(Tensor(x))), 1e-12));
  EXPECT_EQ(layer.parameters().size(), 8U + 4U + 4U);
  const nn::TransformerEncoderLayer behind(8, 2, {.norm_first = false, .dtype = DType::f64});
  const auto y = numbers(eval(mean(behind(Tensor(x)), -1)));  // a norm comes last
  for (const double e : y) EXPECT_NEAR(e, 0, 1e-12);
}

TEST(Transformer, DecoderLayerLooksBackAndAtItsSource) {
  nn::seed(6);
  const nn::TransformerDecoderLayer layer(8, 2, {.dtype = DType::f64});
  Array x = smooth_array({1, 4, 8}), source = smooth_array({1, 3, 8}, 1);
  const Array before = eval(layer(Tensor(x), Tensor(source)));
  x.at<double>({0, 3, 0}) += 1;  // the last position: nobody before it may see it
  const Array after = eval(layer(Tensor(x), Tensor(source)));
  EXPECT_TRUE(test::nearly_equal(before.slice(1, 0, 3), after.slice(1, 0, 3), 0));
  EXPECT_FALSE(test::nearly_equal(before.slice(1, 3, 4), after.slice(1, 3, 4), 1e-6));
  source.at<double>({0, 0, 0}) += 1;
  EXPECT_FALSE(test::nearly_equal(after.slice(1, 0, 1), eval(layer(Tensor(x), Tensor(source))).slice(1, 0, 1), 1e-6));
  EXPECT_THROW(eval(layer(Tensor(x))), Error);
}

/// Position by position, with what was seen kept, as all at once.
TEST(Transformer, GoesOnOnePositionAtATime) {
  constexpr int64_t kLength = 6, kWidth = 8;
  for (const bool rotary : {false, true}) {
    nn::seed(7);
    const nn::Positions positions(kLength, kWidth, {.learned = !rotary, .dtype = DType::f64});
    const nn::TransformerEncoderLayer layer(kWidth, 2,
                                            {.causal = nn::Causal::yes, .rotary = rotary, .dtype = DType::f64});
    const Array x = smooth_array({2, kLength, kWidth});
    const Array all = eval(layer(positions(Tensor(x)), nn::Mode::eval));
    const nn::KeyValues seen(2, kLength, 2, kWidth, DType::f64);
    Step next =
        compile([&](const Tensor& now,
                    const Tensor& position) { return layer.next(positions.next(now, position), seen, position); },
                Spec{DType::f64, {2, 1, kWidth}}, i32());
    for (int64_t t = 0; t < kLength; ++t) {
      const Array y = next(x.slice(1, t, t + 1).clone(), Array::full({}, static_cast<double>(t), DType::i32));
      EXPECT_TRUE(test::nearly_equal(y, all.slice(1, t, t + 1), 1e-12)) << t << (rotary ? " rotary" : "");
    }
  }
}

}  // namespace
}  // namespace wr
