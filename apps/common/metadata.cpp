#include "apps/common/metadata.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

template <class T>
bool parse(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

void MetadataReader::refuse(const std::string& name, const std::string& value, const std::string& expected) const {
  constexpr std::size_t kShown = 60;
  throw Error(fmt::format("{}: metadata: {} is '{}'{}, expected {}", path_, name,
                          text::printable(value.substr(0, kShown)), value.size() > kShown ? " and so on" : "",
                          expected));
}

const std::string& MetadataReader::text(const std::string& name) const {
  const auto found = metadata_.find(name);
  if (found == metadata_.end()) throw Error(fmt::format("{}: its metadata has no '{}'", path_, name));
  return found->second;
}

std::int64_t MetadataReader::whole(const std::string& name, std::int64_t low, std::int64_t high) const {
  std::int64_t value = 0;
  if (!parse(text(name), value) || value < low || value > high)
    refuse(name, text(name),
           high == kManyTimes ? fmt::format("a whole number from {} on", low)
                              : fmt::format("a whole number from {} to {}", low, high));
  return value;
}

double MetadataReader::number(const std::string& name, double low, double high) const {
  double value = 0;
  if (!parse(text(name), value) || !(value >= low && value <= high))
    refuse(name, text(name),
           low == -kLarge && high == kLarge ? "a finite number"
           : high == kLarge                 ? fmt::format("a number from {} on", low)
                                            : fmt::format("a number from {} to {}", low, high));
  return value;
}

std::uint64_t MetadataReader::bits(const std::string& name) const {
  std::uint64_t value = 0;
  if (!parse(text(name), value)) refuse(name, text(name), "64 bits as a whole number");
  return value;
}

std::vector<double> MetadataReader::numbers(const std::string& name, std::size_t count) const {
  return numbers(name, text(name), count);
}

std::vector<double> MetadataReader::numbers(const std::string& name, const std::string& part, std::size_t count) const {
  std::vector<double> values;
  std::istringstream in(part);
  for (std::string word; std::getline(in, word, ' ');) {
    double value = 0;
    if (!parse(word, value) || !std::isfinite(value)) refuse(name, part, fmt::format("{} finite numbers", count));
    values.push_back(value);
  }
  if (values.size() != count) refuse(name, part, fmt::format("{} finite numbers", count));
  return values;
}

std::vector<std::vector<double>> MetadataReader::rows(const std::string& name, std::size_t count) const {
  std::vector<std::vector<double>> all;
  std::istringstream in(text(name));
  for (std::string part; std::getline(in, part, ';');) all.push_back(numbers(name, part, count));
  return all;
}

}  // namespace wr::apps
