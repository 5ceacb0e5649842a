#include "cli/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>

#include "base/host.h"
#include "windrow/clock.h"
#include "windrow/error.h"

namespace wr::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0, saving = 0;

constexpr double kMostSeconds = 1e9;

constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};

/// A terminal that was closed takes no more text, nor does a pipe that nobody reads (`| head`): what is still to be
/// said goes nowhere, rather than fail.
void leave_listeners(bool terminal) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    pollfd state{stream, POLLOUT, 0};
    const bool unread = poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
    if (unread || (terminal && (isatty(stream) != 0 || errno == EIO))) dup2(nowhere, stream);
  }
  close(nowhere);
}

extern "C" void on_interrupt(int signal) {
  const int before = errno;
  if (interrupts && !saving && signal != SIGPIPE) _exit(kInterrupted);
  if (signal == SIGHUP || signal == SIGPIPE) leave_listeners(signal == SIGHUP);
  interrupts = 1;
  errno = before;
}

}  // namespace

Interruptible::Interruptible() {
  interrupts = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    old_[i] = std::signal(kSignals[i], on_interrupt);
    if (old_[i] == SIG_IGN) std::signal(kSignals[i], SIG_IGN);
  }
}

Interruptible::~Interruptible() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], old_[i]);
}

bool interrupted() { return interrupts != 0; }

void save_whole(const std::function<void()>& save) {
  struct Saving {
    Saving() { saving = 1; }
    ~Saving() { saving = 0; }
  } const here;
  save();
}

bool save_or_warn(const std::function<void()>& save) {
  try {
    save_whole(save);
    return true;
  } catch (const Error& e) {
    fmt::print(stderr, "windrow: not saved: {}\n", e.what());
    return false;
  }
}

std::string free_name(const std::string& name) {
  std::filesystem::path folder;
  if (access(".", W_OK) != 0) folder = std::filesystem::temp_directory_path();
  std::filesystem::path file = folder / (name + ".safetensors");
  for (int i = 2; std::filesystem::exists(file); ++i) file = folder / fmt::format("{}-{}.safetensors", name, i);
  return file.string();
}

std::string best_name(const std::string& path) {
  constexpr std::string_view kEnd = ".safetensors";
  if (path.empty()) return path;
  return path.ends_with(kEnd) ? path.substr(0, path.size() - kEnd.size()) + ".best" + std::string(kEnd)
                              : path + ".best";
}

Logs::Logs(const std::vector<std::string>& paths, const std::vector<report::Point>& from) {
  for (const std::string& path : paths) logs_.emplace_back(path, from);
}

void Logs::add(const report::Point& point) {
  try {
    for (report::Log& log : logs_) log.add(point);
  } catch (const Error& e) {
    fmt::print(stderr, "windrow: not logged, from here on: {}\n", e.what());
    logs_.clear();
  }
}

report::Form form_of(bool json) { return json ? report::Form::json : report::Form::automatic; }

Budget::Budget(double seconds) : end_(std::numeric_limits<double>::infinity()) {
  const char* given = std::getenv("WINDROW_SECONDS");
  if (seconds == 0 && given != nullptr) {
    const char* const end = given + std::strlen(given);
    const auto [stop, problem] = std::from_chars(given, end, seconds);
    if (problem != std::errc() || stop != end || !(seconds > 0 && seconds <= kMostSeconds))
      throw Error(fmt::format("WINDROW_SECONDS is '{}'; expected a number of seconds", given));
  }
  if (seconds > 0) end_ = seconds_now() + seconds;
}

bool Budget::is_over() const { return seconds_now() >= end_; }

void check_outputs(std::initializer_list<Output> outputs, std::initializer_list<Output> inputs) {
  for (const Output& out : outputs)
    for (const Output& in : inputs) {
      std::error_code none;
      if (!out.path.empty() && !in.path.empty() && std::filesystem::is_regular_file(out.path, none) &&
          std::filesystem::equivalent(out.path, in.path, none))
        throw Error(fmt::format("{} {}: would be written over {}, which is read", out.option, out.path, in.option));
    }
  try_outputs({outputs.begin(), outputs.size()});
}

void check_logs(const std::vector<std::string>& logs, std::initializer_list<Output> others) {
  std::vector<Output> all(others);
  for (const std::string& path : logs)
    if (path.ends_with(".csv") || path.ends_with(".jsonl") || path.ends_with(".json")) all.push_back({"--log", path});
  try_outputs(all);
}

bool colours() {
  const char* no = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 && (no == nullptr || *no == '\0');
}

void warn_of(const apps::Resumed& from, const std::string& file) {
  if (!from.difference.empty()) fmt::print(stderr, "windrow: {}: {}\n", file, from.difference);
}

std::vector<std::pair<std::string, std::string>> machine_rows(int threads) {
  const Host& m = host();
  return {{"processor", m.cpu},
          {"system", m.system},
          {"cores", fmt::format("{} usable of {}", m.cores, m.cores_online)},
          {"threads", std::to_string(threads)},
          {"memory", fmt::format("{:.1f} GiB", static_cast<double>(m.memory) / (1 << 30))}};
}

void add_device_option(Command command) {
  command
      .option(
          "--device", [](const std::string& name) { ::setenv("WINDROW_DEVICE", name.c_str(), 1); },  // NOLINT
          "Where steps run: cpu, auto, opencl, opencl:N, opencl:NAME, cuda, cuda:N (default: WINDROW_DEVICE, else cpu)")
      .type("DEVICE");
}

}  // namespace wr::cli
