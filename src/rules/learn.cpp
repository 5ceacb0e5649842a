// Learning: what @minimize names is traced once with its gradients and the optimiser, and run until it is done.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "rules/inside.h"
#include "rules/real.h"
#include "rules/strata.h"
#include "windrow/checkpoint.h"
#include "windrow/clock.h"
#include "windrow/error.h"
#include "windrow/optim.h"
#include "windrow/step.h"
#include "windrow/text.h"

namespace wr::rules {
namespace {

TraceSettings settings_for(const Program::Inside& inside, const TraceOptions& options) {
  TraceSettings settings;
  settings.semantics = options.semantics.value_or(inside.semantics);
  if (settings.semantics == Semantics::boolean)
    throw Error(fmt::format("{}: boolean semantics has no gradient and no tensors; choose another, such as product",
                            inside.syntax.name));
  settings.dtype = options.dtype;
  settings.iterations = options.iterations > 0 ? options.iterations : fixpoint_iterations(inside.syntax);
  return settings;
}

Tracer tracer_for(const Program::Inside& inside, const std::map<std::string, Tensor>& inputs,
                  const TraceOptions& options) {
  Tracer tracer(inside.checked, inside.data, inside.parameters, settings_for(inside, options));
  for (const auto& [name, value] : inputs) {
    const int id = inside.checked.id(name);
    if (id < 0) throw Error(fmt::format("{}: no relation or tensor is called '{}'", inside.syntax.name, name));
    Shape shape;
    for (int d : inside.checked.predicates[id].domains) shape.push_back(inside.checked.domains[d].size);
    if (value.shape() != shape)
      throw Error(fmt::format("{}: {} is {}, the input is {}", inside.syntax.name, name, to_string(shape),
                              to_string(value.shape())));
    tracer.give(id, value);
  }
  return tracer;
}

Tensor constraints_of(Tracer& tracer) {
  Tensor total;
  double weights = 0;
  const auto& statements = tracer.program().syntax.statements;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const Statement& s = statements[i];
    if (s.kind != Statement::Kind::constraint) continue;
    const Piece value = tracer.body(static_cast<int>(i)).piece;
    if (!value.axes.empty())
      fail_at(tracer.program().syntax.name, s.place,
              fmt::format("'{}' stands free in a constraint; quantify it with forall or exists",
                          value.axes[0].substr(0, value.axes[0].find('#'))));
    const Tensor weighted = value.tensor * s.weight;
    total = total.empty() ? weighted : total + weighted;
    weights += s.weight;
  }
  if (total.empty()) throw Error(fmt::format("{}: there are no constraints", tracer.program().syntax.name));
  return total * (1 / weights);
}

/// The checker has seen that it is a number.
double option(const Statement& s, const std::string& name, double otherwise) {
  for (const Option& o : s.options)
    if (o.name == name) return std::stod(o.value);
  return otherwise;
}

std::unique_ptr<optim::Optimiser> optimiser_for(const Statement& s, double lr) {
  const double decay = option(s, "decay", 0);
  std::string name = "adam";
  for (const Option& o : s.options)
    if (o.name == "optimiser") name = o.value;
  if (name == "adamw") return std::make_unique<optim::AdamW>(optim::Adam::Options{.lr = lr, .weight_decay = decay});
  if (name == "sgd") return std::make_unique<optim::Sgd>(optim::Sgd::Options{.lr = lr, .weight_decay = decay});
  if (name == "rmsprop")
    return std::make_unique<optim::RmsProp>(optim::RmsProp::Options{.lr = lr, .weight_decay = decay});
  return std::make_unique<optim::Adam>(optim::Adam::Options{.lr = lr, .weight_decay = decay});
}

constexpr std::string_view kMoments = "optimiser.";  // no relation and no rule's weight begins so, for the dot

/// Training goes on where it ended, if the optimiser is of the same kind and everything that is learned was learned.
void take_up(optim::Optimiser& optimiser, const std::map<std::string, Array>& moments, double lr) {
  std::vector<State> states = optimiser.states();
  const auto fits = [&](const State& s) {
    const auto found = moments.find(s.name());
    return found != moments.end() && found->second.shape() == s.shape() && found->second.dtype() == s.spec().dtype;
  };
  if (states.size() != moments.size() || !std::all_of(states.begin(), states.end(), fits)) return;
  for (State& s : states) s.set(moments.at(s.name()));
  optimiser.set_lr(lr);
}

/// What each parameter's elements stand for, as text: equal texts of two programs mean the same.
std::map<std::string, std::string> meanings_of_parameters(const Checked& program) {
  std::map<std::string, std::string> meanings;
  for (const Predicate& p : program.predicates) {
    if (!p.learn) continue;
    std::string& text = meanings[p.name];
    for (int d : p.domains) {
      const Domain& domain = program.domains[d];
      text += fmt::format("{} {}\n", domain.name, domain.size);
      for (const std::string& name : domain.names) text += name + "\n";
    }
  }
  for (const Statement& s : program.syntax.statements) {
    if (s.kind != Statement::Kind::rule) continue;
    if (s.learned_weight) meanings[weight_name(s)] = format(s);
    for_each_atom(s.body, false, [&](const Atom& a, bool) {
      if (!a.choice) return;
      std::string& text = meanings["?" + a.name];
      for (std::size_t p = 0; p < program.predicates.size(); ++p)
        if (matches_choice(program, a, static_cast<int>(p), program.id(s.head.name)))
          text += program.predicates[p].name + "\n";
    });
  }
  return meanings;
}

}  // namespace

