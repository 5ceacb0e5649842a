// Array: concrete n-d data in memory. A value: copies are cheap and never see each other's writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "windrow/dtype.h"
#include "windrow/layout.h"
#include "windrow/location.h"
#include "windrow/shape.h"

namespace wr {

namespace detail {
struct Buffer;
struct ArrayAccess;
}  // namespace detail

/// A C++ type that an array can hold.
template <class T>
concept Element = requires {
  dtype_of_t<T>::value;
};

/// N-d data of one element type.
///
/// Values. Copies and views (slice, permute, ...) share memory until one of them is written to: the one that is written
/// moves to memory of its own first. So no array ever changes because another one was written.
///
/// Windows. `a.window(...)` is the exception, for writing into a part of `a`: it shares its writes with `a`, both ways,
/// for as long as it lives, even where `a` goes first. Only moving keeps a window a window: copies and views of it are
/// values, and so are copies and views of `a`. While `a` has windows they are therefore made by copying the elements at
/// once, and the memory of `a` does not move. Assigning to a window variable makes it another array; `copy_from` writes
/// to its elements.
///
/// Threads. Different arrays may be used by different threads, also when they share memory; windows of one array, as
/// long as they do not overlap.
class Array {
 public:
  using Where = Location;
  using Bound = Layout::Bound;

  /// No elements: f32[0].
  Array() = default;
  Array(const Array& other);
  Array(Array&& other) noexcept;
  Array& operator=(const Array& other);
  Array& operator=(Array&& other) noexcept;
  ~Array();

  // Creation.
  static Array empty(const Shape& shape, DType dtype = DType::f32, Where where = Where::current());
  static Array zeros(const Shape& shape, DType dtype = DType::f32, Where where = Where::current());
  static Array ones(const Shape& shape, DType dtype = DType::f32, Where where = Where::current());
  static Array full(const Shape& shape, double value, DType dtype = DType::f32, Where where = Where::current());
  /// 0, 1, ... up to but not including stop.
  static Array arange(double stop, DType dtype = DType::f32, Where where = Where::current());
  static Array arange(double start, double stop, double step = 1, DType dtype = DType::f32,
                      Where where = Where::current());
  /// `count` values from start to stop, both included.
  static Array linspace(double start, double stop, std::int64_t count, DType dtype = DType::f32,
                        Where where = Where::current());
  static Array eye(std::int64_t size, DType dtype = DType::f32, Where where = Where::current());
  template <Element T>
  static Array scalar(T value, Where where = Where::current()) {
    return copy_of(&value, 1, Shape{}, dtype_of<T>, where);
  }
  template <Element T>
  static Array from(std::initializer_list<T> values, Where where = Where::current()) {
    return copy_of(values.begin(), values.size(), {std::ssize(values)}, dtype_of<T>, where);
  }
  template <Element T>
  static Array from(std::initializer_list<std::initializer_list<T>> rows, Where where = Where::current());
  template <Element T>
  static Array from(std::span<const T> values, const Shape& shape, Where where = Where::current()) {
    return copy_of(values.data(), values.size(), shape, dtype_of<T>, where);
  }
  template <Element T>
  static Array from(const std::vector<T>& values, const Shape& shape, Where where = Where::current());
  template <Element T>
  static Array from(const std::vector<T>& values, Where where = Where::current()) {
    return from(values, Shape{std::ssize(values)}, where);
  }
  /// The caller's own memory, dense and row-major, not copied: a window onto it. The caller keeps it alive.
  static Array borrow(void* data, const Shape& shape, DType dtype, Where where = Where::current());
  /// The same for memory that is only read: copies and views share it, and whoever writes gets memory of its own.
  /// The caller keeps it alive as long as any of them.
  static Array borrow(const void* data, const Shape& shape, DType dtype, Where where = Where::current());

  // What it is.
  DType dtype() const { return dtype_; }
  const Layout& layout() const { return layout_; }
  const Shape& shape() const { return layout_.shape; }
  const Strides& strides() const { return layout_.strides; }
  int rank() const { return layout_.shape.rank(); }
  std::int64_t size(int axis, Where where = Where::current()) const {
    return shape()[detail::checked_axis("size", axis, shape(), where)];
  }
  /// Number of elements.
  std::int64_t count() const { return layout_.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }
  bool is_contiguous() const { return layout_.is_contiguous(); }
  bool is_window() const { return window_; }

