// From a function to a plan: trace, optimise, schedule, lower, and memory for what it computes.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "backend/cpu/backend.h"
#include "backend/cpu/measure.h"
#include "backend/device/backend.h"
#include "backend/device/devices.h"
#include "base/host.h"
#include "base/thread_team.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "step/profile.h"
#include "step/tune.h"
#include "windrow/device.h"
#include "windrow/machine.h"

namespace wr {
namespace {

/// What a step's function returns.
std::vector<Tensor> called(const TracedFunction& fn, const Tensors& arguments, Location where) {
  try {
    return fn(arguments);
  } catch (const std::bad_function_call&) {
    fail(where, "compile: an empty std::function was called");
  }
}

cpu::Target target_of(const CompileOptions& options) {
  return options.simd.empty() ? cpu::active_target() : cpu::target_named(options.simd);
}

Machine machine_of(const CompileOptions& options) {
  return options.machine.empty() ? cpu::machine(target_of(options)) : machine_named(options.machine);
}

/// A machine that is given is taken as it is; one that was given for the host says what a CPU as device is like.
Machine machine_of(const device::Backend& backend, const CompileOptions& options) {
  if (!options.machine.empty()) return machine_of(options);
  const char* given = std::getenv("WINDROW_MACHINE");  // NOLINT(concurrency-mt-unsafe)
  return given && *given ? device::machine_of(backend.facts(), machine_of(options))
                         : backend.machine(machine_of(options)).machine;
}

struct ChosenDevice {
  std::unique_ptr<device::Backend> backend;  // none: the CPU
  std::string reason;                        // why there is none
  bool named = false;                        // no other will do
};

ChosenDevice choose_device(const std::string& wanted, Location where) {
  const bool named = wanted != "auto";
  device::Found found;
  try {
    found = device::find(wanted);
  } catch (const Error& error) {
    fail(where, std::string("compile: ") + error.what());
  }
  if (found.device) return {std::make_unique<device::Backend>(std::move(found.device)), "", named};
  if (named) fail(where, "compile: device '" + wanted + "': " + found.reason);
  return {nullptr, found.reason, false};
}

thread_local std::string compiled_for;  // by OnDevice

std::size_t bytes_of(const Spec& spec) { return static_cast<std::size_t>(spec.shape.count()) * size_of(spec.dtype); }

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
  for (int id : schedule.states) f.state_bytes += bytes_of((*schedule.graph)[id].spec);
  for (int id : schedule.graph->inputs) f.arguments.push_back((*schedule.graph)[id].spec);
  return f;
}

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

// What is smaller than this is asked of the system without a look at what it has.
constexpr double kSmall = 64e6;

/// Refuses what this machine cannot hold before a plan is made for it: a plan has a piece for every strip.
void expect_values_to_fit(const ir::Graph& graph, Location where) {
  const auto most = static_cast<double>(host().memory);
  const auto expect = [&](int id, const std::string& what) {
    const auto bytes = static_cast<double>(bytes_of(graph[id].spec));
    if (most > 0 && bytes > most && bytes > kSmall)
      fail(where, fmt::format("compile: {} is {}: {}, and this machine has {} of memory", what,
                              to_string(graph[id].spec), gigabytes(bytes), gigabytes(most)));
  };
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) expect(graph.inputs[i], fmt::format("argument {}", i));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) expect(graph.outputs[i], fmt::format("result {}", i));
}

/// A state that is made while the step is traced for a second shape would not be the one the first shape updates.
void expect_shared_states(const ir::Graph& graph, Location where) {
  for (const ir::Update& u : graph.updates) {
    const auto& variable = graph[u.state].variable;
    if (variable->made_in.lock().get() != &graph) continue;
    fail(where, "compile: state '" + variable->name +
                    "' is made anew whenever the step is traced, and a step with open sizes is traced once a shape: "
                    "make it outside the function");
  }
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const cpu::Target target : cpu::available_targets()) names.emplace_back(cpu::name_of(target));
  return names;
}

