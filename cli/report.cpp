// windrow report: several trainings on one page.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/automaton/automaton.h"
#include "apps/cube/cube.h"
#include "apps/fashion/fashion.h"
#include "base/json.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/checkpoint.h"
#include "windrow/error.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out = "report.html", title = "Runs compared";
  bool json = false;
};

/// A log, or a checkpoint, which knows how its training went.
report::History history_of(const std::string& path) {
  if (!path.ends_with(".safetensors")) return report::read_log(path);
  const Metadata metadata = read_safetensors_header(path).metadata;
  const auto app = metadata.find("windrow.app");
  const std::string name = app == metadata.end() ? "" : app->second;
  report::History history = name == "fashion"     ? apps::fashion_history(path)
                            : name == "cube"      ? apps::cube_history(path)
                            : name == "automaton" ? apps::automaton_history(path)
                                                  : throw Error(path + ": no checkpoint of `windrow train`");
  history.name = std::filesystem::path(path).stem().string();
  return history;
}

/// "a/run" and "b/run" where both are called "run".
void tell_apart(std::vector<report::History>& runs, const std::vector<std::string>& paths) {
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t k = 0; k < runs.size(); ++k)
      if (k != i && runs[k].name == runs[i].name) {
        for (std::size_t all = 0; all < runs.size(); ++all) runs[all].name = paths[all];
        return;
      }
}

Json json_of(const report::History& run) {
  Json last = Json::object();
  if (!run.points.empty())
    for (const auto& [name, value] : run.points.back().values) last[name] = value;
  return {{"name", run.name},
          {"points", run.points.size()},
          {"step", run.points.empty() ? 0 : run.points.back().step},
          {"last", last}};
}

int make_report(const ReportOptions& o) {
  check_outputs({{"--out", o.out}});
  std::vector<report::History> runs;
  for (const std::string& path : o.runs) {
    check_outputs({{"--out", o.out}}, {{"the run", path}});
    runs.push_back(history_of(path));
    if (runs.back().points.empty()) fmt::print(stderr, "windrow: {}: nothing was recorded\n", text::printable(path));
  }
  if (std::all_of(runs.begin(), runs.end(), [](const report::History& run) { return run.points.empty(); }))
    throw Error("report: none of the runs has recorded anything");
  tell_apart(runs, o.runs);
  report::compare(runs, o.title).write(o.out);
  if (o.json) {
    Json list = Json::list();
    for (const report::History& run : runs) list.push_back(json_of(run));
    fmt::print("{}\n", Json{{"report", o.out}, {"runs", list}}.dump());
    return 0;
  }
  for (const report::History& run : runs) {
    fmt::print("{}: {} points", text::printable(run.name), run.points.size());
    if (!run.points.empty())
      for (const auto& [name, value] : run.points.back().values)
        fmt::print("  {} {:.4g}", text::printable(name), value);
    fmt::print("\n");
  }
  fmt::print("report: {}\n", text::printable(o.out));
  return 0;
}

}  // namespace

void add_report(Command program) {
  auto c = program.add("report", "Compare trainings: logs (CSV, JSON lines, TensorBoard) and checkpoints on one page");
  auto o = std::make_shared<ReportOptions>();
  c.option("runs", o->runs, "What `--log` or `--save` wrote, or a log of your own").type("FILE").required();
  c.option("--out", o->out, "The HTML page").type("FILE").show_default();
  c.option("--title", o->title, "Its title").show_default();
  c.flag("--json", o->json, "One JSON object: the last figures of each run");
  c.does([o] { return make_report(*o); });
}

}  // namespace wr::cli
