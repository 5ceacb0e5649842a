#include "rules/real.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "rules/inside.h"
#include "windrow/clock.h"
#include "windrow/error.h"
#include "windrow/step.h"

namespace wr::rules {
namespace {

/// The rule or equation by which a predicate depends on its own component, else its first: for messages and profiles.
const Statement* recursive_rule(const Checked& program, int component, int predicate) {
  const Statement* first = nullptr;
  for (const Statement& s : program.syntax.statements) {
    if ((s.kind != Statement::Kind::rule && s.kind != Statement::Kind::equation) ||
        program.id(s.head.name) != predicate)
      continue;
    bool recursive = false;
    const auto see = [&](const Atom& a, bool) {
      const int id = a.choice ? -1 : program.id(a.name);
      recursive = recursive || (id >= 0 && program.component_of[id] == component);
    };
    for_each_atom(s.body, false, see);
    for_each_atom(s.value, see);
    if (recursive) return &s;
    if (first == nullptr) first = &s;
  }
  return first;
}

void in_order_of_use(const Formula& body, std::vector<Axis>& variables) {
  std::vector<Axis> order;
  for_each_atom(body, false, [&](const Atom& a, bool) {
    for (const Term& t : a.terms)
      if (std::find(variables.begin(), variables.end(), t.text) != variables.end() &&
          std::find(order.begin(), order.end(), t.text) == order.end())
        order.push_back(t.text);
  });
  variables = std::move(order);
}

/// All predicates that these need, themselves included.
std::set<int> needed_by(const Checked& program, std::vector<int> wanted) {
  std::set<int> needed;
  while (!wanted.empty()) {
    const int p = wanted.back();
    wanted.pop_back();
    if (p < 0 || !needed.insert(p).second) continue;
    for (const Statement& s : program.syntax.statements) {
      if ((s.kind != Statement::Kind::rule && s.kind != Statement::Kind::equation) || program.id(s.head.name) != p)
        continue;
      const auto add = [&](const Atom& a, bool) { wanted.push_back(program.id(a.name)); };
      for_each_atom(s.body, false, add);
      for_each_atom(s.value, add);
    }
  }
  return needed;
}

/// About to leave what a double can hold: what is infinite next has grown without bounds.
bool is_huge(const Array& values) {
  const std::vector<double> all = values.to_vector<double>();
  return std::any_of(all.begin(), all.end(), [](double v) { return std::isfinite(v) && std::abs(v) > 1e100; });
}

}  // namespace

int fixpoint_iterations(const Syntax& syntax) {
  const Statement* said = directive(syntax, "fixpoint");
  return said == nullptr ? 0 : std::stoi(said->options[0].value);
}

double fixpoint_tolerance(const Syntax& syntax) {
  const Statement* said = directive(syntax, "fixpoint");
  return said == nullptr || said->options.size() < 2 ? -1 : std::stod(said->options[1].value);
}

RealSolver::RealSolver(const Checked& program, const Data& data, Parameters& parameters, Semantics semantics,
                       const SolveOptions& options, int query)
    : program_(program), data_(data), parameters_(parameters), options_(options), query_(query) {
  settings_.semantics = semantics;
  settings_.memory = options.memory;
  if (options_.most_iterations == 0) options_.most_iterations = fixpoint_iterations(program.syntax);
  settings_.iterations = options_.most_iterations;
  if (options_.most_iterations == 0) options_.most_iterations = 10'000;
  if (options_.tolerance < 0) options_.tolerance = fixpoint_tolerance(program.syntax);
  if (options_.tolerance < 0) options_.tolerance = 1e-9;
}

const std::shared_ptr<const Lists>& RealSolver::lists() {
  if (lists_ == nullptr)
    lists_ = std::make_shared<Lists>(program_, data_, settings_.semantics, dense_, settings_.memory, query_);
  return lists_;
}

Tracer RealSolver::tracer() {
  Tracer t(program_, data_, parameters_, settings_, lists());
  for (const auto& [p, array] : solved_) t.give(p, Tensor(array));
  return t;
}

std::vector<Array> RealSolver::run(const std::function<std::vector<Tensor>(Tracer&)>& trace) {
  Step step = compile(
      [&](const std::vector<Tensor>&) {
        Tracer t = tracer();
        return trace(t);
      },
      std::vector<Spec>{});
  const Step::Results results = step.run({});
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < results.size(); ++i) arrays.push_back(results[i].clone());
  return arrays;
}

