// Array: sharing, copy on write, windows, copies and comparisons. Creation and printing are in their own files.
#include "windrow/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "array_walk.h"
#include "buffer.h"
#include "windrow/error.h"

namespace wr {

namespace {

void copy_elements(void* to, DType to_type, const Strides& to_strides, const void* from, DType from_type,
                   const Strides& from_strides, const Shape& shape) {
  detail::with_type(to_type, [&]<class To>() {
    detail::with_type(from_type, [&]<class From>() {
      detail::walk_rows(shape, to_strides, from_strides, [&](auto i, auto j, auto n, auto step_i, auto step_j) {
        To* out = static_cast<To*>(to) + i;
        const From* in = static_cast<const From*>(from) + j;
        if (std::is_same_v<To, From> && step_i == 1 && step_j == 1) {
          std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(To));
        } else {
          for (std::int64_t k = 0; k < n; ++k) out[k * step_i] = detail::convert<To>(in[k * step_j]);
        }
        return true;
      });
    });
  });
}

std::byte* element_at(std::byte* data, std::int64_t position, DType dtype) {
  return data + position * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace

// Ownership. Of a buffer's owners either none is a window, and each may be shown the same memory only to read; or some
// are, and then all owners are one array and its windows, because copies of any of them get other memory.

Array::Array(Layout layout, DType dtype, detail::Buffer* adopted, bool window)
    : layout_(layout),
      first_(adopted ? element_at(adopted->data, layout.offset, dtype) : nullptr),
      buffer_(adopted),
      dtype_(dtype),
      window_(window) {
  if (buffer_ && window_) buffer_->windows.fetch_add(1, std::memory_order_relaxed);
}

Array::Array(const Array& other) : Array(other.share(other.layout_, Where::current())) {}

Array::Array(Array&& other) noexcept
    : layout_(std::exchange(other.layout_, Layout())),
      first_(std::exchange(other.first_, nullptr)),
      buffer_(std::exchange(other.buffer_, nullptr)),
      dtype_(std::exchange(other.dtype_, DType::f32)),
      window_(std::exchange(other.window_, false)) {}

Array& Array::operator=(const Array& other) {
  if (this != &other) *this = Array(other);
  return *this;
}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  drop();
  layout_ = std::exchange(other.layout_, Layout());
  first_ = std::exchange(other.first_, nullptr);
  buffer_ = std::exchange(other.buffer_, nullptr);
  dtype_ = std::exchange(other.dtype_, DType::f32);
  window_ = std::exchange(other.window_, false);
  return *this;
}

Array::~Array() { drop(); }

void Array::drop() noexcept {
  if (!buffer_) return;
  if (window_) buffer_->windows.fetch_sub(1, std::memory_order_release);
  detail::release(buffer_);
  buffer_ = nullptr;
}

bool Array::has_windows() const { return buffer_ && buffer_->windows.load(std::memory_order_acquire) > 0; }

Array Array::share(const Layout& layout, const Where& where) const {
  if (has_windows()) return dense_copy("copy", layout, dtype_, where);
  if (buffer_) detail::retain(buffer_);
  return Array(layout, dtype_, buffer_, false);
}

void Array::unshare(std::string_view op, const Where& where) {
  if (!buffer_ || has_windows()) return;
  const bool alone = buffer_->owners.load(std::memory_order_acquire) == 1;
  if (alone && !buffer_->read_only && !layout_.may_overlap_itself()) return;
  *this = dense_copy(op, layout_, dtype_, where);
}

Array Array::window_on(const Layout& layout, const Where& where) {
  if (layout.shape.rank() != layout.strides.rank()) {
    fail(where, "window: " + to_string(layout.shape) + " needs as many strides, not " + to_string(layout.strides));
  }
  if (detail::checked_count("window", layout.shape, where) == 0) return Array(layout, dtype_, nullptr, true);
  const auto [low, high] = layout.range();
  const auto held = buffer_ ? static_cast<std::int64_t>(buffer_->bytes / size_of(dtype_)) : 0;
  if (low < 0 || high >= held) {
    fail(where, "window: " + to_string(layout.shape) + " with strides " + to_string(layout.strides) +
                    " reaches outside the memory of " + to_string(shape()));
  }
  if (layout.may_overlap_itself()) {
    fail(where, "window: " + to_string(layout.shape) + " with strides " + to_string(layout.strides) +
                    " shows an element of " + to_string(shape()) + " more than once");
  }
  detail::retain(buffer_);
  return Array(layout, dtype_, buffer_, true);
}

Array Array::dense_copy(std::string_view op, const Layout& layout, DType dtype, const Where& where) const {
  Array result = make(op, layout.shape, dtype, where);
  if (!result.buffer_) return result;
  const void* from = element_at(buffer_->data, layout.offset, dtype_);
  copy_elements(result.first_, dtype, result.strides(), from, dtype_, layout.strides, layout.shape);
  return result;
}

void Array::copy_elements_to(void* dense, DType dtype) const {
  copy_elements(dense, dtype, contiguous_strides(shape()), first_, dtype_, strides(), shape());
}

// Elements.

void Array::require(const char* op, DType asked, bool dense, const Where& where) const {
  if (asked != dtype_) {
    fail(where, std::string(op) + ": asked for " + std::string(name_of(asked)) + ", the array " + to_string(shape()) +
                    " is " + std::string(name_of(dtype_)));
  }
  if (dense && !is_contiguous()) {
    fail(where, std::string(op) + ": " + to_string(shape()) + " is not contiguous (strides " + to_string(strides()) +
                    "); call contiguous() first");
  }
}

void Array::require_one(const Where& where) const {
  if (count() != 1) {
    fail(where, "item: " + to_string(shape()) + " has " + std::to_string(count()) + " elements, not one");
  }
}

std::int64_t Array::position(const Dims& index, const Where& where) const {
  if (index.rank() != rank()) {
    fail(where, "at: " + to_string(index) + " has " + std::to_string(index.rank()) + " indices, " + to_string(shape()) +
                    " has " + std::to_string(rank()) + " axes");
  }
  std::int64_t position = 0;
  for (int i = 0; i < rank(); ++i) {
    position += detail::checked_index("at", index[i], i, shape(), where) * strides()[i];
  }
  return position;
}

void Array::fill(double value, Where where) {
  unshare("fill", where);
  const Strides none(rank(), 0);
  copy_elements(first_, dtype_, strides(), &value, DType::f64, none, shape());
}

void Array::copy_from(const Array& source, Where where) {
  const Shape& from = source.shape();
  const int missing = rank() - from.rank();
  bool fits = missing >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) fits = from[i] == 1 || from[i] == shape()[missing + i];
  if (!fits) fail(where, "copy_from: cannot broadcast " + to_string(from) + " to " + to_string(shape()));
  if (detail::ArrayAccess::same_elements(*this, source)) return;
  // After unshare the memory is shared only with windows; where they overlap, the source must be read first.
  unshare("copy_from", where);
  if (detail::ArrayAccess::overlap(*this, source)) return copy_from(source.clone(where), where);
  const Layout spread = source.layout_.broadcast_to(shape(), where);
  copy_elements(first_, dtype_, strides(), source.first_, source.dtype_, spread.strides, shape());
}