std::string wanted_device(const CompileOptions& options) {
  if (!options.device.empty()) return options.device;
  if (!compiled_for.empty()) return compiled_for;
  const char* text = std::getenv("WINDROW_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  return text && *text ? text : "cpu";
}

OnDevice::OnDevice(std::string name) : before_(std::exchange(compiled_for, std::move(name))) {}
OnDevice::~OnDevice() { compiled_for = before_; }

std::string device_of(const Step& step) {
  const backend::Executor& executor = *step.inside().executor;
  return executor.is_elsewhere() ? std::string(executor.target()) : "cpu";
}
std::string fallback_of(const Step& step) { return step.inside().fallback; }

PlannedFor planned_for(const Step& step) {
  if (step.facts().lanes == 0) return {};
  const CompileOptions& options = step.inside().options;
  return {step.facts().lanes, to_text(machine_of(options)), std::string(step.inside().executor->target())};
}

Step::Inside::Inside(std::shared_ptr<const ir::Graph> optimised, const CompileOptions& o, Location where)
    : options(o), graph(std::move(optimised)) {
  expect_values_to_fit(*graph, where);
  if (const std::string wanted = wanted_device(o); wanted != "cpu") {
    const ChosenDevice device = choose_device(wanted, where);
    try {
      if (device.backend) plan(*device.backend, machine_of(*device.backend, o), where);
      fallback = device.reason;
    } catch (const Error& error) {
      if (device.named) fail(where, "compile: " + wanted + " cannot run the step: " + error.what());
      fallback = device.backend->facts().name + ": " + error.what();
      executor = nullptr;
    }
  }
  if (!executor) plan(cpu::Backend(target_of(o), machine_of(o)), machine_of(o), where);
}

Step::Inside::Inside(std::shared_ptr<const ir::Graph> optimised, const CompileOptions& o,
                     const backend::Backend& backend, Location where)
    : options(o), graph(std::move(optimised)) {
  expect_values_to_fit(*graph, where);
  plan(backend, machine_of(o), where);
}

void Step::Inside::plan(const backend::Backend& backend, const Machine& machine, Location where) {
  const CompileOptions& o = options;
  const plan::Options wanted{machine, o.lanes};
  variables.clear();
  constants.clear();
  outputs.clear();
  try {
    const bool tune = (o.tune || tune_by_environment()) && dynamic_cast<const cpu::Backend*>(&backend);
    schedule = tune ? tuned(*graph, wanted, backend, cpu::name_of(target_of(o)),
                            o.threads ? o.threads : default_threads(), cpu::cache_folder())
                    : plan::schedule(*graph, wanted);
    backend::expect_runnable(backend, schedule);
    executor = backend.prepare(schedule);
  } catch (const NoMemory& none) {
    fail(where, "compile: " + std::string(none.what()) + "; smaller sizes or checkpoint() need less");
  }
  const lower::Program& program = executor->program();
  facts = facts_of(schedule, program);
  const ir::Graph& g = *schedule.graph;
  turn = std::make_shared<Turn>();
  for (std::size_t i = 0; i < schedule.states.size(); ++i) {
    const auto& variable = g[schedule.states[i]].variable;
    variables.push_back(variable);
    Turn::join(turn, variable->turn);
    executor->bind(program.state_base[i], variable->memory);
  }
  for (std::size_t i = 0; i < program.constants.size(); ++i) {
    constants.push_back(program.constants[i]);
    executor->bind(program.constant_base[i], const_cast<void*>(detail::ArrayAccess::read(*constants.back())));
  }
  outputs.reserve(g.outputs.size());
  held.assign(g.outputs.size(), false);
  for (std::size_t i = 0; i < g.outputs.size(); ++i) {
    const Spec& spec = g[g.outputs[i]].spec;
    outputs.push_back(Array::zeros(spec.shape, spec.dtype, where).window());
    executor->bind(program.output_base[i], detail::ArrayAccess::write_shared(outputs.back()));
  }
  if (is_checked(options, *graph)) checker = std::make_unique<Checker>(graph);
  indices.find(*graph, checker ? ArgumentIndices::Which::all : ArgumentIndices::Which::labels);
}

Step::Inside::~Inside() { unwatch(*this); }

std::unique_ptr<Step::Inside> make_plan(const ir::Graph& traced, const CompileOptions& options, Location where) {
  const auto start = std::chrono::steady_clock::now();
  auto inside = std::make_unique<Step::Inside>(passes::optimise(traced), options, where);
  inside->threads = options.threads ? options.threads : default_threads();
  inside->executor->reserve_threads(inside->threads);
  inside->facts.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return inside;
}

std::unique_ptr<Step::Inside> make_plan(const TracedFunction& fn, const std::vector<Spec>& specs,
                                        const CompileOptions& options, Location where, bool states_exist) {
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
    for (const Tensor& t : called(fn, {arguments, "compile: argument", where}, where)) {
      if (t.empty()) fail(where, "compile: the step returned an empty Tensor");
      if (t.graph() != graph) fail(where, "compile: the step returned a tensor of another trace");
      graph->outputs.push_back(t.node());
    }
  }
  if (states_exist) expect_shared_states(*graph, where);
  auto inside = make_plan(*graph, options, where);
  watch(*inside);
  if (options.profile) inside->executor->record(true);
  return inside;
}

}  // namespace wr
