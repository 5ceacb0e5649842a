// Tables of all ops from their definitions: elementwise.def and the families of src/ops. What the definitions do not
// say, how the other ops are called, stands here; an op that is missing here is an error, which a test finds.
#include "cli/ops.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "base/json.h"
#include "ops/define.h"
#include "ops/formula.h"

namespace wr::cli {
namespace {

using ir::Op;

// ---- elementwise ----

struct Source {
  const char* operands;
  const char* formula;
  std::initializer_list<const char*> gradients;
};

const Source kSources[] = {
#define WINDROW_UNARY(name, types, doc, formula, dx, ...) {"x", #formula, {#dx}},
#define WINDROW_BINARY(name, types, doc, formula, da, db, ...) {"a, b", #formula, {#da, #db}},
#define WINDROW_TERNARY(name, types, doc, formula, da, db, dc, ...) {"a, b, c", #formula, {#da, #db, #dc}},
#define WINDROW_QUINARY(name, types, doc, formula, da, db, dc, dd, de, ...) \
  {"a, b, c, d, e", #formula, {#da, #db, #dc, #dd, #de}},
#define WINDROW_COMPARE(name, doc, formula) {"a, b", #formula, {}},
#define WINDROW_LOGIC(name, doc, formula) {"a, b", #formula, {}},
#include "windrow/elementwise.def"
};

/// Text that may stand in a cell.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string types_text(const ops::Row& row) {
  switch (row.types) {
    case ops::Types::floats:
      return "f32 f64";
    case ops::Types::numbers:
      return row.to_bool ? "f32 f64 i32 to bool" : "f32 f64 i32";
    case ops::Types::booleans:
      return "bool";
  }
  return "";
}

std::string gradient_text(const Source& source) {
  std::string out;
  bool any = false;
  for (const char* g : source.gradients) {
    const bool none = std::string_view(g) == "NO_GRADIENT";
    any |= !none;
    out += (out.empty() ? "" : "; ") + (none ? std::string("none") : "`" + cell(g) + "`");
  }
  return any ? out : "no";
}

std::string bound_text(const ops::Row& row) {
  if (row.to_bool || row.types == ops::Types::booleans || row.tolerance == 0) return "exact";
  return fmt::format("{:g}{}", row.tolerance, row.absolute ? " (absolute)" : "");
}

void print_elementwise() {
  fmt::print(
      "## Elementwise\n"
      "Traced `exp(x)`, `add(a, b)`; eager `exp(dst, x)`, `add(dst, a, b)`, `exp(x)`, `add(a, b)`. Operands broadcast; "
      "where there "
      "are several, numbers may stand for some. The operators `+ - * / < <= > >=` and unary `-` are add, sub, mul, "
      "div, lt, le, gt, "
      "ge and neg; arrays also have `+= -= *= /=`, in place.\n\n"
      "Gradients are of each operand in turn, over the operands, the result `y` and its gradient `g`. The error bound "
      "is on the f32 "
      "kernels, in units of 2^-24 of the result (of 2^-53 for f64); an absolute one is in units of max(1, "
      "|result|).\n\n"
      "| op | types | meaning | formula | gradient | error bound |\n|---|---|---|---|---|---|\n");
  const auto rows = ops::elementwise_rows();
  for (std::size_t i = 0; i < rows.size(); ++i)
    fmt::print("| {}({}) | {} | {} | `{}` | {} | {} |\n", rows[i].name, kSources[i].operands, types_text(rows[i]),
               cell(rows[i].doc), cell(kSources[i].formula), gradient_text(kSources[i]), bound_text(rows[i]));
}

// ---- the other ops ----

struct Form {
  Op op;
  const char* traced;  // nullptr: made by gradients, passes or the planner, not called by users
  const char* eager;   // nullptr: none
  const char* types;
};

constexpr const char* kAny = "any";
constexpr const char* kFloats = "f32 f64";
constexpr const char* kNumbers = "f32 f64 i32";
constexpr const char* kIndexed = "any, indices i32";

const Form kForms[] = {
    {Op::where, "where(condition, yes, no)", "where(dst, condition, yes, no)", "bool, then any"},
    {Op::cast, "cast(x, dtype)", "cast(dst, x)", "any to any"},
    {Op::input, "compile(fn, specs)", nullptr, kAny},
    {Op::state, "State", nullptr, kAny},
    {Op::constant, "Tensor(array), full(shape, value, dtype)", "fill(dst, value)", kAny},
    {Op::iota, "iota(shape, axis, dtype)", "Array::arange", kNumbers},
    {Op::reduce_sum, "sum(x, axes, keep)", "sum(dst, x, axes, keep)", kNumbers},
    {Op::reduce_max, "max(x, axes, keep)", "max(dst, x, axes, keep)", kNumbers},
    {Op::reduce_min, "min(x, axes, keep)", "min(dst, x, axes, keep)", kNumbers},
    {Op::reduce_prod, "prod(x, axes, keep)", "prod(dst, x, axes, keep)", kNumbers},
    {Op::reduce_argmax, "argmax(x, axes, keep)", "argmax(dst, x, axes, keep)", "f32 f64 i32 to i32"},
    {Op::reduce_argmin, "argmin(x, axes, keep)", "argmin(dst, x, axes, keep)", "f32 f64 i32 to i32"},
    {Op::einsum, "einsum(\"bi,io->bo\", {x, w})", "einsum(dst, \"bi,io->bo\", {x, w})", kFloats},
    {Op::contract, "contract(\"xy,yz->xz\", a, b, Semiring::max_product)",
     "contract(dst, \"xy,yz->xz\", a, b, Semiring::max_product)", kFloats},
    {Op::contract_share, nullptr, nullptr, kFloats},
    {Op::contract_grad, nullptr, nullptr, kFloats},
    {Op::reshape, "reshape(x, shape), flatten, expand_dims, squeeze", "x.reshape(shape), flatten, expand_dims, squeeze",
     kAny},
    {Op::permute, "permute(x, order), transpose(x)", "x.permute(order), x.transpose()", kAny},
    {Op::broadcast, "broadcast_to(x, shape)", "x.broadcast_to(shape)", kAny},
    {Op::slice, "slice(x, axis, start, stop, step)", "x.slice(axis, start, stop, step)", kAny},
    {Op::concat, "concat({a, b}, axis)", "concat(dst, {a, b}, axis)", kAny},
    {Op::pad, "pad(x, before, after, value)", "pad(dst, x, before, after, value)", kAny},
    {Op::gather, "gather(x, indices, axis)", "gather(dst, x, indices, axis)", kIndexed},
    {Op::scatter_add, "scatter_add(base, indices, updates, axis)", "scatter_add(dst, base, indices, updates, axis)",
     "f32 f64 i32, indices i32"},
    {Op::take_along, "take_along(x, indices, axis)", "take_along(dst, x, indices, axis)", kIndexed},
    {Op::put_along, nullptr, nullptr, kIndexed},
    {Op::one_hot, "one_hot(indices, classes, dtype)", "one_hot(dst, indices)", "i32 to any"},
    {Op::embedding_sum, "embedding_sum(table, indices)", "embedding_sum(dst, table, indices)", "f32 f64, indices i32"},
    {Op::embedding_grad, nullptr, nullptr, "f32 f64, indices i32"},
    {Op::index_order, nullptr, nullptr, "i32"},
    {Op::unfold, "unfold(x, window)", "unfold(dst, x, window)", kFloats},
    {Op::fold, "fold(patches, image, window)", "fold(dst, patches, window)", kFloats},
    {Op::max_pool_pick, "max_pool(x, size, stride), max_pool(x, window)",
     "max_pool(dst, x, size, stride), max_pool(dst, x, window)", kFloats},
    {Op::max_pool_scatter, nullptr, nullptr, kFloats},
    {Op::conv, "conv2d(x, weights, options), conv1d", "conv2d(dst, x, weights, options), conv1d", kFloats},
    {Op::conv_grad_x, "conv_transpose2d(x, weights, options)", "conv_transpose2d(dst, x, weights, options)", kFloats},
    {Op::conv_grad_w, nullptr, nullptr, kFloats},
    {Op::gates, "gates(x, coefficients, wiring)", nullptr, kFloats},
    {Op::gates_grad_x, nullptr, nullptr, kFloats},
    {Op::gates_grad_coefficients, nullptr, nullptr, kFloats},
    {Op::gates_grad, nullptr, nullptr, kFloats},
    {Op::neighbours, "neighbours(x, height, width, border)", nullptr, kFloats},
    {Op::neighbours_sum, nullptr, nullptr, kFloats},
    {Op::lstm, "lstm(gates, w_h, h, c, options)", nullptr, kFloats},
    {Op::lstm_grad, nullptr, nullptr, kFloats},
    {Op::gru, "gru(gates, w_h, b_h, h, options)", nullptr, kFloats},
    {Op::gru_grad, nullptr, nullptr, kFloats},
    {Op::softmax, "softmax(x)", "softmax(dst, x)", kFloats},
    {Op::softmax_grad, nullptr, "gradient(dst, softmax, x, g)", kFloats},
    {Op::log_softmax, "log_softmax(x)", "log_softmax(dst, x)", kFloats},
    {Op::log_softmax_grad, nullptr, "gradient(dst, log_softmax, x, g)", kFloats},
    {Op::logsumexp, "logsumexp(x, -1, keep)", "logsumexp(dst, x, -1, keep)", kFloats},
    {Op::logsumexp_grad, nullptr, nullptr, kFloats},
    {Op::cross_entropy, "cross_entropy_of_rows(logits, labels)", nullptr, "f32 f64, labels i32"},
    {Op::cross_entropy_grad, nullptr, nullptr, "f32 f64, labels i32"},
    {Op::layer_norm, "layer_norm(x, scale, shift, epsilon)", "layer_norm(dst, x, scale, shift, epsilon)", kFloats},
    {Op::layer_norm_grad, nullptr, nullptr, kFloats},
    {Op::rms_norm, "rms_norm(x, scale, epsilon)", "rms_norm(dst, x, scale, epsilon)", kFloats},
    {Op::rms_norm_grad, nullptr, nullptr, kFloats},
    {Op::attention, "attention(q, k, v, form), nn::Attention", nullptr, kFloats},
    {Op::attention_grad, nullptr, nullptr, kFloats},
    {Op::random, "Random::uniform, normal, bernoulli", nullptr, "f32 f64 bool"},
    {Op::stop_gradient, "stop_gradient(x)", nullptr, kAny},
    {Op::custom_gradient, "custom_gradient(value, arguments, rule)", nullptr, kAny},
    {Op::scan, "scan(body, carry, sequences, options), repeat(n, body, carry)", nullptr, kAny},
    {Op::result, nullptr, nullptr, kAny},
    {Op::lane_sum, nullptr, nullptr, kFloats},
};

const Form& form_of(Op op) {
  for (const Form& form : kForms)
    if (form.op == op) return form;
  static const Form update{Op::cast, nullptr, nullptr, kFloats};
  static const Form sparse_adam{Op::cast, "sparse_adam_step(parameter, ...)", nullptr, kFloats};
  if (op == Op::adam_update_rows) return sparse_adam;
  if (ir::is_update(op) || ir::is_update_of_rows(op)) return update;
  throw Error("op " + std::string(ir::definition(op).name) + " has no row in cli/ops.cpp");
}

std::string code(const char* text, const char* otherwise) { return text ? "`" + cell(text) + "`" : otherwise; }

void print_structured() {
  fmt::print(
      "\n## All other ops\n"
      "Every eager function with a `dst` also has a form without it that returns the result; `x.` ones are views.\n\n"
      "| op | traced | eager | types | meaning | gradient |\n|---|---|---|---|---|---|\n");
  for (int i = static_cast<int>(Op::where); i < ir::kOps; ++i) {
    const ir::OpDef& def = ir::definition(static_cast<Op>(i));
    const Form& form = form_of(def.op);
    fmt::print("| {} | {} | {} | {} | {} | {} |\n", def.name, code(form.traced, "(internal)"), code(form.eager, ""),
               form.types, cell(def.doc),
               def.gradient == ops::no_gradient || def.gradient == ops::never_differentiated ? "no" : "yes");
  }
}

// ---- compositions ----

struct Composition {
  const char *traced, *eager, *meaning;
};

const Composition kCompositions[] = {
    {"logical_not(x)", "logical_not(dst, x)", "true where x is false"},
    {"mean(x, axes, keep)", "mean(dst, x, axes, keep)", "sum over axes divided by their size"},
    {"variance(x, axes, keep)", "variance(dst, x, axes, keep)", "mean of the squared distance from the mean"},
    {"logsumexp(x, axes, keep)", "logsumexp(dst, x, axes, keep)",
     "log(sum(exp(x))), without overflow; along the last axis one op"},
    {nullptr, "norm(dst, x, axes, keep)", "square root of the sum of squares"},
    {nullptr, "dot(dst, a, b)", "sum of the products of two vectors"},
    {nullptr, "add_scaled(dst, a, b, alpha)", "a + alpha * b, as one formula"},
    {"matmul(a, b)", "matmul(dst, a, b)", "matrix product of the last two axes; leading axes broadcast"},
    {"matmul_nt(a, b)", "matmul_nt(dst, a, b)", "the same with b given transposed"},
    {"matmul_tn(a, b)", "matmul_tn(dst, a, b)", "the same with a given transposed"},
    {"stack({a, b}, axis)", "stack(dst, {a, b}, axis)", "one after the other along a new axis"},
    {"conv1d(x, weights, options)", "conv1d(dst, x, weights, options)", "convolution of [b,t,c] with [k,c,o]"},
    {"conv2d(x, weights, options)", "conv2d(dst, x, weights, options)", "convolution of [b,h,w,c] with [kh,kw,c,o]"},
    {"conv_transpose2d(x, weights, options)", "conv_transpose2d(dst, x, weights, options)",
     "the adjoint of conv2d in its image: [b,h,w,c] with [c,kh,kw,o]"},
    {"avg_pool(x, size, stride), avg_pool(x, window)", "avg_pool(dst, x, size, stride), avg_pool(dst, x, window)",
     "mean of each window"},
    {"softmax(x, axis)", "softmax(dst, x, axis)", "exp(x) / sum(exp(x)), without overflow; along the last axis one op"},
    {"log_softmax(x, axis)", "log_softmax(dst, x, axis)", "x - logsumexp(x); along the last axis one op"},
    {"gate_coefficients(logits)", nullptr, "softmax over sixteen Boolean functions, as four coefficients a gate"},
    {"batch_norm(x, scale, shift, epsilon)", "batch_norm(dst, x, scale, shift, epsilon)",
     "(x - mean) / sqrt(variance + epsilon) over all axes but the last, times scale, plus shift"},
    {"group_norm(x, groups, scale, shift, epsilon)", "group_norm(dst, x, groups, scale, shift, epsilon)",
     "the same for each sample over its positions and the features of a group"},
    {"instance_norm(x, scale, shift, epsilon)", "instance_norm(dst, x, scale, shift, epsilon)",
     "the same for each feature of each sample over its positions"},
    {"standardise(x, axes, epsilon)", nullptr, "(x - mean) / sqrt(variance + epsilon) over axes"},
    {"dropout(x, probability, random)", "dropout(dst, x, probability, seed)",
     "0 with the given probability, else x / (1 - probability)"},
    {"cross_entropy(logits, labels)", "cross_entropy(dst, logits, labels)", "mean of -log softmax(logits)[label]"},
    {"mse(prediction, target)", "mse(dst, prediction, target)", "mean squared difference"},
    {"huber(prediction, target, delta)", "huber(dst, prediction, target, delta)",
     "squared where the difference is below delta, linear beyond; not reduced"},
    {"grad(loss, {x})", "gradient(dst, op, x, g), gradient(dst, op, a, b, g)",
     "g times the derivative of an elementwise op, by its first operand: gradient(dst, tanh, x, g)"},
    {"grad(loss, {x})", "gradient(dst, softmax, x, g, axis)", "the same for softmax and log_softmax"},
    {"grad(loss, {x})", "conv2d_image_gradient(dst, g, weights, options)",
     "of a convolution by its image; also conv1d_, conv_transpose2d_"},
    {"grad(loss, {weights})", "conv2d_weights_gradient(dst, x, g, options)",
     "of a convolution by its weights; also conv1d_, conv_transpose2d_"},
    {"grad(loss, {x})", "max_pool_gradient(dst, x, g, window), avg_pool_gradient(dst, g, window)", "of the pools"},
    {nullptr, "copy(dst, x)", "x broadcast and converted to dst"},
    {nullptr, "apply(dst, x, f)", "a user's function of each element, in double: a plain loop, slow"},
};

void print_compositions() {
  fmt::print(
      "\n## Compositions\n"
      "Made of the ops above, fused by the plan; gradients follow from theirs. Kept by hand in cli/ops.cpp.\n\n"
      "| traced | eager | meaning |\n|---|---|---|\n");
  for (const Composition& c : kCompositions)
    fmt::print("| {} | {} | {} |\n", code(c.traced, ""), code(c.eager, ""), cell(c.meaning));
}

// ---- names ----

struct Name {
  const char *elsewhere, *here;
};

const Name kNames[] = {
    {"scalar forms: add a number, multiply by one", "any elementwise op: `mul(dst, x, 0.5)`"},
    {"in-place forms: `x.add_(y)`", "the operand as its destination: `add(x, x, y)`, or `x += y`"},
    {"axpy", "`add_scaled(dst, a, b, alpha)`"},
    {"swish", "`silu`"},
    {"clip", "`clamp(dst, x, low, high)`"},
    {"gemm with transposed operands", "`matmul`, `matmul_nt`, `matmul_tn`"},
    {"dot, vector and matrix norms", "`dot`, `norm(dst, x, axes)`"},
    {"im2col, col2im", "`unfold`, `fold`"},
    {"global average and max pool", "`mean(dst, x, {1, 2})`, `max(dst, x, {1, 2})`"},
    {"deconvolution, transposed convolution", "`conv_transpose2d`"},
    {"depthwise and grouped convolution", "`conv2d` with `ConvOptions::groups`"},
    {"relu_backward, sigmoid_backward, ...", "`gradient(dst, relu, x, g)`"},
    {"softmax_backward", "`gradient(dst, softmax, x, g)`"},
    {"conv backward by data, by filter", "`conv2d_image_gradient`, `conv2d_weights_gradient`"},
    {"map, vectorise: a function of one's own", "`apply(dst, x, f)`; in a step, ops and `custom_gradient`"},
    {"reshape, slice, permute, transpose, broadcast", "views of `Array`: nothing is copied, no destination"},
    {"index_add", "`scatter_add`"},
    {"index_select, embedding", "`gather`"},
};

void print_names() {
  fmt::print(
      "\n## Which function is which\n"
      "What other libraries call it, and what it is called here.\n\n"
      "| there | here |\n|---|---|\n");
  for (const Name& n : kNames) fmt::print("| {} | {} |\n", n.elsewhere, n.here);
}

/// One object a line: its name, types, meaning, how it is called (null: by nobody), whether it has a gradient.
int ops_json() {
  const auto or_null = [](const char* text) { return text ? Json(text) : Json(); };
  const auto rows = ops::elementwise_rows();
  for (std::size_t i = 0; i < rows.size(); ++i)
    fmt::print("{}\n", Json{{"op", rows[i].name},
                            {"types", types_text(rows[i])},
                            {"meaning", rows[i].doc},
                            {"traced", fmt::format("{}({})", rows[i].name, kSources[i].operands)},
                            {"eager", fmt::format("{}(dst, {})", rows[i].name, kSources[i].operands)},
                            {"gradient", gradient_text(kSources[i]) != "no"}}
                           .dump());
  for (int i = static_cast<int>(Op::where); i < ir::kOps; ++i) {
    const ir::OpDef& def = ir::definition(static_cast<Op>(i));
    const Form& form = form_of(def.op);
    const bool none = def.gradient == ops::no_gradient || def.gradient == ops::never_differentiated;
    fmt::print("{}\n", Json{{"op", def.name},
                            {"types", form.types},
                            {"meaning", def.doc},
                            {"traced", or_null(form.traced)},
                            {"eager", or_null(form.eager)},
                            {"gradient", !none}}
                           .dump());
  }
  return 0;
}

}  // namespace

int ops(bool json) {
  if (json) return ops_json();
  fmt::print(
      "# Every op\n"
      "Made by `windrow ops > docs/ops.md` from the ops' definitions; do not edit (a test compares).\n\n"
      "A traced function works on `Tensor` while a step is traced (tensor.h); an eager one computes at once on `Array` "
      "(ops.h).\n\n");
  print_elementwise();
  print_structured();
  print_compositions();
  print_names();
  return 0;
}

}  // namespace wr::cli
