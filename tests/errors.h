// What a test expects of errors.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "windrow/error.h"

namespace wr {

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace wr

#define EXPECT_ERROR(statement, text)                                                                               \
  EXPECT_PRED2([](const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }, \
               ::wr::error_of([&] { statement; }), text)
