// Logs as text: CSV with names in its first row, or a JSON object a line.
#pragma once

#include <string>
#include <string_view>

#include "windrow/report.h"

namespace wr::report {

/// Adds what the text holds; which of the two it is, its first character says. `path` is for messages.
void read_text_log(std::string_view text, const std::string& path, History& history);

}  // namespace wr::report
