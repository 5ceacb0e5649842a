// windrow train cube and solve, and windrow eval of a cube.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "apps/cube/cube.h"
#include "apps/cube/report.h"
#include "base/json.h"
#include "cli/eval.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/clock.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

constexpr int kMoveLimit = 20;

struct CubeOptions {
  Texts given;
  std::string preset = "best", save, resume, report;
  std::vector<std::string> logs;
  int threads = 0;
  bool json = false;
  double seconds = 0;
};

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

CubeSettings settings_for(const CubeOptions& o) {
  if (!o.resume.empty()) {
    const CubeSettings file = cube_settings_of(read_safetensors_header(o.resume), o.resume);
    CubeSettings asked = file;
    for (const auto& [name, text] : o.given) set(asked, name, text);
    const Texts then = to_texts(file), wanted = to_texts(asked);
    for (const auto& [name, text] : then)
      if (wanted.at(name) != text)
        throw Error(fmt::format("--{} {}: {} was trained with {} {}", name, wanted.at(name), o.resume, name, text));
    return file;
  }
  try {
    CubeSettings s = cube_preset(o.preset);
    for (const auto& [name, text] : o.given) set(s, name, text);
    return s;
  } catch (const Error& e) {
    throw UsageError("train cube", e.what());
  }
}

// ---- what is seen of a run ----

std::string success_text(const CubePoint& p) {
  std::vector<std::string> parts;
  for (std::size_t d = 1; d < kDistances; ++d)
    if (p.success[d] >= 0) parts.push_back(fmt::format("{:.4g}", 100 * p.success[d]));
  return fmt::format("{}", fmt::join(parts, " "));
}

class CubePrinter {
 public:
  CubePrinter(bool json, const CubeLearner& learner) : progress_(form_of(json)), learner_(learner) {}

  void step(const CubeProgress& p) {
    if (progress_.form() != report::Form::line) return;  // the points' own lines are enough
    progress_.show(
        {.done = p.done,
         .total = p.total,
         .unit = p.unit,
         .rate = p.rate,
         .values = p.loss > 0 ? report::Values{{"loss", p.loss}} : report::Values{},  // none was measured yet
         .note = p.note,
         .seconds_left = p.seconds_left});
  }
  void clear() { progress_.clear(); }
  void point(const CubePoint& p) {
    if (progress_.form() == report::Form::json) {
      const Json line{{learner_.unit(), p.done},
                      {"seconds", p.seconds},
                      {"loss", p.loss},
                      {"depth", p.depth},
                      {"success", Json::list_of(p.success)},
                      {"updates", learner_.updates()}};
      return progress_.say(line.dump());
    }
    const std::string note = learner_.note();
    progress_.say(fmt::format("{} {:>{}}/{}  loss {:.4g}  {}{}success by distance, %: {}  {}", learner_.unit(), p.done,
                              fmt::formatted_size("{}", learner_.total()), learner_.total(), p.loss, note,
                              note.empty() ? "" : "  ", success_text(p), text::clock(p.seconds)));
  }

 private:
  report::Progress progress_;
  const CubeLearner& learner_;
};

void print_census(const FullCensus& c) {
  fmt::print("{:>8}{:>10}{:>10}{:>12}{:>12}{:>13}{:>7}\n", "distance", "states", "solved", "share", "optimal",
             "mean excess", "worst");
  const auto row = [](const std::string& name, const Census& e) {
    fmt::print("{:>8}{:>10}{:>10}{:>10.4f} %{:>10.4f} %{:>13.5f}{:>7}\n", name, e.states, e.solved,
               percent(e.solved, e.states), percent(e.optimal, e.states),
               e.solved ? static_cast<double>(e.excess) / static_cast<double>(e.solved) : 0.0, e.worst);
  };
  for (std::size_t d = 0; d < kDistances; ++d) row(std::to_string(d), c.by_distance[d]);
  row("all", c.all);
}

Json json_of(const Census& c) {
  return {{"states", c.states}, {"solved", c.solved}, {"optimal", c.optimal}, {"excess", c.excess}, {"worst", c.worst}};
}

