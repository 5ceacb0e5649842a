// What the program says, as a shell would start it.
#include <gtest/gtest.h>

#include "temporary_files.h"

#ifdef WINDROW_PROGRAM
namespace wr {
namespace {

struct Said {
  int code;
  std::string out, error;
};

Said windrow(const std::string& words) {
  const TemporaryFolder folder;
  const std::string command =
      "\"" WINDROW_PROGRAM "\" " + words + " > " + (folder / "out") + " 2> " + (folder / "error");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(folder / "out"), read_text(folder / "error")};
}

TEST(CommandLine, HelpOfAProfiledCommandIsNoRunWithoutSteps) {
  const Said said = windrow("profile bench --help");
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("windrow bench [OPTIONS]"), std::string::npos) << said.out;
  EXPECT_EQ(said.error, "");
}

TEST(CommandLine, AProfiledCommandThatFailsSaysWhyOnce) {
  const Said said = windrow("profile bench nothing_like_it");
  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.error, "windrow: bench: no case 'nothing_like_it'; `windrow bench --list` shows them\n");
}

}  // namespace
}  // namespace wr
#endif
