// scan: against the same steps written one after the other, against differences and the oracle; its plans, their size,
// and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "count_allocations.h"
#include "errors.h"
#include "ops/interpret.h"
#include "passes/passes.h"
#include "step/inside.h"
#include "support/gradients.h"
#include "support/graphs.h"
#include "support/interpreting_backend.h"
#include "support/machines.h"
#include "windrow/machine.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using List = std::vector<Tensor>;
using test::smooth_array;

constexpr std::int64_t kBatch = 3, kTime = 4, kIn = 2, kHidden = 3;

/// A minimal gated unit with a layer norm, written by hand: the weights are closed over, `w` twice.
struct Cell {
  Tensor w, u, b, scale;

  Tensor operator()(const Tensor& h, const Tensor& x) const {
    const Tensor f = sigmoid(matmul(x, w) + matmul(h, u) + b);
    const Tensor n = tanh(layer_norm(matmul(x, w) + matmul(f * h, u), scale, b));
    return h + f * (n - h);
  }
};

/// The same as scan(), step by step.
Scan written_out(const ScanBody& body, List carry, const List& sequences, const ScanOptions& options) {
  const std::int64_t steps = sequences.empty() ? options.steps : sequences[0].size(options.axis);
  std::vector<List> outputs;
  for (std::int64_t turn = 0; turn < steps; ++turn) {
    const std::int64_t t = options.reverse ? steps - 1 - turn : turn;
    List x;
    for (const Tensor& s : sequences) x.push_back(squeeze(slice(s, options.axis, t, t + 1), options.axis));
    Scan made = body(carry, x);
    carry = made.carry;
    outputs.push_back(made.outputs);
  }
  if (options.reverse) std::reverse(outputs.begin(), outputs.end());
  Scan all{carry, {}};
  for (std::size_t k = 0; k < outputs[0].size(); ++k) {
    List parts;
    for (const List& step : outputs) parts.push_back(step[k]);
    all.outputs.push_back(stack(parts, options.axis));
  }
  return all;
}

using Loop = std::function<Scan(const ScanBody&, const List&, const List&, const ScanOptions&)>;
const Loop kScan = [](const ScanBody& b, const List& c, const List& s, const ScanOptions& o) {
  return scan(b, c, s, o);
};

List all_of(const Scan& made) {
  List list = made.carry;
  list.insert(list.end(), made.outputs.begin(), made.outputs.end());
  return list;
}

/// A step written with a loop, whichever it is.
struct Program {
  const char* name;
  std::function<List(const List&, const Loop&)> fn;
  std::vector<Array> arguments;
};

std::vector<Array> cell_arguments(std::int64_t batch = kBatch, std::int64_t time = kTime) {
  return {smooth_array({time, batch, kIn}, 0),    smooth_array({batch, kHidden}, 1),
          smooth_array({kIn, kHidden}, 2, -1, 1), smooth_array({kHidden, kHidden}, 3, -1, 1),
          smooth_array({kHidden}, 4, -1, 1),      smooth_array({kHidden}, 5, 0.5, 1.5)};
}

