// Compositions of ops that users look for by name. Nothing here has a kernel of its own: the plan fuses them.
#include "ops/define.h"

namespace wr {

Tensor softmax(const Tensor& x, int axis, std::source_location where) try {
  const Tensor top = stop_gradient(max(x, axis, Keep::yes, where), where);
  const Tensor e = exp(sub(Operand(x, where), top), where);
  return mul(Operand(e, where), reciprocal(sum(e, axis, Keep::yes, where), where));
} catch (const Error& error) {
  ops::refuse_as("softmax", where, error);
}

Tensor log_softmax(const Tensor& x, int axis, std::source_location where) try {
  return sub(Operand(x, where), logsumexp(x, axis, Keep::yes, where));
} catch (const Error& error) {
  ops::refuse_as("log_softmax", where, error);
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                  std::source_location where) try {
  const auto width = x.rank() ? x.size(-1) : 0;
  for (const Tensor* t : {&scale, &shift})
    if (!(t->shape() == Shape{width}))
      fail(where, "layer_norm: scale and shift must be [" + std::to_string(width) + "] for x " + to_string(x.shape()) +
                      ", got " + to_string(t->shape()));
  const Tensor centred = sub(Operand(x, where), mean(x, -1, Keep::yes, where));
  const Tensor spread = mean(square(centred, where), -1, Keep::yes, where);
  const Tensor normal = mul(Operand(centred, where), rsqrt(add(Operand(spread, where), epsilon), where));
  return add(Operand(mul(Operand(normal, where), scale), where), shift);
} catch (const Error& error) {
  ops::refuse_as("layer_norm", where, error);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, std::source_location where) try {
  if (logits.rank() != 2 || labels.rank() != 1 || logits.size(0) != labels.size(0) || labels.dtype() != DType::i32)
    fail(where, "cross_entropy: needs logits [batch, classes] and i32 labels [batch], got " + to_string(logits.spec()) +
                    " and " + to_string(labels.spec()));
  const Tensor hit = take_along(logits, expand_dims(labels, 1, where), 1, where);
  return mean(sub(Operand(logsumexp(logits, 1, Keep::yes, where), where), hit), {}, Keep::no, where);
} catch (const Error& error) {
  ops::refuse_as("cross_entropy", where, error);
}

Tensor mse(const Tensor& prediction, const Tensor& target, std::source_location where) try {
  if (!(prediction.spec() == target.spec()))
    fail(where, "mse: the prediction is " + to_string(prediction.spec()) + ", the target " + to_string(target.spec()));
  return mean(square(sub(Operand(prediction, where), target), where), {}, Keep::no, where);
} catch (const Error& error) {
  ops::refuse_as("mse", where, error);
}

Tensor huber(const Tensor& prediction, const Tensor& target, double delta, std::source_location where) try {
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
