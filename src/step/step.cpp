// Step: which plan runs, on what, and what it gives.
#include "windrow/step.h"

#include <algorithm>

#include "backend/cpu/target.h"
#include "base/machine.h"
#include "base/thread_team.h"
#include "ir/elsewhere.h"
#include "step/inside.h"
#include "step/profile.h"

namespace wr {
namespace {

int checked_threads(int threads, Location where) {
  if (threads < 0 || threads > kMaxThreads)
    fail(where, "threads: " + std::to_string(threads) + " is not in 1.." + std::to_string(kMaxThreads));
  return threads ? threads : default_threads();
}

std::string name_of(const CompileOptions& options) { return options.name.empty() ? "step" : options.name; }

/// Messages are put together only when there is something to say: a run allocates nothing.
[[noreturn]] void refuse(const CompileOptions& options, Location where, const std::string& what) {
  fail(where, name_of(options) + ": " + what);
}

Spec spec_of(const Array& a) { return {a.dtype(), a.shape()}; }

std::string to_text(const std::vector<Spec>& specs) {
  std::string text;
  for (const Spec& spec : specs) text += (text.empty() ? "" : ", ") + to_string(spec);
  return text;
}

bool has_open_sizes(const std::vector<Spec>& specs) {
  for (const Spec& spec : specs)
    for (std::int64_t size : spec.shape)
      if (is_open(size)) return true;
  return false;
}

void expect_count(const CompileOptions& options, std::size_t want, std::size_t given, Location where) {
  if (given != want)
    refuse(options, where, "takes " + std::to_string(want) + " arguments, got " + std::to_string(given));
}

}  // namespace

// ---- results ----

void Step::Results::none(std::size_t i) const {
  fail(where_, "result " + std::to_string(i) + " was asked for, the step has " + std::to_string(arrays_.size()));
}

void Step::Results::bring(std::size_t i) const {
  const Turn::Hold turn(there_->turn);
  there_->fetch(i, where_);
}

double Step::Results::number() const {
  const Array& a = (*this)[0];
  if (a.count() != 1) fail(where_, "the result is " + to_string(spec_of(a)) + ", not one number");
  switch (a.dtype()) {
    case DType::f32:
      return a.item<float>();
    case DType::f64:
      return a.item<double>();
    case DType::i32:
      return a.item<std::int32_t>();
    case DType::u8:
      return a.item<std::uint8_t>();
    case DType::boolean:
      return a.item<bool>();
  }
  return 0;
}

// ---- plans ----

bool Step::Inside::takes(std::span<const Array* const> arguments) const noexcept {
  const ir::Graph& g = *schedule.graph;
  if (arguments.size() != g.inputs.size()) return false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Spec& want = g[g.inputs[i]].spec;
    if (arguments[i]->dtype() != want.dtype || !(arguments[i]->shape() == want.shape)) return false;
  }
  return true;
}

void Step::Inside::bind(std::span<const Array* const> arguments) noexcept {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    executor->bind(executor->program().input_base[i], const_cast<void*>(detail::ArrayAccess::read(*arguments[i])));
}

void Step::Inside::bring_states_home() {
  if (executor->is_elsewhere() || !ir::some_states_are_elsewhere.load(std::memory_order_relaxed)) return;
  for (const auto& variable : variables) ir::bring_home(*variable);
  for (const ir::Update& update : schedule.graph->updates)
    ir::changed_at_home(*(*schedule.graph)[update.state].variable);
}

void Step::Inside::settle(Location where) {
  if (!executor->is_elsewhere()) return;
  if (!executor->problem().empty()) lost(where);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (held[i] || checker) fetch(i, where);
}

void Step::Inside::fetch(std::size_t output, Location where) {
  if (!executor->fetch(output)) lost(where);
}

void Step::Inside::lost(Location where) const {
  fail(where, name_of(options) + ": the run on " + std::string(executor->target()) + " failed: " + executor->problem());
}

namespace {

/// Refuses arguments that no plan of the step could take.
void expect_open(const CompileOptions& options, const std::vector<Spec>& specs, const std::vector<Spec>& given,
                 Location where) {
  expect_count(options, specs.size(), given.size(), where);
  struct Seen {
    std::int64_t code, size;
    std::size_t argument;
  };
  std::vector<Seen> letters;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Spec &want = specs[i], &have = given[i];
    bool fits = have.dtype == want.dtype && have.shape.rank() == want.shape.rank();
    for (int axis = 0; fits && axis < want.shape.rank(); ++axis)
      fits = is_open(want.shape[axis]) ? have.shape[axis] >= 0 : have.shape[axis] == want.shape[axis];
    if (!fits)
      refuse(options, where,
             "argument " + std::to_string(i) + " is " + to_string(have) + ", the step takes " + to_string(want));
    for (int axis = 0; axis < want.shape.rank(); ++axis) {
      const std::int64_t code = want.shape[axis], size = have.shape[axis];
      if (!is_open(code) || code == any.code) continue;
      const auto same = std::find_if(letters.begin(), letters.end(), [&](const Seen& s) { return s.code == code; });
      if (same == letters.end())
        letters.push_back({code, size, i});
      else if (same->size != size)
        refuse(options, where,
               "argument " + std::to_string(i) + " is " + to_string(have) + ", but " + to_string(want) +
                   " has the size of argument " + std::to_string(same->argument) + " at axis " + std::to_string(axis) +
                   ", which is " + std::to_string(same->size));
    }
  }
}

}  // namespace

void Step::Plans::use(std::size_t i) {
  const auto first = kept.begin(), chosen = first + static_cast<std::ptrdiff_t>(i);
  std::rotate(first, chosen, chosen + 1);
}

Step::Inside& Step::Plans::choose(std::span<const Array* const> arguments, Location caller) {
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (kept[i]->takes(arguments)) {
      if (i > 0) use(i);
      return *kept.front();
    }
  std::vector<Spec> given;
  for (const Array* a : arguments) given.push_back(spec_of(*a));
  expect_open(options, specs, given, caller);
  make(given);
  return *kept.front();
}

Step::Inside& Step::Plans::choose(const std::vector<Spec>& given, Location caller) {
  expect_open(options, specs, given, caller);
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (kept[i]->facts.arguments == given) {
      use(i);
      return *kept.front();
    }
  make(given);
  return *kept.front();
}

void Step::Plans::make(const std::vector<Spec>& arguments) {
  CompileOptions for_these = options;
  for_these.name = name_of(options) + " (" + to_text(arguments) + ")";
  auto made = make_plan(fn, arguments, for_these, where, traced);
  traced = true;
  // The oldest goes before the new one comes, but not before we know that it comes.
  while (kept.size() >= static_cast<std::size_t>(options.plans)) kept.pop_back();
  kept.insert(kept.begin(), std::move(made));
}

// ---- the step ----

Step::Step(std::unique_ptr<Plans> plans) : plans_(std::move(plans)) {}
Step::Step(std::unique_ptr<Inside> inside) : plans_(std::make_unique<Plans>()) {
  plans_->options = inside->options;
  plans_->kept.push_back(std::move(inside));
}
Step::Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;
Step::~Step() = default;

Step::Plans& Step::compiled(Location where) const {
  if (!plans_) fail(where, "step: it was never compiled (or has been moved from); compile() makes one");
  return *plans_;
}

Step::Inside& Step::inside() const {
  Plans& plans = compiled(Location::current());
  if (plans.kept.empty()) throw Error(name_of(plans.options) + ": has sizes open and no plan before its first run");
  return *plans.kept.front();
}