std::vector<Program> programs() {
  const auto cell = [](const List& a) { return Cell{a[2], a[3], a[4], a[5]}; };
  std::vector<Program> list;
  list.push_back({"last carry alone",
                  [=](const List& a, const Loop& loop) {
                    return loop(
                               [&](const List& c, const List& x) {
                                 return Scan{{cell(a)(c[0], x[0])}, {}};
                               },
                               {a[1]}, {a[0]}, {})
                        .carry;
                  },
                  cell_arguments()});
  list.push_back({"carry as output, and another",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List& x) {
                          const Tensor h = cell(a)(c[0], x[0]);
                          return Scan{{h}, {h, sum(square(h), 1), c[0]}};
                        },
                        {a[1]}, {a[0]}, {}));
                  },
                  cell_arguments()});
  list.push_back({"backwards in time, the time along axis 1",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List& x) {
                          const Tensor h = cell(a)(c[0], x[0]);
                          return Scan{{h}, {h, h * 0.5}};
                        },
                        {a[1]}, {permute(a[0], {1, 0, 2})}, {.axis = 1, .reverse = true}));
                  },
                  cell_arguments()});
  list.push_back(
      {"several carries that change places, one that stays, one that counts",
       [=](const List& a, const Loop& loop) {
         return all_of(loop(
             [&](const List& c, const List& x) {
               return Scan{{c[1], tanh(c[0] + matmul(x[0], a[2])), c[2], c[3] * 0.5 + 1}, {c[0] * c[2], x[0]}};
             },
             {a[1], a[1] * 0.3, a[1] + 1, sum(a[4])}, {a[0]}, {}));
       },
       cell_arguments()});
  list.push_back({"a loss that adds up",
                  [=](const List& a, const Loop& loop) {
                    return loop(
                               [&](const List& c, const List& x) {
                                 const Tensor h = cell(a)(c[0], x[0]);
                                 return Scan{{h, c[1] + mean(square(h)) - 2 * sum(h * a[4]), c[2] + sum(h, 0)}, {}};
                               },
                               {a[1], sum(a[4]), a[4]}, {a[0]}, {})
                        .carry;
                  },
                  cell_arguments()});
  list.push_back({"losses by step",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List& x) {
                          const Tensor h = cell(a)(c[0], x[0]);
                          return Scan{{h}, {mean(square(h)), sum(h, 0), max(h)}};
                        },
                        {a[1]}, {a[0]}, {}));
                  },
                  cell_arguments()});
  list.push_back({"no sequences, no batch",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List&) {
                          const Tensor v = tanh(matmul(reshape(c[0], {1, kHidden}), a[3]));
                          return Scan{{reshape(v, {kHidden})}, {sum(v)}};
                        },
                        {a[4]}, {}, {.steps = 5}));
                  },
                  cell_arguments()});
  list.push_back({"no carry",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List&, const List& x) {
                          return Scan{{}, {tanh(matmul(x[0], a[2]))}};
                        },
                        {}, {a[0]}, {}));
                  },
                  cell_arguments()});
  list.push_back({"rows that see one another",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List& x) {
                          const Tensor h = cell(a)(c[0], x[0]) - mean(c[0], 0, Keep::yes);
                          return Scan{{h}, {softmax(h, 0)}};
                        },
                        {a[1]}, {a[0]}, {}));
                  },
                  cell_arguments()});
  list.push_back({"what does not change is not in the loop",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List& x) {
                          const Tensor weights = softmax(a[3] * 2, 0),
                                       fixed = cast(Tensor(smooth_array({1, kHidden}, 9)), a[3].dtype());
                          return Scan{{tanh(matmul(c[0], weights) + matmul(x[0], a[2]) + fixed)}, {exp(a[4])}};
                        },
                        {a[1]}, {a[0]}, {}));
                  },
                  cell_arguments()});
  list.push_back({"a scan in a scan",
                  [=](const List& a, const Loop& loop) {
                    return all_of(loop(
                        [&](const List& c, const List& x) {
                          const Scan inner = loop(
                              [&](const List& h, const List&) {
                                return Scan{{cell(a)(h[0], x[0])}, {h[0]}};
                              },
                              {c[0]}, {}, {.steps = 2});
                          return Scan{{inner.carry[0]}, {sum(inner.outputs[0], 0)}};
                        },
                        {a[1]}, {a[0]}, {}));
                  },
                  cell_arguments()});
  list.push_back({"a gradient in the body",
                  [=](const List& a, const Loop& loop) {
                    return loop(
                               [&](const List& c, const List& x) {
                                 const Tensor energy = sum(square(tanh(matmul(c[0], a[3])) - matmul(x[0], a[2])));
                                 return Scan{{c[0] - 0.1 * grad(energy, {c[0]})[0]}, {}};
                               },
                               {a[1]}, {a[0]}, {})
                        .carry;
                  },
                  cell_arguments()});
  return list;
}

test::Function with(const Program& program, const Loop& loop) {
  return [&program, loop](const List& a) { return program.fn(a, loop); };
}

/// Results and the gradients of a loss on them by every argument.
test::Function differentiated(const test::Function& fn) {
  return [fn](const List& a) {
    List results = fn(a);
    Tensor loss;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const Tensor term = sum(sin(results[k] * (1 + 0.3 * static_cast<double>(k))));
      loss = loss.empty() ? term : loss + term;
    }
    for (const Tensor& g : grad(loss, a, allow_unused)) results.push_back(g);
    return results;
  };
}

