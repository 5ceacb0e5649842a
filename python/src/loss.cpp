// windrow.loss.

#include "casters.h"
#include "windrow/losses.h"

namespace wr::python {
namespace {

using namespace nb::literals;

loss::Reduction reduction_from(const std::string& name) {
  if (name == "mean") return loss::Reduction::mean;
  if (name == "sum") return loss::Reduction::sum;
  if (name == "none") return loss::Reduction::none;
  throw nb::value_error(("reduction: '" + name + "' is not 'mean', 'sum' or 'none'").c_str());
}

}  // namespace

void bind_loss(nb::module_& m) {
  nb::module_ n = m.def_submodule(
      "loss", "Losses: a prediction and a target to one number, or with reduction='none' one an element.");
#define PLAIN(op, a, b, doc)                                                                   \
  n.def(                                                                                       \
      #op,                                                                                     \
      [](nb::handle x, nb::handle y, const std::string& reduction) {                           \
        const Location w = here();                                                             \
        return loss::op(tensor_from(x, w), tensor_from(y, w), {reduction_from(reduction)}, w); \
      },                                                                                       \
      a##_a, b##_a, "reduction"_a = "mean", doc);
  PLAIN(mse, "x", "y", "(x - y)^2")
  PLAIN(mae, "x", "y", "|x - y|")
  PLAIN(binary_cross_entropy, "logits", "y",
        "-y log sigmoid(x) - (1 - y) log(1 - sigmoid(x)), without overflow; y in 0..1.")
  PLAIN(kl_divergence, "log_q", "p", "sum over the last axis of p (log p - log q), from log q and p.")
#undef PLAIN
  n.def(
      "huber",
      [](nb::handle x, nb::handle y, double delta, const std::string& r) {
        const Location w = here();
        return loss::huber(tensor_from(x, w), tensor_from(y, w), {delta, reduction_from(r)}, w);
      },
      "x"_a, "y"_a, "delta"_a = 1.0, "reduction"_a = "mean",
      "0.5 d^2 where d = |x - y| < delta, delta (d - 0.5 delta) elsewhere.");
  n.def(
      "cross_entropy",
      [](nb::handle x, nb::handle y, double smoothing, const std::string& r) {
        const Location w = here();
        return loss::cross_entropy(tensor_from(x, w), tensor_from(y, w), {smoothing, reduction_from(r)}, w);
      },
      "logits"_a, "target"_a, "label_smoothing"_a = 0.0, "reduction"_a = "mean",
      "-sum over the last axis of q log softmax(logits); the target is i32 labels or probabilities.");
  n.def(
      "cross_entropy_of_probabilities",
      [](nb::handle x, nb::handle y, double floor, const std::string& r) {
        const Location w = here();
        return loss::cross_entropy_of_probabilities(tensor_from(x, w), tensor_from(y, w), {floor, reduction_from(r)},
                                                    w);
      },
      "probabilities"_a, "target"_a, "floor"_a = 1e-7, "reduction"_a = "mean");
  n.def(
      "hinge",
      [](nb::handle x, nb::handle y, double margin, const std::string& r) {
        const Location w = here();
        return loss::hinge(tensor_from(x, w), tensor_from(y, w), {margin, reduction_from(r)}, w);
      },
      "x"_a, "y"_a, "margin"_a = 1.0, "reduction"_a = "mean", "max(0, margin - x y) for y of -1 or 1.");
}

}  // namespace wr::python
