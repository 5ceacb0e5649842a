// LSTM and GRU over all of the time: one op forwards and one backwards, whatever the number of moments. What the input
// gives to the gates is a product before them, what the weights' gradients are is a product after them. Rows of the
// batch need nothing of one another.
#include "ops/define.h"

namespace wr {

using ir::Op;

namespace {

Tensor result(const Tensor& of, std::int64_t number, Location where) {
  return ir::apply(Op::result, {of}, {{number}, {}, {}}, where);
}

/// The value after the last moment that is taken.
Tensor last_of(const Tensor& sequence, bool reverse, Location where) {
  const auto time = sequence.size(1), at = reverse ? 0 : time - 1;
  return reshape(slice(sequence, 1, at, at + 1, 1, where), {sequence.size(0), sequence.size(2)}, where);
}

Tensor recurrence(Op op, std::vector<Tensor> operands, const RecurrenceOptions& options, Location where) {
  const bool lengths = !options.lengths.empty();
  if (lengths) operands.push_back(options.lengths);
  return ir::apply(op, operands, {{options.reverse, lengths}, {}, {}}, where);
}

}  // namespace

Recurrence lstm(const Tensor& gates, const Tensor& w_h, const Tensor& h, const Tensor& c,
                const RecurrenceOptions& options, Location where) {
  const Tensor made = recurrence(Op::lstm, {gates, w_h, h, c}, options, where);
  return {made, last_of(made, options.reverse, where), last_of(result(made, 3, where), options.reverse, where)};
}

Recurrence gru(const Tensor& gates, const Tensor& w_h, const Tensor& b_h, const Tensor& h,
               const RecurrenceOptions& options, Location where) {
  const Tensor made = recurrence(Op::gru, {gates, w_h, h, b_h}, options, where);
  return {made, last_of(made, options.reverse, where), {}};
}

namespace ops {
namespace {

// Attributes of all four: ints are 1 if time runs backwards, 1 if lengths are the last operand; of lstm_grad also 1 if
// there is a gradient by c.
bool has_lengths(const Attrs& attrs) { return attrs.ints[1] != 0; }

void expect(const Spec& spec, const Spec& want, const char* what) {
  if (!(spec == want)) refuse(std::string(what) + " must be " + to_string(want) + ", is " + to_string(spec));
}

/// Batch, time and hidden units by the first operand and the weights.
struct Sizes {
  DType dtype;
  std::int64_t batch, time, hidden;

