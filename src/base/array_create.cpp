// How arrays come to be: checked sizes, memory from the pool, first values.
#include <cmath>
#include <cstring>

#include "array_walk.h"
#include "buffer.h"
#include "host.h"
#include "windrow/array.h"
#include "windrow/error.h"

namespace wr {

namespace {

/// Writes value(0), value(1), ... converted to the array's type; the array is dense.
template <class F>
void generate(Array& array, Location where, F value) {
  void* out = detail::ArrayAccess::write(array, "generate", where);
  const std::int64_t n = array.count();
  detail::with_type(array.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = detail::convert<T>(static_cast<double>(value(i)));
  });
}

std::size_t checked_bytes(std::string_view op, const Shape& shape, DType dtype, Location where) {
  const auto count = static_cast<std::uint64_t>(detail::checked_count(op, shape, where));
  if (count > detail::kMaxBufferBytes / size_of(dtype)) {
    fail(where, std::string(op) + ": " + to_string(shape) + " of " + std::string(name_of(dtype)) + " is larger than " +
                    std::to_string(detail::kMaxBufferBytes >> 40) + " TiB");
  }
  return static_cast<std::size_t>(count) * size_of(dtype);
}

/// The system promises more than it has, and ends the process when it is asked to keep its word. So what is large is
/// compared with what is free before a page is touched.
void expect_memory(std::string_view op, const Shape& shape, DType dtype, std::size_t bytes, Location where) {
  constexpr std::size_t kLarge = std::size_t{256} << 20;
  if (bytes < kLarge) return;
  const auto have = static_cast<std::uint64_t>(memory_available());
  if (have == 0 || bytes <= have) return;
  fail(where, std::string(op) + ": no memory for " + to_string(shape) + " of " + std::string(name_of(dtype)) + ": " +
                  std::to_string(bytes >> 20) + " MB, " + std::to_string(have >> 20) + " MB are free");
}

detail::Buffer* checked_buffer(detail::Buffer* buffer, std::string_view op, const Shape& shape, DType dtype,
                               std::size_t bytes, Location where) {
  if (!buffer) {
    fail(where, std::string(op) + ": no memory for " + to_string(shape) + " of " + std::string(name_of(dtype)) + " (" +
                    std::to_string(bytes) + " bytes)");
  }
  return buffer;
}

}  // namespace

Array Array::make(std::string_view op, const Shape& shape, DType dtype, const Where& where) {
  const std::size_t bytes = checked_bytes(op, shape, dtype, where);
  expect_memory(op, shape, dtype, bytes, where);
  detail::Buffer* buffer = nullptr;
  if (bytes > 0) buffer = checked_buffer(detail::allocate(bytes), op, shape, dtype, bytes, where);
  return Array(Layout::contiguous(shape), dtype, buffer, false);
}

Array Array::empty(const Shape& shape, DType dtype, Where where) { return make("empty", shape, dtype, where); }

Array Array::zeros(const Shape& shape, DType dtype, Where where) {
  Array result = make("zeros", shape, dtype, where);
  // All bits 0 is 0 in every type.
  if (result.first_) std::memset(result.first_, 0, result.bytes());
  return result;
}

Array Array::ones(const Shape& shape, DType dtype, Where where) {
  Array result = make("ones", shape, dtype, where);
  result.fill(1, where);
  return result;
}

Array Array::full(const Shape& shape, double value, DType dtype, Where where) {
  Array result = make("full", shape, dtype, where);
  result.fill(value, where);
  return result;
}

Array Array::arange(double stop, DType dtype, Where where) { return arange(0, stop, 1, dtype, where); }

Array Array::arange(double start, double stop, double step, DType dtype, Where where) {
  const double count = std::ceil((stop - start) / step);
  if (step == 0 || !std::isfinite(count) || count > 1e15) {
    fail(where, "arange: no finite number of steps of " + std::to_string(step) + " from " + std::to_string(start) +
                    " to " + std::to_string(stop));
  }
  Array result = make("arange", {count > 0 ? static_cast<std::int64_t>(count) : 0}, dtype, where);
  generate(result, where, [&](std::int64_t i) { return start + static_cast<double>(i) * step; });
  return result;
}

Array Array::linspace(double start, double stop, std::int64_t count, DType dtype, Where where) {
  Array result = make("linspace", {count}, dtype, where);
  generate(result, where, [&](std::int64_t i) {
    if (i == 0) return start;
    if (i == count - 1) return stop;
    return start + (stop - start) * (static_cast<double>(i) / static_cast<double>(count - 1));
  });
  return result;
}

Array Array::eye(std::int64_t size, DType dtype, Where where) {
  Array result = make("eye", {size, size}, dtype, where);
  generate(result, where, [&](std::int64_t i) { return i % (size + 1) == 0; });
  return result;
}

Array Array::copy_of(const void* values, std::size_t count, const Shape& shape, DType dtype, const Where& where) {
  const std::int64_t wanted = detail::checked_count("from", shape, where);
  if (static_cast<std::size_t>(wanted) != count) {
    fail(where, "from: " + std::to_string(count) + " values do not fill " + to_string(shape) + " (" +
                    std::to_string(wanted) + " elements)");
  }
  Array result = make("from", shape, dtype, where);
  if (result.first_) std::memcpy(result.first_, values, result.bytes());
  return result;
}

Array Array::borrow(void* data, const Shape& shape, DType dtype, Where where) {
  const std::size_t bytes = checked_bytes("borrow", shape, dtype, where);
  if (bytes == 0) return Array(Layout::contiguous(shape), dtype, nullptr, true);
  if (!data) fail(where, "borrow: the memory for " + to_string(shape) + " is a null pointer");
  detail::Buffer* buffer = detail::borrow(data, bytes, false);
  return Array(Layout::contiguous(shape), dtype, checked_buffer(buffer, "borrow", shape, dtype, bytes, where), true);
}

Array Array::borrow(const void* data, const Shape& shape, DType dtype, Where where) {
  const std::size_t bytes = checked_bytes("borrow", shape, dtype, where);
  if (bytes == 0) return Array(Layout::contiguous(shape), dtype, nullptr, false);
  if (!data) fail(where, "borrow: the memory for " + to_string(shape) + " is a null pointer");
  // The buffer is marked read-only: unshare() never hands this memory out for writing.
  detail::Buffer* buffer = detail::borrow(const_cast<void*>(data), bytes, true);
  return Array(Layout::contiguous(shape), dtype, checked_buffer(buffer, "borrow", shape, dtype, bytes, where), false);
}

void detail::ragged_rows(std::size_t row, std::size_t size, std::size_t expected, Location where) {
  fail(where, "from: row " + std::to_string(row) + " has " + std::to_string(size) + " values, row 0 has " +
                  std::to_string(expected));
}

}  // namespace wr
