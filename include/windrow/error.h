// The one exception type Windrow throws: while tracing, compiling, reading files; never inside run().
#pragma once

#include <stdexcept>
#include <string>

#include "windrow/location.h"

namespace wr {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws `train.cpp:42: matmul: inner sizes differ ...`.
[[noreturn]] void fail(Location where, const std::string& message);

}  // namespace wr
