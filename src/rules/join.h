// One rule's join, planned once and run in every iteration: variables are bound one after the other, each by the
// meeting of all rows that know something about it (a generic join), the last one a word of 64 constants at a time.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "rules/core.h"
#include "rules/rows.h"

namespace wr::rules {

/// A relation's tuples, in every order of columns that some join walks.
class Relation {
 public:
  Relation() = default;
  explicit Relation(std::vector<std::int64_t> sizes);
  const Trie& tuples() const { return tuples_; }
  std::int64_t count() const { return tuples_.count(); }
  int arity() const { return tuples_.arity(); }
  bool insert(const Value* tuple);
  void insert(const Value* prefix, const Row& last);
  void clear();
  /// The same tuples with column order[i] in place i; kept up to date from now on.
  const Trie& ordered(const std::vector<int>& order);
  std::size_t bytes() const;

 private:
  Trie tuples_;
  std::map<std::vector<int>, Trie> orders_;
};

class Join {
 public:
  /// Where a join reads its atoms and negated atoms: one relation each, in their order.
  struct Inputs {
    std::vector<Relation*> body, negated;
  };
  /// `delta`: the body atom that holds the news of the last iteration, and so should lead; -1 for none.
  Join(const CoreRule& rule, const std::vector<Domain>& domains, const Inputs& inputs, int delta,
       const std::vector<Value>& given = {}, const std::vector<int>& given_variables = {}, bool keep_all = false);

  /// Adds every head tuple to `out`.
  void run(Trie& out);
  /// Calls fn(values of all variables) for every solution until it gives false. Needs a join that keeps all variables.
  bool each(const std::function<bool(const std::vector<Value>&)>& fn);

 private:
  struct Source {
    const Trie* trie = nullptr;
    std::vector<CoreTerm> columns;  // in the trie's order
  };
  struct Use {
    int source = 0;
    int level = 0;
  };
  struct Level {
    int variable = 0;
    std::vector<Use> rows, without;     // positive atoms; negated ones, bound completely by this variable
    std::vector<int> conditions;        // to be tested here
    int equals = -1;                    // a condition that gives the only candidate
    std::vector<const Row*> all, none;  // memory for running
    Row meeting;
  };
  void choose_order(int delta, bool keep_all);
  void make_sources(const Inputs& inputs);
  void make_levels();
  double estimate(int variable, const std::vector<bool>& bound) const;
  const std::vector<Value>& prefix_of(const Source& source, int level);
  /// False where nothing can hold: a constant that is nowhere, an atom without variables that is false.
  bool possible();
  bool candidates(Level& level);
  bool test(const Condition& c) const;
  double number_of(const CoreTerm& t, double shift, double constant) const;
  std::int64_t only_candidate(const Condition& c, int variable) const;
  bool bind(std::size_t at);
  void emit();
  void emit_row(const Row& row);

  const CoreRule& rule_;
  const std::vector<Domain>& domains_;
  std::vector<bool> given_, dropped_;
  std::vector<int> order_;
  std::vector<Source> sources_, negated_;
  std::vector<std::vector<int>> orders_;
  Inputs inputs_;
  std::vector<Level> levels_;
  std::vector<int> first_conditions_, first_negated_;  // known before any variable is bound
  std::size_t head_levels_ = 0;                        // the head is complete after so many
  bool row_at_end_ = false;                            // the last variable is the head's last: rows are added whole
  std::vector<Value> values_, head_, prefix_;
  Trie* out_ = nullptr;
  const std::function<bool(const std::vector<Value>&)>* visit_ = nullptr;
};

}  // namespace wr::rules
