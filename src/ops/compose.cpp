// What users look for by name: ops on rows where rows are what is asked for, else compositions of ops.
#include "ops/define.h"
#include "windrow/attention.h"

namespace wr {

using ir::Op;

namespace {

/// Whether an axis is the last, along which there are ops on rows.
bool is_row(const Tensor& x, int axis, const char* op, Location where) {
  return ops::normalise_axis(axis, x.rank(), op, where) == x.rank() - 1;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, Location where) try {
  if (is_row(x, axis, "softmax", where)) return ir::apply(Op::softmax, {x}, {}, where);
  const Tensor top = stop_gradient(max(x, axis, Keep::yes, where), where);
  const Tensor e = exp(sub(Operand(x, where), top), where);
  return mul(Operand(e, where), reciprocal(sum(e, axis, Keep::yes, where), where));
} catch (const Error& error) {
  ops::refuse_as("softmax", where, error);
}

Tensor log_softmax(const Tensor& x, int axis, Location where) try {
  if (is_row(x, axis, "log_softmax", where)) return ir::apply(Op::log_softmax, {x}, {}, where);
  return sub(Operand(x, where), logsumexp(x, axis, Keep::yes, where));
} catch (const Error& error) {
  ops::refuse_as("log_softmax", where, error);
}

Tensor standardise(const Tensor& x, const Axes& axes, double epsilon, Location where) try {
  const Tensor centred = sub(Operand(x, where), mean(x, axes, Keep::yes, where));
  const Tensor spread = mean(square(centred, where), axes, Keep::yes, where);
  return mul(Operand(centred, where), rsqrt(add(Operand(spread, where), epsilon), where));
} catch (const Error& error) {
  ops::refuse_as("standardise", where, error);
}

namespace {

void expect_affine(const char* op, const Tensor& x, int least_rank, std::initializer_list<const Tensor*> parameters,
                   Location where) {
  if (x.rank() < least_rank)
    fail(where, std::string(op) + ": x must have at least " + std::to_string(least_rank) + " axes, is " +
                    to_string(x.shape()));
  for (const Tensor* t : parameters)
    if (!t->empty() && !(t->shape() == Shape{x.size(-1)}))
      fail(where, std::string(op) + ": scale and shift must be [" + std::to_string(x.size(-1)) + "] for x " +
                      to_string(x.shape()) + ", got " + to_string(t->shape()));
}

Tensor scaled(const Tensor& normal, const Tensor& scale, const Tensor& shift, Location where) {
  const Tensor y = scale.empty() ? normal : mul(Operand(normal, where), scale);
  return shift.empty() ? y : add(Operand(y, where), shift);
}

/// A parameter of a norm over rows, or what stands for none.
Tensor given_or(const Tensor& parameter, double otherwise, const Tensor& x, Location where) {
  return parameter.empty() ? full({x.size(-1)}, otherwise, x.dtype(), where) : parameter;
}

Tensor grouped_norm(const char* op, const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift,
                    double epsilon, Location where) try {
  expect_affine(op, x, 2, {&scale, &shift}, where);
  const auto width = x.size(-1), batch = x.size(0);
  if (groups < 1 || width % groups)
    fail(where, std::string(op) + ": " + std::to_string(width) + " features do not divide into " +
                    std::to_string(groups) + " groups");
  const auto places = batch ? x.shape().count() / batch / width : 0;
  const Tensor split = reshape(x, {batch, places, groups, width / groups}, where);
  const Tensor normal = reshape(standardise(split, {1, 3}, epsilon, where), x.shape(), where);
  return scaled(normal, scale, shift, where);
} catch (const Error& error) {
  ops::refuse_as(op, where, error);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon, Location where) try {
  expect_affine("layer_norm", x, 1, {&scale, &shift}, where);
  return ir::apply(Op::layer_norm, {x, given_or(scale, 1, x, where), given_or(shift, 0, x, where)}, {{}, {epsilon}, {}},
                   where);
} catch (const Error& error) {
  ops::refuse_as("layer_norm", where, error);
}

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon, Location where) try {
  expect_affine("batch_norm", x, 2, {&scale, &shift}, where);
  std::vector<int> axes;
  for (int i = 0; i + 1 < x.rank(); ++i) axes.push_back(i);
  return scaled(standardise(x, axes, epsilon, where), scale, shift, where);
} catch (const Error& error) {
  ops::refuse_as("batch_norm", where, error);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift, double epsilon,
                  Location where) {
  return grouped_norm("group_norm", x, groups, scale, shift, epsilon, where);
}

Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon, Location where) {
  return grouped_norm("instance_norm", x, x.rank() ? x.size(-1) : 0, scale, shift, epsilon, where);
}

Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon, Location where) try {
  expect_affine("rms_norm", x, 1, {&scale}, where);
  return ir::apply(Op::rms_norm, {x, given_or(scale, 1, x, where)}, {{}, {epsilon}, {}}, where);
} catch (const Error& error) {
  ops::refuse_as("rms_norm", where, error);
}

