// What the fuzz targets share: each gives its input to one reader, which may refuse it by wr::Error and must do nothing
// worse. Build and run all with fuzz/run.sh.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"
#include "windrow/array.h"
#include "windrow/error.h"

template <class Read>
int refuse_or_read(const std::uint8_t* data, std::size_t size, Read read) {
  try {
    read(wr::Source("input", std::span(data, size)));
  } catch (const wr::Error&) {
  }
  return 0;
}

/// Reads every byte of the array, for the sanitizers to see.
template <class Array>
void touch(const Array& array) {
  volatile std::uint8_t sum = 0;
  const auto* bytes = static_cast<const std::uint8_t*>(wr::detail::ArrayAccess::read(array));
  for (std::size_t i = 0; i < array.bytes(); ++i) sum = static_cast<std::uint8_t>(sum + bytes[i]);
}
