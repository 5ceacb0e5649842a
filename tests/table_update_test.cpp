// Updates of tables that are looked up: the kernels on every target against the oracle, the order of indices, the pass
// that finds them, SparseAdam, and plans that hold no table a lane.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/cpu/index.h"
#include "backend/cpu/update.h"
#include "passes/passes.h"
#include "support/graphs.h"
#include "support/machines.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using cpu::Target;
using std::int32_t;
using std::int64_t;

// ---- index_order ----

std::vector<int32_t> ordered(const std::vector<int32_t>& indices) {
  std::vector<int32_t> out(2 * indices.size()), scratch(out.size());
  void* ptr[] = {out.data(), const_cast<int32_t*>(indices.data()), scratch.data()};
  cpu::index_order({static_cast<int64_t>(indices.size())}, ptr, 0);
  return out;
}

TEST(IndexOrder, IsAStableSort) {
  std::mt19937 gen(3);
  for (const int below : {1, 3, 300, 70000, 20000000})
    for (const int count : {0, 1, 2, 7, 513}) {
      std::vector<int32_t> indices;
      for (int i = 0; i < count; ++i) indices.push_back(static_cast<int32_t>(gen() % static_cast<unsigned>(below)) - 2);
      std::vector<int32_t> at(indices.size());
      std::iota(at.begin(), at.end(), 0);
      std::stable_sort(at.begin(), at.end(), [&](auto a, auto b) { return indices[a] < indices[b]; });
      std::vector<int32_t> expected;
      for (auto a : at) expected.push_back(indices[a]);
      expected.insert(expected.end(), at.begin(), at.end());
      EXPECT_EQ(ordered(indices), expected) << count << " below " << below;
    }
}

// ---- kernels ----

/// A table of ten entries, updated in two strips. Entries 0, 3 and 7 have no memories; 3 is looked up twice, by both
/// indices of a row, and once more; two indices are out of range.
template <class T>
struct TableCase {
  static constexpr int64_t kEntries = 10, kTerms = 2;
  const std::vector<int32_t> indices{3, 3, 8, 1, 3, 10, -1, 9};
  ops::Update update;
  int64_t cols;
  std::vector<std::vector<T>> kept;  // values but the gradient
  std::vector<T> rows, numbers;

  TableCase(ops::Update u, int64_t width, unsigned seed) : update(u), cols(width) {
    std::mt19937 gen(seed);
    std::uniform_real_distribution<double> unit(0.05, 1);
    const ops::UpdateRow& row = ops::row_of(update);
    for (int k = 0; k + 1 < row.values; ++k) {
      kept.emplace_back();
      for (int64_t i = 0; i < kEntries * cols; ++i) {
        const int64_t entry = i / cols;
        const bool forgotten = k > 0 && (entry == 0 || entry == 3 || entry == 7);
        kept.back().push_back(forgotten ? T(0) : static_cast<T>(unit(gen)));
      }
    }
    for (int64_t i = 0; i < 4 * cols; ++i) rows.push_back(static_cast<T>(unit(gen) - 0.5));
    for (int k = 0; k < row.numbers; ++k) numbers.push_back(static_cast<T>(unit(gen)));
  }

  std::vector<std::vector<double>> expected(bool touched_only) const {
    const ops::UpdateRow& row = ops::row_of(update);
    std::vector<std::vector<double>> results(static_cast<std::size_t>(row.result_count));
    for (int64_t i = 0; i < kEntries * cols; ++i) {
      double x[ops::kMaxUpdateOperands], y[ops::kMaxUpdateResults], g = 0;
      bool reached = false;
      for (std::size_t j = 0; j < indices.size(); ++j)
        if (indices[j] == i / cols) {
          reached = true;
          g += static_cast<double>(rows[static_cast<int64_t>(j) / kTerms * cols + i % cols]);
        }
      for (std::size_t k = 0; k < kept.size(); ++k) x[k] = static_cast<double>(kept[k][i]);
      x[kept.size()] = g;
      for (std::size_t k = 0; k < numbers.size(); ++k) x[kept.size() + 1 + k] = static_cast<double>(numbers[k]);
      ops::evaluate(update, x, y);
      for (std::size_t r = 0; r < results.size(); ++r) results[r].push_back(reached || !touched_only ? y[r] : x[r]);
    }
    return results;
  }

