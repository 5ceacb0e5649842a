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
  std::function<std::shared_ptr<ir::Graph>()> trace;  // as it is to be run
  double tolerance = 2e-5;                            // relative to the largest element
  bool optimised = false;                             // to be optimised first, as steps are
};

inline void PrintTo(const DeviceCase& which, std::ostream* out) { *out << which.name; }

/// Small shapes: an interpreter of device code runs them in seconds.
std::vector<DeviceCase> device_cases();

/// A case's graph as it is traced, with its constants as arguments, so that they can be cut and are not folded.
std::shared_ptr<ir::Graph> traced(const DeviceCase& which, std::vector<Array>& arguments);
/// The same as it is run.
std::shared_ptr<const ir::Graph> to_be_run(const DeviceCase& which, const std::shared_ptr<ir::Graph>& traced);

/// Runs a case on the device, in groups of so many items (0: as the device likes) and so many lanes, twice; what is
/// wrong, or nothing.
std::string check_on_device(const DeviceCase& which, const std::shared_ptr<device::Device>& device, int items,
                            int lanes);

}  // namespace wr::test
