// A backend that runs lowered programs with the interpreter's loops in double, one call after the other: whatever it
// gets right, the interface between plan and device is enough to say.
#pragma once

#include "backend/backend.h"

namespace wr::test {

class InterpretingBackend final : public backend::Backend {
 public:
  /// All but random numbers, which the interpreter does not know.
  bool can_run(const ir::Graph& graph, int node) const override;
  std::unique_ptr<backend::Executor> prepare(const plan::Schedule& schedule) const override;
};

}  // namespace wr::test