Json json_of(const FullCensus& c) {
  Json by = Json::list();
  for (const Census& d : c.by_distance) by.push_back(json_of(d));
  return {{"all", json_of(c.all)}, {"by_distance", by}, {"moves", Json::list_of(c.moves)}, {"searched", c.searched}};
}

// ---- train ----

void print_start(const CubeRun& run, const CubeOptions& o) {
  const CubeSettings& s = run.settings();
  std::int64_t parameters = 0;
  for (const State& p : run.learner().net().parameters()) parameters += p.shape().count();
  fmt::print("2x2x2 cube, {}: net {} on {}, {} parameters; {} {}s in batches of {}, lr {}\n", s.method, s.hidden,
             s.encoding, parameters, run.learner().total(), run.learner().unit(), s.batch, s.lr);
  const rl::Net& net = run.learner().net();
  fmt::print("{}", to_string(nn::summary(net, net.options().input.spec(1))));
  if (!o.resume.empty()) fmt::print("resumed after {} {}s\n", run.learner().done(), run.learner().unit());
  std::fflush(stdout);
}

int stop_early(const CubeRun& run, const CubeOptions& o) {
  const std::string save = o.save.empty() ? free_name("cube") : o.save;
  save_whole([&] { run.save(save); });
  if (o.json)
    fmt::print("{}\n", Json{{"interrupted", true}, {"done", run.learner().done()}, {"saved", save}}.dump());
  else
    fmt::print("interrupted after {} {}s; saved. To go on:\n  windrow train cube --resume {}\n", run.learner().done(),
               run.learner().unit(), save);
  return kInterrupted;
}

void finish(CubeRun& run, const CubeOptions& o) {
  const FullCensus greedy = census(run.everything(), cube_distances(), kMoveLimit, 1);
  if (!o.save.empty()) save_whole([&] { run.save(o.save); });
  if (!o.report.empty())
    write_report(o.report, CubeReport{run, greedy, machine_rows(run.learner().train_step().threads())});
  if (o.json) {
    fmt::print("{}\n", Json{{"greedy", json_of(greedy)},
                            {"seconds", run.seconds()},
                            {"done", run.learner().done()},
                            {"moves", run.learner().moves()},
                            {"updates", run.learner().updates()}}
                           .dump());
    return;
  }
  fmt::print("trained for {}", text::duration(run.seconds()));
  if (run.settings().method == "dqn") {
    fmt::print(": {:.0f} episodes a minute, {} moves, {} training steps",
               60.0 * static_cast<double>(run.learner().done()) / run.seconds(), run.learner().moves(),
               run.learner().updates());
  }
  fmt::print("\ngreedy, within {} moves, all {} states:\n", kMoveLimit, greedy.all.states);
  print_census(greedy);
  if (!o.save.empty())
    fmt::print("model: {}   (windrow eval {} --all; windrow solve {} \"R U' F\")\n", o.save, o.save, o.save);
  if (!o.report.empty()) fmt::print("report: {}\n", o.report);
}

/// Whether the last point solves the largest share of what is looked at, every distance counting alike.
bool is_best(const std::vector<CubePoint>& history) {
  const auto share = [](const CubePoint& p) {
    double sum = 0;
    for (const double s : p.success) sum += std::max(s, 0.0);
    return sum;
  };
  return std::all_of(history.begin(), history.end(),
                     [&](const CubePoint& p) { return share(p) <= share(history.back()); });
}