void expect_near(const std::vector<Array>& a, const std::vector<Array>& b, double tolerance, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].shape(), b[i].shape()) << what << ", result " << i;
    EXPECT_TRUE(test::nearly_equal(a[i], b[i], tolerance)) << what << ", result " << i;
  }
}

TEST(Scan, IsTheStepsOneAfterTheOther) {
  for (const Program& p : programs())
    expect_near(test::run_once(differentiated(with(p, kScan)), p.arguments),
                test::run_once(differentiated(with(p, written_out)), p.arguments), 1e-11, p.name);
}

TEST(Scan, GradientsMatchDifferencesTwice) {
  for (const Program& p : programs()) {
    const bool twice = std::string_view(p.name) != "losses by step";  // has a maximum, whose second derivative is 0
    EXPECT_TRUE(test::check_gradients(with(p, kScan), p.arguments, twice ? 2 : 1)) << p.name;
  }
}

std::shared_ptr<ir::Graph> traced(const test::Function& fn, const std::vector<Array>& arguments) {
  std::vector<Spec> specs;
  for (const Array& a : arguments) specs.push_back({a.dtype(), a.shape()});
  return test::trace(specs, fn);
}

TEST(Scan, WrittenOutItComputesTheSame) {
  for (const Program& p : programs()) {
    const auto graph = traced(differentiated(with(p, kScan)), p.arguments);
    auto plain = passes::write_out_scans(*graph);
    while (ir::print(*plain).find("= scan(") != std::string::npos) plain = passes::write_out_scans(*plain);
    EXPECT_TRUE(test::same_results(*graph, *plain, 1)) << p.name;
    EXPECT_TRUE(test::same_results(*graph, *passes::optimise(*graph), 2)) << p.name;
  }
}

TEST(Scan, ALoweredLoopIsForAnyDevice) {
  const test::InterpretingBackend interpreter;
  for (const Program& p : programs())
    for (int lanes : {1, 3}) {
      CompileOptions options;
      options.lanes = lanes;
      const auto fn = differentiated(with(p, kScan));
      Step step(std::make_unique<Step::Inside>(passes::optimise(*traced(fn, p.arguments)), options, interpreter));
      std::vector<const Array*> arguments;
      for (const Array& a : p.arguments) arguments.push_back(&a);
      const auto got = step.run(arguments);
      std::vector<Array> results;
      for (std::size_t i = 0; i < got.size(); ++i) results.push_back(got[i]);
      expect_near(results, test::run_once(fn, p.arguments), 1e-11, p.name);
    }
}

// ---- plans ----

struct Net {
  State w{Array::full({8, 24}, 0.02), "w"}, u{Array::full({24, 24}, 0.01), "u"}, b{Array::zeros({24}), "b"},
      scale{Array::full({24}, 1.0), "scale"};
  optim::Adam adam;

  Tensor loss(const Tensor& x) const {
    const Cell cell{w, u, b, scale};
    const auto body = [&](const List& c, const List& now) {
      const Tensor h = cell(c[0], now[0]);
      return Scan{{h}, {mean(square(h - 0.3))}};
    };
    return mean(scan(body, {full({x.size(1), 24}, 0.1)}, {x}).outputs[0]);
  }
  Step step(std::int64_t steps, std::int64_t batch, CompileOptions options = {}) {
    return compile(
        options,
        [&](const Tensor& x) {
          const Tensor l = loss(x);
          adam.minimize(l, {w, u, b, scale});
          return l;
        },
        f32(steps, batch, 8));
  }
};

TEST(Scan, APlanDoesNotGrowWithTheSteps) {
  CompileOptions options;
  options.machine = "zen3";
  options.lanes = 2;
  Net ten, thousand;
  Step few = ten.step(10, 40, options), many = thousand.step(1000, 40, options);
  EXPECT_EQ(few.inside().graph->size(), many.inside().graph->size());
  EXPECT_LE(many.facts().instructions, 2 * few.facts().instructions) << many.describe();
}

TEST(Scan, WhatIsNotReadIsNotKept) {
  for (const std::string& machine : test::machine_names()) {
    const auto bytes = [machine](std::int64_t steps) {
      const Step step = compile(
          CompileOptions{.lanes = 2, .machine = machine},
          [steps](const Tensor& h, const Tensor& w) {
            return repeat(static_cast<int>(steps), [&](const List& c) { return List{tanh(matmul(c[0], w))}; }, {h})[0];
          },
          f32(64, 32), f32(32, 32));
      return step.facts().scratch_bytes + step.facts().arena_bytes;
    };
    EXPECT_LE(bytes(1000), bytes(10)) << machine;  // strips may be shorter
  }
}

