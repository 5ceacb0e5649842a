#include "apps/fashion/fashion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "windrow/clock.h"
#include "windrow/error.h"
#include "windrow/losses.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

constexpr std::int64_t kEvalBatch = 200;

void check(const data::Dataset& set, const char* part) {
  if (set.x.dtype() != DType::u8 || set.x.rank() != 3 || set.x.size(1) != kSide || set.x.size(2) != kSide) {
    throw Error(fmt::format("{}: the {} images are {}; the nets are for u8[n,28,28]", set.name, part,
                            to_string(Spec{set.x.dtype(), set.x.shape()})));
  }
  if (set.count() == 0) throw Error(fmt::format("{}: there are no {} images", set.name, part));
  const Array labels = set.y.contiguous();
  const std::int32_t* y = labels.data<std::int32_t>();
  for (std::int64_t i = 0; i < labels.count(); ++i) {
    if (y[i] < 0 || y[i] >= kClasses)
      throw Error(fmt::format("{}: label {} of the {} images is {}; expected 0 to 9", set.name, i, part, y[i]));
  }
}

/// So that x * scale + offset has mean 0 and variance 1 over the training images.
void standardise(Images& images) {
  const Array pixels = images.train.x.contiguous();
  const std::uint8_t* p = pixels.data<std::uint8_t>();
  double sum = 0, squares = 0;
  const auto n = static_cast<double>(pixels.count());
  for (std::int64_t i = 0; i < pixels.count(); ++i) {
    sum += p[i];
    squares += double(p[i]) * p[i];
  }
  const double mean = sum / n, deviation = std::sqrt(std::max(squares / n - mean * mean, 1.0));
  images.scale = static_cast<float>(1 / deviation);
  images.offset = static_cast<float>(-mean / deviation);
}

optim::Schedule make_schedule(const Settings& s, double updates) {
  if (s.schedule == "cosine") return optim::schedule::cosine(updates);
  if (s.schedule == "one-cycle") return optim::schedule::one_cycle(updates, 0.25, 10, 100);
  return {};
}

std::unique_ptr<optim::Optimiser> make_optimiser(const Settings& s, double updates) {
  const optim::Schedule schedule = make_schedule(s, updates);
  const double decay = s.weight_decay;
  if (s.optim == "sgd") {
    return std::make_unique<optim::Sgd>(optim::Sgd::Options{
        .lr = s.lr, .momentum = 0.9, .nesterov = true, .weight_decay = decay, .schedule = schedule});
  }
  if (s.optim == "rmsprop") {
    return std::make_unique<optim::RmsProp>(
        optim::RmsProp::Options{.lr = s.lr, .weight_decay = decay, .schedule = schedule});
  }
  const optim::Adam::Options options{.lr = s.lr, .weight_decay = decay, .schedule = schedule};
  if (s.optim == "adamw") return std::make_unique<optim::AdamW>(options);
  return std::make_unique<optim::Adam>(options);
}

data::LoaderOptions loader_options(const Settings& s, float scale, float offset) {
  data::LoaderOptions o;
  o.batch = s.batch;
  o.seed = s.seed;
  o.scale = scale;
  o.offset = offset;
  o.rest = data::LoaderOptions::Rest::keep;
  o.example = {kSide, kSide, 1};
  o.augment = {.shift = static_cast<int>(s.shift), .flip = s.flip, .noise = static_cast<float>(s.noise)};
  return o;
}

}  // namespace

data::Split read_images(const std::string& folder) {
  data::Split all = data::load_images(folder);
  check(all.train, "training");
  check(all.test, "test");
  return all;
}

Images prepare(const data::Split& all, const Settings& settings) {
  // The split does not depend on the run's seed: runs with different seeds are compared on the same images.
  data::Split parts = data::split(all.train, settings.validation, 0);
  Images images{std::move(parts.train), std::move(parts.test), all.test};
  if (images.train.count() < settings.batch) {
    throw Error(fmt::format("batch is {}, but there are only {} training images ({} are put aside for validation)",
                            settings.batch, images.train.count(), images.validation.count()));
  }
  standardise(images);
  return images;
}

// ---- answering ----

Classifier::Classifier(const nn::Sequential& net, float scale, float offset, const CompileOptions& options)
    : scale_(scale),
      offset_(offset),
      step_(compile(
          options,
          [net](const Tensor& x, const Tensor& y) {
            const Tensor logits = net(x, nn::Mode::eval);
            const Tensor losses = loss::cross_entropy(logits, y, {.reduction = loss::Reduction::none});
            return std::vector<Tensor>{losses, softmax(logits)};
          },
          f32(any('b'), kSide, kSide, 1), i32(any('b')))) {}

