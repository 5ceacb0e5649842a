// Random steps, planned, fused and run, against the interpreter on the graph as it was traced: results, gradients and
// what is left in the states. WINDROW_RANDOM_GRAPHS sets how many, WINDROW_RANDOM_SEED replays one seed.
#include "support/random_graphs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "base/machine.h"
#include "ir/elsewhere.h"
#include "ops/interpret.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "support/random_step.h"
#include "temporary_files.h"

namespace wr::test {
namespace {

struct Setting {
  int lanes, threads;
};

Setting setting_of(unsigned seed) {
  constexpr int lanes[] = {0, 1, 2, 3, 8};
  return {lanes[seed / 2 % 5], 1 + static_cast<int>(seed % 2)};
}

/// A machine whose caches hold anything from a few rows to everything, and whose rates are any: plans for it have one
/// strip a lane or many, of one block or many.
Machine random_machine(unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&](double least, double most) {
    return least * std::pow(most / least, static_cast<double>(random() % 1000) / 1000);
  };
  Machine m = built_in_machines()[seed % built_in_machines().size()];
  m.name = "random " + std::to_string(seed);
  m.l1d = static_cast<std::int64_t>(between(256, 64 << 10));
  m.l2 = static_cast<std::int64_t>(between(static_cast<double>(std::max<std::int64_t>(m.l1d, 1024)), 4 << 20));
  m.l3 = random() % 3 == 0 ? 0 : 4 * m.l2;
  for (auto rate : {&Machine::gflops_f32, &Machine::gflops_f64, &Machine::gbs_l1, &Machine::gbs_l2, &Machine::gbs_l3,
                    &Machine::gbs_memory, &Machine::gbs_l3_all, &Machine::gbs_memory_all, &Machine::gbs_cross,
                    &Machine::barrier_ns, &Machine::call_ns})
    m.*rate *= between(0.1, 10);
  if (seed % 2 == 0) {  // calls cost nothing and a row too many costs much: strips as short as can be
    m.l1d = 256;
    m.l2 = 1024;
    m.call_ns = 0.1;
    m.product_ramp = 0.01;
    m.gbs_l1 = 1000;
    m.gbs_l2 = 1;
    m.gbs_l3 = m.gbs_l3_all = m.gbs_cross = 0.1;
    m.gbs_memory = m.gbs_memory_all = 0.02;
  }
  if (seed % 2 == 1) m.l1d = 256;      // blocks of one or a few rows,
  if (seed % 4 == 3) m.call_ns = 1e4;  // in strips as long as can be
  return without_contradictions(m);
}

double largest(const Array& a) {
  double most = 0;
  for (double x : numbers(a)) most = std::max(most, std::isfinite(x) ? std::abs(x) : 0);
  return most;
}

/// How far the results of one interpretation are from another's, in units of `scale`.
double distance(const Array& a, const Array& b) {
  const auto x = numbers(a), y = numbers(b);
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i]) != std::isfinite(y[i])) return std::numeric_limits<double>::infinity();
    if (std::isfinite(x[i])) most = std::max(most, std::abs(x[i] - y[i]));
  }
  return most;
}

/// All results of a run: outputs, then states by update.
std::vector<Array> results_of(const ir::Graph& graph, const std::vector<Array>& arguments, ir::Rounding rounding) {
  auto [outputs, updates] = ir::interpret(graph, arguments, rounding);
  outputs.insert(outputs.end(), updates.begin(), updates.end());
  return outputs;
}

/// f64 is compared tightly. In f32 the bound follows the rounding of the interpreter itself, node by node.
double bound(DType dtype, const Array& exact, const Array& rounded) {
  const double scale = std::max(1.0, largest(exact));
  return dtype == DType::f64 ? 1e-9 * scale : 1e-5 * scale + 30 * distance(exact, rounded);
}

/// The states of a graph, as they were when this was made.
class States {
 public:
  explicit States(const ir::Graph& graph) {
    for (int id = 0; id < graph.size(); ++id)
      if (graph[id].op == ir::Op::state) variables_.push_back(graph[id].variable);
    for (const auto& variable : variables_) {
      ir::bring_home(*variable);
      values_.push_back(variable->value.clone());
    }
  }
  template <class F>
  void set(F change) const {
    for (std::size_t k = 0; k < values_.size(); ++k) {
      variables_[k]->value.copy_from(change(values_[k]));
      ir::changed_at_home(*variables_[k]);
    }
  }
  void restore() const {
    set([](const Array& value) { return value; });
  }

 private:
  std::vector<std::shared_ptr<ir::Variable>> variables_;
  std::vector<Array> values_;
};

/// Where a hair's breadth of difference in arguments and states changes the results much (a kink is near, or a state
/// equals what it was computed from but for rounding), nothing can be said.
bool ill_conditioned(const ir::Graph& graph, const std::vector<Array>& arguments, const States& states,
                     const std::vector<Array>& exact, DType dtype) {
  for (double nudge : {1.0, -1.0}) {
    const auto moved = [&](const Array& a) {
      if (!is_floating(a.dtype())) return a;
      auto values = numbers(a);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] += nudge * (dtype == DType::f64 ? 1e-12 : 2e-6) * (i % 2 ? 1 : -1) * (1 + static_cast<double>(i % 7));
      return Array::from(values, a.shape()).astype(a.dtype());
    };
    std::vector<Array> other;
    for (const Array& a : arguments) other.push_back(moved(a));
    states.set(moved);
    const auto results = results_of(graph, other, ir::Rounding::none);
    states.restore();
    for (std::size_t k = 0; k < exact.size(); ++k)
      if (distance(exact[k], results[k]) > 1e-3 * std::max(1.0, largest(exact[k]))) return true;
  }
  return false;
}

