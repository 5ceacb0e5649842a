// Formulas as graphs: atoms with their indices, connectives, quantifiers, comparisons.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "rules/strata.h"
#include "rules/trace.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

/// Axes that have no name in the program: of `_` and slices. They are quantified, or summed, at once.
bool is_nameless(const Axis& axis) { return axis.starts_with('#') && axis != kJoint; }

template <class Number>
bool compares(const Number& a, const std::string& sign, const Number& b) {
  return sign == "="    ? a == b
         : sign == "!=" ? a != b
         : sign == "<"  ? a < b
         : sign == "<=" ? a <= b
         : sign == ">"  ? a > b
                        : a >= b;
}

std::vector<Axis> named(const std::vector<Axis>& axes) {
  std::vector<Axis> list;
  for (const Axis& a : axes)
    if (!is_nameless(a)) list.push_back(a);
  return list;
}

/// P(x, x): where both are the same.
Piece diagonal(const Piece& piece) {
  std::vector<Axis> distinct;
  for (const Axis& x : piece.axes)
    if (std::find(distinct.begin(), distinct.end(), x) == distinct.end()) distinct.push_back(x);
  if (distinct.size() == piece.axes.size()) return piece;
  std::string spec;
  for (const Axis& x : piece.axes)
    spec += static_cast<char>('a' + (std::find(distinct.begin(), distinct.end(), x) - distinct.begin()));
  spec += "->";
  for (std::size_t i = 0; i < distinct.size(); ++i) spec += static_cast<char>('a' + i);
  return {einsum(spec, {piece.tensor}), distinct};
}

}  // namespace

void Tracer::conjuncts(const Formula& f, const Logic& logic, const std::string& implication,
                       std::vector<Piece>& parts) {
  switch (f.kind) {
    case Formula::Kind::truth:
      return;
    case Formula::Kind::conjunction:
      for (const Formula& part : f.parts) conjuncts(part, logic, implication, parts);
      return;
    case Formula::Kind::atom:
      parts.push_back(atom(f.atom, logic));
      return;
    default:
      parts.push_back(formula(f, logic, implication));
  }
}

Piece Tracer::formula(const Formula& f, const Logic& logic, const std::string& implication) {
  switch (f.kind) {
    case Formula::Kind::truth:
    case Formula::Kind::atom:
    case Formula::Kind::conjunction: {
      std::vector<Piece> parts;
      conjuncts(f, logic, implication, parts);
      const std::vector<Axis> out = named(all_axes(parts));
      return logic.exists(std::move(parts), out);
    }
    case Formula::Kind::compare:
      return comparison(f, logic);
    case Formula::Kind::negation:
      return logic.negation(formula(f.parts[0], logic, implication));
    case Formula::Kind::disjunction: {
      Piece all = formula(f.parts[0], logic, implication);
      for (std::size_t i = 1; i < f.parts.size(); ++i) all = logic.either(all, formula(f.parts[i], logic, implication));
      return all;
    }
    case Formula::Kind::implication:
      return logic.implies(formula(f.parts[0], logic, implication), formula(f.parts[1], logic, implication),
                           implication);
    case Formula::Kind::exists: {
      std::vector<Piece> parts;
      conjuncts(f.parts[0], logic, implication, parts);
      const std::vector<Axis> out = without(named(all_axes(parts)), f.variables);
      return logic.exists(std::move(parts), out);
    }
    case Formula::Kind::forall:
      if (Piece listed; listed_forall(f, logic, implication, listed)) return listed;
      return logic.forall(formula(f.parts[0], logic, implication), f.variables);
    case Formula::Kind::count: {
      Piece inner = formula(f.parts[0], logic, implication);
      // Truth values add up; of costs those count that are finite.
      const bool costs = logic.semantics() == Semantics::minplus;
      if (costs) inner.tensor = cast(inner.tensor < logic.falsehood(), dtype());
      const Piece total = einsum_of({inner}, without(inner.axes, f.variables));
      const double n = static_cast<double>(f.right.number);
      const Tensor& t = total.tensor;
      const Tensor holds = f.compare == "="    ? eq(t, n)
                           : f.compare == "!=" ? ne(t, n)
                           : f.compare == "<"  ? t < n
                           : f.compare == "<=" ? t <= n
                           : f.compare == ">"  ? t > n
                                               : t >= n;
      return {costs ? where(holds, full({}, logic.truth(), dtype()), full({}, logic.falsehood(), dtype()))
                    : cast(holds, dtype()),
              total.axes};
    }
  }
  return {};
}

