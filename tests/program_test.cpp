// What the program says, as a shell would start it.
#include <gtest/gtest.h>

#include "run_program.h"

#ifdef WINDROW_PROGRAM
namespace wr {
namespace {

TEST(CommandLine, HelpOfAProfiledCommandIsNoRunWithoutSteps) {
  const Said said = run_program("profile bench --help");
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.out.find("windrow bench [OPTIONS]"), std::string::npos) << said.out;
  EXPECT_EQ(said.error, "");
}

TEST(CommandLine, AProfiledCommandThatFailsSaysWhyOnce) {
  const Said said = run_program("profile bench nothing_like_it");
  EXPECT_EQ(said.code, 1);
  EXPECT_EQ(said.error, "windrow: bench: no case 'nothing_like_it'; `windrow bench --list` shows them\n");
}

TEST(CommandLine, WhatIsNotUnderstoodIsSaidWithItsCommand) {
  const struct {
    const char *words, *error;
  } cases[] = {
      {"eval", "windrow: eval: file is required (--help says more)\n"},
      {"rules", "windrow: rules: which one? run, query, explain, train, check, fmt, repl (--help says more)\n"},
      {"train fashion twice", "windrow: train fashion: 'twice' is more than it takes (--help says more)\n"},
      {"train fashion --nonsense", "windrow: train fashion: there is no option --nonsense\n"},
      {"tune bench --threads x y",
       "windrow: tune bench: --threads: 'x' is not a whole number from 1 to 1024 (--help says more)\n"},
      // A command of one that is followed by another's words is itself no such command.
      {"profile diff --nonsense a b", "windrow: profile diff: there is no option --nonsense\n"},
      {"profile diff a b c", "windrow: profile diff: 'c' is more than it takes (--help says more)\n"},
  };
  for (const auto& c : cases) {
    const Said said = run_program(c.words);
    EXPECT_EQ(said.code, 2) << c.words;
    EXPECT_EQ(said.error, c.error) << c.words;
  }
}

TEST(CommandLine, WhatIsNotThereIsNamedAsItWasGiven) {
  EXPECT_EQ(run_program("tune bench nothing").error,
            "windrow: tune bench: no family 'nothing'; a name of `windrow bench --list` that ends in _bN, without that "
            "end\n");
  EXPECT_EQ(run_program("eval ''").error, "windrow: the name of a file to read is empty\n");
  const TemporaryFolder folder;
  write_text(folder / "notes.txt", "this is no checkpoint\n");
  EXPECT_NE(run_program("eval notes.txt", {.folder = folder / ""}).error.find("notes.txt: byte 0: no safetensors file"),
            std::string::npos);
}

}  // namespace
}  // namespace wr
#endif
