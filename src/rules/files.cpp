#include "rules/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::rules {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{2} << 30;

std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// As constants are told apart by their names and shown as text, those of a file in another encoding are refused.
/// Without the byte order mark that spreadsheets put before UTF-8.
std::string_view utf8_of(std::string_view text, const std::string& path) {
  if (const std::size_t at = text::broken_utf8(text); at != std::string_view::npos)
    throw Error(fmt::format("{}: line {}: byte 0x{:02x} is no UTF-8; save the file as UTF-8", path,
                            1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'),
                            static_cast<unsigned char>(text[at])));
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

std::vector<std::string> split(std::string_view line, char separator, const std::string& path, int number) {
  std::vector<std::string> fields(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == separator) {
      fields.emplace_back();
    } else if (separator == ',' && line[i] == '"' && fields.back().empty()) {
      for (++i;; ++i) {
        if (i >= line.size()) throw Error(fmt::format("{}: line {}: a quoted field is not closed", path, number));
        if (line[i] == '"' && (i + 1 >= line.size() || line[i + 1] != '"')) break;
        if (line[i] == '"') ++i;
        fields.back() += line[i];
      }
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

}  // namespace

std::string path_from(const std::string& folder, const std::string& path) {
  const std::filesystem::path p(path);
  return p.is_absolute() || folder.empty() ? path : (std::filesystem::path(folder) / p).string();
}

std::string read_text_file(const std::string& path) {
  const Source source = Source::open(path);
  if (source.size() > kLargestFile)
    throw Error(fmt::format("{}: {} bytes; at most {} are read", path, source.size(), kLargestFile));
  std::string text(source.size(), '\0');
  source.read(0, std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()));
  return text;
}

std::vector<std::string> read_names(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<std::string> names;
  for (std::string_view rest = utf8_of(text, path); !rest.empty();)
    if (const std::string_view line = next_line(rest); !line.empty()) names.emplace_back(line);
  return names;
}

Table parse_table(std::string_view text, const std::string& path, char separator, int arity) {
  Table table;
  table.origin = path;
  std::size_t columns = 0;
  int number = 0;
  for (std::string_view rest = utf8_of(text, path); !rest.empty();) {
    ++number;
    const std::string_view line = next_line(rest);
    if (line.empty()) continue;
    std::vector<std::string> fields = split(line, separator, path, number);
    if (columns == 0) columns = fields.size();
    if (fields.size() != columns)
      throw Error(fmt::format("{}: line {}: {} fields, the first line has {}", path, number, fields.size(), columns));
    if (arity >= 0 && fields.size() == static_cast<std::size_t>(arity) + 1) {
      double weight = 0;
      const std::string& last = fields.back();
      const auto result = std::from_chars(last.data(), last.data() + last.size(), weight);
      if (result.ec != std::errc() || result.ptr != last.data() + last.size())
        throw Error(fmt::format("{}: line {}: the weight '{}' is not a number", path, number, last));
      table.weights.push_back(weight);
      fields.pop_back();
    } else if (arity >= 0 && fields.size() != static_cast<std::size_t>(arity)) {
      throw Error(fmt::format("{}: line {}: {} fields; expected {}, or {} with a weight", path, number, fields.size(),
                              arity, arity + 1));
    }
    table.rows.push_back(std::move(fields));
  }
  return table;
}

Table read_table(const std::string& path, int arity) {
  return parse_table(read_text_file(path), path, path.ends_with(".csv") ? ',' : '\t', arity);
}

}  // namespace wr::rules
