// Recursion that follows an index: X[i, j] from X[i - 1, k] is computed one i after the other, so that a net of layers,
// a recurrent net or a chain of messages becomes a plain graph. A virtual index, *t, keeps the last step alone.
#include <fmt/format.h>

#include <algorithm>

#include "rules/trace.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

const Term* virtual_term(const Atom& a) {
  for (const Term& t : a.terms)
    if (t.virtual_index) return &t;
  return nullptr;
}

}  // namespace

bool Tracer::in_component(const Atom& a, int component) const {
  return !a.choice && program_.component_of[program_.id(a.name)] == component;
}

bool Tracer::fits_sequence(int component, const std::vector<int>& axes, Sequence& out) const {
  const auto& members = program_.components[component];
  out = {};
  for (std::size_t m = 0; m < members.size(); ++m) {
    out.axis[members[m]] = axes[m];
    const Predicate& p = predicate(members[m]);
    const std::int64_t steps = domain(p.domains[axes[m]]).size;
    if (m > 0 && steps != out.steps) return false;
    out.steps = steps;
  }
  std::map<int, std::vector<int>> same_step;  // what a tensor needs of its own step
  bool fits = true;
  for (const Statement& s : program_.syntax.statements) {
    if (s.kind != Statement::Kind::equation || !in_component(s.head, component)) continue;
    const int head_id = program_.id(s.head.name);
    const Term& head = s.head.terms[out.axis.at(head_id)];
    for_each_atom(s.value, [&](const Atom& a, bool) {
      if (!in_component(a, component)) return;
      const int id = program_.id(a.name);
      const Term& t = a.terms[out.axis.at(id)];
      const auto plain = [](const Term& x) {
        return x.kind == Term::Kind::variable && (x.op == 0 || (x.op == '+' && x.other.empty()));
      };
      if (!plain(head) || !plain(t) || head.text != t.text || t.amount > head.amount) fits = false;
      if (t.amount == head.amount) same_step[head_id].push_back(id);
    });
  }
  if (!fits) return false;
  // An order in which each finds what it needs of its own step.
  std::map<int, int> state;
  std::function<bool(int)> visit = [&](int id) {
    if (state[id] == 2) return true;
    if (state[id] == 1) return false;
    state[id] = 1;
    for (int needs : same_step[id])
      if (!visit(needs)) return false;
    state[id] = 2;
    out.order.push_back(id);
    return true;
  };
  return std::all_of(members.begin(), members.end(), visit);
}

