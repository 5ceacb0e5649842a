// Random numbers on the host.
#include <gtest/gtest.h>

#include "temporary_files.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

TEST(Rng, ArraysAreTheNumbersInTheirOrder) {
  Rng one(7), other(7);
  const Array x = one.uniform({3, 2}, DType::f64), n = one.normal({4}, DType::f64), i = one.below(10, {2, 5});
  for (double v : x.to_vector<double>()) EXPECT_EQ(v, other.uniform());
  for (double v : n.to_vector<double>()) EXPECT_EQ(v, other.normal());
  for (std::int32_t v : i.to_vector<std::int32_t>()) EXPECT_EQ(v, static_cast<std::int32_t>(other.below(10)));
  EXPECT_EQ(one.state(), other.state());
  EXPECT_EQ(x.shape(), (Shape{3, 2}));
  EXPECT_EQ(i.dtype(), DType::i32);
  EXPECT_EQ(one.uniform({0, 3}).count(), 0);
}

TEST(Rng, ArraysAreSpreadAsTheyShouldBe) {
  Rng rng(1);
  const Array u = rng.uniform({100'000}), n = rng.normal({100'000});
  EXPECT_EQ(u.dtype(), DType::f32);
  EXPECT_GE(min(u).item<float>(), 0);
  EXPECT_LT(max(u).item<float>(), 1);
  EXPECT_NEAR(mean(u).item<float>(), 0.5, 0.01);
  EXPECT_NEAR(variance(u, 0).item<float>(), 1 / 12.0, 0.002);
  EXPECT_NEAR(mean(n).item<float>(), 0, 0.02);
  EXPECT_NEAR(variance(n, 0).item<float>(), 1, 0.03);
}

TEST(Rng, NamesTheCallersLine) {
  Rng rng;
  EXPECT_NE(error_of([&] { rng.normal({2}, DType::i32); }).find("random_test.cpp:"), std::string::npos);
  EXPECT_NE(error_of([&] { rng.normal({2}, DType::i32); }).find("f32 or f64, not i32"), std::string::npos);
  EXPECT_NE(error_of([&] { rng.below(0, {2}); }).find("0 is not in 1..2147483648"), std::string::npos);
}

}  // namespace
}  // namespace wr
