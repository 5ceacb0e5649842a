// Elementwise kernels of the arithmetic rows of elementwise.def on i32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/map_i32.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include "backend/cpu/map-inl.h"
#include "backend/cpu/map_rows.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {

MapKernel arithmetic_i32(ops::Elementwise op) {
  switch (op) {
#define WINDROW_CASE(name, ...) \
  case ops::Elementwise::name:  \
    return kernel_of_row<ops::Elementwise::name, std::int32_t, std::int32_t>();
#define WINDROW_UNARY WINDROW_CASE
#define WINDROW_BINARY WINDROW_CASE
#define WINDROW_TERNARY WINDROW_CASE
#define WINDROW_QUINARY WINDROW_CASE
#include "windrow/elementwise.def"
#undef WINDROW_CASE
    default:
      return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

MapKernel find_arithmetic_i32(ops::Elementwise op, Target target) {
  WINDROW_RETURN_FOR(target, arithmetic_i32(op))
  return nullptr;
}

}  // namespace wr::cpu
#endif
