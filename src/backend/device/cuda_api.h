// The part of CUDA's driver interface and of NVRTC that is used, declared here so that nothing of them need be
// installed to build, and their functions, found while running.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wr::device::cuda {

using Result = int;
using DeviceId = int;
using Pointer = std::uint64_t;
struct ContextObject;
struct StreamObject;
struct ModuleObject;
struct FunctionObject;
struct GraphObject;
struct GraphExecObject;
struct EventObject;
struct CompilationObject;
using Context = ContextObject*;
using Stream = StreamObject*;
using Code = ModuleObject*;
using Function = FunctionObject*;
using Graph = GraphObject*;
using GraphExec = GraphExecObject*;
using Event = EventObject*;
using Compilation = CompilationObject*;

constexpr int kMostThreads = 1, kSharedBytes = 8, kClock = 13, kUnits = 16, kIntegrated = 18, kMajor = 75, kMinor = 76;
constexpr int kCaptureThisThread = 1;
constexpr unsigned kMapped = 2;                // of memory of the host's
constexpr unsigned kTimed = 0, kNotTimed = 2;  // of an event

struct Api {
  Result (*Init)(unsigned);
  Result (*DriverGetVersion)(int*);
  Result (*GetErrorString)(Result, const char**);
  Result (*DeviceGetCount)(int*);
  Result (*DeviceGet)(DeviceId*, int);
  Result (*DeviceGetName)(char*, int, DeviceId);
  Result (*DeviceGetAttribute)(int*, int, DeviceId);
  Result (*DeviceTotalMem)(std::size_t*, DeviceId);
  Result (*DevicePrimaryCtxRetain)(Context*, DeviceId);
  Result (*DevicePrimaryCtxRelease)(DeviceId);
  Result (*CtxSetCurrent)(Context);
  Result (*StreamCreate)(Stream*, unsigned);
  Result (*StreamDestroy)(Stream);
  Result (*StreamSynchronize)(Stream);
  Result (*StreamBeginCapture)(Stream, int);
  Result (*StreamEndCapture)(Stream, Graph*);
  Result (*MemAlloc)(Pointer*, std::size_t);
  Result (*MemFree)(Pointer);
  Result (*MemHostAlloc)(void**, std::size_t, unsigned);
  Result (*MemHostGetDevicePointer)(Pointer*, void*, unsigned);
  Result (*MemFreeHost)(void*);
  Result (*EventCreate)(Event*, unsigned);
  Result (*EventRecord)(Event, Stream);
  Result (*EventSynchronize)(Event);
  Result (*EventElapsedTime)(float*, Event, Event);
  Result (*EventDestroy)(Event);
  Result (*MemcpyHtoDAsync)(Pointer, const void*, std::size_t, Stream);
  Result (*MemcpyDtoHAsync)(void*, Pointer, std::size_t, Stream);
  Result (*ModuleLoadData)(Code*, const void*);
  Result (*ModuleUnload)(Code);
  Result (*ModuleGetFunction)(Function*, Code, const char*);
  Result (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                         void**);
  Result (*GraphInstantiate)(GraphExec*, Graph, unsigned long long);
  Result (*GraphLaunch)(GraphExec, Stream);
  Result (*GraphExecDestroy)(GraphExec);
  Result (*GraphDestroy)(Graph);
};

struct Compiler {
  Result (*CreateProgram)(Compilation*, const char*, const char*, int, const char* const*, const char* const*);
  Result (*CompileProgram)(Compilation, int, const char* const*);
  Result (*GetProgramLogSize)(Compilation, std::size_t*);
  Result (*GetProgramLog)(Compilation, char*);
  Result (*GetCUBINSize)(Compilation, std::size_t*);
  Result (*GetCUBIN)(Compilation, char*);
  Result (*DestroyProgram)(Compilation*);
};

/// Loaded once. Throw Error where the library cannot be loaded.
const Api& api();
const Compiler& compiler();

}  // namespace wr::device::cuda
