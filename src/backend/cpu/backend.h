// The CPU as a backend.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/target.h"
#include "base/machine.h"

namespace wr::cpu {

class Backend final : public backend::Backend {
 public:
  /// Kernels of that instruction set, in blocks for the caches of that machine.
  Backend(Target target, const Machine& machine) : target_(target), machine_(machine) {}
  bool can_run(const ir::Graph& graph, int node) const override;
  std::unique_ptr<backend::Executor> prepare(const plan::Schedule& schedule) const override;

 private:
  Target target_;
  Machine machine_;
};

}  // namespace wr::cpu
