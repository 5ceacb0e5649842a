// Files that a program writes for its user.
#pragma once

#include <string>
#include <string_view>

namespace wr {

/// The file is there complete or not at all: written under a temporary name, brought to the disk, then renamed. A file
/// that was there before stays until then. Throws Error with the path, the operation and the system's reason.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace wr
