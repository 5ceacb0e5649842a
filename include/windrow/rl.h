// Reinforcement learning: environments, replay, schedules, and learners whose train, act and sync are compiled steps
// that share their parameters. Everything is an option, so that it can be left out and its worth measured.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "windrow/array.h"
#include "windrow/checkpoint.h"
#include "windrow/nn.h"
#include "windrow/optim.h"
#include "windrow/random.h"
#include "windrow/step.h"

namespace wr::rl {

// ---- environments ----
/// Plain structs with reset(rng), observe(), step(action).
struct Outcome {
  float reward = 0;
  bool terminal = false;   // the episode is over: nothing comes after
  bool truncated = false;  // it was cut off: more would have come
  bool over() const { return terminal || truncated; }
};

/// A pole on a cart that is pushed left (0) or right (1); +1 for each step that it stands. Gym's CartPole-v1.
struct CartPole {
  static constexpr int kActions = 2, kMaxSteps = 500;
  using Observation = std::array<float, 4>;  // place, speed, angle, angular speed
  Observation now{};
  int steps = 0;

  void reset(Rng& rng);
  const Observation& observe() const { return now; }
  Outcome step(int action);
};

/// A way through a grid, from S to G, round walls (#) and past pits (o). Moves: up, right, down, left; -0.01 a move,
/// +1 at the goal, -1 in a pit.
class GridWorld {
 public:
  static constexpr int kActions = 4;
  using Observation = std::int32_t;  // the cell's number, row by row
  /// Rows of equal length with one S and one G. An Error names the row and column of what is wrong.
  explicit GridWorld(std::vector<std::string> rows, int max_steps = 100);

  int width() const { return static_cast<int>(rows_.front().size()); }
  int height() const { return static_cast<int>(rows_.size()); }
  int cells() const { return width() * height(); }
  void reset(Rng&);
  Observation observe() const { return cell_; }
  Outcome step(int action);
  /// Moves of the shortest way to the goal.
  int shortest() const;

 private:
  char at(int cell) const;
  int neighbour(int cell, int action) const;
  std::vector<std::string> rows_;
  std::int32_t start_ = 0, cell_ = 0;
  int steps_ = 0, max_steps_;
};

/// One action for each environment.
template <class Environment>
void step_all(std::span<Environment> environments, std::span<const std::uint8_t> actions, std::span<Outcome> outcomes) {
  for (std::size_t i = 0; i < environments.size(); ++i) outcomes[i] = environments[i].step(actions[i]);
}

// ---- replay ----
/// From one observation to another n steps later: reward is the discounted sum on the way, discount what the value of
/// `to` is worth: gamma^n, or 0 where the episode ended.
template <class Observation>
struct Transition {
  static_assert(std::is_trivially_copyable_v<Observation>);
  Observation from{}, to{};
  float reward = 0, discount = 0;
  std::int32_t action = 0;
};

/// Turns single steps into n-step transitions. Windows overlap: each step begins one. At the end of an episode the
/// windows that are still open are closed there.
template <class Observation>
class NStep {
 public:
  struct Open {
    Observation from{};
    std::int32_t action = 0;
    float reward = 0;
  };
  NStep(int n, double gamma) : n_(static_cast<std::size_t>(n)), gamma_(gamma) {}

  /// Before a step whose action was chance: what it leads to says nothing about the actions before it, so their windows
  /// are closed here (as in Watkins's Q(lambda)).
  template <class Emit>
  void cut(const Observation& at, Emit emit) {
    while (!open_.empty()) close_first(at, false, emit);
  }
  template <class Emit>
  void add(const Observation& from, int action, const Outcome& outcome, const Observation& to, Emit emit) {
    open_.push_back({from, action, outcome.reward});
    if (open_.size() == n_) close_first(to, outcome.terminal, emit);
    if (!outcome.over()) return;
    while (!open_.empty()) close_first(to, outcome.terminal, emit);
  }
  /// For checkpoints: the steps whose windows are not closed.
  const std::vector<Open>& open() const { return open_; }
  void set_open(std::vector<Open> open) { open_ = std::move(open); }

 private:
  template <class Emit>
  void close_first(const Observation& to, bool terminal, Emit& emit) {
    double reward = 0, discount = 1;
    for (const Open& o : open_) {
      reward += discount * o.reward;
      discount *= gamma_;
    }
    emit(Transition<Observation>{open_.front().from, to, static_cast<float>(reward),
                                 terminal ? 0.0f : static_cast<float>(discount), open_.front().action});
    open_.erase(open_.begin());
  }
  std::size_t n_;
  double gamma_;
  std::vector<Open> open_;
};

/// Weights of leaves and their sums, 16 children a node. Whole numbers: sums are exact however often leaves change, and
/// a tree made again from its leaves is the same tree.
class SumTree {
 public:
  static constexpr std::size_t kFan = 16;
  explicit SumTree(std::int64_t leaves);
  void set(std::int64_t leaf, std::uint64_t weight);
  std::uint64_t get(std::int64_t leaf) const;
  std::uint64_t total() const { return levels_.front()[kFan - 1]; }
  /// For each point below total(): the leaf it falls into when all weights stand in a row.
  void find(std::span<const std::uint64_t> points, std::span<std::int64_t> leaves) const;

