// Numbers and places as people read them.
#pragma once

#include <string>

namespace wr {

std::string bytes_text(double bytes);                        // "1.25 MB"
std::string line_text(const std::string& file, int line);    // "train.cpp:42"
std::string source_line(const std::string& file, int line);  // its text without indentation, "" where it cannot be read
std::string shortened(const std::string& text, std::size_t width);

}  // namespace wr
