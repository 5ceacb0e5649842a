// How errors read: the user's file and line first, then the op and what was wrong.
#include "windrow/error.h"

namespace wr {

std::string to_string(const std::source_location& where) {
  std::string file = where.file_name();
  if (auto slash = file.find_last_of("/\\"); slash != std::string::npos) file.erase(0, slash + 1);
  return file + ":" + std::to_string(where.line());
}

void fail(const std::source_location& where, const std::string& message) {
  throw Error(to_string(where) + ": " + message);
}

}  // namespace wr