 private:
  // Each node is 16 running sums of its children: a child is found by comparing, with no chain of additions.
  std::vector<std::vector<std::uint64_t>> levels_;  // root first
};

struct ReplayOptions {
  std::int64_t capacity = 20'000;
  bool prioritised = true;
  double alpha = 0.6;  // how much the error decides: 0 is uniform
};

/// Which entries to learn from: the part of replay that does not depend on what an entry is.
class Sampler {
 public:
  explicit Sampler(const ReplayOptions& options);
  std::int64_t size() const { return size_; }
  std::int64_t capacity() const { return options_.capacity; }
  /// The place for a new entry, which takes the oldest one's place when all are used. It has the greatest priority so
  /// far: everything is looked at once.
  std::int64_t place_for_new();
  /// Entries by priority, and the weights (1 at most) that take the bias of that choice out of the gradient again:
  /// (size * probability)^-beta.
  void sample(Rng& rng, double beta, std::span<std::int64_t> entries, std::span<float> weights);
  /// The errors of entries that were learned from.
  void update(std::span<const std::int64_t> entries, std::span<const float> errors);

  /// For checkpoints.
  struct State {
    std::int64_t size = 0, next = 0;
    std::uint64_t greatest = 0;
    std::vector<std::uint64_t> priorities;  // empty where sampling is uniform
  };
  State state() const;
  void restore(const State& state);

 private:
  std::uint64_t priority(float error) const;
  ReplayOptions options_;
  SumTree tree_;
  std::int64_t size_ = 0, next_ = 0;
  std::uint64_t greatest_;
  std::vector<std::uint64_t> points_;
};

template <class Observation>
class Replay {
 public:
  using Entry = Transition<Observation>;
  explicit Replay(const ReplayOptions& options)
      : sampler_(options), entries_(static_cast<std::size_t>(options.capacity)) {}
  void add(const Entry& entry) { entries_[sampler_.place_for_new()] = entry; }
  const Entry& operator[](std::int64_t i) const { return entries_[i]; }
  std::int64_t size() const { return sampler_.size(); }
  Sampler& sampler() { return sampler_; }
  const Sampler& sampler() const { return sampler_; }
  /// For checkpoints.
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Sampler sampler_;
  std::vector<Entry> entries_;
};

// ---- schedules ----
/// The share of random actions: from `start`, times `decay` each time (an episode, a step), `least` at least.
struct Epsilon {
  double start = 1, least = 0.01, decay = 0.999;
  double at(std::int64_t time) const { return std::max(least, start * std::pow(decay, static_cast<double>(time))); }
};

struct CurriculumOptions {
  double first = 1, last = 4;
  /// How far it goes on at a time. A depth of 2.3 is 3 in three of ten episodes and 2 in the others: what was learned
  /// is not forgotten all at once.
  double step = 0.1;
  /// The success over the last `window` episodes that is asked for at depth 1, 2, ...; the last one from there on.
  std::vector<double> thresholds{0.85, 0.70, 0.55};
  std::int64_t window = 200;
};

/// How far from the goal episodes begin. Goes on by success.
class Curriculum {
 public:
  explicit Curriculum(const CurriculumOptions& options);
  double depth() const { return depth_; }
  int draw(Rng& rng) const;
  void record(bool success);
  /// Success over the last episodes (at most `window`) since the depth last changed.
  double success() const;

  /// For checkpoints: the outcomes that count, oldest first.
  std::vector<std::uint8_t> outcomes() const;
  void restore(double depth, std::vector<std::uint8_t> outcomes);

 private:
  CurriculumOptions options_;
  double depth_;
  std::vector<std::uint8_t> outcomes_;  // a ring once it is full
  std::size_t next_ = 0;
};

// ---- nets ----
/// What a net reads: the numbers of `active` features that are 1, of `features` in all (i32 [batch, active]); or, with
/// active 0, all features as numbers (f32 [batch, features]).
struct Input {
  std::int64_t features = 0, active = 0;
  Spec spec(std::int64_t batch) const;
};

enum class Activation { relu, elu };

struct NetOptions {
  Input input;
  std::vector<std::int64_t> hidden{256, 128, 64};
  std::int64_t outputs = 1;
  Activation activation = Activation::relu;
  bool layer_norm = false;  // after each hidden layer's sum
  bool residual = false;    // x + layer(x) where a layer's input and output have the same width
  bool dueling = false;     // V + A - mean A
  bool noisy = false;  // the output layers' weights have learned noise, new in each run: exploration without epsilon
};

/// Hidden layers and outputs. The first layer on one-hot input is a sum of rows.
class Net : public nn::Module {
 public:
  explicit Net(const NetOptions& options);
  std::string kind() const override;
  const NetOptions& options() const { return options_; }