// Copies.

Array Array::reshape(const Shape& target, Where where) const {
  if (const auto view = layout_.reshape(target, where)) return share(*view, where);
  Array copy = dense_copy("reshape", layout_, dtype_, where);
  copy.layout_ = Layout::contiguous(detail::checked_reshape(shape(), target, where));
  return copy;
}

Array Array::contiguous(Where where) const {
  return is_contiguous() ? share(layout_, where) : dense_copy("contiguous", layout_, dtype_, where);
}

Array Array::clone(Where where) const { return dense_copy("clone", layout_, dtype_, where); }

Array Array::astype(DType dtype, Where where) const {
  return dtype == dtype_ ? share(layout_, where) : dense_copy("astype", layout_, dtype, where);
}

Destination::Destination(Array&& window, Location where) : array_(window) {
  if (!window.is_window()) {
    fail(where, "destination: a temporary " + to_string(window.shape()) +
                    " that is not a window would lose the result; write to a variable or to a.window(...)");
  }
}

// Comparisons.

bool identical(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto* bits_a = static_cast<const std::byte*>(detail::ArrayAccess::read(a));
  const auto* bits_b = static_cast<const std::byte*>(detail::ArrayAccess::read(b));
  const auto size = static_cast<std::int64_t>(size_of(a.dtype()));
  return detail::walk_rows(a.shape(), a.strides(), b.strides(), [&](auto i, auto j, auto n, auto step_i, auto step_j) {
    const auto bytes = static_cast<std::size_t>(size);
    for (std::int64_t k = 0; k < n; ++k) {
      if (std::memcmp(bits_a + (i + k * step_i) * size, bits_b + (j + k * step_j) * size, bytes) != 0) return false;
    }
    return true;
  });
}

bool allclose(const Array& a, const Array& b, double rtol, double atol, Location where) {
  if (a.shape() != b.shape()) {
    fail(where, "allclose: shapes differ: " + to_string(a.shape()) + " and " + to_string(b.shape()));
  }
  const Array x = a.astype(DType::f64, where), y = b.astype(DType::f64, where);
  const auto* p = static_cast<const double*>(detail::ArrayAccess::read(x));
  const auto* q = static_cast<const double*>(detail::ArrayAccess::read(y));
  return detail::walk_rows(x.shape(), x.strides(), y.strides(), [&](auto i, auto j, auto n, auto step_i, auto step_j) {
    for (std::int64_t k = 0; k < n; ++k) {
      const double u = p[i + k * step_i], v = q[j + k * step_j];
      // An infinity is close to itself alone: the difference and the bound would both be infinite or NaN.
      const bool close = std::isfinite(u) && std::isfinite(v) ? std::abs(u - v) <= atol + rtol * std::abs(v) : u == v;
      if (!close) return false;
    }
    return true;
  });
}

namespace detail {

bool ArrayAccess::overlap(const Array& a, const Array& b) {
  if (a.count() == 0 || b.count() == 0) return false;
  const auto bounds = [](const Array& x) {
    const auto [low, high] = x.layout_.range();
    return std::pair{element_at(x.buffer_->data, low, x.dtype_), element_at(x.buffer_->data, high + 1, x.dtype_)};
  };
  const auto [a_begin, a_end] = bounds(a);
  const auto [b_begin, b_end] = bounds(b);
  return std::less<>{}(a_begin, b_end) && std::less<>{}(b_begin, a_end);
}

bool ArrayAccess::same_elements(const Array& a, const Array& b) {
  if (a.first_ != b.first_ || a.dtype_ != b.dtype_ || a.shape() != b.shape()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.shape()[i] > 1 && a.strides()[i] != b.strides()[i]) return false;
  }
  return true;
}

}  // namespace detail

}  // namespace wr
