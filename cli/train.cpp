// windrow train: options, Ctrl-C and what is printed. What is trained is in apps/fashion.h.
#include "cli/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/fashion/fashion.h"
#include "apps/fashion/progress.h"
#include "apps/fashion/report.h"
#include "base/json.h"
#include "cli/session.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct TrainOptions {
  Texts given;
  int threads = 0;
  std::string save, resume, report;
  bool json = false;
  double seconds = 0;
  std::vector<std::string> augment, logs;
};

/// --augment shift=2 flip noise=0.1 as settings.
void add_augment(TrainOptions& o) {
  if (o.augment.empty()) return;
  o.given["shift"] = "0";
  o.given["flip"] = "no";
  o.given["noise"] = "0";
  for (const std::string& part : o.augment) {
    const auto cut = part.find('=');
    const std::string name = part.substr(0, cut), value = cut == std::string::npos ? "" : part.substr(cut + 1);
    if (part == "none") continue;
    if (part == "flip")
      o.given["flip"] = "yes";
    else if ((name == "shift" || name == "noise") && !value.empty())
      o.given[name] = value;
    else
      throw UsageError("--augment", "'" + part + "' is none of shift=PIXELS, flip, noise=DEVIATION, none");
  }
}

/// Settings from the command line, with the mistakes of its user as usage errors.
Settings settings_for(const TrainOptions& o) {
  try {
    if (!o.resume.empty())
      return merge(settings_of(read_safetensors_header(o.resume).metadata, o.resume), o.given, o.resume);
    const auto net = o.given.find("net");
    Settings s = recipe(net == o.given.end() ? "cnn" : net->second);
    for (const auto& [name, text] : o.given) set(s, name, text);
    return s;
  } catch (const Error& e) {
    if (!o.resume.empty()) throw;
    throw UsageError("train", e.what());
  }
}

void print_start(const TrainingRun& run, const TrainOptions& o) {
  const Settings& s = run.settings();
  const Images& images = run.images();
  if (s.data.empty() && data::find_fashion_mnist().empty()) {
    fmt::print(
        "Fashion-MNIST is not installed (Debian: apt install dataset-fashion-mnist) and no --data DIR was given:\n"
        "training on drawn digits instead.\n");
  }
  fmt::print("{}: {} images to train on, {} for validation, {} for the test\n", images.train.name, images.train.count(),
             images.validation.count(), images.test.count());
  std::int64_t parameters = 0;
  for (const State& p : run.net().parameters()) parameters += p.shape().count();
  fmt::print("net {}: {} parameters; {} epochs of batches of {}, {} with lr {} ({}), {} threads\n", s.net, parameters,
             s.epochs, s.batch, s.optim, s.lr, s.schedule, run.step().threads());
  fmt::print("{}", to_string(nn::summary(run.net(), f32(1, kSide, kSide, 1))));
  if (!o.resume.empty())
    fmt::print("resuming {} after {} steps, {} of training\n", o.resume, run.steps_done(),
               text::duration(run.seconds()));
}

int stop_early(const TrainingRun& run, std::string save, bool json) {
  if (save.empty()) save = free_name("fashion-" + run.settings().net);
  save_whole([&] { run.save(save); });
  if (json)
    fmt::print("{}\n", Json{{"interrupted", true}, {"step", run.steps_done()}, {"saved", save}}.dump());
  else
    fmt::print("interrupted after {} steps; saved. To go on:\n  windrow train fashion --resume {}\n", run.steps_done(),
               save);
  return kInterrupted;
}

/// By what was not trained on, where some was put aside.
const Epoch& best_epoch(const std::vector<Epoch>& history) {
  return *std::max_element(history.begin(), history.end(), [](const Epoch& a, const Epoch& b) {
    return a.validation_accuracy.value_or(a.accuracy) < b.validation_accuracy.value_or(b.accuracy);
  });
}

void print_best(const TrainingRun& run, const TrainOptions& o) {
  if (run.history().empty()) return;
  const Epoch& best = best_epoch(run.history());
  if (best.number == run.history().back().number) return;
  fmt::print("best:  {}   (epoch {}, {} accuracy {:.2f} %)\n", text::printable(best_name(o.save)), best.number,
             best.validation_accuracy ? "validation" : "training",
             100 * best.validation_accuracy.value_or(best.accuracy));
}