Array value_of(const ir::Variable& variable) {
  ir::bring_home(variable);
  return variable.value.clone();
}

int unsure = 0;       // steps given up as ill-conditioned
int blocked = 0;      // steps with blocks
int many_strips = 0;  // regions with several strips a lane

/// The device under test; null for the CPU.
const backend::Backend* device = nullptr;

/// What is wrong with the step of this recipe; empty if nothing is.
std::string check(const Recipe& recipe) {
  RandomStep random_step(recipe);
  const auto fn = [&](const std::vector<Tensor>& x) { return random_step(x); };
  const auto graph = trace(random_step.specs(), fn);
  const auto [lanes, threads] = setting_of(recipe.seed);
  CompileOptions options{.threads = threads, .lanes = lanes};
  const TemporaryFolder folder;
  if (recipe.seed % 3 != 2) {
    options.machine = folder / "machine.txt";
    write_text(options.machine, to_text(random_machine(recipe.seed)));
  }
  const auto fused = recipe.seed % 5 == 4 ? passes::Fuse::no : passes::Fuse::yes;
  const auto optimised = passes::optimise(*graph, fused);
  for (int id = 0; device && id < optimised->size(); ++id) {
    const ir::Op op = (*optimised)[id].op;
    const bool computed = !ir::is_leaf(op) && !ir::is_view(op) && op != ir::Op::result;
    if (computed && !device->can_run(*optimised, id)) return "";  // a step for other devices
  }
  Step step(device ? std::make_unique<Step::Inside>(optimised, options, *device)
                   : std::make_unique<Step::Inside>(optimised, options));
  if (!device) step.set_threads(threads);
  for (const auto& phase : step.inside().schedule.phases)
    for (const auto& region : phase.regions) many_strips += region.extent > region.strip * region.lanes();
  blocked += step.describe().find("at a time") != std::string::npos;
  for (unsigned run = 0; run < 2; ++run) {
    const auto arguments = random_step.arguments(run);
    const auto exact = results_of(*graph, arguments, ir::Rounding::none),
               rounded = results_of(*graph, arguments, ir::Rounding::each_node);
    std::vector<const Array*> pointers;
    for (const Array& a : arguments) pointers.push_back(&a);
    const States before(*graph);
    step.run(pointers);
    for (std::size_t k = 0; k < exact.size(); ++k) {
      const bool output = k < graph->outputs.size();
      const std::size_t u = k - graph->outputs.size();
      const Array got = output ? step.output(k).clone() : value_of(*(*graph)[graph->updates[u].state].variable);
      const double off = distance(got, exact[k]), most = bound(random_step.dtype(), exact[k], rounded[k]);
      if (off <= most && got.shape() == exact[k].shape()) continue;
      if (ill_conditioned(*graph, arguments, before, exact, random_step.dtype())) return ++unsure, "";
      return (output ? "output " + std::to_string(k)
                     : "state '" + (*graph)[graph->updates[u].state].variable->name + "'") +
             " of run " + std::to_string(run) + " is off by " + std::to_string(off) + " (allowed " +
             std::to_string(most) + ") with lanes = " + std::to_string(lanes) +
             ", threads = " + std::to_string(threads) + "\n" + ir::print(*graph) + "is\n" + to_string(got) +
             "\nshould be\n" + to_string(exact[k]) + "\n" + step.describe();
    }
  }
  return "";
}

std::string check_or_error(const Recipe& recipe) {
  try {
    return check(recipe);
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
}

/// The same failure with as few ops as can be found by leaving out one after the other.
Recipe smaller(Recipe recipe) {
  for (int i = recipe.ops - 1; i >= 0; --i) {
    Recipe less = recipe;
    less.without.insert(i);
    if (!check_or_error(less).empty()) recipe = less;
  }
  return recipe;
}

std::string report(unsigned seed, int ops) {
  const Recipe recipe{seed, ops, {}};
  if (check_or_error(recipe).empty()) return "";
  const Recipe small = smaller(recipe);
  std::string text = "WINDROW_RANDOM_SEED=" + std::to_string(seed) + " replays this; smallest found leaves out";
  for (int i : small.without) text += " " + std::to_string(i);
  return text + " of " + std::to_string(ops) + " ops:\n" + check_or_error(small);
}

}  // namespace

void run_random_steps(unsigned first, unsigned count, const backend::Backend* backend) {
  device = backend;
  if (const char* seed = std::getenv("WINDROW_RANDOM_SEED")) {
    first = static_cast<unsigned>(std::atoi(seed));
    count = 1;
  } else if (const char* wanted = std::getenv("WINDROW_RANDOM_GRAPHS")) {
    count = static_cast<unsigned>(std::atoi(wanted));
  }
  int failures = 0;
  unsure = blocked = many_strips = 0;
  for (unsigned seed = first; seed < first + count && failures < 5; ++seed) {
    const std::string wrong = report(seed, 2 + static_cast<int>(seed % 17));
    failures += !wrong.empty();
    EXPECT_EQ(wrong.size(), 0u) << wrong;
  }
  EXPECT_LE(unsure, 1 + static_cast<int>(count) / 200) << "too many steps could not be judged";
  EXPECT_GE(10 * blocked, count < 100 ? 0 : static_cast<int>(count)) << "too few steps were cut into blocks";
  EXPECT_GE(10 * many_strips, count < 100 ? 0 : static_cast<int>(count)) << "too few regions had several strips a lane";
  device = nullptr;
}

}  // namespace wr::test
