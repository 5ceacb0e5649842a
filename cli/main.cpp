// The windrow program.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/case.h"
#include "cli/doctor.h"
#include "cli/ops.h"
#include "cli/profile.h"
#include "cli/rules.h"
#include "cli/train.h"
#include "windrow/windrow.h"

namespace {

const auto process_start = std::chrono::steady_clock::now();

void add_bench(CLI::App& app, int& exit_code) {
  auto* bench = app.add_subcommand("bench", "Time the built-in cases; each checks its result first");
  auto options = std::make_shared<wr::bench::RunOptions>();
  auto list = std::make_shared<bool>(false);
  bench->add_option("case", options->names, "Cases to run; `ops` for one case an op (default: all others)");
  bench->add_flag("--json", options->json, "One JSON object a line: case, us (median), best_us, threads");
  bench->add_option("--threads", options->threads, "Threads (default: WINDROW_THREADS, else all cores)")
      ->check(CLI::Range(1, 1024));
  bench->add_option("--seconds", options->seconds, "Time to spend on a case")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  bench->add_flag("--describe", options->describe, "Print each case's plan instead of timing it");
  auto once = std::make_shared<std::string>();
  bench->add_option("--once", *once, "Compile and run one case once; print the milliseconds since the process began")
      ->type_name("CASE");
  bench->add_flag("--list", *list, "Show the cases");
  bench
      ->add_option(
          "--backends", options->backends,
          "Compare side by side: all, sse4, avx2, avx512 (avx2:1 for one thread), scalar (the oracle), profile")
      ->delimiter(',')
      ->type_name("NAME,...");
  bench->add_option("--svg", options->svg, "Write that comparison as bars")->type_name("FILE");
  auto serve = std::make_shared<bool>(false);
  auto runs = std::make_shared<int>(0);
  bench->add_option("--runs", *runs, "Run each case so many times and time nothing (for scripts/guard.py)")
      ->check(CLI::Range(1, 1000000));
  bench->add_flag("--serve", *serve, "Read lines `CASE SECONDS`, answer each with a line of JSON (for bench/peers)");
  bench->callback([options, list, once, serve, runs, &exit_code] {
    if (*list)
      exit_code = wr::bench::list();
    else if (*runs > 0)
      exit_code = wr::bench::run_counted(options->names, options->threads, *runs);
    else if (*serve)
      exit_code = wr::bench::serve(options->threads);
    else if (!once->empty())
      exit_code = wr::bench::run_once(*once, options->threads, process_start);
    else
      exit_code = wr::bench::run(*options);
  });
}

/// Executes a command line, given without the program's name.
int run(std::vector<std::string> arguments) {
  CLI::App app{"windrow: train small neural networks fast, on CPU cores"};
  app.name("windrow");
  app.set_version_flag("--version", "windrow " WINDROW_VERSION);
  app.require_subcommand(0, 1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Examples:\n"
      "  windrow train fashion                   train a net on Fashion-MNIST\n"
      "  windrow train cube                      learn to solve the 2x2x2 cube\n"
      "  windrow train checkerboard --save c.safetensors   a cellular automaton made of logic gates\n"
      "  windrow circuit c.safetensors --svg c.svg         what it has become\n"
      "  windrow run c.safetensors --grid 256x256 --damage\n"
      "  windrow bench                           time everything\n"
      "  windrow bench dqn_step_b64 --threads 1  one case on one core\n"
      "  windrow profile bench dqn_step_b64      where its time goes\n"
      "  windrow doctor                          what was detected on this machine\n\n"
      "Environment:\n"
      "  WINDROW_THREADS=N   threads a step uses\n"
      "  WINDROW_SIMD=NAME   force sse4, avx2 or avx512\n"
      "  WINDROW_MACHINE=M   plan for another machine: a name from doctor --machines, or a file\n"
      "  WINDROW_PROFILE=1   profile every step, print the tables at the end (or a FILE to write)\n");
  int exit_code = 0;
  wr::cli::add_train(app, exit_code);
  wr::cli::add_eval(app, exit_code);
  wr::cli::add_predict(app, exit_code);
  wr::cli::add_cube(app, exit_code);
  wr::cli::add_circuit(app, exit_code);
  wr::cli::add_run(app, exit_code);
  wr::cli::add_rules(app, exit_code);
  add_bench(app, exit_code);
  wr::cli::add_profile(app, exit_code, run);
  wr::cli::add_tune(app, exit_code);
  wr::cli::DoctorOptions doctor_options;
  auto* doctor = app.add_subcommand("doctor", "Show what was detected on this machine and which kernels were chosen");
  doctor->add_flag("--measure", doctor_options.measure, "Measure this machine again and remember it");
  doctor->add_flag("--machines", doctor_options.machines, "List the machines that come with Windrow");
  doctor->add_flag("--describe", doctor_options.describe, "Print the machine as WINDROW_MACHINE=FILE reads it");
  doctor->callback([&] { exit_code = wr::cli::doctor(doctor_options); });
  app.add_subcommand("ops", "Print the table of all ops (docs/ops.md)")->group("")->callback([&] {
    exit_code = wr::cli::ops();
  });
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
    if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "windrow: {}\n", e.what());
    return 1;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) { return run({argv + 1, argv + argc}); }