  std::vector<std::vector<T>> got(Target target, bool touched_only, bool in_place) {
    const auto results = static_cast<std::size_t>(ops::row_of(update).result_count);
    std::vector<int32_t> order = ordered(indices);
    std::vector<T> scratch(static_cast<std::size_t>(cols));
    std::vector<std::vector<T>> values = kept, apart(results, std::vector<T>(kept[0].size(), T(77)));
    const auto kernel = cpu::find_update_rows(update, sizeof(T) == 4 ? DType::f32 : DType::f64, target);
    for (const auto& [row0, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 6}}) {
      std::vector<void*> ptr;
      for (std::size_t r = 0; r < results; ++r) ptr.push_back((in_place ? values[r] : apart[r]).data() + row0 * cols);
      for (auto& value : values) ptr.push_back(value.data() + row0 * cols);
      ptr.push_back(order.data());
      ptr.push_back(rows.data());
      for (T& number : numbers) ptr.push_back(&number);
      ptr.push_back(scratch.data());
      kernel({count, cols, kTerms, static_cast<int64_t>(indices.size()), touched_only}, ptr.data(), row0);
    }
    return in_place ? values : apart;
  }
};

template <class T>
void check(ops::Update update, Target target, int64_t cols) {
  TableCase<T> c(update, cols, 7);
  const double unit = sizeof(T) == 4 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -53);
  for (const bool touched_only : {false, true}) {
    const auto expected = c.expected(touched_only);
    for (const bool in_place : {false, true}) {
      const auto got = c.got(target, touched_only, in_place);
      for (std::size_t r = 0; r < expected.size(); ++r)
        for (std::size_t i = 0; i < expected[r].size(); ++i)
          ASSERT_NEAR(static_cast<double>(got[r][i]), expected[r][i],
                      32 * unit * std::max(1.0, std::abs(expected[r][i])))
              << ops::row_of(update).name << " result " << r << " element " << i << " on " << cpu::name_of(target);
    }
  }
}

TEST(TableUpdateKernels, MatchTheOracleOnEveryTarget) {
  for (const Target target : cpu::available_targets())
    for (std::size_t u = 0; u < ops::update_rows().size(); ++u)
      for (const int64_t cols : {1, 7, 16, 40}) {
        check<float>(static_cast<ops::Update>(u), target, cols);
        check<double>(static_cast<ops::Update>(u), target, cols);
      }
}

TEST(TableUpdateKernels, SkipNothingThatWouldChange) {
  // With an epsilon of 0, Adam makes 0 / 0 of an entry without memories: so it is.
  for (const Target target : cpu::available_targets()) {
    TableCase<float> c(ops::Update::adam_update, 16, 7);
    c.numbers[1] = 0;
    const auto got = c.got(target, false, true);
    EXPECT_TRUE(std::isnan(got[0][0])) << cpu::name_of(target);
    EXPECT_FALSE(std::isnan(got[0][16])) << cpu::name_of(target);
  }
}

// ---- the pass and plans ----

constexpr int64_t kEntries = 500, kWidth = 12;

Array table_of(unsigned seed) { return test::random_array(f32(kEntries, kWidth), seed); }

/// Eight indices a run, some of them equal.
Array looked_up(int run) {
  std::vector<int32_t> list;
  for (int i = 0; i < 8; ++i) list.push_back((i * i * 37 + run * 61) % kEntries);
  return Array::from(list, {8});
}

Step trained(optim::Optimiser& optimiser, const State& table, CompileOptions options = {}) {
  return compile(
      options,
      [&](const Tensor& indices) {
        const Tensor loss = sum(square(gather(table, indices)) * 0.5);
        optimiser.minimize(loss, {table});
        return loss;
      },
      i32(8));
}

