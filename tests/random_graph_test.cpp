// Random steps against the interpreter (support/random_graphs.h).
#include <gtest/gtest.h>

#include "support/interpreting_backend.h"
#include "support/random_graphs.h"

namespace wr {
namespace {

TEST(RandomGraph, MatchesTheInterpreter) { test::run_random_steps(0, 200); }
/// The lowered program says all that a device needs: the interpreter's own loops run it, with lanes, strips and blocks.
TEST(RandomGraph, AnotherBackendRunsTheSamePrograms) {
  const test::InterpretingBackend interpreter;
  test::run_random_steps(0, 120, &interpreter);
}
TEST(RandomGraphSlow, ThousandsMatchTheInterpreter) { test::run_random_steps(1000, 2500); }

}  // namespace
}  // namespace wr
