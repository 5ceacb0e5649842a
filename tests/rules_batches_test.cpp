// Programs of rules on batches: the same answers as at once, rows loaded ahead, learned parameters, what is refused.
#include "windrow/rules_batches.h"

#include <gtest/gtest.h>

#include <atomic>

#include "temporary_files.h"
#include "windrow/data.h"
#include "windrow/npy_rows.h"

namespace wr::rules {
namespace {

constexpr const char* kNet =
    "domain Example = 5.\ndomain In = 3.\ndomain Out = 2.\n"
    "tensor X[Example, In] input.\ntensor W[Out, In] learn.\ntensor Y[Example, Out].\n"
    "Y[n, o] = tanh(W[o, i] * X[n, i]).\nMean = mean(n, o: Y[n, o]).\n";

Array rows(std::int64_t n) {
  std::vector<double> x;
  for (std::int64_t i = 0; i < n * 3; ++i) x.push_back(0.1 * static_cast<double>(i % 17) - 0.7);
  return Array::from(x, {n, 3});
}

TEST(RulesBatches, AnyNumberOfRowsAsIfAtOnce) {
  Program program = Program::parse(kNet, "net");
  program.set("X", rows(5));
  const Array at_once = program.array("Y");  // makes W
  for (const std::int64_t n : {1, 4, 5, 11}) {
    Batches batches(program, "Example", {"X"}, {"Y"}, {.batch = 4, .dtype = DType::f64});
    const Array y = batches.run({{"X", rows(n)}}).at("Y");
    ASSERT_EQ(y.shape(), (Shape{n, 2}));
    const auto got = y.to_vector<double>(), wanted = at_once.to_vector<double>();
    for (std::size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << n;
  }
}

TEST(RulesBatches, LoadsAheadAndPassesErrorsOn) {
  Program program = Program::parse(kNet, "net");
  Batches batches(program, "Example", {"X"}, {"Y"}, {.batch = 2});
  std::atomic<int> loaded = 0;
  int taken = 0;
  const auto load = [&](std::int64_t, std::int64_t count) {
    ++loaded;
    return std::vector<Array>{rows(count)};
  };
  batches.run(7, load, [&](std::int64_t first, const std::vector<Array>& results) {
    EXPECT_EQ(first, 2 * taken);
    EXPECT_EQ(results[0].shape()[0], std::min<std::int64_t>(2, 7 - first));
    ++taken;
  });
  EXPECT_EQ(taken, 4);
  EXPECT_EQ(loaded, 4);
  const auto broken = [](std::int64_t first, std::int64_t count) {
    if (first > 0) throw Error("the disk is gone");
    return std::vector<Array>{rows(count)};
  };
  EXPECT_THROW(batches.run(7, broken, [](auto, const auto&) {}), Error);
}

TEST(RulesBatches, RefusesWhatHasNoRows) {
  const auto error = [](auto fn) {
    try {
      fn();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const Program program = Program::parse(kNet, "net");
  EXPECT_EQ(error([&] { Batches(program, "Exampel", {"X"}, {"Y"}); }),
            "net: batches of Exampel: there is no domain of that name with a size, such as `domain Exampel = 1000.`");
  EXPECT_EQ(error([&] { Batches(program, "Example", {"W"}, {"Y"}); }),
            "net: in batches of Example, the first index of W, and no other, must be of that domain");
  EXPECT_EQ(error([&] { Batches(program, "Example", {"X"}, {"Mean"}); }), "net: Mean has no index of Example");
  EXPECT_EQ(error([&] { Batches(program, "Example", {"X"}, {"Z"}); }), "net: no relation or tensor is called 'Z'");
  EXPECT_EQ(error([&] {
              Batches(program, "Example", {"X"}, {"Y"}, {.batch = 2}).run({{"X", Array::zeros({4, 2})}});
            }),
            "net: X is [4,2], expected rows of [2,3]");
  EXPECT_EQ(in_domain(program, "Example"), std::vector<std::string>{"X"});
  EXPECT_NE(error([&] {
              static_cast<void>(in_domain(program, "Exmaple"));
            }).find(": no domain is called 'Exmaple'; there are "),
            std::string::npos);
}

TEST(NpyRows, AnyRowsOfAFile) {
  TemporaryFolder folder;
  const Array all = rows(9);
  data::write_npy(folder / "x.npy", all);
  const data::NpyRows file(folder / "x.npy");
  EXPECT_EQ(file.spec().shape, (Shape{9, 3}));
  EXPECT_EQ(file.read(4, 3).to_vector<double>(), all.slice(0, 4, 7).contiguous().to_vector<double>());
  EXPECT_EQ(file.read(9, 0).shape(), (Shape{0, 3}));
  EXPECT_THROW(file.read(7, 3), Error);
  EXPECT_THROW(file.read(-1, 1), Error);
  write_text(folder / "cut.npy", read_text(folder / "x.npy").substr(0, 200));
  EXPECT_THROW(data::NpyRows(folder / "cut.npy"), Error);
  write_text(folder / "no.npy", "nonsense");
  EXPECT_THROW(data::NpyRows(folder / "no.npy"), Error);
  data::write_npy(folder / "number.npy", Array::zeros({}));
  EXPECT_THROW(data::NpyRows(folder / "number.npy"), Error);
}

}  // namespace
}  // namespace wr::rules