int train(CubeOptions o) {
  const CubeSettings settings = settings_for(o);
  if (o.save.empty()) o.save = o.resume;
  check_outputs({{"--save", o.save}, {"--save", best_name(o.save)}, {"--report", o.report}});
  check_outputs({{"--report", o.report}}, {{"--resume", o.resume}});
  check_logs(o.logs, {{"--save", o.save}, {"--report", o.report}});
  const Resumed from = resumed(o.resume);
  CubeRun run(settings, o.threads, from.plan);
  if (!o.resume.empty()) run.load(o.resume);
  if (!o.json) print_start(run, o);
  warn_of(from, o.resume);
  CubePrinter printer(o.json, run.learner());
  std::vector<report::Point> so_far;
  for (const CubePoint& p : run.history()) so_far.push_back(point_of(p));
  Logs logs(o.logs, so_far);
  const Interruptible guard;
  const Budget budget(o.seconds);
  CubeWatch watch;
  watch.stop = [&] { return interrupted() || budget.is_over(); };
  watch.step = [&](const CubeProgress& p) { printer.step(p); };
  watch.point = [&](const CubePoint& p) {
    printer.point(p);
    logs.add(point_of(p));
    if (o.save.empty()) return;
    save_or_warn([&] { run.save(o.save); });
    if (is_best(run.history())) save_or_warn([&] { run.save(best_name(o.save)); });
  };
  const bool finished = run.train(watch);
  printer.clear();
  if (!finished && interrupted()) return stop_early(run, o);
  finish(run, o);
  return 0;
}

// ---- eval and solve ----

std::vector<std::int32_t> sampled_states(std::int64_t each) {
  const auto& distance = cube_distances();
  std::array<std::vector<std::int32_t>, kDistances> by;
  for (std::int32_t s = 0; s < PocketCube::kStates; ++s) by[distance[s]].push_back(s);
  Rng rng(1);
  std::vector<std::int32_t> list;
  for (auto& states : by) {
    const auto n = std::min(states.size(), static_cast<std::size_t>(each));
    for (std::size_t i = 0; i < n; ++i) {
      std::swap(states[i], states[i + rng.below(states.size() - i)]);
      list.push_back(states[i]);
    }
  }
  return list;
}

}  // namespace

int evaluate_cube(const EvalOptions& o) {
  const TrainedCube trained = load_cube(o.file);
  CubeJudge judge(trained.settings, trained.net, 4096, CompileOptions{"eval cube", o.threads, 0});
  const int limit = static_cast<int>(o.limit.value_or(kMoveLimit)), beam = static_cast<int>(o.beam.value_or(1));
  const std::string name = text::printable(o.file);
  if (!o.all) {
    const std::int64_t sample = o.sample.value_or(1000);
    const auto share = success(judge, sampled_states(sample), cube_distances(), limit);
    if (o.json) {
      fmt::print("{}\n", Json{{"app", "cube"}, {"success", Json::list_of(share)}}.dump());
      return 0;
    }
    fmt::print("{}: {}; greedy within {} moves, at most {} states of each distance (--all: every state)\n", name,
               trained.settings.method, limit, sample);
    for (std::size_t d = 0; d < kDistances; ++d) fmt::print("{:>4} {:>9.3f} %\n", d, 100 * share[d]);
    return 0;
  }
  const double start = seconds_now();
  const FullCensus result = census(judge.everything(), cube_distances(), limit, beam);
  if (o.json) {
    fmt::print("{}\n", json_of(result).dump());
    return 0;
  }
  fmt::print("{}: {}, net {}; all {} states within {} moves, {}, in {:.1f} s\n", name, trained.settings.method,
             trained.settings.hidden, result.all.states, limit,
             beam > 1 ? fmt::format("greedy, then a beam of {} for the {} that fail", beam, result.searched)
                      : std::string("greedy"),
             seconds_now() - start);
  print_census(result);
  return 0;
}

