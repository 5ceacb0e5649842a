// OpenCL as a device. The library is loaded when a device is asked for, never before.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "backend/cpu/target.h"
#include "backend/device/devices.h"
#include "backend/device/opencl_api.h"
#include "base/host.h"

namespace wr::device {
namespace cl {

const Api& api() {
  static const Api loaded = [] {
    // PoCL would take SIGFPE for itself; what a process does with signals is not a library's to decide.
    ::setenv("POCL_SIGFPE_HANDLER", "0", 0);                    // NOLINT(concurrency-mt-unsafe)
    const char* given = std::getenv("WINDROW_OPENCL_LIBRARY");  // NOLINT(concurrency-mt-unsafe)
    void* library = given && *given ? ::dlopen(given, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!given || !*given)
      for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"})
        if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw Error("OpenCL is not installed: no libOpenCL.so.1 (package ocl-icd-libopencl1)");
    Api a{};
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (!function) throw Error(std::string("libOpenCL has no ") + name);
    };
#define WINDROW_LOAD(name) load(a.name, "cl" #name)
    WINDROW_LOAD(GetPlatformIDs);
    WINDROW_LOAD(GetPlatformInfo);
    WINDROW_LOAD(GetDeviceIDs);
    WINDROW_LOAD(GetDeviceInfo);
    WINDROW_LOAD(CreateContext);
    WINDROW_LOAD(ReleaseContext);
    WINDROW_LOAD(CreateCommandQueue);
    WINDROW_LOAD(ReleaseCommandQueue);
    WINDROW_LOAD(CreateBuffer);
    WINDROW_LOAD(ReleaseMemObject);
    WINDROW_LOAD(CreateProgramWithSource);
    WINDROW_LOAD(CreateProgramWithBinary);
    WINDROW_LOAD(BuildProgram);
    WINDROW_LOAD(GetProgramBuildInfo);
    WINDROW_LOAD(GetProgramInfo);
    WINDROW_LOAD(ReleaseProgram);
    WINDROW_LOAD(CreateKernel);
    WINDROW_LOAD(ReleaseKernel);
    WINDROW_LOAD(SetKernelArg);
    WINDROW_LOAD(EnqueueNDRangeKernel);
    WINDROW_LOAD(EnqueueWriteBuffer);
    WINDROW_LOAD(EnqueueReadBuffer);
    WINDROW_LOAD(EnqueueMapBuffer);
    WINDROW_LOAD(EnqueueUnmapMemObject);
    WINDROW_LOAD(WaitForEvents);
    WINDROW_LOAD(GetEventProfilingInfo);
    WINDROW_LOAD(ReleaseEvent);
    WINDROW_LOAD(Flush);
    WINDROW_LOAD(Finish);
#undef WINDROW_LOAD
    return a;
  }();
  return loaded;
}

}  // namespace cl

