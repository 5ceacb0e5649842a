#include "devices/ops.h"

#include <cmath>

#include "backend/device/backend.h"
#include "base/machine.h"
#include "ir/attributes.h"
#include "ops/interpret.h"
#include "ops/rows.h"
#include "ops/update.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "windrow/contract.h"
#include "windrow/scan.h"
#include "windrow/windrow.h"

namespace wr::test {
namespace {

using ir::Op;
using List = std::vector<Tensor>;

Array values(const Shape& shape, int salt, double low, double high, DType dtype) {
  return smooth_array(shape, salt, low, high).astype(dtype);
}

/// Rows of elementwise.def of that type, every second from the first given on, on operands in their domains, one of
/// them repeated along the columns. Halves, since a kernel that holds all of them has more values at once than any
/// step's.
std::shared_ptr<ir::Graph> elementwise(DType dtype, int first) {
  return trace({}, [&](const List&) {
    List made;
    for (int i = first; i < ops::kElementwiseOps; i += 2) {
      const ops::Row& row = ops::row_of(static_cast<ops::Elementwise>(i));
      if (!ops::accepts(row.types, dtype)) continue;
      List operands;
      for (int k = 0; k < row.arity; ++k) {
        const Shape shape = k == 1 ? Shape{5, 1} : Shape{5, 19};
        const Array x = values(shape, 7 * i + k, row.domain[k].low, row.domain[k].high,
                               dtype == DType::boolean ? DType::i32 : dtype);
        const Tensor one = dtype == DType::boolean ? cast(Tensor(x), DType::boolean) : Tensor(x);
        operands.push_back(broadcast_to(one, {5, 19}));
      }
      made.push_back(ir::apply(static_cast<Op>(i), operands, {}, Location::current()));
    }
    return made;
  });
}

std::shared_ptr<ir::Graph> casts() {
  return trace({}, [](const List&) {
    List made;
    const Array wild = Array::from<double>({-3e9, -1.5, -0.0, 0.4, 1.9, 254.7, 255.5, 300, 3e9, std::nan("")});
    for (DType from : {DType::f32, DType::f64, DType::i32, DType::u8, DType::boolean})
      for (DType to : {DType::f32, DType::f64, DType::i32, DType::u8, DType::boolean})
        made.push_back(cast(is_floating(from) ? Tensor(wild.astype(from)) : cast(iota({10}, 0, DType::i32), from), to));
    const Tensor x = Tensor(smooth_array({4, 6}, 1).astype(DType::f32));
    made.push_back(where(x > 0, x, -2 * x));
    return made;
  });
}

std::shared_ptr<ir::Graph> reductions(DType dtype) {
  return trace({}, [&](const List&) {
    List made;
    const Tensor x(values({3, 5, 20}, 3, -2, 2, dtype)), wide(values({4, 200}, 4, -2, 2, dtype));
    for (const Dims& axes : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{1, 2}, Dims{0, 1, 2}})
      for (Op op :
           {Op::reduce_sum, Op::reduce_max, Op::reduce_min, Op::reduce_prod, Op::reduce_argmax, Op::reduce_argmin})
        made.push_back(ir::apply(op, {x}, ir::attrs_of(axes), Location::current()));
    for (Op op : {Op::reduce_sum, Op::reduce_max}) {
      made.push_back(ir::apply(op, {wide}, {{0, 1}, {}, {}}, Location::current()));
      made.push_back(ir::apply(op, {permute(x, {2, 0, 1})}, {{0}, {}, {}}, Location::current()));
    }
    return made;
  });
}

std::shared_ptr<ir::Graph> rearranging() {
  return trace({}, [](const List&) {
    const Tensor x(values({4, 3, 5}, 2, -2, 2, DType::f32));
    return List{reshape(permute(x, {1, 0, 2}), {3, 20}),
                permute(x, {2, 0, 1}),
                slice(x, 1, -1, -4, -1) * 2,
                slice(x, 0, 0, 4, 2) + 1,
                concat({x, slice(x, 1, 1, 3)}, 1),
                pad(x, {1, 0, 2}, {0, 3, 1}, 0.7),
                broadcast_to(slice(x, 0, 0, 1), {4, 3, 5}) * x,
                iota({3, 4}, 1, DType::i32),
                iota({3, 4}, 0, DType::f32),
                iota({3, 4}, 0, DType::f64)};
  });
}

std::shared_ptr<ir::Graph> products(DType dtype) {
  return trace({}, [&](const List&) {
    List made;
    int salt = 0;
    const auto product = [&](const char* spec, const Shape& a, const Shape& b) {
      made.push_back(einsum(spec, {Tensor(values(a, salt, -1, 1, dtype)), Tensor(values(b, salt + 1, -1, 1, dtype))}));
      salt += 2;
    };
    for (const auto& [m, k, n] : {std::array{7, 5, 19}, {13, 33, 40}, {30, 20, 3}, {1, 40, 1}, {40, 300, 2}}) {
      product("mk,kn->mn", {m, k}, {k, n});
      product("km,kn->mn", {k, m}, {k, n});
      product("mk,nk->mn", {m, k}, {n, k});
      product("km,nk->mn", {k, m}, {n, k});
      product("mk,kn->nm", {m, k}, {k, n});
    }
    product("mk,kn->mn", {53, 17}, {17, 53});  // tiles of several heights, pairs of vectors and what is left of them
    product("bij,bjk->bik", {2, 3, 5}, {2, 5, 4});
    product("bhqd,bhkd->bhqk", {2, 2, 3, 4}, {2, 2, 5, 4});
    product("abij,bjac->ica", {2, 3, 4, 5}, {3, 5, 2, 3});
    product("ic,ic->c", {6, 20}, {6, 20});
    product("i,i->", {50}, {50});
    product("i,j->ij", {5}, {4});
    return made;
  });
}

/// Every row of rows.def, with totals.
std::shared_ptr<ir::Graph> row_ops(DType dtype, std::int64_t columns) {
  return trace({}, [&](const List&) {
    List made;
    for (std::size_t row = 0; row < ops::row_ops_facts().size(); ++row) {
      const ops::RowFacts& facts = ops::row_ops_facts()[row];
      List in;
      for (std::size_t k = 0; k < facts.parts.size(); ++k) {
        const int salt = static_cast<int>(3 * row + k);
        switch (facts.part(k)) {
          case ops::RowPart::value:
            in.emplace_back(values({6, columns}, salt, -2, 2, dtype));
            break;
          case ops::RowPart::column:
            in.emplace_back(values({columns}, salt, 0.5, 2, dtype));
            break;
          case ops::RowPart::label:
            in.push_back(iota({6, 1}, 0, DType::i32));
            break;
          default:
            in.emplace_back(values({6, 1}, salt, 0.5, 2, dtype));
        }
      }
      const ir::Attrs attrs{{}, {1e-3}, {}};
      made.push_back(ir::apply(static_cast<Op>(static_cast<int>(ir::kFirstRowOp) + static_cast<int>(row)), in, attrs,
                               Location::current()));
      for (std::size_t k = 1; k < facts.results.size(); ++k)
        made.push_back(ir::apply(Op::result, {made[made.size() - k]}, {{static_cast<std::int64_t>(k)}, {}, {}},
                                 Location::current()));
    }
    return made;
  });
}

std::shared_ptr<ir::Graph> updates(DType dtype) {
  return trace({}, [&](const List&) {
    List made;
    for (std::size_t i = 0; i < ops::update_rows().size(); ++i) {
      const ops::UpdateRow& row = ops::update_rows()[i];
      const auto op = static_cast<Op>(static_cast<int>(Op::cast) + 1 + static_cast<int>(i));
      List values_in, numbers;
      for (int k = 0; k < row.values; ++k)
        values_in.emplace_back(values({9, 7}, static_cast<int>(i) + k, 0.1, 1, dtype));
      for (int k = 0; k < row.numbers; ++k) numbers.emplace_back(Array::full({1, 1}, 0.05 + 0.1 * k, dtype));
      List in = values_in;
      in.insert(in.end(), numbers.begin(), numbers.end());
      const auto all_results = [&](Op what, const List& operands, const ir::Attrs& attrs) {
        const Tensor first = ir::apply(what, operands, attrs, Location::current());
        made.push_back(first);
        for (int k = 1; k < row.result_count; ++k)
          made.push_back(ir::apply(Op::result, {first}, {{k}, {}, {}}, Location::current()));
      };
      all_results(op, in, {});
      // The same with the gradient of a table: rows, and where they go.
      const Tensor indices(Array::from<std::int32_t>({3, 1, 3, 8, 0, 3, 9, -1}));
      const Tensor order = ir::apply(Op::index_order, {indices}, {}, Location::current());
      for (const std::int64_t only : {0, 1}) {
        List of_rows(values_in.begin(), values_in.end() - 1);
        of_rows.push_back(order);
        of_rows.emplace_back(values({4, 7}, static_cast<int>(i) + 40, -1, 1, dtype));
        of_rows.insert(of_rows.end(), numbers.begin(), numbers.end());
        all_results(ir::update_of_rows(op), of_rows, {{2, only}, {}, {}});
      }
    }
    return made;
  });
}

std::shared_ptr<ir::Graph> indexing() {
  return trace({}, [](const List&) {
    const Tensor x(values({4, 5, 3}, 1, -2, 2, DType::f32)), table(values({6, 9}, 2, -2, 2, DType::f32));
    const Tensor rows(Array::from<std::int32_t>({0, 3, 3, -1, 7})),
        pairs(Array::from<std::int32_t>({{0, 5}, {2, 2}, {1, 9}}));
    const Tensor along = cast(iota({4, 5, 3}, 1, DType::i32), DType::i32);
    return List{gather(x, rows, 1),
                gather(x, pairs, 0),
                scatter_add(x, rows, x, 1),
                take_along(x, 4 - along, 1),
                ir::apply(Op::put_along, {along, x}, {{1, 7}, {}, {}}, Location::current()),
                one_hot(rows, 5),
                embedding_sum(table, pairs),
                ir::apply(Op::embedding_grad, {pairs, Tensor(values({3, 9}, 5, -1, 1, DType::f32))}, {{6}, {}, {}},
                          Location::current()),
                ir::apply(Op::index_order, {rows}, {}, Location::current())};
  });
}

std::shared_ptr<ir::Graph> images(DType dtype) {
  return trace({}, [&](const List&) {
    List made;
    int salt = 0;
    const auto add = [&](const Window& window, std::int64_t in, std::int64_t out, std::int64_t groups) {
      const Tensor x(values({2, 7, 8, in}, ++salt, -1, 1, dtype));
      const Tensor w(values({window.height, window.width, in / groups, out}, ++salt, -1, 1, dtype));
      const ir::Attrs attrs = ir::Convolution{window, {7, 8}, groups}.attrs();
      const Tensor y = ir::apply(Op::conv, {x, w}, attrs, Location::current());
      const Tensor g(values(y.shape(), ++salt, -1, 1, dtype));
      made.push_back(y);
      made.push_back(ir::apply(Op::conv_grad_x, {g, w}, attrs, Location::current()));
      made.push_back(ir::apply(Op::conv_grad_w, {x, g}, attrs, Location::current()));
    };
    add({.height = 3, .width = 3, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}, 3, 20, 1);
    add({.height = 3, .width = 2, .stride_h = 2, .stride_w = 2, .pad_top = 1}, 4, 6, 2);
    add({.height = 2, .width = 2, .dilation_h = 2, .dilation_w = 3}, 2, 3, 1);
    add({.height = 3, .width = 3, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}, 18, 18, 18);
    add({.height = 1, .width = 1, .stride_h = 3, .stride_w = 2}, 5, 4, 1);
    for (const Window& window :
         {Window{.height = 2, .width = 2, .stride_h = 2, .stride_w = 2},
          Window{.height = 3, .width = 3, .stride_h = 2, .stride_w = 1, .pad_top = 1, .pad_left = 1}}) {
      const Shape image{2, 7, 8, window.height == 2 ? 3 : 19};
      const Tensor x(values(image, ++salt, -1, 1, dtype)), other(values(image, ++salt, -1, 1, dtype));
      const ir::Attrs attrs = ir::attrs_of(window);
      const Tensor patches = ir::apply(Op::unfold, {x}, attrs, Location::current());
      made.push_back(patches);
      made.push_back(ir::apply(Op::fold, {Tensor(values(patches.shape(), ++salt, -1, 1, dtype))},
                               ir::attrs_of(window, 7, 8), Location::current()));
      made.push_back(ir::apply(Op::max_pool_pick, {x, x}, attrs, Location::current()));
      made.push_back(ir::apply(Op::max_pool_pick, {x, other}, attrs, Location::current()));
      made.push_back(ir::apply(Op::max_pool_scatter, {x, Tensor(values(made.back().shape(), ++salt, -1, 1, dtype))},
                               attrs, Location::current()));
    }
    return made;
  });
}

std::shared_ptr<ir::Graph> automaton(DType dtype) {
  return trace({}, [&](const List&) {
    const Tensor x(values({5, 24}, 1, 0, 1, dtype)), c(values({3, 4}, 2, -1, 1, dtype));
    const ir::Attrs wiring{{3, 0, 1, 2, 3, 4, 4, 1, 0, 2, 2, 3, 1}, {}, {}};
    const Tensor y = ir::apply(Op::gates, {x, c}, wiring, Location::current());
    const Tensor g(values(y.shape(), 3, -1, 1, dtype));
    const Tensor both = ir::apply(Op::gates_grad, {x, c, g}, wiring, Location::current());
    List made{y, ir::apply(Op::gates_grad_x, {x, c, g}, wiring, Location::current()),
              ir::apply(Op::gates_grad_coefficients, {x, g}, wiring, Location::current()), both,
              ir::apply(Op::result, {both}, {{1}, {}, {}}, Location::current())};
    // Many cells, a wire that no gate reads, a row of coefficients a gate.
    const Tensor cells(values({6, 87}, 5, 0, 1, dtype)), own(values({4, 4}, 6, -1, 1, dtype));
    const ir::Attrs apart{{4, 0, 5, 5, 1, 3, 3, 1, 0}, {}, {}};
    made.push_back(ir::apply(Op::gates, {cells, own}, apart, Location::current()));
    made.push_back(
        ir::apply(Op::gates_grad, {cells, own, Tensor(values({4, 87}, 7, -1, 1, dtype))}, apart, Location::current()));
    made.push_back(ir::apply(Op::result, {made.back()}, {{1}, {}, {}}, Location::current()));
    for (const std::int64_t wrap : {0, 1}) {
      const ir::Attrs grid{{3, 4, wrap}, {}, {}};
      const Tensor around = ir::apply(Op::neighbours, {x}, grid, Location::current());
      made.push_back(around);
      made.push_back(
          ir::apply(Op::neighbours_sum, {Tensor(values(around.shape(), 4, -1, 1, dtype))}, grid, Location::current()));
    }
    return made;
  });
}

/// Nets over time and attention, with their gradients by what the library makes of them.
std::shared_ptr<ir::Graph> sequences(DType dtype) {
  constexpr std::int64_t kBatch = 4, kTime = 3, kHidden = 5;
  const auto lengths = Array::from<std::int32_t>({3, 1, 2, 0});
  return trace({}, [&](const List&) {
    List made;
    const auto results = [&](Op op, const List& in, const ir::Attrs& attrs, int count) {
      List all{ir::apply(op, in, attrs, Location::current())};
      for (int k = 1; k < count; ++k)
        all.push_back(ir::apply(Op::result, {all[0]}, {{k}, {}, {}}, Location::current()));
      made.insert(made.end(), all.begin(), all.end());
      return all;
    };
    const auto tensor = [&](const Shape& shape, int salt) { return Tensor(values(shape, salt, -1, 1, dtype)); };
    const Shape sequence{kBatch, kTime, kHidden}, state{kBatch, kHidden};
    for (const std::int64_t way : {0, 1}) {
      List with;
      if (way) with.emplace_back(lengths);
      const auto joined = [&](List list) {
        list.insert(list.end(), with.begin(), with.end());
        return list;
      };
      const Tensor w4 = tensor({kHidden, 4 * kHidden}, 2), w3 = tensor({kHidden, 3 * kHidden}, 3), h = tensor(state, 4),
                   c = tensor(state, 5);
      const List l =
          results(Op::lstm, joined({tensor({kBatch, kTime, 4 * kHidden}, 1), w4, h, c}), {{way, way}, {}, {}}, 4);
      List of{tensor(sequence, 6), l[2], l[3], c, w4};
      if (way) of.push_back(tensor(sequence, 7));
      results(Op::lstm_grad, joined(of), {{way, way, way}, {}, {}}, 3);
      const List g =
          results(Op::gru, joined({tensor({kBatch, kTime, 3 * kHidden}, 8), w3, h, tensor({3 * kHidden}, 9)}),
                  {{way, way}, {}, {}}, 3);
      results(Op::gru_grad, joined({tensor(sequence, 10), g[2], g[1], w3}), {{way, way}, {}, {}}, 3);

      const Tensor q = tensor({2, 5, 2, 18}, 11), k = tensor({2, 6, 2, 18}, 12), v = tensor({2, 6, 2, 18}, 13);
      List seen;
      if (way) seen.push_back(Tensor(values({1, 2, 5, 6}, 14, -1, 1, DType::f32)) > 0.2);
      List attended{q, k, v};
      attended.insert(attended.end(), seen.begin(), seen.end());
      const ir::Attrs attrs{{1 - way, 1}, {0.3}, {}};
      const List y = results(Op::attention, attended, attrs, 2);
      List back{q, k, v, y[0], y[1], tensor({2, 5, 2, 18}, 15)};
      back.insert(back.end(), seen.begin(), seen.end());
      results(Op::attention_grad, back, attrs, 3);
    }
    return made;
  });
}

/// Contractions in a semiring, with gradients: many winners are equal, some factors are 0.
std::shared_ptr<ir::Graph> contractions(Semiring semiring, DType dtype) {
  return trace({}, [&](const List&) {
    List made;
    const auto sixteenths = [&](const Shape& shape, int salt) {
      const Array even = values(shape, salt, 0, 16.99, DType::f64).astype(DType::i32);
      return Tensor(eval(cast(Tensor(even), dtype) * (1.0 / 16)));
    };
    int salt = static_cast<int>(semiring);
    const auto add = [&](const char* spec, const Shape& a, const Shape& b) {
      const Tensor x = sixteenths(a, ++salt), y = sixteenths(b, ++salt);
      const Tensor c = contract(spec, x, y, semiring);
      made.push_back(c);
      for (const Tensor& g : grad(sum(c * sixteenths(c.shape(), ++salt)), {x, y})) made.push_back(g);
    };
    add("mk,kn->mn", {9, 5}, {5, 19});
    add("bkm,bkn->bnm", {2, 4, 10}, {2, 4, 3});
    add("mk,nk->mn", {1, 6}, {9, 6});
    return made;
  });
}

/// Loops with weights, in both directions, with totals, and their gradients.
std::shared_ptr<ir::Graph> scans(DType dtype) {
  constexpr std::int64_t kBatch = 5, kTime = 4, kIn = 3, kHidden = 6;
  return trace({}, [&](const List&) {
    List made;
    for (const bool reverse : {false, true}) {
      const int salt = 20 * reverse;
      const Tensor x(values({kTime, kBatch, kIn}, salt, -1, 1, dtype)),
          h(values({kBatch, kHidden}, salt + 1, -1, 1, dtype)), w(values({kIn, kHidden}, salt + 2, -1, 1, dtype)),
          u(values({kHidden, kHidden}, salt + 3, -1, 1, dtype));
      const auto cell = [&](const List& carry, const List& moment) {
        const Tensor f = sigmoid(matmul(moment[0], w) + matmul(carry[0], u));
        const Tensor next = carry[0] + f * (tanh(matmul(moment[0], w)) - carry[0]);
        return Scan{{next, carry[1] + mean(square(next))}, {softmax(next), sum(next, 1)}};
      };
      const Scan all = scan(cell, {h, sum(h)}, {x}, {.reverse = reverse});
      const Tensor loss = all.carry[1] + sum(square(all.outputs[0])) + sum(all.carry[0]);
      for (const List& list : {all.carry, all.outputs, grad(loss, {x, h, w, u})})
        made.insert(made.end(), list.begin(), list.end());
    }
    return made;
  });
}

double largest(const std::vector<double>& x) {
  double most = 1;
  for (double e : x) most = std::max(most, std::isfinite(e) ? std::abs(e) : 0);
  return most;
}

/// The same graph with its constants as arguments, so that they can be cut and are not folded.
std::shared_ptr<ir::Graph> with_arguments(const ir::Graph& graph, std::vector<Array>& arguments) {
  auto made = std::make_shared<ir::Graph>();
  std::vector<int> moved;
  for (int id = 0; id < graph.size(); ++id) {
    ir::Node node = graph[id];
    if (node.op == Op::constant && node.spec.shape.count() > 1) {
      arguments.push_back(*node.value);
      moved.push_back(made->add_input(node.spec, node.where));
      continue;
    }
    for (int& input : node.inputs) input = moved[input];
    moved.push_back(made->add_node(std::move(node)));
  }
  for (int id : graph.outputs) made->outputs.push_back(moved[id]);
  return made;
}

}  // namespace

