#include "step/tune.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "windrow/array.h"
#include "windrow/error.h"

namespace wr {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCandidates = 4;
constexpr double kSecondsEach = 0.04;
constexpr double kClearly = 0.98;  // what is not clearly faster is not worth leaving the estimate for
constexpr std::uint64_t kLongestName = 200;

/// Arguments, states and results as large as the step's, for runs that change nothing of anybody's.
class Playground {
 public:
  void bind(backend::Executor& executor, const plan::Schedule& schedule) {
    const ir::Graph& g = *schedule.graph;
    const lower::Program& program = executor.program();
    auto zeros = [&](const Spec& spec) {
      own_.push_back(Array::zeros(spec.shape, spec.dtype));
      return detail::ArrayAccess::write_shared(own_.back());
    };
    own_.clear();
    own_.reserve(g.inputs.size() + schedule.states.size() + g.outputs.size());
    for (std::size_t i = 0; i < g.inputs.size(); ++i) executor.bind(program.input_base[i], zeros(g[g.inputs[i]].spec));
    for (std::size_t i = 0; i < schedule.states.size(); ++i) {
      own_.push_back(g[schedule.states[i]].variable->value.clone());
      executor.bind(program.state_base[i], detail::ArrayAccess::write_shared(own_.back()));
    }
    for (std::size_t i = 0; i < program.constants.size(); ++i)
      executor.bind(program.constant_base[i], const_cast<void*>(detail::ArrayAccess::read(*program.constants[i])));
    for (std::size_t i = 0; i < g.outputs.size(); ++i)
      executor.bind(program.output_base[i], zeros(g[g.outputs[i]].spec));
  }

 private:
  std::vector<Array> own_;
};

/// A plan that can be run, and its best time so far.
struct Candidate {
  std::unique_ptr<backend::Executor> executor;
  Playground playground;
  double best = 1e9;  // seconds of a run

  void time(int turns, int threads) {
    const auto start = Clock::now();
    for (int i = 0; i < turns; ++i) executor->run(threads);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / turns);
  }
};

/// The candidates take turns, so that what disturbs the machine for a while disturbs all of them.
void time_in_turns(std::vector<Candidate>& candidates, int threads) {
  constexpr int kRounds = 20;
  for (Candidate& c : candidates)
    for (int i = 0; i < 3; ++i) c.time(1, threads);
  for (int round = 0; round < kRounds; ++round)
    for (Candidate& c : candidates)
      c.time(std::clamp(static_cast<int>(kSecondsEach / kRounds / std::max(c.best, 1e-8)), 1, 10000), threads);
}

/// What the fastest plan depends on, as a file's name.
std::string key_of(const ir::Graph& graph, const plan::Options& options, std::string_view target, int threads) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  };
  add(ir::print(graph));
  add(to_text(options.machine));
  add(target);
  add(std::to_string(options.lanes) + " " + std::to_string(threads));
  char name[32];
  std::snprintf(name, sizeof name, "%016llx.txt", static_cast<unsigned long long>(hash));
  return name;
}

std::string remembered(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return "";
  try {
    const Source source = Source::open(file);
    if (source.size() > kLongestName) return "";
    std::string form(static_cast<std::size_t>(source.size()), '\0');
    source.read(0, {reinterpret_cast<std::uint8_t*>(form.data()), form.size()});
    return form;
  } catch (const Error&) {
    return "";
  }
}

void remember(const std::string& folder, const std::string& file, const std::string& form) {
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    FileWriter writer(file);
    writer.write(form);
    writer.commit();
  } catch (const Error&) {
    // Timed again next time.
  }
}

}  // namespace

bool tune_by_environment() {
  const char* text = std::getenv("WINDROW_TUNE");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr && std::string_view(text) == "1";
}

plan::Schedule tuned(const ir::Graph& graph, const plan::Options& options, const backend::Backend& backend,
                     std::string_view target, int threads, const std::string& folder) {
  std::vector<plan::Schedule> list = plan::schedules(graph, options, kCandidates);
  if (list.size() == 1) return std::move(list.front());
  const std::string plans = folder.empty() ? "" : folder + "/plans";
  const std::string file = plans.empty() ? "" : plans + "/" + key_of(graph, options, target, threads);
  if (!file.empty()) {
    const std::string form = remembered(file);
    const auto known = std::find_if(list.begin(), list.end(), [&](const auto& s) { return s.form == form; });
    if (known != list.end()) return std::move(*known);
  }
  std::vector<Candidate> candidates(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    Candidate& c = candidates[i];
    backend::expect_runnable(backend, list[i]);
    c.executor = backend.prepare(list[i]);
    c.executor->reserve_threads(threads);
    c.playground.bind(*c.executor, list[i]);
  }
  time_in_turns(candidates, threads);
  std::size_t fastest = 0;
  for (std::size_t i = 1; i < list.size(); ++i)
    if (candidates[i].best < kClearly * candidates[fastest].best) fastest = i;
  if (!file.empty()) remember(plans, file, list[fastest].form);
  return std::move(list[fastest]);
}

}  // namespace wr
