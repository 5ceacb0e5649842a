// Relations of few tuples in real-valued semantics: which of them are kept as lists of tuples instead of dense tensors,
// the tuples that rules can derive from them, and how lists meet in a rule's body.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rules/check.h"
#include "rules/join.h"
#include "rules/solve.h"
#include "windrow/rules.h"

namespace wr::rules {

/// The tuples that can be other than false in a relation, numbered from 0.
class TupleList {
 public:
  TupleList(const Trie& tuples, const std::string& file, const std::string& relation);
  std::int64_t count() const { return static_cast<std::int64_t>(numbers_.size()); }
  /// count() if it is none of them.
  std::int32_t number(const Value* tuple) const;
  /// Calls fn(number, tuple) for each.
  template <class Fn>
  void each(Fn&& fn) const {
    const std::size_t arity = sizes_.size();
    for (std::size_t n = 0; n < numbers_.size(); ++n) fn(static_cast<std::int32_t>(n), tuples_.data() + n * arity);
  }

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<Value> tuples_;  // one after the other
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;
};

/// All ways in which lists of tuples meet, as one index: for each way the constants that the variables stand for.
struct Joint {
  std::int64_t count = 0;
  std::map<std::string, std::vector<std::int32_t>> columns;  // of each variable
  std::map<const Atom*, std::vector<std::int32_t>> numbers;  // of each atom's tuple in its list
  bool has(const std::string& variable) const { return columns.contains(variable); }
};

/// The ways that differ in these variables, and to which of them each of the given ones belongs.
Joint distinct(const Joint& joint, const std::vector<std::string>& variables, std::vector<std::int32_t>& group);

class Lists {
 public:
  /// Chooses by cost. `dense` are predicates that must be tensors, because they are given or differentiated by.
  /// `query`, if it is not -1, is a statement, for whose answers alone they are: relations have the tuples that it
  /// demands.
  Lists(const Checked& program, const Data& data, Semantics semantics, const std::set<int>& dense, std::size_t memory,
        int query = -1);
  /// nullptr for what is dense.
  const TupleList* find(int predicate) const;
  /// True if an atom can lead a body: it is of a listed relation, with variables and constants alone.
  bool is_listed(const Atom& atom) const;
  /// Where all of these atoms, each of a listed relation, and comparisons hold in one statement; with `head`, which is
  /// of one too, where the head's tuple is in its list.
  Joint joined(int statement, const std::vector<const Atom*>& atoms, const std::vector<const Formula*>& comparisons,
               const Atom* head = nullptr) const;

 private:
  double cells(int predicate) const;
  bool may_be_listed(int predicate) const;
  bool is_covered(const Statement& rule) const;
  void choose();
  bool solve();
  CoreProgram support_rules() const;
  bool may_be_demanded() const;
  void add_query(CoreProgram& core) const;
  std::vector<const Atom*> listed_atoms(const Formula& body, std::vector<const Formula*>& comparisons) const;
  struct Needs {
    std::set<int> parts, whole;
  };
  Needs needs_of_query() const;

  const Checked& program_;
  const Data& data_;
  Semantics semantics_;
  std::set<int> dense_, listed_;
  std::size_t memory_;
  int query_;  // -1: relations are whole
  std::map<int, TupleList> lists_;
  mutable std::map<int, Relation> relations_;
};

/// The atoms and comparisons that all must hold for a formula to hold: the top of a body.
void top_literals(const Formula& formula, std::vector<const Atom*>& atoms, std::vector<const Formula*>& comparisons);

}  // namespace wr::rules
