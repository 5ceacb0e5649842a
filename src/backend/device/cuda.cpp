// CUDA as a device: kernels compiled by NVRTC, a step's launches replayed as a graph. It has never run on hardware:
// tests run it on an imitation of the driver.
#include <dlfcn.h>

#include <cstdlib>

#include "backend/device/cuda_api.h"
#include "backend/device/devices.h"
#include "base/host.h"

namespace wr::device {
namespace cuda {
namespace {

/// By the name in the environment, else the first of these names that there is.
void* library(const char* variable, std::initializer_list<const char*> names, const char* what) {
  const char* given = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (given && *given) {
    if (void* loaded = ::dlopen(given, RTLD_NOW | RTLD_LOCAL)) return loaded;
  } else {
    for (const char* name : names)
      if (void* loaded = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return loaded;
  }
  throw Error(what);
}

template <class F>
void load(void* from, F& function, const char* name) {
  function = reinterpret_cast<F>(::dlsym(from, name));
  if (!function) throw Error(std::string("the library has no ") + name);
}

}  // namespace

const Api& api() {
  static const Api loaded = [] {
    void* from = library("WINDROW_CUDA_LIBRARY", {"libcuda.so.1", "libcuda.so"},
                         "CUDA is not installed: no libcuda.so.1 (it comes with the driver)");
    Api a{};
    load(from, a.Init, "cuInit");
    load(from, a.DriverGetVersion, "cuDriverGetVersion");
    load(from, a.GetErrorString, "cuGetErrorString");
    load(from, a.DeviceGetCount, "cuDeviceGetCount");
    load(from, a.DeviceGet, "cuDeviceGet");
    load(from, a.DeviceGetName, "cuDeviceGetName");
    load(from, a.DeviceGetAttribute, "cuDeviceGetAttribute");
    load(from, a.DeviceTotalMem, "cuDeviceTotalMem_v2");
    load(from, a.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    load(from, a.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    load(from, a.CtxSetCurrent, "cuCtxSetCurrent");
    load(from, a.StreamCreate, "cuStreamCreate");
    load(from, a.StreamDestroy, "cuStreamDestroy_v2");
    load(from, a.StreamSynchronize, "cuStreamSynchronize");
    load(from, a.StreamBeginCapture, "cuStreamBeginCapture_v2");
    load(from, a.StreamEndCapture, "cuStreamEndCapture");
    load(from, a.MemAlloc, "cuMemAlloc_v2");
    load(from, a.MemFree, "cuMemFree_v2");
    load(from, a.MemHostAlloc, "cuMemHostAlloc");
    load(from, a.MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
    load(from, a.MemFreeHost, "cuMemFreeHost");
    load(from, a.EventCreate, "cuEventCreate");
    load(from, a.EventRecord, "cuEventRecord");
    load(from, a.EventSynchronize, "cuEventSynchronize");
    load(from, a.EventElapsedTime, "cuEventElapsedTime");
    load(from, a.EventDestroy, "cuEventDestroy_v2");
    load(from, a.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
    load(from, a.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
    load(from, a.ModuleLoadData, "cuModuleLoadData");
    load(from, a.ModuleUnload, "cuModuleUnload");
    load(from, a.ModuleGetFunction, "cuModuleGetFunction");
    load(from, a.LaunchKernel, "cuLaunchKernel");
    load(from, a.GraphInstantiate, "cuGraphInstantiateWithFlags");
    load(from, a.GraphLaunch, "cuGraphLaunch");
    load(from, a.GraphExecDestroy, "cuGraphExecDestroy");
    load(from, a.GraphDestroy, "cuGraphDestroy");
    return a;
  }();
  return loaded;
}

const Compiler& compiler() {
  static const Compiler loaded = [] {
    void* from = library("WINDROW_NVRTC_LIBRARY", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                         "NVRTC is not installed: no libnvrtc.so (it comes with the CUDA toolkit)");
    Compiler c{};
    load(from, c.CreateProgram, "nvrtcCreateProgram");
    load(from, c.CompileProgram, "nvrtcCompileProgram");
    load(from, c.GetProgramLogSize, "nvrtcGetProgramLogSize");
    load(from, c.GetProgramLog, "nvrtcGetProgramLog");
    load(from, c.GetCUBINSize, "nvrtcGetCUBINSize");
    load(from, c.GetCUBIN, "nvrtcGetCUBIN");
    load(from, c.DestroyProgram, "nvrtcDestroyProgram");
    return c;
  }();
  return loaded;
}

}  // namespace cuda

namespace {

using cuda::api;

std::string reason_of(cuda::Result result) {
  const char* text = nullptr;
  api().GetErrorString(result, &text);
  return text ? text : cat("error ", result);
}

void expect(cuda::Result result, const char* call) {
  if (result != 0) throw Error(cat(call, " failed: ", reason_of(result)));
}

int attribute(cuda::DeviceId id, int which) {
  int value = 0;
  api().DeviceGetAttribute(&value, which, id);
  return value;
}

Facts facts_of(cuda::DeviceId id, int index) {
  Facts f;
  f.api = "cuda";
  f.platform = "CUDA";
  char name[256] = {};
  expect(api().DeviceGetName(name, sizeof name - 1, id), "cuDeviceGetName");
  f.name = name;
  f.vendor = "NVIDIA";
  int version = 0;
  api().DriverGetVersion(&version);
  f.driver = cat(version / 1000, '.', version % 1000 / 10);
  f.version = cat("sm_", attribute(id, cuda::kMajor), attribute(id, cuda::kMinor));
  f.index = index;
  f.units = attribute(id, cuda::kUnits);
  f.clock_mhz = attribute(id, cuda::kClock) / 1000;
  f.most_items = attribute(id, cuda::kMostThreads);
  f.local_bytes = static_cast<std::size_t>(attribute(id, cuda::kSharedBytes));
  expect(api().DeviceTotalMem(&f.global_bytes, id), "cuDeviceTotalMem");
  f.most_bytes = f.global_bytes;
  f.argument_bytes = 4096;
  f.f64 = true;
  f.unified = attribute(id, cuda::kIntegrated) != 0;
  f.exact_division = true;
  tell_units(f, {.major = attribute(id, cuda::kMajor), .minor = attribute(id, cuda::kMinor)});
  return f;
}

struct CudaMemory : Memory {
  explicit CudaMemory(cuda::Pointer p, bool own = true) : pointer(p), owned(own) {}
  ~CudaMemory() override {
    if (owned) api().MemFree(pointer);
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  cuda::Pointer pointer;
  bool owned;
};

/// Pinned memory of the host's, and the device's beside it; on an integrated GPU they are one.
struct CudaIntake final : CudaMemory {
  CudaIntake(cuda::Pointer p, bool own, void* pinned, std::size_t size)
      : CudaMemory(p, own), here(pinned), bytes(size) {}
  ~CudaIntake() override { api().MemFreeHost(here); }
  void* here;
  std::size_t bytes;
};

struct CudaModule final : Module {
  explicit CudaModule(cuda::Code c) : code(c) {}
  ~CudaModule() override { api().ModuleUnload(code); }
  cuda::Code code;
};

struct CudaSequence final : Sequence {
  struct One {
    cuda::Function function = nullptr;
    unsigned groups = 1, items = 1;
    std::vector<void*> arguments;  // with an end to them
  };
  ~CudaSequence() override {
    for (cuda::Event event : times) api().EventDestroy(event);
    if (done) api().EventDestroy(done);
    if (exec) api().GraphExecDestroy(exec);
    if (graph) api().GraphDestroy(graph);
  }
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  std::vector<One> launches;
  cuda::Event done = nullptr;      // of its last run
  std::vector<cuda::Event> times;  // before the first launch and behind each
  std::shared_ptr<Module> module;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) {
    expect(api().DeviceGet(&id_, index), "cuDeviceGet");
    facts_ = facts_of(id_, index);
    cuda::compiler();
    expect(api().DevicePrimaryCtxRetain(&context_, id_), "cuDevicePrimaryCtxRetain");
    const cuda::Result result = api().CtxSetCurrent(context_) || api().StreamCreate(&stream_, 1);
    if (result != 0) api().DevicePrimaryCtxRelease(id_);
    expect(result, "cuStreamCreate");
  }
  ~CudaDevice() override {
    api().CtxSetCurrent(context_);
    api().StreamDestroy(stream_);
    api().DevicePrimaryCtxRelease(id_);
  }

  const Facts& facts() const override { return facts_; }
  Dialect dialect() const override { return Dialect::cuda; }

  std::shared_ptr<Memory> allocate(std::size_t bytes) override {
    api().CtxSetCurrent(context_);
    cuda::Pointer pointer = 0;
    const cuda::Result result = api().MemAlloc(&pointer, bytes);
    if (result != 0) throw NoMemory(cat("the device has no memory for ", bytes, " bytes: ", reason_of(result)));
    return std::make_shared<CudaMemory>(pointer);
  }

  std::shared_ptr<Memory> allocate_intake(std::size_t bytes) override {
    api().CtxSetCurrent(context_);
    void* here = nullptr;
    const cuda::Result result = api().MemHostAlloc(&here, bytes, facts_.unified ? cuda::kMapped : 0);
    if (result != 0) throw NoMemory(cat("no memory at home for ", bytes, " bytes of arguments: ", reason_of(result)));
    cuda::Pointer pointer = 0;
    const cuda::Result there =
        facts_.unified ? api().MemHostGetDevicePointer(&pointer, here, 0) : api().MemAlloc(&pointer, bytes);
    if (there == 0) return std::make_shared<CudaIntake>(pointer, !facts_.unified, here, bytes);
    api().MemFreeHost(here);
    throw NoMemory(cat("the device has no memory for ", bytes, " bytes: ", reason_of(there)));
  }

  std::shared_ptr<Module> build(const Source& source) override {
    api().CtxSetCurrent(context_);
    // No contraction: what is fused is written as fma.
    const std::string architecture = "--gpu-architecture=" + facts_.version;
    const char* options[] = {architecture.c_str(), "--fmad=false", "--ftz=true", "--std=c++17"};
    const std::string key = architecture + " --fmad=false --ftz=true";
    cuda::Code code = nullptr;
    if (const std::string known = remembered_code(facts_, source.text, key);
        !known.empty() && api().ModuleLoadData(&code, known.data()) == 0)
      return std::make_shared<CudaModule>(code);
    const std::string made = compiled(source.text, options);
    expect(api().ModuleLoadData(&code, made.data()), "cuModuleLoadData");
    remember_code(facts_, source.text, key, made);
    return std::make_shared<CudaModule>(code);
  }

  std::unique_ptr<Sequence> prepare(const std::shared_ptr<Module>& module, const std::vector<Launch>& launches,
                                    const std::vector<std::vector<Memory*>>& arguments) override {
    api().CtxSetCurrent(context_);
    auto sequence = std::make_unique<CudaSequence>();
    sequence->module = module;
    expect(api().StreamBeginCapture(stream_, cuda::kCaptureThisThread), "cuStreamBeginCapture");
    cuda::Result result = 0;
    for (std::size_t i = 0; i < launches.size() && result == 0; ++i) {
      CudaSequence::One& one = sequence->launches.emplace_back();
      result =
          api().ModuleGetFunction(&one.function, static_cast<CudaModule&>(*module).code, launches[i].kernel.c_str());
      one.groups = static_cast<unsigned>(launches[i].groups);
      one.items = static_cast<unsigned>(launches[i].items);
      for (Memory* memory : arguments[i]) one.arguments.push_back(&static_cast<CudaMemory*>(memory)->pointer);
      one.arguments.push_back(nullptr);
      if (result == 0) result = launch(one);
    }
    const cuda::Result ended = api().StreamEndCapture(stream_, &sequence->graph);
    expect(result, "cuLaunchKernel");
    expect(ended, "cuStreamEndCapture");
    expect(api().GraphInstantiate(&sequence->exec, sequence->graph, 0), "cuGraphInstantiate");
    expect(api().EventCreate(&sequence->done, cuda::kNotTimed), "cuEventCreate");
    return sequence;
  }

  bool write(Memory& to, std::size_t offset, const void* from, std::size_t bytes) noexcept override {
    // From memory that is not pinned the call returns when the bytes have been taken over.
    return good("cuMemcpyHtoDAsync", [&] {
      return api().MemcpyHtoDAsync(static_cast<CudaMemory&>(to).pointer + offset, from, bytes, stream_);
    });
  }
  bool read(void* to, Memory& from, std::size_t offset, std::size_t bytes) noexcept override {
    return good("cuMemcpyDtoHAsync",
                [&] {
                  return api().MemcpyDtoHAsync(to, static_cast<CudaMemory&>(from).pointer + offset, bytes, stream_);
                }) &&
           finish();
  }
  void* open(Memory& intake) noexcept override {
    return problem_.empty() ? static_cast<CudaIntake&>(intake).here : nullptr;
  }
  bool close(Memory& memory) noexcept override {
    auto& intake = static_cast<CudaIntake&>(memory);
    if (facts_.unified) return problem_.empty();
    return good("cuMemcpyHtoDAsync",
                [&] { return api().MemcpyHtoDAsync(intake.pointer, intake.here, intake.bytes, stream_); });
  }
  bool run(Sequence& sequence) noexcept override {
    auto& s = static_cast<CudaSequence&>(sequence);
    return good("cuGraphLaunch", [&] { return api().GraphLaunch(s.exec, stream_); }) &&
           good("cuEventRecord", [&] { return api().EventRecord(s.done, stream_); });
  }
  bool wait(Sequence& sequence) noexcept override {
    return good("cuEventSynchronize",
                [&] { return api().EventSynchronize(static_cast<CudaSequence&>(sequence).done); });
  }
  /// Launch by launch, since a graph does not say when its parts ran.
  bool run_timed(Sequence& sequence, std::span<Span> launches) noexcept override {
    auto& s = static_cast<CudaSequence&>(sequence);
    if (!finish()) return false;
    const auto mark = [&](std::size_t i) {
      if (i == s.times.size()) {
        cuda::Event event = nullptr;
        if (!good("cuEventCreate", [&] { return api().EventCreate(&event, cuda::kTimed); })) return false;
        s.times.push_back(event);
      }
      return good("cuEventRecord", [&] { return api().EventRecord(s.times[i], stream_); });
    };
    if (!mark(0)) return false;
    for (std::size_t i = 0; i < s.launches.size(); ++i)
      if (!good("cuLaunchKernel", [&] { return launch(s.launches[i]); }) || !mark(i + 1)) return false;
    if (!finish()) return false;
    const auto when = [&](std::size_t i) {
      float ms = 0;
      api().EventElapsedTime(&ms, s.times[0], s.times[i]);
      return 1e6 * static_cast<double>(ms);
    };
    for (std::size_t i = 0; i < s.launches.size(); ++i) launches[i] = {when(i), when(i + 1)};
    return true;
  }
  bool finish() noexcept override {
    return good("cuStreamSynchronize", [&] { return api().StreamSynchronize(stream_); });
  }
  const std::string& problem() const noexcept override { return problem_; }

 private:
  cuda::Result launch(CudaSequence::One& one) {
    return api().LaunchKernel(one.function, one.groups, 1, 1, one.items, 1, 1, 0, stream_, one.arguments.data(),
                              nullptr);
  }

  template <class F>
  bool good(const char* call, F f) noexcept {
    if (!problem_.empty()) return false;
    api().CtxSetCurrent(context_);  // of this thread
    const cuda::Result result = f();
    if (result == 0) return true;
    problem_ = cat(call, " failed: ", reason_of(result), ": the device is lost");
    return false;
  }

  template <std::size_t n>
  static std::string compiled(const std::string& source, const char* const (&options)[n]) {
    const cuda::Compiler& c = cuda::compiler();
    cuda::Compilation program = nullptr;
    if (c.CreateProgram(&program, source.c_str(), "windrow.cu", 0, nullptr, nullptr) != 0)
      throw Error("nvrtcCreateProgram failed");
    struct Destroy {
      const cuda::Compiler& c;
      cuda::Compilation& program;
      ~Destroy() { c.DestroyProgram(&program); }
    } destroy{c, program};
    std::size_t size = 0;
    if (c.CompileProgram(program, static_cast<int>(n), options) != 0) {
      c.GetProgramLogSize(program, &size);
      std::string log(size, '\0');
      if (size) c.GetProgramLog(program, log.data());
      throw Error("NVRTC refuses the kernels: " + log.substr(0, 2000));
    }
    if (c.GetCUBINSize(program, &size) != 0 || size == 0) throw Error("NVRTC gives no code");
    std::string code(size, '\0');
    c.GetCUBIN(program, code.data());
    return code;
  }

  Facts facts_;
  cuda::DeviceId id_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  std::string problem_;
};

int count_devices() {
  expect(api().Init(0), "cuInit");
  int count = 0;
  expect(api().DeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

}  // namespace

std::vector<Facts> cuda_devices() {
  std::vector<Facts> list;
  const int count = count_devices();
  for (int i = 0; i < count; ++i) {
    cuda::DeviceId id = 0;
    expect(api().DeviceGet(&id, i), "cuDeviceGet");
    list.push_back(facts_of(id, i));
  }
  return list;
}

std::shared_ptr<Device> open_cuda(int index) {
  if (index < 0 || index >= count_devices()) throw Error("it is there no more");
  return std::make_shared<CudaDevice>(index);
}

}  // namespace wr::device