namespace {

using cl::api;

void expect(cl::Int result, const char* call) {
  if (result != cl::kSuccess) throw Error(cat(call, " failed (OpenCL error ", result, ")"));
}

template <class T>
T number(cl::DeviceId id, cl::Uint what) {
  T value{};
  api().GetDeviceInfo(id, what, sizeof value, &value, nullptr);
  return value;
}

std::string text(cl::DeviceId id, cl::Uint what) {
  std::size_t size = 0;
  if (api().GetDeviceInfo(id, what, 0, nullptr, &size) != cl::kSuccess || size == 0) return "";
  std::string value(size, '\0');
  api().GetDeviceInfo(id, what, size, value.data(), nullptr);
  value.resize(value.find('\0') == std::string::npos ? size : value.find('\0'));
  return value;
}

struct Known {
  cl::Platform platform;
  cl::DeviceId device;
};

std::vector<Known> all_devices() {
  cl::Uint count = 0;
  const cl::Int result = api().GetPlatformIDs(0, nullptr, &count);
  if (result != cl::kSuccess || count == 0) throw Error("OpenCL has no platform (no driver is installed)");
  std::vector<cl::Platform> platforms(count);
  expect(api().GetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<Known> list;
  for (cl::Platform platform : platforms) {
    if (api().GetDeviceIDs(platform, cl::kAllDevices, 0, nullptr, &count) != cl::kSuccess) continue;
    std::vector<cl::DeviceId> devices(count);
    if (api().GetDeviceIDs(platform, cl::kAllDevices, count, devices.data(), nullptr) != cl::kSuccess) continue;
    for (cl::DeviceId device : devices) list.push_back({platform, device});
  }
  return list;
}

Attributes attributes_of(cl::DeviceId id) {
  const std::string extensions = text(id, cl::kExtensions);
  const auto said = [&](const char* vendor, cl::Uint what) {
    const bool known = extensions.find(cat("cl_", vendor, "_device_attribute_query")) != std::string::npos;
    return known ? static_cast<int>(number<cl::Uint>(id, what)) : 0;
  };
  return {.major = said("nv", cl::kMajor),
          .minor = said("nv", cl::kMinor),
          .simds = said("amd", cl::kSimds),
          .simd_width = said("amd", cl::kSimdWidth),
          .slices = said("intel", cl::kSlices),
          .sub_slices = said("intel", cl::kSubSlices),
          .eus = said("intel", cl::kEus)};
}

Facts facts_of(const Known& known, int index) {
  const cl::DeviceId id = known.device;
  Facts f;
  f.api = "opencl";
  std::size_t size = 0;
  api().GetPlatformInfo(known.platform, cl::kPlatformName, 0, nullptr, &size);
  f.platform.resize(size);
  if (size) api().GetPlatformInfo(known.platform, cl::kPlatformName, size, f.platform.data(), nullptr);
  if (size) f.platform.resize(size - 1);
  f.name = text(id, cl::kName);
  f.vendor = text(id, cl::kVendor);
  f.driver = text(id, cl::kDriver);
  f.version = text(id, cl::kVersion);
  f.index = index;
  f.units = static_cast<int>(number<cl::Uint>(id, cl::kComputeUnits));
  f.clock_mhz = static_cast<int>(number<cl::Uint>(id, cl::kClock));
  f.most_items = static_cast<int>(number<std::size_t>(id, cl::kMostItems));
  f.local_bytes = number<cl::Ulong>(id, cl::kLocalBytes);
  f.global_bytes = number<cl::Ulong>(id, cl::kGlobalBytes);
  f.most_bytes = number<cl::Ulong>(id, cl::kMostBytes);
  f.argument_bytes = number<std::size_t>(id, cl::kArgumentBytes);
  f.f64 = number<cl::Flags>(id, cl::kDoubleConfig) != 0;
  f.unified = number<cl::Bool>(id, cl::kUnified) != 0;
  f.cpu = (number<cl::Flags>(id, cl::kDeviceType) & cl::kCpu) != 0;
  f.vector_bytes = static_cast<int>(number<cl::Uint>(id, cl::kNativeFloats) * sizeof(float));
  // PoCL says 16 floats whatever the CPU has.
  if (f.cpu) f.vector_bytes = std::min(f.vector_bytes, cpu::active_target() == cpu::Target::avx512 ? 64 : 32);
  f.own_local = number<cl::Uint>(id, cl::kLocalType) == cl::kLocalIsNear;
  f.exact_division = (number<cl::Flags>(id, cl::kSingleConfig) & cl::kExactDivision) != 0;
  tell_units(f, attributes_of(id));
  return f;
}

// ---- the device ----

struct OpenClMemory : Memory {
  explicit OpenClMemory(cl::Buffer b) : buffer(b) {}
  ~OpenClMemory() override { api().ReleaseMemObject(buffer); }
  OpenClMemory(const OpenClMemory&) = delete;
  OpenClMemory& operator=(const OpenClMemory&) = delete;
  cl::Buffer buffer;
};

struct OpenClIntake final : OpenClMemory {
  OpenClIntake(cl::Buffer b, std::size_t size, cl::Queue q) : OpenClMemory(b), bytes(size), queue(q) {}
  ~OpenClIntake() override {
    if (!pinned || !here) return;
    api().EnqueueUnmapMemObject(queue, pinned->buffer, here, 0, nullptr, nullptr);
    api().Finish(queue);
  }
  std::size_t bytes;
  cl::Queue queue;
  void* here = nullptr;                  // where the host writes: for good, or (unified memory) while it is open
  std::unique_ptr<OpenClMemory> pinned;  // that is behind `here`; none where memory is unified
};

struct OpenClModule final : Module {
  explicit OpenClModule(cl::Program p) : program(p) {}
  ~OpenClModule() override { api().ReleaseProgram(program); }
  cl::Program program;
};

struct OpenClSequence final : Sequence {
  ~OpenClSequence() override {
    for (const One& one : launches) api().ReleaseKernel(one.kernel);
    forget();
  }
  void forget() {
    if (done) api().ReleaseEvent(done);
    done = nullptr;
  }
  struct One {
    cl::Kernel kernel;
    std::size_t items, all;
  };
  std::vector<One> launches;
  cl::Event done = nullptr;  // of its last run
  std::shared_ptr<Module> module;
};

class OpenClDevice final : public Device {
 public:
  OpenClDevice(const Known& known, int index) : facts_(facts_of(known, index)), id_(known.device) {
    if (!number<cl::Bool>(id_, cl::kAvailable) || !number<cl::Bool>(id_, cl::kCompiler))
      throw Error("the device is not available, or has no compiler");
    cl::Int result = 0;
    context_ = api().CreateContext(nullptr, 1, &id_, nullptr, nullptr, &result);
    expect(result, "clCreateContext");
    for (cl::Queue* queue : {&queue_, &maps_}) {
      *queue = api().CreateCommandQueue(context_, id_, 0, &result);
      if (result != cl::kSuccess) release();
      expect(result, "clCreateCommandQueue");
    }
  }
  ~OpenClDevice() override { release(); }
  OpenClDevice(const OpenClDevice&) = delete;
  OpenClDevice& operator=(const OpenClDevice&) = delete;

  const Facts& facts() const override { return facts_; }
  Dialect dialect() const override { return Dialect::opencl; }

  std::shared_ptr<Memory> allocate(std::size_t bytes) override {
    return std::make_shared<OpenClMemory>(buffer_of(bytes, cl::kReadWrite));
  }

  std::shared_ptr<Memory> allocate_intake(std::size_t bytes) override {
    const cl::Flags unified = facts_.unified ? cl::kHostMemory : 0;
    auto intake = std::make_shared<OpenClIntake>(buffer_of(bytes, cl::kReadWrite | unified), bytes, queue_);
    if (facts_.unified) return intake;
    intake->pinned = std::make_unique<OpenClMemory>(buffer_of(bytes, cl::kReadWrite | cl::kHostMemory));
    cl::Int result = 0;
    intake->here = api().EnqueueMapBuffer(queue_, intake->pinned->buffer, 1, cl::kMapRead | cl::kMapWrite, 0, bytes, 0,
                                          nullptr, nullptr, &result);
    if (result != cl::kSuccess)
      throw NoMemory(cat("no memory at home for ", bytes, " bytes of arguments (OpenCL error ", result, ")"));
    return intake;
  }

  std::shared_ptr<Module> build(const Source& source) override {
    const std::string options =
        std::string("-w -cl-std=CL1.2") + (facts_.exact_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    // PoCL has a cache of its own, of better code than it hands out, which it would have to compile beside it.
    const bool remembers = facts_.platform != "Portable Computing Language";
    if (const std::string code = remembers ? remembered_code(facts_, source.text, options) : ""; !code.empty())
      if (const cl::Program program = from_code(code, options)) return std::make_shared<OpenClModule>(program);
    const char* text = source.text.c_str();
    cl::Int result = 0;
    const cl::Program program = api().CreateProgramWithSource(context_, 1, &text, nullptr, &result);
    expect(result, "clCreateProgramWithSource");
    auto module = std::make_shared<OpenClModule>(program);
    if (api().BuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr) != cl::kSuccess)
      throw Error("the device's compiler refuses the kernels: " + build_log(program));
    if (remembers) remember_code(facts_, source.text, options, code_of(program));
    return module;
  }

  std::unique_ptr<Sequence> prepare(const std::shared_ptr<Module>& module, const std::vector<Launch>& launches,
                                    const std::vector<std::vector<Memory*>>& arguments) override {
    auto sequence = std::make_unique<OpenClSequence>();
    sequence->module = module;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      cl::Int result = 0;
      const cl::Kernel kernel =
          api().CreateKernel(static_cast<OpenClModule&>(*module).program, launches[i].kernel.c_str(), &result);
      expect(result, "clCreateKernel");
      const auto items = static_cast<std::size_t>(launches[i].items);
      sequence->launches.push_back({kernel, items, items * static_cast<std::size_t>(launches[i].groups)});
      for (std::size_t k = 0; k < arguments[i].size(); ++k)
        expect(api().SetKernelArg(kernel, static_cast<cl::Uint>(k), sizeof(cl::Buffer),
                                  &static_cast<OpenClMemory*>(arguments[i][k])->buffer),
               "clSetKernelArg");
    }
    return sequence;
  }

  bool write(Memory& to, std::size_t offset, const void* from, std::size_t bytes) noexcept override {
    if (bytes == 0) return problem_.empty();
    return good("clEnqueueWriteBuffer", [&] {
      return api().EnqueueWriteBuffer(queue_, static_cast<OpenClMemory&>(to).buffer, 1, offset, bytes, from, 0, nullptr,
                                      nullptr);
    });
  }
  bool read(void* to, Memory& from, std::size_t offset, std::size_t bytes) noexcept override {
    if (bytes == 0) return problem_.empty();
    return good("clEnqueueReadBuffer", [&] {
      return api().EnqueueReadBuffer(queue_, static_cast<OpenClMemory&>(from).buffer, 1, offset, bytes, to, 0, nullptr,
                                     nullptr);
    });
  }
  void* open(Memory& memory) noexcept override {
    auto& intake = static_cast<OpenClIntake&>(memory);
    if (intake.pinned) return problem_.empty() ? intake.here : nullptr;
    // In a queue of its own: it need not wait for what the device does meanwhile with other memory.
    good("clEnqueueMapBuffer", [&] {
      cl::Int result = 0;
      intake.here = api().EnqueueMapBuffer(maps_, intake.buffer, 1, cl::kMapWriteAll, 0, intake.bytes, 0, nullptr,
                                           nullptr, &result);
      return result;
    });
    return problem_.empty() ? intake.here : nullptr;
  }
  bool close(Memory& memory) noexcept override {
    auto& intake = static_cast<OpenClIntake&>(memory);
    if (!intake.pinned)
      return good("clEnqueueUnmapMemObject",
                  [&] { return api().EnqueueUnmapMemObject(queue_, intake.buffer, intake.here, 0, nullptr, nullptr); });
    return good("clEnqueueWriteBuffer", [&] {
      return api().EnqueueWriteBuffer(queue_, intake.buffer, 0, 0, intake.bytes, intake.here, 0, nullptr, nullptr);
    });
  }
  bool run(Sequence& sequence) noexcept override {
    auto& s = static_cast<OpenClSequence&>(sequence);
    s.forget();
    for (const auto& one : s.launches)
      if (!launch(queue_, one, &one == &s.launches.back() ? &s.done : nullptr)) return false;
    return good("clFlush", [&] { return api().Flush(queue_); });
  }
  bool wait(Sequence& sequence) noexcept override {
    auto& s = static_cast<OpenClSequence&>(sequence);
    if (!s.done) return problem_.empty();
    const bool ended = good("clWaitForEvents", [&] { return api().WaitForEvents(1, &s.done); });
    s.forget();
    return ended;
  }
  bool run_timed(Sequence& sequence, std::span<Span> launches) noexcept override {
    auto& s = static_cast<OpenClSequence&>(sequence);
    if (!finish()) return false;
    if (!times_ && !good("clCreateCommandQueue", [&] {
          cl::Int result = 0;
          times_ = api().CreateCommandQueue(context_, id_, cl::kTimes, &result);
          return result;
        }))
      return false;
    cl::Ulong first = 0;
    std::array<cl::Event, kTimedAtOnce> events;
    for (std::size_t i = 0; i < s.launches.size(); i += events.size()) {
      const std::size_t count = std::min(events.size(), s.launches.size() - i);
      for (std::size_t k = 0; k < count; ++k)
        if (!launch(times_, s.launches[i + k], &events[k])) return false;
      if (!good("clFinish", [&] { return api().Finish(times_); })) return false;
      for (std::size_t k = 0; k < count; ++k) {
        const auto when = [&](cl::Uint what) {
          cl::Ulong ns = 0;
          api().GetEventProfilingInfo(events[k], what, sizeof ns, &ns, nullptr);
          return ns;
        };
        if (i + k == 0) first = when(cl::kQueued);
        launches[i + k] = {static_cast<double>(when(cl::kStarted) - first),
                           static_cast<double>(when(cl::kEnded) - first)};
        api().ReleaseEvent(events[k]);
      }
    }
    return true;
  }
  bool finish() noexcept override {
    return good("clFinish", [&] { return api().Finish(queue_); });
  }
  const std::string& problem() const noexcept override { return problem_; }

 private:
  static constexpr std::size_t kTimedAtOnce = 64;

  void release() {
    for (cl::Queue queue : {queue_, maps_, times_})
      if (queue) api().ReleaseCommandQueue(queue);
    api().ReleaseContext(context_);
  }

  cl::Buffer buffer_of(std::size_t bytes, cl::Flags flags) {
    cl::Int result = 0;
    const cl::Buffer buffer = api().CreateBuffer(context_, flags, bytes, nullptr, &result);
    if (result != cl::kSuccess)
      throw NoMemory(cat("the device has no memory for ", bytes, " bytes (OpenCL error ", result, ")"));
    return buffer;
  }

  bool launch(cl::Queue queue, const OpenClSequence::One& one, cl::Event* done) noexcept {
    return good("clEnqueueNDRangeKernel", [&] {
      return api().EnqueueNDRangeKernel(queue, one.kernel, 1, nullptr, &one.all, &one.items, 0, nullptr, done);
    });
  }

  template <class F>
  bool good(const char* call, F f) noexcept {
    if (!problem_.empty()) return false;
    const cl::Int result = f();
    if (result == cl::kSuccess) return true;
    problem_ = cat(call, " failed (OpenCL error ", result, "): the device is lost");
    return false;
  }

  std::string build_log(cl::Program program) {
    std::size_t size = 0;
    api().GetProgramBuildInfo(program, id_, cl::kBuildLog, 0, nullptr, &size);
    std::string log(size, '\0');
    api().GetProgramBuildInfo(program, id_, cl::kBuildLog, size, log.data(), nullptr);
    constexpr std::size_t kMost = 2000;
    return log.substr(0, kMost);
  }

  cl::Program from_code(const std::string& code, const std::string& options) {
    const std::size_t size = code.size();
    const auto* bytes = reinterpret_cast<const unsigned char*>(code.data());
    cl::Int status = 0, result = 0;
    const cl::Program program = api().CreateProgramWithBinary(context_, 1, &id_, &size, &bytes, &status, &result);
    if (result != cl::kSuccess) return nullptr;
    if (status == cl::kSuccess &&
        api().BuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr) == cl::kSuccess)
      return program;
    api().ReleaseProgram(program);
    return nullptr;
  }

