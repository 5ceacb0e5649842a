#include "backend/device/devices.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <map>
#include <mutex>

namespace wr::device {
namespace {

// ---- facts as text, one device a line ----

constexpr char kBetween = '\x1f', kEnd = '\n';

void put(std::string& text, const std::string& field) {
  for (char c : field) text += c == kBetween || c == kEnd ? ' ' : c;
  text += kBetween;
}

std::string to_line(const Facts& f) {
  std::string text;
  for (const std::string* field : {&f.api, &f.platform, &f.name, &f.vendor, &f.driver, &f.version}) put(text, *field);
  for (const std::uint64_t number :
       {static_cast<std::uint64_t>(f.index), static_cast<std::uint64_t>(f.units),
        static_cast<std::uint64_t>(f.clock_mhz), static_cast<std::uint64_t>(f.most_items), std::uint64_t{f.local_bytes},
        std::uint64_t{f.global_bytes}, std::uint64_t{f.most_bytes}, std::uint64_t{f.argument_bytes},
        std::uint64_t{f.f64}, std::uint64_t{f.unified}, std::uint64_t{f.cpu}, std::uint64_t{f.own_local},
        std::uint64_t{f.exact_division}, static_cast<std::uint64_t>(f.lanes), static_cast<std::uint64_t>(f.f64_times),
        static_cast<std::uint64_t>(f.vector_bytes)})
    put(text, std::to_string(number));
  return text + kEnd;
}

bool from_line(const std::string& line, Facts& f) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at < line.size();) {
    const auto end = line.find(kBetween, at);
    if (end == std::string::npos) return false;
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  constexpr std::size_t kTexts = 6, kNumbers = 16;
  if (fields.size() != kTexts + kNumbers) return false;
  std::uint64_t n[kNumbers] = {};
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const std::string& text = fields[kTexts + i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n[i]);
    if (error != std::errc() || end != text.data() + text.size()) return false;
  }
  std::string* texts[] = {&f.api, &f.platform, &f.name, &f.vendor, &f.driver, &f.version};
  for (std::size_t i = 0; i < kTexts; ++i) *texts[i] = fields[i];
  f.index = static_cast<int>(n[0]), f.units = static_cast<int>(n[1]), f.clock_mhz = static_cast<int>(n[2]);
  f.most_items = static_cast<int>(n[3]);
  f.local_bytes = n[4], f.global_bytes = n[5], f.most_bytes = n[6], f.argument_bytes = n[7];
  f.f64 = n[8], f.unified = n[9], f.cpu = n[10], f.own_local = n[11], f.exact_division = n[12];
  f.lanes = static_cast<int>(n[13]), f.f64_times = static_cast<int>(n[14]);
  f.vector_bytes = static_cast<int>(n[15]);
  return true;
}

