// Tensor equations as graphs. An index that is missing on the left is summed over the smallest product that holds all
// its uses; the terms of a sum are summed separately.
#include <fmt/format.h>

#include <algorithm>

#include "rules/trace.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

void flatten(const Expr& e, std::vector<const Expr*>& factors) {
  if (e.kind == Expr::Kind::multiply)
    for (const Expr& part : e.parts) flatten(part, factors);
  else
    factors.push_back(&e);
}

}  // namespace

Tracer::Names Tracer::free_indices(const Expr& e) const {
  Names names;
  if (e.kind == Expr::Kind::index) names.insert(e.name);
  if (e.kind == Expr::Kind::reference)
    for (const Term& t : e.atom.terms)
      if (t.kind == Term::Kind::variable && !t.virtual_index) {
        names.insert(t.text);
        if (!t.other.empty()) names.insert(t.other);
      }
  for (const Expr& part : e.parts) names.merge(free_indices(part));
  for (const std::string& v : e.variables) names.erase(v);
  for (const auto& [name, number] : bound_) names.erase(name);
  return names;
}

Piece Tracer::summed(const Piece& piece, const Names& needed) const {
  std::vector<Axis> out;
  for (const Axis& a : piece.axes)
    if (needed.contains(a) || a == kJoint) out.push_back(a);
  return out.size() == piece.axes.size() ? piece : einsum_of({piece}, out);
}

Piece Tracer::expression(const Expr& e, const Names& needed) {
  const auto pairwise = [&](auto op) {  // both sides keep what the other has; what is left over is summed
    Names left = needed, right = needed;
    left.merge(free_indices(e.parts[1]));
    right.merge(free_indices(e.parts[0]));
    return summed(elementwise(expression(e.parts[0], left), expression(e.parts[1], right), op), needed);
  };
  switch (e.kind) {
    case Expr::Kind::number:
      return {full({}, e.number, dtype()), {}};
    case Expr::Kind::index: {
      if (const auto found = bound_.find(e.name); found != bound_.end())
        return {full({}, static_cast<double>(found->second), dtype()), {}};
      const Domain& d = domain(program_.variables[statement_].at(e.name));
      std::vector<double> numbers;
      for (std::int64_t i = 0; i < d.size; ++i)
        numbers.push_back(d.numbers || d.ordered ? d.value_of(i) : static_cast<double>(i));
      return summed(collapsed({Tensor(Array::from(numbers).astype(dtype())), {e.name}}), needed);
    }
    case Expr::Kind::reference:
      if (joint_ == nullptr && lists().is_listed(e.atom)) return product({&e}, needed);
      return summed(atom(e.atom, Logic(settings_.semantics, dtype())), needed);
    case Expr::Kind::negate: {
      const Piece p = expression(e.parts[0], needed);
      return {-p.tensor, p.axes};
    }
    case Expr::Kind::add:
    case Expr::Kind::subtract: {
      const Piece a = expression(e.parts[0], needed), b = expression(e.parts[1], needed);
      return e.kind == Expr::Kind::add ? elementwise(a, b, [](const Tensor& x, const Tensor& y) { return x + y; })
                                       : elementwise(a, b, [](const Tensor& x, const Tensor& y) { return x - y; });
    }
    case Expr::Kind::multiply: {
      std::vector<const Expr*> factors;
      flatten(e, factors);
      return product(factors, needed);
    }
    case Expr::Kind::divide:
      return pairwise([](const Tensor& x, const Tensor& y) { return x / y; });
    case Expr::Kind::power:
      if (e.parts[1].kind == Expr::Kind::number && e.parts[1].number == 2) {
        const Piece p = expression(e.parts[0], needed);
        return {square(p.tensor), p.axes};
      }
      return pairwise([](const Tensor& x, const Tensor& y) { return pow(x, y); });
    case Expr::Kind::call:
      return call(e, needed);
    case Expr::Kind::aggregate:
      return aggregate(e, needed);
  }
  return {};
}

