// CompileOptions::check: looks at what goes into a run and what comes out of it, and finds the op to blame.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "windrow/step.h"

namespace wr {

class Checker {
 public:
  explicit Checker(std::shared_ptr<const ir::Graph> graph);

  /// Throws for an index among the arguments that is out of range.
  void expect_indices(std::span<const Array* const> arguments, Location where) const;
  /// Keeps the states' values, which the run will overwrite.
  void remember();
  /// Whether a result or a state is not finite. If so, the states have their old values again.
  bool spoilt(std::span<const Array> results);
  /// Computes everything once more, op by op, and throws with the first one that is not finite.
  [[noreturn]] void blame(std::span<const Array* const> arguments, Location where) const;

 private:
  /// An operand that holds indices, as it comes with the arguments.
  struct Index {
    int node;  // that reads it
    std::size_t argument;
    std::int64_t limit;
  };
  std::shared_ptr<const ir::Graph> graph_;
  std::vector<Index> indices_;
  std::vector<std::shared_ptr<ir::Variable>> variables_;
  std::vector<Array> before_;
  bool not_a_number_ = false;  // in what was found
};

/// Whether a step is to be checked: as its options say, else WINDROW_CHECK, else debug builds check what trains.
bool is_checked(const CompileOptions& options, const ir::Graph& graph);

}  // namespace wr
