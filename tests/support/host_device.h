// A device for tests: the generator's plain C++ dialect, compiled by the system's compiler and run on the host.
// Work-groups run one after the other, last first; items of a stage likewise.
#pragma once

#include <memory>

#include "backend/device/device.h"

namespace wr::test {

/// Whether there is a compiler to call.
bool has_compiler();

/// What goes wrong on purpose, and what has been done.
struct HostLog {
  int fail_at_run = -1;               // the number of the run that fails
  std::size_t most_bytes = 0;         // 0: any
  std::vector<std::string> launched;  // kernels in order
  std::string flags = "-O1";          // of the compiler
  bool real_time = false;             // launches are said to take what they take, not a microsecond each
};

std::shared_ptr<device::Device> host_device(const device::Facts& facts, std::shared_ptr<HostLog> log = nullptr);
/// A device that groups of one item suit, or one of many.
device::Facts host_facts(bool cpu);

}  // namespace wr::test
