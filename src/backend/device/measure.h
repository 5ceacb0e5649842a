// What a device can do, measured once by small kernels of the generator: what a launch costs, products, copies, calls.
#pragma once

#include <optional>

#include "backend/cpu/measure.h"
#include "backend/device/device.h"

namespace wr::device {

/// The device as the planner sees it: machine_of(), with rates that were measured now or earlier (kept in the cache
/// folder by device and driver). What cannot be measured stays as machine_of() has it; that is never an error.
/// `again`: do not read, measure.
cpu::KnownMachine find_machine(Device& device, const Form& form, const Machine& host, bool again = false);

/// What is remembered of a device, if anything: nothing is run for it.
std::optional<Machine> remembered_machine(const Facts& facts, const Machine& host);

}  // namespace wr::device
