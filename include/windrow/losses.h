// Losses. Each compares a prediction with a target of its shape and gives one number, or with Reduction::none one
// number an element (a row, for those over classes).
#pragma once

#include "windrow/tensor.h"

namespace wr::loss {

/// Over elements, or over rows for the losses that sum over classes: cross entropy and KL.
enum class Reduction { mean, sum, none };
struct Options {
  Reduction reduction = Reduction::mean;
};

/// (x - y)^2
Tensor mse(const Tensor& x, const Tensor& y, const Options& options = {}, WINDROW_WHERE);
/// |x - y|
Tensor mae(const Tensor& x, const Tensor& y, const Options& options = {}, WINDROW_WHERE);

struct HuberOptions {
  double delta = 1;
  Reduction reduction = Reduction::mean;
};
/// d = |x - y|: 0.5 d^2 where d < delta, delta (d - 0.5 delta) elsewhere.
Tensor huber(const Tensor& x, const Tensor& y, const HuberOptions& options = {}, WINDROW_WHERE);

struct CrossEntropyOptions {
  double label_smoothing = 0;  // this part of the target is spread over all classes
  Reduction reduction = Reduction::mean;
};
/// -sum over the last axis of q log softmax(logits). The target q is i32 labels [..] (one that is not in 0..classes-1
/// is refused as an argument of a step, gives NaN elsewhere) or probabilities of the logits' shape and type [..,
/// classes].
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {},
                     WINDROW_WHERE);

struct ProbabilityOptions {
  double floor = 1e-7;  // smaller probabilities count as this one; no gradient flows into them
  Reduction reduction = Reduction::mean;
};
/// The same from probabilities instead of logits: -sum of q log max(p, floor). Prefer logits: they lose no digits.
Tensor cross_entropy_of_probabilities(const Tensor& probabilities, const Tensor& target,
                                      const ProbabilityOptions& options = {}, WINDROW_WHERE);

/// -y log sigmoid(x) - (1 - y) log(1 - sigmoid(x)), without overflow; y in 0..1.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& y, const Options& options = {}, WINDROW_WHERE);

/// sum over the last axis of p (log p - log q), from log q and p; 0 where p is 0. The mean is over rows: PyTorch's
/// "batchmean" for [batch, classes].
Tensor kl_divergence(const Tensor& log_q, const Tensor& p, const Options& options = {}, WINDROW_WHERE);

struct HingeOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};
/// max(0, margin - x y) for y of -1 or 1.
Tensor hinge(const Tensor& x, const Tensor& y, const HingeOptions& options = {}, WINDROW_WHERE);

}  // namespace wr::loss
