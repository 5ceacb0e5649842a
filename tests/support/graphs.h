// Graphs for tests: traced, random, written as one expression, compared by what they compute.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/random_step.h"

namespace wr::test {

/// The graph of a function; its results are the outputs.
std::shared_ptr<ir::Graph> trace(const std::vector<Spec>& inputs,
                                 const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn);

/// A convolution as a product with patches, as users write what conv2d cannot do.
Tensor by_patches(const Tensor& x, const Tensor& w);

/// The first output as an expression: "add(mul(x, 2), y)".
std::string expression(const ir::Graph& graph, const std::vector<std::string>& input_names);

/// Floats between -2 and 2, integers 0 to 3.
Array random_array(const Spec& spec, unsigned seed);
/// One for each input of the graph.
std::vector<Array> random_inputs(const ir::Graph& graph, unsigned seed);

/// Equal up to rounding; two numbers that are not finite count as equal.
bool nearly_equal(const Array& a, const Array& b, double tolerance);
/// Whether two graphs compute the same outputs and updates from random inputs, by the interpreter.
bool same_results(const ir::Graph& a, const ir::Graph& b, unsigned seed);

/// The graph of a random step.
std::shared_ptr<ir::Graph> random_graph(const Recipe& recipe);

}  // namespace wr::test