  // Elements. T must be the array's element type.
  /// The elements in row-major order; the array must be contiguous.
  template <Element T>
  const T* data(Where where = Where::current()) const {
    require("data", dtype_of<T>, true, where);
    return static_cast<const T*>(first_);
  }
  /// The same for writing. Valid until this array is next copied, viewed or assigned.
  template <Element T>
  T* mutable_data(Where where = Where::current()) {
    require("mutable_data", dtype_of<T>, true, where);
    unshare("mutable_data", where);
    return static_cast<T*>(first_);
  }
  /// One element; negative indices count from the end.
  template <Element T>
  const T& at(const Dims& index, Where where = Where::current()) const {
    require("at", dtype_of<T>, false, where);
    return static_cast<const T*>(first_)[position(index, where)];
  }
  template <Element T>
  T& at(const Dims& index, Where where = Where::current()) {
    require("at", dtype_of<T>, false, where);
    position(index, where);
    unshare("at", where);
    return static_cast<T*>(first_)[position(index, where)];
  }
  /// The only element.
  template <Element T>
  T item(Where where = Where::current()) const {
    require("item", dtype_of<T>, false, where);
    require_one(where);
    return *static_cast<const T*>(first_);
  }
  /// All elements in row-major order, whatever the strides.
  template <Element T>
  std::vector<T> to_vector(Where where = Where::current()) const;

  void fill(double value, Where where = Where::current());
  /// Writes source's elements, broadcast and converted, to this array's. They may share memory.
  void copy_from(const Array& source, Where where = Where::current());

  // Views: the same memory, shown in another way (see Layout for what each means).
  Array slice(int axis, Bound start, Bound stop, std::int64_t step = 1, Where where = Where::current()) const {
    return share(layout_.slice(axis, start, stop, step, where), where);
  }
  Array select(int axis, std::int64_t index, Where where = Where::current()) const {
    return share(layout_.select(axis, index, where), where);
  }
  Array permute(const Dims& axes, Where where = Where::current()) const {
    return share(layout_.permute(axes, where), where);
  }
  Array transpose(Where where = Where::current()) const { return share(layout_.transpose(), where); }
  Array transpose(int axis_a, int axis_b, Where where = Where::current()) const {
    return share(layout_.transpose(axis_a, axis_b, where), where);
  }
  Array expand_dims(int axis, Where where = Where::current()) const {
    return share(layout_.expand_dims(axis, where), where);
  }
  Array squeeze(Where where = Where::current()) const { return share(layout_.squeeze(), where); }
  Array squeeze(int axis, Where where = Where::current()) const { return share(layout_.squeeze(axis, where), where); }
  Array broadcast_to(const Shape& target, Where where = Where::current()) const {
    return share(layout_.broadcast_to(target, where), where);
  }
  Array diagonal(int axis_a = 0, int axis_b = 1, Where where = Where::current()) const {
    return share(layout_.diagonal(axis_a, axis_b, where), where);
  }
  /// A view where strides can express it, a copy otherwise. One size may be -1.
  Array reshape(const Shape& target, Where where = Where::current()) const;
  Array flatten(Where where = Where::current()) const { return reshape({-1}, where); }

  // Windows: views that share their writes with this array.
  Array window(Where where = Where::current()) {
    unshare("window", where);
    return window_on(layout_, where);
  }
  Array window(int axis, Bound start, Bound stop, std::int64_t step = 1, Where where = Where::current()) {
    unshare("window", where);
    return window_on(detail::slice("window", layout_, axis, start, stop, step, where), where);
  }
  /// Any part: `a.window([](const Layout& all) { return all.transpose().slice(0, 0, 2); })`.
  template <class F>
  requires std::is_invocable_r_v<Layout, F, const Layout&> Array window(F part, Where where = Where::current()) {
    unshare("window", where);
    return window_on(part(layout_), where);
  }

  // Copies.
  /// This array if it is contiguous, else a contiguous copy.
  Array contiguous(Where where = Where::current()) const;
  /// A copy with memory of its own.
  Array clone(Where where = Where::current()) const;
  /// Converted: to integers by cutting the fraction off, values outside the new type's range become the nearest in it,
  /// NaN becomes 0; to bool by "is not 0". The same type gives this array.
  Array astype(DType dtype, Where where = Where::current()) const;

 private:
  friend struct detail::ArrayAccess;

