// Reads pictures from files: PGM, PNG, NPY, IDX. Every size is checked before memory is taken for it.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "apps/common/pictures.h"
#include "windrow/data.h"
#include "windrow/error.h"
#include "windrow/files.h"

namespace wr::apps {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostPixels = std::int64_t{16} << 20;

/// A file in memory and how far it was read; errors name the byte.
class Bytes {
 public:
  Bytes(std::string path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(fmt::format("{}: byte {}: {}", path_, at_, why));
  }
  std::size_t left() const { return content_.size() - at_; }
  std::string_view ahead(std::size_t count, const char* what) const {
    if (count > left()) refuse(fmt::format("the file ends inside {}", what));
    return std::string_view(content_).substr(at_, count);
  }
  std::string_view take(std::size_t count, const char* what) {
    const std::string_view part = ahead(count, what);
    at_ += count;
    return part;
  }
  std::uint8_t byte(const char* what) { return static_cast<std::uint8_t>(take(1, what)[0]); }
  std::uint32_t u32(const char* what) {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | byte(what);
    return value;
  }
  /// A decimal number after blanks and comments, as in PGM.
  std::int64_t number(const char* what) {
    while (left() > 0 && (std::isspace(static_cast<unsigned char>(content_[at_])) || content_[at_] == '#')) {
      if (content_[at_] == '#')
        while (left() > 0 && content_[at_] != '\n') ++at_;
      else
        ++at_;
    }
    std::int64_t value = 0;
    const std::size_t start = at_;
    while (left() > 0 && content_[at_] >= '0' && content_[at_] <= '9' && value <= kMostPixels)
      value = value * 10 + (content_[at_++] - '0');
    if (at_ == start) refuse(fmt::format("expected a number: {}", what));
    return value;
  }

 private:
  std::string path_, content_;
  std::size_t at_ = 0;
};

void check_size(const Bytes& in, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || width > kMostPixels || height > kMostPixels / width)
    in.refuse(fmt::format("the picture is {} x {}; expected 1 to {} pixels in all", width, height, kMostPixels));
}

Picture read_pgm(Bytes& in) {
  const bool plain = in.take(2, "the format's name")[1] == '2';
  const std::int64_t width = in.number("the width"), height = in.number("the height"),
                     most = in.number("the highest value");
  check_size(in, width, height);
  if (most < 1 || most > 65535) in.refuse(fmt::format("the highest value is {}; expected 1 to 65535", most));
  if (!plain) in.take(1, "the header");
  Picture p{width, height, {}};
  if (in.left() < static_cast<std::size_t>(width * height)) in.refuse("the file is too short for its pixels");
  p.grey.reserve(static_cast<std::size_t>(width * height));
  for (std::int64_t i = 0; i < width * height; ++i) {
    std::int64_t value = 0;
    if (plain) {
      value = in.number("a pixel");
    } else {
      value = in.byte("the pixels");
      if (most > 255) value = value << 8 | in.byte("the pixels");
    }
    if (value > most) in.refuse(fmt::format("a pixel is {}, more than {}", value, most));
    p.grey.push_back(static_cast<std::uint8_t>(value * 255 / most));
  }
  return p;
}

// ---- PNG ----
struct PngHeader {
  std::int64_t width, height;
  int channels;  // 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha
};

/// Reads a chunk's checksum and compares it with its content's.
void check_sum(Bytes& in, std::string_view kind_and_content) {
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(kind_and_content.data()), static_cast<uInt>(kind_and_content.size()));
  if (in.u32("a checksum") != sum)
    in.refuse(fmt::format("the checksum of chunk {} is wrong", kind_and_content.substr(0, 4)));
}

PngHeader png_header(Bytes& in) {
  if (in.u32("IHDR") != 13) in.refuse("the file does not begin with an IHDR chunk");
  const std::string_view chunk = in.ahead(17, "IHDR");
  if (in.take(4, "IHDR") != "IHDR") in.refuse("the file does not begin with an IHDR chunk");
  const std::int64_t width = in.u32("IHDR"), height = in.u32("IHDR");
  const int depth = in.byte("IHDR"), colour = in.byte("IHDR");
  const std::string_view rest = in.take(3, "IHDR");
  check_size(in, width, height);
  if (depth != 8) in.refuse(fmt::format("{} bits a sample; only 8 are read", depth));
  if (colour == 3) in.refuse("a palette; only grey and RGB are read");
  if (colour != 0 && colour != 2 && colour != 4 && colour != 6) in.refuse(fmt::format("colour type {}", colour));
  if (rest[0] != 0 || rest[1] != 0) in.refuse("an unknown compression or filter method");
  if (rest[2] != 0) in.refuse("interlaced; only plain ones are read");
  check_sum(in, chunk);
  return {width, height, colour == 0 ? 1 : colour == 4 ? 2 : colour == 2 ? 3 : 4};
}

