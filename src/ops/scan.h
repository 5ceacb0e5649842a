// What scan's parts share: its gradient, and its body's nodes in another graph.
#pragma once

#include <memory>
#include <vector>

#include "ops/define.h"

namespace wr::ops {

std::vector<Tensor> gradient_of_scan(const Gradient& of);

/// The body's outputs, of these inputs: its nodes are added to the graph.
std::vector<Tensor> inlined(const ir::Graph& body, const std::vector<Tensor>& inputs,
                            const std::shared_ptr<ir::Graph>& graph);

}  // namespace wr::ops
