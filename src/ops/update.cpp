// Updates of parameters, generated from updates.def. Values have one shape, numbers one element; every result is like
// the values.
#include "ops/update.h"

#include "ops/define.h"

namespace wr::ops {
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

}  // namespace

std::span<const OpDef> update_ops() {
  static const OpDef ops[] = {
#define WINDROW_UPDATE(name, ...) define<Update::name>(Op::name),
#include "ir/updates.def"
  };
  return ops;
}

}  // namespace wr::ops
