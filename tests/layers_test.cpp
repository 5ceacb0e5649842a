// The tree is the pipeline: a folder includes only what stands before it, libraries and apps use the public headers
// alone, and each third-party library is seen by the files that wrap it and by no other.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace wr {
namespace {

namespace fs = std::filesystem;

struct Include {
  std::string from, what;  // "src/ir/graph.cpp", "ir/op.h"
  bool quoted = false;     // ours, not the system's
};

fs::path root() { return fs::path(WINDROW_TEST_DATA).parent_path().parent_path(); }

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".def";
}

std::vector<Include> includes_under(const std::string& folder) {
  static const std::regex line_form(R"re(^\s*#\s*include\s*(["<])([^">]+)[">].*)re");
  std::vector<Include> found;
  for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    std::ifstream file(entry.path());
    std::smatch match;
    for (std::string line; std::getline(file, line);)
      if (std::regex_match(line, match, line_form))
        found.push_back({fs::relative(entry.path(), root()).generic_string(), match[2], match[1] == "\""});
  }
  return found;
}

/// "ir" of "ir/op.h"; "" of what has no folder.
std::string first_folder(const std::string& path) {
  const auto slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

/// The folders of src/ in the order of the pipeline: each may include those before it.
const std::vector<std::string> kPipeline{"base", "ir", "ops", "passes", "plan", "lower", "backend", "profile", "step"};
/// Libraries on the public headers. What is not of training (files, JSON, the machine) they have from base/.
const std::set<std::string> kLibraries{"optim", "nn", "logic", "rl", "rules", "data", "bench"};

bool may_use(const std::string& folder, const std::string& used) {
  if (kLibraries.contains(folder)) return used == "base";
  const auto place = [](const std::string& name) { return std::find(kPipeline.begin(), kPipeline.end(), name); };
  return place(used) < place(folder);
}

TEST(Layers, AFolderUsesOnlyWhatStandsBeforeIt) {
  std::size_t checked = 0;
  for (const Include& i : includes_under("src")) {
    if (!i.quoted || i.what.starts_with("windrow/")) continue;
    const std::string own = first_folder(i.from.substr(std::string("src/").size()));
    const std::string used = first_folder(i.what);
    ASSERT_TRUE(kLibraries.contains(own) || std::count(kPipeline.begin(), kPipeline.end(), own) == 1)
        << i.from << ": the folder src/" << own << " has no place in the pipeline yet";
    ++checked;
    if (used.empty() || used == own) continue;  // "buffer.h" is the file's neighbour
    EXPECT_TRUE(may_use(own, used)) << i.from << " includes " << i.what;
  }
  EXPECT_GT(checked, 100u) << "the sources were not found";
}

TEST(Layers, PublicHeadersIncludePublicHeadersOnly) {
  for (const Include& i : includes_under("include")) {
    if (i.quoted) {
      EXPECT_TRUE(i.what.starts_with("windrow/")) << i.from << " includes " << i.what;
    } else {
      EXPECT_EQ(i.what.find('/'), std::string::npos) << i.from << " includes <" << i.what << ">";
    }
  }
}

TEST(Layers, AppsAndExamplesUseThePublicHeaders) {
  for (const char* folder : {"apps", "examples"})
    for (const Include& i : includes_under(folder)) {
      if (!i.quoted) continue;
      EXPECT_TRUE(i.what.starts_with("windrow/") || i.what.starts_with("apps/")) << i.from << " includes " << i.what;
    }
}

TEST(Layers, AnAppUsesItselfAndWhatIsCommon) {
  for (const Include& i : includes_under("apps")) {
    if (!i.what.starts_with("apps/")) continue;
    const std::string own = first_folder(i.from.substr(std::string("apps/").size()));
    const std::string used = first_folder(i.what.substr(std::string("apps/").size()));
    EXPECT_TRUE(used == own || used == "common") << i.from << " includes " << i.what;
  }
}

TEST(Layers, ThirdPartyLibrariesStayBehindTheirFiles) {
  struct Wrapped {
    const char* include;  // how its headers begin
    std::vector<std::string> by;
  };
  const std::vector<Wrapped> libraries{
      {"CLI/", {"cli/options.cpp"}},
      {"nlohmann/", {"src/base/json.cpp"}},
      {"libxsmm", {"src/backend/cpu/gemm_xsmm.cpp"}},
      {"zlib.h",
       {"src/data/stream.cpp", "src/data/npz.cpp", "apps/common/pictures.cpp", "apps/common/read_picture.cpp"}},
      {"hwy/", {"src/backend/cpu/"}},
  };
  for (const char* folder : {"include", "src", "cli", "bench", "apps", "examples"})
    for (const Include& i : includes_under(folder))
      for (const Wrapped& library : libraries) {
        if (i.quoted || !i.what.starts_with(library.include)) continue;
        const bool allowed = std::any_of(library.by.begin(), library.by.end(),
                                         [&](const std::string& place) { return i.from.starts_with(place); });
        EXPECT_TRUE(allowed) << i.from << " includes <" << i.what << ">";
      }
}

}  // namespace
}  // namespace wr
