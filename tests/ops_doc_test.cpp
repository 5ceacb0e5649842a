// docs/ops.md is what `windrow ops` prints.
#include <gtest/gtest.h>

#include "run_program.h"

#ifdef WINDROW_PROGRAM
namespace wr {
namespace {

TEST(OpsDocument, IsUpToDate) {
  const std::string written =
      read_text((std::filesystem::path(WINDROW_TEST_DATA).parent_path().parent_path() / "docs/ops.md").string());
  const Said said = run_program("ops");
  EXPECT_EQ(said.code, 0) << said.error;
  EXPECT_TRUE(written == said.out) << "docs/ops.md is out of date; run: windrow ops > docs/ops.md";
}

}  // namespace
}  // namespace wr
#endif
