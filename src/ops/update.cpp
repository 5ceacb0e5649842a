// Updates of parameters, generated from updates.def. Values have one shape, numbers one element; every result is like
// the values. Those of rows have instead of a gradient like the values: an index_order and the rows that go there.
#include "ops/update.h"

#include "ops/define.h"

namespace wr {
namespace {

/// A table's gradient as lookups make it: row r of `rows` is to be added at each of indices[r].
struct Lookups {
  Tensor indices, rows;  // [count, terms], [count, width]
};

/// The same with one index a row.
Lookups one_by_one(const Lookups& of, Location where) {
  const auto count = of.indices.size(0), terms = of.indices.size(1), width = of.rows.size(1);
  const Tensor repeated = broadcast_to(reshape(of.rows, {count, 1, width}, where), {count, terms, width}, where);
  return {reshape(of.indices, {count * terms, 1}, where), reshape(repeated, {count * terms, width}, where)};
}

Lookups lookups_of(const Tensor& gradient, Location where) {
  const ir::Node node = (*gradient.graph())[gradient.node()];
  const auto operand = [&](std::size_t k) { return Tensor(gradient.graph(), node.inputs[k]); };
  if (node.op == ir::Op::embedding_grad) return {operand(0), operand(1)};
  if (node.op == ir::Op::reshape && operand(0).shape() == gradient.shape()) return lookups_of(operand(0), where);
  if (node.op == ir::Op::add && operand(0).shape() == operand(1).shape()) {
    Lookups a = lookups_of(operand(0), where), b = lookups_of(operand(1), where);
    if (a.indices.size(1) != b.indices.size(1)) {
      a = one_by_one(a, where);
      b = one_by_one(b, where);
    }
    return {concat({a.indices, b.indices}, 0, where), concat({a.rows, b.rows}, 0, where)};
  }
  fail(where,
       "sparse_adam_step: the gradient must be that of a table [entries, width] of which rows are looked up by " +
           std::string("gather along axis 0 or by embedding_sum, and by nothing else; it is made by ") +
           std::string(ir::definition(node.op).name));
}

}  // namespace

SparseAdamStep sparse_adam_step(const Tensor& parameter, const Tensor& mean, const Tensor& square,
                                const Tensor& gradient, const Tensor& rate, const Tensor& epsilon, double mean_share,
                                double square_share, Location where) {
  if (gradient.empty()) fail(where, "sparse_adam_step: the gradient is an empty Tensor");
  const Lookups found = lookups_of(gradient, where);
  const auto number = [&](double value) { return full({1, 1}, value, parameter.dtype(), where); };
  const Tensor order = ir::apply(ir::Op::index_order, {found.indices}, {}, where);
  const Tensor made =
      ir::apply(ir::Op::adam_update_rows,
                {parameter, mean, square, order, found.rows, rate, epsilon, number(mean_share), number(square_share)},
                {{found.indices.size(1), 1}, {}, {}}, where);
  const auto result = [&](std::int64_t number) { return ir::apply(ir::Op::result, {made}, {{number}, {}, {}}, where); };
  return {made, result(1), result(2)};
}

namespace ops {
namespace {

template <Update update>
Spec infer_update(std::span<const Spec> in, const Attrs&) {
  constexpr UpdateRow row = row_of(update);
  expect_operands(in, row.values + row.numbers);
  expect_floating(in[0], "the operands");
  for (std::size_t k = 1; k < in.size(); ++k) {
    const bool value = k < static_cast<std::size_t>(row.values);
    if (in[k].dtype != in[0].dtype || (value ? !(in[k].shape == in[0].shape) : in[k].shape.count() != 1))
      refuse("operand " + std::to_string(k) + " must be " + (value ? to_string(in[0]) : "a number of the same type") +
             ", is " + to_string(in[k]));
  }
  return in[0];
}

template <Update update>
Spec infer_further(int, std::span<const Spec> in, const Attrs&) {
  return in[0];
}

template <Update update>
AxisMap update_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  AxisMap map;
  for (std::size_t k = 0; k < in.size(); ++k) {
    Axes axes(in[k].shape.rank(), kWhole);
    if (k < static_cast<std::size_t>(row_of(update).values))
      for (int i = 0; i < axes.rank(); ++i) axes[i] = i;
    map.operand.push_back(axes);
  }
  return map;
}

template <Update update>
AxisMap further_axes(int, const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  return update_axes<update>(out, in, attrs);
}

[[noreturn]] std::vector<Tensor> no_gradient_of_rows(const Gradient&) {
  refuse("sparse_adam_step cannot be differentiated: no gradient can go through a table that SparseAdam has updated");
}

// ---- of rows: values but the gradient, an index_order, rows, numbers; ints are how many indices a row has, and 1 if
// only entries move that rows go to
template <Update update>
Spec infer_rows(std::span<const Spec> in, const Attrs& attrs) {
  constexpr UpdateRow row = row_of(update);
  constexpr auto kept = static_cast<std::size_t>(row.values) - 1;
  expect_operands(in, row.values + row.numbers + 1);
  expect_ints(attrs, 2);
  if (attrs.ints[0] < 1) refuse("a row needs an index");
  if (in[0].shape.rank() != 2) refuse("the table must have two axes, is " + to_string(in[0]));
  const Spec &order = in[kept], &rows = in[kept + 1];
  if (order.dtype != DType::i32 || order.shape.rank() != 2 || order.shape[0] != 2)
    refuse("the order must be i32[2,count], is " + to_string(order));
  if (rows.dtype != in[0].dtype || rows.shape.rank() != 2 || rows.shape[1] != in[0].shape[1] ||
      rows.shape[0] * attrs.ints[0] != order.shape[1])
    refuse("the rows must be as wide as the table and have " + std::to_string(attrs.ints[0]) +
           " indices each; they are " + to_string(rows) + " for " + to_string(in[0]) + " and " +
           std::to_string(order.shape[1]) + " indices");
  std::vector<Spec> plain(in.begin(), in.end());
  plain.erase(plain.begin() + kept);
  plain[kept] = in[0];
  return infer_update<update>(plain, attrs);
}

template <Update update>
AxisMap rows_axes(const Spec&, std::span<const Spec> in, const Attrs&) {
  AxisMap map;
  for (std::size_t k = 0; k < in.size(); ++k) {
    map.operand.emplace_back(in[k].shape.rank(), kWhole);
    if (k + 1 < static_cast<std::size_t>(row_of(update).values)) map.operand.back()[0] = 0;
  }
  return map;
}

template <Update update>
AxisMap further_rows_axes(int, const Spec& out, std::span<const Spec> in, const Attrs& attrs) {
  return rows_axes<update>(out, in, attrs);
}

template <Update update>
constexpr ir::FurtherResults kFurtherRows{row_of(update).result_count - 1, infer_further<update>,
                                          further_rows_axes<update>};

template <Update update>
constexpr ir::FurtherResults kFurther{row_of(update).result_count - 1, infer_further<update>, further_axes<update>};

template <Update update>
double update_flops(const Spec& out, std::span<const Spec>, const Attrs&) {
  return static_cast<double>(out.shape.count()) * row_of(update).ops;
}

template <Update update>
OpDef define(Op op) {
  constexpr UpdateRow row = row_of(update);
  return {op,
          row.name,
          infer_update<update>,
          update_axes<update>,
          never_differentiated,
          row.doc,
          row.result_count > 1 ? &kFurther<update> : nullptr,
          {.sweep = true, .heavy = row.cost >= kHeavyCost, .flops = update_flops<update>}};
}

template <Update update>
OpDef define_rows(Op op, std::string_view name, std::string_view doc) {
  return {op,
          name,
          infer_rows<update>,
          rows_axes<update>,
          no_gradient_of_rows,
          doc,
          row_of(update).result_count > 1 ? &kFurtherRows<update> : nullptr,
          {.in_place = true, .flops = update_flops<update>}};
}

}  // namespace

std::span<const OpDef> update_ops() {
  static const OpDef ops[] = {
#define WINDROW_UPDATE(name, ...) define<Update::name>(Op::name),
#include "ir/updates.def"
#define WINDROW_UPDATE(name, doc, ...) define_rows<Update::name>(Op::name##_rows, #name "_rows", doc ", of a table"),
#include "ir/updates.def"
  };
  return ops;
}

}  // namespace ops
}  // namespace wr
