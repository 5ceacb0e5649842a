// Learners: their compiled steps.
#include <fmt/format.h>

#include "windrow/checkpoint.h"
#include "windrow/error.h"
#include "windrow/losses.h"
#include "windrow/rl.h"

namespace wr::rl {
namespace {

CompileOptions named(CompileOptions options, const char* what) {
  options.name = options.name.empty() ? what : options.name + " " + what;
  return options;
}

/// Starts as a copy.
void copy_values(const Net& from, const Net& to) {
  const auto a = from.states(), b = to.states();
  for (std::size_t i = 0; i < a.size(); ++i) State(b[i]).set(a[i].value());
}

/// target += tau (online - target)
Step sync_step(const Net& online, const Net& target, double tau, const CompileOptions& options) {
  return compile(options, [&] {
    const auto from = online.parameters(), to = target.parameters();
    for (std::size_t i = 0; i < from.size(); ++i)
      to[i].assign(tau == 1 ? Tensor(from[i]) : Operand(to[i]) + tau * (Operand(from[i]) - to[i]));
  });
}

Tensor error_cost(const Tensor& prediction, const Tensor& target, double delta) {
  if (delta > 0) return huber(prediction, target, delta);
  const Tensor d = prediction - target;
  return 0.5 * d * d;
}

/// How far the best right action's value is from leading every wrong one by `margin`; 0 for rows with no right action.
Tensor margin_cost(const Tensor& q, const Tensor& right, double margin) {
  const Tensor is_right = right > 0.5;
  const Tensor best = max(where(is_right, q, -1e9), 1, Keep::yes);
  const Tensor rival = max(where(is_right, -1e9, q + margin), 1, Keep::yes);
  return where(best > -1e8, relu(rival - best), 0.0);
}

Tensor value_loss(const Tensor& outputs, const Tensor& y, double delta) {
  const std::int64_t n = outputs.shape().back();
  if (n == 1) return mean(error_cost(outputs, y, delta));
  const Tensor shares = relu(1.0 - abs(y - iota({1, n}, 1, DType::f32)));
  return loss::cross_entropy(outputs, shares);
}

std::span<const float> floats(const Array& a) { return {a.data<float>(), static_cast<std::size_t>(a.count())}; }

}  // namespace

// ---- deep Q-learning ----

Dqn::Dqn(const NetOptions& net, const DqnOptions& options, const CompileOptions& compile_options)
    : options_(options),
      online_(net),
      target_(net),
      adam_(std::make_unique<optim::Adam>(optim::Adam::Options{.lr = options.lr, .clip = {.norm = options.clip}})) {
  copy_values(online_, target_);
  const std::int64_t n = options.batch;
  const Spec input = net.input.spec(n), acting = net.input.spec(options.acting);
  batch_ = {Array::zeros(input.shape, input.dtype),
            Array::zeros(input.shape, input.dtype),
            Array::zeros({n, 1}, DType::i32),
            Array::zeros({n, 1}),
            Array::zeros({n, 1}),
            Array::ones({n, 1}),
            Array::zeros({n, net.outputs})};
  acting_ = Array::zeros(acting.shape, acting.dtype);
  train_ = compile(
      named(compile_options, "train"),
      [&](const Tensor& from, const Tensor& to, const Tensor& action, const Tensor& reward, const Tensor& discount,
          const Tensor& weight, const Tensor& right) {
        const Tensor all = online_(from), q = take_along(all, action, 1);
        const Tensor next = target_(to, nn::Mode::eval);
        const Tensor worth = options.double_q ? take_along(next, argmax(online_(to, nn::Mode::eval), 1, Keep::yes), 1)
                                              : max(next, 1, Keep::yes);
        const Tensor bounded = minimum(maximum(worth, options.least), options.greatest);
        const Tensor y = stop_gradient(reward + discount * bounded);
        Tensor loss = mean(error_cost(q, y, options.huber) * weight);
        if (options.margin > 0) loss = loss + mean(margin_cost(all, right, options.margin));
        adam_->minimize(loss, online_.parameters());
        return std::pair{loss, abs(q - y)};
      },
      input, input, i32(n, 1), f32(n, 1), f32(n, 1), f32(n, 1), f32(n, net.outputs));
  act_ = compile(
      named(compile_options, "act"), [&](const Tensor& x) { return online_(x); }, acting);
  sync_ = sync_step(online_, target_, options.tau, named(compile_options, "sync"));
}

Dqn::Trained Dqn::train() {
  const auto results =
      train_(batch_.from, batch_.to, batch_.action, batch_.reward, batch_.discount, batch_.weight, batch_.right);
  return {results[0].item<float>(), floats(results[1])};
}

void Dqn::sync() { sync_(); }

void Dqn::copy_to_target() { copy_values(online_, target_); }

std::span<const float> Dqn::act() { return floats(act_(acting_)[0]); }

void Dqn::add_to(CheckpointStates& states) const {
  states.add_group("model", online_.states());
  states.add_group("target", target_.states());
  states.add_group("optimiser", adam_->states());
}

Pretrainer::Pretrainer(const Net& net, const PretrainOptions& options, const CompileOptions& compile_options)
    : adam_(std::make_unique<optim::Adam>(optim::Adam::Options{.lr = options.lr, .schedule = options.schedule})) {
  const Spec input = net.options().input.spec(options.batch);
  input_ = Array::zeros(input.shape, input.dtype);
  target_ = Array::zeros({options.batch, net.options().outputs});
  train_ = compile(
      named(compile_options, "pretrain"),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor q = net(x);
        Tensor loss;
        if (options.target == PretrainOptions::Target::values) {
          loss = loss::mse(q, y);
        } else {
          const Tensor logits = q * (1 / options.temperature);
          const Tensor right = where(y > 0.5, logits, -1e9);
          loss = mean(logsumexp(logits, 1) - logsumexp(right, 1));
        }
        adam_->minimize(loss, net.parameters());
        return loss;
      },
      input, f32(options.batch, net.options().outputs));
}

