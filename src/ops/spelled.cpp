// Compositions by family, and gradients by differentiating them.
#include "ops/spelled.h"

#include "ops/define.h"

namespace wr::ops {

Tensor spelled_out(Op op, int number, const std::vector<Tensor>& in, const Attrs& attrs) {
  if (is_contraction(op)) return contract_spelled_out(op, in, attrs);
  return ir::is_row_op(op) ? row_spelled_out(op, number, in, attrs) : attention_spelled_out(op, number, in, attrs);
}

namespace {

/// A value that is no other's node, though it is one's: what is differentiated by it does not see what else depends on
/// the value, and gradients of that gradient still flow back into it.
Tensor apart(const Tensor& t) {
  return custom_gradient(t, std::vector<Tensor>{t}, [](const std::vector<Tensor>&, const Tensor&, const Tensor& g) {
    return std::vector<Tensor>{g};
  });
}

}  // namespace

std::vector<Tensor> gradient_of_parts(Op op, int number, const Tensor& g, const Gradient& of) {
  // Operands may depend on one another, as a gradient does on the result; here each is what it is.
  std::vector<Tensor> in, by;
  for (const Tensor& t : of.in) {
    in.push_back(is_floating(t.dtype()) ? apart(t) : t);
    if (is_floating(t.dtype())) by.push_back(in.back());
  }
  const auto found = grad(sum(mul(spelled_out(op, number, in, of.attrs), g)), by, allow_unused);
  std::vector<Tensor> gradients;
  auto next = found.begin();
  for (const Tensor& t : of.in) gradients.push_back(is_floating(t.dtype()) ? *next++ : Tensor());
  return gradients;
}

std::vector<Tensor> with_further(Op op, const Gradient& of, std::vector<Tensor> first) {
  for (std::size_t r = 0; r < of.further.size(); ++r) {
    if (of.further[r].empty()) continue;
    const auto more = gradient_of_parts(op, static_cast<int>(r) + 1, of.further[r], of);
    for (std::size_t k = 0; k < first.size(); ++k)
      if (!more[k].empty()) first[k] = first[k].empty() ? more[k] : add(first[k], more[k]);
  }
  return first;
}

}  // namespace wr::ops