Piece Tracer::product(const std::vector<const Expr*>& factors, const Names& needed) {
  const std::optional<Joint> joint = joint_of(factors);
  if (joint && joint->count == 0) return {full({}, 0, dtype()), {}};
  const Joint* outer = joint_;
  if (joint) joint_ = &*joint;
  std::vector<Piece> parts;
  Piece scalars{full({}, 1, dtype()), {}};  // numbers need no einsum
  for (const Expr* factor : factors) {
    Names keep = needed;
    for (const Expr* other : factors)
      if (other != factor) keep.merge(free_indices(*other));
    Piece part = factor->kind == Expr::Kind::reference
                     ? summed(atom(factor->atom, Logic(settings_.semantics, dtype())), keep)
                     : expression(*factor, keep);
    if (part.axes.empty())
      scalars.tensor = scalars.tensor * part.tensor;
    else
      parts.push_back(std::move(part));
  }
  joint_ = outer;
  if (parts.empty()) return scalars;
  std::vector<Axis> out;
  for (const Axis& a : all_axes(parts))
    if (needed.contains(a) || a == kJoint) out.push_back(a);
  Piece total = einsum_of(parts, out);
  if (joint) {
    std::vector<std::string> variables;
    for (const auto& [name, column] : joint->columns)
      if (needed.contains(name)) variables.push_back(name);
    total = spread(regrouped(total, *joint, variables, Logic(Semantics::sum, dtype())), 0);
  }
  return elementwise(total, scalars, [](const Tensor& x, const Tensor& y) { return x * y; });
}

Piece Tracer::aggregate(const Expr& e, const Names& needed) {
  // A sum over what a product has anyway: lists need not be spread over all constants first.
  const Expr& inner = e.parts[0];
  if (e.name == "sum" && (inner.kind == Expr::Kind::multiply || inner.kind == Expr::Kind::reference)) {
    const Names free = free_indices(inner);
    const auto has = [&](const std::string& v) { return free.contains(v) && !needed.contains(v); };
    if (std::all_of(e.variables.begin(), e.variables.end(), has)) return expression(inner, needed);
  }
  Names keep = needed;
  for (const std::string& v : e.variables) keep.insert(v);
  const Piece p = expression(inner, keep);
  const std::vector<int> axes = positions(p, e.variables);
  if (axes.size() != e.variables.size())
    fail(e.place, fmt::format("{}: an index of it does not occur in what it is taken of", e.name));
  const std::vector<Axis> left = without(p.axes, e.variables);
  if (e.name == "sum") return {sum(p.tensor, axes), left};
  if (e.name == "mean") return {mean(p.tensor, axes), left};
  if (e.name == "max") return {max(p.tensor, axes), left};
  if (e.name == "min") return {min(p.tensor, axes), left};
  if (e.name == "prod") return {prod(p.tensor, axes), left};
  return {cast(argmax(p.tensor, axes), dtype()), left};
}

