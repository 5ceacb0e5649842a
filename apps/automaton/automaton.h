// Training cellular automata whose rule is a circuit of logic gates: Conway's Life, checkerboards, pictures. On the
// public API alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/automaton/polish.h"
#include "apps/common/fields.h"
#include "apps/common/planned_for.h"
#include "windrow/checkpoint.h"
#include "windrow/circuit.h"
#include "windrow/logic.h"
#include "windrow/optim.h"
#include "windrow/report.h"
#include "windrow/step.h"

namespace wr::apps {

class AutomatonExam;

/// All that decides the result of a run. The defaults of a task: automaton_recipe().
struct AutomatonSettings {
  std::string task = "checkerboard";
  std::uint64_t seed = 1;
  std::int64_t updates = 2000;
  std::int64_t height = 16, width = 16;
  std::string border = "zero";
  std::int64_t steps = 20, batch = 2, accumulate = 1;
  std::int64_t channels = 8, kernels = 16;
  std::string kernel_gates = "8,4,2", update_gates;  // layers, "256x10,128,64"
  double fire = 1;                                   // the share of cells that take their new state in each step
  double lr = 0.05, weight_decay = 0, beta2 = 0.99, epsilon = 1e-8, clip = 100;
  double pass = 7;             // the logit of pass-through at the start
  double noise = 0;            // deviation of all logits at the start
  std::string look = "alike";  // what kernels see at the start: logic::Look
  double sharpen = 0;          // while the soft loss is low, the sharpness of the softmax grows by this share an update
  double hard = 0;             // share of gates that are hard in an update, drawn anew for each
  double harden = 0.005;       // while the loss is low, the share of gates that are hard grows by this much an update
  std::int64_t restore = 1;    // times that each step's values are drawn towards 0 and 1, as real gates do
  double early = 0;            // share of the loss that is taken after the steps of the second half: converge sooner
  double solved = 0.06;        // what "low" is: the mean squared error
  std::int64_t polish = 50;    // updates between searches for hard gates that work, while the loss is low; 0: never
  std::int64_t tries = 2000;   // of a search
  std::int64_t finish = 0;     // searches in a row that may find nothing, when updates come no nearer
  std::int64_t attempt = 0;    // updates after which a run that comes no nearer begins again, wired anew; 0: never
  std::string memory = "recompute";  // or "keep": all activations of all steps
  std::string dtype = "f32";
  std::string picture;  // of pattern and colour: a PNG; empty: the built-in drawing
};
std::vector<std::string> automaton_tasks();
/// Whether a task is to grow a picture, in its own frame and in so many steps.
bool grows_picture(const std::string& task);
/// The settings of a task: as published by the inventors, or with what makes training succeed more often.
enum class Recipe { published, ours };
AutomatonSettings automaton_recipe(const std::string& task, Recipe recipe = Recipe::ours);
/// Settings without a help text are not for the command line's general list.
const std::vector<NamedField<AutomatonSettings>>& automaton_fields();
Texts to_texts(const AutomatonSettings& settings);
/// Throws an Error that names the setting, the text and what was expected.
void set(AutomatonSettings& settings, const std::string& name, const std::string& text);
/// The settings of a checkpoint of an automaton. An Error says what the file is instead, or where its settings ask for
/// more gates than it has.
AutomatonSettings automaton_settings_of(const SafetensorsHeader& header, const std::string& path);
std::vector<std::int64_t> layer_sizes(const std::string& text);
Border border_of(const AutomatonSettings& settings);

/// What a task trains on: starting states and what they are to become.
class AutomatonTask {
 public:
  explicit AutomatonTask(const AutomatonSettings& settings);
  /// Start [channels, cells] and target [target channels, cells] of the n-th batch of so many grids.
  struct Batch {
    Array start, target;
  };
  Batch batch(std::uint64_t number, std::int64_t grids) const;
  std::int64_t target_channels() const { return target_channels_; }
  /// How many grids show all there is: the 512 boards of Life, one where every start is the same; 0: there is no end.
  std::int64_t all_grids() const;
  /// Every grid there is, where all_grids() says how many.
  Batch all() const;

