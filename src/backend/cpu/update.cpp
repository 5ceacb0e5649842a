// The updates of updates.def, a vector of each operand at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include <array>
#include <utility>

#include "backend/cpu/simd-inl.h"
#include "backend/cpu/update.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// clang-format off
/// The ops of elementwise.def on vectors of this target: what the rows are written in.
namespace parts {
#define WINDROW_UNARY(name, ...) \
  template <class T> HWY_INLINE auto name(T a) { return VectorFormula<ops::Elementwise::name>::evaluate(a); }
#define WINDROW_BINARY(name, ...) \
  template <class T> HWY_INLINE auto name(T a, T b) { return VectorFormula<ops::Elementwise::name>::evaluate(a, b); }
#define WINDROW_TERNARY(name, ...) \
  template <class T> HWY_INLINE auto name(T a, T b, T c) { \
    return VectorFormula<ops::Elementwise::name>::evaluate(a, b, c); \
  }
#define WINDROW_QUINARY(name, ...) \
  template <class T> HWY_INLINE auto name(T a, T b, T c, T d, T e) { \
    return VectorFormula<ops::Elementwise::name>::evaluate(a, b, c, d, e); \
  }
#include "windrow/elementwise.def"

template <ops::Update>
struct VectorUpdate;
#define OPERANDS(...) [__VA_ARGS__]
#define RESULTS(...) __VA_ARGS__
#define WINDROW_UPDATE(name, doc, values, numbers, operands, ...) \
  template <> struct VectorUpdate<ops::Update::name> { \
    static constexpr std::size_t kValues = values, kNumbers = numbers; \
    template <class T> HWY_INLINE static auto evaluate(const std::array<T, kValues + kNumbers>& given) { \
      const auto& operands = given; \
      return std::to_array<T>({__VA_ARGS__}); \
    } \
  };
#include "ir/updates.def"
#undef OPERANDS
#undef RESULTS
}  // namespace parts
// clang-format on

/// One row of updates.def on lanes of T.
template <ops::Update update, class T>
struct UpdateLoop {
  using F = parts::VectorUpdate<update>;
  using V = Simd<T>;
  static constexpr std::size_t kResults = ops::row_of(update).result_count;
  static constexpr std::size_t kRows = kResults + F::kValues;  // operands that have rows
  using Values = std::make_index_sequence<F::kValues>;
  using Numbers = std::make_index_sequence<F::kNumbers>;
  using Results = std::make_index_sequence<kResults>;

  template <std::size_t... v, std::size_t... n, std::size_t... r>
  HWY_INLINE static void row(T* const* at, const std::array<V, F::kNumbers>& number, std::size_t cols,
                             std::index_sequence<v...>, std::index_sequence<n...>, std::index_sequence<r...>) {
    const hn::ScalableTag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + lanes <= cols; i += lanes) {
      const auto made = F::template evaluate<V>({V(hn::LoadU(d, at[kResults + v] + i))..., number[n]...});
      (hn::StoreU(made[r].v, d, at[r] + i), ...);
    }
    if (i == cols) return;
    const std::size_t rest = cols - i;
    const auto made = F::template evaluate<V>({V(load_first(d, at[kResults + v] + i, rest))..., number[n]...});
    (store_first(d, made[r].v, at[r] + i, rest), ...);
  }

  template <std::size_t... n>
  HWY_INLINE static std::array<V, F::kNumbers> load_numbers(void* const* ptr, std::index_sequence<n...>) {
    return {V(hn::Set(hn::ScalableTag<T>(), *static_cast<const T*>(ptr[kRows + n])))...};
  }

  static void run(const UpdateParams& params, void* const* ptr, std::int64_t) {
    const auto number = load_numbers(ptr, Numbers());
    T* at[kRows];
    for (std::size_t k = 0; k < kRows; ++k) at[k] = static_cast<T*>(ptr[k]);
    for (std::int64_t row0 = 0; row0 < params.rows; ++row0) {
      row(at, number, static_cast<std::size_t>(params.cols), Values(), Numbers(), Results());
      for (std::size_t k = 0; k < kRows; ++k) at[k] += params.row_stride[k];
    }
  }
};

UpdateKernel find_update(ops::Update update, DType dtype) {
  switch (update) {
#define WINDROW_UPDATE(name, ...)                                           \
  case ops::Update::name:                                                   \
    return dtype == DType::f32 ? &UpdateLoop<ops::Update::name, float>::run \
                               : &UpdateLoop<ops::Update::name, double>::run;
#include "ir/updates.def"
  }
  return nullptr;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

UpdateKernel find_update(ops::Update update, DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_update(update, dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif
