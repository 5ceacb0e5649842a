// compile() and run: the pipeline end to end.
#include "windrow/step.h"

#include <chrono>
#include <unordered_set>

#include "backend/cpu/backend.h"
#include "backend/cpu/measure.h"
#include "base/thread_team.h"
#include "ir/graph.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "step/profile.h"
#include "step/tune.h"

namespace wr {
namespace {

cpu::Target target_of(const CompileOptions& options) {
  return options.simd.empty() ? cpu::active_target() : cpu::target_named(options.simd);
}

Machine machine_of(const CompileOptions& options) {
  return options.machine.empty() ? cpu::machine(target_of(options)) : machine_named(options.machine);
}

int checked_threads(int threads, Location where) {
  if (threads < 0 || threads > kMaxThreads)
    fail(where, "threads: " + std::to_string(threads) + " is not in 1.." + std::to_string(kMaxThreads));
  return threads ? threads : default_threads();
}

StepFacts facts_of(const plan::Schedule& schedule, const lower::Program& program) {
  StepFacts f;
  f.lanes = schedule.lanes;
  f.phases = static_cast<int>(schedule.phases.size());
  for (const auto& phase : schedule.phases) {
    f.regions += static_cast<int>(phase.regions.size());
    for (const auto& region : phase.regions)
      for (const auto& m : region.members) f.flops += plan::flops(*schedule.graph, m.node);
  }
  for (const auto& code : program.codes) f.instructions += static_cast<int>(code.calls.size());
  f.scratch_bytes = program.scratch_bytes;
  f.partial_bytes = program.partial_bytes;
  f.arena_bytes = program.arena_bytes;
  f.lower_bound_bytes = program.scratch_lower_bound * static_cast<std::size_t>(f.lanes) + program.arena_lower_bound;
  for (int id : schedule.states)
    f.state_bytes +=
        static_cast<std::size_t>((*schedule.graph)[id].spec.shape.count()) * size_of((*schedule.graph)[id].spec.dtype);
  return f;
}

Step make_step(const ir::Graph& traced, const CompileOptions& options, Location where) {
  const auto start = std::chrono::steady_clock::now();
  auto inside = std::make_unique<Step::Inside>(passes::optimise(traced), options);
  inside->threads = checked_threads(options.threads, where);
  inside->executor->reserve_threads(inside->threads);
  inside->facts.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return Step(std::move(inside));
}

}  // namespace

Step::Inside::Inside(std::shared_ptr<const ir::Graph> optimised, const CompileOptions& o)
    : Inside(std::move(optimised), o, cpu::Backend(target_of(o), machine_of(o))) {}

Step::Inside::Inside(std::shared_ptr<const ir::Graph> optimised, const CompileOptions& o,
                     const backend::Backend& backend)
    : options(o), graph(std::move(optimised)) {
  const plan::Options wanted{machine_of(o), o.lanes};
  schedule = o.tune || tune_by_environment()
                 ? tuned(*graph, wanted, backend, o.threads ? o.threads : default_threads(), cpu::cache_folder())
                 : plan::schedule(*graph, wanted);
  backend::expect_runnable(backend, schedule);
  executor = backend.prepare(schedule);
  const lower::Program& program = executor->program();
  const ir::Graph& g = *schedule.graph;
  for (std::size_t i = 0; i < schedule.states.size(); ++i) {
    const auto& variable = g[schedule.states[i]].variable;
    variables.push_back(variable);
    executor->bind(program.state_base[i], variable->memory);
  }
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    constants.push_back(g[program.constants[i]].value);
    executor->bind(program.constant_base[i], const_cast<void*>(detail::ArrayAccess::read(*constants.back())));
  }
  outputs.reserve(g.outputs.size());
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const Spec& spec = g[g.outputs[i]].spec;
    outputs.push_back(Array::zeros(spec.shape, spec.dtype).window());
    executor->bind(program.output_base[i], detail::ArrayAccess::write_shared(outputs.back()));
  }
  facts = facts_of(schedule, program);
}

Step::Inside::~Inside() { unwatch(*this); }

Step::Step(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
Step::Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;
Step::~Step() = default;

double Step::Results::number() const {
  const Array& a = arrays_.at(0);
  if (a.count() != 1) throw Error("the result is " + to_string(Spec{a.dtype(), a.shape()}) + ", not one number");
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

namespace {

/// Messages are put together only when there is something to say: a run allocates nothing.
[[noreturn]] void refuse(const CompileOptions& options, const std::string& what) {
  throw Error((options.name.empty() ? "step" : options.name) + ": " + what);
}

void check_argument(const CompileOptions& options, std::size_t i, const Array& a, const Spec& want) {
  if (a.dtype() != want.dtype || !(a.shape() == want.shape))
    refuse(options, "argument " + std::to_string(i) + " is " + to_string(Spec{a.dtype(), a.shape()}) +
                        ", the step was compiled for " + to_string(want));
  if (!a.is_contiguous())
    refuse(options, "argument " + std::to_string(i) + " is a strided view; pass its contiguous() copy");
}

}  // namespace

Step::Results Step::run(std::span<const Array* const> arguments) {
  Inside& s = *inside_;
  const ir::Graph& g = *s.schedule.graph;
  if (arguments.size() != g.inputs.size())
    refuse(s.options,
           "takes " + std::to_string(g.inputs.size()) + " arguments, got " + std::to_string(arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) check_argument(s.options, i, *arguments[i], g[g.inputs[i]].spec);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    s.executor->bind(s.executor->program().input_base[i], const_cast<void*>(detail::ArrayAccess::read(*arguments[i])));
  s.bound = true;
  return again();
}

Step::Results Step::again() {
  Inside& s = *inside_;
  if (!s.bound && !s.schedule.graph->inputs.empty()) throw Error("again: the step has not been run on arguments yet");
  s.executor->run(s.threads);
  return Results(s.outputs);
}

const Array& Step::output(std::size_t i) const { return inside_->outputs.at(i); }
int Step::threads() const { return inside_->threads; }
void Step::set_threads(int threads, Location where) {
  inside_->threads = checked_threads(threads, where);
  inside_->executor->reserve_threads(inside_->threads);
}
const StepFacts& Step::facts() const { return inside_->facts; }
void Step::profile(bool on) { inside_->executor->record(on); }
Profile Step::profile() const {
  if (!inside_->executor->recorder()) refuse(inside_->options, "is not profiled; call profile(true) before it runs");
  return make_profile(*inside_);
}
std::string Step::describe() const { return wr::describe(*inside_); }
std::string Step::graph() const { return ir::print(*inside_->graph); }

Step compile(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn, const std::vector<Spec>& specs,
             const CompileOptions& options, Location where) {
  if (options.lanes < 0 || options.lanes > kMaxThreads)
    fail(where, "compile: lanes must be 0.." + std::to_string(kMaxThreads) + ", is " + std::to_string(options.lanes));
  auto graph = std::make_shared<ir::Graph>();
  std::vector<Tensor> arguments;
  for (const Spec& spec : specs) arguments.emplace_back(graph, graph->add_input(spec, where));
  {
    const ir::TraceScope trace(graph);
    // A user's rule may hold tensors, which hold the graph, which holds the rule.
    struct DropRules {
      ir::Graph& graph;
      ~DropRules() { graph.gradient_rules.clear(); }
    } drop_rules{*graph};
    for (const Tensor& t : fn(arguments)) {
      if (!t) fail(where, "compile: the step returned an empty Tensor");
      if (t.graph() != graph) fail(where, "compile: the step returned a tensor of another trace");
      graph->outputs.push_back(t.node());
    }
  }
  Step step = make_step(*graph, options, where);
  watch(step.inside());
  if (options.profile) step.profile(true);
  return step;
}

Step StepFunction::compiled(const std::vector<Spec>& specs, const CompileOptions& options) const {
  const int given = static_cast<int>(specs.size());
  if (given != parameters_)
    fail(where_, "compile: the function takes " + std::to_string(parameters_) +
                     (parameters_ == 1 ? " tensor" : " tensors") + ", but " + std::to_string(given) +
                     (given == 1 ? " type was given" : " types were given"));
  return compile(call_, specs, options, where_);
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
  Step step = make_step(wanted, {}, where);
  step.again();
  std::vector<Array> results;
  for (std::size_t i = 0; i < tensors.size(); ++i) results.push_back(step.output(i).clone());
  return results;
}

Array eval(const Tensor& tensor, Location where) { return eval(std::vector<Tensor>{tensor}, where)[0]; }

}  // namespace wr