Tensor Program::trace(const std::string& name, const std::map<std::string, Tensor>& inputs,
                      const TraceOptions& options) {
  const int id = inside_->checked.id(name);
  if (id < 0) throw Error(fmt::format("{}: no relation or tensor is called '{}'", inside_->syntax.name, name));
  return tracer_for(*inside_, inputs, options).dense(id);
}

Tensor Program::trace_constraints(const std::map<std::string, Tensor>& inputs, const TraceOptions& options) {
  Tracer tracer = tracer_for(*inside_, inputs, options);
  return constraints_of(tracer);
}

std::vector<State> Program::parameters() const {
  std::vector<State> list;
  for (const auto& [name, state] : inside_->parameters) list.push_back(state);
  return list;
}

TrainReport Program::train(const TrainOptions& options) {
  const Statement* goal = directive(inside_->syntax, "minimize");
  if (goal == nullptr)
    throw Error(fmt::format("{}: nothing says what to minimise; add @minimize Loss(lr=0.01, steps=1000).",
                            inside_->syntax.name));
  const std::string& file = inside_->syntax.name;
  const int steps = options.steps > 0 ? options.steps : static_cast<int>(option(*goal, "steps", 1000));
  const double lr = options.lr > 0 ? options.lr : option(*goal, "lr", 0.01);
  const auto optimiser = optimiser_for(*goal, lr);
  TrainReport report;
  const double start = seconds_now();
  const auto seconds = [&] { return seconds_now() - start; };
  Step step = compile(
      [&](const std::vector<Tensor>&) {
        TraceOptions trace_options;
        trace_options.semantics = options.semantics;
        const Tensor loss = goal->head.name == "constraints" ? 1 - trace_constraints({}, trace_options)
                                                             : trace(goal->head.name, {}, trace_options);
        if (loss.shape().count() != 1)
          fail_at(file, goal->head.place,
                  fmt::format("{} is {}; what is minimised has one element", goal->head.name, to_string(loss.shape())));
        if (inside_->parameters.empty())
          fail_at(file, goal->place,
                  meanings_of_parameters(inside_->checked).empty()
                      ? "nothing is learned: declare a tensor or relation with `learn`, or a rule with `learn ::`"
                      : goal->head.name + " depends on nothing that is learned");
        optimiser->minimize(loss, parameters(), allow_unused);
        return std::vector<Tensor>{reshape(loss, {})};
      },
      std::vector<Spec>{});
  report.compile_seconds = seconds();
  take_up(*optimiser, inside_->moments, lr);
  const Location where(file, static_cast<unsigned>(goal->place.line));
  for (int i = 1; i <= steps; ++i) {
    const double loss = static_cast<double>(step.run({}, where)[0].item<float>());
    report.losses.push_back(loss);
    if (!std::isfinite(loss))
      fail_at(file, goal->place,
              fmt::format("the loss is {} after {} steps; a smaller lr may help", text::shown(loss), i));
    const bool last = i == steps || (options.stop && options.stop());
    if (options.progress && (i % options.every == 0 || last) && !options.progress(i, loss)) break;
    if (last) break;
  }
  inside_->moments.clear();
  for (const State& s : optimiser->states()) inside_->moments[s.name()] = s.value();
  report.seconds = seconds();
  return report;
}