  Spec sequence(std::int64_t gates = 1) const { return {dtype, {batch, time, gates * hidden}}; }
  Spec state() const { return {dtype, {batch, hidden}}; }
  Spec weights(std::int64_t gates) const { return {dtype, {hidden, gates * hidden}}; }
};

Sizes sizes_of(const Spec& sequence, const Spec& w_h) {
  expect_floating(sequence, "the sequence");
  if (sequence.shape.rank() != 3) refuse("the sequence must be [batch, time, features], is " + to_string(sequence));
  if (sequence.shape[1] < 1) refuse("there is no moment in " + to_string(sequence));
  if (w_h.shape.rank() != 2 || w_h.shape[0] < 1)
    refuse("the weights w_h must be [hidden, gates * hidden], are " + to_string(w_h));
  return {sequence.dtype, sequence.shape[0], sequence.shape[1], w_h.shape[0]};
}

void expect_flags(std::span<const Spec> in, const Attrs& attrs, std::size_t flags, std::size_t operands,
                  std::int64_t batch) {
  expect_ints(attrs, flags);
  for (auto flag : attrs.ints)
    if (flag != 0 && flag != 1) refuse("attributes must be 0 or 1");
  const bool lengths = has_lengths(attrs);
  expect_operands(in, operands + (lengths ? 1 : 0) + (flags > 2 && attrs.ints[2] ? 1 : 0));
  if (lengths) expect(in.back(), {DType::i32, {batch}}, "the lengths");
}

/// Leaving a part out without a word would give wrong numbers.
[[noreturn]] std::vector<Tensor> no_second_gradient(const Gradient&) {
  refuse("lstm and gru can be differentiated once, not twice; write the net's cell as the body of scan() for that");
}

/// Every operand and every result that has a batch has it as axis 0; all else is needed whole.
template <std::uint32_t kWithBatch>
AxisMap batch_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  AxisMap map;
  for (std::size_t k = 0; k < in.size(); ++k) {
    map.operand.emplace_back(in[k].shape.rank(), kWhole);
    const bool optional = k + 1 == in.size() && has_lengths(attrs);
    if (optional || ((kWithBatch >> k) & 1)) map.operand.back()[0] = 0;
  }
  return map;
}

template <std::uint32_t kWithBatch>
AxisMap further_axes(int, const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  return batch_axes<kWithBatch>(out, in, attrs);
}

template <std::size_t kWeights>
double product_flops(const Spec&, std::span<const Spec> in, const Attrs&) {
  return 2 * static_cast<double>(in[0].shape[0] * in[0].shape[1]) * static_cast<double>(in[kWeights].shape.count());
}

/// A product with operand kWeights a moment: rows enough to fill its tiles.
template <std::size_t kWeights>
constexpr ir::Traits kTraits{.arithmetic = true, .rows_together = 32, .flops = product_flops<kWeights>};

// ---- lstm(gates, w_h, h, c, [lengths]) -> h; before: h before each moment; i, f, g, o; c
constexpr std::uint32_t kLstmBatch = 0b1101;

Spec infer_lstm(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() < 4) refuse("expected gates, w_h, h and c");
  const Sizes s = sizes_of(in[0], in[1]);
  expect_flags(in, attrs, 2, 4, s.batch);
  expect(in[1], s.weights(4), "w_h");
  expect(in[0], s.sequence(4), "the gates");
  expect(in[2], s.state(), "h");
  expect(in[3], s.state(), "c");
  return s.sequence();
}

Spec infer_further_lstm(int number, std::span<const Spec> in, const Attrs&) {
  return sizes_of(in[0], in[1]).sequence(number == 2 ? 4 : 1);
}

constexpr ir::FurtherResults kFurtherLstm{3, infer_further_lstm, further_axes<kLstmBatch>};

Tensor weight_gradient(const Tensor& before, const Tensor& of_gates) {
  return einsum("bth,btg->hg", {before, of_gates});
}

std::vector<Tensor> gradient_of_lstm(const Gradient& of) {
  const Location where = Location::current();
  const bool lengths = has_lengths(of.attrs), by_c = of.further.size() > 2 && !of.further[2].empty();
  for (std::size_t k = 0; k < 2 && k < of.further.size(); ++k)
    if (!of.further[k].empty()) refuse("has a gradient by its results h and c alone");
  const Tensor before = result(of.out, 1, where), gates = result(of.out, 2, where), c = result(of.out, 3, where);
  std::vector<Tensor> operands{of.g, gates, c, of.in[3], of.in[1]};
  if (by_c) operands.push_back(of.further[2]);
  if (lengths) operands.push_back(of.in[4]);
  const Tensor d = ir::apply(Op::lstm_grad, operands, {{of.attrs.ints[0], lengths, by_c}, {}, {}}, where);
  std::vector<Tensor> gradients{d, weight_gradient(before, d), result(d, 1, where), result(d, 2, where)};
  if (lengths) gradients.emplace_back();
  return gradients;
}

// ---- lstm_grad(g, gates, c, c before, w_h, [g of c], [lengths]) -> by the gates; by h; by c
constexpr std::uint32_t kLstmGradBatch = 0b101111;

Spec infer_lstm_grad(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() < 5) refuse("expected the gradient, gates, c, c before and w_h");
  const Sizes s = sizes_of(in[0], in[4]);
  expect_flags(in, attrs, 3, 5, s.batch);
  expect(in[4], s.weights(4), "w_h");
  expect(in[0], s.sequence(), "the gradient");
  expect(in[1], s.sequence(4), "the gates");
  expect(in[2], s.sequence(), "c");
  expect(in[3], s.state(), "c before");
  if (attrs.ints[2]) expect(in[5], s.sequence(), "the gradient by c");
  return s.sequence(4);
}

Spec infer_further_lstm_grad(int, std::span<const Spec> in, const Attrs&) { return sizes_of(in[0], in[4]).state(); }

