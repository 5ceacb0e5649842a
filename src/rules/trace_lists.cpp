// Listed relations in graphs. The ways in which the lists of a body meet are one axis: every other part of the body is
// gathered along it, connectives and sums go elementwise or over it as over any axis, and at the end ways with the same
// constants in the head are put together.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "rules/trace.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

Tensor indices(const std::vector<std::int32_t>& numbers) { return Tensor(Array::from(numbers)); }

/// One more row at the end.
Tensor with_row(const Tensor& x, double value) {
  Dims none(x.rank(), 0), after(x.rank(), 0);
  after[0] = 1;
  return pad(x, none, after, value);
}

}  // namespace

const Lists& Tracer::lists() const {
  if (lists_ == nullptr) {
    std::set<int> given;
    for (const auto& [id, value] : values_) given.insert(id);
    lists_ = std::make_shared<Lists>(program_, data_, settings_.semantics, given, settings_.memory);
  }
  return *lists_;
}

Array Tracer::base_list(int id, const TupleList& list) const {
  std::vector<double> values(static_cast<std::size_t>(list.count() + 1), falsehood_of(id));
  each_fact(id, [&](const Value* tuple, double weight) {
    const auto n = static_cast<std::size_t>(list.number(tuple));
    if (n + 1 < values.size()) add_fact(id, weight, values[n]);  // a fact that is false is in no list
  });
  return Array::from(values).astype(settings_.dtype);
}

Tensor Tracer::dense(int id) {
  const TupleList* list = list_of(id);
  if (list == nullptr) return value(id);
  const Shape shape = shape_of(id);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(shape.count()), static_cast<std::int32_t>(list->count()));
  list->each([&](std::int32_t n, const Value* tuple) {
    std::int64_t at = 0;
    for (int i = 0; i < shape.rank(); ++i) at = at * shape[i] + tuple[i];
    numbers[at] = n;
  });
  return reshape(gather(value(id), indices(numbers)), shape);
}

// ---- into the joint ----

bool Tracer::is_led_by_lists(const Formula& body) const {
  std::vector<const Atom*> atoms;
  std::vector<const Formula*> comparisons;
  top_literals(body, atoms, comparisons);
  return std::any_of(atoms.begin(), atoms.end(), [&](const Atom* a) { return lists().is_listed(*a); });
}

std::optional<Joint> Tracer::joint_of(const Formula& body) const {
  std::vector<const Atom*> atoms;
  std::vector<const Formula*> comparisons;
  top_literals(body, atoms, comparisons);
  std::erase_if(atoms, [&](const Atom* a) { return !lists().is_listed(*a); });
  if (atoms.empty() || joint_ != nullptr) return {};
  const Statement& s = program_.syntax.statements[statement_];
  const bool whole_rule = s.kind == Statement::Kind::rule && &body == &s.body;
  return lists().joined(statement_, atoms, comparisons, whole_rule && lists().is_listed(s.head) ? &s.head : nullptr);
}

std::optional<Joint> Tracer::joint_of(const std::vector<const Expr*>& factors) const {
  std::vector<const Atom*> atoms;
  for (const Expr* e : factors) {
    if (e->kind != Expr::Kind::reference || !lists().is_listed(e->atom)) continue;
    const bool followed =
        std::any_of(e->atom.terms.begin(), e->atom.terms.end(), [&](const Term& t) { return bound_.contains(t.text); });
    if (!followed) atoms.push_back(&e->atom);
  }
  if (atoms.empty() || joint_ != nullptr) return {};
  return lists().joined(statement_, atoms, {});
}

