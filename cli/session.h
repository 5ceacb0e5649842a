// What all training commands share: Ctrl-C, files that must be writable, the machine's description.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/planned_for.h"
#include "cli/options.h"
#include "windrow/files.h"
#include "windrow/report.h"

namespace wr::cli {

constexpr int kInterrupted = 130;  // as shells have it: 128 + SIGINT

/// Ctrl-C, a terminal that is closed, a pipe that nobody reads any more and a system that shuts down ask for a stop
/// while this lives; a second Ctrl-C ends the program at once. Signals that were ignored before (nohup, a job in the
/// background) stay ignored.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  std::array<void (*)(int), 4> old_{};
};
bool interrupted();

/// Lets a checkpoint be written whole, however often Ctrl-C is pressed meanwhile.
void save_whole(const std::function<void()>& save);
/// In the middle of training: a disk that is full now may not be later, so training goes on. False if nothing was
/// saved.
bool save_or_warn(const std::function<void()>& save);

/// Where an interrupted run goes when nobody said where: "NAME.safetensors", or the first of "NAME-2.safetensors", ...
/// that is not taken; in the folder for temporary files where the current one cannot be written to.
std::string free_name(const std::string& name);

/// Where the best state of a training is kept beside the last one: "run.best.safetensors" for "run.safetensors".
std::string best_name(const std::string& path);

/// The time after which a training ends by itself as if it were done: as asked (0: not at all), else WINDROW_SECONDS,
/// else never.
class Budget {
 public:
  explicit Budget(double seconds);
  bool is_over() const;

 private:
  double end_;
};

/// The logs that --log asks for, beginning with what a resumed run has recorded. A point that cannot be written is said
/// once; training goes on.
class Logs {
 public:
  Logs(const std::vector<std::string>& paths, const std::vector<report::Point>& from);
  void add(const report::Point& point);

 private:
  std::vector<report::Log> logs_;
};

/// How progress is to be shown.
report::Form form_of(bool json);

/// Finds out before the work begins that a file cannot be written, that two would be the same, or that one would be
/// written over what is still to be read.
void check_outputs(std::initializer_list<Output> outputs, std::initializer_list<Output> inputs = {});

/// The same for --log: that its files can be written and are none of the others.
void check_logs(const std::vector<std::string>& logs, std::initializer_list<Output> others);

/// Whether text on the terminal may have colours: it is one, and NO_COLOR (no-color.org) is not set.
bool colours();

/// Says so where a run that goes on from a file is not bit for bit the uninterrupted one.
void warn_of(const apps::Resumed& from, const std::string& file);

std::vector<std::pair<std::string, std::string>> machine_rows(int threads);

/// --device, for all steps that the command compiles.
void add_device_option(Command command);

}  // namespace wr::cli
