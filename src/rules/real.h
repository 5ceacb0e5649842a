// Solving in real-valued semantics: components in their order, each compiled; recursion by running a compiled step
// until nothing changes any more.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "rules/check.h"
#include "rules/rows.h"
#include "rules/trace.h"
#include "windrow/rules.h"
#include "windrow/step.h"

namespace wr::rules {

class RealSolver {
 public:
  RealSolver(const Checked& program, const Data& data, Parameters& parameters, Semantics semantics,
             const SolveOptions& options, int query = -1);
  /// The value of a query's body over its free variables: those of a joint, whose axis comes first, and `axes`.
  struct Found {
    Array values;
    std::optional<Joint> joint;
    std::vector<Axis> axes;
  };
  Found query(int statement);
  /// An axis for each argument.
  Array value(int predicate);
  /// One tuple's; nothing is made dense for it.
  double value_at(int predicate, const std::vector<Value>& tuple);
  const SolveFacts& facts() const { return facts_; }
  Semantics semantics() const { return settings_.semantics; }

  /// The gradient of a scalar tensor by predicates or parameters, by name.
  std::map<std::string, Array> gradient(int loss, const std::vector<std::string>& by);
  /// The same by each fact of a relation, which stays a list where it is one.
  Answers gradient_by_facts(int loss, const std::string& relation);

 private:
  /// Solves the recursive components that these predicates need.
  void prepare(const std::vector<int>& wanted);
  void solve_fixpoint(int component);
  Tracer tracer();
  /// The relation or tensor that is called so, if it is given and not derived.
  int given(const std::string& name) const;
  /// By these predicates, each an array as the tracer has it: of a list's tuples, or of all cells.
  std::vector<Array> gradients_by(int loss, const std::vector<int>& asked);
  Step adjoint_step(int loss, const std::vector<int>& members, const std::vector<int>& asked,
                    const std::vector<Spec>& specs);
  const std::shared_ptr<const Lists>& lists();
  std::vector<Array> run(const std::function<std::vector<Tensor>(Tracer&)>& trace);

  const Checked& program_;
  const Data& data_;
  Parameters& parameters_;
  SolveOptions options_;
  TraceSettings settings_;
  int query_;            // the only one that is asked, and nothing else; -1: anything may be
  std::set<int> dense_;  // what must not be listed
  std::shared_ptr<const Lists> lists_;
  std::map<int, Array> solved_, asked_;  // members of recursive components; what value_at() was asked for
  std::vector<int> fixpoints_;           // components, in the order in which they were solved
  SolveFacts facts_;
};

Answers solve_real(const Checked& program, const Data& data, Parameters& parameters, int query, Semantics semantics,
                   const SolveOptions& options, SolveFacts* facts);

}  // namespace wr::rules
