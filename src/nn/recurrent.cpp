// LSTM and GRU, unrolled over time. The weights are cut into gates once a run, so that each gate is a product of its
// own and the backward pass has nothing to put together at every step.
#include <fmt/format.h>

#include "nn/sizes.h"

namespace wr::nn {
namespace {

Tensor gate(const Tensor& all, int which, std::int64_t hidden, const Where& where) {
  return slice(all, -1, which * hidden, (which + 1) * hidden, 1, where);
}

/// One gate's weights: x . w_x + h . w_h + b.
struct Gate {
  Gate(const State& x, const State& h, const State& bias, int which, const Where& at)
      : w_x(gate(x, which, h.shape()[0], at)),
        w_h(gate(h, which, h.shape()[0], at)),
        b(gate(bias, which, h.shape()[0], at)),
        where(at) {}
  Tensor operator()(const Tensor& x, const Tensor& h) const {
    return Operand(Operand(matmul(x, w_x, where), where) + matmul(h, w_h, where), where) + b;
  }
  Tensor w_x, w_h, b;
  Where where;
};

Tensor moment(const Tensor& x, int t, const Where& where) {
  return reshape(slice(x, 1, t, t + 1, 1, where), {x.size(0), x.size(2)}, where);
}

using Turn = std::function<std::vector<Tensor>(const Tensor& x, const std::vector<Tensor>& carry)>;

/// Runs the turn over time; the first of what it carries is the output.
Tensor unroll(const Tensor& x, std::vector<Tensor> carry, const RecurrentOptions& options, const Turn& turn,
              const Where& where) {
  std::vector<Tensor> outputs;
  carry = repeat(
      static_cast<int>(x.size(1)),
      [&](int t, const std::vector<Tensor>& c) {
        std::vector<Tensor> next = turn(moment(x, t, where), c);
        outputs.push_back(next[0]);
        return next;
      },
      std::move(carry), options.recompute, where);
  return options.returns == Returns::last ? carry[0] : stack(outputs, 1, where);
}

void expect_sequence(const char* layer, const Tensor& x, const State& w, const Where& where) {
  expect_rank(layer, x, 3, "[batch, time, features]", where);
  expect_features(layer, x, 3, w.shape()[0], w.spec().dtype, where);
  if (x.size(1) < 1) fail(where, std::string(layer) + ": the input has no time steps: " + to_string(x.shape()));
}

Array start(const Shape& shape, std::int64_t hidden, DType dtype) {
  return initial(init::fan_in_uniform(), shape, {hidden, hidden}, dtype);
}

}  // namespace

Lstm::Lstm(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Where where) : options_(options) {
  expect_positive("Lstm", "in", in, where);
  expect_positive("Lstm", "hidden", hidden, where);
  w_x = parameter("w_x", start({in, 4 * hidden}, hidden, options.dtype));
  w_h = parameter("w_h", start({hidden, 4 * hidden}, hidden, options.dtype));
  b = parameter("b", start({4 * hidden}, hidden, options.dtype));
}

std::string Lstm::kind() const { return fmt::format("Lstm({}, {})", w_x.shape()[0], w_h.shape()[0]); }

Tensor Lstm::forward(const Tensor& x, Mode, const Where& where) const {
  expect_sequence("Lstm", x, w_x, where);
  const Gate input(w_x, w_h, b, 0, where), forget(w_x, w_h, b, 1, where);
  const Gate cell(w_x, w_h, b, 2, where), output(w_x, w_h, b, 3, where);
  const Tensor zero = full({x.size(0), w_h.shape()[0]}, 0, x.dtype(), where);
  const auto turn = [&](const Tensor& now, const std::vector<Tensor>& carry) -> std::vector<Tensor> {
    const Tensor& h = carry[0];
    const Tensor kept = Operand(sigmoid(forget(now, h), where), where) * carry[1];
    const Tensor c = muladd(Operand(sigmoid(input(now, h), where), where), tanh(cell(now, h), where), kept);
    return {Operand(sigmoid(output(now, h), where), where) * tanh(c, where), c};
  };
  return unroll(x, {zero, zero}, options_, turn, where);
}

Gru::Gru(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Where where) : options_(options) {
  expect_positive("Gru", "in", in, where);
  expect_positive("Gru", "hidden", hidden, where);
  w_x = parameter("w_x", start({in, 3 * hidden}, hidden, options.dtype));
  w_h = parameter("w_h", start({hidden, 3 * hidden}, hidden, options.dtype));
  b_x = parameter("b_x", start({3 * hidden}, hidden, options.dtype));
  b_h = parameter("b_h", start({3 * hidden}, hidden, options.dtype));
}

std::string Gru::kind() const { return fmt::format("Gru({}, {})", w_x.shape()[0], w_h.shape()[0]); }

Tensor Gru::forward(const Tensor& x, Mode, const Where& where) const {
  expect_sequence("Gru", x, w_x, where);
  const auto hidden = w_h.shape()[0];
  const Gate reset(w_x, w_h, b_x, 0, where), update(w_x, w_h, b_x, 1, where);
  const Tensor reset_b = gate(b_h, 0, hidden, where), update_b = gate(b_h, 1, hidden, where);
  const Tensor new_x = gate(w_x, 2, hidden, where), new_h = gate(w_h, 2, hidden, where);
  const Tensor new_bx = gate(b_x, 2, hidden, where), new_bh = gate(b_h, 2, hidden, where);
  const auto turn = [&](const Tensor& now, const std::vector<Tensor>& carry) -> std::vector<Tensor> {
    const Tensor& h = carry[0];
    const Tensor r = sigmoid(Operand(reset(now, h), where) + reset_b, where);
    const Tensor z = sigmoid(Operand(update(now, h), where) + update_b, where);
    const Tensor from_x = Operand(matmul(now, new_x, where), where) + new_bx;
    const Tensor from_h = Operand(matmul(h, new_h, where), where) + new_bh;
    const Tensor n = tanh(muladd(Operand(r, where), from_h, from_x), where);
    return {lerp(Operand(n, where), h, z)};
  };
  return unroll(x, {full({x.size(0), hidden}, 0, x.dtype(), where)}, options_, turn, where);
}

}  // namespace wr::nn
