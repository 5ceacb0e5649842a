// Plain and inflating streams, and the conversion of stored elements.
#include "data/stream.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "windrow/error.h"

namespace wr::data {

namespace {

static_assert(std::endian::native == std::endian::little,
              "file formats are read and written as on little-endian machines");

constexpr std::size_t kChunk = std::size_t{1} << 16;
// A deflate stream cannot say more than 258 bytes in two bits.
constexpr std::uint64_t kMostInflation = 1032;

class PlainStream final : public Stream {
 public:
  PlainStream(const Source& source, std::uint64_t offset, std::uint64_t size)
      : source_(source), offset_(offset), left_(size) {}
  std::size_t read(std::span<std::uint8_t> into) override {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left_));
    source_.read(offset_, into.first(bytes));
    offset_ += bytes;
    left_ -= bytes;
    return bytes;
  }
  std::uint64_t most_left() const override { return left_; }
  bool compressed() const override { return false; }

 private:
  const Source& source_;
  std::uint64_t offset_, left_;
};

class InflateStream final : public Stream {
 public:
  InflateStream(const Source& source, std::uint64_t offset, std::uint64_t size, Deflate format)
      : source_(source), offset_(offset), left_(size), chunk_(kChunk) {
    const int window = format == Deflate::gzip ? MAX_WBITS + 16 : -MAX_WBITS;
    if (inflateInit2(&state_, window) != Z_OK) throw Error(source.name() + ": no memory to inflate it");
  }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
  ~InflateStream() override { inflateEnd(&state_); }

  std::size_t read(std::span<std::uint8_t> into) override {
    if (ended_ || into.empty()) return 0;
    into = into.first(std::min(into.size(), std::size_t{1} << 30));
    state_.next_out = into.data();
    state_.avail_out = static_cast<uInt>(into.size());
    while (state_.avail_out > 0 && !ended_) {
      if (state_.avail_in == 0) refill();
      step();
    }
    return into.size() - state_.avail_out;
  }

  std::uint64_t most_left() const override {
    if (ended_) return 0;
    const std::uint64_t compressed = left_ + state_.avail_in + 64;  // 64: bits and matches zlib has already taken in
    return compressed > std::numeric_limits<std::uint64_t>::max() / kMostInflation ? compressed
                                                                                   : compressed * kMostInflation;
  }
  bool compressed() const override { return true; }

 private:
  std::uint64_t position() const { return offset_ - state_.avail_in; }

  void refill() {
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_.size(), left_));
    source_.read(offset_, std::span(chunk_).first(bytes));
    offset_ += bytes;
    left_ -= bytes;
    state_.next_in = chunk_.data();
    state_.avail_in = static_cast<uInt>(bytes);
  }

  void step() {
    const int result = inflate(&state_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      ended_ = true;
      const std::uint64_t after = left_ + state_.avail_in;
      if (after > 0) source_.refuse(position(), std::to_string(after) + " bytes follow the compressed data");
    } else if (result == Z_BUF_ERROR) {  // there is room for output, so it is input that is missing
      source_.refuse(position(), "the compressed data is cut off");
    } else if (result == Z_NEED_DICT) {
      source_.refuse(position(), "the compressed data needs a dictionary");
    } else if (result != Z_OK) {
      source_.refuse(position(), std::string("the compressed data is corrupt") +
                                     (state_.msg ? std::string(": ") + state_.msg : ""));
    }
  }

  const Source& source_;
  std::uint64_t offset_, left_;
  std::vector<std::uint8_t> chunk_;
  z_stream state_{};
  bool ended_ = false;
};

std::uint64_t load(const std::uint8_t* bytes, int count, bool big_endian) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= std::uint64_t{bytes[big_endian ? count - 1 - i : i]} << (8 * i);
  return value;
}

/// The value as i32, or false if it does not fit.
bool to_i32(std::uint64_t bits, const Stored& stored, std::int32_t& value) {
  const int unused = 64 - 8 * stored.bytes;
  if (stored.kind == Stored::Kind::unsigned_integer) {
    value = static_cast<std::int32_t>(bits);
    return bits <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  }
  const auto wide = static_cast<std::int64_t>(bits << unused) >> unused;
  value = static_cast<std::int32_t>(wide);
  return wide == value;
}

void read_integers(Reader& reader, const Stored& stored, std::span<std::int32_t> values) {
  std::uint8_t chunk[kChunk];
  const auto size = static_cast<std::size_t>(stored.bytes);
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kChunk / size);
    const std::uint64_t at = reader.position();
    reader.read(std::span(chunk).first(count * size), "the elements");
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = load(chunk + i * size, stored.bytes, stored.big_endian);
      if (!to_i32(bits, stored, values[i])) {
        const bool negative = stored.kind == Stored::Kind::signed_integer && bits >> 63;
        reader.refuse(at + i * size,
                      "the integer " +
                          (negative ? std::to_string(static_cast<std::int64_t>(bits)) : std::to_string(bits)) +
                          " does not fit in i32");
      }
    }
    values = values.subspan(count);
  }
}

