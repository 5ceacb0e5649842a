// Layers of two-input logic gates on [wires, cells], and the neighbourhoods of cells: what cellular automata whose rule
// is a circuit are made of. A gate is bilinear in its wires, so four coefficients say all of any mixture of Boolean
// functions. attrs.ints of gates and its gradients: the rows of coefficients, then two wires a gate.
#include <limits>

#include "ops/define.h"

namespace wr {

using ir::Attrs;
using ir::Op;

namespace {

/// Of 1, a, b, ab in the sixteen Boolean functions of two arguments.
constexpr double kFunctions[16][4] = {{0, 0, 0, 0},   {0, 0, 0, 1},   {0, 1, 0, -1}, {0, 1, 0, 0},
                                      {0, 0, 1, -1},  {0, 0, 1, 0},   {0, 1, 1, -2}, {0, 1, 1, -1},
                                      {1, -1, -1, 1}, {1, -1, -1, 2}, {1, 0, -1, 0}, {1, 0, -1, 1},
                                      {1, -1, 0, 0},  {1, -1, 0, 1},  {1, 0, 0, -1}, {1, 0, 0, 0}};

Array functions(DType dtype) {
  std::vector<double> flat;
  for (const auto& row : kFunctions) flat.insert(flat.end(), std::begin(row), std::end(row));
  return Array::from(flat, {16, 4}).astype(dtype);
}

}  // namespace

Tensor gates(const Tensor& x, const Tensor& coefficients, const Wiring& wiring, Location where) {
  std::vector<std::int64_t> ints;
  ints.reserve(1 + 2 * wiring.size());
  ints.push_back(coefficients.rank() > 0 ? coefficients.shape()[0] : 0);
  for (const Wire& wire : wiring) {
    ints.push_back(wire.a);
    ints.push_back(wire.b);
  }
  return ir::apply(Op::gates, {x, coefficients}, {std::move(ints), {}, {}}, where);
}

Tensor gate_coefficients(const Tensor& logits, Location where) try {
  if (!is_floating(logits.dtype()) || logits.rank() == 0 || logits.size(-1) != 16)
    fail(where, "gate_coefficients: the logits must be f32 or f64 [..., 16], are " + to_string(logits.spec()));
  return matmul(softmax(logits, -1, where), Tensor(functions(logits.dtype()), where), where);
} catch (const Error& error) {
  ops::refuse_as("gate_coefficients", where, error);
}

Tensor neighbours(const Tensor& x, std::int64_t height, std::int64_t width, Border border, Location where) {
  return ir::apply(Op::neighbours, {x}, {{height, width, border == Border::wrap}, {}, {}}, where);
}

namespace ops {
namespace {

// ---- gates ----

void expect_wires(const Spec& x, const char* what) {
  expect_floating(x, what);
  if (x.shape.rank() != 2) refuse(std::string(what) + " must be [wires, cells], is " + to_string(x));
}

std::int64_t gate_count(const Attrs& attrs) { return static_cast<std::int64_t>(attrs.ints.size() / 2); }

/// Checks the wiring against the wires there are.
void expect_wiring(const Spec& x, const Attrs& attrs) {
  if (attrs.ints.size() % 2 == 0) refuse("needs the rows of coefficients, then two wires a gate");
  const auto rows = attrs.ints[0], count = gate_count(attrs);
  if (rows < 0 || (rows == 0) != (count == 0) || (rows > 0 && count % rows != 0))
    refuse(std::to_string(count) + " gates are not a multiple of " + std::to_string(rows) + " rows of coefficients");
  if (x.shape[0] > std::numeric_limits<std::int32_t>::max()) refuse("too many wires in " + to_string(x));
  for (std::size_t i = 1; i < attrs.ints.size(); ++i)
    if (attrs.ints[i] < 0 || attrs.ints[i] >= x.shape[0])
      refuse("gate " + std::to_string((i - 1) / 2) + " reads wire " + std::to_string(attrs.ints[i]) + ", x is " +
             to_string(x));
}

void expect_coefficients(const Spec& x, const Spec& coefficients, const Attrs& attrs) {
  const Spec want{x.dtype, {attrs.ints.empty() ? 0 : attrs.ints[0], 4}};
  if (!(coefficients == want) || attrs.ints.empty())
    refuse("the coefficients must be " + std::string(name_of(x.dtype)) + "[gates,4], are " + to_string(coefficients));
}

void expect_outputs(const Spec& x, const Spec& g, const Attrs& attrs) {
  const Spec want{x.dtype, {gate_count(attrs), x.shape[1]}};
  if (!(g == want)) refuse("the gradient must be " + to_string(want) + ", is " + to_string(g));
}

Spec infer_gates(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_wires(in[0], "x");
  expect_coefficients(in[0], in[1], attrs);
  expect_wiring(in[0], attrs);
  return {in[0].dtype, {gate_count(attrs), in[0].shape[1]}};
}

/// Cell by cell.
AxisMap gates_axes(const Spec&, std::span<const Spec>, const Attrs&) { return {{{kWhole, 1}, {kWhole, kWhole}}}; }

Tensor grad_x(const Tensor& x, const Tensor& coefficients, const Tensor& g, const Attrs& attrs) {
  return ir::apply(Op::gates_grad_x, {x, coefficients, g}, attrs, Location::current());
}

Tensor grad_coefficients(const Tensor& x, const Tensor& g, const Attrs& attrs) {
  return ir::apply(Op::gates_grad_coefficients, {x, g}, attrs, Location::current());
}

std::vector<Tensor> gradient_of_gates(const Gradient& of) {
  return {grad_x(of.in[0], of.in[1], of.g, of.attrs), grad_coefficients(of.in[0], of.g, of.attrs)};
}

// gates_grad_x(x, coefficients, g): for each wire, the sum of g (c1 + c3 b) where it is a and g (c2 + c3 a) where it is
// b
Spec infer_grad_x(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 3);
  infer_gates(in.first(2), attrs);
  expect_outputs(in[0], in[2], attrs);
  return in[0];
}

AxisMap grad_x_axes(const Spec&, std::span<const Spec>, const Attrs&) {
  return {{{kWhole, 1}, {kWhole, kWhole}, {kWhole, 1}}};
}

/// The wires a (side 0) or b (side 1) of every gate.
Tensor gathered(const Tensor& x, const Attrs& attrs, std::size_t side) {
  std::vector<std::int32_t> wires;
  for (std::size_t i = 1 + side; i < attrs.ints.size(); i += 2)
    wires.push_back(static_cast<std::int32_t>(attrs.ints[i]));
  const auto count = static_cast<std::int64_t>(wires.size());
  return gather(x, Tensor(Array::from(wires, {count})), 0);
}

/// One coefficient of every gate, [gates, 1].
Tensor column(const Tensor& coefficients, const Attrs& attrs, int index) {
  const auto rows = attrs.ints[0], count = gate_count(attrs);
  const Tensor c = reshape(slice(coefficients, 1, index, index + 1), {1, rows});
  return reshape(broadcast_to(c, {rows ? count / rows : 0, rows}), {count, 1});
}

/// A column [gates, 1] back to its place among the coefficients, summed over the gates of each row.
Tensor as_column(const Tensor& sums, const Attrs& attrs, int index) {
  const auto rows = attrs.ints[0], count = gate_count(attrs);
  const Tensor c = sum(reshape(sums, {rows ? count / rows : 0, rows}), 0);
  return pad(reshape(c, {rows, 1}), {0, index}, {0, 3 - index});
}

// With h the gradient that comes in: d/dg is the derivative of the gates along h; what depends on c3 alone is gates'
// own gradient at h.
std::vector<Tensor> gradient_of_grad_x(const Gradient& of) {
  const Tensor &x = of.in[0], &c = of.in[1], &g = of.in[2], &h = of.g;
  const Tensor a = gathered(x, of.attrs, 0), b = gathered(x, of.attrs, 1);
  const Tensor ha = gathered(h, of.attrs, 0), hb = gathered(h, of.attrs, 1);
  const Tensor c1 = column(c, of.attrs, 1), c2 = column(c, of.attrs, 2), c3 = column(c, of.attrs, 3);
  const Tensor cross = b * ha + a * hb;
  const Tensor only_c3 = pad(slice(c, 1, 3, 4), {0, 3}, {0, 0});
  const Tensor by_c = as_column(sum(g * ha, 1, Keep::yes), of.attrs, 1) +
                      as_column(sum(g * hb, 1, Keep::yes), of.attrs, 2) +
                      as_column(sum(g * cross, 1, Keep::yes), of.attrs, 3);
  return {grad_x(h, only_c3, g, of.attrs), by_c, c1 * ha + c2 * hb + c3 * cross};
}

// gates_grad_coefficients(x, g): for each row, the sums over its gates and all cells of g, g a, g b and g ab
Spec infer_grad_coefficients(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 2);
  expect_wires(in[0], "x");
  expect_wiring(in[0], attrs);
  expect_outputs(in[0], in[1], attrs);
  return {in[0].dtype, {attrs.ints[0], 4}};
}

AxisMap grad_coefficients_axes(const Spec&, std::span<const Spec>, const Attrs&) {
  return {{{kWhole, AxisTo::reduced()}, {kWhole, AxisTo::reduced()}}};
}

std::vector<Tensor> gradient_of_grad_coefficients(const Gradient& of) {
  return {grad_x(of.in[0], of.g, of.in[1], of.attrs),
          ir::apply(Op::gates, {of.in[0], of.g}, of.attrs, Location::current())};
}

// gates_grad(x, coefficients, g): both of them; the walk over the wires is the same
Spec infer_further_grad(int, std::span<const Spec> in, const Attrs& attrs) {
  const Spec of[] = {in[0], in[2]};
  return infer_grad_coefficients(of, attrs);
}

AxisMap further_grad_axes(int, const Spec&, std::span<const Spec>, const Attrs&) {
  return {{{kWhole, AxisTo::reduced()}, {kWhole, kWhole}, {kWhole, AxisTo::reduced()}}};
}

constexpr ir::FurtherResults kFurtherGrad{1, infer_further_grad, further_grad_axes};

// ---- neighbours ----
// ints: height, width, 1 if the border wraps

void expect_grids(const Spec& x, const Attrs& attrs) {
  expect_ints(attrs, 3);
  if (x.shape.rank() != 2) refuse("x must be [channels, cells], is " + to_string(x));
  expect_floating(x, "x");
  const auto height = attrs.ints[0], width = attrs.ints[1];
  if (height < 1 || width < 1 || height > (1 << 20) || width > (1 << 20))
    refuse("a grid of " + std::to_string(height) + " x " + std::to_string(width) + " cells");
  if (x.shape[1] % (height * width) != 0)
    refuse(std::to_string(x.shape[1]) + " cells are not a number of grids of " + std::to_string(height) + " x " +
           std::to_string(width));
}

Spec infer_neighbours(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_grids(in[0], attrs);
  return {in[0].dtype, expect_sizes({in[0].shape[0] * 9, in[0].shape[1]})};
}

/// A cell needs cells of other strips, but any part of the result can be made from the whole.
AxisMap neighbours_axes(const Spec&, std::span<const Spec>, const Attrs&) { return {{{kWhole, kWhole}}, {1}}; }

std::vector<Tensor> gradient_of_neighbours(const Gradient& of) {
  return {ir::apply(Op::neighbours_sum, {of.g}, of.attrs, Location::current())};
}

// neighbours_sum(patches): for each cell, the sum of what the nine neighbourhoods it is in hold for it
Spec infer_neighbours_sum(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  expect_grids(in[0], attrs);
  if (in[0].shape[0] % 9 != 0) refuse("the patches must be [channels * 9, cells], are " + to_string(in[0]));
  return {in[0].dtype, {in[0].shape[0] / 9, in[0].shape[1]}};
}

std::vector<Tensor> gradient_of_neighbours_sum(const Gradient& of) {
  return {ir::apply(Op::neighbours, {of.g}, of.attrs, Location::current())};
}

/// So many operations a gate and cell.
template <int each>
double gate_flops(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  return each * static_cast<double>(in[0].shape[1] * gate_count(attrs));
}

/// Vectors run over cells; kernels hold up to four vectors of 16 cells in registers.
template <int each>
constexpr ir::Traits kGateTraits{.arithmetic = true, .rows_together = 16, .most_rows = 64, .flops = gate_flops<each>};

const OpDef kOpDefs[] = {
    {Op::gates, "gates", infer_gates, gates_axes, gradient_of_gates, "a layer of mixed logic gates on [wires, cells]",
     nullptr, kGateTraits<6>},
    {Op::gates_grad_x, "gates_grad_x", infer_grad_x, grad_x_axes, gradient_of_grad_x,
     "the adjoint of gates in its wires", nullptr, kGateTraits<8>},
    {Op::gates_grad_coefficients, "gates_grad_coefficients", infer_grad_coefficients, grad_coefficients_axes,
     gradient_of_grad_coefficients, "the adjoint of gates in its coefficients", nullptr, kGateTraits<7>},
    {Op::gates_grad, "gates_grad", infer_grad_x, grad_x_axes, never_differentiated,
     "the adjoints of gates in its wires and, result 1, in its coefficients", &kFurtherGrad, kGateTraits<15>},
    {Op::neighbours, "neighbours", infer_neighbours, neighbours_axes, gradient_of_neighbours,
     "the 3x3 neighbourhoods of the cells of grids"},
    {Op::neighbours_sum, "neighbours_sum", infer_neighbours_sum, neighbours_axes, gradient_of_neighbours_sum,
     "the adjoint of neighbours"},
};

}  // namespace

std::span<const OpDef> gate_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
