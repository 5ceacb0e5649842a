// Programs as graphs: the value of every relation and tensor as a tensor, an axis for each argument, in any semantics.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rules/check.h"
#include "rules/lists.h"
#include "rules/piece.h"
#include "windrow/rules.h"
#include "windrow/said_at.h"

namespace wr::rules {

/// What is learned, by name: tensors, logits of relations, of rule weights and of choices.
using Parameters = std::map<std::string, State>;

/// The parameter of a rule that begins with `learn ::`: called after what the rule says, not after its line, so that a
/// checkpoint stays of use when lines come and go.
inline std::string weight_name(const Statement& rule) { return "weight of " + format(rule); }

struct TraceSettings {
  Semantics semantics = Semantics::product;
  DType dtype = DType::f64;
  int iterations = 0;  // of recursion without an index to follow; 0: it is an error
  std::size_t memory = std::size_t{4} << 30;
};

/// The axis of pieces over the ways in which lists of tuples meet.
inline const Axis kJoint = "#joint";

/// What a body is worth: a piece whose first axis, if there is a joint, is over its ways.
struct BodyValue {
  Piece piece;
  std::optional<Joint> joint;
};

class Tracer {
 public:
  /// `lists`: chosen before, by whoever traces the program several times.
  Tracer(const Checked& program, const Data& data, Parameters& parameters, const TraceSettings& settings,
         std::shared_ptr<const Lists> lists = nullptr);

  /// A value given from outside, in place of the program's own; of a listed relation as value() gives it.
  void give(int predicate, const Tensor& value) { values_[predicate] = value; }
  /// Traced on first use, with all it needs. A listed relation is a vector: a value for each tuple, and "false" at
  /// last.
  Tensor value(int predicate);
  /// An axis for each argument, listed or not.
  Tensor dense(int predicate);
  /// One iteration of a recursive component, from the values its predicates have now.
  std::vector<Tensor> next(int component, const std::vector<Tensor>& now);
  /// What a component starts with: facts and data.
  Tensor base(int predicate);
  /// The value of a query or constraint over its free variables, in the order of their first use: those of the joint,
  /// if there is one, and the piece's own.
  BodyValue body(int statement);
  const Lists& lists() const;
  /// True if the component depends on itself and no index says in which order to go: it needs a fixpoint.
  bool needs_fixpoint(int component) const;
  const Checked& program() const { return program_; }

 private:
  // A variable that stands for one number while an index is followed step by step.
  using Bound = std::map<std::string, std::int64_t>;
  /// How a recursive component follows an index: which one each tensor has, and in which order a step computes them.
  struct Sequence {
    std::map<int, int> axis;
    std::vector<int> order;
    std::int64_t steps = 0;
  };

  [[noreturn]] void fail(Place place, const std::string& message) const;
  Logic logic(const Statement& s) const;
  DType dtype() const { return settings_.dtype; }
  Location location_of(const Statement& s) const { return {program_.syntax.name, static_cast<unsigned>(s.place.line)}; }
  const Domain& domain(int id) const { return program_.domains[id]; }
  const Predicate& predicate(int id) const { return program_.predicates[id]; }
  Shape shape_of(int predicate) const;
  std::int64_t size_of(const std::string& variable) const;
  /// Refuses what would not fit, at the statement that is being traced.
  void check_size(double cells) const;
  void each_fact(int predicate, const std::function<void(const Value* tuple, double weight)>& fn) const;
  void add_fact(int predicate, double weight, double& value) const;
  double falsehood_of(int predicate) const;
  bool is_truth_value(double weight) const;
  std::string wrong_weight(double weight) const;
  void check_truth_values(int id, const Array& values) const;
  Array base_array(int predicate) const;
  const State& parameter(const std::string& name, const Shape& shape, double scale);

