// How errors read: the user's file and line first, then the op and what was wrong.
#include "windrow/error.h"

#include <mutex>
#include <set>

namespace wr {

std::string to_string(Location where) {
  std::string file = where.file_name();
  if (auto slash = file.find_last_of("/\\"); slash != std::string::npos) file.erase(0, slash + 1);
  return file + ":" + std::to_string(where.line());
}

// A front end names few files, many times: the set stays small. It is never freed, so that a Location may be used while
// the program ends.
const char* Location::kept(std::string_view file) {
  static auto& names = *new std::set<std::string, std::less<>>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  auto found = names.find(file);
  if (found == names.end()) found = names.emplace(file).first;
  return found->c_str();
}

void fail(Location where, const std::string& message) {
  if (where == Location()) throw Error(message);  // who caught it may know better
  throw Error(to_string(where) + ": " + message);
}

}  // namespace wr
