// Animations as GIF.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wr::apps {

/// Frames of width x height pixels, each a number of one of eight colours: bit 2 red, bit 1 green, bit 0 blue.
class Gif {
 public:
  Gif(std::int64_t width, std::int64_t height, int hundredths);  // of a second a frame
  void add(const std::vector<std::uint8_t>& pixels);
  /// The file; it loops for ever.
  std::string finish() const;

 private:
  std::int64_t width_, height_;
  int hundredths_;
  std::string data_;
};

}  // namespace wr::apps
