// Where steps run: on the CPU, or as a whole on an OpenCL or CUDA device (docs/devices.md).
#pragma once

#include <string>

#include "windrow/step.h"

namespace wr {

/// Steps that this thread compiles while it lives, and whose CompileOptions name no device, run there: "cpu", "opencl"
/// (its first GPU or accelerator), "opencl:1" or "opencl:NAME" (that device, CPUs as OpenCL devices too), "cuda",
/// "cuda:1", or "auto": a GPU if there is one that can run the whole step, else the CPU. What is asked for by name and
/// cannot run a step is an Error of its compile(). Without it WINDROW_DEVICE says where, else it is the CPU, without a
/// look at what else there is.
class OnDevice {
 public:
  explicit OnDevice(std::string name);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  std::string before_;
};

/// What the plan that ran last runs on: "cpu", "opencl: NAME".
std::string device_of(const Step& step);
/// Why it does not run on the device that was looked for; empty where it does, or where none was.
std::string fallback_of(const Step& step);

}  // namespace wr