namespace {

void expect_probability(double probability, Location where) {
  if (!(probability >= 0 && probability < 1))
    fail(where, "dropout: the probability must be at least 0 and less than 1, is " + std::to_string(probability));
}

Tensor kept_elements(const Tensor& x, const Tensor& kept, double probability, Location at) {
  return where(kept, mul(Operand(x, at), 1 / (1 - probability)), Operand(0, at));
}

}  // namespace

Tensor dropout(const Tensor& x, double probability, const Random& random, Location where) {
  expect_probability(probability, where);
  return kept_elements(x, random.bernoulli(1 - probability, x.shape(), where), probability, where);
}

Tensor ops::dropout_at(const Tensor& x, double probability, const Tensor& counter, Location where) {
  expect_probability(probability, where);
  const Tensor kept = draw_at(counter, 0, "bernoulli", 1 - probability, x.shape(), DType::boolean, where);
  return kept_elements(x, kept, probability, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Location where) try {
  if (logits.rank() != 2 || labels.rank() != 1 || logits.size(0) != labels.size(0) || labels.dtype() != DType::i32)
    fail(where, "cross_entropy: needs logits [batch, classes] and i32 labels [batch], got " + to_string(logits.spec()) +
                    " and " + to_string(labels.spec()));
  return mean(cross_entropy_of_rows(logits, labels, where), {}, Keep::no, where);
} catch (const Error& error) {
  ops::refuse_as("cross_entropy", where, error);
}

Tensor cross_entropy_of_rows(const Tensor& logits, const Tensor& labels, Location where) try {
  const Tensor each = ir::apply(Op::cross_entropy, {logits, expand_dims(labels, -1, where)}, {}, where);
  return reshape(each, labels.shape(), where);
} catch (const Error& error) {
  ops::refuse_as("cross_entropy_of_rows", where, error);
}

Tensor mse(const Tensor& prediction, const Tensor& target, Location where) try {
  if (!(prediction.spec() == target.spec()))
    fail(where, "mse: the prediction is " + to_string(prediction.spec()) + ", the target " + to_string(target.spec()));
  return mean(square(sub(Operand(prediction, where), target), where), {}, Keep::no, where);
} catch (const Error& error) {
  ops::refuse_as("mse", where, error);
}

Tensor huber(const Tensor& prediction, const Tensor& target, double delta, Location where) try {
  if (!(prediction.spec() == target.spec()))
    fail(where,
         "huber: the prediction is " + to_string(prediction.spec()) + ", the target " + to_string(target.spec()));
  // c = min(|d|, delta): 0.5 c^2 + delta (|d| - c) is both branches in one formula, with the right slopes on both
  // sides.
  const Tensor distance = abs(sub(Operand(prediction, where), target), where);
  const Tensor near = minimum(Operand(distance, where), delta);
  return add(Operand(mul(Operand(0.5, where), square(near, where)), where),
             mul(Operand(delta, where), sub(Operand(distance, where), near)));
} catch (const Error& error) {
  ops::refuse_as("huber", where, error);
}

}  // namespace wr
