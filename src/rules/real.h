// Solving in real-valued semantics: components in their order, each compiled; recursion by running a compiled step
// until nothing changes any more.
#pragma once

#include <map>

#include "rules/check.h"
#include "rules/rows.h"
#include "rules/trace.h"
#include "windrow/rules.h"

namespace wr::rules {

class RealSolver {
 public:
  RealSolver(const Checked& program, const Data& data, Parameters& parameters, Semantics semantics,
             const SolveOptions& options);
  /// The value of a query's body over its free variables.
  Array query(int statement, std::vector<Axis>& variables);
  Array value(int predicate);
  const SolveFacts& facts() const { return facts_; }
  Semantics semantics() const { return settings_.semantics; }

  /// The gradient of a scalar tensor by predicates or parameters, by name.
  std::map<std::string, Array> gradient(int loss, const std::vector<std::string>& by);

 private:
  /// Solves the recursive components that these predicates need.
  void prepare(const std::vector<int>& wanted);
  void solve_fixpoint(int component);
  Tracer tracer();
  std::vector<Array> run(const std::function<std::vector<Tensor>(Tracer&)>& trace);

  const Checked& program_;
  const Data& data_;
  Parameters& parameters_;
  SolveOptions options_;
  TraceSettings settings_;
  std::map<int, Array> solved_;  // members of recursive components
  std::vector<int> fixpoints_;   // components, in the order in which they were solved
  SolveFacts facts_;
};

Answers solve_real(const Checked& program, const Data& data, Parameters& parameters, int query, Semantics semantics,
                   const SolveOptions& options, SolveFacts* facts);

}  // namespace wr::rules
