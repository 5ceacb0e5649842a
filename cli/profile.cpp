// windrow profile: any command of this program with all its steps profiled; two profiles compared.
#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/profile.h"

namespace wr::cli {
namespace {

struct ProfileOptions {
  std::vector<std::string> outputs;
  int top = 15;
  std::vector<std::string> diff;
  std::string before, after;
  bool json = false;
};

std::vector<Profile> read(const std::string& path) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  auto profiles = profiles_from_json(read_file(path, kMost), path);
  if (profiles.empty()) throw Error(path + ": holds no steps");
  return profiles;
}

/// Microseconds of a run, by kind of kernel.
Json json_of(const Profile& before, const Profile& after) {
  Json kinds = Json::object();
  for (const auto& group : before.kinds()) kinds[group.name] = Json{{"before_us", group.us}, {"after_us", 0}};
  for (const auto& group : after.kinds()) {
    if (kinds.find(group.name) == nullptr) kinds[group.name] = Json{{"before_us", 0}, {"after_us", 0}};
    kinds[group.name]["after_us"] = group.us;
  }
  return {{"step", before.name}, {"before_us", before.run_us}, {"after_us", after.run_us}, {"kernels", kinds}};
}

/// Steps with the same name are compared; the rest is named.
int diff(const ProfileOptions& o) {
  const auto before = read(o.before), after = read(o.after);
  bool any = false;
  const auto show = [&](const Profile& b, const Profile& a) {
    if (o.json)
      fmt::print("{}\n", json_of(b, a).dump());
    else
      fmt::print("{}{}", any ? "\n" : "", difference(b, a));
  };
  for (const Profile& b : before)
    for (const Profile& a : after)
      if (a.name == b.name) {
        show(b, a);
        any = true;
        break;
      }
  if (any) return 0;
  if (before.size() == 1 && after.size() == 1) {
    show(before[0], after[0]);
    return 0;
  }
  throw Error(fmt::format("{} and {} have no step of the same name", o.before, o.after));
}

void check_kinds_and_outputs(const std::vector<std::string>& outputs) {
  for (const std::string& path : outputs)
    if (!path.ends_with(".json") && !path.ends_with(".html") && !path.ends_with(".txt") && !path.ends_with(".trace"))
      throw UsageError("--out", path + ": expected a name that ends with .json, .trace.json, .html or .txt");
  std::vector<Output> list;
  for (const std::string& path : outputs) list.push_back({"--out", path});
  try_outputs(list);
}

int profile(const ProfileOptions& o, const std::vector<std::string>& command,
            const std::function<int(const std::vector<std::string>&)>& run) {
  if (command.empty()) throw UsageError("profile", "which command? For example: windrow profile bench dqn_step_b64");
  const auto asks_for_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(command.begin(), command.end(), asks_for_help)) return run(command);
  check_kinds_and_outputs(o.outputs);
  profile_all_steps(true);
  const int code = run(command);
  const auto profiles = collected_profiles();
  profile_all_steps(false);
  if (profiles.empty()) {
    if (code != 0) return code;  // which has said why
    fmt::print(stderr, "windrow: profile: no step ran\n");
    return 1;
  }
  for (const Profile& p : profiles)
    if (!o.json) fmt::print("\n{}{}", p.to_table(o.top), p.bottleneck_report());
  for (const std::string& path : o.outputs) {
    write_profiles(path, profiles);
    if (!o.json) fmt::print("wrote {}\n", path);
  }
  if (o.json) fmt::print("{}\n", parse_json(to_json(profiles), "profile").dump());
  return code;
}

}  // namespace

void add_profile(Command program, const std::function<int(const std::vector<std::string>&)>& run) {
  auto c = program.add("profile", "Run a command and show where the time of its steps went; or compare two profiles");
  auto o = std::make_shared<ProfileOptions>();
  c.option("--out", o->outputs,
           "Write it to a file: .html (flame graph, timeline, memory), .trace.json (Perfetto), .json (for diff), .txt; "
           "may be given several times")
      .type("FILE")
      .one_value_each();
  c.option("--top", o->top, "Rows of each table").range(1, 10000).show_default();
  c.flag("--json", o->json,
         "The profiles as JSON on the last line, after what the command prints; of diff: an object a step");
  c.takes_a_command_line();
  c.footer(
      "Examples:\n"
      "  windrow profile bench dqn_step_b64\n"
      "  windrow profile --out run.html --out run.json train fashion --net mlp --epochs 1\n"
      "  windrow profile diff before.json after.json\n");
  auto d = c.add("diff", "What became faster and slower from one profile (.json) to another");
  d.option("before", o->before, "Written by windrow profile --out FILE.json").required();
  d.option("after", o->after, "Likewise").required();
  d.flag("--json", o->json, "One JSON object a step: microseconds of a run, by kind of kernel");
  d.does([o] { return diff(*o); });
  c.does([c, o, run] { return profile(*o, c.rest(), run); });
}

}  // namespace wr::cli
