// What a Step holds: plans, each with what it runs on.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "plan/schedule.h"
#include "step/check.h"
#include "windrow/step.h"

namespace wr {

/// One plan, for arguments of fixed types.
struct Step::Inside {
  /// On the CPU, or on another backend.
  Inside(std::shared_ptr<const ir::Graph> graph, const CompileOptions& options, Location where = Location::current());
  Inside(std::shared_ptr<const ir::Graph> graph, const CompileOptions& options, const backend::Backend& backend,
         Location where = Location::current());
  ~Inside();

  bool takes(std::span<const Array* const> arguments) const noexcept;
  void bind(std::span<const Array* const> arguments) noexcept;
  void run() noexcept { executor->run(threads); }
  /// Before a run at home: states that a device has are brought here. Throws Error.
  void bring_states_home();
  /// After a run: results that are held come from the device. Throws Error where it is lost.
  void settle(Location where);
  /// Brings a result home. Throws Error where the device is lost.
  void fetch(std::size_t output, Location where);
  Results results(Location where) { return {outputs, where, executor->is_elsewhere() ? this : nullptr}; }

  CompileOptions options;
  std::shared_ptr<const ir::Graph> graph;  // optimised
  plan::Schedule schedule;
  std::unique_ptr<backend::Executor> executor;
  std::vector<Array> outputs;
  std::vector<bool> held;                               // by output: it comes home with every run
  std::vector<std::shared_ptr<const Array>> constants;  // keep the memory alive
  std::vector<std::shared_ptr<ir::Variable>> variables;
  std::shared_ptr<Turn>
      turn;  // shared with every plan that has a variable in common with this one, or with such a plan
  StepFacts facts;
  int threads = 1;
  bool bound = false;
  bool watched = false;              // its profile is kept when it ends
  std::unique_ptr<Checker> checker;  // if it is to be checked
  ArgumentIndices indices;
  std::string fallback;  // why it does not run on the device that was looked for

 private:
  void plan(const backend::Backend& backend, const Machine& machine, Location where);
  [[noreturn]] void lost(Location where) const;
};

/// Traces a function on arguments of fixed types and plans what it did.
std::unique_ptr<Step::Inside> make_plan(const TracedFunction& fn, const std::vector<Spec>& specs,
                                        const CompileOptions& options, Location where, bool states_exist = false);
/// For a graph that has been traced.
std::unique_ptr<Step::Inside> make_plan(const ir::Graph& traced, const CompileOptions& options, Location where);

/// The plans of one step. A step without open sizes has one, always.
struct Step::Plans {
  CompileOptions options;
  Location where;           // of compile()
  std::vector<Spec> specs;  // with open sizes; otherwise empty, as is the function
  TracedFunction fn;
  std::vector<std::unique_ptr<Inside>> kept;  // the one used last first
  bool open = false;
  bool traced = false;  // at least once: the states the function makes for itself exist
  std::mutex mutex;     // where sizes are open: who chooses a plan, and runs it

  /// The plan for these arguments, made if there is none; now the first.
  Inside& choose(std::span<const Array* const> arguments, Location where);
  /// The same by types.
  Inside& choose(const std::vector<Spec>& arguments, Location where);

 private:
  void use(std::size_t i);
  void make(const std::vector<Spec>& arguments);
};

std::string describe(const Step::Inside& step);

/// What the options say, else OnDevice, else WINDROW_DEVICE, else "cpu".
std::string wanted_device(const CompileOptions& options);

}  // namespace wr
