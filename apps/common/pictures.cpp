#include "apps/common/pictures.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace wr::apps {
namespace {

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

void append_chunk(std::string& out, const std::string& kind, const std::string& content) {
  append_u32(out, static_cast<std::uint32_t>(content.size()));
  const std::string checked = kind + content;
  out += checked;
  append_u32(out, static_cast<std::uint32_t>(
                      crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()))));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
            static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  out.resize(size);
  return out;
}

/// How much of each old pixel of a line goes into a new one: first pixel, and weights that sum to 1.
struct Cover {
  std::int64_t first;
  std::vector<double> weights;
};
std::vector<Cover> covers(std::int64_t from, std::int64_t to) {
  std::vector<Cover> all;
  const double step = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double begin = static_cast<double>(i) * step, end = begin + step;
    Cover c{static_cast<std::int64_t>(begin), {}};
    for (std::int64_t p = c.first; p < from && static_cast<double>(p) < end; ++p) {
      const double part = std::min(end, static_cast<double>(p + 1)) - std::max(begin, static_cast<double>(p));
      c.weights.push_back(part / step);
    }
    all.push_back(std::move(c));
  }
  return all;
}

std::uint8_t pixel(const Picture& p, std::int64_t y, std::int64_t x) {
  return y < p.height ? p.grey[y * p.width + x] : 0;
}

}  // namespace

Picture picture_of(const std::uint8_t* grey, std::int64_t width, std::int64_t height) {
  return {width, height, std::vector<std::uint8_t>(grey, grey + width * height)};
}

Picture resized(const Picture& picture, std::int64_t width, std::int64_t height) {
  if (picture.width == width && picture.height == height) return picture;
  const auto rows = covers(picture.height, height), columns = covers(picture.width, width);
  Picture out{width, height, {}};
  for (const Cover& row : rows) {
    for (const Cover& column : columns) {
      double sum = 0;
      for (std::size_t y = 0; y < row.weights.size(); ++y) {
        for (std::size_t x = 0; x < column.weights.size(); ++x) {
          sum += row.weights[y] * column.weights[x] *
                 pixel(picture, row.first + static_cast<std::int64_t>(y), column.first + static_cast<std::int64_t>(x));
        }
      }
      out.grey.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(sum), 0L, 255L)));
    }
  }
  return out;
}

Picture inverted(const Picture& picture) {
  Picture out = picture;
  for (auto& g : out.grey) g = static_cast<std::uint8_t>(255 - g);
  return out;
}

std::string encode_png(const Picture& picture) {
  std::string header;
  append_u32(header, static_cast<std::uint32_t>(picture.width));
  append_u32(header, static_cast<std::uint32_t>(picture.height));
  header += std::string("\x08\x00\x00\x00\x00", 5);  // 8 bits of grey, nothing special
  std::string rows;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(picture.grey.data()) + y * picture.width,
                static_cast<std::size_t>(picture.width));
  }
  std::string out("\x89PNG\r\n\x1a\n", 8);
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", deflated(rows));
  append_chunk(out, "IEND", "");
  return out;
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
  }
  return out;
}

std::vector<std::string> terminal_lines(const Picture& picture, Shades shades) {
  static constexpr std::string_view kLetters = " .:-=+*#%@";
  std::vector<std::string> lines;
  for (std::int64_t y = 0; y < picture.height; y += 2) {
    std::string line;
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const int up = pixel(picture, y, x), down = pixel(picture, y + 1, x);
      if (shades == Shades::colour)
        line += fmt::format("\x1b[38;5;{};48;5;{}m▀", 232 + up * 23 / 255, 232 + down * 23 / 255);
      else
        line += kLetters[(up + down) / 2 * 9 / 255];
    }
    lines.push_back(shades == Shades::colour ? line + "\x1b[0m" : line);
  }
  return lines;
}

}  // namespace wr::apps
