// Files a user gets: complete or not at all.
#pragma once

#include <string>

namespace wr::apps {

/// Writes to a temporary name first; a file that was there before stays until then.
void write_file(const std::string& path, const std::string& bytes);

}  // namespace wr::apps
