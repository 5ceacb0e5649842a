// Lists and numbers in a checkpoint's texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wr::apps {

std::vector<std::string> cut(const std::string& text, char separator);
/// An Error says what has the text and that a number was expected.
double parse_number(const std::string& text, const std::string& what);
std::uint64_t parse_bits(const std::string& text, const std::string& what);

}  // namespace wr::apps
