// The windrow program.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/case.h"
#include "cli/completion.h"
#include "cli/doctor.h"
#include "cli/ops.h"
#include "cli/profile.h"
#include "cli/rules.h"
#include "cli/session.h"
#include "cli/train.h"

namespace wr::cli {
namespace {

const auto process_start = std::chrono::steady_clock::now();

void add_bench(Command program) {
  auto bench = program.add("bench", "Time the built-in cases; each checks its result first");
  auto options = std::make_shared<wr::bench::RunOptions>();
  auto list = std::make_shared<bool>(false);
  bench.option("case", options->names, "Cases to run; `ops` for one case an op (default: all others)");
  bench.flag("--json", options->json, "One JSON object a line: case, us (median), best_us, mean_us, threads");
  bench.option("--threads", options->threads, "Threads (default: WINDROW_THREADS, else all cores)").range(1, 1024);
  add_device_option(bench);
  bench.option("--seconds", options->seconds, "Time to spend on a case").range(0.01, 600.0).show_default();
  bench.flag("--describe", options->describe, "Print each case's plan instead of timing it");
  auto once = std::make_shared<std::string>();
  bench.option("--once", *once, "Compile and run one case once; print the milliseconds since the process began")
      .type("CASE");
  bench.flag("--list", *list, "Show the cases");
  bench
      .option("--backends", options->backends,
              "Compare side by side: all, sse4, avx2, avx512 (avx2:1 for one thread), scalar (the oracle), profile, "
              "opencl:0, cuda:0")
      .comma_separated()
      .type("NAME,...");
  bench.option("--svg", options->svg, "Write that comparison as bars").type("FILE");
  auto predict = std::make_shared<bool>(false);
  bench.flag("--predict", *predict, "What the planner estimates for GPUs that are not here, from data sheets");
  auto serve = std::make_shared<bool>(false);
  auto runs = std::make_shared<int>(0);
  bench.option("--runs", *runs, "Run each case so many times and time nothing (for scripts/guard.py)")
      .range(1, 1000000);
  bench.flag("--serve", *serve, "Read lines `CASE SECONDS`, answer each with a line of JSON (for bench/peers)");
  bench.does([options, list, once, serve, runs, predict] {
    if (*list) return wr::bench::list(options->json);
    if (*predict) return wr::bench::predict(options->names);
    if (*runs > 0) return wr::bench::run_counted(options->names, options->threads, *runs);
    if (*serve) return wr::bench::serve(options->threads);
    if (!once->empty()) return wr::bench::run_once(*once, options->threads, process_start);
    return wr::bench::run(*options);
  });
}

/// Executes a command line, given without the program's name.
int run(std::vector<std::string> arguments) {
  Program program("windrow", "windrow: train small neural networks fast, on CPU cores", "windrow " WINDROW_VERSION);
  Command root = program.root();
  root.footer(
      "Examples:\n"
      "  windrow train fashion                   train a net on Fashion-MNIST\n"
      "  windrow train cube                      learn to solve the 2x2x2 cube\n"
      "  windrow train checkerboard --save c.safetensors   a cellular automaton made of logic gates\n"
      "  windrow circuit c.safetensors --svg c.svg         what it has become\n"
      "  windrow run c.safetensors --grid 256x256 --damage\n"
      "  windrow report a.csv b.csv              compare two trainings (train ... --log a.csv) on one page\n"
      "  windrow bench                           time everything\n"
      "  windrow bench dqn_step_b64 --threads 1  one case on one core\n"
      "  windrow profile bench dqn_step_b64      where its time goes\n"
      "  windrow doctor                          what was detected on this machine\n\n"
      "Environment:\n"
      "  WINDROW_THREADS=N   threads a step uses\n"
      "  WINDROW_SIMD=NAME   force sse4, avx2, avx512 or neon\n"
      "  WINDROW_MACHINE=M   plan for another machine: a name from doctor --machines, or a file\n"
      "  WINDROW_DEVICE=D    where steps run: cpu, auto, opencl[:N or name], cuda[:N]\n"
      "  WINDROW_PROFILE=1   profile every step, print the tables at the end (or a FILE to write)\n");
  add_train(root);
  add_eval(root);
  add_predict(root);
  add_cube(root);
  add_circuit(root);
  add_run(root);
  add_report(root);
  add_rules(root);
  add_bench(root);
  add_profile(root, run);
  add_tune(root);
  DoctorOptions doctor_options;
  auto doctor_command = root.add("doctor", "Show what was detected on this machine and which kernels were chosen");
  doctor_command.flag("--measure", doctor_options.measure,
                      "Measure this machine again, and the device that --device names, and remember it");
  doctor_command.flag("--machines", doctor_options.machines, "List the machines that come with Windrow");
  doctor_command.flag("--describe", doctor_options.describe, "Print the machine as WINDROW_MACHINE=FILE reads it");
  doctor_command.flag("--selftest", doctor_options.selftest,
                      "Run ops and steps on --device and compare them with the oracle");
  add_device_option(doctor_command);
  doctor_command.flag("--json", doctor_options.json, "One JSON object");
  doctor_command.does([&] { return doctor(doctor_options); });
  bool ops_as_json = false;
  auto ops_command = root.add("ops", "Print the table of all ops (docs/ops.md)");
  ops_command.flag("--json", ops_as_json, "One JSON object an op");
  ops_command.does([&] { return ops(ops_as_json); });
  add_completion(root, "windrow " WINDROW_VERSION);
  // The words after it are understood by the program.
  root.add("help", "Print the help of a command: windrow help train").takes_a_command_line();
  return program.run(std::move(arguments));
}

}  // namespace
}  // namespace wr::cli

/// Output that could not be written (a full disk) is a failure even where nothing else failed.
int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error to be told, not the end
  const int code = wr::cli::run({argv + 1, argv + argc});
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("windrow: standard output could not be written to\n", stderr);
  return code != 0 ? code : 1;
}
