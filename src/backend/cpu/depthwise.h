// Convolutions in which every channel is its own group: sums along the taps, many channels at a time.
#pragma once

#include <cstdint>

#include "backend/cpu/target.h"

namespace wr::cpu {

/// Results one after the other along a row, each the sum over taps of the source times a weight, channel by channel.
/// Strides are in elements; channels are contiguous.
template <class T>
struct DepthwiseRow {
  const T* source = nullptr;  // what the first result's first tap reads
  std::int64_t move = 0;      // from one result to the next
  std::int64_t tap_rows = 0, tap_columns = 0, tap_row = 0, tap_column = 0;
  const T* weights = nullptr;  // [tap_rows, tap_columns, channels]
  T* out = nullptr;
  std::int64_t out_column = 0, results = 0, channels = 0;
};

/// out[channel] (+)= the sum over rows x columns of a times b.
template <class T>
struct DepthwiseSum {
  const T *a = nullptr, *b = nullptr;
  std::int64_t rows = 0, columns = 0, a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  T* out = nullptr;
  std::int64_t channels = 0;
  bool accumulate = false;
};

template <class T>
struct Depthwise {
  void (*row)(const DepthwiseRow<T>&);
  void (*sum)(const DepthwiseSum<T>&);
};

template <class T>
const Depthwise<T>& depthwise(Target target);

}  // namespace wr::cpu
