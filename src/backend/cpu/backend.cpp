// Lowering for the CPU.
#include "backend/cpu/backend.h"

#include "backend/cpu/executor.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/map.h"
#include "backend/cpu/reduce.h"
#include "lower/lower.h"

namespace wr::cpu {

using ir::Op;

/// Ops are checked as they are traced, so all but the element types of formulas and reductions is settled by the op.
bool Backend::can_run(const ir::Graph& graph, int id) const {
  const ir::Node& node = graph[id];
  if (ir::is_formula(node.op))
    return find_map(static_cast<ops::Elementwise>(node.op), graph[node.inputs[0]].spec.dtype, target_) != nullptr;
  if (ir::definition(node.op).traits.reduction)
    return find_reduce(Reduce::sum, graph[node.inputs[0]].spec.dtype, target_) != nullptr;
  return !ir::is_leaf(node.op) && node.op != Op::custom_gradient;
}

std::unique_ptr<backend::Executor> Backend::prepare(const plan::Schedule& schedule) const {
  auto kernels = std::make_unique<Kernels>(target_, machine_);
  lower::Program program = lower::lower(schedule, *kernels);
  return std::make_unique<Executor>(std::move(program), std::move(kernels));
}

}  // namespace wr::cpu