  std::string code_of(cl::Program program) {
    std::size_t size = 0;
    if (api().GetProgramInfo(program, cl::kBinarySizes, sizeof size, &size, nullptr) != cl::kSuccess || size == 0)
      return "";
    std::string code(size, '\0');
    auto* bytes = reinterpret_cast<unsigned char*>(code.data());
    return api().GetProgramInfo(program, cl::kBinaries, sizeof bytes, &bytes, nullptr) == cl::kSuccess ? code : "";
  }

  Facts facts_;
  cl::DeviceId id_;
  cl::Context context_ = nullptr;
  cl::Queue queue_ = nullptr;
  cl::Queue maps_ = nullptr;   // for memory of the host's that the device is not at work on
  cl::Queue times_ = nullptr;  // that says when its commands ran; made when it is first asked for
  std::string problem_;
};

}  // namespace

std::vector<Facts> opencl_devices() {
  std::vector<Facts> list;
  for (const Known& known : all_devices()) list.push_back(facts_of(known, static_cast<int>(list.size())));
  return list;
}

std::shared_ptr<Device> open_opencl(int index) {
  const std::vector<Known> known = all_devices();
  if (index < 0 || index >= static_cast<int>(known.size())) throw Error("it is there no more");
  return std::make_shared<OpenClDevice>(known[index], index);
}

}  // namespace wr::device