  void trace_component(int component);
  Tensor computed(int predicate);
  Tensor with_rules(int predicate, const Tensor& start);
  Tensor truth_of_sum(const Tensor& total, double temperature) const;
  Tensor with_equations(int predicate, const Tensor& start);
  BodyValue rule_value(int statement);
  /// What goes wrong in a formula or expression gets the place of the statement that is traced.
  template <class Trace>
  auto placed(Trace&& trace) const {
    try {
      return trace();
    } catch (const TooManyCells& many) {
      check_size(many.cells);
      throw;
    } catch (const Misuse& misuse) {
      fail(program_.syntax.statements[statement_].place, misuse.what);
    }
  }
  BodyValue conjunction_value(const Formula& body, const std::vector<Axis>& out, const Logic& logic,
                              const std::string& implication);
  /// `skipped`: an index of the head that the tensor does not have, or -1.
  Tensor head_tensor(const Atom& head, const Piece& piece, int predicate, const std::string& assign, double outside,
                     int skipped = -1);
  Piece pooled(const Piece& piece, const Term& term, std::int64_t size, const std::string& assign, double outside);
  Tensor shifted(const Tensor& x, int axis, std::int64_t by, std::int64_t size, double outside);

  // formulas
  Piece formula(const Formula& f, const Logic& logic, const std::string& implication);
  void conjuncts(const Formula& f, const Logic& logic, const std::string& implication, std::vector<Piece>& parts);
  Piece comparison(const Formula& f, const Logic& logic);
  Piece atom(const Atom& a, const Logic& logic);
  Piece choice(const Atom& a);
  Piece indexed(Piece piece, const Atom& a, double outside);
  Array index_numbers(const Term& t, std::int64_t size, std::vector<Axis>& axes) const;

  // lists of tuples
  const TupleList* list_of(int predicate) const { return lists().find(predicate); }
  Array base_list(int predicate, const TupleList& list) const;
  bool is_led_by_lists(const Formula& body) const;
  /// The ways in which the listed atoms at the top of a body meet; nothing where there are none.
  std::optional<Joint> joint_of(const Formula& body) const;
  std::optional<Joint> joint_of(const std::vector<const Expr*>& factors) const;
  Piece listed_atom(const Atom& a, const TupleList& list, double outside);
  /// The joint's variables become its axis.
  Piece collapsed(const Piece& piece) const;
  /// "Or" over the ways that have the same constants for these variables.
  BodyValue regrouped(const Piece& piece, const Joint& joint, const std::vector<std::string>& variables,
                      const Logic& logic) const;
  Tensor grouped(Tensor x, const std::vector<std::int32_t>& group, std::int64_t groups, const Logic& logic) const;
  /// The joint's axis becomes its variables, `outside` where there is no way.
  Piece spread(const BodyValue& value, double outside) const;
  Tensor listed_head(const Atom& head, const BodyValue& value, const TupleList& list, double outside) const;
  bool listed_forall(const Formula& f, const Logic& logic, const std::string& implication, Piece& out);

  // expressions
  using Names = std::set<std::string>;
  Piece equation_value(int statement);
  Tensor added_up(int predicate, int skipped, const std::function<bool(const Statement&)>& applies);
  bool is_given(int predicate) const;
  Piece expression(const Expr& e, const Names& needed);
  Piece product(const std::vector<const Expr*>& factors, const Names& needed);
  Piece call(const Expr& e, const Names& needed);
  Piece aggregate(const Expr& e, const Names& needed);
  Piece summed(const Piece& piece, const Names& needed) const;
  Names free_indices(const Expr& e) const;

  // recursion along an index
  bool find_sequence(int component, Sequence& out) const;
  bool fits_sequence(int component, const std::vector<int>& axes, Sequence& out) const;
  void trace_sequence(const Sequence& sequence);
  Tensor sequence_step(int predicate, const Sequence& sequence, std::int64_t step);
  bool is_virtual(int component) const;
  bool in_component(const Atom& a, int component) const;
  std::vector<int> virtual_order(int component) const;
  void trace_virtual(int component);

  const Checked& program_;
  const Data& data_;
  Parameters& parameters_;
  TraceSettings settings_;
  std::map<int, Tensor> values_;
  std::map<int, std::vector<Tensor>> slices_;  // of predicates that are followed along an index
  std::map<int, int> slice_axis_;
  int statement_ = -1;  // whose variables are meant
  Bound bound_;
  mutable std::shared_ptr<const Lists> lists_;
  const Joint* joint_ = nullptr;  // whose axis stands for its variables
  std::string normalised_;        // the axis of softmax and norms
};

}  // namespace wr::rules