Piece Tracer::listed_atom(const Atom& a, const TupleList& list, double outside) {
  const int id = program_.id(a.name);
  if (joint_ != nullptr)
    if (const auto found = joint_->numbers.find(&a); found != joint_->numbers.end())
      return {gather(value(id), indices(found->second)), {kJoint}};
  const bool known = std::all_of(a.terms.begin(), a.terms.end(), [&](const Term& t) {
    return t.kind == Term::Kind::constant || t.kind == Term::Kind::number ||
           (t.kind == Term::Kind::variable && t.op == 0 && joint_ != nullptr && joint_->has(t.text));
  });
  if (!known) return indexed({dense(id), {}}, a, outside);
  std::vector<Value> tuple(a.terms.size());
  std::vector<const std::vector<std::int32_t>*> columns(a.terms.size(), nullptr);
  for (std::size_t i = 0; i < a.terms.size(); ++i)
    if (a.terms[i].kind == Term::Kind::variable)
      columns[i] = &joint_->columns.at(a.terms[i].text);
    else
      tuple[i] = static_cast<Value>(domain(predicate(id).domains[i]).find(a.terms[i].text));
  const bool constant = std::all_of(columns.begin(), columns.end(), [](const auto* c) { return c == nullptr; });
  std::vector<std::int32_t> numbers(constant ? 1 : static_cast<std::size_t>(joint_->count));
  for (std::size_t g = 0; g < numbers.size(); ++g) {
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i] != nullptr) tuple[i] = static_cast<Value>((*columns[i])[g]);
    numbers[g] = list.number(tuple.data());
  }
  const Tensor values = gather(value(id), indices(numbers));
  if (constant) return {squeeze(values, 0), {}};
  return {values, {kJoint}};
}

Piece Tracer::collapsed(const Piece& piece) const {
  if (joint_ == nullptr) return piece;
  std::vector<Axis> together, rest;
  for (const Axis& a : piece.axes) (joint_->has(a) ? together : rest).push_back(a);
  if (together.empty()) return piece;
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(joint_->count), 0);
  std::int64_t cells = 1;
  for (const Axis& a : together) {
    const std::int64_t size = piece.size_of(a);
    const std::vector<std::int32_t>& column = joint_->columns.at(a);
    for (std::size_t g = 0; g < numbers.size(); ++g)
      numbers[g] = numbers[g] * static_cast<std::int32_t>(size) + column[g];
    cells *= size;
  }
  std::vector<Axis> axes = together;
  axes.insert(axes.end(), rest.begin(), rest.end());
  const Tensor x = aligned(piece, axes);
  Shape flat{cells};
  for (int i = static_cast<int>(together.size()); i < x.rank(); ++i) flat.push_back(x.shape()[i]);
  rest.insert(rest.begin(), kJoint);
  return {gather(reshape(x, flat), indices(numbers)), rest};
}

// ---- out of the joint ----

Tensor Tracer::grouped(Tensor x, const std::vector<std::int32_t>& group, std::int64_t groups,
                       const Logic& logic) const {
  if (logic.adds_up()) {
    Shape shape = x.shape();
    shape[0] = groups;
    return logic.clipped(scatter_add(full(shape, 0, dtype()), indices(group), x));
  }
  // Pairs of neighbours, then pairs of those, until each group has one row.
  std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(groups));
  for (std::size_t g = 0; g < group.size(); ++g) members[group[g]].push_back(static_cast<std::int32_t>(g));
  const auto is_done = [](const auto& m) { return m.size() <= 1; };
  while (!std::all_of(members.begin(), members.end(), is_done)) {
    std::vector<std::int32_t> left, right;
    const auto none = static_cast<std::int32_t>(x.shape()[0]);
    for (auto& m : members) {
      std::vector<std::int32_t> next;
      for (std::size_t i = 0; i < m.size(); i += 2) {
        next.push_back(static_cast<std::int32_t>(left.size()));
        left.push_back(m[i]);
        right.push_back(i + 1 < m.size() ? m[i + 1] : none);
      }
      m = std::move(next);
    }
    x = logic.either({gather(x, indices(left)), {}}, {gather(with_row(x, logic.falsehood()), indices(right)), {}})
            .tensor;
  }
  std::vector<std::int32_t> order;
  for (const auto& m : members) order.push_back(m[0]);
  return std::is_sorted(order.begin(), order.end()) ? x : gather(x, indices(order));
}

