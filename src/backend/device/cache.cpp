// Machine code of kernels, remembered in files. A file names what it is for and has a sum over its bytes; what does not
// fit is made anew.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "backend/cpu/measure.h"
#include "backend/device/devices.h"
#include "base/file.h"

namespace wr::device {
namespace {

constexpr std::string_view kMagic = "windrow device code 1\n";
constexpr std::uint64_t kMost = std::uint64_t{256} << 20;

std::uint64_t sum_of(std::string_view text, std::uint64_t hash = 14695981039346656037u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;  // FNV-1a
  return hash;
}

std::string hex(std::uint64_t number) {
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

/// What the code is for: the device, its driver, the source and how it is built.
std::string key_of(const Facts& f, const std::string& source, const std::string& options) {
  const std::string device = cat(f.api, '|', f.platform, '|', f.name, '|', f.driver, '|', f.version, '|', options, '|');
  return hex(sum_of(device)) + hex(sum_of(source)) + hex(sum_of(device, sum_of(source))) + "\n";
}

std::string folder() { return (std::filesystem::path(cpu::cache_folder()) / "devices").string(); }
std::string file_of(const std::string& key) { return (std::filesystem::path(folder()) / key.substr(16, 32)).string(); }

}  // namespace

std::string remembered_code(const Facts& facts, const std::string& source, const std::string& options) {
  const std::string key = key_of(facts, source, options), name = file_of(key);
  std::error_code ignored;
  if (cpu::cache_folder().empty() || !std::filesystem::exists(name, ignored)) return "";
  try {
    const wr::Source file = wr::Source::open(name);
    const std::uint64_t head = kMagic.size() + key.size() + 17;
    if (file.size() <= head || file.size() > kMost) return "";
    std::string all(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, {reinterpret_cast<std::uint8_t*>(all.data()), all.size()});
    const std::string code = all.substr(static_cast<std::size_t>(head));
    return all.substr(0, static_cast<std::size_t>(head)) == std::string(kMagic) + key + hex(sum_of(code)) + "\n" ? code
                                                                                                                 : "";
  } catch (const Error&) {
    return "";
  }
}

void remember_code(const Facts& facts, const std::string& source, const std::string& options, const std::string& code) {
  if (code.empty() || cpu::cache_folder().empty()) return;
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder(), ignored);
    const std::string key = key_of(facts, source, options);
    FileWriter writer(file_of(key));
    writer.write(std::string(kMagic) + key + hex(sum_of(code)) + "\n");
    writer.write(code);
    writer.commit();
  } catch (const Error&) {
    // Built again next time.
  }
}

}  // namespace wr::device
