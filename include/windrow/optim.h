// Optimisers: each adds its update to the step being traced, so that it runs in the same plan as the gradients.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "windrow/tensor.h"

namespace wr::optim {

/// What the optimisers share: from loss to gradients to updates.
class Optimiser {
 public:
  virtual ~Optimiser() = default;
  /// In a trace: differentiates the loss by the parameters and updates them.
  void minimize(const Tensor& loss, const std::vector<State>& parameters, WINDROW_WHERE);
  /// In a trace: updates the parameters by gradients the caller has (clipped, say).
  virtual void apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, WINDROW_WHERE) = 0;
  /// Moments and counters, by name, to be saved with the parameters.
  virtual std::vector<State> states() const = 0;
};

class Sgd : public Optimiser {
 public:
  struct Options {
    double lr = 1e-2;
  };
  explicit Sgd(const Options& options) : lr_(Array::scalar(static_cast<float>(options.lr)), "sgd lr") {}
  void apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, WINDROW_WHERE) override;
  std::vector<State> states() const override { return {lr_}; }
  /// Takes effect with the next run, without compiling again.
  void set_lr(double lr) { lr_.set(Array::scalar(static_cast<float>(lr))); }

 private:
  State lr_;
};

class Adam : public Optimiser {
 public:
  struct Options {
    double lr = 1e-3;
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  };
  explicit Adam(const Options& options);
  Adam() : Adam(Options{}) {}
  void apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, WINDROW_WHERE) override;
  std::vector<State> states() const override;
  void set_lr(double lr) { lr_.set(Array::scalar(lr)); }

 private:
  struct Moments {
    State parameter, mean, square;
  };
  Moments& moments_of(const State& parameter);
  Options options_;
  State lr_, steps_;  // f64: 1 - beta2^t needs the digits
  std::vector<Moments> moments_;
};

}  // namespace wr::optim
