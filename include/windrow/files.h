// Files a program leaves: complete under their name or not there at all, and known to be possible before the work
// begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wr {

/// Writes to a temporary file in the same folder, brings it to the disk and renames it: whatever happens, the name
/// stands for the old content or for all of the new one. Symbolic links are followed; a terminal, a pipe or a device is
/// written to. Throws Error with the path and the system's reason.
void write_file(const std::string& path, std::string_view bytes);

/// All bytes of a regular file; pipes and devices, which may never end, and files of more than `most` bytes are
/// refused.
std::string read_file(const std::string& path, std::uint64_t most);

/// A file that a command will write, and the option that named it. No path: it was not asked for.
struct Output {
  std::string option, path;
};
/// Finds out before the work begins that a file cannot be written, or that two would be the same.
void try_outputs(std::span<const Output> outputs);

}  // namespace wr
