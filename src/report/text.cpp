#include "windrow/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace wr::text {
namespace {

/// How many bytes the character that `text` begins with has; 0: it is no UTF-8. Sets its number.
std::size_t character(std::string_view text, std::uint32_t& number) {
  const auto first = static_cast<std::uint8_t>(text[0]);
  if (first < 0x80) return number = first, 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  number = first & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    const auto next = static_cast<std::uint8_t>(text[i]);
    if ((next & 0xc0) != 0x80) return 0;
    number = number << 6 | (next & 0x3fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = number >= 0xd800 && number < 0xe000;
  return number < kLeast[size] || number > 0x10ffff || surrogate ? 0 : size;
}

/// Each character as `show` has it; what is no UTF-8 as `broken`.
template <class Show>
std::string changed(std::string_view text, std::string_view broken, Show show) {
  std::string out;
  while (!text.empty()) {
    std::uint32_t number = 0;
    const std::size_t size = character(text, number);
    if (size == 0)
      out += broken;
    else
      out += show(number, text.substr(0, size));
    text.remove_prefix(std::max<std::size_t>(1, size));
  }
  return out;
}

/// Also those from 0x80 on, and those that change the direction of what follows.
bool is_control(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

}  // namespace

std::size_t broken_utf8(std::string_view text) {
  for (std::size_t at = 0, size = 0; at < text.size(); at += size) {
    std::uint32_t number = 0;
    size = character(text.substr(at), number);
    if (size == 0) return at;
  }
  return std::string_view::npos;
}

std::string printable(std::string_view text) {
  return changed(text, "?", [](std::uint32_t c, std::string_view bytes) -> std::string_view {
    return is_control(c) ? "?" : bytes;
  });
}

std::string printable_lines(std::string_view text) {
  return changed(text, "?", [](std::uint32_t c, std::string_view bytes) -> std::string_view {
    return is_control(c) && c != '\n' && c != '\t' ? "?" : bytes;
  });
}

std::string escape(std::string_view text) {
  return changed(text, "\xef\xbf\xbd", [](std::uint32_t c, std::string_view bytes) -> std::string_view {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      case '\'':
        return "&#39;";
      case '\n':
      case '\t':
        return bytes;
      default:
        return is_control(c) ? "\xef\xbf\xbd" : bytes;
    }
  });
}

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string clock(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string duration(double seconds) {
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<long long>(std::llround(seconds));
  if (s >= 3600) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} min {} s", s / 60, s % 60);
}

}  // namespace wr::text
