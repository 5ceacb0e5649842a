// Kernel calls of recurrent nets.
#include <algorithm>

#include "backend/cpu/choose.h"
#include "backend/cpu/recurrent.h"

namespace wr::cpu {

using ir::Op;

namespace {

/// Which operand w_h is, and how many gates there are.
struct Form {
  RecurrentNet net;
  std::size_t w_h;
  std::int64_t gates;
  bool adjoint;
};

Form form_of(Op op) {
  switch (op) {
    case Op::lstm:
      return {RecurrentNet::lstm, 1, 4, false};
    case Op::lstm_grad:
      return {RecurrentNet::lstm_grad, 4, 4, true};
    case Op::gru:
      return {RecurrentNet::gru, 1, 3, false};
    default:
      return {RecurrentNet::gru_grad, 3, 3, true};
  }
}

// Rows at a time: enough for a product to be worth reading the weights, few enough for their gates to stay beside them.
constexpr std::int64_t kMostRows = 48;

}  // namespace

void Chooser::recurrent() {
  const Form form = form_of(node_.op);
  std::vector<View> in, made;
  for (const View& v : work_.in) in.push_back(dense(v));
  for (const lower::Destination& to : work_.out)
    made.push_back(to.view.dense() ? to.view : emit_.scratch(to.view.dtype, to.view.shape));
  const View w_h = in[form.w_h];  // `in` grows below
  RecurrentParams p;
  p.rows = made[0].shape[0];
  p.time = made[0].shape[1];
  p.hidden = w_h.shape[0];
  p.reverse = node_.attrs.ints[0] != 0;
  p.has_lengths = node_.attrs.ints[1] != 0;
  p.by_c = node_.op == Op::lstm_grad && node_.attrs.ints[2] != 0;
  if (p.rows == 0) return;
  const auto blocks = (p.rows + kMostRows - 1) / kMostRows;
  p.block = (p.rows + blocks - 1) / blocks;
  const auto product = [&](std::int64_t rows) {
    const GemmShape shape = recurrent_product(w_h.dtype, rows, p.hidden, form.gates * p.hidden, form.adjoint);
    return make_repeated_gemm(shape, p.time, target(), kernels_.machine());
  };
  p.product = product(p.block);
  const auto rest = p.rows - (blocks - 1) * p.block;
  p.last_product = rest == p.block ? p.product : product(rest);

  // The kernels' order of operands: optional ones stand where they would, with anything in their place.
  if (!p.has_lengths) in.push_back(w_h);
  if (node_.op == Op::lstm_grad && !p.by_c) in.insert(in.end() - 1, w_h);
  std::vector<View> operands = made;
  if (node_.op == Op::lstm) std::swap(operands[0], operands[2]);  // the gates first: they may be written over the given
  const unsigned in_place = node_.op == Op::lstm || node_.op == Op::lstm_grad ? 1u << 4 : 0;
  operands.insert(operands.end(), in.begin(), in.end());
  operands.push_back(emit_.scratch(w_h.dtype, {p.block, form.gates * p.hidden}));
  if (!form.adjoint) operands.push_back(emit_.scratch(w_h.dtype, {p.block, p.hidden}));
  const auto bytes = std::max(p.product.scratch_bytes, p.last_product.scratch_bytes);
  operands.push_back(bytes ? emit_.scratch_bytes(bytes) : operands.back());
  call(find_recurrent(form.net, w_h.dtype, target()), p, operands, name(), in_place);
  for (std::size_t k = 0; k < made.size(); ++k)
    if (!work_.out[k].view.dense()) copy(work_.out[k].view, made[k]);
}

}  // namespace wr::cpu