TEST(Scan, AWeightsGradientIsOneProductOverAllSteps) {
  Net net;
  Step step = net.step(20, 32);
  for (int id = 0; id < step.inside().graph->size(); ++id) {
    const ir::Node& node = (*step.inside().graph)[id];
    if (node.op != ir::Op::scan) continue;
    for (int inside = 0; inside < node.attrs.body->size(); ++inside) {
      const ir::Node& product = (*node.attrs.body)[inside];
      if (product.op == ir::Op::einsum) {
        EXPECT_EQ(product.spec.shape[0], 32) << ir::print(*node.attrs.body);
      }
    }
  }
}

class ScanPlanFor : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Machines, ScanPlanFor, testing::ValuesIn(test::machine_names()),
                         [](const auto& info) { return info.param; });

TEST_P(ScanPlanFor, RowsGoThroughAllStepsWithoutABarrier) {
  CompileOptions options;
  options.machine = GetParam();
  options.lanes = 2;
  Net net;
  Step step = net.step(50, 64, options);
  const plan::Schedule& s = step.inside().schedule;
  int scans = 0;
  for (std::size_t id = 0; id < s.place.size(); ++id) {
    if ((*s.graph)[static_cast<int>(id)].op != ir::Op::scan) continue;
    ++scans;
    EXPECT_TRUE(s.place[id].cut.is_along()) << step.describe();
    EXPECT_EQ(plan::rows_of((*s.graph)[static_cast<int>(id)].spec.shape, s.place[id].cut), 64) << step.describe();
  }
  EXPECT_EQ(scans, 2);
  EXPECT_LE(step.facts().phases, 3) << step.describe();
  EXPECT_NE(step.describe().find("50 times over"), std::string::npos) << step.describe();
}

// ---- running ----

TEST(Scan, SameBitsAtAnyThreadCount) {
  const auto trained = [](int threads, const std::string& simd) {
    CompileOptions options;
    options.lanes = 3;
    options.threads = threads;
    options.simd = simd;
    options.machine = "zen3";
    Net net;
    Step step = net.step(12, 70, options);
    std::vector<Array> results;
    for (unsigned i = 0; i < 3; ++i) results.push_back(Array(step(test::random_array(f32(12, 70, 8), i))).clone());
    for (const State& s : {net.w, net.u, net.b, net.scale}) results.push_back(s.value());
    return results;
  };
  for (const std::string& simd : simd_targets()) {
    const auto one = trained(1, simd);
    for (int threads : {2, 3}) {
      const auto more = trained(threads, simd);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(identical(one[i], more[i])) << simd << ", result " << i;
    }
    expect_near(one, trained(1, simd_targets()[0]), 1e-3, simd.c_str());
  }
}

TEST(Scan, AgreesWithTheOracleOnEveryTarget) {
  for (const Program& p : programs()) {
    const auto fn = differentiated(with(p, kScan));
    std::vector<Array> arguments;
    for (const Array& a : p.arguments) arguments.push_back(a.astype(DType::f32));
    std::vector<Array> expected;
    for (const Array& a : ir::interpret(*traced(fn, arguments), arguments, ir::Rounding::none).outputs)
      expected.push_back(a.astype(DType::f32));
    for (const std::string& simd : simd_targets()) {
      CompileOptions options;
      options.simd = simd;
      expect_near(test::run_once(fn, arguments, options), expected, 2e-4, p.name);
    }
  }
}

TEST(Scan, ARunAllocatesNothing) {
  Net net;
  Step step = net.step(20, 33);
  const Array x = test::random_array(f32(20, 33, 8), 1);
  step(x);
  const AllocationCount count;
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_EQ(count.now(), 0);
}

TEST(Scan, ACellOfOnesOwnLearns) {
  Net net;
  Step step = net.step(15, 24);
  const Array x = test::random_array(f32(15, 24, 8), 3);
  const double first = step(x);
  double last = first;
  for (int i = 0; i < 200; ++i) last = step(x);
  EXPECT_LT(last, 0.7 * first);
}