Piece Tracer::comparison(const Formula& f, const Logic& logic) {
  const Term* variable = f.left.kind == Term::Kind::variable    ? &f.left
                         : f.right.kind == Term::Kind::variable ? &f.right
                                                                : nullptr;
  if (variable == nullptr) fail(f.place, "a comparison of two constants");
  const auto domain_of = [&](const Term& t) -> const Domain& {
    return domain(program_.variables[statement_].at(t.text));
  };
  std::vector<Axis> axes;
  // What a side is for each value of its variable; a constant is one number.
  const auto side = [&](const Term& t) {
    std::vector<double> numbers;
    const Domain& d = domain_of(t.kind == Term::Kind::variable ? t : *variable);
    const bool by_number = d.numbers || d.ordered;
    if (t.kind != Term::Kind::variable) {
      double value = static_cast<double>(d.find(t.text));
      if (by_number) std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
      return std::vector<double>{value};
    }
    axes.push_back(t.text);
    if (((f.compare != "=" && f.compare != "!=") || t.op != 0) && !by_number)
      fail(t.place, fmt::format("'{}' is of domain {}, whose constants are not all numbers", t.text, d.name));
    for (std::int64_t i = 0; i < d.size; ++i)
      numbers.push_back((by_number ? d.value_of(i) : static_cast<double>(i)) +
                        (t.op != 0 ? static_cast<double>(t.amount) : 0));
    return numbers;
  };
  const std::vector<double> left = side(f.left), right = side(f.right);
  std::vector<double> values;
  const auto add = [&](double a, double b) {
    values.push_back(compares(a, f.compare, b) ? logic.truth() : logic.falsehood());
  };
  const bool listed = axes.size() == 2 && joint_ != nullptr && joint_->has(axes[0]) && joint_->has(axes[1]);
  if (listed) {
    const auto& l = joint_->columns.at(axes[0]);
    const auto& r = joint_->columns.at(axes[1]);
    for (std::size_t g = 0; g < l.size(); ++g) add(left[l[g]], right[r[g]]);
    return {Tensor(Array::from(values).astype(dtype())), {kJoint}};
  }
  if (axes.size() == 2 && axes[0] == axes[1]) {
    for (std::size_t i = 0; i < left.size(); ++i) add(left[i], right[i]);
    axes.pop_back();
  } else {
    check_size(static_cast<double>(left.size()) * static_cast<double>(right.size()));
    for (double a : left)
      for (double b : right) add(a, b);
  }
  Shape shape;
  for (const Axis& a : axes) shape.push_back(size_of(a));
  return collapsed({Tensor(Array::from(values, shape).astype(dtype())), axes});
}

Piece Tracer::choice(const Atom& a) {
  const int id = program_.id("?" + a.name);
  const int head = program_.id(program_.syntax.statements[statement_].head.name);
  std::vector<Tensor> relations;
  for (std::size_t p = 0; p < program_.predicates.size(); ++p)
    if (matches_choice(program_, a, static_cast<int>(p), head)) relations.push_back(value(static_cast<int>(p)));
  if (relations.empty())
    fail(a.place, fmt::format("?{}: there is no relation with these domains to choose from", a.name));
  const Tensor weights = softmax(parameter("?" + a.name, {std::ssize(relations)}, 0.01), 0);
  const Shape shape = shape_of(id);
  Shape flat{std::ssize(relations), shape.count()};
  return {reshape(einsum("r,rn->n", {weights, reshape(stack(relations, 0), flat)}), shape), {}};
}

Piece Tracer::atom(const Atom& a, const Logic& logic) {
  if (a.choice) return indexed(choice(a), a, logic.falsehood());
  const int id = program_.id(a.name);
  const double outside = predicate(id).tensor ? 0 : logic.falsehood();
  if (const auto found = slices_.find(id); found != slices_.end()) {
    // A tensor that is followed along an index: the slice that is meant, without that index.
    Atom rest = a;
    const int axis = slice_axis_.at(id);
    const Term t = a.terms[axis];
    rest.terms.erase(rest.terms.begin() + axis);
    const std::int64_t index = t.kind == Term::Kind::variable ? bound_.at(t.text) + t.amount
                                                              : domain(predicate(id).domains[axis]).find(t.text);
    Shape shape = shape_of(id);
    shape.erase(axis);
    if (index < 0 || index >= std::ssize(found->second))
      return indexed({full(shape, outside, dtype()), {}}, rest, outside);
    return indexed({found->second[index], {}}, rest, outside);
  }
  if (const TupleList* list = list_of(id)) return listed_atom(a, *list, outside);
  return indexed({value(id), {}}, a, outside);
}

