// What a step asks of a backend, beside running random programs (random_graph_test.cpp).
#include "backend/backend.h"

#include <gtest/gtest.h>

#include "passes/passes.h"
#include "plan/schedule.h"
#include "step/inside.h"
#include "support/graphs.h"
#include "support/interpreting_backend.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

TEST(Backend, WhatItCannotRunIsSaidWithTheUsersLine) {
  Random random(7);
  const auto graph = test::trace({f32(4, 3)}, [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] + random.uniform({4, 3})};
  });
  const test::InterpretingBackend interpreter;
  try {
    const Step step(std::make_unique<Step::Inside>(passes::optimise(*graph), CompileOptions{}, interpreter));
    FAIL() << "there is no kernel for random";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("backend_test.cpp:"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("no kernel for random that gives f32[4,3]"), std::string::npos)
        << error.what();
  }
}

TEST(Backend, AStepRunsOnTheOneItIsGiven) {
  State total(Array::zeros({3}), "total");
  const auto graph = test::trace({f32(64, 3)}, [&](const std::vector<Tensor>& in) {
    total.assign(Tensor(total) + sum(in[0], 0));
    return std::vector<Tensor>{exp(in[0])};
  });
  const test::InterpretingBackend interpreter;
  CompileOptions two_lanes;
  two_lanes.lanes = 2;
  Step step(std::make_unique<Step::Inside>(passes::optimise(*graph), two_lanes, interpreter));
  EXPECT_NE(step.describe().find("interpreter"), std::string::npos) << step.describe();
  const Array x = test::random_array(f32(64, 3), 1);
  const Array got = step(x);
  EXPECT_TRUE(test::nearly_equal(got, eval(exp(Tensor(x))), 1e-5));
  EXPECT_TRUE(test::nearly_equal(total.value(), eval(sum(Tensor(x), 0)), 1e-5));
}

}  // namespace
}  // namespace wr
