#include "apps/cube/cube.h"

#include <cmath>

#include "apps/common/metadata.h"
#include "windrow/clock.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

constexpr int kPoints = 20;           // measurements of a run
constexpr std::size_t kWatched = 60;  // states of each distance
constexpr int kMoveLimit = 20;
constexpr std::int64_t kJudged = 1024;

std::unique_ptr<CubeLearner> make_learner(const CubeSettings& s, const CompileOptions& options) {
  nn::seed(s.seed);
  return s.method == "dqn" ? make_q_learner(s, options) : make_value_learner(s, options);
}

/// Q-learning: every state as far away as episodes begin. Values: some of every distance.
std::vector<std::int32_t> states_to_watch(const CubeSettings& s) {
  const auto& distance = cube_distances();
  std::array<std::vector<std::int32_t>, kDistances> by;
  for (std::int32_t state = 0; state < PocketCube::kStates; ++state) by[distance[state]].push_back(state);
  std::vector<std::int32_t> list;
  Rng rng(0);
  for (std::size_t d = 1; d < kDistances; ++d) {
    const bool whole = s.method == "dqn" && d <= 4;
    if (s.method == "dqn" && static_cast<double>(d) > s.last_depth) break;
    for (std::size_t i = 0; i < (whole ? by[d].size() : std::min(kWatched, by[d].size())); ++i) {
      if (!whole) std::swap(by[d][i], by[d][i + rng.below(by[d].size() - i)]);
      list.push_back(by[d][i]);
    }
  }
  return list;
}

std::string print(const std::vector<CubePoint>& history) {
  std::string text;
  for (const CubePoint& p : history) {
    text += fmt::format("{}{} {} {} {} {}", text.empty() ? "" : ";", p.done, p.seconds, p.loss, p.depth,
                        fmt::join(p.success, " "));
  }
  return text;
}

std::vector<CubePoint> history_of(const MetadataReader& file) {
  std::vector<CubePoint> all;
  for (const auto& v : file.rows("history", 4 + kDistances)) {
    CubePoint p{static_cast<std::int64_t>(v[0]), v[1], v[2], v[3], {}};
    std::copy(v.begin() + 4, v.end(), p.success.begin());
    all.push_back(p);
  }
  return all;
}

/// Sets all states to what the file holds, or none.
void set_states(const CheckpointStates& states, const Safetensors& file, const std::string& path) {
  for (const auto& [name, state] : states.all()) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      throw Error(fmt::format("{}: has no {} {}, which the net needs", path, name, to_string(state.spec())));
    const Spec spec{found->second.dtype(), found->second.shape()};
    if (spec != state.spec())
      throw Error(fmt::format("{}: {} is {}, the net needs {}", path, name, to_string(spec), to_string(state.spec())));
    expect_finite(path, name, found->second);
  }
  for (const auto& [name, state] : states.all()) State(state).set(file.tensors.at(name));
}

}  // namespace

report::Point point_of(const CubePoint& point) {
  report::Point p{point.done, point.seconds, {{"loss", point.loss}}};
  if (point.depth > 0) p.values.emplace_back("depth", point.depth);
  for (std::size_t d = 1; d < kDistances; ++d)
    if (point.success[d] >= 0) p.values.emplace_back(fmt::format("distance {} success", d), point.success[d]);
  return p;
}

report::History cube_history(const std::string& path) {
  const Metadata metadata = read_safetensors_header(path).metadata;
  report::History history;
  for (const CubePoint& p : history_of(MetadataReader(metadata, path))) history.points.push_back(point_of(p));
  return history;
}

CubeRun::CubeRun(const CubeSettings& settings, int threads, const PlannedFor& plan)
    : settings_(settings),
      learner_(make_learner(settings, compile_options("cube", threads, plan))),
      judge_(settings, learner_->net(), kJudged, compile_options("cube", threads, plan)),
      watched_(states_to_watch(settings)) {}

void CubeRun::add_point() {
  CubePoint p;
  p.done = learner_->done();
  p.loss = learner_->take_loss();
  p.depth = learner_->depth();
  p.success = success(judge_, watched_, cube_distances(), kMoveLimit);
  history_.push_back(p);
}

bool CubeRun::train(const CubeWatch& watch) {
  const double start = seconds_now(), before = seconds_;
  const std::int64_t first = learner_->done(), total = learner_->total();
  const std::int64_t every = std::max<std::int64_t>(1, total / kPoints);
  double last_loss = 0;
  while (learner_->done() < total) {
    const std::int64_t was = learner_->done();
    learner_->advance();
    const std::int64_t is = learner_->done();
    seconds_ = before + seconds_now() - start;
    if (is / every != was / every || is >= total) {
      add_point();
      seconds_ = before + seconds_now() - start;
      history_.back().seconds = seconds_;
      last_loss = history_.back().loss;
      if (!std::isfinite(last_loss))
        throw Error(fmt::format("the loss is {} at {} {}: a smaller --lr than {} may help", text::shown(last_loss),
                                learner_->unit(), is, settings_.lr));
      if (watch.point) watch.point(history_.back());
    }
    if (watch.step) {
      const double passed = seconds_now() - start, rate = static_cast<double>(is - first) / std::max(passed, 1e-9);
      watch.step({is, total, learner_->unit(), last_loss, rate, static_cast<double>(total - is) / std::max(rate, 1e-9),
                  learner_->note()});
    }
    if (is < total && watch.stop && watch.stop()) return false;
  }
  return true;
}

void CubeRun::save(const std::string& path) const {
  CubeState s = learner_->state();
  Metadata m = s.texts;
  for (const auto& [name, text] : to_texts(settings_)) m[name] = text;
  m["windrow.app"] = "cube";
  write_plan(m, learner_->train_step());
  m["seconds"] = fmt::format("{}", seconds_);
  m["history"] = print(history_);
  for (const auto& [name, state] : s.states.all()) s.arrays[name] = state.value();
  write_safetensors(path, s.arrays, m);
}

void CubeRun::load(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const MetadataReader metadata(file.metadata, path);
  auto history = history_of(metadata);
  const double seconds = metadata.number("seconds", 0);
  set_states(learner_->state().states, file, path);
  learner_->restore(file.tensors, file.metadata, path);
  history_ = std::move(history);
  seconds_ = seconds;
}

TrainedCube load_cube(const std::string& path) {
  const Safetensors file = read_safetensors(path);
  SafetensorsHeader header{{}, file.metadata};
  for (const auto& [name, array] : file.tensors) header.tensors[name] = {array.dtype(), array.shape()};
  const CubeSettings settings = cube_settings_of(header, path);
  TrainedCube trained{settings, rl::Net(net_options(settings))};
  CheckpointStates states;
  states.add_group("model", trained.net.states());
  set_states(states, file, path);
  return trained;
}

}  // namespace wr::apps