TEST(Scan, AProfileCountsEveryStep) {
  CompileOptions options;
  options.profile = true;
  options.lanes = 1;
  Net net;
  Step step = net.step(7, 16, options);
  const Array x = test::random_array(f32(7, 16, 8), 1);
  for (int i = 0; i < 5; ++i) step(x);
  const Profile profile = step.profile();
  double most = 0;
  for (const auto& kernel : profile.kernels)
    if (kernel.op == "layer_norm") most = std::max(most, kernel.calls);
  EXPECT_GE(most, 7);
}

TEST(Repeat, OfTurnsThatAreAlikeIsAScan) {
  const Array h = smooth_array({4, 3}, 0), w = smooth_array({3, 3}, 1, -1, 1);
  const auto turn = [](const Tensor& x, const Tensor& v) { return tanh(matmul(x, v)) + x * 0.5; };
  const auto rolled = [&](const List& a) {
    return repeat(6, [&](const List& c) { return List{turn(c[0], a[1]), c[1] + sum(c[0])}; }, {a[0], sum(a[1])});
  };
  const auto unrolled = [&](const List& a) {
    return repeat(6, [&](int, const List& c) { return List{turn(c[0], a[1]), c[1] + sum(c[0])}; }, {a[0], sum(a[1])});
  };
  expect_near(test::run_once(differentiated(rolled), {h, w}), test::run_once(differentiated(unrolled), {h, w}), 1e-11,
              "repeat");
  const auto none = [&](const List& a) { return repeat(0, [&](const List& c) { return c; }, {a[0]}); };
  EXPECT_TRUE(identical(test::run_once(none, {h})[0], h));
}

TEST(Scan, WorksOutsideATraceAndInACheckpoint) {
  const Array x = smooth_array({5, 2, 3}, 0), h = smooth_array({2, 3}, 1);
  const auto body = [](const List& c, const List& now) { return Scan{{tanh(c[0] + now[0])}, {}}; };
  Array expected = h;
  for (int t = 0; t < 5; ++t) expected = eval(tanh(Tensor(expected) + reshape(slice(Tensor(x), 0, t, t + 1), {2, 3})));
  EXPECT_TRUE(test::nearly_equal(eval(scan(body, {h}, {x}).carry[0]), expected, 1e-12));
  const auto checked = [&](const List& a) {
    return checkpoint([&](const List& b) { return scan(body, {b[1]}, {b[0]}).carry; }, a);
  };
  EXPECT_TRUE(test::check_gradients(checked, {x, h}, 1));
}

// ---- text and errors ----

TEST(Scan, TheTextFormHoldsTheBody) {
  for (const Program& p : programs()) {
    for (const auto& graph :
         {traced(with(p, kScan), p.arguments), passes::optimise(*traced(with(p, kScan), p.arguments))}) {
      const std::string text = ir::print(*graph);
      const auto again = ir::parse(text);
      EXPECT_EQ(ir::print(*again), text);
      EXPECT_NO_THROW(ir::verify(*again));
      EXPECT_TRUE(test::same_results(*graph, *again, 5)) << p.name;
    }
  }
}

TEST(Scan, TextThatIsNoScanIsRefused) {
  const std::string start = "%0 = input 0 : f32[3,2]\n%1 = input 1 : f32[2]\n";
  const auto parsed = [&](const std::string& numbers, const std::string& body) {
    return error_of([&] {
      ir::parse(start + "%2 = scan(%1, %0) {ints=[" + numbers + "]} : f32[4,2]\n{\n" + body + "}\noutputs %2\n");
    });
  };
  const std::string body = "  %0 = input 0 : f32[2]\n  %1 = input 1 : f32[2]\n  %2 = add(%0, %1) : f32[2]\n";
  EXPECT_EQ(parsed("3, 0, 1, 1, 0, 0, 1", body + "  outputs %2\n"), "no error");
  EXPECT_NE(parsed("4, 0, 1, 1, 0, 0, 1", body + "  outputs %2\n").find("must be f32[4,2]"), std::string::npos);
  EXPECT_NE(parsed("0, 0, 1, 1, 0, 0, 1", body + "  outputs %2\n").find("no steps"), std::string::npos);
  EXPECT_NE(parsed("3, 0, 2, 0, 0, 0, 1, 1", body + "  outputs %2\n").find("outputs"), std::string::npos);
  EXPECT_NE(parsed("3, 0, 1, 1, 0, 0", body + "  outputs %2\n").find("each of 1"), std::string::npos);
  EXPECT_NE(parsed("3, 0, 1, 1, 0, 0, 1", body).find("0 outputs"), std::string::npos);
  EXPECT_NE(parsed("3, 0, 1, -1, 0, 0, 1", body + "  outputs %2\n").find("out of range"), std::string::npos);
  EXPECT_NE(parsed("3, 0, 1, 1, 0, 0, 1", body + "  outputs %7\n").find("%7"), std::string::npos);
  EXPECT_NE(
      error_of([&] { ir::parse(start + "%2 = scan(%1, %0) {ints=[3, 0, 1, 1, 0, 0, 1]} : f32[4,2]\n"); }).find("'{'"),
      std::string::npos);
}

