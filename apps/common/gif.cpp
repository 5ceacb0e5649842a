#include "apps/common/gif.h"

#include <algorithm>
#include <map>

#include "windrow/error.h"

namespace wr::apps {
namespace {

constexpr int kColourBits = 3, kClear = 1 << kColourBits, kEnd = kClear + 1, kMostCodes = 4096;

void append_u16(std::string& out, std::int64_t v) {
  out += static_cast<char>(v & 255);
  out += static_cast<char>(v >> 8 & 255);
}

/// Codes of varying width, in blocks of at most 255 bytes.
class CodeWriter {
 public:
  explicit CodeWriter(std::string& out) : out_(out) {}
  void write(int code, int bits) {
    held_ |= static_cast<std::uint32_t>(code) << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, held_ >>= 8) put(static_cast<char>(held_ & 255));
  }
  void finish() {
    if (count_ > 0) put(static_cast<char>(held_ & 255));
    flush();
    out_ += '\0';
  }

 private:
  void put(char byte) {
    block_ += byte;
    if (block_.size() == 255) flush();
  }
  void flush() {
    if (block_.empty()) return;
    out_ += static_cast<char>(block_.size());
    out_ += block_;
    block_.clear();
  }
  std::string& out_;
  std::string block_;
  std::uint32_t held_ = 0;
  int count_ = 0;
};

/// GIF's variant of Lempel-Ziv-Welch.
void compress(std::string& out, const std::vector<std::uint8_t>& pixels) {
  out += static_cast<char>(kColourBits);
  CodeWriter writer(out);
  std::map<std::pair<int, int>, int> known;  // code and next pixel
  int next = kEnd + 1, bits = kColourBits + 1;
  writer.write(kClear, bits);
  int code = pixels[0];
  for (std::size_t i = 1; i < pixels.size(); ++i) {
    const auto found = known.find({code, pixels[i]});
    if (found != known.end()) {
      code = found->second;
      continue;
    }
    writer.write(code, bits);
    if (next < kMostCodes) {
      if (next == 1 << bits) ++bits;
      known[{code, pixels[i]}] = next++;
    } else {
      writer.write(kClear, bits);
      known.clear();
      next = kEnd + 1;
      bits = kColourBits + 1;
    }
    code = pixels[i];
  }
  writer.write(code, bits);
  if (next == 1 << bits && bits < 12) ++bits;
  writer.write(kEnd, bits);
  writer.finish();
}

}  // namespace

Gif::Gif(std::int64_t width, std::int64_t height, int hundredths)
    : width_(width), height_(height), hundredths_(hundredths) {
  if (width < 1 || height < 1 || width > 65535 || height > 65535)
    throw Error("a GIF of " + std::to_string(width) + " x " + std::to_string(height) + " pixels");
  data_ = "GIF89a";
  append_u16(data_, width);
  append_u16(data_, height);
  data_ += static_cast<char>(0xF0 | (kColourBits - 1));
  data_ += std::string("\0\0", 2);
  for (int c = 0; c < 8; ++c)
    for (int bit : {4, 2, 1}) data_ += static_cast<char>((c & bit) != 0 ? 240 : 20);
  data_ += std::string("\x21\xFF\x0BNETSCAPE2.0\x03\x01\x00\x00\x00", 19);
}

void Gif::add(const std::vector<std::uint8_t>& pixels) {
  if (static_cast<std::int64_t>(pixels.size()) != width_ * height_)
    throw Error("a frame of " + std::to_string(pixels.size()) + " pixels in a GIF of " + std::to_string(width_) +
                " x " + std::to_string(height_));
  data_ += std::string("\x21\xF9\x04\x00", 4);
  append_u16(data_, hundredths_);
  data_ += std::string("\0\0", 2);
  data_ += '\x2C';
  append_u16(data_, 0);
  append_u16(data_, 0);
  append_u16(data_, width_);
  append_u16(data_, height_);
  data_ += '\0';
  compress(data_, pixels);
}

std::string Gif::finish() const { return data_ + '\x3B'; }

}  // namespace wr::apps
