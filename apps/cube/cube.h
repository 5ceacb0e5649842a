// Training on the 2x2x2 cube: three ways to learn behind one run, with checkpoints. On the public API alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/planned_for.h"
#include "apps/cube/settings.h"
#include "apps/cube/solver.h"
#include "windrow/checkpoint.h"
#include "windrow/report.h"

namespace wr::apps {

/// What is known of a run at some moment, for curves and tables.
struct CubePoint {
  std::int64_t done = 0;  // steps, or episodes
  double seconds = 0, loss = 0;
  double depth = 0;                          // of the curriculum
  std::array<double, kDistances> success{};  // by distance, of states the run looks at; -1: none
};

/// As logs and charts have it.
report::Point point_of(const CubePoint& point);
/// What a checkpoint says of its training.
report::History cube_history(const std::string& path);

struct CubeProgress {
  std::int64_t done, total;
  const char* unit;  // "step" or "episode"
  double loss, rate, seconds_left;
  std::string note;  // depth and success of the last episodes
};

struct CubeWatch {
  std::function<bool()> stop;  // asked after every step
  std::function<void(const CubeProgress&)> step;
  std::function<void(const CubePoint&)> point;
};

/// What a checkpoint holds besides settings and history.
struct CubeState {
  CheckpointStates states;
  std::map<std::string, Array> arrays;
  Metadata texts;
};

/// One way to learn.
class CubeLearner {
 public:
  virtual ~CubeLearner() = default;
  virtual const char* unit() const = 0;
  virtual std::int64_t done() const = 0;
  virtual std::int64_t total() const = 0;
  /// Learns a little.
  virtual void advance() = 0;
  /// The mean loss since the last call.
  virtual double take_loss() = 0;
  virtual double depth() const { return 0; }
  virtual std::string note() const { return {}; }
  virtual const rl::Net& net() const = 0;
  virtual const Step& train_step() const = 0;
  /// Environment steps and training steps so far.
  virtual std::int64_t moves() const { return 0; }
  virtual std::int64_t updates() const = 0;
  virtual CubeState state() const = 0;
  /// States (parameters, moments) are set by the caller; this takes the rest.
  virtual void restore(const std::map<std::string, Array>& arrays, const Metadata& texts, const std::string& path) = 0;
};
std::unique_ptr<CubeLearner> make_value_learner(const CubeSettings& settings, const CompileOptions& options);
std::unique_ptr<CubeLearner> make_q_learner(const CubeSettings& settings, const CompileOptions& options);

class CubeRun {
 public:
  /// plan: a checkpoint's, so that sums are cut as they were.
  CubeRun(const CubeSettings& settings, int threads, const PlannedFor& plan = {});
  void load(const std::string& path);
  void save(const std::string& path) const;
  /// True when all is done, false when the watch said stop.
  bool train(const CubeWatch& watch);
  CubeJudge::Everything everything() { return judge_.everything(); }

  const CubeSettings& settings() const { return settings_; }
  const CubeLearner& learner() const { return *learner_; }
  const std::vector<CubePoint>& history() const { return history_; }
  double seconds() const { return seconds_; }

 private:
  void add_point();
  CubeSettings settings_;
  std::unique_ptr<CubeLearner> learner_;
  CubeJudge judge_;
  std::vector<std::int32_t> watched_;  // states that success is measured on
  std::vector<CubePoint> history_;
  double seconds_ = 0;
};

/// The net of a checkpoint.
struct TrainedCube {
  CubeSettings settings;
  rl::Net net;
};
TrainedCube load_cube(const std::string& path);

}  // namespace wr::apps