  Array(Layout layout, DType dtype, detail::Buffer* adopted, bool window);
  static Array make(std::string_view op, const Shape& shape, DType dtype, const Where& where);
  static Array copy_of(const void* values, std::size_t count, const Shape& shape, DType dtype, const Where& where);

  void require(const char* op, DType asked, bool dense, const Where& where) const;
  void require_one(const Where& where) const;
  std::int64_t position(const Dims& index, const Where& where) const;
  bool has_windows() const;
  void unshare(std::string_view op, const Where& where);
  Array share(const Layout& layout, const Where& where) const;
  Array dense_copy(std::string_view op, const Layout& layout, DType dtype, const Where& where) const;
  Array window_on(const Layout& layout, const Where& where);
  void copy_elements_to(void* dense, DType dtype) const;
  void drop() noexcept;

  Layout layout_;
  void* first_ = nullptr;  // element [0,...,0]
  detail::Buffer* buffer_ = nullptr;
  DType dtype_ = DType::f32;
  bool window_ = false;
};

/// What an op writes to: an array, or a window made on the spot, `add(a.window(0, 0, 2), b, c)`. Any other temporary
/// would lose the result, so it is an error.
class Destination {
 public:
  Destination(Array& array) : array_(array) {}
  Destination(Array&& window, Location where = Location::current());
  operator Array&() const { return array_; }

 private:
  Array& array_;
};

/// Same type, shape and bits of every element (so -0 is not 0, and a NaN is itself).
bool identical(const Array& a, const Array& b);
/// |a - b| <= atol + rtol * |b| everywhere, in double; a NaN is close to nothing. Shapes must agree, types need not.
bool allclose(const Array& a, const Array& b, double rtol = 1e-5, double atol = 1e-8,
              Location where = Location::current());
/// The elements in brackets and aligned columns, then type and shape. Large arrays are cut to the ends of each axis.
std::string to_string(const Array& array);
std::ostream& operator<<(std::ostream& out, const Array& array);

namespace detail {
[[noreturn]] void ragged_rows(std::size_t row, std::size_t size, std::size_t expected, Location where);

/// For the engine: memory without the user's checks. Strides are array.strides(), in elements.
struct ArrayAccess {
  /// Element [0,...,0]; nullptr if there are no elements.
  static const void* read(const Array& a) { return a.first_; }
  /// The same for writing, after giving `a` memory of its own where it must. This may change a's strides: read them
  /// afterwards.
  static void* write(Array& a, std::string_view op, Location where) {
    a.unshare(op, where);
    return a.first_;
  }
  /// The same without asking whether anyone else sees the write.
  static void* write_shared(Array& a) { return a.first_; }
  /// True if a and b touch the same stretch of memory. Two views that interleave count as overlapping.
  static bool overlap(const Array& a, const Array& b);
  /// True if each index means the same element in both: an elementwise op may then run in place.
  static bool same_elements(const Array& a, const Array& b);
};
}  // namespace detail

template <Element T>
Array Array::from(std::initializer_list<std::initializer_list<T>> rows, Where where) {
  std::vector<T> values;
  const std::size_t columns = rows.size() ? rows.begin()->size() : 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto& row = rows.begin()[r];
    if (row.size() != columns) detail::ragged_rows(r, row.size(), columns, where);
    values.insert(values.end(), row.begin(), row.end());
  }
  return from(values, {std::ssize(rows), static_cast<std::int64_t>(columns)}, where);
}

template <Element T>
Array Array::from(const std::vector<T>& values, const Shape& shape, Where where) {
  if constexpr (std::is_same_v<T, bool>) {
    const auto unpacked = std::make_unique<bool[]>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) unpacked[i] = values[i];
    return copy_of(unpacked.get(), values.size(), shape, dtype_of<T>, where);
  } else {
    return copy_of(values.data(), values.size(), shape, dtype_of<T>, where);
  }
}

template <Element T>
std::vector<T> Array::to_vector(Where where) const {
  require("to_vector", dtype_of<T>, false, where);
  const auto n = static_cast<std::size_t>(count());
  if constexpr (std::is_same_v<T, bool>) {
    const auto unpacked = std::make_unique<bool[]>(n);
    copy_elements_to(unpacked.get(), dtype_);
    return std::vector<T>(unpacked.get(), unpacked.get() + n);
  } else {
    std::vector<T> values(n);
    copy_elements_to(values.data(), dtype_);
    return values;
  }
}

}  // namespace wr
