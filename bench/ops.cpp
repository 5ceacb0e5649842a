// One case an op, generated from the op table: what a kernel costs on data that fits in the caches.
#include "bench/case.h"
#include "ir/graph.h"
#include "ops/formula.h"
#include "windrow/attention.h"
#include "windrow/contract.h"

namespace wr::bench {
namespace {

constexpr std::int64_t kElements = 65536;

Array uniform(const Shape& shape, const ops::Interval& domain, std::uint64_t seed) {
  const Array unit = eval(sigmoid(Tensor(random_normal(shape, seed, 1, DType::f64))));
  return eval(Tensor(unit) * (domain.high - domain.low) + domain.low).astype(DType::f32);
}

Prepared prepare(int threads, std::vector<Array> arguments, double tolerance,
                 const std::function<Tensor(const std::vector<Tensor>&)>& fn) {
  std::vector<Spec> specs;
  for (const Array& a : arguments) specs.push_back({a.dtype(), a.shape()});
  CompileOptions options;
  options.threads = threads;
  Prepared p{compile([&](const std::vector<Tensor>& t) { return std::vector<Tensor>{fn(t)}; }, specs, options),
             std::move(arguments),
             {},
             0};
  p.check = [tolerance](Step& s, const std::vector<Array>& a) { return check_by_oracle(s, a, tolerance); };
  p.bytes = compulsory_bytes(p.step, p.arguments);
  return p;
}

Case formula_case(int index) {
  const auto op = static_cast<ops::Elementwise>(index);
  const ops::Row& row = ops::row_of(op);
  return {"op_" + std::string(row.name), std::string(row.doc), [=](int threads) {
            const ops::Row& r = ops::row_of(op);
            std::vector<Array> arguments;
            for (int k = 0; k < r.arity; ++k) {
              Array a = uniform({kElements}, r.domain[k], static_cast<std::uint64_t>(index * 8 + k));
              arguments.push_back(r.types == ops::Types::booleans ? a.astype(DType::boolean) : a);
            }
            return prepare(threads, std::move(arguments), 1e-4, [=](const std::vector<Tensor>& t) {
              return ir::apply(static_cast<ir::Op>(op), t, {}, Location::current());
            });
          }};
}

using Reduction = Tensor (*)(const Tensor&, const Axes&, Keep, Location);

Case reduction_case(const std::string& name, Reduction reduce, int axis) {
  return {"op_" + name + "_axis" + std::to_string(axis), name + " over axis " + std::to_string(axis) + " of 256 x 256",
          [=](int threads) {
            return prepare(threads, {uniform({256, 256}, {0.9, 1.1}, 1)}, 1e-4, [=](const std::vector<Tensor>& t) {
              return reduce(t[0], axis, Keep::no, Location::current());
            });
          }};
}

}  // namespace

std::vector<Case> op_cases() {
  std::vector<Case> list;
  for (int i = 0; i < ops::kElementwiseOps; ++i) list.push_back(formula_case(i));
  const std::pair<const char*, Reduction> reductions[] = {
      {"sum", sum}, {"mean", mean}, {"max", max}, {"min", min}, {"prod", prod}, {"argmax", argmax}, {"argmin", argmin}};
  for (auto [name, reduce] : reductions)
    for (int axis : {0, 1}) list.push_back(reduction_case(name, reduce, axis));
  auto add = [&](const std::string& name, const std::string& what, std::vector<Array> arguments,
                 std::function<Tensor(const std::vector<Tensor>&)> fn) {
    list.push_back({"op_" + name, what, [=](int threads) { return prepare(threads, arguments, 1e-4, fn); }});
  };
  const Array matrix = random_normal({256, 256}, 1), image = random_normal({8, 28, 28, 8}, 2),
              rows = random_integers({1024}, 256, 3);
  add("where", "choice by a condition", {matrix, random_normal({256, 256}, 4)},
      [](auto& t) { return where(t[0] > t[1], t[0], t[1]); });
  add("cast", "f32 to f64", {matrix}, [](auto& t) { return cast(t[0], DType::f64); });
  add("permute", "a transposed copy", {matrix}, [](auto& t) { return neg(transpose(t[0])); });
  add("concat", "two matrices side by side", {matrix, matrix}, [](auto& t) { return concat({t[0], t[1]}, 1); });
  add("pad", "zeros round a matrix", {matrix}, [](auto& t) { return pad(t[0], {1, 1}, {1, 1}); });
  add("gather", "1024 of 256 rows", {matrix, rows}, [](auto& t) { return gather(t[0], t[1]); });
  add("scatter_add", "1024 rows into 256", {matrix, rows, random_normal({1024, 256}, 5)},
      [](auto& t) { return scatter_add(t[0], t[1], t[2]); });
  add("take_along", "one pick a row", {matrix, random_integers({256, 1}, 256, 6)},
      [](auto& t) { return take_along(t[0], t[1], 1); });
  add("one_hot", "1024 x 256", {rows}, [](auto& t) { return one_hot(t[0], 256); });
  add("embedding_sum", "24 rows of 144 x 128 summed, 64 times",
      {random_normal({144, 128}, 7), random_integers({64, 24}, 144, 8)},
      [](auto& t) { return embedding_sum(t[0], t[1]); });
  add("conv2d", "3x3 same, 8 to 16 channels, 28 x 28, batch 8", {image, random_normal({3, 3, 8, 16}, 9)},
      [](auto& t) { return conv2d(t[0], t[1], {.padding = Padding::same}); });
  add("conv2d_depthwise", "3x3 same, 32 channels each for itself, 28 x 28, batch 8",
      {random_normal({8, 28, 28, 32}, 1), random_normal({3, 3, 1, 32}, 9)},
      [](auto& t) { return conv2d(t[0], t[1], {.padding = Padding::same, .groups = 32}); });
  add("conv_transpose2d", "2x2 stride 2, 16 to 8 channels, 14 x 14, batch 8",
      {random_normal({8, 14, 14, 16}, 1), random_normal({16, 2, 2, 8}, 9)},
      [](auto& t) { return conv_transpose2d(t[0], t[1], {.stride = 2}); });
  add("unfold", "3x3 patches of 28 x 28 x 8, batch 8", {image},
      [](auto& t) { return unfold(t[0], {.height = 3, .width = 3}); });
  add("max_pool", "2x2 of 28 x 28 x 8, batch 8", {image}, [](auto& t) { return max_pool(t[0], 2); });
  add("avg_pool", "2x2 of 28 x 28 x 8, batch 8", {image}, [](auto& t) { return avg_pool(t[0], 2); });
  Wiring wiring;
  for (std::int32_t i = 0; i < 256; ++i) wiring.push_back({(i * 37) % 256, (i * 91 + 5) % 256});
  add("gates", "256 gates on 256 wires, 256 cells", {matrix, random_normal({256, 4}, 12)},
      [=](auto& t) { return gates(t[0], t[1], wiring); });
  add("gates_grad", "the same and its gradients", {matrix, random_normal({256, 4}, 12)}, [=](auto& t) {
    const auto g = grad(sum(square(gates(t[0], t[1], wiring))), {t[0], t[1]});
    return sum(g[0]) + sum(g[1]);
  });
  add("neighbours", "3x3 of 256 grids of 16 x 16 cells, one channel", {random_normal({1, 65536}, 13)},
      [](auto& t) { return neighbours(t[0], 16, 16, Border::zero); });
  add("softmax", "rows of 256", {matrix}, [](auto& t) { return softmax(t[0]); });
  add("log_softmax", "rows of 256", {matrix}, [](auto& t) { return log_softmax(t[0]); });
  const Array scale = random_normal({256}, 10), shift = random_normal({256}, 11), other = random_normal({256, 256}, 14);
  add("layer_norm", "rows of 256", {matrix, scale, shift}, [](auto& t) { return layer_norm(t[0], t[1], t[2]); });
  add("rms_norm", "rows of 256", {matrix, scale}, [](auto& t) { return rms_norm(t[0], t[1]); });
  add("logsumexp", "rows of 256", {matrix}, [](auto& t) { return logsumexp(t[0], 1); });
  add("softmax_grad", "softmax of rows of 256 and its gradient", {matrix, other},
      [](auto& t) { return grad(sum(softmax(t[0]) * t[1]), {t[0]})[0]; });
  add("layer_norm_grad", "layer norm of rows of 256 and its gradients", {matrix, scale, shift, other}, [](auto& t) {
    const auto g = grad(sum(layer_norm(t[0], t[1], t[2]) * t[3]), {t[0], t[1], t[2]});
    return g[0] + g[1] + g[2];
  });
  add("rms_norm_grad", "RMS norm of rows of 256 and its gradients", {matrix, scale, other}, [](auto& t) {
    const auto g = grad(sum(rms_norm(t[0], t[1]) * t[2]), {t[0], t[1]});
    return g[0] + g[1];
  });
  add("cross_entropy_grad", "cross entropy of rows of 256 and its gradient", {matrix, random_integers({256}, 256, 15)},
      [](auto& t) { return grad(cross_entropy(t[0], t[1]), {t[0]})[0]; });
  for (const Semiring semiring : {Semiring::sum_product, Semiring::max_product, Semiring::max_plus, Semiring::min_plus,
                                  Semiring::max_min, Semiring::lukasiewicz, Semiring::noisy_or})
    add("contract_" + std::string(to_string(semiring)), "256 x 256 with 256 x 256",
        {uniform({256, 256}, {0, 0.3}, 17), uniform({256, 256}, {0.6, 0.9}, 18)},
        [=](auto& t) { return contract("xy,yz->xz", t[0], t[1], semiring); });
  add("attention", "2 heads of 32 columns, 64 positions, batch 2", {random_normal({2, 64, 2, 32}, 16)},
      [](auto& t) { return attention(t[0], t[0] * 0.5, t[0] + 1, {}); });
  return list;
}

}  // namespace wr::bench
