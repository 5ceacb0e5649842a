#include "cli/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/host.h"
#include "windrow/error.h"

namespace wr::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0, saving = 0;

extern "C" void on_interrupt(int) {
  if (interrupts && !saving) _exit(kInterrupted);
  interrupts = 1;
}

}  // namespace

Interruptible::Interruptible() {
  interrupts = 0;
  old_int_ = std::signal(SIGINT, on_interrupt);
  old_term_ = std::signal(SIGTERM, on_interrupt);
}

Interruptible::~Interruptible() {
  std::signal(SIGINT, old_int_);
  std::signal(SIGTERM, old_term_);
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
  std::string file = name + ".safetensors";
  for (int i = 2; std::filesystem::exists(file); ++i) file = fmt::format("{}-{}.safetensors", name, i);
  return file;
}

void check_writable(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (std::filesystem::is_directory(path)) throw Error(fmt::format("{} {}: is a folder", option, path));
  if (!std::filesystem::is_directory(folder))
    throw Error(fmt::format("{} {}: there is no folder {}", option, path, folder.string()));
  if (access(folder.c_str(), W_OK) != 0)
    throw Error(fmt::format("{} {}: the folder {} cannot be written to", option, path, folder.string()));
}

std::vector<std::pair<std::string, std::string>> machine_rows(int threads) {
  const Host& m = host();
  return {{"processor", m.cpu},
          {"system", m.system},
          {"cores", fmt::format("{} usable of {}", m.cores, m.cores_online)},
          {"threads", std::to_string(threads)},
          {"memory", fmt::format("{:.1f} GiB", static_cast<double>(m.memory) / (1 << 30))}};
}

}  // namespace wr::cli