void finish(TrainingRun& run, const TrainOptions& o) {
  const Evaluation result = run.test();
  if (!o.report.empty()) write_report(o.report, {run, result, machine_rows(run.step().threads())});
  const Json rate = run.history().empty() ? Json() : Json(run.history().back().rate);  // of a whole epoch
  if (o.json) {
    fmt::print("{}\n", Json{{"test_accuracy", result.accuracy},
                            {"test_loss", result.loss},
                            {"seconds", run.seconds()},
                            {"images_per_second", rate}}
                           .dump());
    return;
  }
  fmt::print("test: loss {:.4f}, accuracy {:.2f} %; trained for {}\n", result.loss, 100 * result.accuracy,
             text::duration(run.seconds()));
  if (!o.save.empty()) {
    fmt::print("model: {0}   (windrow eval {0})\n", text::printable(o.save));
    print_best(run, o);
  }
  if (!o.report.empty()) fmt::print("report: {}\n", o.report);
}

int train(TrainOptions o) {
  add_augment(o);
  const Settings settings = settings_for(o);
  if (o.save.empty()) o.save = o.resume;
  check_outputs({{"--save", o.save}, {"--save", best_name(o.save)}, {"--report", o.report}});
  check_outputs({{"--report", o.report}}, {{"--resume", o.resume}});
  check_logs(o.logs, {{"--save", o.save}, {"--report", o.report}});
  const Resumed from = resumed(o.resume);
  TrainingRun run(settings, read_images(settings.data), o.threads, from.plan);
  if (!o.resume.empty()) run.load(o.resume, o.given.contains("lr") ? std::optional<double>(settings.lr) : std::nullopt);
  if (!o.json) print_start(run, o);
  warn_of(from, o.resume);
  std::fflush(stdout);
  ProgressPrinter printer(form_of(o.json), settings.epochs);
  Logs logs(o.logs, history_of(run.history()).points);
  const Interruptible guard;
  const Budget budget(o.seconds);
  bool saved = !o.save.empty();
  Watch watch;
  watch.stop = [&] { return interrupted() || budget.is_over(); };
  watch.step = [&](const Progress& p) { printer.step(p); };
  watch.epoch = [&](const Epoch& e) {
    printer.epoch(e);
    logs.add(point_of(e));
    if (o.save.empty()) return;
    saved = save_or_warn([&] { run.save(o.save); });
    if (best_epoch(run.history()).number == e.number) save_or_warn([&] { run.save(best_name(o.save)); });
  };
  const bool finished = run.train(watch);
  printer.clear();
  if (!finished && interrupted()) return stop_early(run, o.save, o.json);
  if (!finished && !o.save.empty()) saved = save_or_warn([&] { run.save(o.save); });
  const bool unsaved = !o.save.empty() && !saved;
  if (unsaved) o.save.clear();  // it is not there to be named
  finish(run, o);
  return unsaved ? 1 : 0;
}

}  // namespace

void add_train(Command program) {
  auto train_command = program.add("train", "Train a net; `windrow train fashion` on Fashion-MNIST");
  train_command.one_of_its_commands();
  auto c = train_command.add("fashion", "Classify 28x28 images: Fashion-MNIST, MNIST, or drawn digits");
  auto o = std::make_shared<TrainOptions>();
  for (const auto& f : fashion_fields())
    if (!f.help.empty())
      c.option(
           "--" + f.name, [o, name = f.name](const std::string& text) { o->given[name] = text; }, f.help)
          .type(f.type);
  c.option("--augment", o->augment, "Random changes to the images: shift=2 flip noise=0.1, or none").type("...");
  c.option("--seconds", o->seconds, "End after so many seconds of training, as if done").range(0.001, 1e9);
  c.option("--threads", o->threads, "Threads; the result does not depend on it").range(1, 1024);
  add_device_option(c);
  c.option("--save", o->save,
           "Checkpoint, written after every epoch and on Ctrl-C; the best epoch in NAME.best.safetensors")
      .type("FILE");
  c.option("--resume", o->resume, "Go on from a checkpoint; it is also saved to unless --save says where").type("FILE");
  c.option("--report", o->report, "Write an HTML page: curves, confusion matrix, mistakes, plan").type("FILE");
  c.option("--log", o->logs, "Figures as they come: FILE.csv, FILE.jsonl, or a folder for TensorBoard; may be repeated")
      .type("FILE")
      .one_value_each();
  c.flag("--json", o->json, "One JSON object a line: each epoch, then the result");
  c.does([o] { return train(*o); });
  add_automaton_tasks(train_command);
}

}  // namespace wr::cli