 private:
  void add_grid(std::vector<float>& start, std::vector<float>& target, std::uint64_t bits, std::int64_t at,
                std::int64_t cells) const;
  AutomatonSettings settings_;
  std::int64_t target_channels_ = 1;
  std::vector<float> picture_;  // [target channels, height * width]
};

struct AutomatonProgress {
  std::int64_t update, updates;
  std::int64_t search, searches_left;  // at the end: it goes on while they find something
  double soft, hard;                   // mean squared error; hard is that of the last look
  double sharpness;                    // what logits are multiplied with
  double hardness;                     // share of gates that are hard already
  double rate, seconds_left;
};

struct AutomatonWatch {
  std::function<bool()> stop;                            // asked after every update
  std::function<void(const AutomatonProgress&)> update;  // every update
  std::function<void(const AutomatonProgress&)> look;    // whenever the hard loss was measured
};

/// A point of the curve: mean squared errors.
struct LossPoint {
  std::int64_t update = 0;
  double soft = 0, hard = 0;
};

/// As logs and charts have it.
report::Point point_of(const LossPoint& point, double seconds = 0);
/// What a checkpoint says of its training.
report::History automaton_history(const std::string& path);

enum class Outcome { exact, not_exact, stopped };

class AutomatonRun {
 public:
  AutomatonRun(const AutomatonSettings& settings, int threads, const PlannedFor& plan = {});
  void load(const std::string& path);
  void save(const std::string& path) const;
  /// Trains until the hard circuit is exact, the updates are used up, or the watch says stop.
  Outcome train(const AutomatonWatch& watch);

  /// Wrong cells of the hard circuit on fresh grids (all there are, where there is an end), and how many were looked
  /// at.
  struct Look {
    double error = 0;  // mean square
    std::int64_t wrong = 0, cells = 0;
  };
  Look look(int batches);

  const AutomatonSettings& settings() const { return settings_; }
  const logic::Automaton& automaton() const { return automaton_; }
  const Step& step() const { return train_; }
  std::int64_t updates_done() const { return done_; }
  std::int64_t searches_done() const { return searched_; }
  std::int64_t restarts() const { return restarts_; }
  double seconds() const { return seconds_; }
  const std::vector<LossPoint>& history() const { return history_; }

 private:
  Tensor rollout(const logic::Automaton::Rule& rule, logic::Mode mode, const Tensor& start, Recompute recompute);
  Tensor rollout_loss(const logic::Automaton::Rule& rule, const Tensor& start, const Tensor& target,
                      Recompute recompute);
  Tensor next_state(const logic::Automaton::Rule& rule, logic::Mode mode, const Tensor& state);
  logic::Automaton::Rule training_rule(const Tensor& sharpness, const Tensor& hardness) const;
  Tensor loss_of(const Tensor& last, const Tensor& target) const;
  void begin();
  std::vector<Spec> specs_of(std::int64_t grids) const;
  void compile_steps();
  double run_update();
  void follow(double error);
  bool is_hopeless() const;
  void begin_again();
  enum class Stage { update, search, again, end };
  Stage next_stage() const;
  AutomatonProgress progress(Stage stage, double rate) const;
  PolishExam::Slopes slopes();
  bool mend(const AutomatonExam& exam, Stage stage);
  bool polish(Stage stage);
  void rewired();
  std::uint64_t search_seed() const { return settings_.seed + static_cast<std::uint64_t>(done_ + searched_); }
  CheckpointStates states() const;

  AutomatonSettings settings_;
  AutomatonTask task_;
  logic::Automaton automaton_;
  std::vector<State> wires_;  // of the update's layers, if they are not those of the seed: [gates, 2]
  std::unique_ptr<optim::AdamW> adam_;
  Random random_;
  int threads_;
  PlannedFor plan_;
  std::vector<State> sums_;  // of gradients, when they are accumulated
  Step train_, apply_, hard_;
  std::optional<Step> slopes_;  // made when it is needed
  std::int64_t done_ = 0, begun_ = 0, restarts_ = 0, looks_ = 0, searched_ = 0, in_vain_ = 0;
  double sharpness_ = 1, hardness_ = 0, recent_ = 0.25, last_hard_ = 1, seconds_ = 0;
  std::vector<LossPoint> history_;
};

/// The automaton of a checkpoint.
struct TrainedAutomaton {
  AutomatonSettings settings;
  logic::Automaton automaton;
  std::vector<LossPoint> history;
};
TrainedAutomaton load_automaton(const std::string& path);

}  // namespace wr::apps