std::string Program::learned() const {
  const auto probability = [](double logit) { return 1 / (1 + std::exp(-logit)); };
  std::string text;
  for (const Statement& s : inside_->checked.syntax.statements) {
    if (s.kind != Statement::Kind::rule) continue;
    Statement shown = s;
    bool learned = false;
    if (s.learned_weight)
      if (const auto found = inside_->parameters.find(weight_name(s)); found != inside_->parameters.end()) {
        shown.learned_weight = false;
        shown.weighted = learned = true;
        const double logit = found->second.value().astype(DType::f64).item<double>();
        shown.weight = std::round(probability(logit) * 1e4) / 1e4;
      }
    std::string notes;
    std::function<void(Formula&)> choose = [&](Formula& f) {
      for (Formula& part : f.parts) choose(part);
      if (f.kind != Formula::Kind::atom || !f.atom.choice) return;
      const auto found = inside_->parameters.find("?" + f.atom.name);
      if (found == inside_->parameters.end()) return;
      const std::vector<double> logits = found->second.value().astype(DType::f64).to_vector<double>();
      double total = 0, most = -1;
      for (double l : logits) total += std::exp(l);
      std::size_t k = 0;
      std::string best;
      const int head = inside_->checked.id(s.head.name);
      for (std::size_t p = 0; p < inside_->checked.predicates.size(); ++p)
        if (matches_choice(inside_->checked, f.atom, static_cast<int>(p), head)) {
          const double share = std::exp(logits.at(k++)) / total;
          if (share > most) most = share, best = inside_->checked.predicates[p].name;
        }
      notes += fmt::format("{}?{} is {} ({:.3f})", notes.empty() ? "  # " : ", ", f.atom.name, best, most);
      f.atom.choice = false;
      f.atom.name = best;
      learned = true;
    };
    choose(shown.body);
    if (learned) text += format(shown) + notes + "\n";
  }
  return text;
}

void Program::save(const std::string& path) const {
  CheckpointStates states;
  for (const auto& [name, state] : inside_->parameters) states.add(name, state);
  for (const auto& [name, value] : inside_->moments) states.add(std::string(kMoments) + name, State(value, name));
  save_checkpoint(path, states, {{"kind", "rules"}, {"program", inside_->syntax.name}});
}

void Program::restore(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const auto learned = meanings_of_parameters(inside_->checked);
  for (const auto& [name, array] : file.tensors) {
    if (!learned.contains(name) && !name.starts_with(kMoments))
      throw Error(fmt::format("{}: holds '{}', which {} does not learn; is it of another program?", path, name,
                              inside_->syntax.name));
    if (!is_floating(array.dtype()))
      throw Error(fmt::format("{}: '{}' is {}; expected numbers such as f32", path, name,
                              to_string(Spec{array.dtype(), array.shape()})));
    for (double value : array.astype(DType::f64).to_vector<double>())
      if (!std::isfinite(value))
        throw Error(fmt::format("{}: '{}' has a value that is {}", path, name, text::shown(value)));
  }
  inside_->moments.clear();
  for (const auto& [name, array] : file.tensors)
    if (name.starts_with(kMoments))
      inside_->moments[name.substr(kMoments.size())] = array;
    else
      inside_->parameters[name] = State(array, name);
}

std::vector<std::string> Program::adopt_learned(const Program& other) {
  const auto here = meanings_of_parameters(inside_->checked), there = meanings_of_parameters(other.inside_->checked);
  std::vector<std::string> rest;
  for (const auto& [name, state] : other.inside_->parameters) {
    const auto mine = here.find(name), theirs = there.find(name);
    if (mine != here.end() && theirs != there.end() && mine->second == theirs->second)
      inside_->parameters[name] = state;
    else
      rest.push_back(name);
  }
  inside_->moments = other.inside_->moments;
  return rest;
}

namespace {

/// A solver for gradients, and the number of what is differentiated.
std::pair<RealSolver, int> differentiable(const Program::Inside& inside, const std::string& loss,
                                          const SolveOptions& options) {
  const int id = inside.checked.id(loss);
  if (id < 0) throw Error(fmt::format("{}: no relation or tensor is called '{}'", inside.syntax.name, loss));
  const Semantics semantics = options.semantics.value_or(inside.semantics);
  if (semantics == Semantics::boolean)
    throw Error(
        fmt::format("{}: boolean semantics has no gradient; choose another, such as product", inside.syntax.name));
  return {RealSolver(inside.checked, inside.data, inside.parameters, semantics, options), id};
}

}  // namespace

std::map<std::string, Array> Program::gradient(const std::string& loss, const std::vector<std::string>& by,
                                               const SolveOptions& options) const {
  auto [solver, id] = differentiable(*inside_, loss, options);
  return solver.gradient(id, by);
}

Answers Program::gradient_by_facts(const std::string& loss, const std::string& relation,
                                   const SolveOptions& options) const {
  auto [solver, id] = differentiable(*inside_, loss, options);
  return solver.gradient_by_facts(id, relation);
}

}  // namespace wr::rules
