// windrow tune: rows a second over batch sizes, measured, and which one to take.
#include <fmt/format.h>

#include "apps/fashion/fashion.h"
#include "base/json.h"
#include "bench/case.h"
#include "cli/profile.h"
#include "cli/session.h"
#include "windrow/bench.h"
#include "windrow/chart.h"
#include "windrow/files.h"
#include "windrow/rules_batches.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct TuneOptions {
  std::int64_t from = 1, to = 4096;
  double seconds = 0.3;
  int threads = 0;
  bool json = false;
  std::string svg, net = "cnn", data, family, file, domain, result;
};

std::int64_t memory_of(const Step& step) {
  return static_cast<std::int64_t>(step.facts().peak_bytes() + step.facts().state_bytes);
}

std::string curve_of(const bench::BatchAdvice& advice, const std::string& title) {
  chart::Lines lines;
  lines.title = title;
  lines.x_label = "batch";
  lines.y_label = "rows a second";
  lines.log_x = lines.log_y = true;
  chart::Series s{"measured", {}, {}};
  for (const bench::BatchPoint& p : advice.points) {
    s.x.push_back(static_cast<double>(p.batch));
    s.y.push_back(p.per_second);
  }
  lines.series = {s};
  return chart::lines(lines);
}

int report(const TuneOptions& o, const bench::BatchAdvice& advice, const std::string& title) {
  if (o.json) {
    Json points = Json::list();
    for (const bench::BatchPoint& p : advice.points)
      points.push_back({{"batch", p.batch}, {"us", p.us}, {"rows_per_second", p.per_second}, {"bytes", p.bytes}});
    fmt::print("{}\n", Json{{"tuned", title}, {"batch", advice.batch}, {"points", points}}.dump());
  } else {
    fmt::print("{}\n{}", title, advice.to_table());
  }
  if (!o.svg.empty()) write_file(o.svg, curve_of(advice, title));
  if (!o.svg.empty() && !o.json) fmt::print("wrote {}\n", text::printable(o.svg));
  return 0;
}

std::vector<std::int64_t> batches(const TuneOptions& o) {
  if (o.from > o.to) throw UsageError("--from", "is larger than --to");
  return bench::powers_of_two(o.from, o.to);
}

/// Loading and augmenting the images counts: it is part of a training run.
int tune_fashion(const TuneOptions& o) {
  check_outputs({{"--svg", o.svg}});
  Settings settings = recipe(o.net);
  settings.data = o.data;
  settings.epochs = 1'000'000;  // no end while measuring
  const data::Split images = read_images(settings.data);
  const auto make = [&](std::int64_t batch) {
    settings.batch = batch;
    auto run = std::make_shared<TrainingRun>(settings, images, o.threads);
    Watch one_step;
    one_step.stop = [] { return true; };
    return bench::BatchWork{[run, one_step] { run->train(one_step); }, memory_of(run->step())};
  };
  return report(o, bench::tune_batch(make, batches(o), o.seconds), "train fashion --net " + o.net);
}

int tune_bench(const TuneOptions& o) {
  check_outputs({{"--svg", o.svg}});
  const auto of_batch = [&](std::int64_t batch) {
    try {
      return bench::case_named(fmt::format("{}_b{}", o.family, batch));
    } catch (const Error&) {
      throw Error(fmt::format(
          "tune bench: no family '{}'; a name of `windrow bench --list` that ends in _bN, without that end", o.family));
    }
  };
  const auto make = [&](std::int64_t batch) {
    const bench::Case c = of_batch(batch);
    auto p = std::make_shared<bench::Prepared>(c.prepare(o.threads));
    std::vector<const Array*> arguments;
    for (const Array& a : p->arguments) arguments.push_back(&a);
    p->step.run(arguments);
    return bench::BatchWork{[p] { p->step.again(); }, memory_of(p->step)};
  };
  return report(o, bench::tune_batch(make, batches(o), o.seconds), "bench " + o.family);
}

/// What a program makes of so many constants of a domain at a time; the numbers do not matter, so they are random.
int tune_rules(const TuneOptions& o) {
  check_outputs({{"--svg", o.svg}});
  const rules::Program program = rules::Program::parse_file(o.file);
  const std::vector<std::string> inputs = rules::in_domain(program, o.domain);
  const auto make = [&](std::int64_t batch) {
    auto work =
        std::make_shared<rules::Batches>(program, o.domain, inputs, std::vector<std::string>{o.result},
                                         rules::BatchOptions{.batch = batch, .compile = {.threads = o.threads}});
    std::vector<Array> rows;
    for (std::size_t i = 0; i < inputs.size(); ++i) rows.push_back(bench::random_normal(work->input_spec(i).shape, i));
    std::vector<const Array*> arguments;
    for (const Array& a : rows) arguments.push_back(&a);
    Step& step = work->step();
    step.run(arguments);
    return bench::BatchWork{[work, rows] { work->step().again(); }, memory_of(step)};
  };
  return report(o, bench::tune_batch(make, batches(o), o.seconds), "rules " + o.file + ", " + o.domain);
}

void add_common(Command c, TuneOptions& o) {
  c.option("--from", o.from, "Smallest batch; doubled until --to").range(1, 1 << 20).show_default();
  c.option("--to", o.to, "Largest batch").range(1, 1 << 20).show_default();
  c.option("--seconds", o.seconds, "Time for each batch size").range(0.01, 600.0).show_default();
  c.option("--threads", o.threads, "Threads").range(1, 1024);
  c.option("--svg", o.svg, "Write the curve").type("FILE");
  c.flag("--json", o.json, "One JSON object");
}

}  // namespace

void add_tune(Command program) {
  auto tune = program.add("tune", "Measure rows a second over batch sizes and suggest one");
  tune.one_of_its_commands();
  auto o = std::make_shared<TuneOptions>();
  auto train = tune.add("train", "A training run");
  train.one_of_its_commands();
  auto fashion = train.add("fashion", "windrow train fashion");
  fashion.option("--net", o->net, "Which net").one_of(net_names()).show_default();
  fashion.option("--data", o->data, "Folder with MNIST's four files").type("DIR");
  add_common(fashion, *o);
  fashion.does([o] { return tune_fashion(*o); });
  auto bench = tune.add("bench", "A benchmark case");
  bench.option("family", o->family, "Its name without the batch: dqn_step, mlp_step, plain_mlp_784_128_10, ...")
      .required();
  add_common(bench, *o);
  bench.does([o] { return tune_bench(*o); });
  auto rules = tune.add("rules", "A program of rules, run on some constants of a domain at a time");
  rules.option("file", o->file, "The program").required();
  rules.option("--batches", o->domain, "The domain").type("DOMAIN").required();
  rules.option("--write", o->result, "The relation or tensor that is wanted").type("NAME").required();
  add_common(rules, *o);
  rules.does([o] { return tune_rules(*o); });
}

}  // namespace wr::cli
