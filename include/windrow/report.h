// What is seen of a training while it runs and what it leaves: a progress line, logs (CSV, JSON lines, TensorBoard),
// learning curves, an HTML page, several runs on one page. `windrow train` is made of it, and so can your program be:
//
//   wr::report::Run run({.name = "mlp", .total = 1000, .logs = {"run.csv", "runs/mlp"}, .page = "run.html"});
//   for (int step = 1; step <= 1000; ++step) {
//     const float loss = train(image, label);
//     run.step(step, {{"loss", loss}});                          // the progress line
//     if (step % 100 == 0) run.point(step, {{"loss", loss}});    // stays: printed, logged, drawn
//   }
//   run.finish();                                                // writes the page
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wr::report {

/// Figures by name: {{"loss", 0.31}, {"validation loss", 0.35}}.
using Values = std::vector<std::pair<std::string, double>>;
using Texts = std::vector<std::pair<std::string, std::string>>;

// ---- while it runs ----

/// How progress is shown: one line that is written over; a line now and then; JSON lines; not at all. `automatic` is
/// `line` on a terminal and `plain` elsewhere.
enum class Form { automatic, line, plain, json, none };
Form resolve(Form form);

/// What the progress line says.
struct Moment {
  std::int64_t done = 0, total = 0;  // total 0: nobody knows; no bar, no time left
  std::string unit = "step";
  double rate = 0;  // per second; 0: not known
  std::string rate_unit = {};
  Values values = {};
  std::string note = {};     // in words, after the figures
  double seconds_left = -1;  // below 0: not known
  bool at_most = false;      // the time left is an upper limit
};
/// It as one line of at most so many columns. The bar goes first where there is no room, then the end.
/// 0: all of it, without a bar.
std::string progress_line(const Moment& moment, int columns);

/// The line itself, written over at most ten times a second; plain: written at most twice a minute.
class Progress {
 public:
  explicit Progress(Form form = Form::automatic);
  void show(const Moment& moment);
  /// A line that stays. Where it is JSON that is shown, it is printed as it is given.
  void say(std::string_view line);
  /// Removes the line that is being written over, so that something else can be printed.
  void clear();
  Form form() const { return form_; }

 private:
  Form form_;
  double next_ = 0;  // when a line may be written again
  bool shown_ = false;
};

// ---- what it leaves ----

/// What was recorded of a run.
struct Point {
  std::int64_t step = 0;
  double seconds = 0;  // since the run began
  Values values = {};
};
struct History {
  std::string name;
  std::vector<Point> points;
};

/// A log that a run writes as it goes. By the end of its name: ".csv"; ".jsonl" or ".json" for an object a line; else a
/// folder for TensorBoard. Every point is in the file when add() returns. Throws Error with the path and what is wrong.
class Log {
 public:
  /// `from`: what a resumed run has recorded so far; the log begins with it.
  explicit Log(const std::string& path, const std::vector<Point>& from = {});
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;
  void add(const Point& point);

  struct Sink;

 private:
  std::unique_ptr<Sink> sink_;
};

/// Reads back what a Log wrote: a CSV file, JSON lines, or a folder or file of TensorBoard, whoever wrote them. The
/// column or member "step" (else "epoch", else the number of the line) is the step; "seconds" the time. What is no
/// number is left out.
History read_log(const std::string& path);

/// An HTML page in one file that loads nothing: sections from top to bottom. Texts are escaped, `html` is not.
class Page {
 public:
  explicit Page(const std::string& title, const std::string& subtitle = "trained by windrow");
  Page& heading(const std::string& text);
  Page& note(const std::string& text);
  /// Figures in boxes: what it is, its value.
  Page& facts(const Texts& facts);
  /// Two columns: name and value.
  Page& table(const Texts& rows);
  /// A row for each, below `head`.
  Page& table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);
  /// Pictures (SVG) side by side, with what stands under them. Empty ones are left out.
  Page& figures(const std::vector<std::pair<std::string, std::string>>& svg_and_caption);
  /// Long text that is folded away.
  Page& folded(const std::string& summary, const std::string& text);
  Page& html(std::string_view html);
  std::string text() const;
  void write(const std::string& path) const;  // as write_file(): complete or not at all

 private:
  std::string body_;
};

/// Charts of what was recorded: "loss" and "validation loss" stand in one; what has no values in none. Pairs of picture
/// and caption, as Page::figures takes them.
std::vector<std::pair<std::string, std::string>> curves(const History& history, const std::string& unit = "step");
/// Several runs: a chart for each figure with a curve a run, and tables of the last and the best values.
Page compare(const std::vector<History>& runs, const std::string& title);

// ---- all of it in one ----

struct RunOptions {
  std::string name = "run";
  std::int64_t total = 0;  // steps in all; 0: not known
  std::string unit = "step";
  double each = 1;  // what a step is worth in rate_unit: 64 and "images"
  std::string rate_unit = {};
  std::vector<std::string> logs = {};  // as Log takes them
  std::string page = {};               // an HTML file; none: no page
  Texts settings = {};                 // for the page
  Form form = Form::automatic;
};

class Run {
 public:
  /// Logs are opened and the page is tried at once: what cannot be written is known before the training.
  explicit Run(RunOptions options);
  /// The progress line: rate, time left and these figures.
  void step(std::int64_t done, const Values& values = {});
  /// Figures that stay: printed, logged, and a point of the curves.
  void point(std::int64_t done, const Values& values);
  /// A figure of the page's first row: {"test accuracy", "91.2 %"}.
  void fact(const std::string& name, const std::string& value);
  /// Ends the progress line and writes the page.
  void finish();
  const History& history() const { return history_; }

 private:
  double seconds() const;
  RunOptions options_;
  Progress progress_;
  std::vector<Log> logs_;
  History history_;
  Texts facts_;
  double begin_;
  // The rate is that of the last seconds: where the measuring began, and before.
  double mark_time_;
  std::int64_t mark_done_ = 0;
  double rate_ = 0;
};

}  // namespace wr::report
