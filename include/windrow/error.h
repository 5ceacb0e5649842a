// The one exception type Windrow throws: while tracing, compiling, reading files; never inside run().
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace wr {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "train.cpp:42" for a source location: the file's name without its folders, and the line.
std::string to_string(const std::source_location& where);

/// Throws `train.cpp:42: matmul: inner sizes differ ...`.
[[noreturn]] void fail(const std::source_location& where, const std::string& message);

}  // namespace wr