 private:
  Tensor forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const override;
  Tensor first(const Tensor& x, const nn::Where& where) const;
  NetOptions options_;
  State table_, bias_;
  std::vector<nn::Dense> dense_;
  std::vector<nn::LayerNorm> norms_;
  std::vector<std::shared_ptr<const nn::Module>> heads_;  // outputs, or value and advantage
};

// ---- deep Q-learning ----
struct DqnOptions {
  std::int64_t batch = 64;
  double lr = 1e-3;
  double clip = 0;       // of the gradient's norm; 0 for none
  bool double_q = true;  // the online net chooses the next action, the target net says what it is worth
  double huber = 1;      // delta; 0: squared error
  double least = -1e30, greatest = 1e30;  // what a return can be: keeps values from running away
  double tau = 0.01;                      // of a sync: target += tau (online - target); 1 copies
  double margin = 0;                      // by which a labelled row's right actions must lead the others; 0: no labels
  std::int64_t acting = 1;                // environments that act at once
};

/// A Q-net and its target net, learned from transitions.
class Dqn {
 public:
  Dqn(const NetOptions& net, const DqnOptions& options, const CompileOptions& compile = {});

  /// The arguments of the next train(): fill all rows.
  struct Batch {
    Array from, to;                          // as Input says
    Array action, reward, discount, weight;  // [batch, 1]
    Array right;  // [batch, outputs], with a margin: 1 for each right action; all 0 where none is known
  };
  Batch& batch() { return batch_; }
  struct Trained {
    float loss;
    std::span<const float> errors;  // |what was learned - what was thought|, of each row
  };
  Trained train();
  /// Moves the target net towards the online net.
  void sync();
  /// Makes the target net the online net, whatever tau is: after pretraining.
  void copy_to_target();

  /// Fill acting_input(), then act(): Q [acting, outputs], with noise where the net is noisy.
  Array& acting_input() { return acting_; }
  std::span<const float> act();
  /// From the next train() on.
  void set_lr(double lr) { adam_->set_lr(lr); }

  const Net& net() const { return online_; }
  const Step& train_step() const { return train_; }
  /// All that a checkpoint must hold.
  void add_to(CheckpointStates& states) const;

 private:
  DqnOptions options_;
  Net online_, target_;
  std::unique_ptr<optim::Adam> adam_;
  Batch batch_;
  Array acting_;
  Step train_, act_, sync_;
};

/// Learns from examples before there is any experience.
struct PretrainOptions {
  std::int64_t batch = 256;
  double lr = 1e-3;
  optim::Schedule schedule = {};
  /// set: cross entropy to the set of right actions, as probabilities softmax(Q / temperature); it does not matter
  /// which of them is the most probable. values: squared error to every action's exact value.
  enum class Target { set, values } target = Target::set;
  double temperature = 0.1;
};
class Pretrainer {
 public:
  Pretrainer(const Net& net, const PretrainOptions& options, const CompileOptions& compile = {});
  Array& input() { return input_; }
  /// [batch, outputs]: 1 for each right action and 0 for the others; or the values.
  Array& target() { return target_; }
  float train();

 private:
  std::unique_ptr<optim::Adam> adam_;
  Array input_, target_;
  Step train_;
};

// ---- learning values ----
struct ValueOptions {
  std::int64_t batch = 1024, asked = 4096;  // rows of a training step, and of a call of ask()
  double lr = 1e-3;
  double weight_decay = 0;
  double huber = 0;  // delta; 0: squared error. Without meaning for a net with several outputs
  optim::Schedule schedule = {};
  bool target = false;  // ask() asks a copy that sync() brings up to date: for targets made of the net's own values
};

/// What a net says a value is. One output is the value itself; several are a distribution over 0, 1, 2, ..., of which
/// it is the mean.
Tensor value_of(const Tensor& outputs);

/// A net fitted to numbers: one output by squared or Huber error, several by cross entropy (a number between two whole
/// ones is shared between them), which is often learned sooner. With exact numbers that is supervised learning; with
/// 1 + min over moves of ask(child), approximate value iteration.
class ValueLearner {
 public:
  ValueLearner(const NetOptions& net, const ValueOptions& options, const CompileOptions& compile = {});
  struct Batch {
    Array input, target;  // as Input says; [batch, 1]
  };
  Batch& batch() { return batch_; }
  float train();
  Array& question() { return question_; }
  std::span<const float> ask();  // the target net's values where there is one
  std::span<const float> ask_online();
  void sync();

  const Net& net() const { return online_; }
  /// The net itself where there is no other.
  const Net& target_net() const { return target_; }
  const Step& train_step() const { return train_; }
  void add_to(CheckpointStates& states) const;

 private:
  ValueOptions options_;
  Net online_, target_;
  std::unique_ptr<optim::Adam> adam_;
  Batch batch_;
  Array question_;
  Step train_, ask_, ask_online_, sync_;
};

}  // namespace wr::rl
