// What a program leaves: complete files, links followed, devices written to, nothing of the user's touched.
#include "windrow/files.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "temporary_files.h"
#include "windrow/error.h"

namespace wr {
namespace {

namespace fs = std::filesystem;

TEST(WriteFile, ReplacesTheOldContentAndLeavesNothingElse) {
  const TemporaryFolder folder;
  write_file(folder / "a", "one");
  EXPECT_EQ(read_text(folder / "a"), "one");
  write_file(folder / "a", "two");
  EXPECT_EQ(read_text(folder / "a"), "two");
  EXPECT_EQ(folder.files(), std::vector<std::string>({"a"}));
}

TEST(WriteFile, SaysThatThereIsNoName) {
  EXPECT_EQ(error_of([] { write_file("", "x"); }), "the name of a file to write is empty");
  EXPECT_EQ(error_of([] { Source::open(""); }), "the name of a file to read is empty");
}

TEST(WriteFile, FollowsLinks) {
  const TemporaryFolder folder;
  write_file(folder / "real", "old");
  fs::create_symlink("real", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_text(folder / "real"), "new");
  // Also to what is not there yet.
  fs::create_symlink("later", folder / "ahead");
  write_file(folder / "ahead", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "ahead"));
  EXPECT_EQ(read_text(folder / "later"), "new");
  // Round and round is an error, and ends.
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  EXPECT_THROW(write_file(folder / "a", "x"), Error);
}

TEST(WriteFile, TouchesNoFileOfTheUsers) {
  const TemporaryFolder folder;
  write_file(folder / "mine", "mine");
  fs::create_symlink("mine", folder / "out.new");
  write_file(folder / "out.tmp", "mine too");
  write_file(folder / "out", "new");
  EXPECT_EQ(read_text(folder / "mine"), "mine");
  EXPECT_TRUE(fs::is_symlink(folder / "out.new"));
  EXPECT_EQ(read_text(folder / "out.tmp"), "mine too");
}

TEST(WriteFile, WritesToDevicesAndPipes) {
  write_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW(write_file("/dev/full", std::string(1 << 17, 'x')), Error);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_text(folder / "pipe"); });
  write_file(folder / "pipe", "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(WriteFile, CleansUpAfterWritersThatWereKilled) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    FileWriter unfinished(folder / "out");
    unfinished.write("half");
    _exit(0);  // no destructor: as if killed
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(folder.files().size(), 1u);
  {
    FileWriter at_work(folder / "out");  // our own, unfinished: not to be taken away
    write_file(folder / "out", "whole");
    EXPECT_EQ(folder.files().size(), 2u);
    at_work.write("later");
    at_work.commit();
  }
  EXPECT_EQ(folder.files(), std::vector<std::string>({"out"}));
  EXPECT_EQ(read_text(folder / "out"), "later");
  // What only looks similar stays.
  write_file(folder / "out.tmp-x", "mine");
  write_file(folder / "out.tmp-1-notes", "mine");
  write_file(folder / "out", "again");
  EXPECT_EQ(folder.files().size(), 3u);
}

TEST(ReadFile, TakesRegularFilesOfASizeAlone) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string("\0b", 2));
  EXPECT_EQ(read_file(folder / "a", 2), std::string("\0b", 2));
  EXPECT_ERROR(read_file(folder / "a", 1), "has 2 bytes");
  EXPECT_ERROR(read_file("/dev/zero", 100), "/dev/zero: is not a regular file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(read_file(folder / "pipe", 100), "is not a regular file");  // and does not wait for a writer
  EXPECT_ERROR(read_file(folder / "none", 100), "No such file");
}

std::string refusal(std::initializer_list<Output> outputs) {
  try {
    try_outputs(std::span(outputs.begin(), outputs.size()));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TryOutputs, FindsWhatCannotBeWrittenAndWhatWouldBeTheSame) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal({{"--save", folder / "a"}, {"--report", folder / "b"}, {"--gif", ""}}), "");
  EXPECT_TRUE(folder.files().empty());
  EXPECT_NE(refusal({{"--save", folder / "none/a"}}).find("--save"), std::string::npos);
  EXPECT_NE(refusal({{"--save", folder / "."}}).find("not a regular file"), std::string::npos);
  const std::string same = refusal({{"--save", folder / "a"}, {"--report", folder / "./a"}});
  EXPECT_NE(same.find("--report"), std::string::npos) << same;
  EXPECT_NE(same.find("--save"), std::string::npos) << same;
  write_file(folder / "real", "");
  fs::create_symlink("real", folder / "link");
  EXPECT_NE(refusal({{"--save", folder / "link"}, {"--report", folder / "real"}}), "");
  EXPECT_EQ(refusal({{"--save", "/dev/null"}, {"--report", "/dev/null"}}), "");
}

}  // namespace
}  // namespace wr