void RealSolver::prepare(const std::vector<int>& wanted) {
  const std::set<int> needed = needed_by(program_, wanted);
  const Tracer probe(program_, data_, parameters_, settings_, lists());
  for (std::size_t c = 0; c < program_.components.size(); ++c) {
    const auto& members = program_.components[c];
    if (!needed.contains(members[0]) || solved_.contains(members[0]) || !probe.needs_fixpoint(static_cast<int>(c)))
      continue;
    solve_fixpoint(static_cast<int>(c));
  }
}

void RealSolver::solve_fixpoint(int component) {
  const double start = seconds_now();
  const auto& members = program_.components[component];
  std::vector<Array> now = run([&](Tracer& t) {
    std::vector<Tensor> list;
    for (int m : members) list.push_back(t.base(m));
    return list;
  });
  std::vector<Spec> specs;
  for (const Array& a : now) specs.push_back({a.dtype(), a.shape()});
  const std::size_t n = members.size();
  Step step = compile(
      [&](const std::vector<Tensor>& x) {
        Tracer t = tracer();
        std::vector<Tensor> after = t.next(component, x);
        for (std::size_t i = 0; i < n; ++i)  // equal infinities have not changed
          after.push_back(max(where(eq(after[i], x[i]), 0, abs(after[i] - x[i]))));
        return after;
      },
      specs);
  int i = 1;
  for (;; ++i) {
    std::vector<const Array*> arguments;
    for (const Array& a : now) arguments.push_back(&a);
    const Step::Results after = step.run(arguments);
    std::size_t most = 0;  // who changes most
    double change = 0;
    bool diverged = false;
    for (std::size_t m = 0; m < n && !diverged; ++m) {
      const double here = after[n + m].item<double>();
      diverged = std::isinf(here) && settings_.semantics != Semantics::minplus && is_huge(now[m]);
      now[m] = after[m].clone();
      if (std::isnan(here) || here > change) change = here, most = m;
      if (std::isnan(here)) break;
    }
    if (change <= options_.tolerance) break;
    if (i >= options_.most_iterations || std::isnan(change) || diverged) {
      const Statement* rule = recursive_rule(program_, component, members[most]);
      fail_at(program_.syntax.name, rule != nullptr ? rule->place : Place{},
              fmt::format("no convergence: `{}` still changes by {:.3g} after {} iterations (the tolerance is {:g})",
                          rule != nullptr ? format(*rule) : "", change, i, options_.tolerance));
    }
  }
  for (std::size_t m = 0; m < n; ++m) solved_[members[m]] = now[m];
  fixpoints_.push_back(component);
  facts_.iterations += i;
  const Statement* rule = recursive_rule(program_, component, members[0]);
  facts_.rules.push_back(
      {rule != nullptr ? format(*rule) : "", rule != nullptr ? rule->place.line : 0, seconds_now() - start, i});
}

RealSolver::Found RealSolver::query(int statement) {
  const double start = seconds_now();
  const Statement& s = program_.syntax.statements[statement];
  std::vector<int> wanted;
  for_each_atom(s.body, false, [&](const Atom& a, bool) { wanted.push_back(program_.id(a.name)); });
  prepare(wanted);
  Found found;
  found.values = run([&](Tracer& t) {
    BodyValue body = t.body(statement);
    found.joint = std::move(body.joint);
    found.axes = without(body.piece.axes, {kJoint});
    return std::vector<Tensor>{body.piece.tensor};
  })[0];
  facts_.seconds += seconds_now() - start;
  return found;
}

Array RealSolver::value(int predicate) {
  prepare({predicate});
  return run([&](Tracer& t) { return std::vector<Tensor>{t.dense(predicate)}; })[0];
}

