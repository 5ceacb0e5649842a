#include "apps/write_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "windrow/error.h"

namespace wr::apps {
namespace {

/// Gone at its end unless it was renamed.
class Unfinished {
 public:
  explicit Unfinished(const std::string& path)
      : path_(path), name_(path + ".new"), file_(open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (file_ < 0) refuse();
  }
  ~Unfinished() {
    if (file_ >= 0) close(file_);
    unlink(name_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  void write(const std::string& bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(file_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno != EINTR) refuse();
      if (n > 0) done += static_cast<std::size_t>(n);
    }
  }
  void rename() {
    if (fsync(file_) != 0 || std::rename(name_.c_str(), path_.c_str()) != 0) refuse();
  }

 private:
  [[noreturn]] void refuse() const { throw Error(path_ + ": cannot be written: " + std::strerror(errno)); }

  std::string path_, name_;
  int file_;
};

}  // namespace

void write_file(const std::string& path, const std::string& bytes) {
  Unfinished file(path);
  file.write(bytes);
  file.rename();
}

}  // namespace wr::apps