TEST(TableUpdate, IsFoundForEachOptimiser) {
  optim::Sgd sgd, momentum({.momentum = 0.9}), nesterov({.momentum = 0.9, .nesterov = true});
  optim::Adam adam;
  optim::AdamW adamw({.weight_decay = 0.1});
  optim::RmsProp rmsprop;
  const std::pair<optim::Optimiser*, std::string> cases[] = {
      {&sgd, "sgd_update_rows"},   {&momentum, "momentum_update_rows"}, {&nesterov, "nesterov_update_rows"},
      {&adam, "adam_update_rows"}, {&adamw, "adamw_update_rows"},       {&rmsprop, "rmsprop_update_rows"}};
  for (const auto& [optimiser, name] : cases) {
    const State table(table_of(1), "table");
    const auto graph = test::trace({i32(8)}, [&](const std::vector<Tensor>& in) {
      optimiser->minimize(sum(square(gather(table, in[0]))), {table});
      return std::vector<Tensor>{};
    });
    const auto before = passes::contract(*passes::dce(*passes::simplify(*graph)));
    const auto after = passes::dce(*passes::fuse(*before));
    EXPECT_NO_THROW(ir::verify(*after));
    EXPECT_NE(ir::print(*after).find("= " + name + "("), std::string::npos) << ir::print(*after);
    EXPECT_TRUE(test::same_results(*before, *after, 3)) << ir::print(*after);
    EXPECT_EQ(ir::print(*ir::parse(ir::print(*after))), ir::print(*after));
  }
}

TEST(TableUpdate, IsNotForTablesSmallerThanWhatIsLookedUp) {
  optim::Adam adam;
  const State table(Array::ones({4, 12}), "table");
  const Step step = compile([&](const Tensor& i) { adam.minimize(sum(square(gather(table, i))), {table}); }, i32(8));
  EXPECT_EQ(step.describe().find("_rows("), std::string::npos) << step.describe();
}

TEST(TableUpdate, HoldsNoTableALane) {
  optim::Adam adam;
  const State table(table_of(1), "table");
  const Step step = trained(adam, table, {.lanes = 2});
  EXPECT_NE(step.describe().find("adam_update_rows(table, adam.mean.table, adam.square.table"), std::string::npos)
      << step.describe();
  EXPECT_NE(step.describe().find("-> state table"), std::string::npos) << step.describe();
  EXPECT_LT(step.facts().peak_bytes(), sizeof(float) * kEntries * kWidth);
}

TEST(TableUpdate, WalksOverATableInOneStripALane) {
  optim::SparseAdam adam;
  const State a(Array::ones({100000, 8}), "a"), b(Array::ones({100000, 8}), "b");
  for (const std::string& machine : test::machine_names()) {
    const Step step = compile(
        CompileOptions{.lanes = 2, .machine = machine},
        [&](const Tensor& i) {
          adam.minimize(sum(gather(a, i) * gather(b, i)), {a, b});
        },
        i32(8));
    EXPECT_NE(step.describe().find("100000 rows in 2 strips"), std::string::npos) << machine << '\n' << step.describe();
  }
}

TEST(TableUpdate, IsWhatTheWholeGradientWouldMake) {
  // The second step reads the gradient a second time, so that it is made whole.
  for (const int lanes : {1, 2}) {
    const State table(table_of(1), "table"), same(table_of(1), "same");
    optim::Adam adam, dense;
    Step step = trained(adam, table, {.lanes = lanes});
    Step whole = compile(
        CompileOptions{.lanes = lanes},
        [&](const Tensor& indices) {
          const Tensor g = grad(sum(square(gather(same, indices)) * 0.5), {Tensor(same)})[0];
          dense.apply({same}, {g});
          return sum(g);
        },
        i32(8));
    EXPECT_EQ(whole.describe().find("_rows("), std::string::npos) << whole.describe();
    for (int run = 0; run < 4; ++run) {
      step(looked_up(run));
      whole(looked_up(run));
    }
    EXPECT_TRUE(test::nearly_equal(table.value(), same.value(), 1e-6));
  }
}

