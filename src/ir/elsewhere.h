// Copies of states on devices. Who reads or writes a state's memory at home says so here; programs that use no device
// pay a look at one flag.
#pragma once

#include <atomic>
#include <memory>

#include "ir/graph.h"

namespace wr::ir {

/// A state's memory on a device.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  /// Afterwards the memory at home is current. Throws Error where the device is lost.
  virtual void bring_home() = 0;
  /// The memory at home is written: what the device has is out of date.
  virtual void changed_at_home() = 0;
};

/// Whether any state has ever been on a device.
inline std::atomic<bool> some_states_are_elsewhere = false;

/// Where the state's copy is; null for one that no device has.
Elsewhere* elsewhere(const Variable& variable);
void set_elsewhere(const std::shared_ptr<Variable>& variable, std::unique_ptr<Elsewhere> where);

inline void bring_home(const Variable& variable) {
  if (!some_states_are_elsewhere.load(std::memory_order_relaxed)) return;
  if (Elsewhere* where = elsewhere(variable)) where->bring_home();
}
inline void changed_at_home(const Variable& variable) {
  if (!some_states_are_elsewhere.load(std::memory_order_relaxed)) return;
  if (Elsewhere* where = elsewhere(variable)) where->changed_at_home();
}

/// The state's memory has been handed out: it may be read and written at any time.
void expose(const std::shared_ptr<Variable>& variable);
bool is_exposed(const Variable& variable);

}  // namespace wr::ir
