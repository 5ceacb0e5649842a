// Checks, times and prints the cases.
#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <numeric>
#include <random>

#include "backend/cpu/target.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/thread_team.h"
#include "bench/case.h"
#include "ir/elsewhere.h"
#include "ops/interpret.h"
#include "step/inside.h"
#include "windrow/files.h"

namespace wr::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string difference(const std::string& what, const Array& got, const Array& wanted, double tolerance,
                       double absolute = 0) {
  const auto a = got.astype(DType::f64).to_vector<double>(), b = wanted.astype(DType::f64).to_vector<double>();
  double largest = 1e-3;
  for (double x : b) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(a[i] - b[i]);
    if (!(error <= absolute + tolerance * std::max(std::abs(b[i]), 0.01 * largest)) &&
        !(std::isnan(a[i]) && std::isnan(b[i])))
      return fmt::format("{}: element {} is {:.9g}, the oracle has {:.9g}", what, i, a[i], b[i]);
  }
  return "";
}

/// The rate at which so many bytes move through all threads: that of the level of memory they fit in.
double bytes_per_us(const Roofline& roof, double bytes) {
  for (const auto& level : roof.levels)
    if (level.bytes == 0 || bytes / roof.threads <= 0.75 * static_cast<double>(level.bytes)) return level.gbs_all * 1e3;
  return roof.levels.back().gbs_all * 1e3;
}

struct Result {
  std::string name, wrong;
  Timing timing;
  StepFacts facts;
  double roof_us = 0;
};

Result measure(const Case& c, const RunOptions& options, const Roofline* roof) {
  Prepared p = c.prepare(options.threads);
  Result r;
  r.name = c.name;
  r.facts = p.step.facts();
  r.wrong = p.check(p.step, p.arguments);
  if (!r.wrong.empty()) return r;
  r.timing = time_step(p.step, options.seconds);
  if (roof) {
    const bool wide = !p.arguments.empty() && p.arguments[0].dtype() == DType::f64;
    r.roof_us = std::max(r.facts.flops / 1e3 / (wide ? roof->gflops_f64_all : roof->gflops_f32_all),
                         p.bytes / bytes_per_us(*roof, p.bytes));
  }
  return r;
}

/// One that cannot be compiled or run is wrong; the others are measured all the same.
Result measured(const Case& c, const RunOptions& options, const Roofline* roof) try {
  return measure(c, options, roof);
} catch (const Error& error) {
  Result r;
  r.name = c.name;
  r.wrong = error.what();
  return r;
}

void print_row(const Result& r) {
  if (!r.wrong.empty()) {
    fmt::print("{:<30} WRONG  {}\n", r.name, r.wrong);
    return;
  }
  fmt::print("{:<30} {:>10.2f} {:>10.2f} {:>10.1f} {:>9.0f} {:>9.2f} {:>7.0f} %\n", r.name, r.timing.median_us,
             r.timing.best_us, r.facts.flops / r.timing.best_us / 1e3, static_cast<double>(r.facts.peak_bytes()) / 1024,
             r.facts.compile_ms, 100 * r.roof_us / r.timing.best_us);
  std::fflush(stdout);
}

}  // namespace

Array random_normal(const Shape& shape, std::uint64_t seed, double scale, DType dtype) {
  std::mt19937_64 engine(seed * 7919 + 17);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (double& v : values) v = normal(engine);
  return Array::from(values, shape).astype(dtype);
}

Array random_integers(const Shape& shape, int below, std::uint64_t seed) {
  std::mt19937_64 engine(seed * 104729 + 5);
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.count()));
  for (auto& v : values) v = static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(below));
  return Array::from(values, shape);
}

std::string check_by_oracle(Step& step, const std::vector<Array>& arguments, double tolerance) {
  const ir::Graph& graph = *step.inside().graph;
  const auto wanted = ir::interpret(graph, arguments, ir::Rounding::none);
  std::vector<const Array*> list;
  for (const Array& a : arguments) list.push_back(&a);
  step.run(list);
  for (std::size_t i = 0; i < wanted.outputs.size(); ++i)
    if (auto wrong = difference(fmt::format("result {}", i), step.output(i), wanted.outputs[i], tolerance);
        !wrong.empty())
      return wrong;
  for (std::size_t i = 0; i < wanted.updates.size(); ++i) {
    const auto& variable = *graph[graph.updates[i].state].variable;
    ir::bring_home(variable);
    // Adam's first step is lr * g / |g|: where g is nearly 0 its last bits decide, down to the sign, which makes 2 lr.
    // The moments are compared closely.
    const bool moment =
        variable.name.find("mean") != std::string::npos || variable.name.find("square") != std::string::npos;
    if (auto wrong =
            difference("state " + variable.name, variable.value, wanted.updates[i], tolerance, moment ? 0 : 2e-3);
        !wrong.empty())
      return wrong;
  }
  return "";
}

