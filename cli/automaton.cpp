// windrow train life, checkerboard, ...: options, progress, several seeds. What is trained is in apps/automaton.h.
#include <fmt/format.h>

#include <algorithm>

#include "apps/automaton/show.h"
#include "base/json.h"
#include "cli/eval.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct Options {
  std::string task;
  std::map<std::string, std::string> given;
  int threads = 0, seeds = 1;
  std::string save, resume;
  std::vector<std::string> logs;
  bool json = false, published = false;
  double seconds = 0;
};

AutomatonSettings settings_for(const Options& o) {
  try {
    if (o.resume.empty()) {
      AutomatonSettings s = automaton_recipe(o.task, o.published ? Recipe::published : Recipe::ours);
      for (const auto& [name, text] : o.given) set(s, name, text);
      return s;
    }
    AutomatonSettings s = automaton_settings_of(read_safetensors_header(o.resume), o.resume);
    if (s.task != o.task) throw Error(fmt::format("{}: was trained on {}, not {}", o.resume, s.task, o.task));
    for (const auto& [name, text] : o.given) {
      AutomatonSettings changed = s;
      set(changed, name, text);
      if (name != "updates" && name != "finish" && to_texts(changed) != to_texts(s))
        throw Error(fmt::format("--{} {}: {} was trained with {} {}", name, text, o.resume, name, to_texts(s)[name]));
      s = changed;
    }
    return s;
  } catch (const Error& e) {
    if (!o.resume.empty()) throw;
    throw UsageError("train " + o.task, e.what());
  }
}

class Printer {
 public:
  explicit Printer(bool json) : progress_(form_of(json)) {}
  void update(const AutomatonProgress& p) {
    if (progress_.form() == report::Form::line) progress_.show(moment(p));
  }
  void look(const AutomatonProgress& p) {
    if (progress_.form() == report::Form::json)
      progress_.say(Json{
          {"update", p.update},
          {"search", p.search},
          {"soft", p.soft},
          {"hard", p.hard},
          {"sharpness", p.sharpness},
          {"hardness", p.hardness},
          {p.search > 0 ? "searches_per_second" : "updates_per_second",
           p.rate}}.dump());
    else if (progress_.form() == report::Form::plain)
      progress_.say(report::progress_line(moment(p), 0));
  }
  void clear() { progress_.clear(); }

 private:
  static report::Moment moment(const AutomatonProgress& p) {
    if (p.search > 0)
      return {.done = p.search,
              .unit = "search",
              .rate = p.rate,
              .rate_unit = "searches",
              .values = {{"hard loss", p.hard}},
              .note = fmt::format("ends after {} more in vain", p.searches_left)};
    return {.done = p.update,
            .total = p.updates,
            .unit = "update",
            .rate = p.rate,
            .values = {{"soft loss", p.soft}, {"hard loss", p.hard}, {"sharpness", p.sharpness}},
            .note = fmt::format("hard gates {:.0f} %", 100 * p.hardness),
            .seconds_left = p.seconds_left,
            .at_most = true};
  }
  report::Progress progress_;
};

void print_start(const AutomatonRun& run, const Options& o) {
  const AutomatonSettings& s = run.settings();
  fmt::print("{}: {} gates in {} layers, {}x{} cells, {} border, {} channels, {} steps, batch {}{}, seed {}\n", s.task,
             run.automaton().gate_count(), run.automaton().parameters().size(), s.height, s.width, s.border, s.channels,
             s.steps, s.batch, s.accumulate > 1 ? fmt::format(" x {}", s.accumulate) : "", s.seed);
  if (!o.resume.empty()) fmt::print("resuming {} after {} updates\n", o.resume, run.updates_done());
  std::fflush(stdout);
}

void print_end(const AutomatonRun& run, Outcome outcome, const Options& o) {
  const bool exact = outcome == Outcome::exact;
  if (o.json) {
    fmt::print("{}\n", Json{{"seed", run.settings().seed},
                            {"exact", exact},
                            {"updates", run.updates_done()},
                            {"restarts", run.restarts()},
                            {"seconds", run.seconds()}}
                           .dump());
  } else {
    fmt::print("seed {}: {} after {} updates{}{}, {}\n", run.settings().seed,
               exact ? "the hard circuit is exact" : "not exact", run.updates_done(),
               run.searches_done() > 0 ? fmt::format(" and {} searches", run.searches_done()) : "",
               run.restarts() > 0 ? fmt::format(" and {} restarts", run.restarts()) : "",
               text::duration(run.seconds()));
  }
  std::fflush(stdout);
}

