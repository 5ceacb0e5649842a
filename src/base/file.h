// Files, read with their sizes checked and written so that a crash or a full disk leaves the old content. Every failure
// is an Error that names the path, the operation and the system's reason. Tests can make any operation fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "windrow/files.h"

namespace wr {

/// Bytes that an enemy may have written: a file, or memory that stands for one. Readers check every size they find
/// against size() before they use it.
class Source {
 public:
  /// Opens a regular file; folders, pipes and devices are refused.
  static Source open(const std::string& path);
  /// The memory must outlive the source.
  Source(std::string name, std::span<const std::uint8_t> memory);
  Source(Source&& other) noexcept;
  Source& operator=(Source&&) = delete;
  ~Source();

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  /// Fills `into` with the bytes from `offset` on. All of them must be there.
  void read(std::uint64_t offset, std::span<std::uint8_t> into) const;
  /// Throws `name: byte 12: reason`.
  [[noreturn]] void refuse(std::uint64_t offset, const std::string& reason) const;

 private:
  Source() = default;
  std::string name_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;  // -1: memory
  const std::uint8_t* memory_ = nullptr;
};

/// A file that appears under its name complete or not at all. Bytes go to a temporary file in the same folder, under a
/// name that cannot be foreseen; commit() brings them to the disk and puts the file in the place of the old one.
/// Without commit nothing is left behind, and what writers left that were killed is cleaned up. Symbolic links are
/// followed; what is a terminal, a pipe or a device is written to.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  void write(std::span<const std::uint8_t> bytes);
  void write(std::string_view text);
  void commit();

 private:
  void flush();
  void write_through(std::span<const std::uint8_t> bytes);
  void sync_folder() const;

  std::string name_;    // as the caller gave it, for messages
  std::string target_;  // with symbolic links followed
  std::string temporary_;
  std::string buffer_;
  int descriptor_ = -1;
};

enum class FileOperation { open, read, create, write, sync, close, rename, sync_folder };

/// For tests: asked before each operation. Returns 0 to let it happen or the errno it fails with; may lower `bytes` to
/// make a read or write short.
using FileFault = std::function<int(FileOperation operation, const std::string& path, std::size_t& bytes)>;

/// Installs a fault while it lives. One at a time.
class FileFaultScope {
 public:
  explicit FileFaultScope(FileFault fault);
  FileFaultScope(const FileFaultScope&) = delete;
  FileFaultScope& operator=(const FileFaultScope&) = delete;
  ~FileFaultScope();

 private:
  FileFault fault_;
};

}  // namespace wr
