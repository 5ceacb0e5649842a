// The OpenCL device that tests run on, where WINDROW_TEST_DEVICE names one (`make test-devices` does).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace wr::test {

inline std::string wanted_device() {
  const char* name = std::getenv("WINDROW_TEST_DEVICE");  // NOLINT(concurrency-mt-unsafe)
  return name ? name : "";
}

}  // namespace wr::test

#define ON_A_DEVICE() \
  if (test::wanted_device().empty()) GTEST_SKIP() << "WINDROW_TEST_DEVICE names no device (make test-devices does)"