/// The numbers an index takes for every value of its variables; `size` where it is outside.
Array Tracer::index_numbers(const Term& t, std::int64_t size, std::vector<Axis>& axes) const {
  struct Side {
    bool free;
    std::int64_t number, count;
  };
  const auto side = [&](const std::string& name, std::int64_t amount) -> Side {
    if (name.empty()) return {false, amount, 1};
    if (const auto found = bound_.find(name); found != bound_.end()) return {false, found->second, 1};
    axes.push_back(name);
    return {true, 0, size_of(name)};
  };
  const Side a = side(t.text, 0), b = side(t.other, t.amount);
  std::vector<std::int32_t> numbers;
  for (std::int64_t i = 0; i < a.count; ++i)
    for (std::int64_t j = 0; j < b.count; ++j) {
      const std::int64_t x = a.free ? i : a.number, y = b.free ? j : b.number;
      std::int64_t n = x;
      switch (t.op) {
        case '+':
          n = x + y;
          break;
        case '-':
          n = x - y;
          break;
        case '*':
          n = x * y;
          break;
        case '/':
          n = y == 0 ? -1 : x / y;
          break;
        default:
          break;
      }
      numbers.push_back(static_cast<std::int32_t>(n < 0 || n >= size ? size : n));
    }
  Shape shape;
  if (a.free) shape.push_back(a.count);
  if (b.free) shape.push_back(b.count);
  return Array::from(numbers, shape);
}

/// A whole relation or tensor, as the terms of an atom choose from it.
Piece Tracer::indexed(Piece piece, const Atom& a, double outside) {
  static thread_local int nameless = 0;
  piece.axes.clear();
  int axis = 0;  // of the tensor, as far as it is done
  for (const Term& t : a.terms) {
    if (t.virtual_index) continue;
    const std::int64_t size = piece.tensor.shape()[axis];
    const auto choose = [&](std::int64_t index) {
      if (index < 0 || index >= size) {
        Shape shape = piece.tensor.shape();
        shape.erase(axis);
        piece.tensor = full(shape, outside, dtype());
      } else {
        piece.tensor = squeeze(slice(piece.tensor, axis, index, index + 1), axis);
      }
    };
    switch (t.kind) {
      case Term::Kind::constant:
      case Term::Kind::number: {
        const int id = program_.id(a.choice ? "?" + a.name : a.name);
        const std::size_t place = static_cast<std::size_t>(&t - a.terms.data());
        // A term's own domain; slices of a sequence have one index less, after which the places differ.
        const std::size_t skipped = slices_.contains(id) && static_cast<int>(place) >= slice_axis_.at(id) ? 1 : 0;
        choose(domain(predicate(id).domains[place + skipped]).find(t.text));
        continue;
      }
      case Term::Kind::anything:
        piece.axes.push_back(fmt::format("#{}", ++nameless));
        break;
      case Term::Kind::slice: {
        if (t.number < 0 || t.stop > size || t.number >= t.stop)
          fail(t.place, fmt::format("slice {} of an index of size {}", format(t), size));
        piece.tensor = slice(piece.tensor, axis, t.number, t.stop);
        piece.axes.push_back(fmt::format("#{}", ++nameless));
        break;
      }
      case Term::Kind::variable: {
        if (t.op == 0 && bound_.contains(t.text)) {
          choose(bound_.at(t.text));
          continue;
        }
        if (t.op == 0) {
          piece.axes.push_back(t.text);
          break;
        }
        std::vector<Axis> axes;
        const Array numbers = index_numbers(t, size, axes);
        if (axes.empty()) {
          choose(numbers.item<std::int32_t>());
          continue;
        }
        Dims none(piece.tensor.rank(), 0), after(piece.tensor.rank(), 0);
        after[axis] = 1;
        piece.tensor = gather(pad(piece.tensor, none, after, outside), Tensor(numbers), axis);
        piece.axes.insert(piece.axes.end(), axes.begin(), axes.end());
        axis += static_cast<int>(axes.size()) - 1;
        break;
      }
    }
    ++axis;
  }
  return collapsed(diagonal(piece));
}

}  // namespace wr::rules
