// What the documentation names exists: files behind links, headers, make commands, options of the program's commands.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "temporary_files.h"

namespace wr {
namespace {

namespace fs = std::filesystem;

fs::path root() { return fs::path(WINDROW_TEST_DATA).parent_path().parent_path(); }

std::vector<fs::path> pages() {
  std::vector<fs::path> all{root() / "README.md", root() / "CONTRIBUTING.md", root() / "CHANGELOG.md",
                            root() / "examples/README.md"};
  for (const auto& entry : fs::directory_iterator(root() / "docs"))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

std::vector<std::string> all_matches(const std::string& text, const char* pattern) {
  const std::regex form(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), form), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

TEST(Docs, LinksLeadToFiles) {
  std::size_t links = 0;
  for (const fs::path& page : pages())
    for (const std::string& link : all_matches(read_text(page.string()), R"(\]\(([^)#\s]+)(?:#[^)\s]*)?\))")) {
      if (link.starts_with("http")) continue;
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page.filename() << ": " << link;
      ++links;
    }
  EXPECT_GT(links, 40u);
}

TEST(Docs, HeadersThatAreNamedExist) {
  for (const fs::path& page : pages())
    for (const std::string& header : all_matches(read_text(page.string()), R"(\b(windrow/[a-z_]+\.(?:h|def))\b)"))
      EXPECT_TRUE(fs::exists(root() / "include" / header)) << page.filename() << ": " << header;
}

TEST(Docs, PathsOfTheTreeExist) {
  for (const fs::path& page : pages())
    for (
        const std::string& path : all_matches(
            read_text(page.string()),
            R"([`\s(]((?:src|apps|cli|tests|scripts|bench|examples|fuzz|python|cmake)/[\w./]+\.(?:cpp|h|def|py|sh|wr|csv|cmake))\b)"))
      EXPECT_TRUE(fs::exists(root() / path)) << page.filename() << ": " << path;
}

TEST(Docs, MakeCommandsExist) {
  const std::vector<std::string> list =
      all_matches("\n" + read_text((root() / "Makefile").string()), R"(\n([a-z-]+):)");
  const std::set<std::string> commands(list.begin(), list.end());
  ASSERT_TRUE(commands.contains("test"));
  for (const fs::path& page : pages())
    for (const std::string& command : all_matches(read_text(page.string()), R"((?:`|^    |\n    )make ([a-z-]+))"))
      EXPECT_TRUE(commands.contains(command)) << page.filename() << ": make " << command;
}

/// A stranger has the repository and nothing else.
TEST(Docs, NothingOutsideOfTheRepositoryIsNamed) {
  for (const fs::path& page : pages()) {
    const std::string text = read_text(page.string());
    for (const char* word : {"../shared", "/work/", "seed 00"})
      EXPECT_EQ(text.find(word), std::string::npos) << page.filename() << ": " << word;
  }
}

}  // namespace
}  // namespace wr
