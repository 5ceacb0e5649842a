// Logs that a run writes as it goes: a line, or a record, a point.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "base/json.h"
#include "report/event_file.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::report {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A file that only grows; every call leaves its bytes with the system.
class Growing {
 public:
  Growing(std::string path, bool anew) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (anew ? O_TRUNC : 0), 0666);
    if (descriptor_ < 0) fail("open");
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;
  ~Growing() { ::close(descriptor_); }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(descriptor_, bytes.data(), bytes.size());
      if (done < 0 && errno != EINTR) fail("write");
      if (done > 0) bytes.remove_prefix(static_cast<std::size_t>(done));
    }
  }

 private:
  [[noreturn]] void fail(const char* operation) const {
    throw Error(path_ + ": " + operation + ": " + std::generic_category().message(errno));
  }
  std::string path_;
  int descriptor_;
};

std::string number_text(double value) { return fmt::format("{}", text::shown(value)); }

/// A field of a CSV file, in quotes where it must be.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

struct Log::Sink {
  virtual ~Sink() = default;
  virtual void add(const Point& point) = 0;
};

namespace {

/// One row a point. A figure with a new name is a new column: the file is then written anew, which happens a few times
/// at the beginning of a run if at all.
class CsvLog : public Log::Sink {
 public:
  explicit CsvLog(const std::string& path) : path_(path), file_(std::make_unique<Growing>(path, true)) {
    file_->write(head());
  }
  void add(const Point& point) override {
    const std::size_t columns = columns_.size();
    for (const auto& [name, value] : point.values)
      if (std::find(columns_.begin(), columns_.end(), name) == columns_.end()) columns_.push_back(name);
    points_.push_back(point);
    if (columns_.size() == columns) return file_->write(row(point));
    std::string all = head();
    for (const Point& p : points_) all += row(p);
    file_.reset();
    write_file(path_, all);
    file_ = std::make_unique<Growing>(path_, false);
  }

 private:
  std::string head() const {
    std::string line = "step,seconds";
    for (const std::string& name : columns_) line += "," + field(name);
    return line + "\n";
  }
  std::string row(const Point& point) const {
    std::string line = fmt::format("{},{:.3f}", point.step, point.seconds);
    for (const std::string& name : columns_) {
      line += ',';
      for (const auto& [own, value] : point.values)
        if (own == name) line += number_text(value);
    }
    return line + "\n";
  }
  std::string path_;
  std::unique_ptr<Growing> file_;
  std::vector<std::string> columns_;
  std::vector<Point> points_;
};

class JsonLog : public Log::Sink {
 public:
  explicit JsonLog(const std::string& path) : file_(path, true) {}
  void add(const Point& point) override {
    Json line{{"step", point.step}, {"seconds", point.seconds}};
    for (const auto& [name, value] : point.values) line[name] = value;
    file_.write(line.dump() + "\n");
  }

 private:
  Growing file_;
};

/// A file of its own in the folder, as TensorBoard wants it of every writer.
class EventLog : public Log::Sink {
 public:
  explicit EventLog(const std::string& folder) : file_(name_in(folder), true), begin_(wall_time()) {
    file_.write(event_file_head(begin_));
  }
  void add(const Point& point) override { file_.write(event_record(begin_ + point.seconds, point.step, point.values)); }

 private:
  static std::string name_in(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder))
      throw Error(folder + ": is no folder for TensorBoard's files" + (error ? ": " + error.message() : ""));
    char host[64] = "localhost";
    ::gethostname(host, sizeof host - 1);
    for (int i = 0;; ++i) {
      const auto path = std::filesystem::path(folder) /
                        fmt::format("events.out.tfevents.{}.{}.{}.{}", std::llround(wall_time()), host, ::getpid(), i);
      if (!std::filesystem::exists(path)) return path.string();
    }
  }
  Growing file_;
  double begin_;
};

std::unique_ptr<Log::Sink> sink_for(const std::string& path) {
  if (path.empty()) throw Error("Log: no path: a name that ends in .csv or .jsonl, or a folder for TensorBoard");
  if (path.ends_with(".csv")) return std::make_unique<CsvLog>(path);
  if (path.ends_with(".jsonl") || path.ends_with(".json")) return std::make_unique<JsonLog>(path);
  return std::make_unique<EventLog>(path);
}

}  // namespace

Log::Log(const std::string& path, const std::vector<Point>& from) : sink_(sink_for(path)) {
  for (const Point& p : from) add(p);
}
Log::~Log() = default;
Log::Log(Log&&) noexcept = default;
Log& Log::operator=(Log&&) noexcept = default;

void Log::add(const Point& point) { sink_->add(point); }

}  // namespace wr::report