/// The point with the least hard loss; of several, the last.
const LossPoint& best_point(const std::vector<LossPoint>& history) {
  return *std::min_element(history.rbegin(), history.rend(),
                           [](const LossPoint& a, const LossPoint& b) { return a.hard < b.hard; });
}

bool is_best(const std::vector<LossPoint>& history) { return &best_point(history) == &history.back(); }

void print_best(const AutomatonRun& run, const Options& o) {
  if (run.history().empty() || is_best(run.history())) return;
  const LossPoint& best = best_point(run.history());
  fmt::print("best:  {}   (update {}, hard loss {:.5f})\n", text::printable(best_name(o.save)), best.update, best.hard);
}

/// Saves what a stopped run has, and says how to go on.
int stop_early(const AutomatonRun& run, const Options& o) {
  const std::string file = o.save.empty() ? free_name(o.task) : o.save;
  save_whole([&] { run.save(file); });
  if (o.json)
    fmt::print("{}\n", Json{{"interrupted", true}, {"update", run.updates_done()}, {"saved", file}}.dump());
  else
    fmt::print("interrupted after {} updates; saved. To go on:\n  windrow train {} --resume {}\n", run.updates_done(),
               o.task, file);
  return kInterrupted;
}

/// One run; saves as it goes. Returns an exit code that is not 0 where the program is to end.
int train_one(const AutomatonSettings& settings, const Options& o, const Budget& budget, Outcome& outcome) {
  const Resumed from = resumed(o.resume);
  AutomatonRun run(settings, o.threads, from.plan);
  if (!o.resume.empty()) run.load(o.resume);
  if (!o.json) print_start(run, o);
  warn_of(from, o.resume);
  Printer printer(o.json);
  std::vector<report::Point> so_far;
  for (const LossPoint& p : run.history()) so_far.push_back(point_of(p));
  Logs logs(o.logs, so_far);
  AutomatonWatch watch;
  watch.stop = [&] { return interrupted() || budget.is_over(); };
  watch.update = [&](const AutomatonProgress& p) { printer.update(p); };
  double saved = 0;
  watch.look = [&](const AutomatonProgress& p) {
    printer.look(p);
    if (!run.history().empty()) logs.add(point_of(run.history().back(), run.seconds()));
    if (o.save.empty() || o.seeds > 1) return;
    if (is_best(run.history())) save_or_warn([&] { run.save(best_name(o.save)); });
    if (run.seconds() > saved + 10) {
      save_or_warn([&] { run.save(o.save); });
      saved = run.seconds();
    }
  };
  outcome = run.train(watch);
  printer.clear();
  if (outcome == Outcome::stopped && interrupted()) return stop_early(run, o);
  print_end(run, outcome, o);
  const bool worth_keeping = o.seeds == 1 || outcome == Outcome::exact;
  if (!o.save.empty() && worth_keeping) save_whole([&] { run.save(o.save); });
  if (!o.json && !o.save.empty() && o.seeds == 1) {
    fmt::print("model: {0}   (windrow circuit {0}; windrow run {0})\n", text::printable(o.save));
    if (outcome != Outcome::exact) print_best(run, o);
  }
  return 0;
}

int train(Options o) {
  AutomatonSettings settings = settings_for(o);
  if (o.save.empty()) o.save = o.resume;
  if (!o.resume.empty() && o.seeds > 1) throw UsageError("--seeds", "a resumed run has one seed");
  if (!o.logs.empty() && o.seeds > 1) throw UsageError("--log", "is of one training; leave out --seeds");
  check_outputs({{"--save", o.save}, {"--save", best_name(o.save)}});
  check_logs(o.logs, {{"--save", o.save}});
  const Interruptible guard;
  const Budget budget(o.seconds);
  int exact = 0;
  for (int i = 0; i < o.seeds; ++i, ++settings.seed) {
    Outcome outcome{};
    if (const int code = train_one(settings, o, budget, outcome); code != 0) return code;
    exact += outcome == Outcome::exact;
    if (outcome == Outcome::exact && o.seeds > 1) o.save.clear();  // the first exact one is kept
  }
  if (o.seeds == 1) return exact == 1 ? 0 : 1;
  if (o.json)
    fmt::print("{}\n", Json{{"seeds", o.seeds}, {"exact", exact}}.dump());
  else
    fmt::print("{} of {} seeds are exact within {} updates\n", exact, o.seeds, settings.updates);
  return 0;
}

}  // namespace

