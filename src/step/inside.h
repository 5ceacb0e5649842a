// What a Step holds.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "plan/schedule.h"
#include "windrow/step.h"

namespace wr {

struct Step::Inside {
  /// On the CPU, or on another backend.
  Inside(std::shared_ptr<const ir::Graph> graph, const CompileOptions& options);
  Inside(std::shared_ptr<const ir::Graph> graph, const CompileOptions& options, const backend::Backend& backend);
  ~Inside();

  CompileOptions options;
  std::shared_ptr<const ir::Graph> graph;  // optimised
  plan::Schedule schedule;
  std::unique_ptr<backend::Executor> executor;
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