void swap_bytes(std::span<std::uint8_t> bytes, std::size_t size) {
  for (std::size_t i = 0; i < bytes.size(); i += size) std::reverse(&bytes[i], &bytes[i] + size);
}

}  // namespace

std::unique_ptr<Stream> plain_stream(const Source& source, std::uint64_t offset, std::uint64_t size) {
  return std::make_unique<PlainStream>(source, offset, size);
}

std::unique_ptr<Stream> inflate_stream(const Source& source, std::uint64_t offset, std::uint64_t size, Deflate format) {
  return std::make_unique<InflateStream>(source, offset, size, format);
}

std::unique_ptr<Stream> open_stream(const Source& source) {
  std::uint8_t magic[2] = {};
  if (source.size() >= 2) source.read(0, magic);
  if (magic[0] == 0x1f && magic[1] == 0x8b) return inflate_stream(source, 0, source.size(), Deflate::gzip);
  return plain_stream(source, 0, source.size());
}

void Reader::refuse(std::uint64_t at, const std::string& reason) const {
  throw Error(name_ + ": byte " + std::to_string(at) + ": " + reason);
}

void Reader::read(std::span<std::uint8_t> into, const std::string& what) {
  const std::uint64_t wanted = into.size(), start = position_;
  while (!into.empty()) {
    const std::size_t got = stream_.read(into);
    if (got == 0) {
      refuse(start, what + " should have " + std::to_string(wanted) + " bytes here, but there are only " +
                        std::to_string(position_ - start));
    }
    position_ += got;
    into = into.subspan(got);
  }
}

std::uint64_t Reader::checked_bytes(const Shape& shape, std::uint64_t stored, DType dtype, std::uint64_t at) const {
  constexpr std::uint64_t most = std::uint64_t{1}
                                 << 58;  // sizes beyond are lies, and the arithmetic below cannot overflow
  std::uint64_t count = 1;
  bool none = false;
  for (const std::int64_t size : shape) {
    if (size < 0) refuse(at, "says a size of " + std::to_string(size));
    none = none || size == 0;
    const std::uint64_t factor = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(size));
    if (count > most / factor) refuse(at, "says " + to_string(shape) + " elements, which is more than there can be");
    count *= factor;
  }
  if (none) return 0;
  const std::uint64_t bytes = count * stored;
  if (bytes > stream_.most_left()) {
    refuse(at, "says " + to_string(shape) + " elements (" + std::to_string(bytes) + " bytes) but the file has " +
                   (stream_.compressed() ? "at most " : "") + std::to_string(stream_.most_left()) + " left");
  }
  const std::uint64_t memory = count * size_of(dtype);
  if (memory > limits_.bytes) {
    refuse(at, "says " + to_string(shape) + " elements, which need " + std::to_string(memory) +
                   " bytes of memory; the limit is " + std::to_string(limits_.bytes));
  }
  return bytes;
}

void Reader::expect_end() {
  std::uint8_t byte = 0;
  if (stream_.read(std::span(&byte, 1)) != 0) refuse(position_, "more bytes follow the last element");
}

DType Stored::dtype() const {
  switch (kind) {
    case Kind::boolean:
      return DType::boolean;
    case Kind::floating:
      return bytes == 4 ? DType::f32 : DType::f64;
    case Kind::unsigned_integer:
      return bytes == 1 ? DType::u8 : DType::i32;
    case Kind::signed_integer:
      break;
  }
  return DType::i32;
}

Array read_elements(Reader& reader, const Shape& shape, const Stored& stored, std::uint64_t shape_at) {
  const DType dtype = stored.dtype();
  reader.checked_bytes(shape, static_cast<std::uint64_t>(stored.bytes), dtype, shape_at);
  Array array = Array::empty(shape, dtype);
  void* first = detail::ArrayAccess::write(array, "read", Location::current());
  if (array.count() == 0) return array;
  if (dtype == DType::i32 && !(stored.bytes == 4 && stored.kind == Stored::Kind::signed_integer)) {
    read_integers(reader, stored,
                  std::span(static_cast<std::int32_t*>(first), static_cast<std::size_t>(array.count())));
    return array;
  }
  const std::span bytes(static_cast<std::uint8_t*>(first), array.bytes());
  const std::uint64_t at = reader.position();
  reader.read(bytes, "the elements");
  if (stored.big_endian && stored.bytes > 1) swap_bytes(bytes, static_cast<std::size_t>(stored.bytes));
  if (dtype == DType::boolean) {
    const auto* wrong = std::find_if(bytes.data(), bytes.data() + bytes.size(), [](std::uint8_t b) { return b > 1; });
    if (wrong != bytes.data() + bytes.size()) {
      reader.refuse(at + static_cast<std::uint64_t>(wrong - bytes.data()),
                    "a bool is 0 or 1, this is " + std::to_string(*wrong));
    }
  }
  return array;
}

}  // namespace wr::data
