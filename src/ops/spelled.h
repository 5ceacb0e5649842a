// Ops that stand for a composition of others: what they mean, and what they are differentiated as beyond the gradients
// that have ops of their own.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace wr::ops {

/// One of the ops of contract.cpp.
constexpr bool is_contraction(ir::Op op) { return op >= ir::Op::contract && op <= ir::Op::contract_grad; }
/// Does the op stand for a composition?
constexpr bool is_spelled(ir::Op op) {
  return ir::is_row_op(op) || is_contraction(op) || op == ir::Op::attention || op == ir::Op::attention_grad;
}
/// A result of such an op, made of ops that are none.
Tensor spelled_out(ir::Op op, int number, const std::vector<Tensor>& in, const ir::Attrs& attrs);
/// The gradients of a result by all operands, from what it is made of, given its own gradient g.
std::vector<Tensor> gradient_of_parts(ir::Op op, int number, const Tensor& g, const ir::Gradient& of);
/// Gradients through the first result, with those through further results added.
std::vector<Tensor> with_further(ir::Op op, const ir::Gradient& of, std::vector<Tensor> first);

/// For spelled_out, by family.
Tensor row_spelled_out(ir::Op op, int number, const std::vector<Tensor>& in, const ir::Attrs& attrs);
Tensor contract_spelled_out(ir::Op op, const std::vector<Tensor>& in, const ir::Attrs& attrs);
Tensor attention_spelled_out(ir::Op op, int number, const std::vector<Tensor>& in, const ir::Attrs& attrs);

}  // namespace wr::ops
