// What a Step holds.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/executor.h"
#include "plan/schedule.h"
#include "windrow/step.h"

namespace wr {

struct Step::Inside {
  Inside(std::shared_ptr<const ir::Graph> graph, const CompileOptions& options);
  ~Inside();

  CompileOptions options;
  std::shared_ptr<const ir::Graph> graph;  // optimised
  plan::Schedule schedule;
  std::optional<cpu::Executor> executor;
  std::vector<Array> outputs;
  std::vector<std::shared_ptr<const Array>> constants;  // keep the memory alive
  std::vector<std::shared_ptr<ir::Variable>> variables;
  StepFacts facts;
  int threads = 1;
  bool bound = false;
  bool watched = false;  // its profile is kept when it ends
};

std::string describe(const Step::Inside& step);

}  // namespace wr
