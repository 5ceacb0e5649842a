// Training and using nets on small grey images: Fashion-MNIST, MNIST, or drawn digits. On the public API alone.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/planned_for.h"
#include "apps/fashion/settings.h"
#include "windrow/data.h"
#include "windrow/nn.h"
#include "windrow/optim.h"
#include "windrow/report.h"
#include "windrow/step.h"

namespace wr::apps {

constexpr std::int64_t kSide = 28, kClasses = 10;

/// Which images there are, and how bytes become what a net sees: x * scale + offset has mean 0 and variance 1.
struct Images {
  data::Dataset train, validation, test;
  float scale = 1, offset = 0;
};
/// Reads settings.data; checks that the images are 28x28 with labels 0 to 9.
data::Split read_images(const std::string& folder);
Images prepare(const data::Split& all, const Settings& settings);

nn::Sequential make_net(const std::string& name);

/// What a net makes of a set of images.
struct Evaluation {
  double loss = 0, accuracy = 0;
  std::array<std::array<std::int64_t, kClasses>, kClasses> confusion{};  // [label][answer]
  std::vector<std::array<float, kClasses>> probabilities;                // of each image
};

/// A net that answers: compiled for batches, sharing its states with whoever trains it.
class Classifier {
 public:
  Classifier(const nn::Sequential& net, float scale, float offset, const CompileOptions& options);
  Evaluation evaluate(const data::Dataset& images);

 private:
  float scale_, offset_;
  Step step_;
};

struct Epoch {
  std::int64_t number = 0;
  double loss = 0, accuracy = 0;
  std::optional<double> validation_loss, validation_accuracy;
  double seconds = 0;  // since the run began, without pauses between sessions
  double rate = 0;     // images a second while training
};

struct Progress {
  std::int64_t epoch, epochs, step, steps;  // counted from 1; steps of this epoch
  double loss, accuracy;                    // of this epoch so far
  double rate, seconds_left;
};

/// As logs and charts have it.
report::Point point_of(const Epoch& epoch);
report::History history_of(const std::vector<Epoch>& epochs);
/// What a checkpoint says of its training.
report::History fashion_history(const std::string& path);

/// Who watches a run. Each may be empty.
struct Watch {
  std::function<bool()> stop;  // asked after every step
  std::function<void(const Progress&)> step;
  std::function<void(const Epoch&)> epoch;
};

/// One training run, from its settings or from a checkpoint.
class TrainingRun {
 public:
  TrainingRun(const Settings& settings, const data::Split& all, int threads, const PlannedFor& plan = {});
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  /// Goes on where a checkpoint stopped. `lr`: unless it is to be the checkpoint's.
  void load(const std::string& path, std::optional<double> lr = {});
  void save(const std::string& path) const;
  /// True when all epochs are done, false when the watch said stop.
  bool train(const Watch& watch);
  Evaluation test() { return classifier_->evaluate(images_.test); }

  const Settings& settings() const { return settings_; }
  const Images& images() const { return images_; }
  const nn::Sequential& net() const { return net_; }
  const Step& step() const { return *step_; }
  const std::vector<Epoch>& history() const { return history_; }
  std::int64_t steps_done() const { return done_; }
  double seconds() const { return seconds_; }

 private:
  void end_epoch();
  Step make_step(int threads, const PlannedFor& plan);
  void run_step();
  CheckpointStates states() const;
  Metadata metadata() const;

  Settings settings_;
  Images images_;
  nn::Sequential net_;
  std::unique_ptr<optim::Optimiser> optimiser_;
  std::optional<Step> step_;
  std::optional<Classifier> classifier_;
  std::optional<data::Loader> loader_;
  std::int64_t steps_per_epoch_ = 0, done_ = 0;
  double loss_sum_ = 0, right_ = 0, epoch_seconds_ = 0;  // over the images of the epoch so far
  double seconds_ = 0;
  std::vector<Epoch> history_;
};

/// The net of a checkpoint, ready to answer.
struct Trained {
  Settings settings;
  std::vector<std::string> classes;
  std::string data_name;
  Classifier classifier;
};
Trained load_trained(const std::string& path, int threads);
/// The name of a class: the data's, else its number.
std::string class_name(const std::vector<std::string>& classes, std::size_t label);

}  // namespace wr::apps
