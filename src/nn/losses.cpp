// Losses as compositions of ops.
#include "windrow/losses.h"

#include "windrow/attention.h"

namespace wr::loss {
namespace {

void expect_equal(const char* name, const Tensor& x, const Tensor& y, Location where) {
  if (x.empty() || y.empty()) fail(where, std::string(name) + ": an operand is an empty Tensor");
  if (!(x.spec() == y.spec()))
    fail(where, std::string(name) + ": the prediction is " + to_string(x.spec()) + ", the target " +
                    to_string(y.spec()) + "; they must be equal");
}

Tensor reduced(const Tensor& each, Reduction reduction, Location where) {
  if (reduction == Reduction::none) return each;
  return reduction == Reduction::mean ? mean(each, {}, Keep::no, where) : sum(each, {}, Keep::no, where);
}

/// Labels [..] for predictions [.., classes]; false for probabilities of the predictions' own type.
bool is_labels(const char* name, const Tensor& x, const Tensor& target, Location where) {
  if (x.empty() || target.empty()) fail(where, std::string(name) + ": an operand is an empty Tensor");
  if (x.rank() >= 1 && target.spec() == x.spec()) return false;
  Shape rows = x.shape();
  if (rows.rank()) rows.erase(rows.rank() - 1);
  if (x.rank() < 1 || target.dtype() != DType::i32 || !(target.shape() == rows))
    fail(where, std::string(name) + ": the prediction is " + to_string(x.spec()) + ", the target " +
                    to_string(target.spec()) + "; expected labels i32" + to_string(rows) + " or probabilities " +
                    to_string(x.spec()));
  return true;
}

/// sum over classes of target * x, each row's element of the label where there are labels; the last axis stays, of
/// size 1.
Tensor picked(const Tensor& x, const Tensor& target, bool labels, Location where) {
  if (labels) return take_along(x, expand_dims(target, -1, where), -1, where);
  return sum(Operand(target, where) * x, -1, Keep::yes, where);
}

Tensor without_last(const Tensor& x, Reduction reduction, Location where) {
  return reduction == Reduction::none ? squeeze(x, -1, where) : x;
}

}  // namespace

Tensor mse(const Tensor& x, const Tensor& y, const Options& options, Location where) {
  expect_equal("mse", x, y, where);
  return reduced(square(Operand(x, where) - y, where), options.reduction, where);
}

Tensor mae(const Tensor& x, const Tensor& y, const Options& options, Location where) {
  expect_equal("mae", x, y, where);
  return reduced(abs(Operand(x, where) - y, where), options.reduction, where);
}

Tensor huber(const Tensor& x, const Tensor& y, const HuberOptions& options, Location where) {
  expect_equal("huber", x, y, where);
  if (!(options.delta > 0)) fail(where, "huber: delta must be positive, is " + std::to_string(options.delta));
  return reduced(wr::huber(x, y, options.delta, where), options.reduction, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options, Location where) {
  const bool labels = is_labels("cross_entropy", logits, target, where);
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(where, "cross_entropy: label_smoothing must be in 0..1, is " + std::to_string(smoothing));
  if (labels && smoothing == 0) return reduced(cross_entropy_of_rows(logits, target, where), options.reduction, where);
  // A label's log probability is z - lse of one element, so the others' are never written.
  const Tensor lse = logsumexp(logits, -1, Keep::yes, where);
  const Tensor scores = labels ? logits : Operand(logits, where) - lse;
  Tensor hit = picked(scores, target, labels, where);
  if (smoothing != 0) hit = lerp(Operand(hit, where), mean(scores, -1, Keep::yes, where), smoothing);
  const Tensor each = labels ? Operand(lse, where) - hit : neg(hit, where);
  return reduced(without_last(each, options.reduction, where), options.reduction, where);
}

Tensor cross_entropy_of_probabilities(const Tensor& probabilities, const Tensor& target,
                                      const ProbabilityOptions& options, Location where) {
  const char* name = "cross_entropy_of_probabilities";
  const bool labels = is_labels(name, probabilities, target, where);
  if (!(options.floor >= 0))
    fail(where, std::string(name) + ": the floor must not be negative, is " + std::to_string(options.floor));
  const auto log_of = [&](const Tensor& p) { return log(maximum(Operand(p, where), options.floor), where); };
  const Tensor each =
      labels ? log_of(picked(probabilities, target, true, where)) : picked(log_of(probabilities), target, false, where);
  return reduced(without_last(neg(each, where), options.reduction, where), options.reduction, where);
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& y, const Options& options, Location where) {
  expect_equal("binary_cross_entropy", logits, y, where);
  return reduced(Operand(softplus(logits, where), where) - Operand(logits, where) * y, options.reduction, where);
}

Tensor kl_divergence(const Tensor& log_q, const Tensor& p, const Options& options, Location where) {
  expect_equal("kl_divergence", log_q, p, where);
  if (log_q.rank() < 1) fail(where, "kl_divergence: there is no axis of classes");
  constexpr double kTiny = 1e-37;  // times its logarithm: nothing
  const Tensor log_p = log(maximum(Operand(p, where), kTiny), where);
  const Tensor each = sum(Operand(p, where) * (Operand(log_p, where) - log_q), -1, Keep::no, where);
  return reduced(each, options.reduction, where);
}

Tensor hinge(const Tensor& x, const Tensor& y, const HingeOptions& options, Location where) {
  expect_equal("hinge", x, y, where);
  return reduced(relu(Operand(options.margin, where) - Operand(x, where) * y, where), options.reduction, where);
}

}  // namespace wr::loss
