// Weights that are numbers. Apart from metadata.cpp, which needs no states to be tried on hostile files.
#include <fmt/format.h>

#include <cmath>

#include "apps/common/metadata.h"
#include "windrow/error.h"

namespace wr::apps {
namespace {

template <class T>
std::int64_t first_not_finite(const T* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i])) return i;
  return -1;
}

}  // namespace

void expect_finite(const std::string& path, const std::string& name, const Array& values) {
  const std::int64_t bad = values.dtype() == DType::f32   ? first_not_finite(values.data<float>(), values.count())
                           : values.dtype() == DType::f64 ? first_not_finite(values.data<double>(), values.count())
                                                          : -1;
  if (bad >= 0)
    throw Error(fmt::format("{}: {} has a value that is not finite, element {} of {}", path, name, bad,
                            to_string(Spec{values.dtype(), values.shape()})));
}

void expect_finite(const std::string& path, const CheckpointStates& states) {
  for (const auto& [name, state] : states.all()) expect_finite(path, name, state.value());
}

}  // namespace wr::apps