BodyValue Tracer::regrouped(const Piece& piece, const Joint& joint, const std::vector<std::string>& variables,
                            const Logic& logic) const {
  std::vector<std::int32_t> group;
  Joint out = distinct(joint, variables, group);
  std::vector<Axis> axes = without(piece.axes, {kJoint});
  axes.insert(axes.begin(), kJoint);
  Tensor x = aligned(piece, axes);
  if (piece.size_of(kJoint) < 0) {  // nothing of it depends on the way that is taken
    Shape shape = x.shape();
    shape[0] = joint.count;
    x = broadcast_to(x, shape);
  }
  return {{grouped(x, group, out.count, logic), axes}, std::move(out)};
}

Piece Tracer::spread(const BodyValue& value, double outside) const {
  if (!value.joint) return value.piece;
  const Joint& joint = *value.joint;
  if (joint.count == 0) return {full({}, outside, dtype()), {}};
  if (joint.columns.empty()) return {squeeze(value.piece.tensor, 0), without(value.piece.axes, {kJoint})};
  std::vector<Axis> axes;
  Shape shape;
  double cells = 1;
  for (const auto& [name, column] : joint.columns) {
    axes.push_back(name);
    shape.push_back(size_of(name));
    cells *= static_cast<double>(shape[shape.rank() - 1]);
  }
  const Shape& x = value.piece.tensor.shape();
  check_size(cells * static_cast<double>(x.count() / x[0]));
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(shape.count()), static_cast<std::int32_t>(joint.count));
  for (std::size_t g = 0; g < static_cast<std::size_t>(joint.count); ++g) {
    std::int64_t at = 0;
    for (const auto& [name, column] : joint.columns) at = at * size_of(name) + column[g];
    numbers[at] = static_cast<std::int32_t>(g);
  }
  for (int i = 1; i < x.rank(); ++i) shape.push_back(x[i]);
  axes.insert(axes.end(), value.piece.axes.begin() + 1, value.piece.axes.end());
  return {reshape(gather(with_row(value.piece.tensor, outside), indices(numbers)), shape), axes};
}

Tensor Tracer::listed_head(const Atom& head, const BodyValue& value, const TupleList& list, double outside) const {
  if (value.joint->count == 0) return full({list.count() + 1}, outside, dtype());
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(list.count() + 1),
                                    static_cast<std::int32_t>(value.joint->count));
  std::vector<Value> tuple(head.terms.size());
  const auto& domains = predicate(program_.id(head.name)).domains;
  for (std::size_t g = 0; g < static_cast<std::size_t>(value.joint->count); ++g) {
    for (std::size_t i = 0; i < tuple.size(); ++i)
      tuple[i] =
          static_cast<Value>(head.terms[i].kind == Term::Kind::variable ? value.joint->columns.at(head.terms[i].text)[g]
                                                                        : domain(domains[i]).find(head.terms[i].text));
    numbers[list.number(tuple.data())] = static_cast<std::int32_t>(g);
  }
  return gather(with_row(value.piece.tensor, outside), indices(numbers));
}

/// forall(x, y: A(x, y) -> B) where A is listed: what is in no list implies everything.
bool Tracer::listed_forall(const Formula& f, const Logic& logic, const std::string& implication, Piece& out) {
  if (logic.semantics() == Semantics::ltn || f.parts[0].kind != Formula::Kind::implication) return false;
  const Formula& rule = f.parts[0];
  const std::optional<Joint> joint = joint_of(rule.parts[0]);
  if (!joint) return false;
  const auto in_joint = [&](const std::string& v) { return joint->has(v); };
  if (!std::all_of(f.variables.begin(), f.variables.end(), in_joint)) return false;
  for (const auto& [name, column] : joint->columns)
    if (std::find(f.variables.begin(), f.variables.end(), name) == f.variables.end()) return false;
  if (joint->count == 0) {
    out = {full({}, logic.truth(), dtype()), {}};
    return true;
  }
  joint_ = &*joint;
  const Piece holds = logic.implies(formula(rule.parts[0], logic, implication),
                                    formula(rule.parts[1], logic, implication), implication);
  joint_ = nullptr;
  out = logic.forall(holds, {kJoint});
  return true;
}

}  // namespace wr::rules
