// The text form of graphs: print, parse and verify.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/graph.h"

namespace wr {
namespace {

using ir::Graph;
using ir::Op;

std::string message_of(std::string_view text) {
  try {
    ir::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// A graph of the text, which must print as the same text.
std::shared_ptr<Graph> round_trip(const std::string& text) {
  auto graph = ir::parse(text);
  EXPECT_EQ(ir::print(*graph), text);
  EXPECT_NO_THROW(ir::verify(*graph));
  return graph;
}

TEST(GraphText, TracedStepPrintsReadably) {
  auto graph = std::make_shared<Graph>();
  ir::TraceScope scope(graph);
  const auto here = Location::current();
  const Tensor x(graph, graph->add_input(f32(4, 3), here));
  const State w(Array::zeros({3, 2}), "w");
  const Tensor y = einsum("bi,io->bo", {x, w});
  w.assign(w - 0.5f * Tensor(w));
  graph->outputs = {sum(y, 0, Keep::yes).node()};
  EXPECT_EQ(ir::print(*graph),
            "%0 = input 0 : f32[4,3]\n"
            "%1 = state \"w\" : f32[3,2]\n"
            "%2 = einsum(%0, %1) {text=\"bi,io->bo\"} : f32[4,2]\n"
            "%3 = constant [0.5] : f32[1,1]\n"
            "%4 = mul(%3, %1) : f32[3,2]\n"
            "%5 = sub(%1, %4) : f32[3,2]\n"
            "%6 = reduce_sum(%2) {ints=[0]} : f32[1,2]\n"
            "outputs %6\n"
            "updates %1 <- %5\n");
  round_trip(ir::print(*graph));
  EXPECT_NE(ir::print(*graph, true).find("f32[4,2]  @ir_text_test.cpp:"), std::string::npos);
  EXPECT_EQ(ir::print(*ir::parse(ir::print(*graph, true))), ir::print(*graph));
}

TEST(GraphText, EveryFeatureSurvives) {
  const auto graph = round_trip(
      "graph scopes=2 random_streams=1\n"
      "%0 = input 1 : f64[2,3]\n"
      "%1 = input 0 : i32[]\n"
      "%2 = state \"w\" : f64[2,3]\n"
      "%3 = state \"w\"#1 : f64[2,3]\n"
      "%4 = state \"a \\\"quoted\\\\name\\x0a\" : bool[0]\n"
      "%5 = constant [0.1, -0, 1e-45, nan, inf, -inf] : f32[2,3]\n"
      "%6 = constant [0.1, 5e-324] : f64[2]\n"
      "%7 = constant [1, 0] : bool[2]\n"
      "%8 = constant [255] : u8[]\n"
      "%9 = constant [-2147483648] : i32[1]\n"
      "%10 = constant [] : f32[0,3]\n"
      "%11 = add(%0, %2) : f64[2,3] scope=1 copy=2 gradient\n"
      "%12 = add(%0, %2) : f64[2,3]\n"
      "%13 = pad(%0) {ints=[0, 0, 1, 1], reals=[0.1]} : f64[3,4]\n"
      "outputs %11, %12\n"
      "updates %2 <- %11, %3 <- %0\n");
  EXPECT_EQ(graph->inputs, (std::vector<int>{1, 0}));
  EXPECT_EQ(graph->scopes, 2);
  EXPECT_EQ(graph->random_streams, 1);
  const ir::Graph& g = *graph;
  EXPECT_NE(g[2].variable, g[3].variable);
  EXPECT_EQ(g[3].variable->name, "w");
  EXPECT_EQ(g[4].variable->name, "a \"quoted\\name\n");
  EXPECT_EQ(g[5].value->at<float>({0, 2}), std::numeric_limits<float>::denorm_min());
  EXPECT_TRUE(std::signbit(g[5].value->at<float>({0, 1})));
  EXPECT_EQ(g[11].copy, 2);
  EXPECT_TRUE(g[11].gradient);
  EXPECT_EQ(g[13].attrs.reals, std::vector<double>{0.1});
}

TEST(GraphText, BlanksAndCommentsAreSkipped) {
  const auto graph = ir::parse("// a note\n\n  %0 =input 0:f32[ 2 ]  @train.cpp:3\n\n// more\noutputs   %0");
  EXPECT_EQ(ir::print(*graph), "%0 = input 0 : f32[2]\noutputs %0\n");
  EXPECT_EQ(ir::print(*ir::parse("")), "");
}

TEST(GraphText, ErrorsNameLineColumnAndWhatWasExpected) {
  const std::string x = "%0 = input 0 : f32[4,3]\n";
  const std::pair<std::string, std::string> cases[] = {
      {"hello", "line 1, column 1: expected a node such as '%0 = ...', 'outputs', 'updates' or the end, found 'h'"},
      {"%0 = ", "line 1, column 6: expected an op, found the end of the text"},
      {"%0 = input : f32[1]", "line 1, column 12: expected the input's position, found ':'"},
      {"%1 = input 0 : f32[1]", "line 1, column 1: expected %0: nodes are numbered in order"},
      {"%0 = input 0 : f16[1]", "line 1, column 16: expected a type: f32, f64, i32, u8 or bool, found 'f'"},
      {"%0 = input 0 : f32[1,-2]", "line 1, column 22: a size is out of range"},
      {"%0 = input 0 : f32[1,2", "line 1, column 23: expected ',' or ']', found the end of the text"},
      {"%0 = input 0 : f32[1,1,1,1,1,1,1,1,1]", "line 1, column 36: a shape has at most 8 axes"},
      {"%0 = input 0 : f32[1048576,1048576,2]", "line 1, column 19: the shape has too many elements"},
      {"%0 = input 0 : f32[99999999999999999999]", "line 1, column 20: a size is out of range"},
      {"%0 = state \"w\" : f32[1048576,1024]", "line 1, column 18: the shape has too many elements"},
      {"%0 = state \"w : f32[1]", "line 1, column 23: expected '\"', found the end of the text"},
      {"%0 = constant [1, 2] : f32[3]", "line 1, column 16: expected 3 elements for f32[3], found 2"},
      {"%0 = constant [1.5] : i32[1]", "line 1, column 17: expected ',' or ']', found '.'"},
      {"%0 = constant [300] : u8[1]", "line 1, column 16: an element is out of range"},
      {"%0 = constant [2] : bool[1]", "line 1, column 17: expected 0 or 1"},
      {x + "%1 = frobnicate(%0) : f32[4,3]", "line 2, column 6: unknown op 'frobnicate'"},
      {x + "%1 = neg(%1) : f32[4,3]", "line 2, column 10: %1 is not defined above"},
      {x + "%1 = neg(%0) : f32[4,4]", "line 2, column 6: neg: the type is f32[4,3], not f32[4,4]"},
      {x + "%1 = neg(%0) {real=[1]} : f32[4,3]",
       "line 2, column 15: expected 'ints=[', 'reals=[' or 'text=', found 'r'"},
      {x + "%1 = neg(%0) : f32[4,3] hm", "line 2, column 25: expected the end of the line, found 'h'"},
      {x + "%1 = input 0 : f32[4,3]", "line 2, column 1: this node is equal to %0"},
      {x + "%1 = input 0 : f32[2]", "line 2, column 22: the positions of the inputs are not 0 to 1"},
      {x + "%1 = state \"w\" : f32[2]\n%2 = state \"w\" : f32[3]", "line 3, column 24: state \"w\" is f32[2] above"},
      {x + "outputs %3", "line 2, column 9: %3 is not defined above"},
      {x + "updates %0 <- %0", "line 2, column 9: expected a state"},
      {x + "%1 = state \"w\" : f32[2]\nupdates %1 <- %0", "line 3, column 15: the state is f32[2], the value f32[4,3]"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(message_of(text), message) << text;
  EXPECT_EQ(message_of(x + "%1 = add(%0) : f32[4,3]").substr(0, 27), "line 2, column 6: add: expe");
}

TEST(GraphText, DamagedTextNeverCrashes) {
  const std::string text =
      "%0 = input 0 : f32[4,3]\n%1 = state \"w\" : f32[3,2]\n%2 = constant [0.5, nan] : f32[2]\n"
      "%3 = einsum(%0, %1) {text=\"bi,io->bo\"} : f32[4,2]\n%4 = reduce_sum(%3) {ints=[0]} : f32[1,2]\n"
      "%5 = reshape(%4) {ints=[2]} : f32[2]\n%6 = slice(%5) {ints=[0, 1, 1]} : f32[1]\noutputs %6\nupdates %1 <- %1\n";
  ASSERT_NO_THROW(ir::parse(text));
  std::uint64_t seed = 1;
  auto random = [&](std::size_t n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::size_t>(seed >> 33) % n;
  };
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    for (std::size_t edits = 1 + random(3); edits > 0; --edits) {
      const std::size_t at = random(damaged.size());
      switch (random(4)) {
        case 0:
          damaged.erase(at, 1 + random(4));
          break;
        case 1:
          damaged[at] = text[random(text.size())];
          break;
        case 2:
          damaged.insert(at, text.substr(random(text.size()), 1 + random(8)));
          break;
        default:
          damaged[at] = static_cast<char>(random(256));
      }
    }
    try {
      const auto graph = ir::parse(damaged);
      EXPECT_EQ(ir::print(*ir::parse(ir::print(*graph))), ir::print(*graph));
      ++parsed;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(parsed, 100);  // damage inside a name or a number can be harmless
}

// ---- verify ----

std::string verify_message(const Graph& graph) {
  try {
    ir::verify(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

ir::Node node_of(Op op, Spec spec, std::vector<int> inputs) {
  ir::Node node;
  node.op = op;
  node.spec = spec;
  node.inputs = std::move(inputs);
  return node;
}

TEST(GraphVerify, FindsWhatIsWrong) {
  const std::string text = "%0 = input 0 : f32[4,3]\n%1 = state \"w\" : f32[3]\n";
  auto broken = [&](auto&& breaks) {
    auto graph = ir::parse(text);
    breaks(*graph);
    return verify_message(*graph);
  };
  EXPECT_EQ(broken([](Graph&) {}), "no error");
  EXPECT_EQ(broken([](Graph& g) { g.add_node(node_of(Op::neg, f32(4, 4), {0})); }),
            "invalid graph: the op gives f32[4,3]\n  %2 = neg(%0) : f32[4,4]");
  EXPECT_EQ(broken([](Graph& g) { g.add_node(node_of(Op::neg, f32(4, 3), {2})); }),
            "invalid graph: operand %2 does not stand before its use\n  %2 = neg(%2) : f32[4,3]");
  EXPECT_NE(broken([](Graph& g) { g.add_node(node_of(Op::add, f32(4, 3), {0})); }).find("expected 2 operands"),
            std::string::npos);
  EXPECT_NE(broken([](Graph& g) { g.add_node(node_of(Op::constant, f32(4), {})); }).find("has a value"),
            std::string::npos);
  EXPECT_NE(broken([](Graph& g) {
              ir::Node wrong = g[1];
              wrong.spec = f32(4);
              g.add_node(wrong);
            }).find("its variable is f32[3]"),
            std::string::npos);
  EXPECT_EQ(broken([](Graph& g) { g.outputs = {7}; }), "invalid graph: an output is %7, there are 2 nodes");
  EXPECT_NE(broken([](Graph& g) {
              g.updates = {{1, 0}};
            }).find("it updates a state that is f32[3]"),
            std::string::npos);
  EXPECT_NE(broken([](Graph& g) { g.updates = {{0, 0}}; }).find("only a state can be updated"), std::string::npos);
  EXPECT_NE(broken([](Graph& g) { g.inputs = {1}; }).find("argument 0 is not the input"), std::string::npos);
}

TEST(GraphText, FurtherResultsOfAnOp) {
  const std::string op =
      "%0 = input 0 : f32[4,8]\n"
      "%1 = input 1 : f32[2,4]\n"
      "%2 = input 2 : f32[2,8]\n"
      "%3 = gates_grad(%0, %1, %2) {ints=[2, 0, 1, 2, 3]} : f32[4,8]\n";
  round_trip(op + "%4 = result(%3) {ints=[1]} : f32[2,4]\noutputs %3, %4\n");
  EXPECT_EQ(message_of(op + "%4 = result(%3) {ints=[2]} : f32[2,4]\n"),
            "line 5, column 6: result: gates_grad has 1 further results, 2 is none of them");
  EXPECT_EQ(message_of(op + "%4 = result(%2) {ints=[1]} : f32[2,4]\n"),
            "line 5, column 6: result: input has 0 further results, 1 is none of them");
  EXPECT_EQ(message_of(op + "%4 = result(%3) {ints=[1]} : f32[4,8]\n"),
            "line 5, column 6: result: the type is f32[2,4], not f32[4,8]");
}

TEST(AxisMaps, OfAFurtherResultFollowFromTheOperands) {
  const auto graph = ir::parse(
      "%0 = input 0 : f32[4,8]\n"
      "%1 = input 1 : f32[2,4]\n"
      "%2 = input 2 : f32[2,8]\n"
      "%3 = gates_grad(%0, %1, %2) {ints=[2, 0, 1, 2, 3]} : f32[4,8]\n"
      "%4 = result(%3) {ints=[1]} : f32[2,4]\n");
  const ir::AxisMap map = ir::axes_of(*graph, 4);
  ASSERT_EQ(map.operand.size(), 1u);
  EXPECT_EQ(map.operand[0], (ir::Axes{ir::kWhole, ir::AxisTo::reduced()}));  // wires, cells: summed over the cells
}

}  // namespace
}  // namespace wr
