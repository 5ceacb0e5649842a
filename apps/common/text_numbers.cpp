#include "apps/common/text_numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "windrow/error.h"

namespace wr::apps {
namespace {

template <class T>
T parsed(const std::string& text, const std::string& what) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Error(fmt::format("{} has '{}', expected a number", what, text));
  return value;
}

}  // namespace

std::vector<std::string> cut(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

double parse_number(const std::string& text, const std::string& what) { return parsed<double>(text, what); }
std::uint64_t parse_bits(const std::string& text, const std::string& what) { return parsed<std::uint64_t>(text, what); }

}  // namespace wr::apps
