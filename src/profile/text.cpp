#include "profile/text.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace wr {

std::string bytes_text(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.3g} KB", bytes / 1024);
  if (bytes < 1024.0 * 1024 * 1024) return fmt::format("{:.3g} MB", bytes / 1024 / 1024);
  return fmt::format("{:.3g} GB", bytes / 1024 / 1024 / 1024);
}

std::string line_text(const std::string& file, int line) {
  if (file.empty()) return "-";
  return fmt::format("{}:{}", file.substr(file.find_last_of("/\\") + 1), line);
}

std::string source_line(const std::string& file, int line) {
  // Compilers often name a file as seen from the build folder; a program is often started one above. A profile may name
  // anything: a pipe or a device might never end.
  std::ifstream in;
  std::error_code none;
  for (const std::string& path : {file, file.starts_with("../") ? file.substr(3) : file})
    if (!in.is_open() && std::filesystem::is_regular_file(path, none)) in.open(path);
  if (!in.is_open()) return "";
  std::string text;
  for (int i = 0; i < line && std::getline(in, text); ++i) {
  }
  if (!in) return "";
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, 160);
}

std::string shortened(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

}  // namespace wr
