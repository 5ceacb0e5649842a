// POSIX file calls, each wrapped once: interrupted and short calls go on, failed ones become an Error.
#include "base/file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "windrow/error.h"
#include "windrow/files.h"

namespace wr {

namespace {

constexpr std::size_t kWriteBuffer = std::size_t{1} << 16;
constexpr std::size_t kLargestCall = std::size_t{1} << 30;  // Linux moves at most 2 GiB a call

std::atomic<FileFault*> installed_fault{nullptr};

/// The errno a test wants this operation to fail with, or 0.
int injected(FileOperation operation, const std::string& path, std::size_t& bytes) {
  FileFault* fault = installed_fault.load(std::memory_order_acquire);
  return fault ? (*fault)(operation, path, bytes) : 0;
}
int injected(FileOperation operation, const std::string& path) {
  std::size_t bytes = 0;
  return injected(operation, path, bytes);
}

/// Calls until it is not interrupted; 0 or the errno.
template <class Call>
int outcome(Call call) {
  while (call() < 0)
    if (errno != EINTR) return errno;
  return 0;
}

[[noreturn]] void fail_on(const std::string& path, std::string_view operation, int error) {
  throw Error(path + ": " + std::string(operation) + ": " + std::generic_category().message(error));
}

void attempt(int error, std::string_view operation, const std::string& path) {
  if (error) fail_on(path, operation, error);
}

int open_descriptor(const std::string& path, int flags, mode_t mode, int& descriptor) {
  return outcome([&] { return descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

/// What `path` stands for when symbolic links are followed, also those to a file that is not there yet.
std::string followed(std::string path) {
  constexpr int kMostLinks = 40;  // as the system has it
  for (int links = 0; links < kMostLinks; ++links) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    if (real) return real.get();
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) {  // nothing there yet
      const std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
      return error ? path : whole.string();
    }
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  throw Error(path + ": too many symbolic links, one after the other");
}

std::string random_hex() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits)
    bits = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

// A temporary file is called TARGET.tmp-PID-RANDOM: nobody can put something in its way, and who finds one knows
// whether its writer is still at work.
constexpr std::string_view kTemporary = ".tmp-";

/// Whether a file's name is that of a temporary one for `target` whose writer no longer exists.
bool is_leftover(const std::string& name, const std::string& target) {
  if (!name.starts_with(target + std::string(kTemporary))) return false;
  const char* at = name.data() + target.size() + kTemporary.size();
  const char* const last = name.data() + name.size();
  int pid = 0;
  const auto [stop, problem] = std::from_chars(at, last, pid);
  if (problem != std::errc() || pid <= 0 || last - stop != 17 || *stop != '-') return false;
  if (std::any_of(stop + 1, last, [](char c) { return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')); }))
    return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

/// Removes what writers of this file left behind when they were killed.
void remove_leftovers(const std::string& target) {
  const std::filesystem::path path(target);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    struct stat facts {};
    if (is_leftover(it->path().filename().string(), path.filename().string()) &&
        ::lstat(it->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid())
      ::unlink(it->path().c_str());
  }
}

}  // namespace

// ---- reading ----

Source Source::open(const std::string& path) {
  if (path.empty()) throw Error("the name of a file to read is empty");
  Source source;
  source.name_ = path;
  int error = injected(FileOperation::open, path);
  // A pipe must not make us wait: it is refused below.
  if (!error) error = open_descriptor(path, O_RDONLY | O_NONBLOCK, 0, source.descriptor_);
  if (error) fail_on(path, "open", error);
  struct stat facts {};
  if (::fstat(source.descriptor_, &facts) != 0) fail_on(path, "stat", errno);
  if (!S_ISREG(facts.st_mode)) throw Error(path + ": is not a regular file");
  source.size_ = static_cast<std::uint64_t>(facts.st_size);
  return source;
}

Source::Source(std::string name, std::span<const std::uint8_t> memory)
    : name_(std::move(name)), size_(memory.size()), memory_(memory.data()) {}

Source::Source(Source&& other) noexcept
    : name_(std::move(other.name_)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      memory_(other.memory_) {}

Source::~Source() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Source::read(std::uint64_t offset, std::span<std::uint8_t> into) const {
  if (offset > size_ || into.size() > size_ - offset) {
    refuse(offset, "needs " + std::to_string(into.size()) + " bytes, but the file has " +
                       std::to_string(offset > size_ ? 0 : size_ - offset) + " left");
  }
  if (descriptor_ < 0) {
    if (!into.empty()) std::memcpy(into.data(), memory_ + offset, into.size());
    return;
  }
  while (!into.empty()) {
    std::size_t bytes = std::min(into.size(), kLargestCall);
    if (const int error = injected(FileOperation::read, name_, bytes)) fail_on(name_, "read", error);
    ssize_t got = 0;
    const int error =
        outcome([&] { return got = ::pread(descriptor_, into.data(), bytes, static_cast<off_t>(offset)); });
    if (error) fail_on(name_, "read", error);
    if (got == 0) refuse(offset, "the file became shorter while it was read");
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void Source::refuse(std::uint64_t offset, const std::string& reason) const {
  throw Error(name_ + ": byte " + std::to_string(offset) + ": " + reason);
}

// ---- writing ----

FileWriter::FileWriter(const std::string& path) : name_(path), target_(followed(path)) {
  if (path.empty()) throw Error("the name of a file to write is empty");
  mode_t mode = 0666;
  struct stat facts {};
  const bool replaces = ::stat(target_.c_str(), &facts) == 0;
  buffer_.reserve(kWriteBuffer);
  int error = injected(FileOperation::create, name_);
  if (replaces && (S_ISCHR(facts.st_mode) || S_ISFIFO(facts.st_mode))) {
    // Renaming over a terminal, a pipe or /dev/null would take it away from its owner: it is written to.
    if (!error) error = open_descriptor(target_, O_WRONLY | O_NOCTTY, 0, descriptor_);
    if (error) fail_on(name_, "open", error);
    return;
  }
  if (replaces) {
    if (!S_ISREG(facts.st_mode)) throw Error(path + ": is not a regular file");
    mode = facts.st_mode & 07777;
  }
  remove_leftovers(target_);
  temporary_ = target_ + std::string(kTemporary) + std::to_string(::getpid()) + "-" + random_hex();
  if (!error) error = open_descriptor(temporary_, O_WRONLY | O_CREAT | O_EXCL, mode, descriptor_);
  if (error) {
    temporary_.clear();  // not ours
    fail_on(name_, "create", error);
  }
  if (replaces)
    static_cast<void>(::fchmod(descriptor_, mode));  // past the umask; a file system without modes may refuse
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileWriter::write(std::span<const std::uint8_t> bytes) {
  if (buffer_.size() + bytes.size() > kWriteBuffer) flush();
  if (bytes.size() <= kWriteBuffer) {
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return;
  }
  write_through(bytes);
}

void FileWriter::write(std::string_view text) {
  write(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

void FileWriter::flush() {
  write_through(std::span(reinterpret_cast<const std::uint8_t*>(buffer_.data()), buffer_.size()));
  buffer_.clear();
}

void FileWriter::write_through(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    std::size_t count = std::min(bytes.size(), kLargestCall);
    attempt(injected(FileOperation::write, name_, count), "write", name_);
    ssize_t written = 0;
    attempt(outcome([&] { return written = ::write(descriptor_, bytes.data(), count); }), "write", name_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileWriter::commit() {
  flush();
  if (temporary_.empty()) {  // a device has nothing to be brought to a disk or renamed
    const int closed = ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
    return attempt(closed, "close", name_);
  }
  attempt(injected(FileOperation::sync, name_), "fsync", name_);
  attempt(outcome([&] { return ::fsync(descriptor_); }), "fsync", name_);
  attempt(injected(FileOperation::close, name_), "close", name_);
  // After an interrupted close the descriptor is gone on Linux, so it is not closed twice; the data is on the disk
  // anyway.
  const int closed = ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
  attempt(closed, "close", name_);
  attempt(injected(FileOperation::rename, name_), "rename", name_);
  attempt(outcome([&] { return ::rename(temporary_.c_str(), target_.c_str()); }), "rename", name_);
  temporary_.clear();
  sync_folder();
}

/// Makes the new name survive a power failure. The file itself is complete and in place by now.
void FileWriter::sync_folder() const {
  const std::string parent = std::filesystem::path(target_).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  attempt(injected(FileOperation::sync_folder, name_), "fsync of the folder", name_);
  int descriptor = -1;
  // A folder that may be written to but not read cannot be synced; nor can one on a file system without the notion.
  if (open_descriptor(folder, O_RDONLY | O_DIRECTORY, 0, descriptor) != 0) return;
  const int error = outcome([&] { return ::fsync(descriptor); });
  ::close(descriptor);
  if (error && error != EINVAL && error != ENOTSUP) fail_on(name_, "fsync of the folder", error);
}

std::string read_file(const std::string& path, std::uint64_t most) {
  const Source file = Source::open(path);
  if (file.size() > most)
    throw Error(path + ": has " + std::to_string(file.size()) + " bytes, more than the " + std::to_string(most) +
                " that are read");
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::span(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()));
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  FileWriter file(path);
  file.write(bytes);
  file.commit();
}

void try_outputs(std::span<const Output> outputs) {
  std::vector<std::pair<std::string, const Output*>> seen;
  for (const Output& output : outputs) {
    if (output.path.empty()) continue;
    try {
      const FileWriter probe(output.path);
      static_cast<void>(probe);
    } catch (const Error& error) {
      throw Error(output.option + " " + error.what());
    }
    const std::string target = followed(output.path);
    struct stat facts {};
    const bool device = ::stat(target.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
    for (const auto& [other, first] : seen)
      if (other == target && !device)
        throw Error(output.option + " " + output.path + ": is what " + first->option + " writes to as well");
    seen.emplace_back(target, &output);
  }
}

// ---- faults ----

FileFaultScope::FileFaultScope(FileFault fault) : fault_(std::move(fault)) {
  installed_fault.store(&fault_, std::memory_order_release);
}

FileFaultScope::~FileFaultScope() { installed_fault.store(nullptr, std::memory_order_release); }

}  // namespace wr
