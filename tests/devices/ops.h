// Steps that have every op the generator knows, in several shapes, and what the oracle says of them.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backend/device/device.h"
#include "ir/graph.h"

namespace wr::test {

struct DeviceCase {
  std::string name;
  std::function<std::shared_ptr<ir::Graph>()> trace;  // as it is to be run, not to be optimised
  double tolerance = 2e-5;                            // relative to the largest element
};

inline void PrintTo(const DeviceCase& which, std::ostream* out) { *out << which.name; }

/// Small shapes: an interpreter of device code runs them in seconds.
std::vector<DeviceCase> device_cases();

/// Runs a case on the device, in groups of so many items (0: as the device likes) and so many lanes, twice; what is
/// wrong, or nothing.
std::string check_on_device(const DeviceCase& which, const std::shared_ptr<device::Device>& device, int items,
                            int lanes);

}  // namespace wr::test
