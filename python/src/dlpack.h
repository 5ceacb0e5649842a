// The structures of DLPack 1.x, by which array libraries show each other their memory, as its specification lays them
// out (https://dmlc.github.io/dlpack). Only what is used here.
#pragma once

#include <cstdint>

#include "windrow/windrow.h"

namespace wr::python::dlpack {

inline constexpr std::int32_t kCpu = 1;
enum Code : std::uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBool = 6 };

struct Tensor {
  void* data;
  struct {
    std::int32_t type, id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

/// Row-major memory of an element type of ours.
inline Tensor dense(void* data, DType dtype, std::int32_t rank, std::int64_t* shape) {
  constexpr std::uint8_t codes[] = {kFloat, kFloat, kInt, kUnsigned, kBool};
  return {data,  {kCpu, 0}, rank, {codes[static_cast<int>(dtype)], static_cast<std::uint8_t>(size_of(dtype) * 8), 1},
          shape, nullptr,   0};
}

struct Version {
  std::uint32_t major, minor;
};
struct Managed {  // before 1.0
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};
inline constexpr std::uint64_t kReadOnly = 1;

/// What a type offers as __dlpack_c_exchange_api__ (from 1.2 on): its tensors without a Python call.
struct ExchangeApi {
  struct {
    Version version;
    void* previous;
  } header;
  void* allocate;
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*managed_to_object)(ManagedVersioned* tensor, void** out);
  int (*tensor_from_object)(void* object, Tensor* out);  // not owned: valid while the object is
  void* current_stream;
};

}  // namespace wr::python::dlpack
