// Grey pictures: read from files, made smaller, written as PNG, shown in a terminal. Files are read as if an enemy
// wrote them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wr::apps {

struct Picture {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> grey;  // height * width, row by row
};

Picture picture_of(const std::uint8_t* grey, std::int64_t width, std::int64_t height);
/// PGM (P2, P5), PNG (8 bits a sample, not interlaced), NPY or IDX (whole numbers to 255, or fractions to 1), told
/// apart by their first bytes. The latter two may hold several pictures: [pictures, height, width]. Of a coloured one:
/// its brightness, or one of its colours.
enum class Plane { grey, red, green, blue };
std::vector<Picture> read_pictures(const std::string& path, Plane plane = Plane::grey);
/// The only one in a file.
Picture read_picture(const std::string& path, Plane plane = Plane::grey);
/// Each new pixel is the mean of the area it covers.
Picture resized(const Picture& picture, std::int64_t width, std::int64_t height);
Picture inverted(const Picture& picture);

std::string encode_png(const Picture& picture);
std::string base64(const std::string& bytes);

enum class Shades { colour, letters };
/// Lines for a terminal, two rows of pixels each.
std::vector<std::string> terminal_lines(const Picture& picture, Shades shades);

}  // namespace wr::apps