double RealSolver::value_at(int predicate, const std::vector<Value>& tuple) {
  if (!asked_.contains(predicate)) {
    prepare({predicate});
    asked_[predicate] = run([&](Tracer& t) { return std::vector<Tensor>{t.value(predicate)}; })[0];
  }
  Dims index;
  if (const TupleList* list = lists()->find(predicate))
    index.push_back(list->number(tuple.data()));
  else
    for (Value v : tuple) index.push_back(v);
  return std::as_const(asked_.at(predicate)).at<double>(index);
}

Answers solve_real(const Checked& program, const Data& data, Parameters& parameters, int query, Semantics semantics,
                   const SolveOptions& options, SolveFacts* facts) {
  RealSolver solver(program, data, parameters, semantics, options, query);
  const RealSolver::Found found = solver.query(query);
  if (facts != nullptr) *facts = solver.facts();
  const Array values = found.values.contiguous();
  Answers answers;
  answers.query = format(program.syntax.statements[query].body);
  const Formula& body = program.syntax.statements[query].body;
  // What is false is no answer; of a tensor 0 is a number like any other.
  const bool all = body.kind == Formula::Kind::atom && body.atom.tensor;
  const double outside = Logic(semantics, DType::f64).falsehood();
  std::vector<Axis> variables = found.axes;
  if (found.joint)
    for (const auto& [name, column] : found.joint->columns) variables.push_back(name);
  in_order_of_use(body, variables);
  std::map<Axis, const Domain*> domains;
  for (const Axis& a : variables) {
    answers.columns.push_back(a.substr(0, a.find('#')));
    domains[a] = &program.domains[program.variables[query].at(a)];
  }
  if (found.joint && found.joint->count == 0 && !variables.empty()) return answers;
  const double* v = values.data<double>();
  std::map<Axis, std::int64_t> at;
  for (std::int64_t i = 0; i < values.count(); ++i) {
    if (v[i] == outside && !all && !variables.empty()) continue;
    std::int64_t rest = i;
    for (int a = values.rank() - 1, k = static_cast<int>(found.axes.size()) - 1; k >= 0; --a, --k) {
      at[found.axes[k]] = rest % values.shape()[a];
      rest /= values.shape()[a];
    }
    if (found.joint)
      for (const auto& [name, column] : found.joint->columns) at[name] = column[rest];
    std::vector<std::string> row;
    for (const Axis& a : variables) row.push_back(domains.at(a)->name_of(at.at(a)));
    answers.rows.push_back(std::move(row));
    answers.values.push_back(v[i]);
  }
  return answers;
}

// ---- gradients at a fixpoint ----
//
// x = F(x, p) and a loss L(x, p): with a = dL/dx + (dF/dx)^T a, found by iterating like x itself, the gradient is
// dL/dp + (dF/dp)^T a. Components that were solved later lean on earlier ones, so they are undone first.

/// Arguments: adjoints and values of all recursive predicates, values of what is asked for. Results: gradients by the
/// values.
Step RealSolver::adjoint_step(int loss, const std::vector<int>& members, const std::vector<int>& asked,
                              const std::vector<Spec>& specs) {
  const std::size_t n = members.size();
  return compile(
      [&](const std::vector<Tensor>& in) {
        Tracer t(program_, data_, parameters_, settings_, lists());
        for (std::size_t i = 0; i < asked.size(); ++i) t.give(asked[i], in[2 * n + i]);
        const auto give_all = [&] {
          for (std::size_t i = 0; i < n; ++i) t.give(members[i], in[n + i]);
        };
        give_all();
        Tensor total = sum(t.dense(loss));
        std::size_t at = 0;
        for (int c : fixpoints_) {
          std::vector<Tensor> now;
          const std::size_t count = program_.components[c].size();
          for (std::size_t i = 0; i < count; ++i) now.push_back(in[n + at + i]);
          give_all();
          const std::vector<Tensor> after = t.next(c, now);
          for (std::size_t i = 0; i < count; ++i) total = total + sum(after[i] * in[at + i]);
          at += count;
        }
        return grad(total, {in.begin() + static_cast<std::ptrdiff_t>(n), in.end()}, allow_unused);
      },
      specs);
}

int RealSolver::given(const std::string& name) const {
  const int id = program_.id(name);
  if (id < 0) throw Error(fmt::format("{}: no relation or tensor is called '{}'", program_.syntax.name, name));
  if (program_.predicates[id].defined)
    throw Error(
        fmt::format("{}: {} has rules or equations; gradients are by what is given", program_.syntax.name, name));
  return id;
}

