// An imitation of CUDA's driver and of NVRTC, as a library that the CUDA backend loads in tests. Kernels are compiled
// by the host's compiler and run by one thread an item, which wait for one another at __syncthreads. Any call can be
// made to fail: WINDROW_IMITATION_FAIL=cuMemAlloc_v2:3 is the third call of that function.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kItems = 4, kMostArguments = 64;
std::string calls;                 // names of what was called, one a line
std::map<std::string, int> count;  // how often

/// 0, or an error if it is this call's turn to fail.
int called(const char* name) {
  calls += std::string(name) + "\n";
  const char* wanted = std::getenv("WINDROW_IMITATION_FAIL");  // NOLINT(concurrency-mt-unsafe)
  const int number = ++count[name];
  return wanted && wanted == std::string(name) + ":" + std::to_string(number) ? 999 : 0;
}

const char* kShim = R"shim(
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(...)
#define __noinline__
#define __builtin_assume(condition)
#define __shared__ static
struct wr_index { int x; };
static thread_local wr_index threadIdx, blockIdx;
static std::mutex wr_mutex;
static std::condition_variable wr_all;
static int wr_waiting, wr_round, wr_threads;
static void __syncthreads() {
  std::unique_lock<std::mutex> lock(wr_mutex);
  const int round = wr_round;
  if (++wr_waiting == wr_threads) {
    wr_waiting = 0;
    ++wr_round;
    wr_all.notify_all();
  } else {
    wr_all.wait(lock, [&] { return wr_round != round; });
  }
}
template <class To, class From> static To wr_bits(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
#define __int_as_float(x) wr_bits<float>((int)(x))
#define __uint_as_float(x) wr_bits<float>((unsigned)(x))
#define __float_as_uint(x) wr_bits<unsigned>((float)(x))
#define __double_as_longlong(x) wr_bits<long long>((double)(x))
#define __longlong_as_double(x) wr_bits<double>((long long)(x))
using std::exp; using std::expm1; using std::log; using std::log1p; using std::sin; using std::cos; using std::tanh;
using std::erf; using std::pow; using std::floor; using std::ceil; using std::rint; using std::sqrt; using std::fabs;
using std::fma;
extern "C" void wr_begin(int threads) { wr_threads = threads; }
extern "C" void wr_be(int block, int thread) { blockIdx.x = block; threadIdx.x = thread; }
)shim";

struct Compilation {
  std::string source, log, code;
};
struct Code {
  void* library;
};
using Kernel = void (*)(...);
struct Function {
  Code* code;
  void* symbol;
};
struct Node {
  Function function;
  int groups, items;
  std::vector<char*> arguments;
};
struct Graph {
  std::vector<Node> nodes;
};
Graph* capturing = nullptr;
using Event = std::chrono::steady_clock::time_point;