constexpr ir::FurtherResults kFurtherLstmGrad{2, infer_further_lstm_grad, further_axes<kLstmGradBatch>};

// ---- gru(gates, w_h, h, b_h, [lengths]) -> h; before: h before each moment; r, z, n and h . w_n + b_n
constexpr std::uint32_t kGruBatch = 0b0101;

Spec infer_gru(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() < 4) refuse("expected gates, w_h, h and b_h");
  const Sizes s = sizes_of(in[0], in[1]);
  expect_flags(in, attrs, 2, 4, s.batch);
  expect(in[1], s.weights(3), "w_h");
  expect(in[0], s.sequence(3), "the gates");
  expect(in[2], s.state(), "h");
  expect(in[3], {s.dtype, {3 * s.hidden}}, "b_h");
  return s.sequence();
}

Spec infer_further_gru(int number, std::span<const Spec> in, const Attrs&) {
  return sizes_of(in[0], in[1]).sequence(number == 2 ? 4 : 1);
}

constexpr ir::FurtherResults kFurtherGru{2, infer_further_gru, further_axes<kGruBatch>};

std::vector<Tensor> gradient_of_gru(const Gradient& of) {
  const Location where = Location::current();
  const bool lengths = has_lengths(of.attrs);
  for (const Tensor& g : of.further)
    if (!g.empty()) refuse("has a gradient by its result h alone");
  const Tensor before = result(of.out, 1, where), gates = result(of.out, 2, where);
  std::vector<Tensor> operands{of.g, gates, before, of.in[1]};
  if (lengths) operands.push_back(of.in[4]);
  const Tensor by_x = ir::apply(Op::gru_grad, operands, {{of.attrs.ints[0], lengths}, {}, {}}, where);
  const Tensor by_h = result(by_x, 1, where);
  std::vector<Tensor> gradients{by_x, weight_gradient(before, by_h), result(by_x, 2, where), sum(by_h, {0, 1})};
  if (lengths) gradients.emplace_back();
  return gradients;
}

// ---- gru_grad(g, gates, before, w_h, [lengths]) -> by the gates; by h . w_h + b_h; by h
constexpr std::uint32_t kGruGradBatch = 0b0111;

Spec infer_gru_grad(std::span<const Spec> in, const Attrs& attrs) {
  if (in.size() < 4) refuse("expected the gradient, gates, h before each moment and w_h");
  const Sizes s = sizes_of(in[0], in[3]);
  expect_flags(in, attrs, 2, 4, s.batch);
  expect(in[3], s.weights(3), "w_h");
  expect(in[0], s.sequence(), "the gradient");
  expect(in[1], s.sequence(4), "the gates");
  expect(in[2], s.sequence(), "h before each moment");
  return s.sequence(3);
}

Spec infer_further_gru_grad(int number, std::span<const Spec> in, const Attrs&) {
  const Sizes s = sizes_of(in[0], in[3]);
  return number == 1 ? s.sequence(3) : s.state();
}

constexpr ir::FurtherResults kFurtherGruGrad{2, infer_further_gru_grad, further_axes<kGruGradBatch>};

const OpDef kOpDefs[] = {
    {Op::lstm, "lstm", infer_lstm, batch_axes<kLstmBatch>, gradient_of_lstm,
     "an LSTM over time: h; then h before each moment, its gates, c", &kFurtherLstm, kTraits<1>},
    {Op::lstm_grad, "lstm_grad", infer_lstm_grad, batch_axes<kLstmGradBatch>, no_second_gradient,
     "the adjoints of lstm in its gates, h and c", &kFurtherLstmGrad, kTraits<4>},
    {Op::gru, "gru", infer_gru, batch_axes<kGruBatch>, gradient_of_gru,
     "a GRU over time: h; then h before each moment, its gates", &kFurtherGru, kTraits<1>},
    {Op::gru_grad, "gru_grad", infer_gru_grad, batch_axes<kGruGradBatch>, no_second_gradient,
     "the adjoints of gru in its gates, in what h gives them, and in h", &kFurtherGruGrad, kTraits<3>},
};

}  // namespace

std::span<const OpDef> recurrent_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