TEST(TableUpdate, HasTheSameBitsOnAnyNumberOfThreads) {
  std::vector<Array> results;
  for (const int threads : {1, 2}) {
    const State table(table_of(2), "table");
    optim::SparseAdam adam;
    Step step = trained(adam, table, {.threads = threads, .lanes = 2});
    for (int run = 0; run < 3; ++run) step(looked_up(run));
    results.push_back(table.value().clone());
  }
  EXPECT_TRUE(identical(results[0], results[1]));
}

// ---- SparseAdam ----

/// PyTorch's formulas, entry by entry.
struct ReferenceSparseAdam {
  std::vector<double> p, m, v;
  int count = 0;

  void step(const std::vector<double>& gradient, const std::vector<bool>& reached, double lr) {
    ++count;
    const double rate = lr * std::sqrt(1 - std::pow(0.999, count)) / (1 - std::pow(0.9, count));
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (!reached[i / kWidth]) continue;
      m[i] += 0.1 * (gradient[i] - m[i]);
      v[i] += 0.001 * (gradient[i] * gradient[i] - v[i]);
      p[i] -= rate * m[i] / (std::sqrt(v[i]) + 1e-8);
    }
  }
};

TEST(SparseAdam, MovesOnlyWhatWasLookedUp) {
  const Array start = table_of(5);
  const State table(start, "table");
  optim::SparseAdam adam({.lr = 0.1});
  Step step = trained(adam, table);
  const auto first = start.to_vector<float>();
  ReferenceSparseAdam reference{{first.begin(), first.end()}, {}, {}};
  reference.m.resize(first.size());
  reference.v.resize(first.size());
  for (int run = 0; run < 5; ++run) {
    const auto indices = looked_up(run).to_vector<int32_t>();
    std::vector<double> g(first.size());
    std::vector<bool> reached(kEntries, false);
    for (auto index : indices) {
      reached[index] = true;
      for (int64_t c = 0; c < kWidth; ++c) {
        const auto at = static_cast<std::size_t>(index * kWidth + c);
        g[at] += reference.p[at];
      }
    }
    reference.step(g, reached, 0.1);
    step(looked_up(run));
  }
  const auto got = table.value().to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(static_cast<double>(got[i]), reference.p[i], 2e-4) << i;
}

TEST(SparseAdam, AddsUpLookupsOfSeveralKinds) {
  // By gather and, of three terms, by embedding_sum: as one lookup of all that they look up.
  const Array two = Array::from(std::vector<int32_t>{5, 9}, {2});
  const Array three = Array::from(std::vector<int32_t>{9, 0, 9, 4, 5, 499}, {2, 3});
  const Array all = Array::from(std::vector<int32_t>{5, 9, 9, 0, 9, 4, 5, 499}, {8});
  const State table(table_of(6), "table"), same(table_of(6), "same");
  optim::SparseAdam adam, other;
  Step several =
      compile([&](const Tensor& i,
                  const Tensor& j) { adam.minimize(sum(gather(table, i)) + sum(embedding_sum(table, j)), {table}); },
              i32(2), i32(2, 3));
  Step one = compile([&](const Tensor& i) { other.minimize(sum(gather(same, i)), {same}); }, i32(8));
  for (int run = 0; run < 2; ++run) {
    several(two, three);
    one(all);
  }
  EXPECT_TRUE(test::nearly_equal(table.value(), same.value(), 1e-6));
  EXPECT_FALSE(test::nearly_equal(table.value(), table_of(6), 1e-4));
}

TEST(SparseAdam, RefusesOtherGradients) {
  const State table(table_of(1), "table");
  optim::SparseAdam adam;
  try {
    compile([&](const Tensor& x) { adam.minimize(sum(Tensor(table) * x), {table}); }, f32(kEntries, kWidth));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("looked up by gather along axis 0"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace wr
