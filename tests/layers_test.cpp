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
  for (auto at = fs::recursive_directory_iterator(root() / folder); at != fs::recursive_directory_iterator(); ++at) {
    const fs::directory_entry& entry = *at;
    if (entry.is_directory() && entry.path().filename() == "venv") at.disable_recursion_pending();  // peers' own
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
const std::set<std::string> kLibraries{"optim", "nn", "logic", "rl", "rules", "data", "bench", "report"};

bool may_use(const std::string& folder, const std::string& used) {
  if (kLibraries.contains(folder)) return used == "base";
  const auto place = [](const std::string& name) { return std::find(kPipeline.begin(), kPipeline.end(), name); };
  return place(used) < place(folder);
}

using Complaints = std::vector<std::string>;
using Includes = std::vector<Include>;

std::string complaint(const Include& i) {
  return i.from + " includes " + (i.quoted ? "\"" + i.what + "\"" : "<" + i.what + ">");
}

std::string after(const std::string& path, const std::string& prefix) { return path.substr(prefix.size()); }

Complaints against_the_pipeline(const Includes& all) {
  Complaints found;
  for (const Include& i : all) {
    if (!i.quoted || i.what.starts_with("windrow/")) continue;
    const std::string own = first_folder(after(i.from, "src/")), used = first_folder(i.what);
    if (!kLibraries.contains(own) && std::count(kPipeline.begin(), kPipeline.end(), own) == 0)
      found.push_back(i.from + ": the folder src/" + own + " has no place in the pipeline yet");
    else if (!used.empty() && used != own && !may_use(own, used))  // "buffer.h" is the file's neighbour
      found.push_back(complaint(i));
  }
  return found;
}

Complaints against_public_headers(const Includes& all) {
  Complaints found;
  for (const Include& i : all)
    if (i.quoted ? !i.what.starts_with("windrow/") : i.what.find('/') != std::string::npos)
      found.push_back(complaint(i));
  return found;
}

/// Apps and examples use the public headers, an app itself and what is common to apps.
Complaints against_apps(const Includes& all) {
  Complaints found;
  for (const Include& i : all) {
    if (!i.quoted || i.what.starts_with("windrow/")) continue;
    const std::string used = i.what.starts_with("apps/") ? first_folder(after(i.what, "apps/")) : "";
    const std::string own = i.from.starts_with("apps/") ? first_folder(after(i.from, "apps/")) : "no app";
    if (used != own && used != "common") found.push_back(complaint(i));
  }
  return found;
}

Complaints against_wrapping(const Includes& all) {
  struct Wrapped {
    const char* include;  // how its headers begin
    std::vector<std::string> by;
  };
  static const std::vector<Wrapped> libraries{
      {"CLI/", {"cli/options.cpp"}},
      {"nlohmann/", {"src/base/json.cpp"}},
      {"libxsmm", {"src/backend/cpu/gemm_xsmm.cpp"}},
      {"zlib.h",
       {"src/data/stream.cpp", "src/data/npz.cpp", "apps/common/pictures.cpp", "apps/common/read_picture.cpp"}},
      {"hwy/", {"src/backend/cpu/"}},
  };
  Complaints found;
  for (const Include& i : all)
    for (const Wrapped& library : libraries) {
      if (i.quoted || !i.what.starts_with(library.include)) continue;
      const bool allowed = std::any_of(library.by.begin(), library.by.end(),
                                       [&](const std::string& place) { return i.from.starts_with(place); });
      if (!allowed) found.push_back(complaint(i));
    }
  return found;
}

TEST(Layers, AFolderUsesOnlyWhatStandsBeforeIt) {
  const Includes all = includes_under("src");
  EXPECT_GT(all.size(), 500u) << "the sources were not found";
  EXPECT_EQ(against_the_pipeline(all), Complaints{});
}

TEST(Layers, PublicHeadersIncludePublicHeadersOnly) {
  EXPECT_EQ(against_public_headers(includes_under("include")), Complaints{});
}

TEST(Layers, AppsAndExamplesUseThePublicHeaders) {
  for (const char* folder : {"apps", "examples"}) EXPECT_EQ(against_apps(includes_under(folder)), Complaints{});
}

TEST(Layers, ThirdPartyLibrariesStayBehindTheirFiles) {
  for (const char* folder : {"include", "src", "cli", "bench", "apps", "examples"})
    EXPECT_EQ(against_wrapping(includes_under(folder)), Complaints{});
}

// Each rule sees what breaks it, and lets pass what does not.
TEST(Layers, AViolationIsSeen) {
  const auto seen = [](Complaints (*rule)(const Includes&), const Include& planted) { return rule({planted}).size(); };
  EXPECT_EQ(seen(against_the_pipeline, {"src/ir/graph.cpp", "plan/schedule.h", true}), 1u);
  EXPECT_EQ(seen(against_the_pipeline, {"src/plan/form.cpp", "ir/graph.h", true}), 0u);
  EXPECT_EQ(seen(against_the_pipeline, {"src/nn/conv.cpp", "step/inside.h", true}), 1u);
  EXPECT_EQ(seen(against_the_pipeline, {"src/rules/files.cpp", "base/file.h", true}), 0u);
  EXPECT_EQ(seen(against_the_pipeline, {"src/misc/all.cpp", "base/file.h", true}), 1u);
  EXPECT_EQ(seen(against_public_headers, {"include/windrow/step.h", "step/inside.h", true}), 1u);
  EXPECT_EQ(seen(against_public_headers, {"include/windrow/step.h", "fmt/format.h", false}), 1u);
  EXPECT_EQ(seen(against_public_headers, {"include/windrow/step.h", "vector", false}), 0u);
  EXPECT_EQ(seen(against_apps, {"apps/cube/cube.cpp", "base/host.h", true}), 1u);
  EXPECT_EQ(seen(against_apps, {"apps/cube/cube.cpp", "apps/fashion/fashion.h", true}), 1u);
  EXPECT_EQ(seen(against_apps, {"apps/cube/cube.cpp", "apps/common/page.h", true}), 0u);
  EXPECT_EQ(seen(against_apps, {"examples/mlp.cpp", "step/inside.h", true}), 1u);
  EXPECT_EQ(seen(against_wrapping, {"cli/train.cpp", "CLI/CLI.hpp", false}), 1u);
  EXPECT_EQ(seen(against_wrapping, {"src/plan/cost.cpp", "hwy/highway.h", false}), 1u);
  EXPECT_EQ(seen(against_wrapping, {"src/backend/cpu/copy.cpp", "hwy/highway.h", false}), 0u);
}

}  // namespace
}  // namespace wr
