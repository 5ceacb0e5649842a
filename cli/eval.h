// What windrow eval is asked for, and who answers, by what the checkpoint is of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace wr::cli {

struct EvalOptions {
  std::string file, data;
  std::optional<std::int64_t> beam, limit, sample, grids;
  int threads = 0;
  bool all = false, json = false;
};

int evaluate_fashion(const EvalOptions& options);
int evaluate_cube(const EvalOptions& options);
int evaluate_automaton(const EvalOptions& options);

}  // namespace wr::cli
