// The updates of updates.def, a vector of each operand at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/update.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
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

/// The same on entries of a table, of which few have a gradient.
template <ops::Update update, class T>
struct UpdateRowsLoop {
  using Loop = UpdateLoop<update, T>;
  using F = typename Loop::F;
  using V = Simd<T>;
  static constexpr std::size_t kResults = Loop::kResults, kKept = F::kValues - 1;
  using Order = std::make_index_sequence<kKept>;

  const UpdateRowsParams& params;
  T* result[kResults];
  const T* value[kKept];
  const std::int32_t* entry;
  const std::int32_t* at;
  const T* gradient;
  std::array<V, F::kNumbers> number;
  T* sum;
  bool in_place, zero_changes_nothing;

  UpdateRowsLoop(const UpdateRowsParams& p, void* const* ptr) : params(p), number(numbers(ptr + kResults + kKept + 2)) {
    for (std::size_t r = 0; r < kResults; ++r) result[r] = static_cast<T*>(ptr[r]);
    in_place = true;
    for (std::size_t k = 0; k < kKept; ++k) value[k] = static_cast<const T*>(ptr[kResults + k]);
    for (std::size_t r = 0; r < kResults; ++r) in_place = in_place && result[r] == value[r];
    entry = static_cast<const std::int32_t*>(ptr[kResults + kKept]);
    at = entry + p.count;
    gradient = static_cast<const T*>(ptr[kResults + kKept + 1]);
    sum = static_cast<T*>(ptr[kResults + kKept + 2 + F::kNumbers]);
    zero_changes_nothing = keeps_ones();
  }

  static std::array<V, F::kNumbers> numbers(void* const* ptr) {
    return [&]<std::size_t... n>(std::index_sequence<n...>) {
      return std::array<V, F::kNumbers>{V(hn::Set(hn::ScalableTag<T>(), *static_cast<const T*>(ptr[n])))...};
    }
    (typename Loop::Numbers());
  }

  template <std::size_t... k, std::size_t... n>
  HWY_INLINE auto made(const std::array<V, kKept>& of, V g, std::index_sequence<k...>,
                       std::index_sequence<n...>) const {
    return F::template evaluate<V>({of[k]..., g, number[n]...});
  }

  /// Results are linear in the parameter: what leaves 1 as it is where all else is 0, leaves every parameter.
  bool keeps_ones() const {
    const hn::ScalableTag<T> d;
    const V zero(hn::Zero(d)), one(hn::Set(d, T(1)));
    std::array<V, kKept> of = filled(zero, Order());
    of[0] = one;
    const auto now = made(of, zero, Order(), typename Loop::Numbers());
    bool same = true;
    for (std::size_t r = 0; r < kResults; ++r) same = same && hn::AllTrue(d, hn::Eq(now[r].v, of[r].v));
    return same;
  }
  template <std::size_t... k>
  static std::array<V, kKept> filled(V v, std::index_sequence<k...>) {
    return {((void)k, v)...};
  }

  /// `cols` elements from `first` on with the gradient g, or with none.
  HWY_INLINE void some(std::int64_t first, std::int64_t cols, const T* g) const {
    some(first, cols, g, Order(), std::make_index_sequence<kResults>());
  }
  template <std::size_t... k, std::size_t... r>
  HWY_INLINE void some(std::int64_t first, std::int64_t cols, const T* g, std::index_sequence<k...>,
                       std::index_sequence<r...>) const {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= cols; i += lanes) {
      const V gradient_here(g ? hn::LoadU(d, g + i) : hn::Zero(d));
      const auto now =
          made({V(hn::LoadU(d, value[k] + first + i))...}, gradient_here, Order(), typename Loop::Numbers());
      (hn::StoreU(now[r].v, d, result[r] + first + i), ...);
    }
    if (i == cols) return;
    const auto rest = static_cast<std::size_t>(cols - i);
    const V gradient_here(g ? load_first(d, g + i, rest) : hn::Zero(d));
    const auto now =
        made({V(load_first(d, value[k] + first + i, rest))...}, gradient_here, Order(), typename Loop::Numbers());
    (store_first(d, now[r].v, result[r] + first + i, rest), ...);
  }

  /// Elements without a gradient.
  void idle(std::int64_t first, std::int64_t count) const {
    if (count == 0) return;
    if (params.touched_only) {
      for (std::size_t r = 0; r < kResults && !in_place; ++r)
        std::memcpy(result[r] + first, value[r] + first, static_cast<std::size_t>(count) * sizeof(T));
      return;
    }
    if (!in_place || !zero_changes_nothing) return some(first, count, nullptr);
    if constexpr (kKept > 1) {
      constexpr std::int64_t kTogether = 64 / sizeof(T);  // a line of memory
      for (std::int64_t i = 0; i < count; i += kTogether) {
        const std::int64_t n = std::min(kTogether, count - i);
        if (n < kTogether || !memories_are_zero<kTogether>(first + i)) some(first + i, n, nullptr);
      }
    }
  }

  template <std::int64_t kCount>
  HWY_INLINE bool memories_are_zero(std::int64_t first) const {
    const hn::ScalableTag<T> d;
    const hn::RebindToUnsigned<decltype(d)> bits;
    auto any = hn::Zero(bits);
    for (std::size_t k = 1; k < kKept; ++k)
      for (std::int64_t i = 0; i < kCount; i += static_cast<std::int64_t>(hn::Lanes(d)))
        any = hn::Or(any, hn::BitCast(bits, hn::LoadU(d, value[k] + first + i)));
    return hn::AllTrue(bits, hn::Eq(any, hn::Zero(bits)));
  }

  /// The sum of the rows that go where number i goes; i moves behind them.
  const T* gradient_of(std::int64_t& i) const {
    const std::int64_t first = i, cols = params.cols;
    const T* row = gradient + at[i] / params.terms * cols;
    while (++i < params.count && entry[i] == entry[first]) {
      const T* next = gradient + at[i] / params.terms * cols;
      for (std::int64_t c = 0; c < cols; ++c) sum[c] = row[c] + next[c];
      row = sum;
    }
    return row;
  }

  static void run(const UpdateRowsParams& params, void* const* ptr, std::int64_t row0) {
    const UpdateRowsLoop loop(params, ptr);
    const std::int64_t end = row0 + params.rows, cols = params.cols;
    std::int64_t i = std::lower_bound(loop.entry, loop.entry + params.count, row0) - loop.entry, next = row0;
    while (i < params.count && loop.entry[i] < end) {
      const std::int64_t row = loop.entry[i];
      loop.idle((next - row0) * cols, (row - next) * cols);
      loop.some((row - row0) * cols, cols, loop.gradient_of(i));
      next = row + 1;
    }
    loop.idle((next - row0) * cols, (end - next) * cols);
  }
};

UpdateRowsKernel find_update_rows(ops::Update update, DType dtype) {
  switch (update) {
#define WINDROW_UPDATE(name, ...)                                               \
  case ops::Update::name:                                                       \
    return dtype == DType::f32 ? &UpdateRowsLoop<ops::Update::name, float>::run \
                               : &UpdateRowsLoop<ops::Update::name, double>::run;
#include "ir/updates.def"
  }
  return nullptr;
}

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

UpdateRowsKernel find_update_rows(ops::Update update, DType dtype, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_update_rows(update, dtype))
  return nullptr;
}

}  // namespace wr::cpu
#endif
