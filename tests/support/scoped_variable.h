// A variable of the environment, set for one scope.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace wr {

class ScopedVariable {
 public:
  ScopedVariable(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old;  // NOLINT(concurrency-mt-unsafe)
    setenv(name_.c_str(), value, 1);                               // NOLINT(concurrency-mt-unsafe)
  }
  ~ScopedVariable() {
    old_ ? setenv(name_.c_str(), old_->c_str(), 1) : unsetenv(name_.c_str());  // NOLINT(concurrency-mt-unsafe)
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> old_;
};

}  // namespace wr
