// Seconds as people write them.
#pragma once

#include <string>

namespace wr::apps {

/// "1:02:03", "2:03"
std::string clock_text(double seconds);
/// "61.4 s", "3 min 12 s"
std::string duration_text(double seconds);

}  // namespace wr::apps
