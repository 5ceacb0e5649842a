// Logs read back: CSV, JSON lines, TensorBoard. Anybody may have written them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/json.h"
#include "report/event_file.h"
#include "report/text_log.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/report.h"

namespace wr::report {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

std::optional<double> number_of(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The figures of a line, of which some are its step and time.
class LineReader {
 public:
  explicit LineReader(History& history) : history_(history) {}
  void add(const std::string& name, double value) {
    if (name.empty()) return;  // the column of row numbers that some writers put first
    if (name == "step" || (name == "epoch" && !step_)) step_ = value;
    if (name == "seconds" && std::isfinite(value))
      point_.seconds = value;
    else if (name != "step" && name != "epoch")
      point_.values.emplace_back(name, value);
  }
  void end() {
    const double step = step_ && std::abs(*step_) < 9e15 ? *step_ : static_cast<double>(history_.points.size() + 1);
    point_.step = static_cast<std::int64_t>(step);
    if (!point_.values.empty()) history_.points.push_back(std::move(point_));
    point_ = {};
    step_.reset();
  }

 private:
  History& history_;
  Point point_;
  std::optional<double> step_;
};

/// The fields of a row of CSV; takes the row off the text.
std::vector<std::string> next_row(std::string_view& text) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (text.starts_with('"')) {
        fields.back() += c;
        text.remove_prefix(1);
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

void read_csv(std::string_view text, const std::string& path, History& history) {
  const std::vector<std::string> names = next_row(text);
  if (std::all_of(names.begin(), names.end(), [](const std::string& n) { return n.empty() || number_of(n); }))
    throw Error(path + ": line 1: no names of columns, such as step,seconds,loss");
  LineReader line(history);
  for (std::size_t row = 2; !text.empty(); ++row) {
    const std::vector<std::string> fields = next_row(text);
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() > names.size())
      throw Error(fmt::format("{}: row {}: {} fields under {} names", path, row, fields.size(), names.size()));
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (const auto value = number_of(fields[i])) line.add(names[i], *value);
    line.end();
  }
}

void read_json_lines(std::string_view text, const std::string& path, History& history) {
  LineReader line(history);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json object = parse_json(one, fmt::format("{}: line {}", path, number));
    if (!object.is_object()) throw Error(fmt::format("{}: line {}: is no object", path, number));
    for (const auto& [name, value] : object.members())
      if (value.is_number()) line.add(name, value.number());
    line.end();
  }
}

bool is_event_file(const fs::path& path) { return path.filename().string().find("tfevents") != std::string::npos; }

/// Files of a folder in the order of their names, which begin with the time they were made.
std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (is_event_file(it->path())) files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  if (files.empty()) throw Error(folder + ": holds no event file of TensorBoard's (events.out.tfevents...)");
  return files;
}

/// Writers that log one figure a record: those of one step are one point.
std::vector<Point> merged(std::vector<Point> points) {
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.step < b.step; });
  std::vector<Point> out;
  for (Point& p : points)
    if (!out.empty() && out.back().step == p.step)
      out.back().values.insert(out.back().values.end(), p.values.begin(), p.values.end());
    else
      out.push_back(std::move(p));
  return out;
}

/// "mlp" of "runs/mlp.csv" and of "runs/mlp/".
std::string name_of(const std::string& path) {
  fs::path p = path;
  if (!p.has_filename()) p = p.parent_path();
  return p.has_stem() && !fs::is_directory(path) ? p.stem().string() : p.filename().string();
}

}  // namespace

void read_text_log(std::string_view text, const std::string& path, History& history) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{')
    read_json_lines(text, path, history);
  else
    read_csv(text, path, history);
}

History read_log(const std::string& path) {
  History history{name_of(path), {}};
  const bool folder = fs::is_directory(path);
  if (folder || is_event_file(path)) {
    double begin = -1;
    for (const std::string& file : folder ? event_files(path) : std::vector<std::string>{path})
      read_events(file, read_file(file, kMostBytes), begin, history.points);
    history.points = merged(std::move(history.points));
    return history;
  }
  read_text_log(read_file(path, kMostBytes), path, history);
  return history;
}

}  // namespace wr::report
