// Random numbers from a counter: element e of run t of stream s depends on (seed, s, t, e) alone.
// attrs: ints seed, stream, type, sizes...; text the distribution; reals[0] the probability of bernoulli.
#include "ops/define.h"

namespace wr {

using ir::Op;

Random::Random(std::uint64_t seed) : seed_(seed), counter_(Array::full({}, 0, DType::i32), "random counter") {}

namespace {

Tensor draw(const Random& random, const char* distribution, double parameter, const Shape& shape, DType dtype,
            Location where) {
  auto graph = ir::current_graph();
  const auto& variable = random.counter().variable();
  const int start = graph->add_state(variable, where);
  if (graph->current(variable, where) == start)  // the first use in this trace: the run will advance the counter
    random.counter().assign(add(Operand(Tensor(graph, start), where), 1), where);
  return ops::draw_at(Tensor(graph, start), random.seed(), distribution, parameter, shape, dtype, where);
}

}  // namespace

Tensor Random::uniform(const Shape& shape, DType dtype, Location where) const {
  return draw(*this, "uniform", 0, shape, dtype, where);
}
Tensor Random::normal(const Shape& shape, DType dtype, Location where) const {
  return draw(*this, "normal", 0, shape, dtype, where);
}
Tensor Random::bernoulli(double probability, const Shape& shape, Location where) const {
  if (!(probability >= 0 && probability <= 1))
    fail(where, "bernoulli: the probability is " + std::to_string(probability));
  return draw(*this, "bernoulli", probability, shape, DType::boolean, where);
}

namespace ops {

Tensor draw_at(const Tensor& counter, std::uint64_t seed, const char* distribution, double parameter,
               const Shape& shape, DType dtype, Location where) try {
  Attrs attrs;
  std::vector<std::int64_t> ints{static_cast<std::int64_t>(seed), counter.graph()->random_streams++,
                                 static_cast<std::int64_t>(dtype)};
  ints.insert(ints.end(), shape.begin(), shape.end());
  attrs.ints = std::move(ints);
  attrs.reals = {parameter};
  attrs.text = distribution;
  return ir::apply(Op::random, {counter}, std::move(attrs), where);
} catch (const Error& error) {
  refuse_as(distribution, where, error);
}

namespace {

Spec infer_random(std::span<const Spec> in, const Attrs& attrs) {
  expect_operands(in, 1);
  if (!(in[0] == Spec{DType::i32, {}})) refuse("the counter must be i32[], is " + to_string(in[0]));
  if (attrs.ints.size() < 3 || attrs.reals.size() != 1) refuse("needs seed, stream, type and shape");
  const Spec out{expect_dtype(attrs.ints[2]), expect_sizes(Shape(std::span(attrs.ints).subspan(3)))};
  if (attrs.text == "bernoulli") {
    if (out.dtype != DType::boolean) refuse("bernoulli gives bool");
  } else if (attrs.text == "uniform" || attrs.text == "normal") {
    expect_floating(out, "the result");
  } else {
    refuse("unknown distribution '" + attrs.text + "'; expected uniform, normal or bernoulli");
  }
  return out;
}

AxisMap no_axes(const Spec&, std::span<const Spec> in, const Attrs&) { return {std::vector<Axes>(in.size())}; }

const OpDef kOpDefs[] = {
    {Op::random,
     "random",
     infer_random,
     no_axes,
     no_gradient,
     "random numbers from a counter",
     nullptr,
     {.any_part = true, .heavy = true}},
};

}  // namespace

std::span<const OpDef> random_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