std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> cases;
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean})
    for (const int first : {0, 1})
      cases.push_back({"elementwise_" + std::string(name_of(dtype)) + (first == 0 ? "_even" : "_odd"),
                       [=] { return elementwise(dtype, first); }});
  cases.push_back({"casts", casts});
  for (DType dtype : {DType::f32, DType::i32})
    cases.push_back({"reductions_" + std::string(name_of(dtype)), [=] { return reductions(dtype); }});
  cases.push_back({"rearranging", rearranging});
  cases.push_back({"indexing", indexing});
  for (DType dtype : {DType::f32, DType::f64}) {
    const std::string type(name_of(dtype));
    cases.push_back({"products_" + type, [=] { return products(dtype); }});
    cases.push_back({"rows_" + type, [=] { return row_ops(dtype, dtype == DType::f32 ? 37 : 5); }});
    cases.push_back({"updates_" + type, [=] { return updates(dtype); }});
    cases.push_back({"images_" + type, [=] { return images(dtype); }});
    cases.push_back({"automaton_" + type, [=] { return automaton(dtype); }});
    cases.push_back({"sequences_" + type, [=] { return sequences(dtype); }});
    for (const Semiring semiring : {Semiring::max_product, Semiring::max_plus, Semiring::min_plus, Semiring::max_min,
                                    Semiring::lukasiewicz, Semiring::noisy_or})
      cases.push_back({"contractions_" + std::string(to_string(semiring)) + "_" + type,
                       [=] { return contractions(semiring, dtype); }});
    cases.push_back({"scans_" + type, [=] { return scans(dtype); }, 2e-5, true});
  }
  return cases;
}

