// Optimisers: each adds its update to the step being traced, so that it runs in the same plan as the gradients. What an
// option means is what it means in PyTorch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "windrow/tensor.h"

namespace wr::optim {

/// What the learning rate is multiplied with, as a function of the number of updates made so far (f64, from 0). It is
/// traced: the plan computes it from the optimiser's counter, so nobody has to call anything between steps.
using Schedule = std::function<Tensor(const Tensor& updates)>;

namespace schedule {
Schedule constant(double factor = 1);
/// Times gamma after every so many updates.
Schedule step(double every, double gamma = 0.1);
/// From 1 down to `floor` along half a cosine, `floor` from then on.
Schedule cosine(double total, double floor = 0);
/// Linear from `start` to 1 in so many updates; then another schedule, which counts from there.
Schedule warm_up(double updates, Schedule then = {}, double start = 0);
/// PyTorch's OneCycleLR: from 1 / divide up to 1 in the first `rise` of the updates, then down to
/// 1 / (divide * final_divide), each along half a cosine. The optimiser's lr is the highest one.
Schedule one_cycle(double total, double rise = 0.3, double divide = 25, double final_divide = 1e4);
}  // namespace schedule

/// Limits of the gradients; 0 for none. With both, values are limited first.
struct Clip {
  double value = 0;  // each element to [-value, value]
  double norm = 0;   // all gradients scaled down together until their common 2-norm is at most this
};
/// The 2-norm of all of them together.
Tensor global_norm(const std::vector<Tensor>& gradients, WINDROW_WHERE);
std::vector<Tensor> clip_by_value(const std::vector<Tensor>& gradients, double limit, WINDROW_WHERE);
std::vector<Tensor> clip_by_norm(const std::vector<Tensor>& gradients, double limit, WINDROW_WHERE);

/// Parameters with settings of their own; what is left out is as in the optimiser's options.
struct Group {
  std::vector<State> parameters;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// What the optimisers share: from loss to gradients to clipping to updates.
class Optimiser {
 public:
  virtual ~Optimiser() = default;
  /// In a trace: differentiates the loss by the parameters and updates them. Once a trace, as it is one update; several
  /// steps may share an optimiser, its moments and its count.
  void minimize(const Tensor& loss, const std::vector<State>& parameters, WINDROW_WHERE);
  /// The same with allow_unused: parameters that no gradient reaches are updated with a gradient of 0.
  void minimize(const Tensor& loss, const std::vector<State>& parameters, Unused unused, WINDROW_WHERE);
  /// In a trace: updates the parameters by gradients the caller has. They are clipped as the options say.
  void apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, WINDROW_WHERE);
  /// Before the trace. Returns the group's number, for set_lr; group 0 is every parameter in no other one.
  int add_group(const Group& group, WINDROW_WHERE);
  /// Takes effect with the next run, without compiling again.
  void set_lr(double lr, int group = 0, WINDROW_WHERE);
  /// Rates, counter and moments, named "adam.step", "adam.mean.0.w": to be saved with the parameters. Moments are made
  /// when the step is traced, so that asking before is refused: by compile(), or, where sizes are open, by the first
  /// run or prepare().
  std::vector<State> states(WINDROW_WHERE) const;

 protected:
  struct Common {
    double lr = 0, weight_decay = 0;
    Clip clip;
    Schedule schedule;
  };
  Optimiser(std::string name, const Common& common);

  /// One parameter's update, being traced.
  struct Slot {
    const State& parameter;
    Tensor gradient;
    Tensor lr;     // f64[]: the group's, scheduled
    Tensor count;  // f64[]: updates including this one
    double weight_decay;
    Location where;
  };
  virtual void update(const Slot& slot) = 0;

  /// The parameter's own memory of a kind ("mean"), zeros at first.
  State memory(const State& parameter, const std::string& kind);
  /// gradient + weight_decay * parameter
  static Tensor decayed_gradient(const Slot& slot);
  /// A scalar as the parameter's type and rank have it.
  static Tensor like(const Tensor& scalar, const Slot& slot);

 private:
  struct Members {
    std::vector<State> parameters;
    State lr;  // f64
    double weight_decay;
  };
  struct Memory {
    State parameter;
    std::string kind;
    State state;
  };
  const Members& group_of(const State& parameter) const;
  void expect_trace(const char* what, Location where) const;

  std::string name_;
  Clip clip_;
  Schedule schedule_;
  State count_;  // f64: 1 - beta2^t needs the digits
  std::vector<Members> groups_;
  std::vector<Memory> memories_;
  bool traced_ = false;
  std::weak_ptr<ir::Graph> applied_in_;  // the trace it was last part of
};

/// Stochastic gradient descent. v = momentum v + g; p -= lr v, or with Nesterov p -= lr (g + momentum v).
class Sgd : public Optimiser {
 public:
  struct Options {
    double lr = 1e-2;
    double momentum = 0;
    bool nesterov = false;
    double weight_decay = 0;
    Clip clip = {};
    Schedule schedule = {};
  };
  explicit Sgd(const Options& options, WINDROW_WHERE);
  Sgd() : Sgd(Options{}) {}

 private:
  void update(const Slot& slot) override;
  Options options_;
};

/// m, v: running means of g and g^2. p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
class Adam : public Optimiser {
 public:
  struct Options {
    double lr = 1e-3;
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    double weight_decay = 0;  // added to the gradient; AdamW's shrinks the parameter
    Clip clip = {};
    Schedule schedule = {};
  };
  explicit Adam(const Options& options, WINDROW_WHERE);
  Adam() : Adam(Options{}) {}

 protected:
  enum class Decay { in_gradient, of_parameter };
  Adam(const std::string& name, const Options& options, Decay decay, Location where);

 private:
  void update(const Slot& slot) override;
  Options options_;
  Decay decay_;
};

/// Adam with decoupled weight decay: first p *= 1 - lr weight_decay.
class AdamW : public Adam {
 public:
  /// As Adam's options; its default decay, when made from none, is 0.01.
  explicit AdamW(const Options& options, WINDROW_WHERE);
  AdamW() : AdamW(Options{.weight_decay = 1e-2}) {}
};

/// Adam for tables that are looked up (gather along axis 0, embedding_sum) and for nothing else, as PyTorch has it:
/// entries that were not looked up keep their value and both means, and epsilon is added to an uncorrected sqrt(v).
class SparseAdam : public Optimiser {
 public:
  struct Options {
    double lr = 1e-3;
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    Schedule schedule = {};
  };
  explicit SparseAdam(const Options& options, WINDROW_WHERE);
  SparseAdam() : SparseAdam(Options{}) {}

 private:
  void update(const Slot& slot) override;
  Options options_;
};

/// v: running mean of g^2. p -= lr g / (sqrt(v) + epsilon); centred: v less the square of g's running mean.
class RmsProp : public Optimiser {
 public:
  struct Options {
    double lr = 1e-2;
    double alpha = 0.99, epsilon = 1e-8;
    double momentum = 0;
    bool centred = false;
    double weight_decay = 0;
    Clip clip = {};
    Schedule schedule = {};
  };
  explicit RmsProp(const Options& options, WINDROW_WHERE);
  RmsProp() : RmsProp(Options{}) {}

 private:
  void update(const Slot& slot) override;
  Options options_;
};

}  // namespace wr::optim
