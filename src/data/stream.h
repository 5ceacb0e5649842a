// Bytes in order, plain or inflated, for the readers; zlib is used nowhere else but in npz's writer. A Reader counts
// what it has taken, so that errors name the byte, and compares every promised size with what can still come before
// taking memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"
#include "windrow/array.h"
#include "windrow/data.h"

namespace wr::data {

class Stream {
 public:
  virtual ~Stream() = default;
  /// Up to into.size() bytes; 0 only at the end. Throws on corrupt input.
  virtual std::size_t read(std::span<std::uint8_t> into) = 0;
  /// No more bytes than this can still come.
  virtual std::uint64_t most_left() const = 0;
  /// Whether most_left() is only what compression makes possible.
  virtual bool compressed() const = 0;
};

/// Part of a source as it is.
std::unique_ptr<Stream> plain_stream(const Source& source, std::uint64_t offset, std::uint64_t size);

enum class Deflate { raw, gzip };
/// Part of a source, inflated. The compressed stream must end where the part ends.
std::unique_ptr<Stream> inflate_stream(const Source& source, std::uint64_t offset, std::uint64_t size, Deflate format);

/// The whole source, inflated if it begins like a gzip file.
std::unique_ptr<Stream> open_stream(const Source& source);

class Reader {
 public:
  /// The name begins every error.
  Reader(Stream& stream, std::string name, const ReadLimits& limits)
      : stream_(stream), name_(std::move(name)), limits_(limits) {}

  std::uint64_t position() const { return position_; }
  [[noreturn]] void refuse(std::uint64_t at, const std::string& reason) const;

  /// All of `into`; `what` says in the error what is cut off.
  void read(std::span<std::uint8_t> into, const std::string& what);
  template <std::size_t N>
  void read(std::uint8_t (&into)[N], const std::string& what) {
    read(std::span<std::uint8_t>(into, N), what);
  }

  /// The shape's elements times `stored` bytes, after checking that this many can come, and that an array of `dtype`
  /// keeps the limit. The shape was found at byte `at`.
  std::uint64_t checked_bytes(const Shape& shape, std::uint64_t stored, DType dtype, std::uint64_t at) const;
  /// Checks that nothing follows.
  void expect_end();

 private:
  Stream& stream_;
  std::string name_;
  ReadLimits limits_;
  std::uint64_t position_ = 0;
};

/// How elements stand in a file.
struct Stored {
  enum class Kind { boolean, unsigned_integer, signed_integer, floating } kind = Kind::floating;
  int bytes = 4;
  bool big_endian = false;
  /// The element type they get; integers but u8 become i32.
  DType dtype() const;
};

/// Reads an array of these, row-major, checking sizes first and every value that may not fit.
Array read_elements(Reader& reader, const Shape& shape, const Stored& stored, std::uint64_t shape_at);

}  // namespace wr::data
