// Which devices there are, and the one that is meant by a name. Nothing of this happens unless a device is asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device/device.h"

namespace wr::device {

/// A device, or why there is none.
struct Found {
  std::shared_ptr<Device> device;
  std::string reason;
};

/// "auto", "opencl", "opencl:1", "opencl:NAME", "cuda", "cuda:1". Opened once in a process. Throws Error where the name
/// means nothing.
Found find(const std::string& name);

/// All devices of an API, found by a child process (a broken driver may kill whoever lists them), or why there are
/// none.
struct Listed {
  std::vector<Facts> devices;
  std::string reason;
};
Listed list_opencl();
Listed list_cuda();

// ---- for the two above ----

/// What extensions of vendors say of a device's units; 0 where they say nothing.
struct Attributes {
  int major = 0, minor = 0;                 // NVIDIA: compute capability
  int simds = 0, simd_width = 0;            // AMD: of a unit
  int slices = 0, sub_slices = 0, eus = 0;  // Intel: of the device, a slice, a sub-slice
};
/// Sets the lanes of a unit, and what a unit is where the driver calls something smaller so.
void tell_units(Facts& facts, const Attributes& said);

/// In this process; throws Error.
std::vector<Facts> opencl_devices();
std::vector<Facts> cuda_devices();
std::shared_ptr<Device> open_opencl(int index);
std::shared_ptr<Device> open_cuda(int index);

/// Runs `list` in a child and has its facts sent back. `most_seconds`: how long it may take.
Listed in_a_child(const char* api, std::vector<Facts> (*list)(), double most_seconds = 20);

/// Machine code of a source for a device, as remembered from an earlier build; empty where there is none, or where what
/// there is was made for another driver or is damaged.
std::string remembered_code(const Facts& facts, const std::string& source, const std::string& options);
void remember_code(const Facts& facts, const std::string& source, const std::string& options, const std::string& code);

}  // namespace wr::device