Step::Results Step::run(std::span<const Array* const> arguments, Location where) {
  Plans& plans = compiled(where);
  if (tracing())
    refuse(plans.options, where,
           "cannot run while another step is traced: its run would not be part of that step; call the function itself");
  std::unique_lock choosing(plans.mutex, std::defer_lock);
  if (plans.open) choosing.lock();
  Inside& s = plans.open ? plans.choose(arguments, where) : *plans.kept.front();
  if (!plans.open && !s.takes(arguments)) {
    expect_count(plans.options, s.facts.arguments.size(), arguments.size(), where);
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (!(spec_of(*arguments[i]) == s.facts.arguments[i]))
        refuse(plans.options, where,
               "argument " + std::to_string(i) + " is " + to_string(spec_of(*arguments[i])) +
                   ", the step was compiled for " + to_string(s.facts.arguments[i]));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (!arguments[i]->is_contiguous())
      refuse(plans.options, where, "argument " + std::to_string(i) + " is a strided view; pass its contiguous() copy");
  if (const std::string wrong = s.indices.complaint(arguments); !wrong.empty()) refuse(plans.options, where, wrong);
  {
    const Turn::Hold turn(s.turn);
    s.bind(arguments);
    s.bound = true;
    s.bring_states_home();
    if (s.checker) s.checker->remember();
    s.run();
    s.settle(where);
    if (!s.checker || !s.checker->spoilt(s.outputs)) return s.results(where);
  }
  s.checker->blame(arguments, where);
}

Step::Results Step::again(Location where) {
  Plans& plans = compiled(where);
  if (tracing()) refuse(plans.options, where, "cannot run while another step is traced");
  std::unique_lock choosing(plans.mutex, std::defer_lock);
  if (plans.open) choosing.lock();
  if (plans.kept.empty() || (!plans.kept.front()->bound && !plans.kept.front()->schedule.graph->inputs.empty()))
    refuse(plans.options, where, "again: the step has not been run on arguments yet");
  Inside& s = *plans.kept.front();
  const Turn::Hold turn(s.turn);
  s.bring_states_home();
  s.run();
  s.settle(where);
  return s.results(where);
}

void Step::prepare(const std::vector<Spec>& arguments, Location where) {
  Plans& plans = compiled(where);
  if (plans.open) {
    const std::lock_guard choosing(plans.mutex);
    plans.choose(arguments, where);
  } else if (plans.kept.front()->facts.arguments != arguments) {
    refuse(plans.options, where,
           "prepare: it was compiled for " + to_text(plans.kept.front()->facts.arguments) + ", not for " +
               to_text(arguments));
  }
}

const Array& Step::output(std::size_t i, Location where) const {
  compiled(where);
  Inside& s = inside();
  if (i < s.held.size()) s.held[i] = true;
  return s.results(where)[i];
}

int Step::threads() const {
  const Plans& plans = compiled(Location::current());
  return plans.kept.empty() ? checked_threads(plans.options.threads, Location::current()) : plans.kept.front()->threads;
}

void Step::set_threads(int threads, Location where) {
  Plans& plans = compiled(where);
  plans.options.threads = checked_threads(threads, where);
  for (const auto& plan : plans.kept) {
    plan->threads = plans.options.threads;
    plan->executor->reserve_threads(plan->threads);
  }
}

const StepFacts& Step::facts() const {
  static const StepFacts kNone = [] {
    StepFacts none;
    none.lanes = 0;
    return none;
  }();
  const Plans& plans = compiled(Location::current());
  return plans.kept.empty() ? kNone : plans.kept.front()->facts;
}

std::vector<StepFacts> Step::plans() const {
  std::vector<StepFacts> list;
  for (const auto& plan : compiled(Location::current()).kept) list.push_back(plan->facts);
  return list;
}

void Step::profile(bool on) {
  Plans& plans = compiled(Location::current());
  plans.options.profile = on;
  for (const auto& plan : plans.kept) plan->executor->record(on);
}

Profile Step::profile() const {
  Inside& s = inside();
  if (!is_recorded(s)) throw Error(name_of(s.options) + ": is not profiled; call profile(true) before it runs");
  return make_profile(s);
}

std::string Step::describe() const {
  const Plans& plans = compiled(Location::current());
  if (!plans.open) return wr::describe(inside());
  std::string text = name_of(plans.options) + " for " + to_text(plans.specs) + ": " +
                     std::to_string(plans.kept.size()) + " of at most " + std::to_string(plans.options.plans) +
                     " plans, the one used last first\n";
  for (const auto& plan : plans.kept) text += "\n" + wr::describe(*plan);
  return text;
}

std::string Step::graph() const { return ir::print(*inside().graph); }

// ---- compile and eval ----

namespace {

/// Options that are names: with open sizes nothing else looks at them before the first run.
void expect_known_names(const CompileOptions& options, Location where) try {
  if (!options.simd.empty()) cpu::target_named(options.simd);
  if (!options.machine.empty()) machine_named(options.machine);
} catch (const Error& error) {
  fail(where, std::string("compile: ") + error.what());
}

}  // namespace

Step compile_traced(const TracedFunction& fn, const std::vector<Spec>& specs, const CompileOptions& options,
                    Location where) {
  if (tracing())
    fail(where, "compile: another step is being traced; a step cannot be compiled inside one (trace one function)");
  if (options.lanes < 0 || options.lanes > kMaxThreads)
    fail(where, "compile: lanes must be 0.." + std::to_string(kMaxThreads) + ", is " + std::to_string(options.lanes));
  if (options.plans < 1) fail(where, "compile: a step keeps at least one plan, not " + std::to_string(options.plans));
  checked_threads(options.threads, where);
  expect_known_names(options, where);
  if (!has_open_sizes(specs)) return Step(make_plan(fn, specs, options, where));
  auto plans = std::make_unique<Step::Plans>();
  plans->options = options;
  plans->where = where;
  plans->specs = specs;
  plans->fn = fn;
  plans->options.device = wanted_device(options);
  plans->open = true;
  return Step(std::move(plans));
}

Step StepFunction::compiled(const std::vector<Spec>& specs, const CompileOptions& options) const {
  const int given = static_cast<int>(specs.size());
  if (given != parameters_)
    fail(where_, "compile: the function takes " + std::to_string(parameters_) +
                     (parameters_ == 1 ? " tensor" : " tensors") + ", but " + std::to_string(given) +
                     (given == 1 ? " type was given" : " types were given"));
  return compile_traced(has_open_sizes(specs) ? keep_() : call_, specs, options, where_);
}

std::vector<Array> eval(const std::vector<Tensor>& tensors, Location where) {
  if (tensors.empty()) return {};
  const auto& source = tensors[0].graph();
  if (!source) fail(where, "eval: an empty Tensor");
  ir::Graph wanted = *source;
  wanted.outputs.clear();
  wanted.updates.clear();
  if (!wanted.inputs.empty())
    fail(where, "eval: the tensor depends on arguments of a step that is being traced; return it from the step");
  for (const Tensor& t : tensors) {
    if (t.graph() != source) fail(where, "eval: the tensors belong to different traces");
    wanted.outputs.push_back(t.node());
  }
  const auto plan = make_plan(wanted, {.device = "cpu"}, where);
  const Turn::Hold turn(plan->turn);
  plan->bring_states_home();
  plan->run();
  std::vector<Array> results;
  for (const Array& output : plan->outputs) results.push_back(output.clone());
  return results;
}

Array eval(const Tensor& tensor, Location where) { return eval(std::vector<Tensor>{tensor}, where)[0]; }

}  // namespace wr
