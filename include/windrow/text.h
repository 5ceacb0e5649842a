// Text from files and users where it is shown: in a terminal, on a page, as JSON. Seconds as people write them.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

namespace wr::text {

/// As a terminal may show it on one line: control characters and bytes that are no UTF-8 become '?'.
std::string printable(std::string_view text);
/// The same, for text of several lines.
std::string printable_lines(std::string_view text);

/// Where the first byte stands that is no UTF-8; npos: nowhere.
std::size_t broken_utf8(std::string_view text);

/// As it may stand in HTML and SVG, between tags and in quotes; bytes that are no UTF-8 become U+FFFD.
std::string escape(std::string_view text);

/// A number as it may be shown: whether a NaN has a sign depends on the processor, and means nothing.
inline double shown(double value) { return std::isnan(value) ? std::abs(value) : value; }

/// A number as JSON has it: null where it is not finite.
std::string json_number(double value);

/// "1:02:03", "2:03"
std::string clock(double seconds);
/// "61.4 s", "3 min 12 s"
std::string duration(double seconds);

}  // namespace wr::text