TEST(Scan, RefusesWithTheUsersLine) {
  const Tensor x(smooth_array({4, 2, 3}, 0)), h(smooth_array({2, 3}, 1));
  State state(Array::zeros({2, 3}, DType::f64), "memory");
  Random random(3);
  const auto expect = [](const std::function<void()>& fn, const char* part) {
    const std::string message = error_of(fn);
    EXPECT_NE(message.find("scan_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const ScanBody same = [](const List& c, const List&) { return Scan{c, {}}; };
  expect(
      [&] {
        scan([](const List& c, const List&) { return Scan{{sum(c[0])}, {}}; }, {h}, {x});
      },
      "carried tensor 0 is f64[2,3] before a step and f64[] after it");
  expect([&] { scan([](const List&, const List&) { return Scan{}; }, {h}, {x}); },
         "takes 1 carried tensors and returns 0");
  expect([&] { scan(same, {h}, {x, Tensor(smooth_array({5, 2}, 0))}); }, "sequence 1 has 5 moments, sequence 0 has 4");
  expect([&] { scan(same, {h}, {x}, {.steps = 3}); }, "sequence 0 has 4 moments, the options say 3");
  expect([&] { scan(same, {h}); }, "the number of steps must be given");
  expect([&] { scan(same, {h}, {}, {.steps = -1}); }, "-1 steps");
  expect([&] { scan(same, {h}, {sum(h)}); }, "it has no axis");
  expect([&] { scan(same, {h}, {h}, {.axis = 2}); }, "axis 2 is out of range");
  expect([&] { scan(same, {Tensor()}, {x}); }, "empty Tensor");
  expect([&] { scan([](const List&, const List&) { return Scan{{Tensor()}, {}}; }, {h}, {x}); }, "empty Tensor");
  expect([&] { scan(ScanBody(), {h}, {x}); }, "the body is empty");
  expect(
      [&] {
        scan([](const List& c, const List& n) { return Scan{{c[0] + matmul(n[0], n[0])}, {}}; }, {h}, {x});
      },
      "matmul");
  const auto tracing = [&](const ScanBody& body) {
    return
        [&, body] { compile([&](const Tensor& a) { return scan(body, {a}, {}, {.steps = 3}).carry[0]; }, f64(2, 3)); };
  };
  expect(tracing([&](const List& c, const List&) {
           state.assign(c[0]);
           return Scan{{c[0] * 0.5}, {}};
         }),
         "assigns to state 'memory'");
  expect(tracing([&](const List& c, const List&) {
           return Scan{{c[0] + random.normal({2, 3}, DType::f64)}, {}};
         }),
         "draws random numbers");
  Tensor leaked;
  expect(
      [&] {
        compile(
            [&](const Tensor& a) {
              scan(
                  [&](const List& c, const List&) {
                    leaked = c[0] * 2;
                    return Scan{{leaked}, {}};
                  },
                  {a}, {}, {.steps = 3});
              return a + leaked;
            },
            f64(2, 3));
      },
      "return it");
}

/// Labelled as timing: see CMakeLists.txt.
TEST(ScanTiming, AThousandStepsCompileLikeTen) {
  const auto best_ms = [](std::int64_t steps) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      Net net;
      best = std::min(best, net.step(steps, 32).facts().compile_ms);
    }
    return best;
  };
  EXPECT_LT(best_ms(1000), 2 * best_ms(10));
}

}  // namespace
}  // namespace wr
