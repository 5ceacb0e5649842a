// The CPU as a backend.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/target.h"

namespace wr::cpu {

class Backend final : public backend::Backend {
 public:
  explicit Backend(Target target) : target_(target) {}
  bool can_run(const ir::Graph& graph, int node) const override;
  std::unique_ptr<backend::Executor> prepare(const plan::Schedule& schedule) const override;

 private:
  Target target_;
};

}  // namespace wr::cpu