float Pretrainer::train() { return train_(input_, target_); }

// ---- values ----

Tensor value_of(const Tensor& outputs) {
  const std::int64_t n = outputs.shape().back();
  if (n == 1) return outputs;
  return sum(softmax(outputs) * iota({1, n}, 1, DType::f32), 1, Keep::yes);
}

ValueLearner::ValueLearner(const NetOptions& net, const ValueOptions& options, const CompileOptions& compile_options)
    : options_(options),
      online_(net),
      target_(options.target ? Net(net) : online_),
      adam_(std::make_unique<optim::AdamW>(
          optim::Adam::Options{.lr = options.lr, .weight_decay = options.weight_decay, .schedule = options.schedule})) {
  if (net.dueling) throw Error("ValueLearner: a dueling net has values of actions, not of states");
  const Spec input = net.input.spec(options.batch), question = net.input.spec(options.asked);
  batch_ = {Array::zeros(input.shape, input.dtype), Array::zeros({options.batch, 1})};
  question_ = Array::zeros(question.shape, question.dtype);
  train_ = compile(
      named(compile_options, "train"),
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = value_loss(online_(x), y, options.huber);
        adam_->minimize(loss, online_.parameters());
        return loss;
      },
      input, f32(options.batch, 1));
  const auto ask = [&](const Net& asked) {
    return compile(
        named(compile_options, "ask"), [&](const Tensor& x) { return value_of(asked(x, nn::Mode::eval)); }, question);
  };
  ask_online_ = ask(online_);
  if (!options.target) return;
  copy_values(online_, target_);
  ask_ = ask(target_);
  sync_ = sync_step(online_, target_, 1, named(compile_options, "sync"));
}

float ValueLearner::train() { return train_(batch_.input, batch_.target); }
std::span<const float> ValueLearner::ask() { return floats((options_.target ? ask_ : ask_online_)(question_)[0]); }
std::span<const float> ValueLearner::ask_online() { return floats(ask_online_(question_)[0]); }
void ValueLearner::sync() {
  if (options_.target) sync_();
}

void ValueLearner::add_to(CheckpointStates& states) const {
  states.add_group("model", online_.states());
  if (options_.target) states.add_group("target", target_.states());
  states.add_group("optimiser", adam_->states());
}

}  // namespace wr::rl
