// The page a training run leaves: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/fashion/fashion.h"

namespace wr::apps {

struct Report {
  const TrainingRun& run;
  const Evaluation& test;
  std::vector<std::pair<std::string, std::string>> machine;  // what is known of it: name, value
};

std::string report_html(const Report& report);
/// The file appears complete or not at all.
void write_report(const std::string& path, const Report& report);

}  // namespace wr::apps
