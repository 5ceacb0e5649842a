// Progress, logs, curves and page of a run in one.
#include <fmt/format.h>

#include "base/json.h"
#include "windrow/clock.h"
#include "windrow/files.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::report {
namespace {

constexpr double kSecondsOfARate = 2;

}  // namespace

Run::Run(RunOptions options)
    : options_(std::move(options)), progress_(options_.form), begin_(seconds_now()), mark_time_(begin_) {
  std::vector<Output> outputs;
  for (const std::string& path : options_.logs)
    if (path.ends_with(".csv") || path.ends_with(".json") || path.ends_with(".jsonl")) outputs.push_back({"log", path});
  outputs.push_back({"page", options_.page});
  try_outputs(outputs);
  for (const std::string& path : options_.logs) logs_.emplace_back(path);
  history_.name = options_.name;
}

double Run::seconds() const { return seconds_now() - begin_; }

void Run::step(std::int64_t done, const Values& values) {
  const double time = seconds_now();
  if (time - mark_time_ >= kSecondsOfARate || rate_ == 0) {
    if (time > mark_time_) rate_ = static_cast<double>(done - mark_done_) / (time - mark_time_);
    if (time - mark_time_ >= kSecondsOfARate) {
      mark_time_ = time;
      mark_done_ = done;
    }
  }
  Moment moment{.done = done,
                .total = options_.total,
                .unit = options_.unit,
                .rate = rate_ * options_.each,
                .rate_unit = options_.rate_unit,
                .values = values};
  if (options_.total > 0 && rate_ > 0) moment.seconds_left = static_cast<double>(options_.total - done) / rate_;
  progress_.show(moment);
}

void Run::point(std::int64_t done, const Values& values) {
  history_.points.push_back({done, seconds(), values});
  const Point& point = history_.points.back();
  for (Log& log : logs_) log.add(point);
  if (progress_.form() == Form::json) {
    Json line{{options_.unit, done}, {"seconds", point.seconds}};
    for (const auto& [name, value] : values) line[name] = value;
    return progress_.say(line.dump());
  }
  std::string line = fmt::format("{} {}", options_.unit, done);
  if (options_.total > 0)
    line = fmt::format("{} {:>{}}/{}", options_.unit, done, fmt::formatted_size("{}", options_.total), options_.total);
  for (const auto& [name, value] : values) line += fmt::format("  {} {:.4g}", text::printable(name), value);
  progress_.say(line + "  " + text::clock(point.seconds));
}

void Run::fact(const std::string& name, const std::string& value) { facts_.emplace_back(name, value); }

void Run::finish() {
  progress_.clear();
  if (options_.page.empty()) return;
  Page page(options_.name);
  Texts facts = facts_;
  facts.emplace_back("time", text::duration(seconds()));
  if (!history_.points.empty()) facts.emplace_back(options_.unit + "s", std::to_string(history_.points.back().step));
  page.facts(facts).heading("Learning").figures(curves(history_, options_.unit));
  if (!options_.settings.empty()) page.heading("Settings").table(options_.settings);
  page.write(options_.page);
}

}  // namespace wr::report
