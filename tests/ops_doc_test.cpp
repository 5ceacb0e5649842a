// docs/ops.md is what `windrow ops` prints.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#ifdef WINDROW_PROGRAM
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return text;
  std::array<char, 4096> part;
  while (const auto n = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

TEST(OpsDocument, IsUpToDate) {
  std::ifstream file(std::filesystem::path(WINDROW_TEST_DATA).parent_path().parent_path() / "docs/ops.md");
  ASSERT_TRUE(file) << "docs/ops.md is missing";
  std::stringstream written;
  written << file.rdbuf();
  EXPECT_TRUE(written.str() == output_of("\"" WINDROW_PROGRAM "\" ops"))
      << "docs/ops.md is out of date; run: windrow ops > docs/ops.md";
}

}  // namespace
#endif
