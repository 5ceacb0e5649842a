// Where in the user's source something was said: a file's name and a line. Made from the caller's place by default,
// from std::source_location, or from a name and a line that a front end of another language knows.
#pragma once

#include <string>
#include <string_view>
#include <version>

#if defined(__cpp_lib_source_location)
#include <source_location>
#endif

namespace wr {

class Location {
 public:
  constexpr Location() = default;
  /// `file` is kept for as long as the process lives, once however often it is named.
  Location(std::string_view file, unsigned line) : Location(kept(file), line, Lasting{}) {}
#if defined(__cpp_lib_source_location)
  // NOLINTNEXTLINE(google-explicit-constructor): stands wherever a std::source_location is at hand
  constexpr Location(const std::source_location& where)
      : Location(where.file_name(), static_cast<unsigned>(where.line()), Lasting{}) {}
#endif

  /// As a default argument: the place of the call. (The builtins stand in the default arguments of this function, which
  /// compilers resolve where the outermost call is written.)
  static constexpr Location current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line, Lasting{}};
  }

  /// "" where nothing is known.
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }

  friend bool operator==(const Location& a, const Location& b) {
    return a.line_ == b.line_ && std::string_view(a.file_) == b.file_;
  }

 private:
  struct Lasting {};  // the name outlives every Location
  constexpr Location(const char* file, unsigned line, Lasting) : file_(file), line_(line) {}
  static const char* kept(std::string_view file);

  const char* file_ = "";
  unsigned line_ = 0;
};

/// "train.cpp:42" for a location: the file's name without its folders, and the line.
std::string to_string(Location where);

}  // namespace wr
