// The optimisers' update rules, as compositions of ops. Each follows PyTorch's where epsilon goes and what is
// corrected.
#include "windrow/optim.h"

namespace wr::optim {
namespace {

void expect_from_0_to_1(const std::string& name, const char* what, double value, Location where) {
  if (!(value >= 0 && value < 1))
    fail(where, name + ": " + what + " must be at least 0 and less than 1, is " + std::to_string(value));
}

void expect_not_negative(const std::string& name, const char* what, double value, Location where) {
  if (!(value >= 0)) fail(where, name + ": " + what + " must not be negative, is " + std::to_string(value));
}

template <class Options>
void expect_common(const std::string& name, const Options& options, Location where) {
  expect_not_negative(name, "lr", options.lr, where);
  expect_not_negative(name, "weight_decay", options.weight_decay, where);
  expect_not_negative(name, "clip.value", options.clip.value, where);
  expect_not_negative(name, "clip.norm", options.clip.norm, where);
}

}  // namespace

Sgd::Sgd(const Options& options, Location where)
    : Optimiser("sgd", {options.lr, options.weight_decay, options.clip, options.schedule}), options_(options) {
  expect_common("sgd", options, where);
  expect_from_0_to_1("sgd", "momentum", options.momentum, where);
  if (options.nesterov && options.momentum == 0) fail(where, "sgd: nesterov needs a momentum");
}

void Sgd::update(const Slot& slot) {
  Location where = slot.where;
  const Tensor p(slot.parameter, where), g = decayed_gradient(slot);
  Tensor direction = g;
  if (options_.momentum != 0) {
    const State velocity = memory(slot.parameter, "velocity");
    const Tensor v = muladd(Operand(Tensor(velocity, where), where), options_.momentum, g);
    velocity.assign(v, where);
    direction = options_.nesterov ? muladd(Operand(v, where), options_.momentum, g) : v;
  }
  slot.parameter.assign(Operand(p, where) - Operand(like(slot.lr, slot), where) * direction, where);
}

Adam::Adam(const std::string& name, const Options& options, Decay decay, Location where)
    : Optimiser(name, {options.lr, options.weight_decay, options.clip, options.schedule}),
      options_(options),
      decay_(decay) {
  expect_common(name, options, where);
  expect_from_0_to_1(name, "beta1", options.beta1, where);
  expect_from_0_to_1(name, "beta2", options.beta2, where);
  expect_not_negative(name, "epsilon", options.epsilon, where);
}

Adam::Adam(const Options& options, Location where) : Adam("adam", options, Decay::in_gradient, where) {}
AdamW::AdamW(const Options& options, Location where) : Adam("adamw", options, Decay::of_parameter, where) {}

void Adam::update(const Slot& slot) {
  Location where = slot.where;
  // The corrections of both moments go into the rate and epsilon: lr sqrt(c2) / c1, epsilon sqrt(c2).
  const auto correction = [&](double beta) { return Operand(1.0, where) - pow(Operand(beta, where), slot.count); };
  const Tensor root = sqrt(correction(options_.beta2), where);
  const Tensor rate = Operand(slot.lr, where) * (Operand(root, where) / correction(options_.beta1));
  const Tensor epsilon = Operand(root, where) * options_.epsilon;

  Tensor p(slot.parameter, where), g = slot.gradient;
  if (slot.weight_decay != 0 && decay_ == Decay::in_gradient) g = decayed_gradient(slot);
  if (slot.weight_decay != 0 && decay_ == Decay::of_parameter) {
    const Tensor keep = Operand(1.0, where) - Operand(slot.lr, where) * slot.weight_decay;
    p = Operand(p, where) * like(keep, slot);
  }
  const State mean_state = memory(slot.parameter, "mean"), square_state = memory(slot.parameter, "square");
  const Tensor mean = lerp(Operand(Tensor(mean_state, where), where), g, 1 - options_.beta1);
  const Tensor square = lerp_square(Operand(Tensor(square_state, where), where), g, 1 - options_.beta2);
  mean_state.assign(mean, where);
  square_state.assign(square, where);
  slot.parameter.assign(adam_step(Operand(p, where), mean, square, like(rate, slot), like(epsilon, slot)), where);
}

SparseAdam::SparseAdam(const Options& options, Location where)
    : Optimiser("sparse_adam", {options.lr, 0, {}, options.schedule}), options_(options) {
  expect_not_negative("sparse_adam", "lr", options.lr, where);
  expect_from_0_to_1("sparse_adam", "beta1", options.beta1, where);
  expect_from_0_to_1("sparse_adam", "beta2", options.beta2, where);
  expect_not_negative("sparse_adam", "epsilon", options.epsilon, where);
}

void SparseAdam::update(const Slot& slot) {
  Location where = slot.where;
  const auto correction = [&](double beta) { return Operand(1.0, where) - pow(Operand(beta, where), slot.count); };
  const Tensor rate =
      Operand(slot.lr, where) * (Operand(sqrt(correction(options_.beta2), where), where) / correction(options_.beta1));
  const State mean = memory(slot.parameter, "mean"), square = memory(slot.parameter, "square");
  const Tensor epsilon = full({1, 1}, options_.epsilon, slot.gradient.dtype(), where);
  const SparseAdamStep made =
      sparse_adam_step(Tensor(slot.parameter, where), Tensor(mean, where), Tensor(square, where), slot.gradient,
                       like(rate, slot), epsilon, 1 - options_.beta1, 1 - options_.beta2, where);
  slot.parameter.assign(made.parameter, where);
  mean.assign(made.mean, where);
  square.assign(made.square, where);
}

RmsProp::RmsProp(const Options& options, Location where)
    : Optimiser("rmsprop", {options.lr, options.weight_decay, options.clip, options.schedule}), options_(options) {
  expect_common("rmsprop", options, where);
  expect_from_0_to_1("rmsprop", "alpha", options.alpha, where);
  expect_from_0_to_1("rmsprop", "momentum", options.momentum, where);
  expect_not_negative("rmsprop", "epsilon", options.epsilon, where);
}

void RmsProp::update(const Slot& slot) {
  Location where = slot.where;
  const Tensor p(slot.parameter, where), g = decayed_gradient(slot);
  const State square_state = memory(slot.parameter, "square");
  const Tensor square = lerp_square(Operand(Tensor(square_state, where), where), g, 1 - options_.alpha);
  square_state.assign(square, where);
  Tensor spread = square;
  if (options_.centred) {
    const State mean_state = memory(slot.parameter, "mean");
    const Tensor mean = lerp(Operand(Tensor(mean_state, where), where), g, 1 - options_.alpha);
    mean_state.assign(mean, where);
    spread = Operand(square, where) - wr::square(mean, where);
  }
  const Tensor lr = like(slot.lr, slot);
  if (options_.momentum == 0) {
    slot.parameter.assign(adam_step(Operand(p, where), g, spread, lr, options_.epsilon), where);
    return;
  }
  const State velocity = memory(slot.parameter, "velocity");
  const Tensor scaled = Operand(g, where) / (Operand(sqrt(spread, where), where) + options_.epsilon);
  const Tensor v = muladd(Operand(Tensor(velocity, where), where), options_.momentum, scaled);
  velocity.assign(v, where);
  slot.parameter.assign(Operand(p, where) - Operand(lr, where) * v, where);
}

}  // namespace wr::optim
