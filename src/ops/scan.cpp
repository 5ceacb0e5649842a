// scan: a body that is run once a moment, one op whatever the number of moments. Its type and axes follow from its
// body's; its gradient is a scan in the other direction, whose body computes a moment again and then its gradient.
#include "ir/scan.h"

#include "ops/define.h"
#include "ops/scan.h"

namespace wr::ops {
namespace {

using ir::Graph;
using ir::ScanForm;

std::int64_t number(std::size_t n) { return static_cast<std::int64_t>(n); }

Spec with_time(const Spec& spec, std::int64_t moments) {
  Spec out{spec.dtype, {}};
  out.shape.push_back(moments);
  for (auto n : spec.shape) out.shape.push_back(n);
  return out;
}

Spec result_spec(const ScanForm& form, const Graph& body, int result) {
  const Spec& spec = body[body.outputs[result]].spec;
  if (!form.has_time(result)) return spec;
  if (spec.shape.rank() == kMaxRank)
    refuse("a value of " + std::to_string(kMaxRank) + " axes cannot have one more, of moments");
  return with_time(spec, form.steps + (form.is_carry(result) ? 1 : 0));
}

void expect_body(const ScanForm& form, const Graph& body, std::size_t operands) {
  const auto fixed = static_cast<std::size_t>(form.carries + form.sequences);
  if (body.inputs.size() != operands || operands < fixed)
    refuse("the body has " + std::to_string(body.inputs.size()) + " inputs, there are " + std::to_string(operands) +
           " operands, " + std::to_string(fixed) + " of them carried values and sequences");
  if (number(body.outputs.size()) != form.results())
    refuse("the body has " + std::to_string(body.outputs.size()) + " outputs, expected " +
           std::to_string(form.results()));
  if (!body.updates.empty()) refuse("the body assigns to a state");
  for (int id = 0; id < body.size(); ++id)
    if (body[id].op == Op::state || body[id].op == Op::random)
      refuse("the body has a " + std::string(ir::definition(body[id].op).name) + " in it");
}

Spec infer_scan(std::span<const Spec> in, const Attrs& attrs) {
  const ScanForm form = ScanForm::of(attrs);
  if (!attrs.body) refuse("there is no body");
  const Graph& body = *attrs.body;
  expect_body(form, body, in.size());
  for (int k = 0; k < static_cast<int>(in.size()); ++k) {
    const Spec& inside = body[body.inputs[k]].spec;
    const bool sequence = k >= form.carries && k < form.carries + form.sequences;
    if (sequence && inside.shape.rank() == kMaxRank) refuse("a moment of a sequence has too many axes");
    const Spec want = sequence ? with_time(inside, form.steps) : inside;
    if (!(in[k] == want))
      refuse("operand " + std::to_string(k) + " must be " + to_string(want) + ", is " + to_string(in[k]));
  }
  for (std::size_t c = 0; c < static_cast<std::size_t>(form.carries); ++c)
    if (!(body[body.outputs[c]].spec == in[c]))
      refuse("carried value " + std::to_string(c) + " is " + to_string(in[c]) + " before a moment and " +
             to_string(body[body.outputs[c]].spec) + " after it");
  for (int r = 1; r < form.results(); ++r) result_spec(form, body, r);
  return result_spec(form, body, 0);
}

Spec infer_further(int result, std::span<const Spec>, const Attrs& attrs) {
  return result_spec(ScanForm::of(attrs), *attrs.body, result);
}

AxisMap axes_of_scan(int result, std::span<const Spec> in, const Attrs& attrs) {
  const ScanForm form = ScanForm::of(attrs);
  const Graph& body = *attrs.body;
  AxisMap map;
  for (const Spec& spec : in) map.operand.emplace_back(spec.shape.rank(), kWhole);
  const auto& rows = ir::scan_axes(attrs).rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const AxisTo made = rows[i].node[body.outputs[result]];
    const AxisTo to = made.is_reduced() ? AxisTo::reduced(static_cast<int>(i))
                                        : AxisTo(made.axis() + (form.has_time(result) ? 1 : 0));
    for (int k = 0; k < static_cast<int>(in.size()); ++k) {
      const AxisTo of = rows[i].node[body.inputs[k]];
      if (!of.is_along()) continue;
      const int moments = k >= form.carries && k < form.carries + form.sequences ? 1 : 0;
      map.operand[k][of.axis() + moments] = to;
    }
  }
  return map;
}

AxisMap first_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) { return axes_of_scan(0, in, attrs); }
AxisMap further_axes(int result, const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  return axes_of_scan(result, in, attrs);
}
int count_further(const Attrs& attrs) { return ScanForm::of(attrs).results() - 1; }

constexpr ir::FurtherResults kFurther{0, infer_further, further_axes, count_further};

double scan_flops(const Spec&, std::span<const Spec>, const Attrs& attrs) {
  double flops = 0;
  for (int id = 0; id < attrs.body->size(); ++id) flops += ir::flops_of(*attrs.body, (*attrs.body)[id]);
  return flops * static_cast<double>(attrs.ints[0]);
}

const OpDef kOpDefs[] = {
    {Op::scan,
     "scan",
     infer_scan,
     first_axes,
     gradient_of_scan,
     "a body run once a moment on values that it hands on; the carried values, what it gives at each moment, and sums",
     &kFurther,
     {.arithmetic = true, .flops = scan_flops}},
};

}  // namespace

std::span<const OpDef> scan_ops() { return kOpDefs; }

}  // namespace wr::ops
