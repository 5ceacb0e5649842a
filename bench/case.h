// A benchmark case: a step on given arguments, the check that its result is right, and what it must do at least.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "windrow/windrow.h"

namespace wr::bench {

struct Prepared {
  Step step;
  std::vector<Array> arguments;
  /// Runs the step once and returns what is wrong with the result; empty if nothing is.
  std::function<std::string(Step&, const std::vector<Array>&)> check;
  double bytes = 0;  // that must move from and to memory: arguments, states, results
};

struct Case {
  std::string name;
  std::string what;  // for --list
  std::function<Prepared(int threads)> prepare;
};

/// All cases: single kernels, training steps, logic.
const std::vector<Case>& cases();
std::vector<Case> kernel_cases();
std::vector<Case> training_cases();
std::vector<Case> logic_cases();
/// Cases of other sizes, by name: matmul_MxKxN_f32, plain_mlp_IN_..._OUT_bN, mlp_step_bN, dqn_step_wW_bN, ...
std::optional<Case> kernel_case(const std::string& name);
std::optional<Case> training_case(const std::string& name);
std::optional<Case> logic_case(const std::string& name);
/// One case an op, `op_exp` and so on, made from the op list; `windrow bench ops` runs them.
std::vector<Case> op_cases();
/// Rules in every semantics; `windrow bench rules` runs them. Other sizes: rules_join_SEMANTICS_nN.
std::vector<Case> rules_cases();
std::optional<Case> rules_case(const std::string& name);

/// The usual check: one run against the oracle in double, results and states.
std::string check_by_oracle(Step& step, const std::vector<Array>& arguments, double tolerance);

/// The arguments' and results' bytes, and those of the states (read and written).
double compulsory_bytes(Step& step, const std::vector<Array>& arguments);

Array random_normal(const Shape& shape, std::uint64_t seed, double scale = 1, DType dtype = DType::f32);
Array random_integers(const Shape& shape, int below, std::uint64_t seed);

struct Timing {
  double median_us = 0, best_us = 0;
  std::vector<double> blocks;  // microseconds a run, sorted
};
/// Median and best of blocks of runs that take about `seconds` in all.
Timing time_step(Step& step, double seconds);

struct RunOptions {
  std::vector<std::string> names;  // empty: all but those of ops and rules; "ops", "rules": those
  bool json = false;
  bool describe = false;  // print the plans, time nothing
  int threads = 0;
  double seconds = 1;
  std::vector<std::string> backends;  // compare these: "all", "avx2:1", "scalar", "profile", ...
  std::string svg;                    // of that comparison, a file
};
/// Compiles and runs one case once, unchecked; prints the milliseconds since `start`, when the process began.
int run_once(const std::string& name, int threads, std::chrono::steady_clock::time_point start);
/// The case a name means, of any size; throws for a name that means none.
Case case_named(const std::string& name);
int compare_backends(const RunOptions& options, const std::vector<Case>& cases);
/// `windrow bench`; returns the exit code.
int run(const RunOptions& options);
int list(bool json);
/// What the cost model says of GPUs that are not here; no names: the usual cases.
int predict(const std::vector<std::string>& names);
/// Runs each case `runs` times after a first run, and times nothing: for callgrind (scripts/guard.py).
int run_counted(const std::vector<std::string>& names, int threads, int runs);
/// Reads lines "CASE SECONDS" and answers each with a line of JSON, until the input ends: for bench/peers.
int serve(int threads);

}  // namespace wr::bench
