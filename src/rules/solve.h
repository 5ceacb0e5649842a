// Boolean semantics: all that a program's rules derive from its facts, stage by stage, each to its least fixpoint,
// where an iteration joins only what the one before found new (semi-naive).
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "rules/check.h"
#include "rules/core.h"
#include "rules/join.h"
#include "windrow/rules.h"

namespace wr::rules {

/// A tuple's number, and in which iteration it was found: for explanations.
using Ranks = std::unordered_map<std::uint64_t, int>;

class Solver {
 public:
  Solver(const Checked& program, const CoreProgram& core, const Data& data, const SolveOptions& options);
  /// Derives what the wanted predicates need (all, if none are named).
  void run(const std::vector<int>& wanted = {});
  Relation& relation(int predicate) { return relations_[predicate]; }
  const SolveFacts& facts() const { return facts_; }
  /// Before run(): remembers when each tuple was found.
  void keep_ranks() { ranks_.resize(relations_.size()); }
  /// Before run(): called with each relation's tuples so far, after every iteration; what it throws, run() throws.
  void watch(std::function<void(int predicate, std::int64_t count)> watcher) { watcher_ = std::move(watcher); }
  /// 0 for facts; -1 if it was not derived.
  int rank(int predicate, const Value* tuple) const;

 private:
  struct Running {
    Join join;
    int rule;
  };
  void load_facts(const Data& data, std::vector<bool> needed);
  void load_array(int predicate, const Array& array);
  void add_fact(int predicate, const std::vector<Value>& tuple);
  std::vector<bool> needed_by(const std::vector<int>& wanted) const;
  void run_stage(const Core::Stage& stage);
  void run_count(const CoreCount& count);
  void run_join(Join& join, int rule);
  Join::Inputs inputs_of(const CoreRule& rule, int delta);
  /// Moves what is new into the relations and their deltas; how many tuples that were.
  std::int64_t take_news(const Core::Stage& stage, bool recursive);
  void note_ranks(int predicate, const std::vector<Value>& prefix, const Row& row);
  void check_memory();
  std::uint64_t number_of(int predicate, const Value* tuple) const;

  const Checked& program_;
  const CoreProgram& core_;
  const Data& data_;
  SolveOptions options_;
  std::vector<Relation> relations_, deltas_;
  std::vector<Trie> fresh_;
  std::vector<Ranks> ranks_;
  std::vector<std::vector<int>> fact_copies_;
  std::function<void(int, std::int64_t)> watcher_;
  double falsehood_ = 0;  // the weight of a fact that is none: infinite where weights are costs
  SolveFacts facts_;
  Row scratch_;
  int iteration_ = 0;
  std::int64_t tuples_ = 0, checked_at_ = 0;
};

}  // namespace wr::rules