bool Tracer::find_sequence(int component, Sequence& out) const {
  const auto& members = program_.components[component];
  double combinations = 1;
  for (int m : members) {
    if (!predicate(m).tensor || predicate(m).domains.empty()) return false;
    combinations *= static_cast<double>(predicate(m).domains.size());
  }
  bool recursive = false;
  for (const Statement& s : program_.syntax.statements)
    if (s.kind == Statement::Kind::equation && in_component(s.head, component))
      for_each_atom(s.value, [&](const Atom& a, bool) { recursive = recursive || in_component(a, component); });
  if (!recursive || combinations > 100'000) return false;
  std::vector<int> axes(members.size(), 0);
  for (;;) {
    if (fits_sequence(component, axes, out)) return true;
    std::size_t m = 0;
    while (m < axes.size() && ++axes[m] == static_cast<int>(predicate(members[m]).domains.size())) axes[m++] = 0;
    if (m == axes.size()) return false;
  }
}

Tensor Tracer::sequence_step(int id, const Sequence& sequence, std::int64_t step) {
  const int axis = sequence.axis.at(id), component = program_.component_of[id];
  const Bound before = bound_;
  Tensor total = added_up(id, axis, [&](const Statement& s) {
    const Term& head = s.head.terms[axis];
    bound_ = before;
    if (head.kind != Term::Kind::variable) return domain(predicate(id).domains[axis]).find(head.text) == step;
    bound_[head.text] = step - head.amount;
    bool applies = step >= head.amount && step - head.amount < sequence.steps;
    // An equation that needs a step before the first says nothing about this one.
    for_each_atom(s.value, [&](const Atom& a, bool) {
      if (!in_component(a, component)) return;
      const Term& t = a.terms[sequence.axis.at(program_.id(a.name))];
      applies = applies && step - head.amount + t.amount >= 0;
    });
    return applies;
  });
  bound_ = before;
  Shape shape = shape_of(id);
  shape.erase(axis);
  const Tensor start = is_given(id) ? squeeze(slice(base(id), axis, step, step + 1), axis) : full(shape, 0, dtype());
  return total.empty() ? start : is_given(id) ? start + total : total;
}

void Tracer::trace_sequence(const Sequence& sequence) {
  for (const auto& [id, axis] : sequence.axis) {
    slices_[id] = {};
    slice_axis_[id] = axis;
  }
  for (std::int64_t step = 0; step < sequence.steps; ++step)
    for (int id : sequence.order) {
      const Tensor slice = sequence_step(id, sequence, step);
      slices_[id].push_back(slice);
    }
  for (const auto& [id, axis] : sequence.axis) {
    values_[id] = sequence.steps == 0 ? full(shape_of(id), 0, dtype()) : stack(slices_.at(id), axis);
    slices_.erase(id);
  }
}

// ---- virtual indices ----

bool Tracer::is_virtual(int component) const {
  for (const Statement& s : program_.syntax.statements)
    if (s.kind == Statement::Kind::equation && in_component(s.head, component))
      for (const Term& t : s.head.terms)
        if (t.virtual_index) return true;
  return false;
}

/// What is of this step, X[*t], in an order in which each finds what it needs of it.
std::vector<int> Tracer::virtual_order(int component) const {
  std::vector<int> order;
  std::map<int, int> state;
  std::function<void(int)> visit = [&](int id) {
    if (state[id] == 2) return;
    if (state[id] == 1)
      throw Error(fmt::format("{}: {} needs itself in the same step of its virtual index", program_.syntax.name,
                              predicate(id).name));
    state[id] = 1;
    for (const Statement& s : program_.syntax.statements) {
      if (s.kind != Statement::Kind::equation || s.head.name != predicate(id).name) continue;
      if (const Term* t = virtual_term(s.head); t == nullptr || t->amount != 0) continue;
      for_each_atom(s.value, [&](const Atom& a, bool) {
        if (in_component(a, component)) visit(program_.id(a.name));
      });
    }
    state[id] = 2;
    order.push_back(id);
  };
  for (int m : program_.components[component]) visit(m);
  return order;
}

void Tracer::trace_virtual(int component) {
  const auto& members = program_.components[component];
  // How many steps: as many as the index has values where it stands without its star.
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < program_.syntax.statements.size(); ++i) {
    const Statement& s = program_.syntax.statements[i];
    if (s.kind != Statement::Kind::equation || !in_component(s.head, component)) continue;
    if (const Term* t = virtual_term(s.head)) steps = std::max(steps, domain(program_.variables[i].at(t->text)).size);
  }
  if (steps == 0) steps = settings_.iterations;
  if (steps == 0)
    throw Error(fmt::format(
        "{}: {} goes on along a virtual index: use it without its star somewhere, or say how many iterations "
        "to trace",
        program_.syntax.name, predicate(members[0]).name));
  for (int m : members) {
    const Tensor start = added_up(m, -1, [&](const Statement& s) { return virtual_term(s.head) == nullptr; });
    values_[m] = start.empty() ? base(m) : start;
  }
  const std::vector<int> order = virtual_order(component);
  for (std::int64_t step = 0; step < steps; ++step) {
    std::map<int, Tensor> after;
    for (int now : {0, 1})  // first what is of this step, then what is of the next, X[*t+1]
      for (int m : order) {
        const Bound before = bound_;
        const Tensor value = added_up(m, -1, [&](const Statement& s) {
          bound_ = before;
          const Term* t = virtual_term(s.head);
          if (t == nullptr || (t->amount != 0) != (now == 1)) return false;
          bound_[t->text] = step;
          return true;
        });
        bound_ = before;
        if (value.empty()) continue;
        if (now == 0)
          values_[m] = value;
        else
          after[m] = value;
      }
    for (const auto& [m, value] : after) values_[m] = value;
  }
}

}  // namespace wr::rules
