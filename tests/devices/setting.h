// A variable of the environment, set for a test.
#pragma once

#include <cstdlib>
#include <string>

namespace wr::test {

/// A variable of the environment while this lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }  // NOLINT
  ~Setting() { ::unsetenv(name_); }                                                                        // NOLINT
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

}  // namespace wr::test
