// Optimisers as compositions of ops.
#include "windrow/optim.h"

namespace wr::optim {

void Optimiser::minimize(const Tensor& loss, const std::vector<State>& parameters, std::source_location where) {
  const std::vector<Tensor> wrt(parameters.begin(), parameters.end());
  apply(parameters, grad(loss, wrt, where), where);
}

namespace {

void expect_pairs(const char* name, const std::vector<State>& parameters, const std::vector<Tensor>& gradients,
                  const std::source_location& where) {
  if (parameters.size() != gradients.size())
    fail(where, std::string(name) + ": " + std::to_string(parameters.size()) + " parameters but " + std::to_string(gradients.size()) + " gradients");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!(parameters[i].spec() == gradients[i].spec()))
      fail(where, std::string(name) + ": parameter " + std::to_string(i) + " is " + to_string(parameters[i].spec()) + ", its gradient " +
                      to_string(gradients[i].spec()));
}

Tensor like(const Tensor& scalar, const Tensor& parameter, const std::source_location& where) {
  return reshape(cast(scalar, parameter.dtype(), where), Shape(parameter.rank(), 1), where);
}

}  // namespace

void Sgd::apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, std::source_location where) {
  expect_pairs("sgd", parameters, gradients, where);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor p(parameters[i]);
    parameters[i].assign(sub(Operand(p, where), mul(Operand(like(lr_, p, where), where), gradients[i])), where);
  }
}

Adam::Adam(const Options& options)
    : options_(options), lr_(Array::scalar(options.lr), "adam lr"), steps_(Array::scalar(0.0), "adam steps") {}

Adam::Moments& Adam::moments_of(const State& parameter) {
  for (Moments& m : moments_)
    if (m.parameter.variable() == parameter.variable()) return m;
  const Array zeros = Array::zeros(parameter.shape(), parameter.spec().dtype);
  moments_.push_back({parameter, State(zeros, parameter.name() + ".mean"), State(zeros, parameter.name() + ".square")});
  return moments_.back();
}

std::vector<State> Adam::states() const {
  std::vector<State> all{lr_, steps_};
  for (const Moments& m : moments_) {
    all.push_back(m.mean);
    all.push_back(m.square);
  }
  return all;
}

void Adam::apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, std::source_location where) {
  expect_pairs("adam", parameters, gradients, where);
  const Tensor t = add(Operand(Tensor(steps_), where), 1);
  steps_.assign(t, where);
  // The corrections of both moments go into the rate and epsilon: lr sqrt(c2) / c1, epsilon sqrt(c2).
  auto correction = [&](double beta) { return sub(Operand(1.0, where), pow(Operand(beta, where), t)); };
  const Tensor root = sqrt(correction(options_.beta2), where);
  const Tensor rate = mul(Operand(Tensor(lr_), where), div(Operand(root, where), correction(options_.beta1)));
  const Tensor epsilon = mul(Operand(root, where), options_.epsilon);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Moments& m = moments_of(parameters[i]);
    const Tensor p(parameters[i]), g = gradients[i];
    const Tensor mean = lerp(Operand(Tensor(m.mean), where), g, 1 - options_.beta1);
    const Tensor square = lerp_square(Operand(Tensor(m.square), where), g, 1 - options_.beta2);
    m.mean.assign(mean, where);
    m.square.assign(square, where);
    parameters[i].assign(adam_step(Operand(p, where), mean, square, like(rate, p, where), like(epsilon, p, where)), where);
  }
}

}  // namespace wr::optim