std::map<std::string, Array> RealSolver::gradient(int loss, const std::vector<std::string>& by) {
  std::vector<int> asked;
  for (const std::string& name : by) asked.push_back(given(name));
  dense_.insert(asked.begin(), asked.end());
  std::vector<Array> found = gradients_by(loss, asked);
  std::map<std::string, Array> gradients;
  for (std::size_t k = 0; k < by.size(); ++k) gradients[by[k]] = std::move(found[k]);
  return gradients;
}

Answers RealSolver::gradient_by_facts(int loss, const std::string& relation) {
  const int id = given(relation);
  const Predicate& p = program_.predicates[id];
  const Array by = gradients_by(loss, {id})[0];
  Answers answers;
  answers.query = relation;
  for (std::size_t i = 0; i < p.domains.size(); ++i) answers.columns.push_back(program_.domains[p.domains[i]].name);
  const auto add = [&](const Value* tuple, std::int64_t at) {
    std::vector<std::string> row;
    for (std::size_t i = 0; i < p.domains.size(); ++i) row.push_back(program_.domains[p.domains[i]].name_of(tuple[i]));
    answers.rows.push_back(std::move(row));
    answers.values.push_back(by.data<double>()[at]);
  };
  if (const TupleList* list = lists()->find(id)) {
    list->each([&](std::int32_t n, const Value* tuple) { add(tuple, n); });
    return answers;
  }
  const Array facts = run([&](Tracer& t) { return std::vector<Tensor>{t.base(id)}; })[0];
  std::vector<Value> tuple(p.domains.size());
  for (std::int64_t i = 0; i < facts.count(); ++i) {
    if (facts.data<double>()[i] == 0) continue;
    for (std::int64_t rest = i, a = std::ssize(tuple) - 1; a >= 0; rest /= facts.shape()[static_cast<int>(a)], --a)
      tuple[a] = static_cast<Value>(rest % facts.shape()[static_cast<int>(a)]);
    add(tuple.data(), i);
  }
  return answers;
}

std::vector<Array> RealSolver::gradients_by(int loss, const std::vector<int>& asked) {
  std::vector<int> members;
  std::vector<Spec> specs;
  prepare({loss});
  for (int c : fixpoints_)
    for (int m : program_.components[c]) members.push_back(m);
  std::vector<Array> values = run([&](Tracer& t) {
    std::vector<Tensor> list;
    for (int id : asked) list.push_back(t.base(id));
    return list;
  });
  // Arguments: adjoints and values of all recursive predicates, values of what is asked for.
  std::vector<Array> arguments;
  for (int m : members) arguments.push_back(Array::zeros(solved_.at(m).shape(), DType::f64));
  for (int m : members) arguments.push_back(solved_.at(m));
  for (Array& v : values) arguments.push_back(std::move(v));
  for (const Array& a : arguments) specs.push_back({DType::f64, a.shape()});
  const std::size_t n = members.size();
  Step step = adjoint_step(loss, members, asked, specs);
  std::vector<Array> gradients;
  for (int i = 1;; ++i) {
    std::vector<const Array*> list;
    for (const Array& a : arguments) list.push_back(&a);
    const Step::Results results = step.run(list);
    double change = 0;
    for (std::size_t m = 0; m < n; ++m) {
      const double* before = arguments[m].data<double>();
      const double* after = results[m].data<double>();
      for (std::int64_t k = 0; k < arguments[m].count(); ++k) change = std::max(change, std::abs(after[k] - before[k]));
      arguments[m] = results[m].clone();
    }
    if (change > options_.tolerance && i < options_.most_iterations) continue;
    if (change > options_.tolerance || std::isnan(change))
      throw Error(
          fmt::format("{}: the adjoint fixpoint still changes by {:.3g} after {} iterations (the tolerance is {:g})",
                      program_.syntax.name, change, i, options_.tolerance));
    for (std::size_t k = 0; k < asked.size(); ++k) gradients.push_back(results[n + k].clone());
    return gradients;
  }
}

}  // namespace wr::rules
