#include "support/host_device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/host.h"
#include "temporary_files.h"

namespace wr::test {
namespace {

using namespace device;

const char* compiler() {
  const char* given = std::getenv("CXX");  // NOLINT(concurrency-mt-unsafe)
  return given && *given ? given : "c++";
}

/// Generated code is looked at as the tests themselves are.
constexpr const char* kSanitizers =
#if defined(__SANITIZE_ADDRESS__)
    "-fsanitize=address,undefined -fno-sanitize-recover=all ";
#elif defined(__SANITIZE_THREAD__)
    "-fsanitize=thread ";
#else
    "";
#endif

struct HostMemory final : Memory {
  // NaN, until somebody writes there.
  explicit HostMemory(std::size_t bytes) : data(bytes / 64 + 1) {
    std::memset(get(), 0xff, data.size() * sizeof(Line));
  }
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> data;
  char* get() { return data.data()->bytes; }
};

struct HostModule final : Module {
  ~HostModule() override {
    if (library) dlclose(library);
  }
  void* library = nullptr;
};

using Kernel = void (*)(int group, char* const* memory);

struct HostSequence final : Sequence {
  struct One {
    std::string name;
    Kernel kernel;
    int groups;
    std::vector<char*> memory;
  };
  std::vector<One> launches;
  std::shared_ptr<Module> module;
};

class HostDevice final : public Device {
 public:
  HostDevice(Facts facts, std::shared_ptr<HostLog> log)
      : facts_(std::move(facts)), log_(log ? std::move(log) : std::make_shared<HostLog>()) {}

  const Facts& facts() const override { return facts_; }
  Dialect dialect() const override { return Dialect::cpp; }

  std::shared_ptr<Memory> allocate(std::size_t bytes) override {
    if (log_->most_bytes && bytes > log_->most_bytes) throw NoMemory("no memory, as the test wanted it");
    return std::make_shared<HostMemory>(bytes);
  }

  std::shared_ptr<Module> build(const device::Source& source) override {
    const std::string base =
        testing::TempDir() + "windrow_device_" + std::to_string(getpid()) + "_" + std::to_string(count_++);
    std::ofstream(base + ".cpp") << source.text;
    const std::string command = std::string(compiler()) + " -std=c++17 -w -ffp-contract=off -fPIC -shared " +
                                kSanitizers + log_->flags + " -o " + base + ".so " + base + ".cpp 2> " + base + ".log";
    const bool built = std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
    std::ifstream said(base + ".log");
    std::stringstream message;
    message << said.rdbuf();
    auto module = std::make_shared<HostModule>();
    if (built) module->library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    for (const char* ending : {".so", ".log"}) std::filesystem::remove(base + ending);
    if (!module->library) throw Error("the C++ dialect does not compile (" + base + ".cpp):\n" + message.str());
    std::filesystem::remove(base + ".cpp");
    return module;
  }

  std::unique_ptr<Sequence> prepare(const std::shared_ptr<Module>& module, const std::vector<Launch>& launches,
                                    const std::vector<std::vector<Memory*>>& arguments) override {
    auto sequence = std::make_unique<HostSequence>();
    sequence->module = module;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      auto* symbol = dlsym(static_cast<HostModule&>(*module).library, launches[i].kernel.c_str());
      if (!symbol) throw Error("no kernel " + launches[i].kernel);
      sequence->launches.push_back({launches[i].kernel, reinterpret_cast<Kernel>(symbol), launches[i].groups, {}});
      for (Memory* m : arguments[i]) sequence->launches.back().memory.push_back(static_cast<HostMemory*>(m)->get());
    }
    return sequence;
  }

  bool write(Memory& to, std::size_t offset, const void* from, std::size_t bytes) noexcept override {
    if (!problem_.empty()) return false;
    if (bytes) std::memcpy(static_cast<HostMemory&>(to).get() + offset, from, bytes);
    return true;
  }
  bool read(void* to, Memory& from, std::size_t offset, std::size_t bytes) noexcept override {
    if (!problem_.empty()) return false;
    if (bytes) std::memcpy(to, static_cast<HostMemory&>(from).get() + offset, bytes);
    return true;
  }
  std::shared_ptr<Memory> allocate_intake(std::size_t bytes) override { return allocate(bytes); }
  void* open(Memory& intake) noexcept override {
    return problem_.empty() ? static_cast<HostMemory&>(intake).get() : nullptr;
  }
  bool close(Memory&) noexcept override { return problem_.empty(); }
  bool wait(Sequence&) noexcept override { return problem_.empty(); }
  bool run_timed(Sequence& sequence, std::span<Span> launches) noexcept override {
    using Clock = std::chrono::steady_clock;
    if (log_->real_time && launches.size() == 1) {
      const auto start = Clock::now();
      const bool done = run(sequence);
      launches[0] = {0, std::chrono::duration<double, std::nano>(Clock::now() - start).count()};
      return done;
    }
    for (std::size_t i = 0; i < launches.size(); ++i)
      launches[i] = {1e3 * static_cast<double>(i), 1e3 * static_cast<double>(i + 1)};
    return run(sequence);
  }
  bool run(Sequence& sequence) noexcept override {
    if (runs_++ == log_->fail_at_run) problem_ = "the device is lost";
    if (!problem_.empty()) return false;
    for (const auto& one : static_cast<HostSequence&>(sequence).launches) {
      log_->launched.push_back(one.name);
      for (int group = one.groups; group-- > 0;) one.kernel(group, one.memory.data());
    }
    return true;
  }
  bool finish() noexcept override { return problem_.empty(); }
  const std::string& problem() const noexcept override { return problem_; }

 private:
  Facts facts_;
  std::shared_ptr<HostLog> log_;
  std::string problem_;
  int runs_ = 0;
  static inline int count_ = 0;
};

}  // namespace

bool has_compiler() {
  static const bool found =
      std::system((std::string(compiler()) + " --version > /dev/null 2>&1").c_str()) == 0;  // NOLINT
  return found;
}

std::shared_ptr<Device> host_device(const Facts& facts, std::shared_ptr<HostLog> log) {
  return std::make_shared<HostDevice>(facts, std::move(log));
}

Facts host_facts(bool cpu) {
  Facts facts;
  facts.api = "test";
  facts.name = cpu ? "groups of one" : "groups of many";
  facts.units = 3;
  facts.most_items = 8;
  facts.local_bytes = 48 << 10;
  facts.argument_bytes = 4096;
  facts.f64 = true;
  facts.unified = true;
  facts.cpu = cpu;
  return facts;
}

}  // namespace wr::test
