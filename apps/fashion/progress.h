// What is seen of a training run while it runs: one line that is written over, plain lines, or JSON lines.
#pragma once

#include <string>

#include "apps/fashion/fashion.h"

namespace wr::apps {

enum class Form { line, plain, json };

class ProgressPrinter {
 public:
  ProgressPrinter(Form output, std::int64_t epochs) : output_(output), epochs_(epochs) {}
  void step(const Progress& progress);
  void epoch(const Epoch& epoch);
  /// Removes the line that is being written over, so that something else can be printed.
  void clear();

 private:
  Form output_;
  std::int64_t epochs_;
  double next_ = 0;  // when the line may be written again
  bool shown_ = false;
};

}  // namespace wr::apps
