// The part of OpenCL 1.2 that is used, declared here so that nothing of it need be installed to build, and the
// functions of libOpenCL, found while running.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wr::device::cl {

using Int = std::int32_t;
using Uint = std::uint32_t;
using Ulong = std::uint64_t;
using Bool = Uint;
using Flags = Ulong;
struct PlatformObject;
struct DeviceObject;
struct ContextObject;
struct QueueObject;
struct BufferObject;
struct ProgramObject;
struct KernelObject;
struct EventObject;
using Platform = PlatformObject*;
using DeviceId = DeviceObject*;
using Context = ContextObject*;
using Queue = QueueObject*;
using Buffer = BufferObject*;
using Program = ProgramObject*;
using Kernel = KernelObject*;
using Event = EventObject*;

constexpr Int kSuccess = 0, kDeviceNotFound = -1;
constexpr Flags kAllDevices = 0xFFFFFFFF, kCpu = 2;
constexpr Flags kReadWrite = 1, kHostMemory = 1 << 4;  // of a buffer
constexpr Flags kMapRead = 1, kMapWrite = 2, kMapWriteAll = 4;
constexpr Flags kTimes = 2;  // of a queue
constexpr Uint kQueued = 0x1280, kStarted = 0x1282, kEnded = 0x1283;
constexpr Uint kPlatformName = 0x0902;
constexpr Uint kDeviceType = 0x1000, kComputeUnits = 0x1002, kMostItems = 0x1004, kClock = 0x100C,
               kNativeFloats = 0x103A, kMostBytes = 0x1010, kArgumentBytes = 0x1017, kSingleConfig = 0x101B,
               kGlobalBytes = 0x101F, kLocalType = 0x1022, kLocalBytes = 0x1023, kAvailable = 0x1027,
               kCompiler = 0x1028, kName = 0x102B, kVendor = 0x102C, kDriver = 0x102D, kVersion = 0x102F,
               kExtensions = 0x1030, kDoubleConfig = 0x1032, kUnified = 0x1035;
// Of vendors' extensions: cl_nv, cl_amd and cl_intel_device_attribute_query.
constexpr Uint kMajor = 0x4000, kMinor = 0x4001, kSimds = 0x4040, kSimdWidth = 0x4041, kSlices = 0x4252,
               kSubSlices = 0x4253, kEus = 0x4254;
constexpr Flags kExactDivision = 1 << 7;
constexpr Uint kLocalIsNear = 1;
constexpr Uint kBuildLog = 0x1183;
constexpr Uint kBinarySizes = 0x1165, kBinaries = 0x1166;

/// Every function by the name it has in the library, without its "cl".
struct Api {
  Int (*GetPlatformIDs)(Uint, Platform*, Uint*);
  Int (*GetPlatformInfo)(Platform, Uint, std::size_t, void*, std::size_t*);
  Int (*GetDeviceIDs)(Platform, Flags, Uint, DeviceId*, Uint*);
  Int (*GetDeviceInfo)(DeviceId, Uint, std::size_t, void*, std::size_t*);
  Context (*CreateContext)(const std::intptr_t*, Uint, const DeviceId*,
                           void (*)(const char*, const void*, std::size_t, void*), void*, Int*);
  Int (*ReleaseContext)(Context);
  Queue (*CreateCommandQueue)(Context, DeviceId, Flags, Int*);
  Int (*ReleaseCommandQueue)(Queue);
  Buffer (*CreateBuffer)(Context, Flags, std::size_t, void*, Int*);
  Int (*ReleaseMemObject)(Buffer);
  Program (*CreateProgramWithSource)(Context, Uint, const char**, const std::size_t*, Int*);
  Program (*CreateProgramWithBinary)(Context, Uint, const DeviceId*, const std::size_t*, const unsigned char**, Int*,
                                     Int*);
  Int (*BuildProgram)(Program, Uint, const DeviceId*, const char*, void (*)(Program, void*), void*);
  Int (*GetProgramBuildInfo)(Program, DeviceId, Uint, std::size_t, void*, std::size_t*);
  Int (*GetProgramInfo)(Program, Uint, std::size_t, void*, std::size_t*);
  Int (*ReleaseProgram)(Program);
  Kernel (*CreateKernel)(Program, const char*, Int*);
  Int (*ReleaseKernel)(Kernel);
  Int (*SetKernelArg)(Kernel, Uint, std::size_t, const void*);
  Int (*EnqueueNDRangeKernel)(Queue, Kernel, Uint, const std::size_t*, const std::size_t*, const std::size_t*, Uint,
                              const Event*, Event*);
  Int (*EnqueueWriteBuffer)(Queue, Buffer, Bool, std::size_t, std::size_t, const void*, Uint, const Event*, Event*);
  Int (*EnqueueReadBuffer)(Queue, Buffer, Bool, std::size_t, std::size_t, void*, Uint, const Event*, Event*);
  void* (*EnqueueMapBuffer)(Queue, Buffer, Bool, Flags, std::size_t, std::size_t, Uint, const Event*, Event*, Int*);
  Int (*EnqueueUnmapMemObject)(Queue, Buffer, void*, Uint, const Event*, Event*);
  Int (*WaitForEvents)(Uint, const Event*);
  Int (*GetEventProfilingInfo)(Event, Uint, std::size_t, void*, std::size_t*);
  Int (*ReleaseEvent)(Event);
  Int (*Flush)(Queue);
  Int (*Finish)(Queue);
};

/// The library's functions, loaded once. Throws Error where it cannot be loaded.
const Api& api();

}  // namespace wr::device::cl
