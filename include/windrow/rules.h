// Tensor logic: programs of facts, rules and tensor equations, written as text; solved, queried, explained, and traced
// into steps to be learned. docs/rules.md describes the language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "windrow/array.h"
#include "windrow/tensor.h"

namespace wr::rules {

/// What "and", "or" and "exists" mean.
enum class Semantics { boolean, product, godel, lukasiewicz, sum, maxprod, minplus, ltn };
std::string_view to_string(Semantics semantics);
std::optional<Semantics> semantics_called(std::string_view name);

/// The answers to a query: a row of constants for each, in the order of their domains.
struct Answers {
  std::string query;                           // as it was asked
  std::vector<std::string> columns;            // the query's variables
  std::vector<std::vector<std::string>> rows;  // a query without variables has one row if it holds, else none
  std::vector<double> values;                  // one a row; empty where all are simply true
};
/// Columns aligned for people; tab-separated values with a header line; JSON.
std::string to_table(const Answers& answers);
std::string to_tsv(const Answers& answers);
std::string to_json(const Answers& answers);

struct SolveOptions {
  std::optional<Semantics> semantics = {};    // in place of the program's own
  int most_iterations = 0;                    // 0: as `@fixpoint` says, else 10,000
  double tolerance = -1;                      // negative: as `@fixpoint` says, else 1e-9
  std::size_t memory = std::size_t{4} << 30;  // a program that needs more is refused before it is allocated
};

/// What solving has cost, for reports.
struct SolveFacts {
  struct Line {
    std::string rule;  // as written
    int line = 0;
    double seconds = 0;
    std::int64_t found = 0;  // tuples, those known before included
  };
  int iterations = 0;
  double seconds = 0;
  std::vector<Line> rules;
};

struct TraceOptions {
  std::optional<Semantics> semantics = {};
  DType dtype = DType::f32;
  /// Recursion that follows no index is unrolled so many times; 0: as `@fixpoint` says.
  int iterations = 0;
};

struct TrainOptions {
  std::optional<Semantics> semantics = {};
  int steps = 0;  // 0: as `@minimize` says, else 1000
  double lr = 0;  // 0: as `@minimize` says, else 0.01
  /// Called after every so many steps with the step and the loss; false ends training.
  std::function<bool(int step, double loss)> progress = {};
  int every = 100;
  /// Asked after each step; true ends training, after a last call of `progress`.
  std::function<bool()> stop = {};
};
struct TrainReport {
  std::vector<double> losses;  // one a step
  double seconds = 0, compile_seconds = 0;
};

class Program {
 public:
  /// The name stands in messages. Throws Error `kin.wr:3:14: ...`. Files that it loads are found from where the process
  /// runs.
  static Program parse(std::string_view text, const std::string& name = "program");
  static Program parse_in_folder(std::string_view text, const std::string& folder, const std::string& name = "program");
  /// Files that the program loads are found from its own folder.
  static Program parse_file(const std::string& path);

  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  /// More facts: constants by name, a weight for each row or none.
  void add(const std::string& relation, const std::vector<std::vector<std::string>>& rows,
           const std::vector<double>& weights = {});
  /// From a file: .tsv and .csv have a tuple a line, .npy a whole tensor.
  void load(const std::string& relation, const std::string& path);
  /// A whole relation or tensor.
  void set(const std::string& name, const Array& values);

  /// Answers to one query, such as "Ancestor(Ann, y)" or "Parent(x, y), not Rich(x)". Only what it needs is derived.
  Answers query(std::string_view text, const SolveOptions& options = {}) const;
  /// Answers to the queries that stand in the program, in their order.
  std::vector<Answers> run(const SolveOptions& options = {}, SolveFacts* facts = nullptr) const;
  /// All tuples of one relation, or all elements of a tensor that are not zero.
  Answers relation(const std::string& name, const SolveOptions& options = {}, SolveFacts* facts = nullptr) const;
  /// The same as an array, an axis for each argument: bool in boolean semantics, else f64.
  Array array(const std::string& name, const SolveOptions& options = {}) const;
  /// Why something holds: a tree of rules and facts. Says so where it does not hold.
  std::string explain(std::string_view atom, const SolveOptions& options = {}) const;

  /// Inside compile(): a relation or tensor as a tensor, an axis for each argument. `inputs` take the place of facts,
  /// data and rules.
  Tensor trace(const std::string& name, const std::map<std::string, Tensor>& inputs = {},
               const TraceOptions& options = {});
  /// How far all constraints hold, in [0, 1]: the mean of their values by their weights.
  Tensor trace_constraints(const std::map<std::string, Tensor>& inputs = {}, const TraceOptions& options = {});
  /// What is learned, once it was traced, trained or loaded: tensors, and logits of relations, rule weights and
  /// choices.
  std::vector<State> parameters() const;
  /// Minimises what `@minimize` names; `@minimize constraints` minimises 1 - trace_constraints(). Called again, also
  /// after save() and restore(), it goes on where it ended, the optimiser's moments too.
  TrainReport train(const TrainOptions& options = {});
  /// Rules with the weights and choices they have learned, as text.
  std::string learned() const;
  void save(const std::string& path) const;
  void restore(const std::string& path);
  /// What another program, of which this one is a further state, has learned: whatever means the same here, with the
  /// same constants. The names of the rest, which is learned anew.
  std::vector<std::string> adopt_learned(const Program& other);

  /// The gradient of a tensor with one element by relations, tensors or parameters, at a fixpoint: by the adjoint
  /// fixpoint, without unrolling.
  std::map<std::string, Array> gradient(const std::string& loss, const std::vector<std::string>& by,
                                        const SolveOptions& options = {}) const;
  /// The same by each fact of a relation: a row a fact. A relation of few tuples stays a list, where an array of all of
  /// its cells would not fit.
  Answers gradient_by_facts(const std::string& loss, const std::string& relation,
                            const SolveOptions& options = {}) const;

  /// What the program may mean and probably does not: inputs without data, constants that nothing gives (a variable
  /// with a capital). `kin.wr:3:14: ...`
  std::vector<std::string> notes() const;
  /// Names of the relations and tensors that are declared or used.
  std::vector<std::string> names() const;
  /// The semantics that is used where nothing else is said.
  Semantics semantics() const;

  struct Inside;
  const Inside& inside() const { return *inside_; }

 private:
  friend class Batches;
  explicit Program(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

/// A program's text in the standard layout, comments kept.
std::string format_text(std::string_view text, const std::string& name = "program");

}  // namespace wr::rules