void send_all(int to, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const auto n = ::write(to, text.data() + sent, text.size() - sent);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

/// Everything a child writes before it ends or its time is up.
std::string receive_all(int from, double most_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(most_seconds);
  std::string text;
  for (char buffer[4096];;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{from, POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) <= 0) return text;
    const auto n = ::read(from, buffer, sizeof buffer);
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

Listed in_a_child(const char* api, std::vector<Facts> (*list)(), double most_seconds) {
  int ends[2];
  if (::pipe(ends) != 0) return {{}, "no pipe to a child process"};
  const pid_t child = ::fork();
  if (child < 0) return {{}, "no child process"};
  if (child == 0) {
    ::close(ends[0]);
    std::string text;
    try {
      for (const Facts& facts : list()) text += to_line(facts);
      text += "good";
    } catch (const std::exception& error) {
      text = std::string("none ") + error.what();
    }
    send_all(ends[1], text);
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string text = receive_all(ends[0], most_seconds);
  ::close(ends[0]);
  int status = 0;
  pid_t ended = ::waitpid(child, &status, WNOHANG);
  for (int i = 0; ended == 0 && i < 50; ++i) {
    ::usleep(2000);
    ended = ::waitpid(child, &status, WNOHANG);
  }
  const bool hung = ended == 0;
  if (hung) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  if (text.starts_with("none ")) return {{}, text.substr(5)};
  Listed listed;
  const bool good = text.ends_with("good");
  for (std::size_t at = 0; good && at + 4 < text.size();) {
    const auto end = text.find(kEnd, at);
    if (end == std::string::npos) break;
    Facts facts;
    if (from_line(text.substr(at, end - at), facts)) listed.devices.push_back(facts);
    at = end + 1;
  }
  if (good) return listed;
  listed.reason = std::string("listing ") + api + " devices " +
                  (hung                  ? "did not end in time"
                   : WIFSIGNALED(status) ? cat("crashed (signal ", WTERMSIG(status), "): a driver is broken")
                                         : "failed");
  return listed;
}

namespace {

/// From NVIDIA's programming guide: results of f32 and of f64 a cycle of a multiprocessor, from a capability on.
struct Capability {
  int from, f32, f64;
};
constexpr Capability kCapabilities[] = {{120, 128, 2}, {100, 128, 64}, {90, 128, 64}, {86, 128, 2}, {80, 64, 32},
                                        {75, 64, 2},   {70, 64, 32},   {61, 128, 4},  {60, 64, 32}, {50, 128, 4}};

}  // namespace

void tell_units(Facts& facts, const Attributes& said) {
  if (said.major > 0) {
    const auto* const known = std::find_if(std::begin(kCapabilities), std::end(kCapabilities),
                                           [&](const Capability& c) { return 10 * said.major + said.minor >= c.from; });
    if (known == std::end(kCapabilities)) return;
    facts.lanes = known->f32;
    facts.f64_times = known->f32 / known->f64;
  } else if (said.simds > 0 && said.simd_width > 0) {
    facts.lanes = said.simds * said.simd_width;
  } else if (said.slices > 0 && said.sub_slices > 0 && said.eus > 0) {
    // The driver calls an execution unit of 8 lanes a compute unit; a group runs on all of a sub-slice.
    constexpr int kLanesOfAnEu = 8;
    facts.units = said.slices * said.sub_slices;
    facts.lanes = said.eus * kLanesOfAnEu;
  }
}

Listed list_opencl() { return in_a_child("OpenCL", opencl_devices); }
Listed list_cuda() { return in_a_child("CUDA", cuda_devices); }

namespace {

bool contains(const std::string& text, const std::string& part) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  const auto same = [&](char a, char b) {
    return lower(static_cast<unsigned char>(a)) == lower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

std::string names_of(const Listed& listed) {
  std::string text;
  for (const Facts& f : listed.devices)
    text += cat(text.empty() ? "" : ", ", f.index, " ", f.name, f.cpu ? " (a CPU)" : "");
  return text;
}

/// The one that `which` means: nothing for the first that is no CPU, a number, or part of a name.
Found pick(const std::string& api, const std::string& which, Listed (*list)(), std::shared_ptr<Device> (*open)(int)) {
  static std::map<std::string, Listed> known;
  auto [it, fresh] = known.try_emplace(api);
  if (fresh) it->second = list();
  const Listed& listed = it->second;
  if (!listed.reason.empty()) return {nullptr, listed.reason};
  if (listed.devices.empty()) return {nullptr, "there is no " + api + " device"};
  const bool number =
      !which.empty() && std::all_of(which.begin(), which.end(), [](unsigned char c) { return std::isdigit(c); });
  const auto found = std::find_if(listed.devices.begin(), listed.devices.end(), [&](const Facts& f) {
    return which.empty() ? !f.cpu
           : number      ? std::to_string(f.index) == which
                         : contains(f.name, which) || contains(f.platform, which);
  });
  if (found == listed.devices.end())
    return {nullptr, which.empty() ? "no GPU or accelerator among: " + names_of(listed) + " (a CPU must be named, as " +
                                         api + ":0)"
                                   : "'" + which + "' is none of: " + names_of(listed)};
  static std::map<std::string, std::weak_ptr<Device>> opened;
  auto& device = opened[cat(api, ':', found->index)];
  if (auto known_one = device.lock(); known_one && known_one->problem().empty()) return {known_one, ""};
  try {
    auto made = open(found->index);
    device = made;
    return {made, ""};
  } catch (const Error& error) {
    return {nullptr, found->name + ": " + error.what()};
  }
}

}  // namespace

Found find(const std::string& name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto colon = name.find(':');
  const std::string api = name.substr(0, colon), which = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (api == "opencl") return pick(api, which, list_opencl, open_opencl);
  if (api == "cuda") return pick(api, which, list_cuda, open_cuda);
  if (name != "auto")
    throw Error("device '" + name + "': expected cpu, auto, opencl, opencl:NUMBER, opencl:NAME, cuda or cuda:NUMBER");
  Found cuda = pick("cuda", "", list_cuda, open_cuda);
  if (cuda.device) return cuda;
  Found opencl = pick("opencl", "", list_opencl, open_opencl);
  if (!opencl.device) opencl.reason = "cuda: " + cuda.reason + "; opencl: " + opencl.reason;
  return opencl;
}

}  // namespace wr::device
