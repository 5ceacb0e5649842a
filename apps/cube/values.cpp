// Learning the distance of a state: from exact labels, or from the net's own values one move on.
#include <algorithm>
#include <cmath>

#include "apps/common/metadata.h"
#include "apps/cube/cube.h"

namespace wr::apps {
namespace {

class ValueCube : public CubeLearner {
 public:
  ValueCube(const CubeSettings& settings, const CompileOptions& options)
      : settings_(settings),
        labelled_(settings.method == "supervised"),
        learner_(net_options(settings), value_options(settings, labelled_), options),
        encoder_(settings),
        rng_(settings.seed),
        states_(static_cast<std::size_t>(settings.batch)) {
    if (!labelled_) {
      targets_.resize(static_cast<std::size_t>(places()));
      judge_.emplace(settings, learner_.target_net(), 4096, options);
      find_targets();
    }
  }

  const char* unit() const override { return "step"; }
  std::int64_t done() const override { return done_; }
  std::int64_t total() const override { return settings_.steps; }
  std::int64_t updates() const override { return done_; }
  const rl::Net& net() const override { return learner_.net(); }
  const Step& train_step() const override { return learner_.train_step(); }

  void advance() override {
    draw();
    encoder_.rows(states_, learner_.batch().input);
    float* y = learner_.batch().target.mutable_data<float>();
    for (std::size_t i = 0; i < states_.size(); ++i) y[i] = target(states_[i]);
    loss_ += learner_.train();
    ++losses_;
    ++done_;
    if (!labelled_ && done_ % settings_.sync_every == 0) {
      learner_.sync();
      find_targets();
    }
  }

  double take_loss() override {
    const double mean = losses_ ? loss_ / static_cast<double>(losses_) : 0;
    loss_ = 0;
    losses_ = 0;
    return mean;
  }

  CubeState state() const override {
    CubeState s;
    learner_.add_to(s.states);
    s.texts["rng"] = std::to_string(rng_.state());
    s.texts["done"] = std::to_string(done_);
    s.texts["loss"] = fmt::format("{}", loss_);
    s.texts["losses"] = std::to_string(losses_);
    return s;
  }

  void restore(const std::map<std::string, Array>&, const Metadata& texts, const std::string& path) override {
    const MetadataReader file(texts, path);
    const std::int64_t done = file.whole("done", 0, settings_.steps), losses = file.whole("losses", 0);
    const double loss = file.number("loss");
    rng_ = Rng(file.bits("rng"));
    done_ = done;
    loss_ = loss;
    losses_ = losses;
    if (!labelled_) find_targets();
  }

 private:
  static rl::ValueOptions value_options(const CubeSettings& s, bool labelled) {
    rl::ValueOptions o;
    o.batch = s.batch;
    o.lr = s.lr;
    o.huber = s.huber;
    if (s.schedule == "cosine") o.schedule = optim::schedule::cosine(static_cast<double>(s.steps), 1e-3);
    o.target = !labelled;
    return o;
  }

  /// States that are told apart: orbits, or all.
  std::int32_t places() const {
    return settings_.symmetry ? CubeOrbits::get().count() : std::int32_t{PocketCube::kStates};
  }
  std::int32_t place(std::int32_t state) const { return settings_.symmetry ? CubeOrbits::get().orbit(state) : state; }
  std::int32_t first(std::int32_t place) const { return settings_.symmetry ? CubeOrbits::get().first(place) : place; }

  float target(std::int32_t state) const {
    const float distance = labelled_ ? cube_distances()[state] : targets_[place(state)];
    if (!settings_.classes) return distance;
    const float pairs = (distance - static_cast<float>(PocketCube::get().odd(state))) / 2;
    return std::clamp(pairs, 0.0f, static_cast<float>(kPairClasses - 1));
  }

  /// Any states, and among them some near the goal, of which there are few but through which all ways lead.
  void draw() {
    const PocketCube& cube = PocketCube::get();
    const auto near = static_cast<std::size_t>(settings_.near * static_cast<double>(states_.size()));
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (i >= near) {
        states_[i] = first(static_cast<std::int32_t>(rng_.below(static_cast<std::uint64_t>(places()))));
        continue;
      }
      const int length = 1 + static_cast<int>(rng_.below(static_cast<std::uint64_t>(settings_.walk)));
      std::int32_t state = 0;
      int last = -1;
      for (int k = 0; k < length; ++k) {
        int m = 0;
        do {
          m = static_cast<int>(rng_.below(PocketCube::kMoves));
        } while (m == (last ^ 1));
        state = cube.turn(state, m);
        last = m;
      }
      states_[i] = first(place(state));
    }
  }

  /// 1 + the least value of the states one move on, for all states: the model is known, so this is exact given the
  /// values. Each state's value is asked once, not once for each state that it follows.
  void find_targets() {
    const PocketCube& cube = PocketCube::get();
    std::vector<std::int32_t> states(targets_.size());
    std::vector<float> value(targets_.size());
    for (std::size_t i = 0; i < states.size(); ++i) states[i] = first(static_cast<std::int32_t>(i));
    judge_->costs(states, value);
    for (std::size_t i = 0; i < states.size(); ++i) value[i] = settled(states[i], value[i]);
    for (std::size_t i = 0; i < states.size(); ++i) {
      float least = value[place(cube.turn(states[i], 0))];
      for (int m = 1; m < PocketCube::kMoves; ++m) least = std::min(least, value[place(cube.turn(states[i], m))]);
      targets_[i] = states[i] == 0 ? 0 : least + 1;
    }
  }

  /// What a value can be: 0 for the goal, at least 1 elsewhere; and, as every move changes the parity, a whole number
  /// of the state's own parity. Rounding to it keeps small errors from adding up on the way.
  float settled(std::int32_t state, float value) const {
    if (state == 0) return 0;
    if (!settings_.parity) return std::max(value, 1.0f);
    const float odd = PocketCube::get().odd(state) ? 1.0f : 0.0f;
    return std::max(2 * std::round((value - odd) / 2) + odd, 2 - odd);
  }

  CubeSettings settings_;
  bool labelled_;
  rl::ValueLearner learner_;
  std::optional<CubeJudge> judge_;
  CubeEncoder encoder_;
  Rng rng_;
  std::vector<std::int32_t> states_;
  std::vector<float> targets_;
  std::int64_t done_ = 0, losses_ = 0;
  double loss_ = 0;
};

}  // namespace

std::unique_ptr<CubeLearner> make_value_learner(const CubeSettings& settings, const CompileOptions& options) {
  return std::make_unique<ValueCube>(settings, options);
}

}  // namespace wr::apps