Evaluation Classifier::evaluate(const data::Dataset& images) {
  Evaluation result;
  if (images.count() == 0) return result;
  Settings plain;
  plain.batch = kEvalBatch;
  data::LoaderOptions options = loader_options(plain, scale_, offset_);
  options.shuffle = false;
  data::Loader loader(images, options);
  std::int64_t right = 0;
  result.probabilities.reserve(static_cast<std::size_t>(images.count()));
  for (data::Batch& batch : loader) {
    const auto outputs = step_(batch.x, batch.y);
    const float* losses = outputs[0].data<float>();
    const float* p = outputs[1].data<float>();
    const std::int32_t* labels = batch.y.data<std::int32_t>();
    for (std::int64_t i = 0; i < batch.count; ++i, p += kClasses) {
      auto& row = result.probabilities.emplace_back();
      std::copy_n(p, kClasses, row.begin());
      const auto answer = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      const auto label = static_cast<std::size_t>(labels[i]);
      ++result.confusion[label][answer];
      right += answer == label;
      result.loss += losses[i];
    }
  }
  const auto count = static_cast<double>(images.count());
  result.loss /= count;
  result.accuracy = static_cast<double>(right) / count;
  return result;
}

// ---- training ----

TrainingRun::TrainingRun(const Settings& settings, const data::Split& all, int threads, const PlannedFor& plan)
    : settings_(settings), images_(prepare(all, settings)) {
  nn::seed(settings_.seed);
  net_ = make_net(settings_.net);
  loader_.emplace(images_.train, loader_options(settings_, images_.scale, images_.offset));
  steps_per_epoch_ = loader_->batches_per_epoch();
  optimiser_ = make_optimiser(settings_, static_cast<double>(settings_.epochs * steps_per_epoch_));
  step_.emplace(make_step(threads, plan));
  // Its last batch may be a short one, whose plan has as many lanes as the others': a checkpoint names one number.
  if (plan.lanes == 0) {
    PlannedFor all_plans = plan;
    all_plans.lanes = step_->facts().lanes;
    step_.emplace(make_step(threads, all_plans));
  }
  classifier_.emplace(net_, images_.scale, images_.offset, compile_options("eval " + settings_.net, threads, plan));
}

Step TrainingRun::make_step(int threads, const PlannedFor& plan) {
  const auto traced = [net = net_, optimiser = optimiser_.get(), smoothing = settings_.smoothing](const Tensor& x,
                                                                                                  const Tensor& y) {
    const Tensor logits = net(x);
    const Tensor loss = loss::cross_entropy(logits, y, {.label_smoothing = smoothing});
    optimiser->minimize(loss, net.parameters());
    const Tensor right = sum(cast(eq(argmax(logits, 1), y), DType::f32));
    return std::pair{loss, right};
  };
  Step step = compile(compile_options("train " + settings_.net, threads, plan), traced, f32(any('b'), kSide, kSide, 1),
                      i32(any('b')));
  step.prepare({f32(settings_.batch, kSide, kSide, 1), i32(settings_.batch)});
  return step;
}

void TrainingRun::run_step() {
  const double start = seconds_now();
  const data::Batch& batch = loader_->next();
  const auto results = (*step_)(batch.x, batch.y);
  const double loss = results[0].item<float>();
  if (!std::isfinite(loss)) {
    throw Error(fmt::format("the loss is {} at step {} (epoch {}): a smaller --lr than {} may help", text::shown(loss),
                            done_ + 1, done_ / steps_per_epoch_ + 1, settings_.lr));
  }
  loss_sum_ += loss * static_cast<double>(batch.count);
  right_ += results[1].item<float>();
  ++done_;
  epoch_seconds_ += seconds_now() - start;
}

void TrainingRun::end_epoch() {
  const auto count = static_cast<double>(images_.train.count());
  Epoch epoch;
  epoch.number = done_ / steps_per_epoch_;
  epoch.loss = loss_sum_ / count;
  epoch.accuracy = right_ / count;
  epoch.rate = count / std::max(epoch_seconds_, 1e-9);
  if (images_.validation.count() > 0) {
    const Evaluation check = classifier_->evaluate(images_.validation);
    epoch.validation_loss = check.loss;
    epoch.validation_accuracy = check.accuracy;
  }
  history_.push_back(epoch);
  loss_sum_ = right_ = epoch_seconds_ = 0;
}

bool TrainingRun::train(const Watch& watch) {
  const std::int64_t total = settings_.epochs * steps_per_epoch_, first = done_;
  const double start = seconds_now(), before = seconds_;
  while (done_ < total) {
    run_step();
    seconds_ = before + seconds_now() - start;
    if (watch.step) {
      const std::int64_t in_epoch = (done_ - 1) % steps_per_epoch_ + 1;
      const double each = (seconds_now() - start) / static_cast<double>(done_ - first);
      const auto images = static_cast<double>(std::min(in_epoch * settings_.batch, images_.train.count()));
      watch.step({(done_ - 1) / steps_per_epoch_ + 1, settings_.epochs, in_epoch, steps_per_epoch_, loss_sum_ / images,
                  right_ / images, images / std::max(epoch_seconds_, 1e-9), each * static_cast<double>(total - done_)});
    }
    if (done_ % steps_per_epoch_ == 0) {
      end_epoch();
      seconds_ = before + seconds_now() - start;
      history_.back().seconds = seconds_;
      if (watch.epoch) watch.epoch(history_.back());
    }
    if (done_ < total && watch.stop && watch.stop()) return false;
  }
  return true;
}

CheckpointStates TrainingRun::states() const {
  CheckpointStates all;
  all.add_group("model", net_.states());
  all.add_group("optimiser", optimiser_->states());
  return all;
}

}  // namespace wr::apps