void run(const Node& node) {
  const auto begin = reinterpret_cast<void (*)(int)>(dlsym(node.function.code->library, "wr_begin"));
  const auto be = reinterpret_cast<void (*)(int, int)>(dlsym(node.function.code->library, "wr_be"));
  char* a[kMostArguments] = {};
  for (std::size_t i = 0; i < node.arguments.size(); ++i) a[i] = node.arguments[i];
  begin(node.items);
  for (int group = node.groups; group-- > 0;) {
    std::vector<std::thread> threads;
    for (int item = 0; item < node.items; ++item)
      threads.emplace_back([&, item] {
        be(group, item);
        // More arguments than a kernel takes do no harm in the calling conventions this runs on.
        using All = void (*)(char*, char*, char*, char*, char*, char*, char*, char*, char*, char*, char*, char*, char*,
                             char*, char*, char*, char*, char*, char*, char*, char*, char*, char*, char*, char*, char*,
                             char*, char*, char*, char*, char*, char*);
        reinterpret_cast<All>(node.function.symbol)(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
            a[17], a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31]);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace

#define IMITATED(name) \
  if (const int failed = called(name)) return failed

extern "C" {

const char* imitation_calls() { return calls.c_str(); }
void imitation_forget() {
  calls.clear();
  count.clear();
}

int cuInit(unsigned) {
  IMITATED("cuInit");
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "as the test wanted it";
  return 0;
}
int cuDeviceGetCount(int* count) {
  IMITATED("cuDeviceGetCount");
  *count = 1;
  return 0;
}
int cuDeviceGet(int* id, int index) {
  *id = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "imitation", static_cast<std::size_t>(size));
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  const int integrated = std::getenv("WINDROW_IMITATION_INTEGRATED") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const std::map<int, int> known{{1, kItems},      {8, 48 << 10}, {13, 1500000}, {16, 3},
                                 {18, integrated}, {75, 8},       {76, 0}};
  *value = known.contains(which) ? known.at(which) : 0;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  IMITATED("cuDevicePrimaryCtxRetain");
  *context = &calls;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuStreamCreate(void** stream, unsigned) {
  IMITATED("cuStreamCreate");
  *stream = &calls;
  return 0;
}
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void*) {
  IMITATED("cuStreamSynchronize");
  return 0;
}
int cuStreamBeginCapture_v2(void*, int) {
  IMITATED("cuStreamBeginCapture_v2");
  capturing = new Graph;
  return 0;
}
int cuStreamEndCapture(void*, void** graph) {
  *graph = capturing;
  capturing = nullptr;
  IMITATED("cuStreamEndCapture");
  return 0;
}
int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes) {
  IMITATED("cuMemAlloc_v2");
  *pointer = reinterpret_cast<std::uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *pointer ? 0 : 2;
}
int cuMemFree_v2(std::uint64_t pointer) {
  std::free(reinterpret_cast<void*>(pointer));
  return 0;
}
int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  IMITATED("cuMemHostAlloc");
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *pointer ? 0 : 2;
}
int cuMemHostGetDevicePointer_v2(std::uint64_t* there, void* here, unsigned) {
  IMITATED("cuMemHostGetDevicePointer_v2");
  *there = reinterpret_cast<std::uint64_t>(here);
  return 0;
}
int cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  IMITATED("cuEventCreate");
  *event = new Event{};
  return 0;
}
int cuEventRecord(void* event, void*) {
  IMITATED("cuEventRecord");
  *static_cast<Event*>(event) = std::chrono::steady_clock::now();
  return 0;
}
int cuEventSynchronize(void*) {
  IMITATED("cuEventSynchronize");
  return 0;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  *ms = std::chrono::duration<float, std::milli>(*static_cast<Event*>(to) - *static_cast<Event*>(from)).count();
  return 0;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  IMITATED("cuMemcpyHtoDAsync_v2");
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void*) {
  IMITATED("cuMemcpyDtoHAsync_v2");
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int cuModuleLoadData(void** module, const void* data) {
  IMITATED("cuModuleLoadData");
  // The code is a library: it goes to a file and is opened.
  std::uint64_t size = 0;
  std::memcpy(&size, data, sizeof size);
  char name[] = "/tmp/windrow-imitation-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0 || write(file, static_cast<const char*>(data) + sizeof size, size) != static_cast<ssize_t>(size))
    return 200;
  close(file);
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  unlink(name);
  if (!library) return 200;
  *module = new Code{library};
  return 0;
}
int cuModuleUnload(void* module) {
  dlclose(static_cast<Code*>(module)->library);
  delete static_cast<Code*>(module);
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  IMITATED("cuModuleGetFunction");
  static std::map<std::pair<void*, std::string>, Function> functions;
  auto* code = static_cast<Code*>(module);
  Function& f = functions[{module, name}];
  f = {code, dlsym(code->library, name)};
  *function = &f;
  return f.symbol ? 0 : 500;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned, unsigned, unsigned bx, unsigned, unsigned, unsigned, void*,
                   void** arguments, void**) {
  IMITATED("cuLaunchKernel");
  // How many there are a real driver knows from the code; here they end with the first that is no pointer of ours.
  Node node{*static_cast<Function*>(function), static_cast<int>(gx), static_cast<int>(bx), {}};
  for (int i = 0; i < kMostArguments && arguments[i]; ++i) node.arguments.push_back(*static_cast<char**>(arguments[i]));
  if (capturing)
    capturing->nodes.push_back(node);
  else
    run(node);
  return 0;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  IMITATED("cuGraphInstantiateWithFlags");
  *exec = new Graph(*static_cast<Graph*>(graph));
  return 0;
}
int cuGraphLaunch(void* exec, void*) {
  IMITATED("cuGraphLaunch");
  for (const Node& node : static_cast<Graph*>(exec)->nodes) run(node);
  return 0;
}
int cuGraphExecDestroy(void* exec) {
  delete static_cast<Graph*>(exec);
  return 0;
}
int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}

int nvrtcCreateProgram(void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  *program = new Compilation{source, "", ""};
  return 0;
}
int nvrtcCompileProgram(void* program, int, const char* const*) {
  IMITATED("nvrtcCompileProgram");
  auto& p = *static_cast<Compilation*>(program);
  char name[] = "/tmp/windrow-nvrtc-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return 1;
  close(file);
  const std::string base = name;
  std::ofstream(base + ".cpp") << kShim << p.source;
  const std::string command =
      "c++ -std=c++17 -w -O1 -ffp-contract=off -fPIC -shared -pthread -o " + base + ".so " + base + ".cpp 2> " + base;
  const bool built = std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
  const auto whole = [](const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  };
  p.log = whole(base);
  if (built) {
    const std::string library = whole(base + ".so");
    const std::uint64_t size = library.size();
    p.code.assign(reinterpret_cast<const char*>(&size), sizeof size);
    p.code += library;
  }
  for (const char* ending : {"", ".cpp", ".so"}) unlink((base + ending).c_str());
  return built ? 0 : 6;
}
int nvrtcGetProgramLogSize(void* program, std::size_t* size) {
  *size = static_cast<Compilation*>(program)->log.size();
  return 0;
}
int nvrtcGetProgramLog(void* program, char* log) {
  const std::string& text = static_cast<Compilation*>(program)->log;
  std::memcpy(log, text.data(), text.size());
  return 0;
}
int nvrtcGetCUBINSize(void* program, std::size_t* size) {
  *size = static_cast<Compilation*>(program)->code.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* code) {
  const std::string& text = static_cast<Compilation*>(program)->code;
  std::memcpy(code, text.data(), text.size());
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Compilation*>(*program);
  *program = nullptr;
  return 0;
}

}  // extern "C"
