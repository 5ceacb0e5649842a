// What is seen of a training run while it runs: one line that is written over, plain lines, or JSON lines.
#pragma once

#include "apps/fashion/fashion.h"
#include "windrow/report.h"

namespace wr::apps {

class ProgressPrinter {
 public:
  ProgressPrinter(report::Form form, std::int64_t epochs) : progress_(form), epochs_(epochs) {}
  void step(const Progress& progress);
  void epoch(const Epoch& epoch);
  /// Removes the line that is being written over, so that something else can be printed.
  void clear() { progress_.clear(); }

 private:
  report::Progress progress_;
  std::int64_t epochs_;
};

}  // namespace wr::apps