Piece Tracer::call(const Expr& e, const Names& needed) {
  const std::string& f = e.name;
  if (e.parts.size() == 2 && f != "sig") {
    const Piece a = expression(e.parts[0], needed), b = expression(e.parts[1], needed);
    return elementwise(a, b, [&](const Tensor& x, const Tensor& y) -> Tensor {
      if (f == "max") return maximum(x, y);
      if (f == "min") return minimum(x, y);
      if (f == "eq") return cast(eq(x, y), dtype());
      return cast(x < y, dtype());
    });
  }
  const Piece p = expression(e.parts[0], needed);
  const Tensor& x = p.tensor;
  if (f == "softmax" || f == "lnorm" || f == "normalise") {
    const std::vector<int> axis = positions(p, {normalised_});
    if (axis.empty())
      fail(e.place, fmt::format("{}: along which index? Mark it on the left with a dot, as in Y[i, j.]", f));
    if (f == "softmax") return {softmax(x, axis[0]), p.axes};
    if (f == "lnorm") return {standardise(x, axis), p.axes};
    return {x / sum(x, axis, Keep::yes), p.axes};
  }
  if (f == "sig" && e.parts.size() == 2) {
    const Expr& t = e.parts[1];
    if (t.kind == Expr::Kind::number && t.number == 0) return {cast(x > 0, dtype()), p.axes};  // T = 0 is deduction
    return elementwise(p, expression(t, needed), [](const Tensor& a, const Tensor& b) { return sigmoid(a / b); });
  }
  if (f == "sig" || f == "sigmoid") return {sigmoid(x), p.axes};
  if (f == "step") return {cast(x > 0, dtype()), p.axes};
  if (f == "relu") return {relu(x), p.axes};
  if (f == "gelu") return {gelu(x), p.axes};
  if (f == "softplus") return {softplus(x), p.axes};
  if (f == "tanh") return {tanh(x), p.axes};
  if (f == "exp") return {exp(x), p.axes};
  if (f == "log") return {log(x), p.axes};
  if (f == "sqrt") return {sqrt(x), p.axes};
  if (f == "abs") return {abs(x), p.axes};
  if (f == "square") return {square(x), p.axes};
  if (f == "sin") return {sin(x), p.axes};
  if (f == "cos") return {cos(x), p.axes};
  if (f == "floor") return {floor(x), p.axes};
  fail(e.place, fmt::format("{}: expected {}(i: ...)", f, f));
}

Piece Tracer::equation_value(int statement) {
  const Statement& s = program_.syntax.statements[statement];
  const SaidAt here(location_of(s));
  const int before = std::exchange(statement_, statement);
  const std::string axis_before = std::exchange(normalised_, "");
  Names needed;
  for (const Term& t : s.head.terms) {
    if (t.kind != Term::Kind::variable || t.virtual_index || bound_.contains(t.text)) continue;
    needed.insert(t.text);
    if (t.normalised) normalised_ = t.text;
  }
  const bool extreme = s.assign == "max=" || s.assign == "min=" || s.assign == "avg=";
  Names keep = needed;
  if (extreme) keep.merge(free_indices(s.value));
  Piece value = placed([&] { return expression(s.value, keep); });
  if (extreme) {
    std::vector<Axis> gone;
    for (const Axis& a : value.axes)
      if (!needed.contains(a)) gone.push_back(a);
    const std::vector<int> axes = positions(value, gone);
    if (!axes.empty())
      value.tensor = s.assign == "max="   ? max(value.tensor, axes)
                     : s.assign == "min=" ? min(value.tensor, axes)
                                          : mean(value.tensor, axes);
    value.axes = without(value.axes, gone);
  }
  statement_ = before;
  normalised_ = axis_before;
  return value;
}

/// All equations of a tensor for which `applies` holds, added up, or the greatest or least of them; empty if there is
/// none.
Tensor Tracer::added_up(int id, int skipped, const std::function<bool(const Statement&)>& applies) {
  Tensor total;
  for (std::size_t i = 0; i < program_.syntax.statements.size(); ++i) {
    const Statement& s = program_.syntax.statements[i];
    if (s.kind != Statement::Kind::equation || s.head.name != predicate(id).name || !applies(s)) continue;
    const int before = std::exchange(statement_, static_cast<int>(i));
    const Tensor whole = head_tensor(s.head, equation_value(static_cast<int>(i)), id, s.assign, 0, skipped);
    statement_ = before;
    if (total.empty())
      total = whole;
    else
      total = s.assign == "max=" ? maximum(total, whole) : s.assign == "min=" ? minimum(total, whole) : total + whole;
  }
  return total;
}

bool Tracer::is_given(int id) const {
  const Predicate& p = predicate(id);
  return p.learn || data_.arrays.contains(p.name) || data_.tables.contains(p.name);
}

Tensor Tracer::with_equations(int id, const Tensor& start) {
  const Tensor total = added_up(id, -1, [](const Statement&) { return true; });
  return total.empty() ? start : is_given(id) ? start + total : total;
}

}  // namespace wr::rules