double compulsory_bytes(Step& step, const std::vector<Array>& arguments) {
  double bytes = 0;
  for (const Array& a : arguments) bytes += static_cast<double>(a.bytes());
  for (const Array& a : step.inside().outputs) bytes += static_cast<double>(a.bytes());
  const ir::Graph& graph = *step.inside().graph;
  bytes += static_cast<double>(step.facts().state_bytes);
  for (const auto& u : graph.updates) bytes += static_cast<double>(graph[u.state].variable->value.bytes());
  return bytes;
}

Timing time_step(Step& step, double seconds) {
  constexpr int kBlocks = 9;
  // A device works on while the next run begins; reading a result waits for it.
  const auto seconds_of = [&](int turns) {
    const auto start = Clock::now();
    for (int i = 0; i < turns; ++i) {
      const Step::Results results = step.again();
      if (i + 1 == turns && results.size() > 0) static_cast<void>(results[0]);
    }
    return seconds_since(start);
  };
  seconds_of(3);
  const int turns = std::max(1, static_cast<int>(seconds / kBlocks / std::max(seconds_of(1), 1e-7)));
  std::vector<double> blocks;
  for (int b = 0; b < kBlocks; ++b) blocks.push_back(seconds_of(turns) / turns * 1e6);
  std::sort(blocks.begin(), blocks.end());
  return {blocks[kBlocks / 2], blocks[0], blocks};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    auto list = kernel_cases();
    for (auto& c : training_cases()) list.push_back(std::move(c));
    for (auto& c : logic_cases()) list.push_back(std::move(c));
    return list;
  }();
  return all;
}

int list(bool json) {
  if (json) {
    for (const auto& all : {cases(), op_cases(), rules_cases()})
      for (const Case& c : all) fmt::print("{}\n", Json{{"case", c.name}, {"what", c.what}}.dump());
    return 0;
  }
  for (const Case& c : cases()) fmt::print("{:<30} {}\n", c.name, c.what);
  fmt::print(
      "\nother sizes, by name: matmul_MxKxN_f32|f64, plain_mlp_IN_..._OUT_bN, mlp_step_bN, cnn_step_bN, dqn_step_bN, "
      "dqn_step_wWIDTH_bN, dqn_act_bN\n");
  fmt::print("\nops: one case an op\n");
  for (const Case& c : op_cases()) fmt::print("{:<30} {}\n", c.name, c.what);
  fmt::print("\nrules: in every semantics; other sizes: rules_join_SEMANTICS_nN\n");
  for (const Case& c : rules_cases()) fmt::print("{:<30} {}\n", c.name, c.what);
  return 0;
}

namespace {

std::optional<Case> find_case(const std::string& name) {
  for (const auto& list : {cases(), op_cases()})
    for (const Case& c : list)
      if (c.name == name || c.name.starts_with(name + "_b")) return c;  // without a batch size: the first of that name
  if (auto c = kernel_case(name)) return c;
  if (auto c = training_case(name)) return c;
  if (auto c = rules_case(name)) return c;
  return logic_case(name);
}

/// The cases meant by the names; throws for a name that means none.
std::vector<Case> choose(const std::vector<std::string>& names) {
  if (names.empty()) return cases();
  std::vector<Case> chosen;
  for (const std::string& name : names) {
    if (name == "ops") {
      for (Case& c : op_cases()) chosen.push_back(std::move(c));
    } else if (name == "rules") {
      for (Case& c : rules_cases()) chosen.push_back(std::move(c));
    } else if (auto c = find_case(name)) {
      chosen.push_back(std::move(*c));
    } else {
      std::vector<std::string> known{"ops", "rules"};
      for (const Case& known_case : cases()) known.push_back(known_case.name);
      const std::string meant = nearest(name, known);
      throw Error("bench: no case '" + name + "'; " + (meant.empty() ? "" : "did you mean " + meant + "? ") +
                  "`windrow bench --list` shows them");
    }
  }
  return chosen;
}

}  // namespace