std::string png_data(Bytes& in, std::size_t expected) {
  std::string packed;
  while (true) {
    const std::size_t size = in.u32("a chunk's size");
    const std::string_view chunk = in.take(size + 4, "a chunk"), kind = chunk.substr(0, 4);
    check_sum(in, chunk);
    if (kind == "IDAT") packed += chunk.substr(4);
    if (kind == "IEND") break;
  }
  std::string raw(expected, '\0');
  uLongf size = static_cast<uLongf>(expected);
  const int code = uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                              reinterpret_cast<const Bytef*>(packed.data()), static_cast<uLong>(packed.size()));
  if (code != Z_OK || size != expected) in.refuse("the pixels do not unpack to the size the header says");
  return raw;
}

int paeth(int a, int b, int c) {
  const int pa = std::abs(b - c), pb = std::abs(a - c), pc = std::abs(a + b - 2 * c);
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

/// Undoes the filter of each row in place; rows have one byte more, the filter's number, in front.
void unfilter(std::string& raw, const PngHeader& h, const Bytes& in) {
  const auto step = static_cast<std::size_t>(h.channels), row = static_cast<std::size_t>(h.width) * step;
  for (std::size_t y = 0; y < static_cast<std::size_t>(h.height); ++y) {
    auto* now = reinterpret_cast<std::uint8_t*>(raw.data()) + y * (row + 1) + 1;
    const int filter = now[-1];
    if (filter > 4) in.refuse(fmt::format("row {} has filter {}; expected 0 to 4", y, filter));
    for (std::size_t x = 0; x < row; ++x) {
      const int a = x >= step ? now[x - step] : 0, b = y > 0 ? *(now + x - row - 1) : 0;
      const int c = x >= step && y > 0 ? *(now + x - row - 1 - step) : 0;
      const int guess = filter == 1   ? a
                        : filter == 2 ? b
                        : filter == 3 ? (a + b) / 2
                        : filter == 4 ? paeth(a, b, c)
                                      : 0;
      now[x] = static_cast<std::uint8_t>(now[x] + guess);
    }
  }
}

Picture read_png(Bytes& in, Plane plane) {
  in.take(8, "the signature");
  const PngHeader h = png_header(in);
  const auto row = static_cast<std::size_t>(h.width * h.channels);
  std::string raw = png_data(in, (row + 1) * static_cast<std::size_t>(h.height));
  unfilter(raw, h, in);
  Picture p{h.width, h.height, {}};
  for (std::size_t y = 0; y < static_cast<std::size_t>(h.height); ++y) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(raw.data()) + y * (row + 1) + 1;
    for (std::int64_t x = 0; x < h.width; ++x, at += h.channels)
      p.grey.push_back(h.channels < 3 ? at[0]
                       : plane != Plane::grey
                           ? at[static_cast<int>(plane) - 1]
                           : static_cast<std::uint8_t>((299 * at[0] + 587 * at[1] + 114 * at[2]) / 1000));
  }
  return p;
}

/// Numbers as grey values: whole ones from 0 to 255, fractions from 0 to 1.
Picture picture_of(const std::string& path, const Array& array) {
  Picture p{array.size(1), array.size(0), {}};
  const bool fractions = is_floating(array.dtype());
  const double most = fractions ? 1 : 255;
  for (const double v : array.astype(DType::f64).to_vector<double>()) {
    if (!(v >= 0 && v <= most)) throw Error(fmt::format("{}: a pixel is {}; expected 0 to {}", path, v, most));
    p.grey.push_back(static_cast<std::uint8_t>(std::lround(fractions ? v * 255 : v)));
  }
  return p;
}

std::vector<Picture> pictures_of(const std::string& path, const Array& read) {
  const bool channel = read.rank() >= 3 && read.size(-1) == 1;
  const Array array = channel ? read.squeeze(-1) : read;
  if ((array.rank() != 2 && array.rank() != 3) || array.count() < 1 || array.size(-1) * array.size(-2) > kMostPixels)
    throw Error(fmt::format("{}: is {}; expected a picture [height, width] or several [pictures, height, width]", path,
                            to_string(Spec{read.dtype(), read.shape()})));
  if (array.rank() == 2) return {picture_of(path, array)};
  std::vector<Picture> all;
  for (std::int64_t i = 0; i < array.size(0); ++i) all.push_back(picture_of(path, array.select(0, i)));
  return all;
}

}  // namespace

std::vector<Picture> read_pictures(const std::string& path, Plane plane) {
  Bytes in(path, read_file(path, kMostBytes));
  const std::string begin = std::string(in.ahead(std::min<std::size_t>(8, in.left()), "the signature"));
  if (begin.starts_with("\x89PNG\r\n\x1a\n")) return {read_png(in, plane)};
  if (begin.starts_with("P5") || begin.starts_with("P2")) return {read_pgm(in)};
  if (begin.starts_with("\x93NUMPY")) return pictures_of(path, data::read_npy(path, {.bytes = kMostBytes}));
  if (begin.starts_with("\x1f\x8b") || begin.starts_with(std::string_view("\0\0", 2)))
    return pictures_of(path, data::read_idx(path, {.bytes = kMostBytes}));
  throw Error(path + ": byte 0: none of PGM (P2 or P5), PNG, NPY and IDX, which are read");
}

Picture read_picture(const std::string& path, Plane plane) {
  const std::vector<Picture> all = read_pictures(path, plane);
  if (all.size() != 1) throw Error(fmt::format("{}: has {} pictures; expected one", path, all.size()));
  return all[0];
}

}  // namespace wr::apps