/// The circuit on bits: so many grids, each for as many steps as it was trained for.
int evaluate_automaton(const EvalOptions& o) {
  const TrainedAutomaton trained = load_automaton(o.file);
  const AutomatonSettings& s = trained.settings;
  const std::int64_t grids = grows_picture(s.task) && s.fire >= 1 ? 1 : o.grids.value_or(16);
  std::int64_t exact = 0;
  double right = 0;
  for (std::int64_t i = 0; i < grids; ++i) {
    AutomatonShow show(trained, s.height, s.width, static_cast<std::uint64_t>(i + 1));
    for (std::int64_t step = 0; step < s.steps; ++step) show.step();
    const double share = show.right().value_or(0);
    right += share / static_cast<double>(grids);
    exact += share == 1;
  }
  if (o.json)
    fmt::print("{}\n", Json{{"app", "automaton"},
                            {"task", s.task},
                            {"grids", grids},
                            {"exact", exact},
                            {"right", right},
                            {"gates", visible_circuit(trained).gates.size()}}
                           .dump());
  else
    fmt::print("{}: {}; {} grid{} of {}x{} cells after {} steps: {} exact, {:.3f} % of the cells are right\n",
               text::printable(o.file), s.task, grids, grids == 1 ? "" : "s", s.height, s.width, s.steps, exact,
               100 * right);
  return 0;
}

void add_automaton_tasks(Command train_command) {
  const std::map<std::string, std::string> what{
      {"life", "Conway's Life, learned from all boards of 3 x 3 cells"},
      {"checkerboard", "A cellular automaton of logic gates that makes a checkerboard of any start"},
      {"checkerboard-async", "The same where cells change at random times"},
      {"pattern", "An automaton that grows a picture of 20 x 20 cells from one cell"},
      {"colour", "An automaton that draws a picture in eight colours from nothing"}};
  for (const std::string& task : automaton_tasks()) {
    auto c = train_command.add(task, what.at(task));
    auto o = std::make_shared<Options>();
    o->task = task;
    const auto defaults = to_texts(automaton_recipe(task));
    for (const auto& f : automaton_fields()) {
      if (f.help.empty()) continue;
      c.option(
           "--" + f.name, [o, name = f.name](const std::string& text) { o->given[name] = text; },
           fmt::format("{} ({})", f.help, defaults.at(f.name)))
          .type(f.type);
    }
    if (grows_picture(task))
      c.option(
           "--picture", [o](const std::string& text) { o->given["picture"] = text; },
           "A PNG, made smaller to fit (default: a built-in drawing)")
          .type("FILE");
    c.option("--seeds", o->seeds, "Train so many, from --seed on; report how many are exact; --save keeps the first")
        .range(1, 100000);
    c.option("--seconds", o->seconds, "End after so many seconds of training").range(0.001, 1e9);
    c.option("--threads", o->threads, "Threads; the result does not depend on it").range(1, 1024);
    add_device_option(c);
    c.option("--save", o->save,
             "Checkpoint, written while training, at its end and on Ctrl-C; the best in NAME.best.safetensors")
        .type("FILE");
    c.option("--resume", o->resume, "Go on from a checkpoint").type("FILE");
    c.option("--log", o->logs,
             "Figures as they come: FILE.csv, FILE.jsonl, or a folder for TensorBoard; may be repeated")
        .type("FILE")
        .one_value_each();
    c.flag("--published", o->published, "Begin with the settings the task was published with");
    c.flag("--json", o->json, "One JSON object a line");
    c.does([o] { return train(*o); });
  }
}

}  // namespace wr::cli
