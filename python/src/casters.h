// What lets bound functions take and give shapes, element types and axes as Python writes them.
#pragma once

#include <nanobind/stl/map.h>

#include "convert.h"
#include "windrow/checkpoint.h"

namespace nanobind::detail {

/// A dict, as the map that it is.
template <class Value>
struct type_caster<wr::ByName<Value>> : dict_caster<wr::ByName<Value>, std::string, Value> {};

template <>
struct type_caster<wr::Dims> {
  NB_TYPE_CASTER(wr::Dims, io_name("int | collections.abc.Sequence[int]", "tuple[int, ...]"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      value = wr::python::dims_from(source);
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(const wr::Dims& dims, rv_policy, cleanup_list*) noexcept {
    return wr::python::to_python(dims).release();
  }
};

template <>
struct type_caster<wr::DType> {
  NB_TYPE_CASTER(wr::DType, io_name("DType | str", "DType"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      value = wr::python::dtype_from(source);
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(wr::DType dtype, rv_policy, cleanup_list*) noexcept {
    return cast(wr::python::Type{dtype}).release();
  }
};

template <>
struct type_caster<wr::Axes> {
  NB_TYPE_CASTER(wr::Axes, io_name("int | collections.abc.Sequence[int] | None", "list[int]"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      value = wr::python::axes_from(source);
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
  static handle from_cpp(const wr::Axes& axes, rv_policy, cleanup_list*) noexcept {
    list out;
    for (int axis : axes.list) out.append(axis);
    return out.release();
  }
};

}  // namespace nanobind::detail
