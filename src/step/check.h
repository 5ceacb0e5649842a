// CompileOptions::check: looks at what goes into a run and what comes out of it, and finds the op to blame.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "windrow/step.h"

namespace wr {

/// Arguments that are indices, and what they must be below. Labels are looked at before every run, as one out of range
/// can only be a mistake and would turn the whole loss into NaN; other indices where a step is checked, as one out of
/// range may be there to read nothing.
class ArgumentIndices {
 public:
  enum class Which { labels, all };
  void find(const ir::Graph& graph, Which which);
  /// What to say of an index that is out of range; nothing if all are in it.
  std::string complaint(std::span<const Array* const> arguments) const;

 private:
  struct Index {
    std::size_t argument;
    std::int64_t limit;
    std::string reader;  // the op
  };
  std::vector<Index> indices_;
};

class Checker {
 public:
  explicit Checker(std::shared_ptr<const ir::Graph> graph);

  /// Keeps the states' values, which the run will overwrite.
  void remember();
  /// Whether a result or a state is not finite. If so, the states have their old values again.
  bool spoilt(std::span<const Array> results);
  /// Computes everything once more, op by op, and throws with the first one that is not finite.
  [[noreturn]] void blame(std::span<const Array* const> arguments, Location where) const;

 private:
  std::shared_ptr<const ir::Graph> graph_;
  std::vector<std::shared_ptr<ir::Variable>> variables_;
  std::vector<Array> before_;
  bool not_a_number_ = false;  // in what was found
};

/// Whether a step is to be checked: as its options say, else WINDROW_CHECK, else debug builds check what trains.
bool is_checked(const CompileOptions& options, const ir::Graph& graph);

}  // namespace wr