namespace {

struct SolveOptions {
  std::string file, moves;
  int threads = 0, beam = 1, limit = 40;
  std::uint64_t seed = 1;
  bool json = false;
};

/// As many random turns as mix the cube well, no face twice in a row.
std::vector<std::uint8_t> random_scramble(std::uint64_t seed) {
  constexpr int kTurns = 20, kTurnsOfAFace = 2;
  Rng rng(seed);
  std::vector<std::uint8_t> moves;
  while (std::ssize(moves) < kTurns) {
    const auto move = static_cast<std::uint8_t>(rng.below(PocketCube::kMoves));
    if (moves.empty() || moves.back() / kTurnsOfAFace != move / kTurnsOfAFace) moves.push_back(move);
  }
  return moves;
}

void print_cube(const StickerCube<2>& cube) {
  const bool colour = colours();
  for (const std::string& line : cube_lines(cube, colour)) fmt::print("  {}\n", line);
}

int solve_cube(const SolveOptions& o) {
  const PocketCube& cube = PocketCube::get();
  const auto scramble = o.moves.empty() ? random_scramble(o.seed) : parse_moves(o.moves, PocketCube::kMoves);
  const std::int32_t state = cube.turned(0, scramble);
  const TrainedCube trained = load_cube(o.file);
  CubeJudge judge(trained.settings, trained.net, 6 * o.beam, CompileOptions{"solve cube", o.threads, 0});
  if (o.moves.empty() && !o.json) fmt::print("scrambled by {}\n", print_moves(scramble));
  if (!o.json) print_cube(cube.stickers(state));
  const auto found = solve(state, o.beam, o.limit, [&](auto states, auto costs) { judge.costs(states, costs); });
  if (o.json) {
    Json answer{{"scramble", print_moves(scramble)}, {"solved", found.has_value()}};
    if (found) {
      answer["moves"] = found->size();
      answer["solution"] = print_moves(*found);
    }
    fmt::print("{}\n", answer.dump());
    return found ? 0 : 1;
  }
  if (!found) {
    fmt::print("no solution within {} moves; a wider --beam than {} may find one\n", o.limit, o.beam);
    return 1;
  }
  fmt::print("{} moves: {}\n", found->size(), found->empty() ? "it is solved" : print_moves(*found));
  print_cube(cube.stickers(cube.turned(state, *found)));
  return 0;
}

}  // namespace

void add_cube(Command program) {
  auto c = program.find("train").add("cube", "Learn to solve the 2x2x2 cube");
  auto o = std::make_shared<CubeOptions>();
  c.option("--preset", o->preset, "best: exact labels; label-free: value iteration; dqn: deep Q-learning")
      .type(fmt::format("{}", fmt::join(cube_presets(), "|")))
      .show_default();
  for (const auto& f : cube_fields()) {
    c.option(
         "--" + f.name, [o, name = f.name](const std::string& text) { o->given[name] = text; }, f.help)
        .type(f.type);
  }
  c.option("--seconds", o->seconds, "End after so many seconds of training, as if done").range(0.001, 1e9);
  c.option("--threads", o->threads, "Threads; the result does not depend on it").range(1, 1024);
  add_device_option(c);
  c.option("--save", o->save, "Checkpoint, written 20 times a run and on Ctrl-C; the best in NAME.best.safetensors")
      .type("FILE");
  c.option("--resume", o->resume, "Go on from a checkpoint; it is also saved to unless --save says where").type("FILE");
  c.option("--report", o->report, "Write an HTML page: success by distance, move counts, curves, plan").type("FILE");
  c.option("--log", o->logs, "Figures as they come: FILE.csv, FILE.jsonl, or a folder for TensorBoard; may be repeated")
      .type("FILE")
      .one_value_each();
  c.flag("--json", o->json, "One JSON object a line: measurements, then the result");
  c.does([o] { return train(*o); });

  auto s = program.add("solve", "Solve a 2x2x2 cube with a net of `windrow train cube`");
  auto so = std::make_shared<SolveOptions>();
  s.option("file", so->file, "Checkpoint").type("FILE").required();
  s.option("moves", so->moves,
           "The scramble: \"R U' F2\"; the corner DBL stays, so R U F are all the faces; without it, a random one")
      .type("MOVES");
  s.option("--seed", so->seed, "Of a random scramble").show_default();
  s.option("--beam", so->beam, "States kept at each depth; 1 is greedy").range(1, 100'000);
  s.option("--limit", so->limit, "Moves").range(1, 1000).show_default();
  s.option("--threads", so->threads, "Threads").range(1, 1024);
  s.flag("--json", so->json, "One JSON object");
  s.does([so] { return solve_cube(*so); });
}

}  // namespace wr::cli