std::shared_ptr<ir::Graph> traced(const DeviceCase& which, std::vector<Array>& arguments) {
  return with_arguments(*which.trace(), arguments);
}

std::shared_ptr<const ir::Graph> to_be_run(const DeviceCase& which, const std::shared_ptr<ir::Graph>& traced) {
  if (which.optimised) return passes::optimise(*traced);
  return traced;
}

std::string check_on_device(const DeviceCase& which, const std::shared_ptr<device::Device>& device, int items,
                            int lanes) {
  std::vector<Array> arguments;
  const auto graph = traced(which, arguments);
  const auto want = ir::interpret(*graph, arguments, ir::Rounding::none).outputs;
  CompileOptions options;
  options.lanes = lanes;
  options.machine = "zen3";
  Step step(std::make_unique<Step::Inside>(to_be_run(which, graph), options, device::Backend(device, items)));
  std::vector<const Array*> pointers;
  for (const Array& a : arguments) pointers.push_back(&a);
  std::string wrong;
  for (int run = 0; run < 2; ++run) {
    step.run(pointers);
    for (std::size_t k = 0; k < want.size(); ++k) {
      const auto got = numbers(step.output(k)), expected = numbers(want[k]);
      const double bound = which.tolerance * largest(expected);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool same = std::isfinite(expected[i]) ? std::abs(got[i] - expected[i]) <= bound
                                                     : std::isnan(expected[i]) == std::isnan(got[i]) &&
                                                           (std::isnan(got[i]) || got[i] == expected[i]);
        if (same) continue;
        wrong += which.name + ": run " + std::to_string(run) + ", output " + std::to_string(k) + " element " +
                 std::to_string(i) + " is " + std::to_string(got[i]) + ", should be " + std::to_string(expected[i]) +
                 "   " + ir::print_node(*graph, graph->outputs[k]) + "\n";
        break;
      }
    }
  }
  return wrong;
}

}  // namespace wr::test