Case case_named(const std::string& name) { return choose({name}).at(0); }

int run_once(const std::string& name, int threads, Clock::time_point start) {
  Prepared p = case_named(name).prepare(threads);
  std::vector<const Array*> list;
  for (const Array& a : p.arguments) list.push_back(&a);
  p.step.run(list);
  const Json line{
      {"case", name}, {"first_step_ms", seconds_since(start) * 1e3}, {"compile_ms", p.step.facts().compile_ms}};
  fmt::print("{}\n", line.dump());
  return 0;
}

/// A function of its own: callgrind counts the instructions while it runs (--toggle-collect).
[[gnu::noinline]] void counted_runs(Step& step, int runs) {
  for (int i = 0; i < runs; ++i) step.again();
}

int run_counted(const std::vector<std::string>& names, int threads, int runs) {
  for (const Case& c : choose(names)) {
    Prepared p = c.prepare(threads);
    std::vector<const Array*> list;
    for (const Array& a : p.arguments) list.push_back(&a);
    p.step.run(list);
    counted_runs(p.step, runs);
  }
  return 0;
}

int serve(int threads) {
  std::map<std::string, Prepared> prepared;  // and checked
  fmt::print("{}\n", Json{{"ready", true}, {"peer", "Windrow"}}.dump());
  std::fflush(stdout);
  for (std::string name, text; std::cin >> name >> text;) {
    Json answer{{"case", name}};
    try {
      const double seconds = std::stod(text);
      if (!prepared.contains(name)) {
        const auto start = Clock::now();
        Prepared p = case_named(name).prepare(threads);
        answer["compile_ms"] = p.step.facts().compile_ms;
        if (const std::string wrong = p.check(p.step, p.arguments); !wrong.empty()) throw Error(wrong);
        answer["first_ms"] = seconds_since(start) * 1e3;
        prepared.emplace(name, std::move(p));
      }
      Step& step = prepared.at(name).step;
      const Timing timing = time_step(step, seconds);
      answer["us"] = timing.median_us;
      answer["best_us"] = timing.best_us;
      answer["blocks"] = Json::list_of(timing.blocks);
    } catch (const std::exception& e) {
      answer["failed"] = e.what();
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
  return 0;
}

int run(const RunOptions& given) {
  RunOptions options = given;
  if (options.threads == 0) options.threads = default_threads();
  const std::vector<Case> chosen = choose(options.names);
  const Output svg{"--svg", options.svg};
  try_outputs({&svg, 1});
  if (options.describe) {
    for (const Case& c : chosen) fmt::print("{}\n", c.prepare(options.threads).step.describe());
    return 0;
  }
  if (!options.backends.empty()) return compare_backends(options, chosen);
  const Roofline* roof = nullptr;
  if (!options.json) {
    roof = &roofline(options.threads);
    fmt::print("{} thread{}, {}; measured peak {:.0f} GFLOP/s f32, {:.0f} f64\n", options.threads,
               options.threads == 1 ? "" : "s", cpu::name_of(cpu::active_target()), roof->gflops_f32_all,
               roof->gflops_f64_all);
    fmt::print("{:<30} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9}\n", "case", "median us", "best us", "GFLOP/s", "peak KB",
               "compile", "of roof");
  }
  int wrong = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const bool progress = !options.json && isatty(1);
    if (progress) {
      fmt::print("[{}/{}] {} ...\r", i + 1, chosen.size(), chosen[i].name);
      std::fflush(stdout);
    }
    const Result r = measured(chosen[i], options, roof);
    if (!r.wrong.empty()) {
      ++wrong;
      fmt::print(stderr, "bench: {}: {}\n", r.name, r.wrong);
    }
    if (progress) fmt::print("\033[K");
    if (!options.json) {
      print_row(r);
    } else if (r.wrong.empty()) {
      const auto& blocks = r.timing.blocks;
      const Json line{
          {"case", r.name},
          {"us", r.timing.median_us},
          {"best_us", r.timing.best_us},
          {"mean_us", std::accumulate(blocks.begin(), blocks.end(), 0.0) / static_cast<double>(blocks.size())},
          {"threads", options.threads}};
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
    }
  }
  return wrong ? 1 : 0;
}

}  // namespace wr::bench
