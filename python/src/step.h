// What a compiled Python function holds: the function, and a plan for each shape of arguments it was called with.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "convert.h"

namespace wr::python {

struct Plan {
  std::vector<Spec> specs;
  nb::object statics;  // keyword arguments, a dict; invalid for none
  wr::Step step;
  nb::object result;  // the shape of what the function returned, tensors by number
  std::size_t outputs = 0;
  bool single = false;            // one tensor
  std::vector<Array> bound;       // the last call's arguments
  std::vector<const void*> data;  // and where they stand
  std::vector<const Array*> pointers;
  std::uint64_t used = 0;  // the call that used it last
};

struct Function {
  nb::object fn;
  CompileOptions options;
  std::vector<std::unique_ptr<Plan>> plans;
  Plan* last = nullptr;
  std::uint64_t calls = 0;
  std::size_t compiled = 0;
  std::recursive_mutex running;  // a function may call itself on arrays while it is traced
};

}  // namespace wr::python
